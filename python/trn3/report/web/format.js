// Figures for people: units scale with the value, four digits, a thin comma in long numbers.

/** @typedef {[number, string]} Unit how many of the base, name */

/** @type {Unit[]} */
const TIMES = [[1e12, "s"], [1e9, "ms"], [1e6, "us"], [1e3, "ns"], [1, "ps"]];
/** @type {Unit[]} */
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
/** @type {Unit[]} */
const CAPACITIES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
/** @type {Unit[]} */
const RATES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** Formatters by their digits: making one takes longer than a thousand uses. @type {Map<number, Intl.NumberFormat>} */
const FORMATTERS = new Map();

/** A number with commas. @param {number} value @param {number} least digits after the point @param {number} most */
export function formatDigits(value, least, most) {
  const key = least * 32 + most;
  let made = FORMATTERS.get(key);
  if (!made) FORMATTERS.set(key, made = new Intl.NumberFormat("en-US", { minimumFractionDigits: least, maximumFractionDigits: most }));
  return made.format(value);
}

/** A number with at most some digits that count. @param {number} value @param {number} [digits] */
export function formatNumber(value, digits = 4) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "-∞" : "none";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(digits - 2);
  const whole = size < 1 ? 1 : Math.floor(Math.log10(size)) + 1;
  return formatDigits(value, 0, Math.max(0, size < 1 ? digits : digits - whole));
}

/** @param {number} value @param {Unit[]} units @param {number} [digits] */
function scaled(value, units, digits = 4) {
  const size = Math.abs(value);
  // A value that rounds up to the next unit is said in it.
  const unit = units.find(([least]) => size >= least * 0.99995) ?? units[units.length - 1];
  const text = formatNumber(value / unit[0], digits);
  return unit[1] ? `${text} ${unit[1]}` : text;
}

/** @param {number} picoseconds @param {number} [digits] */
export const formatTime = (picoseconds, digits) => (picoseconds === 0 ? "0 ns" : scaled(picoseconds, TIMES, digits));
/** @param {number} bytes of traffic: powers of ten */
export const formatBytes = (bytes) => scaled(bytes, BYTES);
/** @param {number} bytes of a memory: powers of two */
export const formatCapacity = (bytes) => scaled(bytes, CAPACITIES);
/** @param {number} value */
export const formatCount = (value) => formatDigits(Math.round(value), 0, 0);
/** @param {number} share from 0 to 1 */
export const formatShare = (share) => (Number.isFinite(share) ? `${formatNumber(100 * share, share < 0.1 ? 2 : 3)} %` : "none");
/** @param {number} value @param {string} unit such as FLOP/s */
export const formatRate = (value, unit) => {
  const text = scaled(value, RATES);
  return /[A-Z]$/i.test(text) ? text + unit : `${text} ${unit}`;
};

/** The unit for times up to a length, and its size in ps. @param {number} picoseconds @returns {Unit} */
export function timeUnit(picoseconds) {
  return TIMES.find(([size]) => picoseconds >= size) ?? TIMES[TIMES.length - 1];
}

/** Round steps that cut a length into at most some parts. @param {number} length @param {number} parts */
export function roundStep(length, parts) {
  const raw = length / Math.max(1, parts), power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
}

/** Times at which an axis has marks, and their texts in one unit.
 * @param {number} from @param {number} to @param {number} parts @returns {{time: number, text: string}[]} */
export function timeTicks(from, to, parts) {
  const step = Math.max(1, roundStep(to - from, parts));
  const [size, name] = timeUnit(Math.max(Math.abs(to), step));
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  const ticks = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    ticks.push({ time, text: `${formatDigits(time / size, digits, digits)} ${name}` });
  }
  return ticks;
}

/** The last part of a path. @param {string} file */
export const baseName = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);

/** The part of a text that fits a width on a canvas, with an ellipsis where it is cut; empty if nothing would say anything.
 * @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
export function fitText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "" : text.slice(0, low) + "…";
}
