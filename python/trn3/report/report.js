// dom.js
// Elements made with properties and text alone: names of kernels and files never pass as markup.

/** @typedef {Record<string, unknown>} Properties */

/**
 * Make an element. Properties: `class`, `data-*`, `aria-*`, `role`, `for`, `title` and the like
 * become attributes; `on` a table of listeners; anything else a property of the element.
 * @param {string} tag @param {Properties} [properties] @param {...(Node|string|null|undefined)} children
 * @returns {any}
 */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(/** @type {any} */ (value))) made.addEventListener(event, listener);
    } else if (name === "css") {
      for (const [key, text] of Object.entries(/** @type {any} */ (value))) made.style.setProperty(key, text);
    } else if (name in made && !name.includes("-") && name !== "list") /** @type {any} */ (made)[name] = value;
    else made.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map(clean));
  return made;
}

/** Text without what a terminal or a reader would act on: control and direction characters show as signs.
 * @template T @param {T} child @returns {T} */
function clean(child) {
  return typeof child === "string" ? /** @type {any} */ (printable(child)) : child;
}

/** @param {string} text */
function printable(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (sign) => String.fromCharCode(0x2400 + Math.min(sign.charCodeAt(0), 0x21)))
    .replace(/[\u0080-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** @param {Element} parent @param {...(Node|string)} children */
function replace(parent, ...children) {
  parent.replaceChildren(...children.map(clean));
}

/** The element with an id, which the page has. @param {string} id @returns {any} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page lacks #${id}`);
  return found;
}

/** The section of a pane. @param {string} name @returns {HTMLElement} */
function pane(name) {
  const found = document.querySelector(`section[data-pane="${name}"]`);
  if (!found) throw new Error(`the page lacks the pane ${name}`);
  return /** @type {HTMLElement} */ (found);
}

/** The part of a pane below its heading. @param {string} name @returns {HTMLElement} */
function body(name) {
  return /** @type {HTMLElement} */ (pane(name).querySelector(".body"));
}

/** The part of a pane's heading that holds its controls. @param {string} name @returns {HTMLElement} */
function controls(name) {
  return /** @type {HTMLElement} */ (pane(name).querySelector(".controls"));
}

/** Run a function once in the next frame, however often it is asked for. @param {(time: number) => void} work */
function eachFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame((time) => { asked = false; work(time); });
  };
}

/** A list to choose from. @param {string} label @param {[string, string][]} choices value and text
 * @param {(value: string) => void} chosen */
function chooser(label, choices, chosen) {
  const select = element("select", { "aria-label": label, title: label, on: { change: () => chosen(select.value) } },
    ...choices.map(([value, text]) => element("option", { value }, text)));
  return select;
}

/** A button that says whether it is pressed. @param {string} text @param {string} title
 * @param {boolean} pressed @param {(on: boolean) => void} turned */
function toggle(text, title, pressed, turned) {
  const button = element("button", { type: "button", title, "aria-pressed": String(pressed), on: { click: () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    turned(on);
  } } }, text);
  return button;
}

/** A canvas of the size of its box in the pixels of the screen, and a context that draws in CSS pixels.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function fitCanvas(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(width * scale)), high = Math.max(1, Math.round(height * scale));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** Put text on the clipboard; a page opened from disk may have to do it the old way. @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, class: "offscreen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// format.js
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
function formatDigits(value, least, most) {
  const key = least * 32 + most;
  let made = FORMATTERS.get(key);
  if (!made) FORMATTERS.set(key, made = new Intl.NumberFormat("en-US", { minimumFractionDigits: least, maximumFractionDigits: most }));
  return made.format(value);
}

/** A number with at most some digits that count. @param {number} value @param {number} [digits] */
function formatNumber(value, digits = 4) {
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
const formatTime = (picoseconds, digits) => (picoseconds === 0 ? "0 ns" : scaled(picoseconds, TIMES, digits));
/** @param {number} bytes of traffic: powers of ten */
const formatBytes = (bytes) => scaled(bytes, BYTES);
/** @param {number} bytes of a memory: powers of two */
const formatCapacity = (bytes) => scaled(bytes, CAPACITIES);
/** @param {number} value */
const formatCount = (value) => formatDigits(Math.round(value), 0, 0);
/** @param {number} share from 0 to 1 */
const formatShare = (share) => (Number.isFinite(share) ? `${formatNumber(100 * share, share < 0.1 ? 2 : 3)} %` : "none");
/** @param {number} value @param {string} unit such as FLOP/s */
const formatRate = (value, unit) => {
  const text = scaled(value, RATES);
  return /[A-Z]$/i.test(text) ? text + unit : `${text} ${unit}`;
};

/** The unit for times up to a length, and its size in ps. @param {number} picoseconds @returns {Unit} */
function timeUnit(picoseconds) {
  return TIMES.find(([size]) => picoseconds >= size) ?? TIMES[TIMES.length - 1];
}

/** Round steps that cut a length into at most some parts. @param {number} length @param {number} parts */
function roundStep(length, parts) {
  const raw = length / Math.max(1, parts), power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
}

/** Times at which an axis has marks, and their texts in one unit.
 * @param {number} from @param {number} to @param {number} parts @returns {{time: number, text: string}[]} */
function timeTicks(from, to, parts) {
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
const baseName = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);

/** The part of a text that fits a width on a canvas, with an ellipsis where it is cut; empty if nothing would say anything.
 * @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fitText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "" : text.slice(0, low) + "…";
}

// advice.js
// Advice: what the page says, with ways to the lines and instructions that it speaks of.


/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
function buildAdvice(model, store) {
  const holder = body("advice"), bound = model.figures.bound_us ?? model.figures.compile?.bound_us, latency = model.figures.latency_us;
  if (bound > 0 && latency > 0) {
    holder.prepend(element("div", { class: "limit" },
      element("p", {}, element("b", {}, formatTime(bound * 1e6)), ` if nothing waited; this run takes `, element("b", {}, formatTime(latency * 1e6)), `: it is at ${formatShare(bound / latency)} of that speed.`),
      element("div", { class: "bar", role: "img", "aria-label": formatShare(bound / latency) }, element("i", { css: { width: `${(100 * bound) / latency}%` } }))));
  }
  for (const item of /** @type {NodeListOf<HTMLElement>} */ (holder.querySelectorAll(".advice li"))) {
    const line = model.lineNamed(item.dataset.line), row = Number(item.dataset.instruction), actions = element("p", { class: "actions" });
    if (item.dataset.cause) actions.append(element("span", { class: "soft" }, `cause: ${item.dataset.cause}`));
    if (line >= 0) actions.append(element("button", { type: "button", on: { click: () => store.select("line", line) } }, `Show ${model.lineText(line)}`));
    if (item.dataset.instruction && row < (model.runs[0]?.count ?? 0)) {
      actions.append(element("button", { type: "button", on: { click: () => store.select("instruction", row) } }, `Show instruction ${row}`));
    }
    item.append(actions);
  }
  store.on("selection", () => {
    const { kind, place } = store.chosen, chosen = kind === "line" ? place : kind === "instruction" ? model.lineOf(place) : -1;
    for (const item of /** @type {NodeListOf<HTMLElement>} */ (holder.querySelectorAll(".advice li"))) {
      item.toggleAttribute("aria-current", chosen >= 0 && model.lineNamed(item.dataset.line) === chosen);
    }
  });
}

// data.js
// What the page carries: the layout as JSON and the columns, decoded when they are first asked for.

/** @typedef {{name: string, coding: string, width: number, at: number, by?: string}} ColumnPlace */
/** @typedef {{rows: number, columns: ColumnPlace[]}} TablePlace */

/** The JSON of a script element of the page, or null where there is none. @param {string} id @returns {any} */
function readJson(id) {
  const holder = document.getElementById(id);
  return holder?.textContent ? JSON.parse(holder.textContent) : null;
}

/** The columns' bytes: base64 of a zlib stream, fed to the browser's decompressor part by part. @param {string} id */
async function readBytes(id) {
  const text = (document.getElementById(id)?.textContent ?? "").trim();
  if (!text) return new Uint8Array(0);
  const stream = new ReadableStream({
    start() { this.at = 0; },
    pull(controller) {
      if (this.at >= text.length) return controller.close();
      // A multiple of four letters is whole bytes.
      const part = atob(text.slice(this.at, this.at + (1 << 20)));
      this.at += 1 << 20;
      const bytes = new Uint8Array(part.length);
      for (let place = 0; place < part.length; place++) bytes[place] = part.charCodeAt(place);
      controller.enqueue(bytes);
    },
  });
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}

/** A table whose columns are decoded on demand. */
class ColumnTable {
  /** @param {Uint8Array} bytes of all columns of the page @param {TablePlace|undefined} place */
  constructor(bytes, place) {
    this.bytes = bytes;
    this.rows = place?.rows ?? 0;
    this.places = new Map((place?.columns ?? []).map((column) => [column.name, column]));
    /** @type {Map<string, any>} */
    this.decoded = new Map();
  }

  /** @param {string} name */
  has(name) {
    return this.places.has(name);
  }

  /** The values of a column; zeros of one that is missing. @param {string} name
   * @returns {Uint8Array|Uint16Array|Uint32Array|Float64Array} */
  column(name) {
    let found = this.decoded.get(name);
    if (!found) {
      const place = this.places.get(name);
      found = place ? this.decode(place) : new Uint8Array(this.rows);
      this.decoded.set(name, found);
    }
    return found;
  }

  /** @param {ColumnPlace} place */
  decode({ at, width, coding, by }) {
    const { bytes, rows } = this;
    if (coding === "plain" && width === 0) return new Uint8Array(rows);
    if (coding === "plain" && width === 1) return bytes.slice(at, at + rows);
    if (width <= 4) {
      const whole = width <= 2 && coding === "plain" ? new Uint16Array(rows) : new Uint32Array(rows);
      for (let plane = 0; plane < width; plane++) {
        const shift = 8 * plane, start = at + plane * rows;
        for (let row = 0; row < rows; row++) whole[row] |= bytes[start + row] << shift;
      }
      return coding === "plain" ? whole : this.sums(whole, by);
    }
    const wide = new Float64Array(rows);
    for (let plane = width - 1; plane >= 0; plane--) {
      const start = at + plane * rows;
      for (let row = 0; row < rows; row++) wide[row] = wide[row] * 256 + bytes[start + row];
    }
    return coding === "plain" ? wide : this.sums(wide, by);
  }

  /** Undo differences: each to the row before of the same kind. @param {ArrayLike<number>} zigzag @param {string|undefined} by */
  sums(zigzag, by) {
    const values = new Float64Array(this.rows), keys = by ? this.column(by) : null;
    const last = new Float64Array(keys ? largest(keys) + 1 : 1);
    for (let row = 0; row < this.rows; row++) {
      const coded = zigzag[row], key = keys ? keys[row] : 0;
      last[key] += coded % 2 ? -(coded + 1) / 2 : coded / 2;
      values[row] = last[key];
    }
    return values;
  }
}

/** @param {ArrayLike<number>} values none of them below 0 */
function largest(values) {
  let most = 0;
  for (let place = 0; place < values.length; place++) if (values[place] > most) most = values[place];
  return most;
}

/** Places by key: those of key k are `places[starts[k]]` up to `places[starts[k + 1]]`, in rising order.
 * @typedef {{starts: Uint32Array, places: Uint32Array}} Groups */

/** @param {ArrayLike<number>} keys @param {number} count how many keys there are @returns {Groups} */
function groupBy(keys, count) {
  const starts = new Uint32Array(count + 2);
  for (let place = 0; place < keys.length; place++) starts[keys[place] + 2]++;
  for (let key = 2; key < starts.length; key++) starts[key] += starts[key - 1];
  const places = new Uint32Array(keys.length);
  for (let place = 0; place < keys.length; place++) places[starts[keys[place] + 1]++] = place;
  return { starts: starts.subarray(0, count + 1), places };
}

/** @param {Groups} groups @param {number} key */
const groupOf = (groups, key) => groups.places.subarray(groups.starts[key], groups.starts[key + 1]);

/** All rows of a table. @param {number} count */
function everyRow(count) {
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  return rows;
}

// fixed_table.js
// Tables that the page has as text: sorted by their heads, filtered by words, copied.


/** Make a table of the page sortable by its heads. @param {HTMLTableElement} table */
function makeSortable(table) {
  const rows = table.tBodies[0], heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  heads.forEach((head, place) => {
    const text = head.textContent ?? "";
    head.replaceChildren(element("button", { type: "button", on: { click: () => {
      const falling = head.getAttribute("aria-sort") === "ascending" || (head.getAttribute("aria-sort") !== "descending" && head.classList.contains("number"));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = (/** @type {HTMLTableRowElement} */ row) => row.cells[place]?.dataset.value ?? row.cells[place]?.textContent ?? "";
      const order = [...rows.rows].sort((one, other) => key(one).localeCompare(key(other), "en", { numeric: true }) || 0);
      const numeric = order.every((row) => key(row) === "" || Number.isFinite(Number(key(row))));
      if (numeric) order.sort((one, other) => Number(key(one) || -Infinity) - Number(key(other) || -Infinity));
      rows.append(...(falling ? order.reverse() : order));
    } } }, text));
  });
}

/** Hide the rows that lack one of some words. @param {HTMLTableElement} table @param {string} text @returns {number} how many are shown */
function filterRows(table, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let seen = 0;
  for (const row of table.tBodies[0]?.rows ?? []) {
    row.hidden = !words.every((word) => (row.textContent ?? "").toLowerCase().includes(word));
    if (!row.hidden) seen += 1;
  }
  return seen;
}

/** Put the heads and the rows that are shown on the clipboard, for a spreadsheet. @param {HTMLTableElement} table @returns {Promise<number>} how many rows */
async function copyRows(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  await copyText(rows.map((row) => [...row.cells].map((cell) => cell.textContent).join("\t")).join("\n"));
  return rows.length - (table.tHead?.rows.length ?? 0);
}

// palette.js
// Colours that stay apart for colour-blind readers (Okabe and Ito's, and kin), for light and dark.

/** Families of instructions: [on light, on dark]. @type {Record<string, [string, string]>} */
const FAMILIES = {
  matmul: ["#0072b2", "#4aa8e0"],
  transpose: ["#56b4e9", "#9ad4f5"],
  "element-wise": ["#009e73", "#2fc39a"],
  reduction: ["#b8a800", "#e6d84a"],
  function: ["#d55e00", "#f0803c"],
  "copy, set": ["#cc79a7", "#e39fc3"],
  quantise: ["#7a3e9d", "#b585d6"],
  "gather, select": ["#8c5a2b", "#c08d5c"],
  DMA: ["#e69f00", "#f2b632"],
  control: ["#5f6b76", "#98a4b0"],
  other: ["#33373d", "#d3d7dd"],
};
/** For what has no family: tensors, lines, regions. @type {[string, string][]} */
const SERIES = [
  ["#0072b2", "#4aa8e0"], ["#e69f00", "#f2b632"], ["#009e73", "#2fc39a"], ["#cc79a7", "#e39fc3"],
  ["#d55e00", "#f0803c"], ["#56b4e9", "#9ad4f5"], ["#b8a800", "#e6d84a"], ["#7a3e9d", "#b585d6"],
  ["#8c5a2b", "#c08d5c"], ["#5f6b76", "#98a4b0"],
];

/**
 * What a wait was for, in groups that differ in hatching as well as in colour.
 * @typedef {{name: string, hatch: string, colour: [string, string]}} WaitGroup
 */
/** @type {WaitGroup[]} */
const WAIT_GROUPS = [
  { name: "idle, no cause recorded", hatch: "none", colour: ["#c9cfd6", "#3c444d"] },
  { name: "waits for an engine's result", hatch: "fall", colour: ["#7d8a98", "#7e8c9b"] },
  { name: "waits for what DMA brings", hatch: "rise", colour: ["#c98f10", "#c4922a"] },
  { name: "waits for a buffer that is still in use", hatch: "upright", colour: ["#2f8f72", "#3f9c80"] },
  { name: "waits to write what others still use", hatch: "posts", colour: ["#5a9c2f", "#6fa645"] },
  { name: "waits for those ahead of it in its queue", hatch: "level", colour: ["#c0562a", "#c86a40"] },
  { name: "waits for a bank or a port", hatch: "cross", colour: ["#a8578f", "#b06a9b"] },
  { name: "waits for a function table", hatch: "grid", colour: ["#6f55b5", "#8d76cf"] },
  { name: "waits as depends_on asks", hatch: "steep", colour: ["#5f6b76", "#98a4b0"] },
  { name: "waits for its DMA queue", hatch: "dashes", colour: ["#b8591a", "#d07f45"] },
  { name: "waits for bandwidth", hatch: "checks", colour: ["#a08a00", "#a8942a"] },
  { name: "waits for another core or rank", hatch: "dots", colour: ["#2f6fb0", "#5585b5"] },
];
const [RESULT, BY_DMA] = [1, 2];
const GROUP_OF_BOUND = new Map([
  ["read after write", RESULT], ["buffer reuse", 3], ["write after use", 4], ["queue order", 5], ["bank", 6], ["table load", 7],
  ["depends_on", 8], ["DMA queue", 9], ["bandwidth", 10], ["meeting", 11],
]);
/** Of runs that do not say what bound their instructions. */
const GROUP_OF_CAUSE = new Map([
  ["nothing", 0], ["dma", BY_DMA], ["issue order", 5], ["PSUM bank", 6], ["table load", 7], ["depends_on", 8], ["DMA queue", 9],
  ["other core", 11], ["other rank", 11],
]);

/** Place in WAIT_GROUPS of what bound an instruction. @param {string} bound @param {string} cause */
function waitGroup(bound, cause) {
  const found = GROUP_OF_BOUND.get(bound) ?? GROUP_OF_CAUSE.get(cause) ?? RESULT;
  return found === RESULT && cause === "dma" ? BY_DMA : found;
}

let dark = false;

/** Whether the page is dark now. */
const isDark = () => dark;

/** @param {boolean} on */
function setDark(on) {
  dark = on;
  variables.clear();
}

/** @param {string} family */
const familyColour = (family) => (FAMILIES[family] ?? FAMILIES.other)[dark ? 1 : 0];
/** @param {number} place */
const seriesColour = (place) => SERIES[place % SERIES.length][dark ? 1 : 0];
/** @param {number} group */
const waitColour = (group) => WAIT_GROUPS[group].colour[dark ? 1 : 0];
/** How many colours a series has before they repeat. */
const SERIES_COUNT = SERIES.length;
const familyNames = () => Object.keys(FAMILIES);

/** @type {Map<string, string>} */
const variables = new Map();

/** A colour that the style sheet names. @param {string} name such as `ink` */
function themeColour(name) {
  let found = variables.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    variables.set(name, found);
  }
  return found;
}

/** @param {string} colour #rrggbb @returns {[number, number, number]} */
function channels(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Black or white, whichever reads better on a colour. @param {string} colour */
function inkOn(colour) {
  const [red, green, blue] = channels(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#101214" : "#ffffff";
}

/** A colour as a pixel of ImageData. @param {string} colour */
function pixelOf(colour) {
  const [red, green, blue] = channels(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A colour between two. @param {string} from @param {string} to @param {number} share of `to` */
function mix(from, to, share) {
  const first = channels(from), second = channels(to);
  return "#" + first.map((value, place) => Math.round(value + (second[place] - value) * share).toString(16).padStart(2, "0")).join("");
}

// bar_chart.js
// Bars beside each other, with their names before and their figures behind them.


/** More rows say nothing any more. */
const MOST_BARS = 60;

/** @param {any} chart @returns {Element[]} */
function barChart(chart) {
  const drawn = chart.rows.slice(0, MOST_BARS), scale = chart.is_log ? (/** @type {number} */ value) => Math.log(Math.max(value, 1e-300)) : (/** @type {number} */ value) => value;
  const places = drawn.flatMap((/** @type {any} */ row) => row.values.map((/** @type {any} */ [value]) => value)).filter((/** @type {any} */ value) => value !== null && (!chart.is_log || value > 0)).map(scale);
  const base = scale(chart.base), low = Math.min(base, ...places), high = Math.max(base, ...places), length = high - low || 1;
  const share = (/** @type {number} */ place) => (100 * (place - low)) / length;
  const single = chart.names.length === 1;
  const rows = drawn.map((/** @type {any} */ row) => element("div", { class: "bar-row" }, element("span", { class: "bar-name", title: row.name }, row.name), element("div", { class: "bar-lines" },
    ...row.values.map((/** @type {any} */ [value, text], /** @type {number} */ place) => {
      const isDrawn = value !== null && (!chart.is_log || value > 0), at = isDrawn ? share(scale(value)) : share(base), from = share(base);
      return element("div", { class: "bar-line", title: single ? text : `${chart.names[place]}: ${text}` }, element("div", { class: "bar-room" },
        element("i", { css: { left: `${Math.min(at, from)}%`, width: `${Math.max(Math.abs(at - from), isDrawn ? 0.3 : 0)}%`, background: seriesColour(place) } }),
        low < base && high > base ? element("u", { css: { left: `${from}%` } }) : null), element("span", { class: "bar-text" }, text || "–"));
    }))));
  const keys = single ? [] : [element("p", { class: "keys" }, ...chart.names.map((/** @type {string} */ name, /** @type {number} */ place) => element("span", {}, element("i", { css: { background: seriesColour(place) } }), name)))];
  const more = chart.rows.length > drawn.length ? [element("p", { class: "soft" }, `The first ${drawn.length} of ${chart.rows.length}; the table has all.`)] : [];
  return [...keys, element("div", { class: "bars", role: "img", "aria-label": `${chart.title}: ${drawn.map((/** @type {any} */ row) => `${row.name} ${row.values.map((/** @type {any} */ [, text]) => text).join(", ")}`).join("; ")}` }, ...rows), ...more];
}

// tip.js
// The one tooltip: a heading and lines of text beside the pointer.


/** @param {{clientX: number, clientY: number}} event @param {string} heading @param {(string|null|undefined)[]} lines */
function showTip(event, heading, lines) {
  const tip = byId("tip");
  replace(tip, element("b", {}, heading), lines.filter(Boolean).join("\n"));
  tip.hidden = false;
  const wide = tip.offsetWidth, high = tip.offsetHeight, room = 14;
  const left = event.clientX + room + wide > innerWidth ? event.clientX - room - wide : event.clientX + room;
  const top = event.clientY + room + high > innerHeight ? event.clientY - room - high : event.clientY + room;
  tip.style.setProperty("left", `${Math.max(2, left)}px`);
  tip.style.setProperty("top", `${Math.max(2, top)}px`);
}

function hideTip() {
  byId("tip").hidden = true;
}

// stack_chart.js
// Bars of one length, each cut into parts; parts of one name have one colour.


/** A smaller share of a bar is drawn with the others of its kind. */
const SMALL_SHARE = 0.015;

/** @param {any} chart @returns {Element[]} */
function stackChart(chart) {
  /** The largest parts have colours of their own. @type {Map<string, number>} */
  const largest = new Map();
  for (const { parts, limit } of chart.rows) {
    const whole = limit ?? parts.reduce((/** @type {number} */ sum, /** @type {any} */ part) => sum + part.value, 0);
    for (const { name, value } of parts) if (whole > 0 && value >= SMALL_SHARE * whole) largest.set(name, Math.max(largest.get(name) ?? 0, value / whole));
  }
  const known = [...largest].sort((one, other) => other[1] - one[1]).slice(0, SERIES_COUNT - 1).map(([name]) => name);
  const colourOf = (/** @type {string} */ name) => (known.includes(name) ? seriesColour(known.indexOf(name)) : "var(--soft)");
  let hasOthers = false;
  const rows = chart.rows.map((/** @type {any} */ row) => {
    const sum = row.parts.reduce((/** @type {number} */ total, /** @type {any} */ part) => total + part.value, 0), whole = Math.max(row.limit ?? sum, sum) || 1;
    const named = row.parts.filter((/** @type {any} */ part) => known.includes(part.name)), others = row.parts.filter((/** @type {any} */ part) => !known.includes(part.name) && part.value > 0);
    const rest = others.reduce((/** @type {number} */ total, /** @type {any} */ part) => total + part.value, 0);
    hasOthers ||= rest > 0;
    const piece = (/** @type {string} */ name, /** @type {number} */ value, /** @type {string[]} */ lines, /** @type {string} */ colour) => element("i", {
      css: { width: `${(100 * value) / whole}%`, background: colour },
      on: { pointermove: (/** @type {PointerEvent} */ event) => showTip(event, name, lines), pointerleave: hideTip } });
    const over = row.limit && sum > row.limit ? " over" : "";
    return element("div", { class: "stack-row" }, element("b", {}, row.name),
      element("div", { class: `split${over}`, role: "img", "aria-label": `${row.name}: ${row.parts.map((/** @type {any} */ part) => `${part.name} ${part.text}`).join(", ")}` },
        ...named.map((/** @type {any} */ part) => piece(part.name, part.value, [part.text, `${formatShare(part.value / whole)} of ${row.name}`], colourOf(part.name))),
        rest > 0 ? piece("others", rest, others.map((/** @type {any} */ part) => `${part.name}: ${part.text}`), "var(--soft)") : null),
      element("span", { class: "number" }, row.text));
  });
  const key = (/** @type {string} */ name, /** @type {string} */ colour) => element("span", {}, element("i", { css: { background: colour } }), name);
  return [...rows, element("p", { class: "keys" }, ...known.map((name) => key(name, colourOf(name))), hasOthers ? key("others", "var(--soft)") : null)];
}

// xy_chart.js
// Lines and marks over two axes, as inline SVG.


const XY_HEIGHT = 320, XY_LEFT = 66, XY_RIGHT = 16, XY_TOP = 10, XY_BOTTOM = 42;
/** How near a pointer must be to a mark, in CSS pixels. */
const XY_NEAR = 24;
/** More marks are drawn as lines alone. */
const MOST_MARKS = 4000;

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children */
function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.map((child) => (typeof child === "string" ? printable(child) : child)));
  return made;
}

/** A scale from values to pixels, with its ticks. @param {number[]} values @param {{is_log: boolean, unit: string}} axis @param {number} from @param {number} to
 * @returns {{place: (value: number) => number, ticks: [number, string][]}} */
function axisScale(values, axis, from, to) {
  const shown = axis.is_log ? values.filter((value) => value > 0) : values;
  let low = shown.reduce((least, value) => Math.min(least, value), Infinity), high = shown.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!Number.isFinite(low)) [low, high] = axis.is_log ? [1, 10] : [0, 1];
  const say = (/** @type {number} */ value) => formatNumber(value) + axis.unit;
  if (axis.is_log) {
    low /= 1.15;
    high *= 1.15;
    const place = (/** @type {number} */ value) => from + (Math.log(Math.max(value, low / 10) / low) / Math.log(high / low)) * (to - from), decades = Math.log10(high / low), ticks = /** @type {[number, string][]} */ ([]);
    if (decades < 0.7) {
      const step = roundStep(high - low, 6);
      for (let count = Math.ceil(low / step); count * step <= high; count++) ticks.push([count * step, say(Number((count * step).toPrecision(12)))]);
      return { place, ticks };
    }
    const factors = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (decades > 9 && power % Math.ceil(decades / 8)) continue;
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) ticks.push([value, say(value)]);
      }
    }
    return { place, ticks };
  }
  // A quantity that is near nothing is drawn from there.
  if (low > 0 && low < 0.4 * high) low = 0;
  const room = (high - low || Math.abs(high) || 1) * 0.03;
  [low, high] = [low === 0 ? 0 : low - room, high + room];
  const step = roundStep(high - low, Math.max(4, Math.abs(to - from) / (from > to ? 50 : 90))), ticks = /** @type {[number, string][]} */ ([]);
  for (let count = Math.ceil(low / step); count * step <= high; count++) ticks.push([count * step, say(Number((count * step).toPrecision(12)))]);
  return { place: (value) => from + ((value - low) / (high - low)) * (to - from), ticks };
}

/** @param {any} chart @param {number} width @returns {Element[]} */
function xyChart(chart, width) {
  const right = Math.max(XY_LEFT + 100, width - XY_RIGHT), bottom = XY_HEIGHT - XY_BOTTOM;
  /** @type {(place: 0|1) => number[]} */
  const all = (place) => chart.series.flatMap((/** @type {any} */ series) => series.points.map((/** @type {any} */ point) => point[place]));
  const x = axisScale(all(0), chart.x, XY_LEFT, right), y = axisScale(all(1), chart.y, bottom, XY_TOP);
  const drawing = shape("svg", { width: right + XY_RIGHT, height: XY_HEIGHT, role: "img", class: "xy" });
  drawing.setAttribute("aria-label", printable(`${chart.title}: ${chart.y.name} over ${chart.x.name}`));
  let last = -Infinity;
  for (const [value, text] of x.ticks) {
    const place = x.place(value);
    drawing.append(shape("line", { class: "grid", x1: place, x2: place, y1: XY_TOP, y2: bottom }));
    if (place - last < 46) continue;
    last = place;
    drawing.append(shape("text", { x: place, y: bottom + 15, "text-anchor": "middle" }, text));
  }
  last = Infinity;
  for (const [value, text] of y.ticks) {
    const place = y.place(value);
    drawing.append(shape("line", { class: "grid", x1: XY_LEFT, x2: right, y1: place, y2: place }));
    if (last - place < 15) continue;
    last = place;
    drawing.append(shape("text", { x: XY_LEFT - 6, y: place + 4, "text-anchor": "end" }, text));
  }
  drawing.append(shape("text", { x: (XY_LEFT + right) / 2, y: XY_HEIGHT - 8, "text-anchor": "middle" }, chart.x.name),
    shape("text", { transform: `translate(12 ${(XY_TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, chart.y.name));
  /** @type {[number, number, string, string][]} */
  const marks = [];
  chart.series.forEach((/** @type {any} */ series, /** @type {number} */ number) => {
    const colour = seriesColour(number), places = series.points.map((/** @type {any} */ [px, py, text]) => [x.place(px), y.place(py), text]);
    const points = series.is_step ? places.flatMap((/** @type {any} */ [px, py], /** @type {number} */ place) => (place ? [[px, places[place - 1][1]], [px, py]] : [[px, py]])) : places;
    if (series.is_line) drawing.append(shape("polyline", { points: points.map((/** @type {any} */ [px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.6 }));
    const isMarked = series.is_marked && places.length <= MOST_MARKS;
    for (const [px, py, text] of places) {
      if (isMarked) drawing.append(shape("circle", { cx: px.toFixed(1), cy: py.toFixed(1), r: series.is_line ? 3.2 : 4.2, fill: colour, class: "mark" }));
      marks.push([px, py, series.name, text]);
    }
  });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = XY_NEAR;
    for (const mark of marks) {
      const off = Math.hypot(mark[0] - px, mark[1] - py);
      if (off < least) { least = off; best = mark; }
    }
    if (best) showTip(event, best[2], best[3].split("\n"));
    else hideTip();
  });
  drawing.addEventListener("pointerleave", hideTip);
  const keys = chart.series.length < 2 ? [] : [element("p", { class: "keys" }, ...chart.series.map((/** @type {any} */ series, /** @type {number} */ number) => element("span", {}, element("i", { css: { background: seriesColour(number) } }), series.name)))];
  return [...keys, drawing];
}

// charts.js
// Drawings of plans, comparisons and the like, from the data of the page's layout: one function for each kind.


/** @param {any} chart @param {number} width in CSS pixels @returns {Element[]} */
function drawChart(chart, width) {
  const draw = /** @type {Record<string, (chart: any, width: number) => Element[]>} */ ({ stacks: stackChart, curves: xyChart, bars: barChart })[chart.kind];
  if (!draw) throw new Error(`no drawing is called ${chart.kind}`);
  return draw(chart, width);
}

// shell.js
// Puts the page's sections into a working shell: the timeline above, source beside the other panes, tools on top.


/** Key figures that name the run. */
const NAMING = ["machine", "level", "instructions"];
/** Panes at the side of the source, in order. */
const SIDE_PANES = ["advice", "memory", "roofline", "tables", "settings"];

/** Give a section a heading with room for controls, and a body of all else. @param {string} name @param {boolean} [canGrow] */
function frame(name, canGrow = true) {
  const section = pane(name), title = section.querySelector("h2") ?? element("h2", {}, name);
  const grow = element("button", { type: "button", class: "grow", title: "As large as the window, or back ( f )", "aria-label": "Larger or smaller", on: { click: () => enlarge(name) } }, "⤢");
  const rest = [...section.childNodes].filter((node) => node !== title);
  section.replaceChildren(element("div", { class: "heading" }, title, element("div", { class: "controls" }), canGrow ? grow : null), element("div", { class: "body" }, ...rest));
  return section;
}

/** Show a pane alone, or all again. @param {string} name */
function enlarge(name) {
  const shell = /** @type {HTMLElement} */ (document.querySelector("main"));
  const group = SIDE_PANES.includes(name) ? "side" : name, wanted = `full-${group}`, was = shell.classList.contains(wanted);
  shell.classList.remove("full-timeline", "full-source", "full-side");
  if (!was) shell.classList.add(wanted);
}

/** Scroll a pane of the side into view. @param {string} name */
function showPane(name) {
  const panes = /** @type {HTMLElement} */ (document.getElementById("side-panes"));
  panes.scrollTo({ top: pane(name).offsetTop });
}

/** @param {string} id @param {"level"|"upright"} kind @param {string} label @param {HTMLElement} sized the part whose size it sets */
function splitter(id, kind, label, sized) {
  const upright = kind === "upright";
  const bar = element("div", { class: `splitter ${kind}`, id, role: "separator", "aria-orientation": upright ? "vertical" : "horizontal", "aria-label": label, tabindex: "0" });
  const set = (/** @type {number} */ pixels) => {
    const room = upright ? bar.parentElement.clientWidth : bar.parentElement.clientHeight;
    sized.style.setProperty("flex", `0 0 ${Math.max(140, Math.min(room - 160, pixels))}px`);
  };
  bar.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    bar.setPointerCapture(event.pointerId);
    const start = upright ? event.clientX : event.clientY, size = upright ? sized.offsetWidth : sized.offsetHeight;
    const move = (/** @type {PointerEvent} */ next) => set(size + (upright ? next.clientX : next.clientY) - start);
    bar.addEventListener("pointermove", move);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
  });
  bar.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ (upright ? { ArrowLeft: -24, ArrowRight: 24 } : { ArrowUp: -24, ArrowDown: 24 })[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    set((upright ? sized.offsetWidth : sized.offsetHeight) + step);
  });
  return bar;
}

/** Key figures as cards; what names the run stands beside its title. @param {HTMLElement} header @returns {HTMLElement[]} */
function cardsOf(header) {
  const list = header.querySelector("dl.key-figures");
  if (!list) return [];
  for (const name of list.querySelectorAll("dt")) {
    const value = name.nextElementSibling, [, most, rest] = /^(.*?)(?: \((.*)\))?$/.exec(value?.textContent ?? "") ?? [];
    value?.replaceChildren(most ?? "");
    list.append(element("div", { class: NAMING.includes(name.textContent ?? "") ? "naming" : "" }, name, value, rest ? element("dd", { class: "band" }, rest) : null));
  }
  return [/** @type {HTMLElement} */ (list)];
}

/** Tools of the header, for every kind of report. */
function buildTools() {
  const header = /** @type {HTMLElement} */ (document.querySelector("header")), title = header.querySelector("h1");
  const search = element("form", { id: "search", role: "search", autocomplete: "off" },
    element("input", { id: "query", type: "search", placeholder: "Search lines, instructions, tensors  ( / )", "aria-label": "Search lines, instructions and tensors", "aria-controls": "hits", spellcheck: false }),
    element("output", { id: "found", "aria-live": "polite" }), element("ol", { id: "hits", hidden: true, role: "listbox" }));
  const bar = element("div", { id: "bar" }, title, element("span", { id: "machine" }), element("span", { id: "choices" }), search,
    element("button", { id: "help", type: "button", title: "Keys and mouse ( ? )" }, "?"),
    element("button", { id: "theme", type: "button", title: "Light or dark ( d )", "aria-label": "Light or dark" }, "◐"));
  const figures = element("div", { id: "figures" }, ...cardsOf(header), ...header.querySelectorAll(".verdict"));
  header.prepend(bar, figures);
  const naming = [...figures.querySelectorAll(".naming")];
  bar.querySelector("#machine")?.append(naming.map((card) => `${card.children[1]?.textContent}${card.children[0].textContent === "instructions" ? (card.children[1]?.textContent === "1" ? " instruction" : " instructions") : ""}`).join(" · "));
  for (const card of naming) card.remove();
  document.body.append(element("div", { id: "tip", role: "tooltip", hidden: true }), element("dialog", { id: "keys", "aria-label": "Keys and mouse" }));
  document.body.classList.add("live");
}

/** Put the panes of a profile beside each other. */
function buildShell() {
  const main = /** @type {HTMLElement} */ (document.querySelector("main")), nav = document.querySelector("nav") ?? element("nav");
  const timeline = frame("timeline"), source = frame("source"), side = SIDE_PANES.map(frame);
  const buttons = SIDE_PANES.map((name) => element("button", { type: "button", "data-goto": name, on: { click: () => showPane(name) } }, pane(name).querySelector("h2")?.textContent ?? name));
  nav.id = "side-nav";
  nav.replaceChildren(...buttons);
  const panes = element("div", { id: "side-panes" }, ...side);
  const lower = element("div", { id: "lower" }, source, splitter("split-columns", "upright", "Width of the source", source), element("div", { id: "side" }, nav, panes));
  main.id = "shell";
  main.replaceChildren(timeline, splitter("split-rows", "level", "Height of the timeline", timeline), lower);
  // What the page says below the timeline is a table like others.
  body("tables").append(...timeline.querySelectorAll("table"));
  markOnScroll(panes, side, buttons);
}

/** Mark the button of the pane that is in view. @param {HTMLElement} holder that scrolls @param {HTMLElement[]} sections @param {HTMLElement[]} buttons */
function markOnScroll(holder, sections, buttons) {
  const mark = () => {
    const top = holder.scrollTop + Math.min(80, holder.clientHeight / 3), isDown = holder.scrollTop + holder.clientHeight > holder.scrollHeight - 2;
    const here = (holder.scrollTop > 0 && isDown ? sections.at(-1) : sections.findLast((section) => section.offsetTop <= top)) ?? sections[0];
    for (const button of buttons) button.setAttribute("aria-current", String(button.dataset.goto === here?.dataset.pane));
  };
  holder.addEventListener("scroll", mark, { passive: true });
  mark();
}

// theme.js
// Light or dark: as the system says, until the switch says otherwise.


/** @param {() => void} changed @returns {() => void} turns it */
function buildTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (/** @type {boolean} */ dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    setDark(dark);
    changed();
  };
  let follows = true;
  system.addEventListener("change", () => { if (follows) set(system.matches); });
  const turn = () => {
    follows = false;
    set(!isDark());
  };
  byId("theme").addEventListener("click", turn);
  set(system.matches);
  return turn;
}

// general.js
// Reports of plans, comparisons and the like: panes below each other, drawings above their tables.


/** A table of fewer rows needs no filter. */
const FEW_ROWS = 6;

/** Let the tables of a pane be sorted, filtered and copied. @param {string} name */
function addTableTools(name) {
  const tables = /** @type {HTMLTableElement[]} */ ([...body(name).querySelectorAll("table[data-table]")]);
  if (!tables.length) return;
  for (const table of tables) {
    makeSortable(table);
    const holder = element("div", { class: "table-scroll" });
    table.replaceWith(holder);
    holder.append(table);
  }
  const rows = tables.reduce((sum, table) => sum + (table.tBodies[0]?.rows.length ?? 0), 0);
  const count = element("span", { class: "soft wide number", "aria-live": "polite" });
  const say = (/** @type {number} */ seen, /** @type {string} */ more = "") => { count.textContent = `${formatCount(seen)} row${seen === 1 ? "" : "s"}${more}`; };
  const query = element("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${name}`, spellcheck: false, hidden: rows < FEW_ROWS,
    on: { input: () => say(tables.reduce((sum, table) => sum + filterRows(table, query.value), 0)) } });
  const copy = async () => {
    let copied = 0;
    for (const table of tables) copied += await copyRows(table);
    say(copied, " copied");
  };
  controls(name).append(query, ...(tables.length === 1 ? [element("button", { type: "button", title: "Copy the rows that are shown, for a spreadsheet", on: { click: copy } }, "Copy")] : []), count);
  say(rows);
  if (tables.length > 1) {
    for (const table of tables) {
      const own = element("button", { type: "button", title: "Copy the rows of this table that are shown, for a spreadsheet", on: { click: async () => { say(await copyRows(table), " copied"); } } }, "Copy");
      table.caption?.append(" ", own);
    }
  }
}

/** @param {any} chart @param {(listener: () => void) => void} onTheme */
function addChart(chart, onTheme) {
  const stage = body(chart.pane).querySelector("[data-stage]"), drawing = element("div", { class: "drawing" });
  stage?.append(element("figure", { "data-chart": chart.kind }, element("figcaption", {}, chart.title), drawing, chart.note ? element("p", { class: "soft" }, chart.note) : null));
  const draw = () => drawing.replaceChildren(...drawChart(chart, drawing.clientWidth)), again = eachFrame(draw);
  let width = 0;
  new ResizeObserver(() => {
    if (drawing.clientWidth !== width) again();
    width = drawing.clientWidth;
  }).observe(drawing);
  onTheme(again);
  draw();
}

/** @param {any} layout */
function buildGeneral(layout) {
  const main = /** @type {HTMLElement} */ (document.querySelector("main")), nav = document.querySelector("nav") ?? element("nav");
  const sections = /** @type {HTMLElement[]} */ ([...main.querySelectorAll("section[data-pane]")]);
  const names = sections.map((section) => section.dataset.pane ?? "");
  const show = (/** @type {HTMLElement} */ section) => main.scrollTo({ top: section.offsetTop });
  const buttons = sections.map((section, place) => element("button", { type: "button", "data-goto": names[place], title: `( ${place + 1} )`, on: { click: () => show(section) } },
    section.querySelector("h2")?.textContent ?? names[place]));
  for (const name of names) frame(name, false);
  main.id = "panes";
  nav.id = "side-nav";
  nav.replaceChildren(...buttons);
  /** @type {(() => void)[]} */
  const listeners = [];
  const turnTheme = buildTheme(() => { for (const listener of listeners) listener(); });
  for (const name of names) {
    const isDrawn = layout.charts.some((/** @type {any} */ chart) => chart.pane === name), stage = body(name).querySelector("[data-stage]");
    body(name).replaceChildren(element("div", { class: "said-side" }, ...[...body(name).childNodes].filter((node) => node !== stage)));
    if (isDrawn && stage) body(name).prepend(stage);
    addTableTools(name);
  }
  for (const chart of layout.charts) addChart(chart, (listener) => listeners.push(listener));
  markOnScroll(main, sections, buttons);
  // What a cell has no room for is said by its tip.
  main.addEventListener("pointerover", (event) => {
    const cell = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("td"));
    if (cell && !cell.title && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent ?? "";
  });
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
    const section = sections[Number(event.key) - 1];
    if (section) show(section);
    else if (event.key === "d") turnTheme();
    else if (event.key === "/") {
      const query = /** @type {HTMLElement|undefined} */ ([...main.querySelectorAll("input[type=search]:not([hidden])")].find((box) => box.getBoundingClientRect().bottom > main.getBoundingClientRect().top));
      query?.focus();
      event.preventDefault();
    }
  });
}

// raster.js
// A board of pixels that bars and hatching are put on: what a frame costs does not depend on how many there are.


/** A small square that repeats. @typedef {{size: number, pixels: Uint32Array}} Tile */

/** Hatching as a tile. @param {string} hatch @param {string} ground @param {string} line colours @param {number} scale of CSS pixels @returns {Tile} */
function makeTile(hatch, ground, line, scale) {
  const size = 2 * Math.round(3.5 * scale), half = size / 2, thick = Math.max(1, Math.round(1.2 * scale));
  const pixels = new Uint32Array(size * size).fill(pixelOf(ground)), ink = pixelOf(line);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const rise = (x + y) % size < thick, fall = (x - y + size) % size < thick;
      const dot = y % half < thick + 1 && (x + (y < half ? 0 : half)) % size < thick + 1;
      const level = y % half < thick, upright = x % half < thick;
      const on = {
        rise, fall, level, upright, cross: rise || fall, dots: dot, grid: y % size < thick || x % size < thick, steep: (2 * x + y) % size < thick + 1,
        dashes: level && (x + (y < half ? 0 : half)) % size < half + 1, posts: upright && (y + (x < half ? 0 : half)) % size < half + 1, checks: y < half === x < half,
      }[hatch];
      if (on) pixels[y * size + x] = ink;
    }
  }
  return { size, pixels };
}

class PixelBoard {
  constructor() {
    this.width = 0;
    this.height = 0;
    this.image = new ImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {number} width in pixels of the screen @param {number} height */
  resize(width, height) {
    if (width === this.width && height === this.height) return;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.image = new ImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {number} pixel */
  clear(pixel) {
    this.pixels.fill(pixel);
  }

  /** Fill from x0 up to x1, y0 up to y1. @param {number} x0 @param {number} x1 @param {number} y0 @param {number} y1 @param {number} pixel */
  fill(x0, x1, y0, y1, pixel) {
    const { width, pixels } = this, left = Math.max(0, x0), right = Math.min(width, x1), bottom = Math.min(this.height, y1);
    if (left >= right) return;
    if (right - left < 8) {
      for (let y = Math.max(0, y0); y < bottom; y++) for (let x = y * width + left, end = y * width + right; x < end; x++) pixels[x] = pixel;
    } else for (let y = Math.max(0, y0); y < bottom; y++) pixels.fill(pixel, y * width + left, y * width + right);
  }

  /** @param {number} x0 @param {number} x1 @param {number} y0 @param {number} y1 @param {Tile} tile */
  hatch(x0, x1, y0, y1, tile) {
    const { width, pixels } = this, left = Math.max(0, x0), right = Math.min(width, x1), bottom = Math.min(this.height, y1);
    for (let y = Math.max(0, y0); y < bottom; y++) {
      const row = y * width, from = (y % tile.size) * tile.size;
      for (let x = left, phase = left % tile.size; x < right; x++) {
        pixels[row + x] = tile.pixels[from + phase];
        if (++phase === tile.size) phase = 0;
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y in pixels of the screen */
  show(context, x, y) {
    context.putImageData(this.image, x, y);
  }
}

// inspector.js
// What is selected, in words, beside the timeline; and what its colours and hatching mean.


/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./store.js").Store} Store */

const USAGES = ["reads", "stationary", "writes", "updates"];

/** @param {Model} model @param {Store} store @param {import("./timeline.js").Timeline} timeline */
function buildInspector(model, store, timeline) {
  const aside = element("aside", { id: "inspector", "aria-label": "Selection and legend", "aria-live": "polite" });
  body("timeline").append(aside);
  const show = () => {
    const { kind, place } = store.chosen;
    const parts = kind === "instruction" ? describeInstruction(model, store, place)
      : kind === "line" ? describeLine(model, store, place) : kind === "tensor" ? describeTensor(model, store, place) : describeNothing();
    if (kind !== "none") {
      parts.push(element("div", { class: "actions" },
        element("button", { type: "button", title: "z", on: { click: () => timeline.zoomToSelection() } }, "Zoom to it"),
        element("button", { type: "button", title: "Backspace", on: { click: () => store.back() } }, "Back"),
        element("button", { type: "button", title: "Escape", on: { click: () => store.select("none") } }, "Clear")));
    }
    replace(aside, ...parts, ...legend(model));
    aside.scrollTop = 0;
  };
  store.on("selection", show);
  store.on("theme", show);
  show();
}

function describeNothing() {
  return [element("p", { class: "soft" }, "Click a bar, a line of source, a rectangle of memory or a row of a table: the other panes follow. Wheel zooms, drag pans, ? lists the keys.")];
}

/** Pairs of name and value; pairs without a value are left out. @param {[string, string|Node|null|undefined|false][]} pairs */
function pairs(pairs) {
  return element("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, /** @type {any} */ (value))]));
}

/** @param {string} text @param {() => void} click @param {string} [title] */
function link(text, click, title = "") {
  return element("button", { type: "button", class: "link", title, on: { click } }, text);
}

/** Name of an instruction for people. @param {Model} model @param {number} id */
function instructionText(model, id) {
  const [run, row] = model.find(id), { opcodes, labels } = model.layout;
  const label = labels?.[run.column("label")[row]];
  return `${label || opcodes[run.column("opcode")[row]]} #${row}`;
}

/** @param {Model} model @param {Store} store @param {number} id */
function describeInstruction(model, store, id) {
  const [run, row] = model.find(id), { layout } = model, value = (/** @type {string} */ name) => run.column(name)[row];
  const opcode = layout.opcodes[value("opcode")], label = layout.labels?.[value("label")], stream = run.place.streams[value("stream")];
  const line = model.lineOf(id), cause = (layout.cause_words ?? layout.causes)[value("cause")], bound = model.boundText(run, row);
  const before = model.before(id), first = before.find(({ binds }) => binds), ready = value("ready") + run.origin;
  const start = value("start") + run.origin, slot = value("slot"), length = value("length"), wait = value("wait");
  const bytes = value("dma_bytes"), macs = value("macs");
  return [
    element("h3", { title: label || opcode }, label || opcode),
    element("p", { class: "soft" }, `${label ? `${opcode}, ` : ""}instruction ${formatCount(row)} of ${formatCount(run.count)} on ${stream.name}${model.runs.length > 1 ? `, ${run.title}` : ""}`),
    pairs([
      ["line", model.lines[line]?.number ? link(model.lineText(line), () => store.select("line", line), "Show the line and all its instructions") : "unknown"],
      ["ready", value("bound") !== 0 && `${formatTime(ready, 6)}${start > ready ? `, ${formatTime(start - ready, 5)} before it started` : ""}`],
      ["starts", formatTime(start, 6)],
      ["bound by", value("bound") !== 0 && element("span", {}, `${bound}${first ? ", " : ""}`, first ? link(instructionText(model, first.id), () => store.select("instruction", first.id)) : "")],
      ["holds engine", formatTime(slot, 5)],
      ["result after", length !== slot && formatTime(length, 5)],
      ["waited", wait > 0 && `${formatTime(wait, 5)}${cause && cause !== "nothing" ? `, for ${cause}` : ""}`],
      ["moves", bytes > 0 && `${formatBytes(bytes)}, ${formatBytes((bytes / Math.max(1, length)) * 1e12)}/s`],
      ["HBM", value("hbm_read") + value("hbm_write") > 0 && `${formatBytes(value("hbm_read"))} read, ${formatBytes(value("hbm_write"))} written`],
      ["matmul", macs > 0 && `${formatCount(macs)} multiply-adds`],
      ["critical path", value("critical") ? "yes" : "no"],
    ]),
    ...stackOf(model, store, run, row),
    ...operandsOf(model, store, run, row),
    ...neighbours(model, store, "Depends on", "--arrow-in", before),
    ...neighbours(model, store, "Needed by", "--arrow-out", model.after(id)),
    ...meetingsOf(model, store, id),
  ];
}

/** Calls from the outermost to the instruction. @param {Model} model @param {Store} store @param {import("./model.js").Run} run @param {number} row */
function stackOf(model, store, run, row) {
  const sites = run.instructions.has("stack") ? model.layout.stacks?.[run.column("stack")[row]] ?? [] : [];
  const site = run.column("site")[row], known = sites.length ? sites : [site];
  if (!model.lines[model.lineOfSite[site]]?.number) return [];
  return [element("h3", {}, "Call stack"), element("ol", {}, ...known.map((/** @type {number} */ each) => {
    const line = model.lineOfSite[each], name = model.layout.sites[each][2];
    return element("li", {}, link(model.lineText(line), () => store.select("line", line)), name ? ` in ${name}` : "");
  }))];
}

/** @param {Model} model @param {Store} store @param {import("./model.js").Run} run @param {number} row */
function operandsOf(model, store, run, row) {
  const uses = [...model.operandsOf(run, row)].slice(0, 12);
  if (!uses.length) return [];
  return [element("h3", {}, "Operands"), element("ol", {}, ...uses.map((use) => {
    const tensor = run.uses.column("tensor")[use];
    return element("li", {}, `${USAGES[run.uses.column("usage")[use]]} `, link(tensorText(model, run, tensor), () => store.select("tensor", tensor + run.tensorBase)));
  }))];
}

/** @param {Model} model @param {Store} store @param {string} title @param {string} colour @param {import("./model.js").Neighbour[]} found */
function neighbours(model, store, title, colour, found) {
  if (!found.length) return [];
  const shown = found.slice(0, 6), rest = found.length - shown.length;
  return [element("h3", { css: { color: `var(${colour})` } }, `${title === "Depends on" ? "→ " : ""}${title}${title === "Needed by" ? " →" : ""} (${formatCount(found.length)})`),
    element("ol", {}, ...shown.map(({ id, kind, binds }) => element("li", {}, link(instructionText(model, id), () => store.select("instruction", id)), element("span", { class: "soft" }, ` ${kind}${binds ? ": bound it" : ""}`))),
      rest > 0 ? element("li", { class: "soft" }, `and ${formatCount(rest)} more`) : null)];
}

/** @param {Model} model @param {Store} store @param {number} id */
function meetingsOf(model, store, id) {
  const others = model.meetingOf(id);
  if (!others.length) return [];
  const ready = (/** @type {number} */ each) => { const [run, row] = model.find(each); return run.column("ready")[row] + run.origin; };
  const last = Math.max(ready(id), ...others.map(ready)), rest = others.length - 8;
  return [element("h3", {}, `Meets (${formatCount(others.length)})`), element("ol", {}, ...others.slice(0, 8).map((other) => {
    const [run, row] = model.find(other), early = last - ready(other);
    return element("li", {}, link(`${run.title} #${row}`, () => store.select("instruction", other)), element("span", { class: "soft" }, early > 0 ? ` ${formatTime(early)} before the last` : " came last"));
  }), rest > 0 ? element("li", { class: "soft" }, `and ${formatCount(rest)} more`) : null)];
}

/** Name, shape and dtype of a tensor. @param {Model} model @param {import("./model.js").Run} run @param {number} row */
function tensorText(model, run, row) {
  const { names, shapes, dtypes } = model.layout, of = (/** @type {any[]} */ list, /** @type {string} */ name) => list?.[run.tensors.column(name)[row]];
  const shape = of(shapes, "shape") ?? [];
  return `${of(names, "name") || "(unnamed)"} ${shape.join("×")} ${of(dtypes, "dtype") ?? ""}`;
}

/** @param {Model} model @param {Store} store @param {number} line */
function describeLine(model, store, line) {
  const found = (model.figures.lines ?? []).find((/** @type {any} */ each) => `${each.file}:${each.line}` === model.lines[line]?.name);
  const run = model.runs[0], rows = run ? model.rowsOfLine(run, line) : [], ids = [...rows.subarray?.(0, 8) ?? []];
  const waits = Object.entries(found?.waits ?? {}).sort((one, other) => Number(other[1]) - Number(one[1])).slice(0, 3);
  return [
    element("h3", {}, model.lineText(line)),
    element("p", { class: "soft" }, `${formatCount(model.runs.filter((each) => each.place.is_main).reduce((sum, each) => sum + model.rowsOfLine(each, line).length, 0))} instructions`),
    found ? pairs([
      ["critical path", `${formatTime(found.critical_us * 1e6)}, ${formatShare(found.critical_us / (model.figures.latency_us || 1))} of the latency`],
      ["at work", formatTime(found.slot_us * 1e6)],
      ["waiting", formatTime(found.wait_us * 1e6)],
      ...waits.map(([cause, time]) => /** @type {[string, string]} */ (["", `${cause}: ${formatTime(Number(time) * 1e6)}`])),
      ["HBM", found.hbm_bytes > 0 && formatBytes(found.hbm_bytes)],
    ]) : "",
    ids.length ? element("h3", {}, "Its instructions") : "",
    element("ol", {}, ...ids.map((row) => element("li", {}, link(instructionText(model, row + run.base), () => store.select("instruction", row + run.base)),
      element("span", { class: "soft" }, ` at ${formatTime(run.column("start")[row] + run.origin)}`))),
    rows.length > ids.length ? element("li", { class: "soft" }, `and ${formatCount(rows.length - ids.length)} more: Shift with ← → steps through them`) : null),
  ];
}

/** @param {Model} model @param {Store} store @param {number} tensor */
function describeTensor(model, store, tensor) {
  const [run, row] = model.findTensor(tensor), value = (/** @type {string} */ name) => run.tensors.column(name)[row];
  const memory = model.layout.memories[value("memory")], onChip = memory === "sbuf" || memory === "psum", line = model.lineOfSite[value("site")];
  const users = model.usersOf(tensor);
  return [
    element("h3", {}, tensorText(model, run, row)),
    element("p", { class: "soft" }, `in ${memory.toUpperCase().replace("_", " ")}${model.runs.length > 1 ? `, ${run.title}` : ""}`),
    pairs([
      ["made at", model.lines[line]?.number ? link(model.lineText(line), () => store.select("line", line)) : null],
      ["place", onChip && `partitions ${value("partition")} to ${value("partition") + value("partitions") - 1}, bytes ${formatCount(value("byte"))} to ${formatCount(value("byte") + value("bytes") - 1)}`],
      ["size", onChip ? `${formatCapacity(value("bytes"))} a partition` : formatBytes(value("bytes"))],
      ["held", `${formatTime(value("from") + run.origin)} to ${formatTime(value("to") + run.origin)}`],
      ["used by", `${formatCount(users.length)} instructions`],
    ]),
    element("ol", {}, ...users.slice(0, 8).map((id) => element("li", {}, link(instructionText(model, id), () => store.select("instruction", id))))),
  ];
}

/** @param {Model} model */
function legend(model) {
  const used = new Set(model.layout.families ?? []), causes = new Set();
  for (const run of model.runs) {
    const wait = run.column("wait"), group = model.waitGroups(run), seen = run.once("waits", () => {
      const found = new Uint8Array(WAIT_GROUPS.length);
      for (let row = 0; row < run.count; row++) if (wait[row] > 0) found[group(row)] = 1;
      return [...found.keys()].filter((each) => found[each]);
    });
    for (const each of seen) causes.add(each);
  }
  const swatch = (/** @type {string} */ colour, /** @type {string} */ text) => element("span", {}, element("i", { css: { background: colour } }), text);
  return [
    element("h3", {}, "Bars"), element("div", { class: "legend" }, ...[...used].map((family) => swatch(familyColour(family), family))),
    causes.size ? element("h3", {}, "Hatched: the engine stood idle") : "",
    element("div", { class: "legend single" }, ...[...causes].sort((one, other) => one - other).map((group) => element("span", {}, hatchSwatch(group), WAIT_GROUPS[group].name))),
    element("h3", {}, "Lines"), element("div", { class: "legend single" }, swatch(themeColour("critical"), "critical path: it decides the latency"),
      swatch(themeColour("arrow-in"), "what the selection depends on"), swatch(themeColour("arrow-out"), "what depends on it"), element("span", {}, "thick: what decided the start"), ...(model.layout.meetings.length ? [element("span", {}, "upright: from who came last to a meeting")] : [])),
  ];
}

/** @param {number} group of waits */
function hatchSwatch(group) {
  const canvas = element("canvas"), context = fitCanvas(canvas, 22, 12), paper = themeColour("paper"), colour = waitColour(group);
  const tile = makeTile(WAIT_GROUPS[group].hatch, mix(colour, paper, 0.82), mix(colour, paper, 0.25), devicePixelRatio || 1);
  const image = context.createImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
  for (let place = 0; place < pixels.length; place++) {
    pixels[place] = tile.pixels[(Math.floor(place / canvas.width) % tile.size) * tile.size + ((place % canvas.width) % tile.size)];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// keyboard.js
// Keys for everything that a mouse does.


/** @typedef {{keys: string[], shown: string, text: string, act: () => void}} Command */

/** The next instruction: of the line that is selected, or beside the selected one on its engine.
 * @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {number} step */
function stepInstruction(model, store, step) {
  const { kind, place } = store.chosen;
  if (kind === "line") {
    const run = model.runs.find((each) => model.rowsOfLine(each, place).length), rows = run ? model.rowsOfLine(run, place) : [];
    if (run && rows.length) store.select("instruction", rows[step > 0 ? 0 : rows.length - 1] + run.base);
    return;
  }
  if (kind !== "instruction") {
    if (model.count) store.select("instruction", 0);
    return;
  }
  const [run, row] = model.find(place), line = model.lineOf(place), rows = model.rowsOfLine(run, line), at = rows.indexOf(row) + step;
  if (at >= 0 && at < rows.length) store.select("instruction", rows[at] + run.base);
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store
 * @param {{timeline: import("./timeline.js").Timeline, source: import("./source.js").Source, turnTheme: () => void}} panes */
function buildKeyboard(model, store, { timeline, source, turnTheme }) {
  const part = (/** @type {number} */ share) => share * (store.to - store.from), middle = () => (store.from + store.to) / 2;
  const shown = (/** @type {() => void} */ act) => () => { act(); if (store.chosen.kind === "instruction") timeline.reveal(store.chosen.place); };
  const follow = (/** @type {"before"|"after"} */ way) => shown(() => {
    if (store.chosen.kind !== "instruction") return;
    const next = model[way](store.chosen.place)[0];
    if (next) store.select("instruction", next.id);
  });
  const dialog = byId("keys");
  /** @type {Command[]} */
  const commands = [
    { keys: ["/"], shown: "/", text: "search; Enter goes to the next hit", act: () => byId("query").focus() },
    { keys: ["h"], shown: "h", text: "hottest line, then the next hottest", act: () => source.hottest() },
    { keys: ["S-ArrowRight", "n"], shown: "Shift →  n", text: "next instruction of the line", act: shown(() => stepInstruction(model, store, 1)) },
    { keys: ["S-ArrowLeft", "p"], shown: "Shift ←  p", text: "previous instruction of the line", act: shown(() => stepInstruction(model, store, -1)) },
    { keys: ["["], shown: "[", text: "what the instruction waited for or depends on", act: follow("before") },
    { keys: ["]"], shown: "]", text: "what depends on the instruction", act: follow("after") },
    { keys: ["l"], shown: "l", text: "from the instruction to its line", act: () => { if (store.chosen.kind === "instruction") store.select("line", model.lineOf(store.chosen.place)); } },
    { keys: ["Backspace"], shown: "Backspace", text: "what was selected before", act: () => store.back() },
    { keys: ["Escape"], shown: "Esc", text: "select nothing, measure nothing", act: () => { if (timeline.measuring) timeline.press("Measure"); store.select("none"); } },
    { keys: ["ArrowLeft"], shown: "←", text: "earlier", act: () => store.pan(-part(0.15)) },
    { keys: ["ArrowRight"], shown: "→", text: "later", act: () => store.pan(part(0.15)) },
    { keys: ["+", "="], shown: "+", text: "zoom in", act: () => store.scale(0.6, middle()) },
    { keys: ["-"], shown: "−", text: "zoom out", act: () => store.scale(1 / 0.6, middle()) },
    { keys: ["0"], shown: "0", text: "the whole run", act: () => store.zoom(0, store.length) },
    { keys: ["z"], shown: "z", text: "zoom to the selection", act: () => timeline.zoomToSelection() },
    { keys: ["m"], shown: "m", text: "measure between two points", act: () => timeline.press("Measure") },
    { keys: ["c"], shown: "c", text: "critical path on or off", act: () => timeline.press("Critical path") },
    { keys: ["a"], shown: "a", text: "arrows on or off", act: () => timeline.press("Arrows") },
    { keys: ["f"], shown: "f", text: "timeline as large as the window, or back", act: () => enlarge("timeline") },
    ...SIDE_PANES.map((name, place) => ({ keys: [String(place + 1)], shown: String(place + 1), text: `pane: ${name}`, act: () => showPane(name) })),
    { keys: ["d"], shown: "d", text: "light or dark", act: turnTheme },
    { keys: ["?"], shown: "?", text: "this list", act: () => (dialog.open ? dialog.close() : dialog.showModal()) },
  ];
  const mouse = [["wheel, pinch", "zoom around the pointer"], ["drag, Shift + wheel, two fingers sideways", "pan"], ["wheel over the names of lanes", "scroll the lanes"],
    ["click", "select; on a name with ▸: unfold"], ["double click", "zoom to the bar"], ["drag the strip on top", "jump in the run"]];
  const rows = (/** @type {string[][]} */ list) => list.map(([key, text]) => element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, text)));
  replace(dialog, element("h2", {}, "Keys and mouse"), element("div", { class: "two" },
    element("table", {}, element("tbody", { class: "still" }, ...rows(commands.map(({ shown: key, text }) => [key, text])))),
    element("table", {}, element("tbody", { class: "still" }, ...rows(mouse)))), element("button", { type: "button", on: { click: () => dialog.close() } }, "Close"));
  byId("help").addEventListener("click", () => dialog.showModal());
  const table = new Map(commands.flatMap((command) => command.keys.map((key) => [key, command])));
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
    if (dialog.open && event.key !== "?") return;
    // Panes that scroll keep their arrow keys.
    if (event.key.startsWith("Arrow") && target.closest("#side-panes, .splitter")) return;
    const command = table.get((event.shiftKey && event.key.startsWith("Arrow") ? "S-" : "") + event.key);
    if (!command) return;
    event.preventDefault();
    command.act();
  });
}

// plot.js
// What drawings have in common: a canvas as wide as its pane that is drawn anew when that, the theme or the selection changes.


/** @typedef {{context: CanvasRenderingContext2D, width: number, height: number}} Sheet */

/** @param {Element} parent @param {(room: number) => number} heightIn in CSS pixels, of the height that panes have @param {string} label
 * @param {import("./store.js").Store} store @param {import("./store.js").Topic[]} topics on which to draw anew
 * @param {(sheet: Sheet) => void} draw */
function addPlot(parent, heightIn, label, store, topics, draw) {
  const canvas = element("canvas", { role: "img", tabindex: "0", "aria-label": label }), holder = element("div", { class: "plot" }, canvas);
  parent.append(holder);
  const frame = parent.closest("#side-panes") ?? parent;
  let isSeen = false;
  const again = eachFrame(() => {
    const width = holder.clientWidth - 20, height = heightIn(frame.clientHeight);
    // What is scrolled away is drawn when it comes back.
    if (width < 60 || !isSeen) return;
    const context = fitCanvas(canvas, width, height);
    context.clearRect(0, 0, width, height);
    draw({ context, width, height });
  });
  for (const topic of topics) store.on(topic, again);
  canvas.style.setProperty("height", `${heightIn(frame.clientHeight)}px`);
  const resized = new ResizeObserver(again);
  resized.observe(holder);
  resized.observe(frame);
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    again();
  }).observe(holder);
  return { canvas, holder, again };
}

/** Where an event is on a canvas. @param {HTMLCanvasElement} canvas @param {MouseEvent} event */
function placeOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

// memory.js
// SBUF and PSUM as address over time: a rectangle a tensor, in the time that the timeline shows.


/** @typedef {import("./model.js").Run} Run */

const LEFT = 62, BOTTOM = 20;

class MemoryMap {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {Element} parent @param {number} run @param {any} memory its entry in the layout */
  constructor(model, store, parent, run, memory) {
    this.model = model;
    this.store = store;
    this.run = model.runs[run];
    this.memory = memory;
    this.board = new PixelBoard();
    const { tensors } = this.run, kind = tensors.column("memory"), number = model.layout.memories.indexOf(memory.memory);
    this.rows = [...kind.keys()].filter((row) => kind[row] === number);
    this.used = largest(this.rows.map((row) => tensors.column("byte")[row] + tensors.column("bytes")[row]));
    this.whole = false;
    const [least, most] = memory.memory === "psum" ? [130, 260] : [200, 460], height = (/** @type {number} */ room) => Math.max(least, Math.min(most, room * (most / 760)));
    const { canvas, again } = addPlot(parent, height, `${memory.memory.toUpperCase()}: addresses in use over time`, store, ["view", "selection", "theme"], (sheet) => this.draw(sheet));
    this.again = again;
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      const row = this.at(canvas, placeOn(canvas, event));
      if (row < 0) return hideTip();
      const value = (/** @type {string} */ name) => tensors.column(name)[row];
      showTip(event, tensorText(model, this.run, row), [
        `${formatCapacity(value("bytes"))} of each of ${value("partitions")} partitions, from byte ${value("byte")}`,
        `${formatTime(value("from") + this.run.origin)} to ${formatTime(value("to") + this.run.origin)}`,
        model.lineText(model.lineOfSite[value("site")])]);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const row = this.at(canvas, placeOn(canvas, event));
      if (row < 0) store.select("none");
      else store.select("tensor", row + this.run.tensorBase);
    });
    canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const share = (placeOn(canvas, event).x - LEFT) / (canvas.clientWidth - LEFT);
      store.scale(Math.exp(event.deltaY * 0.01), store.from + share * (store.to - store.from));
    }, { passive: false });
  }

  /** Bytes that the height stands for. */
  top() {
    return this.whole ? this.memory.capacity_bytes : Math.max(1, this.used);
  }

  /** The tensor under a place, or -1. @param {HTMLCanvasElement} canvas @param {{x: number, y: number}} place */
  at(canvas, { x, y }) {
    const { tensors } = this.run, { from, to } = this.store, width = canvas.clientWidth - LEFT, height = canvas.clientHeight - BOTTOM;
    const time = from + ((x - LEFT) / width) * (to - from) - this.run.origin, byte = (1 - y / height) * this.top(), slack = ((to - from) / width) * 1.5;
    const [begin, end, low, bytes] = ["from", "to", "byte", "bytes"].map((name) => tensors.column(name));
    return x < LEFT ? -1 : this.rows.findLast((row) => begin[row] - slack <= time && time <= end[row] + slack && low[row] <= byte && byte < low[row] + bytes[row]) ?? -1;
  }

  /** Tensors to stress; null where nothing is selected. Found once for a selection. @returns {Set<number>|null} */
  chosen() {
    if (this.foundFor !== this.store.chosen) this.found = this.findChosen();
    this.foundFor = this.store.chosen;
    return this.found ?? null;
  }

  /** @returns {Set<number>|null} */
  findChosen() {
    const { kind, place } = this.store.chosen, { run, model } = this;
    if (kind === "none") return null;
    if (kind === "tensor") return new Set(model.findTensor(place)[0] === run ? [place - run.tensorBase] : []);
    const tensor = run.uses.column("tensor"), found = new Set();
    if (kind === "line") {
      const site = run.tensors.column("site");
      for (const row of this.rows) if (model.lineOfSite[site[row]] === place) found.add(row);
    }
    const rows = model.chosenRows(run, this.store.chosen) ?? [];
    for (const row of rows.length > 20000 ? rows.slice(0, 20000) : rows) for (const use of model.operandsOf(run, row)) found.add(tensor[use]);
    return found;
  }

  /** @param {import("./plot.js").Sheet} sheet */
  draw({ context, width, height }) {
    const { board, run, model } = this, { from, to } = this.store, { tensors } = run, scale = devicePixelRatio || 1, paper = themeColour("paper");
    const left = Math.round(LEFT * scale), wide = Math.round(width * scale) - left, high = Math.round((height - BOTTOM) * scale);
    board.resize(wide, high);
    board.clear(pixelOf(themeColour("raised")));
    const [begin, end, low, bytes, name] = ["from", "to", "byte", "bytes", "name"].map((each) => tensors.column(each));
    const across = wide / (to - from), up = high / this.top(), chosen = this.chosen();
    const colours = Array.from({ length: SERIES_COUNT }, (_, place) => seriesColour(place));
    const full = colours.map(pixelOf), edge = colours.map((colour) => pixelOf(mix(colour, paper, 0.55))), dim = colours.map((colour) => pixelOf(mix(colour, paper, 0.8)));
    const texts = [];
    for (const row of this.rows) {
      if (begin[row] + run.origin > to || end[row] + run.origin < from) continue;
      const x0 = Math.floor((begin[row] + run.origin - from) * across), x1 = Math.max(x0 + 1, Math.floor((end[row] + run.origin - from) * across));
      const y1 = high - Math.floor(low[row] * up), y0 = Math.min(y1 - 1, high - Math.floor((low[row] + bytes[row]) * up)), shade = name[row] % SERIES_COUNT;
      const on = !chosen || chosen.has(row), colour = on ? full[shade] : dim[shade];
      board.fill(x0, x1, y0, y1, colour);
      if (x1 - x0 > 4 && y1 - y0 > 4) {
        board.fill(x0, x1, y0, y0 + 1, edge[shade]);
        board.fill(x1 - 1, x1, y0, y1, edge[shade]);
      }
      if (on && x1 - x0 > 50 * scale && y1 - y0 > 12 * scale && texts.length < 300) texts.push({ row, x0: Math.max(0, x0), x1: Math.min(wide, x1), y: (y0 + y1) / 2, ink: inkOn(colours[shade]) });
    }
    board.show(context, left, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { row, x0, x1, y, ink } of texts) {
      const text = fitText(context, tensorText(model, run, row), (x1 - x0) / scale - 8);
      context.fillStyle = ink;
      if (text) context.fillText(text, LEFT + x0 / scale + 4, y / scale);
    }
    this.drawAxes(context, width, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  drawAxes(context, width, height) {
    const soft = themeColour("soft"), room = height - BOTTOM;
    context.fillStyle = soft;
    context.textAlign = "right";
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, this.top() / 6)));
    for (let byte = 0; byte <= this.top(); byte += step) {
      const y = room - (byte / this.top()) * room;
      context.fillText(formatCapacity(byte), LEFT - 6, Math.max(7, Math.min(room - 4, y)));
    }
    context.textAlign = "center";
    const { from, to } = this.store;
    for (const { time, text } of timeTicks(from, to, Math.max(2, Math.floor((width - LEFT) / 110)))) {
      const x = LEFT + ((time - from) / (to - from)) * (width - LEFT), half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(LEFT + half, Math.min(width - half, x)), height - 8);
    }
    context.textAlign = "left";
  }
}

/** @param {any} memory its entry in the layout */
function factsOf(memory) {
  const { peak_bytes: peak, capacity_bytes: capacity, free_bytes: free, largest_free_bytes: hole } = memory;
  const fact = (/** @type {string} */ value, /** @type {string} */ text) => element("span", {}, element("b", {}, value), ` ${text}`);
  return element("p", { class: "facts" }, element("b", {}, memory.memory.toUpperCase()),
    fact(formatCapacity(peak), `of ${formatCapacity(capacity)} a partition at the peak (${formatShare(peak / capacity)}), ${formatTime(memory.peak_ps)} after the start`),
    free > 0 && hole < free ? fact(formatShare(1 - hole / free), `of the free bytes then are outside the largest hole, ${formatCapacity(hole)}`) : null);
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
function buildMemory(model, store) {
  const holder = body("memory"), stage = holder.querySelector("[data-stage]") ?? holder, { layout } = model;
  const known = (layout.memory ?? []).filter((/** @type {any} */ memory) => model.runs[memory.run]?.tensors.rows);
  /** @type {MemoryMap[]} */
  let maps = [];
  let shown = -1, isWhole = false;
  /** Each run's maps, made once. @type {Map<number, {maps: MemoryMap[], part: Element}>} */
  const made = new Map();
  const make = (/** @type {number} */ run) => {
    const part = element("div");
    // A plot is as large as there is room: it has to be in the page.
    stage.replaceChildren(part);
    const maps = known.filter((/** @type {any} */ memory) => memory.run === run).map((/** @type {any} */ memory) => {
      part.append(factsOf(memory));
      return new MemoryMap(model, store, part, run, memory);
    });
    const spilled = (layout.spills ?? []).filter((/** @type {any} */ spill) => spill.run === run).reduce((/** @type {number} */ sum, /** @type {any} */ spill) => sum + spill.write_bytes, 0);
    part.append(element("p", { class: "facts" }, spilled ? `${formatBytes(spilled)} are spilled to HBM (below).` : "Nothing is spilled to HBM."));
    const found = { maps, part };
    made.set(run, found);
    return found;
  };
  const range = () => {
    for (const map of maps) { map.whole = isWhole; map.again(); }
  };
  const show = (/** @type {number} */ run) => {
    if (run === shown) return;
    const found = made.get(run) ?? make(run);
    shown = run;
    maps = found.maps;
    stage.replaceChildren(found.part);
    range();
  };
  const runs = [...new Set(known.map((/** @type {any} */ memory) => memory.run))];
  if (runs.length > 1) {
    const choice = chooser("Core or level", runs.map((run) => [String(run), model.runs[run].title]), (run) => show(Number(run)));
    controls("memory").append(choice);
    store.on("selection", () => {
      const { kind, place } = store.chosen, found = kind === "instruction" ? model.find(place)[0] : kind === "tensor" ? model.findTensor(place)[0] : null;
      if (!found || !runs.includes(found.number)) return;
      choice.value = String(found.number);
      show(found.number);
    });
  }
  controls("memory").append(chooser("Range of addresses", [["used", "addresses: used"], ["all", "addresses: all"]], (value) => {
    isWhole = value === "all";
    range();
  }));
  if (runs.length) show(runs[0]);
  holder.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("tr[data-tensor]"));
    if (row) store.select("tensor", (model.runs[Number(row.dataset.run)]?.tensorBase ?? 0) + Number(row.dataset.tensor));
  });
}

// model.js
// The run as the panes ask for it: instructions by number, lines, tensors, and what depends on what.


/** @typedef {{id: number, kind: string, binds: boolean}} Neighbour an instruction, what ties it to another, and whether the
 * later one of both started when it did because of that */

/** One timeline: of a core, of a rank, of a level of the compiler. */
class Run {
  /** @param {any} place its entry in the layout @param {number} number @param {number} base number of its first instruction among all runs
   * @param {number} tensorBase @param {Uint8Array} bytes */
  constructor(place, number, base, tensorBase, bytes) {
    this.place = place;
    this.number = number;
    this.base = base;
    this.tensorBase = tensorBase;
    this.origin = place.origin_ps ?? 0;
    const table = (/** @type {string} */ name) => new ColumnTable(bytes, place.tables?.[name]);
    this.instructions = table("instructions");
    this.transfers = table("transfers");
    this.tensors = table("tensors");
    this.uses = table("uses");
    this.edges = table("edges");
    this.occupancy = table("occupancy");
    this.hbm = table("hbm");
    this.count = this.instructions.rows;
    this.lazy = new Map();
  }

  /** @template T @param {string} name @param {() => T} make @returns {T} */
  once(name, make) {
    if (!this.lazy.has(name)) this.lazy.set(name, make());
    return this.lazy.get(name);
  }

  /** A column of the instructions. @param {string} name @returns {any} */
  column(name) {
    return this.instructions.column(name);
  }

  get title() {
    const { core, rank, level } = this.place;
    return [rank === null || rank === undefined ? "" : `rank ${rank}`, `core ${core}`, level].filter(Boolean).join(" · ");
  }
}

class Model {
  /** @param {any} layout @param {any} figures @param {Uint8Array} bytes */
  constructor(layout, figures, bytes) {
    this.layout = layout;
    this.figures = figures ?? {};
    /** @type {Run[]} */
    this.runs = [];
    let base = 0, tensorBase = 0;
    for (const place of layout.runs ?? []) {
      const run = new Run(place, this.runs.length, base, tensorBase, bytes);
      this.runs.push(run);
      base += run.count;
      tensorBase += run.tensors.rows;
    }
    this.count = base;
    /** @type {Map<string, Neighbour[]>} */
    this.neighbours = new Map();
    this.length = Math.max(1, ...this.runs.map((run) => run.origin + run.place.latency_ps));
    /** Lines of source: sites of one file and number are one line. @type {{file: string, short: string, number: number, name: string}[]} */
    this.lines = [];
    this.lineOfSite = new Uint32Array((layout.sites ?? []).length);
    /** @type {Map<string, number>} */
    this.lineByName = new Map();
    (layout.sites ?? []).forEach((/** @type {[number, number, string]} */ [file, number], /** @type {number} */ site) => {
      const { name = "", short = baseName(name) } = layout.files[file] ?? {};
      const full = `${name}:${number}`;
      let line = this.lineByName.get(full);
      if (line === undefined) {
        line = this.lines.length;
        this.lines.push({ file: name, short, number, name: full });
        this.lineByName.set(full, line);
      }
      this.lineOfSite[site] = line;
    });
  }

  /** @param {number} id of an instruction among all runs @returns {[Run, number]} its run, its row there */
  find(id) {
    const run = this.runs.findLast((each) => each.base <= id && each.count > 0) ?? this.runs[0];
    return [run, id - run.base];
  }

  /** @param {number} tensor among all runs @returns {[Run, number]} */
  findTensor(tensor) {
    const run = this.runs.findLast((each) => each.tensorBase <= tensor && each.tensors.rows > 0) ?? this.runs[0];
    return [run, tensor - run.tensorBase];
  }

  /** Line of an instruction. @param {number} id */
  lineOf(id) {
    const [run, row] = this.find(id);
    return this.lineOfSite[run.column("site")[row]];
  }

  /** The line that a text names, whole or by its file's last part. @param {unknown} name @returns {number} or -1 */
  lineNamed(name) {
    const text = String(name ?? ""), exact = this.lineByName.get(text);
    if (exact !== undefined) return exact;
    return text ? this.lines.findIndex(({ short, number }) => number > 0 && (`${short}:${number}` === text || String(number) === text)) : -1;
  }

  /** Text of a line for people. @param {number} line */
  lineText(line) {
    const { short, number } = this.lines[line] ?? { short: "", number: 0 };
    return number ? `${short}:${number}` : "unknown line";
  }

  /** Instructions of a line of one run, by rising row. @param {Run} run @param {number} line @returns {Uint32Array} rows */
  rowsOfLine(run, line) {
    const groups = run.once("lines", () => {
      const site = run.column("site"), lines = new Uint32Array(run.count);
      for (let row = 0; row < run.count; row++) lines[row] = this.lineOfSite[site[row]];
      return groupBy(lines, this.lines.length);
    });
    return groupOf(groups, line);
  }

  /** Instructions that use a tensor, each once. @param {number} tensor @returns {number[]} ids */
  usersOf(tensor) {
    const [run, row] = this.findTensor(tensor);
    const instruction = run.uses.column("instruction");
    const users = new Set([...this.usesOf(run, row)].map((use) => instruction[use] + run.base));
    return [...users].sort((one, other) => one - other);
  }

  /** @param {Run} run @param {number} tensor row @returns {Uint32Array} rows of `uses` */
  usesOf(run, tensor) {
    return groupOf(run.once("users", () => groupBy(run.uses.column("tensor"), run.tensors.rows)), tensor);
  }

  /** Rows of `uses` of an instruction. @param {Run} run @param {number} row */
  operandsOf(run, row) {
    return groupOf(run.once("operands", () => groupBy(run.uses.column("instruction"), run.count)), row);
  }

  /** What a selection highlights in a run, by rising row; null where there is no selection.
   * @param {Run} run @param {import("./store.js").Selection} chosen @returns {Uint32Array|null} */
  chosenRows(run, { kind, place }) {
    if (kind === "line") return this.rowsOfLine(run, place);
    if (kind === "instruction") {
      const [its, row] = this.find(place);
      return its === run ? Uint32Array.of(row) : new Uint32Array(0);
    }
    if (kind === "tensor") {
      const [its] = this.findTensor(place);
      return its === run ? Uint32Array.from(this.usersOf(place), (id) => id - run.base) : new Uint32Array(0);
    }
    return null;
  }

  /** What an instruction depends on, nearest cause first. @param {number} id @returns {Neighbour[]} */
  before(id) {
    return this.remembered(`before ${id}`, () => this.findBefore(id));
  }

  /** What depends on an instruction. @param {number} id @returns {Neighbour[]} */
  after(id) {
    return this.remembered(`after ${id}`, () => this.findAfter(id));
  }

  /** What was found before: frames ask for the same again and again. @param {string} key @param {() => Neighbour[]} find */
  remembered(key, find) {
    let found = this.neighbours.get(key);
    if (!found) {
      if (this.neighbours.size > 4000) this.neighbours.clear();
      this.neighbours.set(key, found = find());
    }
    return found;
  }

  /** @param {number} id @returns {Neighbour[]} */
  findBefore(id) {
    const [run, row] = this.find(id), back = run.column("waited_on")[row];
    const found = new Map(back ? [[row - back, { kinds: [this.boundText(run, row)], binds: true }]] : []);
    for (const edge of groupOf(this.edgesByConsumer(run), row)) this.addEdge(found, run, row - run.edges.column("back")[edge], edge);
    return neighboursOf(run, found);
  }

  /** @param {number} id @returns {Neighbour[]} */
  findAfter(id) {
    const [run, row] = this.find(id), waiting = run.once("waiting", () => {
      const back = run.column("waited_on"), target = new Uint32Array(run.count);
      for (let each = 0; each < run.count; each++) target[each] = back[each] ? each - back[each] : run.count;
      return groupBy(target, run.count + 1);
    });
    const found = new Map([...groupOf(waiting, row)].map((each) => [each, { kinds: [this.boundText(run, each)], binds: true }]));
    for (const edge of groupOf(this.edgesByProducer(run), row)) this.addEdge(found, run, run.edges.column("consumer")[edge], edge);
    return neighboursOf(run, found);
  }

  /** @param {Map<number, {kinds: string[], binds: boolean}>} found @param {Run} run @param {number} other @param {number} edge */
  addEdge(found, run, other, edge) {
    const kind = this.layout.edges[run.edges.column("kind")[edge]], known = found.get(other);
    if (!known) found.set(other, { kinds: [kind], binds: false });
    else if (!known.kinds.includes(kind)) known.kinds.push(kind);
  }

  /** What bound an instruction, or what it waited for where a run does not say; empty of nothing. @param {Run} run @param {number} row @returns {string} */
  boundText(run, row) {
    const { bounds, causes, cause_words: words } = this.layout, bound = run.column("bound")[row], cause = run.column("cause")[row];
    return bound ? bounds[bound] : causes[cause] === "nothing" ? "" : words[cause];
  }

  /** Place in WAIT_GROUPS of what an instruction waited for. @param {Run} run @returns {(row: number) => number} */
  waitGroups(run) {
    const { bounds, causes } = this.layout, cause = run.column("cause"), bound = run.column("bound");
    const wide = causes.length, groups = Uint8Array.from(bounds.flatMap((/** @type {string} */ name) => causes.map((/** @type {string} */ each) => waitGroup(name, each))));
    return (row) => groups[bound[row] * wide + cause[row]];
  }

  /** The same instruction on other cores and ranks. @param {number} id @returns {number[]} ids */
  meetingOf(id) {
    const [run, row] = this.find(id), meetings = /** @type {{run: number, row: number}[][]} */ (this.layout.meetings);
    const found = meetings.find((meeting) => meeting.some((one) => one.run === run.number && one.row === row)) ?? [];
    return found.filter((one) => one.run !== run.number).map((one) => this.runs[one.run].base + one.row);
  }

  /** @param {Run} run */
  edgesByConsumer(run) {
    return run.once("edges in", () => groupBy(run.edges.column("consumer"), run.count));
  }

  /** @param {Run} run */
  edgesByProducer(run) {
    return run.once("edges out", () => {
      const consumer = run.edges.column("consumer"), back = run.edges.column("back");
      return groupBy(Uint32Array.from(consumer, (row, edge) => row - back[edge]), run.count);
    });
  }
}

/** What binds first, then the nearest. @param {Run} run @param {Map<number, {kinds: string[], binds: boolean}>} found @returns {Neighbour[]} */
function neighboursOf(run, found) {
  const all = [...found].map(([row, { kinds, binds }]) => ({ id: row + run.base, kind: kinds.filter(Boolean).join(", "), binds }));
  return all.sort((one, other) => Number(other.binds) - Number(one.binds));
}

// roofline.js
// The roofline: what limits the kernel, its functions and its lines, for each engine.


/** A point that is drawn. @typedef {{x: number, y: number, isFree: boolean, limit: number, point: any}} Mark */

const LEFT_ROOM = 64, BOTTOM_ROOM = 38, TOP_ROOM = 14, RIGHT_ROOM = 14;
const KINDS = ["kernel", "region", "line"];

class Roofline {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.data = model.layout.roofline;
    /** -1: FLOP of the tensor engine; else the share of an engine. */
    this.engine = -1;
    /** @type {{px: number, py: number, mark: Mark}[]} */
    this.drawn = [];
    const holder = body("roofline"), stage = holder.querySelector("[data-stage]") ?? holder;
    const engines = [...new Set(this.data.points.flatMap((/** @type {any} */ point) => point.engines.map((/** @type {any} */ each) => each.engine)))].sort();
    const hasFlop = this.data.points.some((/** @type {any} */ point) => point.flop > 0);
    if (!hasFlop) this.engine = engines[0] ?? -1;
    const choices = /** @type {[string, string][]} */ ([...(hasFlop ? [["-1", "TensorE: FLOP/s"]] : []), ...engines.map((engine) => [String(engine), `${model.layout.engines[engine]}: share of its time`])]);
    const { canvas, again } = addPlot(stage, (room) => Math.max(230, Math.min(520, room - 80)), "Roofline", store, ["selection", "theme"], (sheet) => this.draw(sheet));
    controls("roofline").append(chooser("What is on the roofline", choices, (value) => { this.engine = Number(value); again(); }));
    stage.append(element("p", { class: "keys" }, ...KINDS.map((kind) => element("span", {}, element("i", { class: `mark-${kind}` }), kind === "region" ? "function" : kind)),
      element("span", {}, "at the right edge: no HBM traffic")));
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.hover(event, this.near(placeOn(canvas, event))));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const mark = this.near(placeOn(canvas, event));
      if (mark && mark.point.kind === "line") store.select("line", model.lineOfSite[mark.point.site]);
    });
  }

  /** Points of the engine that is shown. @returns {Mark[]} */
  marks() {
    const { points } = this.data;
    if (this.engine < 0) {
      return points.filter((/** @type {any} */ point) => point.flop > 0 && point.tflops > 0).map((/** @type {any} */ point) => (
        { x: point.intensity ?? Infinity, y: point.tflops, isFree: point.intensity === null, limit: point.attainable_tflops, point }));
    }
    return points.flatMap((/** @type {any} */ point) => {
      const busy = point.engines.find((/** @type {any} */ each) => each.engine === this.engine)?.busy_us ?? 0;
      if (!busy || !point.active_us) return [];
      const x = point.hbm_us ? busy / point.hbm_us : Infinity;
      return [{ x, y: busy / point.active_us, isFree: !point.hbm_us, limit: Math.min(1, x), point }];
    });
  }

  /** Roofs, as the height over an x: of compute flat, of memory rising. */
  roofs() {
    if (this.engine < 0) {
      return { compute: this.data.compute.map((/** @type {any} */ roof) => ({ name: `${roof.name}: ${formatNumber(roof.tflops)} TFLOP/s`, height: roof.tflops })),
        memory: this.data.memory.map((/** @type {any} */ roof) => ({ name: `${roof.name}: ${formatNumber(roof.gbps)} GB/s`, slope: roof.gbps / 1000 })) };
    }
    return { compute: [{ name: `all of the ${this.model.layout.engines[this.engine]} engine's time`, height: 1 }], memory: [{ name: "HBM bandwidth", slope: 1 }] };
  }

  /** @param {import("./plot.js").Sheet} sheet */
  draw({ context, width, height }) {
    const marks = this.marks(), { compute, memory } = this.roofs();
    const finite = marks.filter(({ isFree, x }) => !isFree && x > 0).map(({ x }) => x), peak = Math.max(...compute.map((/** @type {any} */ roof) => roof.height), 1e-9);
    const ridges = memory.flatMap((/** @type {any} */ roof) => compute.map((/** @type {any} */ top) => top.height / roof.slope));
    const lowX = 10 ** Math.floor(Math.log10(Math.min(...finite, ...ridges) / 3)), highX = 10 ** Math.ceil(Math.log10(Math.max(...finite, ...ridges) * 2));
    const lowY = 10 ** Math.max(Math.floor(Math.log10(peak)) - 6, Math.floor(Math.log10(Math.min(peak / 20, ...marks.map(({ y }) => y))))), highY = peak * 2.2;
    const right = width - RIGHT_ROOM, bottom = height - BOTTOM_ROOM;
    const xOf = (/** @type {number} */ x) => LEFT_ROOM + (Math.log(x / lowX) / Math.log(highX / lowX)) * (right - LEFT_ROOM);
    const yOf = (/** @type {number} */ y) => bottom - (Math.log(y / lowY) / Math.log(highY / lowY)) * (bottom - TOP_ROOM);
    this.drawGrid(context, { lowX, highX, lowY, highY, right, bottom, xOf, yOf });
    const ink = themeColour("ink"), soft = themeColour("soft");
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1.8;
    context.save();
    context.beginPath();
    context.rect(LEFT_ROOM, TOP_ROOM - 4, right - LEFT_ROOM, bottom - TOP_ROOM + 4);
    context.clip();
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      const end = peak / roof.slope;
      context.strokeStyle = place ? soft : ink;
      context.beginPath();
      context.moveTo(xOf(lowX), yOf(lowX * roof.slope));
      context.lineTo(xOf(end), yOf(peak));
      context.stroke();
    });
    compute.forEach((/** @type {any} */ roof) => {
      context.strokeStyle = roof.height === peak ? ink : soft;
      context.beginPath();
      context.moveTo(xOf(Math.min(...memory.map((/** @type {any} */ each) => roof.height / each.slope))), yOf(roof.height));
      context.lineTo(right, yOf(roof.height));
      context.stroke();
    });
    context.restore();
    this.nameRoofs(context, { compute, memory, peak, lowX, right, bottom, xOf, yOf, ink, soft });
    this.drawn = marks.map((mark) => ({ mark, px: mark.isFree ? right - 5 : xOf(Math.max(mark.x, lowX)), py: yOf(Math.max(mark.y, lowY)) }));
    this.drawMarks(context, right);
  }

  /** @param {CanvasRenderingContext2D} context @param {any} frame */
  drawGrid(context, { lowX, highX, lowY, highY, right, bottom, xOf, yOf }) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const power = (/** @type {number} */ value) => (value >= 1e-3 && value < 1e5 ? formatNumber(value) : `1e${Math.round(Math.log10(value))}`);
    const skip = Math.ceil(Math.log10(highX / lowX) / Math.max(2, (right - LEFT_ROOM) / 52));
    context.textAlign = "center";
    for (let value = lowX, place = 0; value <= highX * 1.001; value *= 10, place++) {
      context.fillStyle = themeColour("faint");
      context.fillRect(Math.round(xOf(value)), TOP_ROOM, 1, bottom - TOP_ROOM);
      context.fillStyle = themeColour("soft");
      if (place % skip === 0) context.fillText(power(value), Math.min(right - 12, xOf(value)), bottom + 10);
    }
    context.textAlign = "right";
    for (let value = lowY; value <= highY; value *= 10) {
      context.fillStyle = themeColour("faint");
      context.fillRect(LEFT_ROOM, Math.round(yOf(value)), right - LEFT_ROOM, 1);
      context.fillStyle = themeColour("soft");
      context.fillText(this.engine < 0 ? power(value) : `${power(100 * value)} %`, LEFT_ROOM - 6, yOf(value));
    }
    context.textAlign = "center";
    context.fillText(this.engine < 0 ? "FLOP for each byte of HBM traffic" : "engine time for each unit of HBM time", (LEFT_ROOM + right) / 2, bottom + 27);
    context.save();
    context.translate(10, (TOP_ROOM + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.engine < 0 ? "TFLOP/s" : "share of the engine's time", 0, 0);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {any} frame */
  nameRoofs(context, { compute, memory, peak, lowX, right, bottom, xOf, yOf, ink, soft }) {
    context.textAlign = "right";
    context.fillStyle = ink;
    for (const roof of compute) context.fillText(roof.name, right - 4, yOf(roof.height) - 8);
    context.textAlign = "left";
    const angle = Math.atan2(yOf(1) - yOf(10), xOf(10) - xOf(1));
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      // Beside the roof, where it comes into the picture.
      const inside = Math.max(lowX, (10 ** (Math.log10(peak) - (bottom - TOP_ROOM - 30) / (yOf(1) - yOf(10)))) / roof.slope) * 1.2;
      context.save();
      context.translate(xOf(inside), yOf(inside * roof.slope));
      context.rotate(-angle);
      context.fillStyle = place ? soft : ink;
      context.fillText(roof.name, 4, -7);
      context.restore();
    });
    context.setLineDash([3, 3]);
    context.lineWidth = 1;
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      const x = peak / roof.slope;
      context.strokeStyle = soft;
      context.beginPath();
      context.moveTo(xOf(x), yOf(peak));
      context.lineTo(xOf(x), bottom);
      context.stroke();
      context.fillStyle = soft;
      context.fillText(`ridge ${formatNumber(x)}`, Math.min(xOf(x) + 4, right - 60), bottom - 8 - 13 * (place % 2));
    });
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} right */
  drawMarks(context, right) {
    const { kind: chosen, place } = this.store.chosen;
    const line = chosen === "line" ? place : chosen === "instruction" ? this.model.lineOf(place) : -1;
    /** @type {[number, number, number][]} */
    const taken = [];
    const order = [...this.drawn].sort((one, other) => KINDS.indexOf(one.mark.point.kind) - KINDS.indexOf(other.mark.point.kind) || other.mark.point.active_us - one.mark.point.active_us);
    for (const { px, py, mark: { point } } of [...order].reverse()) {
      const isOn = point.kind === "line" && this.model.lineOfSite[point.site] === line, size = { kernel: 8, region: 6, line: 5 }[/** @type {"line"} */ (point.kind)];
      context.globalAlpha = line >= 0 && !isOn ? 0.35 : 1;
      context.fillStyle = seriesColour(KINDS.indexOf(point.kind) === 0 ? 4 : KINDS.indexOf(point.kind) === 1 ? 2 : 0);
      context.beginPath();
      if (point.kind === "kernel") for (let corner = 0; corner < 4; corner++) context.lineTo(px + size * Math.cos((corner * Math.PI) / 2), py + size * Math.sin((corner * Math.PI) / 2));
      else if (point.kind === "region") context.rect(px - size, py - size, 2 * size, 2 * size);
      else context.arc(px, py, size, 0, 7);
      context.fill();
      context.strokeStyle = isOn ? themeColour("ink") : themeColour("paper");
      context.lineWidth = isOn ? 2.5 : 1;
      context.stroke();
    }
    context.globalAlpha = 1;
    context.fillStyle = themeColour("ink");
    for (const { px, py, mark: { point } } of order) {
      const name = this.nameOf(point), wide = context.measureText(name).width, toLeft = px + wide + 14 > right;
      const x = toLeft ? px - wide - 10 : px + 10;
      if (taken.length > 9 || taken.some(([left, top, end]) => x < end && x + wide > left && Math.abs(py - top) < 13)) continue;
      taken.push([x, py, x + wide]);
      context.textAlign = "left";
      context.fillText(name, x, py);
    }
  }

  /** Name of a point, of a line without its folders. @param {any} point @returns {string} */
  nameOf(point) {
    return point.kind === "line" ? this.model.lineText(this.model.lineOfSite[point.site]) : point.name;
  }

  /** @param {{x: number, y: number}} place @returns {Mark|null} */
  near({ x, y }) {
    let best = null, least = 14;
    for (const { px, py, mark } of this.drawn) {
      const off = Math.hypot(px - x, py - y);
      if (off < least) { least = off; best = mark; }
    }
    return best;
  }

  /** @param {PointerEvent} event @param {Mark|null} mark */
  hover(event, mark) {
    if (!mark) return hideTip();
    const { point, isFree } = mark, text = (/** @type {number} */ value) => (this.engine < 0 ? `${formatNumber(value)} TFLOP/s` : `${formatNumber(100 * value)} %`);
    showTip(event, this.nameOf(point), [`${text(mark.y)} of ${text(mark.limit)} attainable: ${formatNumber((100 * mark.y) / mark.limit, 3)} %`,
      isFree ? "no HBM traffic" : `${formatNumber(mark.x)} ${this.engine < 0 ? "FLOP a byte" : "of engine time for HBM time"}`, `active ${formatTime(point.active_us * 1e6)}`]);
  }
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
function buildRoofline(model, store) {
  if (model.layout.roofline?.points?.length) new Roofline(model, store);
}

// search.js
// Search: lines by their text or place, instructions by number or name, tensors by name.


/** @typedef {{kind: "line"|"instruction"|"tensor", place: number, type: string, text: string, note: string}} Hit */

const MOST_HITS = 60;

/** First instruction of each opcode and label, and how many there are. @param {import("./model.js").Model} model */
function kindsOf(model) {
  const found = new Map();
  for (const run of model.runs) {
    const opcode = run.column("opcode"), label = run.column("label");
    for (let row = 0; row < run.count; row++) {
      const key = opcode[row] * 1e6 + label[row], known = found.get(key);
      if (known) known.count += 1;
      else found.set(key, { id: row + run.base, count: 1, name: model.layout.opcodes[opcode[row]], label: model.layout.labels?.[label[row]] ?? "" });
    }
  }
  return [...found.values()];
}

/** @param {import("./model.js").Model} model @param {import("./source.js").Source} source @param {string} words @returns {Hit[]} */
function findHits(model, source, words) {
  const wanted = words.trim().toLowerCase(), hits = /** @type {Hit[]} */ ([]);
  if (!wanted) return hits;
  const number = /^#?(\d+)$/.exec(wanted);
  if (number && Number(number[1]) < model.count) hits.push({ kind: "instruction", place: Number(number[1]), type: "instruction", text: `#${number[1]}`, note: model.lineText(model.lineOf(Number(number[1]))) });
  for (const { id, count, name, label } of model.runs[0]?.once("kinds", () => kindsOf(model)) ?? []) {
    if (`${name} ${label}`.toLowerCase().includes(wanted)) hits.push({ kind: "instruction", place: id, type: "instruction", text: label ? `${label} (${name})` : name, note: `first of ${formatCount(count)}` });
  }
  const { names = [] } = model.layout;
  if (names.some((/** @type {string} */ name) => name.toLowerCase().includes(wanted))) {
    const seen = new Set();
    for (const run of model.runs) {
      const name = run.tensors.column("name");
      for (let row = 0; row < run.tensors.rows && seen.size < 20; row++) {
        if (seen.has(name[row]) || !names[name[row]].toLowerCase().includes(wanted)) continue;
        seen.add(name[row]);
        hits.push({ kind: "tensor", place: row + run.tensorBase, type: "tensor", text: tensorText(model, run, row), note: model.layout.memories[run.tensors.column("memory")[row]] });
      }
    }
  }
  for (const [line, row] of source.rows) {
    const text = row.querySelector("code")?.textContent ?? "", place = model.lineText(line);
    if (text.toLowerCase().includes(wanted) || place.toLowerCase().includes(wanted) || model.layout.sites.some(
      (/** @type {[number, number, string]} */ site, /** @type {number} */ at) => model.lineOfSite[at] === line && site[2].toLowerCase() === wanted)) {
      hits.push({ kind: "line", place: line, type: place, text: text.trim(), note: "" });
    }
  }
  return hits.slice(0, MOST_HITS);
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {import("./source.js").Source} source
 * @param {(id: number) => void} reveal shows an instruction on the timeline */
function buildSearch(model, store, source, reveal) {
  const query = byId("query"), list = byId("hits"), found = byId("found");
  /** @type {Hit[]} */
  let hits = [];
  let at = -1;
  const go = (/** @type {number} */ place) => {
    at = (place + hits.length) % hits.length;
    const hit = hits[at];
    store.select(hit.kind, hit.place);
    if (hit.kind === "instruction") reveal(hit.place);
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    found.textContent = `${at + 1} of ${hits.length}`;
  };
  const look = () => {
    hits = findHits(model, source, query.value);
    at = -1;
    const lines = new Set(hits.filter(({ kind }) => kind === "line").map(({ place }) => place));
    for (const [line, row] of source.rows) row.classList.toggle("hit", lines.has(line));
    list.replaceChildren(...hits.map((hit, place) => element("li", { role: "option", on: { pointerdown: (/** @type {Event} */ event) => { event.preventDefault(); go(place); list.hidden = true; } } },
      element("span", {}, hit.type), element("span", {}, hit.text), element("span", { class: "soft" }, hit.note))));
    list.hidden = !hits.length;
    found.textContent = query.value.trim() ? (hits.length ? `${hits.length}${hits.length === MOST_HITS ? "+" : ""} found` : "nothing found") : "";
  };
  query.addEventListener("input", look);
  query.addEventListener("focus", () => { list.hidden = !hits.length; });
  query.addEventListener("blur", () => { list.hidden = true; });
  query.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") { query.value = ""; look(); query.blur(); }
    const step = /** @type {Record<string, number>} */ ({ Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (!step || !hits.length) return;
    event.preventDefault();
    go(at < 0 ? (step > 0 ? 0 : hits.length - 1) : at + step);
  });
  byId("search").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
}

// settings.js
// Settings: what the figures rest on, as a bar above the page's own lists.


/** Kinds of evidence, from the best. @type {[string, string, number][]} name, words, colour */
const EVIDENCE = [["documented_us", "documented by the vendor", 2], ["measured_us", "measured on the hardware", 0], ["estimated_us", "estimated", 1]];

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
function buildSettings(model, store) {
  const basis = model.figures.latency_basis, { latency_us: latency, latency_low_us: low, latency_high_us: high } = model.figures;
  const stage = body("settings").querySelector("[data-stage]");
  if (!basis || !stage || !latency) return;
  const known = EVIDENCE.filter(([key]) => basis[key] > 0), whole = known.reduce((sum, [key]) => sum + basis[key], 0);
  const show = () => stage.replaceChildren(element("div", { class: "settings" }, element("div", {},
    element("h3", {}, "What the latency rests on"),
    element("div", { class: "split", role: "img", "aria-label": known.map(([key, words]) => `${words}: ${formatShare(basis[key] / whole)}`).join(", ") },
      ...known.map(([key, , colour]) => element("i", { css: { width: `${(100 * basis[key]) / whole}%`, background: seriesColour(colour) } }))),
    element("p", { class: "keys" }, ...known.map(([key, words, colour]) => element("span", {}, element("i", { css: { background: seriesColour(colour) } }),
      `${formatTime(basis[key] * 1e6)} (${formatShare(basis[key] / whole)}) on figures ${words}`))),
    low && high ? element("p", {}, `On the hardware, ${formatTime(low * 1e6)} to ${formatTime(high * 1e6)} is to be expected.`) : null)));
  show();
  store.on("theme", show);
}

// source.js
// The kernel's text with heat by line: the page has it as text; here it becomes clickable and follows the selection.


/** What a line can be hot by. @type {[string, string][]} */
const HEATS = [["critical", "critical path"], ["wait", "waiting"], ["bytes", "HBM bytes"], ["instructions", "instructions"], ["precision", "precision lost"]];

class Source {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.holder = body("source");
    this.heat = "critical";
    /** Rows of lines, by line. @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    /** @type {Set<HTMLElement>} */
    this.marked = new Set();
    for (const table of /** @type {NodeListOf<HTMLElement>} */ (this.holder.querySelectorAll("table[data-file]"))) {
      const file = model.layout.files.find((/** @type {any} */ each) => each.name === table.dataset.file), caption = table.querySelector("caption");
      if (caption && file) replace(caption, file.short);
      caption?.setAttribute("title", table.dataset.file ?? "");
    }
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (this.holder.querySelectorAll("[data-line]"))) this.adopt(row);
    this.holder.addEventListener("click", (event) => {
      const row = /** @type {Element} */ (event.target).closest("[data-line]"), line = row ? this.lineOfRow(/** @type {HTMLElement} */ (row)) : undefined;
      // A text that is being selected is no click.
      if (line !== undefined && !String(getSelection())) this.select(line);
    });
    this.addControls();
    this.show("critical");
    const hottest = this.rows.get(this.ranking()[0]);
    if (hottest) this.reveal(hottest);
    store.on("selection", () => this.follow());
  }

  /** @param {HTMLElement} row */
  adopt(row) {
    const line = this.lineOfRow(row);
    row.classList.toggle("idle", line === undefined);
    if (line !== undefined) this.rows.set(line, row);
    // Lines without instructions have empty cells, in the order of all.
    [...row.querySelectorAll("td:not([class])")].forEach((cell, place) => {
      cell.setAttribute("class", "heat");
      cell.setAttribute("data-heat", HEATS[place]?.[0] ?? "");
    });
    for (const cell of /** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll("td.heat[data-value]"))) {
      const share = Number(cell.dataset.value), text = element("span", {}, cell.textContent ?? "");
      cell.replaceChildren(element("i", { "aria-hidden": "true", css: { width: `${Math.round(100 * share)}%`, opacity: String(0.18 + 0.5 * share) } }), text);
    }
  }

  /** @param {HTMLElement} row */
  lineOfRow(row) {
    return this.model.lineByName.get(row.dataset.line ?? "");
  }

  addControls() {
    const known = HEATS.filter(([name]) => this.holder.querySelector(`td.heat[data-heat="${name}"]`));
    controls("source").append(
      chooser("Heat of lines", [...known.map(([name, text]) => /** @type {[string, string]} */ ([name, `heat: ${text}`])), ["all", "heat: all"]], (name) => this.show(name)),
      element("button", { type: "button", title: "The line that holds the most of this heat; again for the next ( h )", on: { click: () => this.hottest() } }, "Hottest line"),
    );
  }

  /** @param {string} heat */
  show(heat) {
    this.heat = heat;
    this.holder.dataset.show = heat;
  }

  /** Lines by falling heat. @returns {number[]} */
  ranking() {
    const kind = this.heat === "all" ? "critical" : this.heat;
    const figure = { critical: "critical_us", wait: "wait_us", bytes: "hbm_bytes", instructions: "instructions" }[kind], { model } = this;
    /** @type {[number, number][]} */
    const values = figure ? (model.figures.lines ?? []).map((/** @type {any} */ each) => [model.lineNamed(`${each.file}:${each.line}`), each[figure]])
      : [...this.rows].map(([line, row]) => [line, Number(/** @type {HTMLElement|null} */ (row.querySelector(`td.heat[data-heat="${kind}"]`))?.dataset.value ?? 0)]);
    return values.filter(([line, value]) => line >= 0 && value > 0).sort(([, one], [, other]) => other - one).map(([line]) => line);
  }

  /** Select the hottest line, or the next one when it is selected. */
  hottest() {
    const ranking = this.ranking(), at = this.store.chosen.kind === "line" ? ranking.indexOf(this.store.chosen.place) : -1;
    if (ranking.length) this.select(ranking[(at + 1) % ranking.length]);
  }

  /** @param {number} line */
  select(line) {
    this.store.select("line", line);
  }

  /** Mark and show the line of what is selected, and the lines that called it. */
  follow() {
    for (const row of this.marked) {
      row.removeAttribute("aria-selected");
      row.classList.remove("caller");
    }
    this.marked.clear();
    const { kind, place } = this.store.chosen, { model } = this;
    let line = -1;
    if (kind === "line") line = place;
    if (kind === "instruction") line = model.lineOf(place);
    if (kind === "tensor") {
      const [run, row] = model.findTensor(place);
      line = model.lineOfSite[run.tensors.column("site")[row]];
    }
    const row = this.rows.get(line);
    if (row) {
      row.setAttribute("aria-selected", "true");
      this.marked.add(row);
      this.reveal(row);
    }
    if (kind !== "instruction") return;
    const [run, number] = model.find(place);
    const stack = run.instructions.has("stack") ? model.layout.stacks?.[run.column("stack")[number]] ?? [] : [];
    for (const site of stack.slice(0, -1)) {
      const caller = this.rows.get(model.lineOfSite[site]);
      if (!caller || caller === row) continue;
      caller.classList.add("caller");
      this.marked.add(caller);
    }
  }

  /** Scroll the pane, and nothing else, until a row is in it. @param {HTMLElement} row */
  reveal(row) {
    const box = this.holder.getBoundingClientRect(), here = row.getBoundingClientRect();
    if (here.top < box.top + 26 || here.bottom > box.bottom) this.holder.scrollTop += here.top - box.top - this.holder.clientHeight / 2;
  }
}

// store.js
// What is selected and which time is looked at, and who wants to know: the one thing that panes share.

/**
 * A selection: an instruction, a line (place in the sites), a tensor (place in the tensors), or nothing.
 * @typedef {{kind: "none"|"instruction"|"line"|"tensor", place: number}} Selection
 */
/** @typedef {"selection"|"view"|"theme"|"core"|"measure"|"hover"} Topic */

class Store {
  /** @param {number} length of the run, in ps */
  constructor(length) {
    this.length = Math.max(1, length);
    /** @type {Selection} */
    this.chosen = { kind: "none", place: -1 };
    /** The time in view, in ps. */
    this.from = 0;
    this.to = this.length;
    /** Two times to measure between, or none. @type {[number, number]|null} */
    this.measured = null;
    /** @type {Map<Topic, Set<() => void>>} */
    this.listeners = new Map();
    /** @type {Selection[]} */
    this.past = [];
  }

  /** @param {Topic} topic @param {() => void} listener */
  on(topic, listener) {
    const known = this.listeners.get(topic) ?? new Set();
    this.listeners.set(topic, known.add(listener));
  }

  /** @param {Topic} topic */
  tell(topic) {
    for (const listener of this.listeners.get(topic) ?? []) listener();
  }

  /** @param {Selection["kind"]} kind @param {number} place */
  select(kind, place = -1) {
    if (this.chosen.kind === kind && this.chosen.place === place) return;
    this.past.push(this.chosen);
    if (this.past.length > 100) this.past.shift();
    this.chosen = { kind, place };
    this.tell("selection");
  }

  /** Return to what was selected before. */
  back() {
    const before = this.past.pop();
    if (!before) return;
    this.chosen = before;
    this.tell("selection");
  }

  /** Look at a time, no shorter than ten picoseconds, inside the run. @param {number} from @param {number} to */
  zoom(from, to) {
    const wide = Math.min(this.length, Math.max(10, to - from));
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(0, middle - wide / 2), this.length - wide);
    if (start === this.from && start + wide === this.to) return;
    this.from = start;
    this.to = start + wide;
    this.tell("view");
  }

  /** Make what is in view longer or shorter around a time. @param {number} factor @param {number} around */
  scale(factor, around) {
    const wide = (this.to - this.from) * factor;
    if (wide >= this.length) return this.zoom(0, this.length);
    const share = (around - this.from) / (this.to - this.from);
    const from = Math.min(Math.max(0, around - share * wide), this.length - wide);
    this.zoom(from, from + wide);
  }

  /** @param {number} picoseconds */
  pan(picoseconds) {
    const wide = this.to - this.from, from = Math.min(Math.max(0, this.from + picoseconds), this.length - wide);
    this.zoom(from, from + wide);
  }

  /** @param {[number, number]|null} times */
  measure(times) {
    this.measured = times;
    this.tell("measure");
  }
}

// virtual_table.js
// A table of any number of rows: only those in view are elements. It is filtered, sorted, copied.


/**
 * A column. `text` is shown, `value` sorts; of a column of names it is a number that stands for one, which `nameOf` gives.
 * @typedef {{name: string, isNumber: boolean, title?: string, value: (row: number) => number, text: (row: number) => string,
 *     nameOf?: (code: number) => string}} TableColumn
 */

const ROW = 23;
/** Browsers lay out no element higher than this. */
const HIGHEST = 8e6;
const MOST_COPIED = 100_000;

class VirtualTable {
  /** @param {TableColumn[]} columns @param {number} count @param {(row: number) => void} chosen @param {(shown: number) => void} counted */
  constructor(columns, count, chosen, counted) {
    this.columns = columns;
    this.count = count;
    this.counted = counted;
    this.order = everyRow(count);
    this.sorted = -1;
    this.falling = false;
    this.marked = -1;
    this.words = "";
    this.head = element("tr");
    this.rows = element("tbody");
    this.holder = element("div", { class: "grid-scroll", tabindex: "0" }, element("table", { class: "virtual" }, element("thead", {}, this.head), this.rows));
    this.above = element("tr", { class: "space" }, element("td", { colspan: columns.length }));
    this.below = element("tr", { class: "space" }, element("td", { colspan: columns.length }));
    this.draw = eachFrame(() => this.paint());
    this.holder.addEventListener("scroll", this.draw, { passive: true });
    new ResizeObserver(this.draw).observe(this.holder);
    this.rows.addEventListener("click", (/** @type {Event} */ event) => {
      const row = /** @type {Element} */ (event.target).closest("tr[data-instruction]");
      if (row && !String(getSelection())) chosen(Number(/** @type {HTMLElement} */ (row).dataset.instruction));
    });
    this.drawHead();
    this.draw();
  }

  drawHead() {
    this.head.replaceChildren(...this.columns.map((column, place) => element("th", { class: column.isNumber ? "number" : "", title: column.title ?? "",
      "aria-sort": place === this.sorted ? (this.falling ? "descending" : "ascending") : "none" },
    element("button", { type: "button", on: { click: () => this.sort(place) } }, `${column.name}${place === this.sorted ? (this.falling ? " ↓" : " ↑") : ""}`))));
  }

  /** Sort by a column; numbers first fall. @param {number} place */
  sort(place) {
    this.falling = place === this.sorted ? !this.falling : this.columns[place].isNumber;
    this.sorted = place;
    this.arrange();
    this.drawHead();
  }

  /** @param {string} words that a row must hold, each in any cell */
  filter(words) {
    this.words = words.toLowerCase().trim();
    this.arrange();
  }

  /** Whether a word is in a name of a row; each name is looked at once. @param {string} word @returns {(row: number) => boolean} */
  hasWord(word) {
    const named = this.columns.filter(({ nameOf }) => nameOf).map((column) => ({ column, known: new Map() }));
    return (row) => named.some(({ column, known }) => {
      const code = column.value(row);
      let found = known.get(code);
      if (found === undefined) known.set(code, found = column.text(row).toLowerCase().includes(word));
      return found;
    });
  }

  arrange() {
    let rows = everyRow(this.count);
    for (const word of this.words.split(/\s+/).filter(Boolean)) rows = rows.filter(this.hasWord(word));
    if (this.sorted >= 0) {
      const { value, nameOf } = this.columns[this.sorted], sign = this.falling ? -1 : 1, keys = new Float64Array(this.count);
      for (const row of rows) keys[row] = value(row);
      if (nameOf) {
        const codes = [...new Set(Array.from(rows, (row) => keys[row]))], names = new Map(codes.map((code) => [code, nameOf(code)]));
        const ranks = new Map(codes.sort((one, other) => String(names.get(one)).localeCompare(String(names.get(other)), "en", { numeric: true })).map((code, rank) => [code, rank]));
        for (const row of rows) keys[row] = ranks.get(keys[row]) ?? 0;
      }
      rows.sort((one, other) => sign * (keys[one] - keys[other]) || one - other);
    }
    this.order = rows;
    this.holder.scrollTop = 0;
    this.counted(rows.length);
    this.draw();
  }

  /** Mark a row and, if asked, show it. @param {number} row @param {boolean} show */
  mark(row, show) {
    this.marked = row;
    const place = show ? this.order.indexOf(row) : -1;
    if (place >= 0) {
      const whole = this.order.length * ROW, shown = Math.min(whole, HIGHEST);
      const top = (place * ROW * shown) / Math.max(1, whole);
      if (top < this.holder.scrollTop + ROW || top > this.holder.scrollTop + this.holder.clientHeight - 2 * ROW) this.holder.scrollTop = top - this.holder.clientHeight / 2;
    }
    this.draw();
  }

  paint() {
    const whole = this.order.length * ROW, shown = Math.min(whole, HIGHEST), room = this.holder.clientHeight, seen = Math.ceil(room / ROW) + 2;
    const part = shown > room ? Math.min(1, this.holder.scrollTop / (shown - room)) : 0;
    const first = whole > shown ? Math.floor(part * Math.max(0, this.order.length - seen + 2)) : Math.floor(this.holder.scrollTop / ROW);
    const rows = [...this.order.subarray(first, first + seen)];
    const top = whole > shown ? Math.min(this.holder.scrollTop, shown - rows.length * ROW) : first * ROW;
    this.above.firstChild.style.setProperty("height", `${Math.max(0, top)}px`);
    this.below.firstChild.style.setProperty("height", `${Math.max(0, shown - top - rows.length * ROW)}px`);
    this.rows.replaceChildren(this.above, ...rows.map((row) => element("tr", { "data-instruction": row, "aria-selected": row === this.marked ? "true" : null },
      ...this.columns.map((column) => element("td", { class: column.isNumber ? "number" : "" }, column.text(row))))), this.below);
  }

  /** Put the rows that are shown on the clipboard, with tabs between cells. @returns {Promise<number>} how many */
  async copy() {
    const rows = this.order.subarray(0, MOST_COPIED), lines = [this.columns.map(({ name }) => name).join("\t")];
    for (const row of rows) lines.push(this.columns.map(({ value, nameOf }) => (nameOf ? nameOf(value(row)) : String(value(row)))).join("\t"));
    await copyText(lines.join("\n"));
    return rows.length;
  }
}

// tables.js
// Tables: every instruction and transfer from the columns, the other tables as the page has them; sorted, filtered, copied.


/** @typedef {import("./virtual_table.js").TableColumn} TableColumn */

/** Columns of every instruction of a run. @param {import("./model.js").Model} model @param {import("./model.js").Run} run
 * @returns {TableColumn[]} */
function instructionColumns(model, run) {
  const { layout } = model;
  const values = (/** @type {string} */ name) => { const column = run.column(name); return (/** @type {number} */ row) => column[row]; };
  const timed = (/** @type {string} */ name, /** @type {string} */ column, /** @type {string} */ title) => {
    const value = values(column);
    return { name: `${name} (us)`, isNumber: true, title, value: (/** @type {number} */ place) => value(place) / 1e6, text: (/** @type {number} */ place) => formatDigits(value(place) / 1e6, 3, 3) };
  };
  const named = (/** @type {string} */ name, /** @type {string} */ title, /** @type {(place: number) => number} */ code, /** @type {(code: number) => string} */ nameOf) => (
    { name, isNumber: false, title, value: code, nameOf, text: (/** @type {number} */ place) => nameOf(code(place)) });
  const counted = (/** @type {string} */ name, /** @type {string} */ title, /** @type {(place: number) => number} */ value, /** @type {(value: number) => string} */ text) => (
    { name, isNumber: true, title, value, text: (/** @type {number} */ place) => (value(place) ? text(value(place)) : "") });
  const opcode = values("opcode"), label = values("label"), site = values("site"), stream = values("stream"), cause = values("cause"), critical = values("critical"), wait = values("wait"), bound = values("bound");
  return [
    { name: "#", isNumber: true, title: "place in program order", value: (row) => row, text: (row) => formatCount(row) },
    named("instruction", "what it does", (place) => opcode(place) * 2 ** 24 + label(place), (code) => {
      const label = layout.labels?.[code % 2 ** 24];
      return layout.opcodes[Math.floor(code / 2 ** 24)] + (label ? ` ${label}` : "");
    }),
    named("line", "line of source", (place) => model.lineOfSite[site(place)], (line) => model.lineText(line)),
    named("on", "engine or queue", stream, (place) => run.place.streams[place].name),
    timed("start", "start", "from the start of the run"),
    timed("ready", "ready", "when its operands, and room for its results, were there"),
    timed("held", "slot", "how long it held its engine"),
    timed("result", "length", "how long until its result was visible"),
    timed("waited", "wait", "how long its engine stood idle before it, waiting"),
    named("for", "what it waited for", (place) => (wait(place) > 0 ? cause(place) : -1), (code) => (code < 0 ? "" : (layout.cause_words ?? layout.causes)[code])),
    named("bound by", "what decided when it started", bound, (code) => (code ? layout.bounds[code] : "")),
    counted("moved", "bytes moved", values("dma_bytes"), formatBytes),
    counted("MACs", "multiply-adds", values("macs"), formatCount),
    named("critical", "whether it is on the critical path", critical, (code) => (code ? "yes" : "")),
  ];
}

/** Columns of every transfer of the DMA engines. @param {import("./model.js").Model} model @param {import("./model.js").Run} run @returns {TableColumn[]} */
function transferColumns(model, run) {
  const [instruction, engine, start, length, bytes] = ["instruction", "dma_engine", "start", "length", "bytes"].map((name) => run.transfers.column(name));
  const opcode = run.column("opcode"), site = run.column("site");
  const number = (/** @type {string} */ name, /** @type {string} */ title, /** @type {(row: number) => number} */ value, /** @type {(value: number) => string} */ text) => (
    { name, isNumber: true, title, value, text: (/** @type {number} */ row) => text(value(row)) });
  const time = (/** @type {number} */ value) => formatDigits(value / 1e6, 3, 3);
  return [
    number("#", "instruction", (row) => instruction[row], formatCount),
    { name: "instruction", isNumber: false, value: (row) => opcode[instruction[row]], text: (row) => model.layout.opcodes[opcode[instruction[row]]], nameOf: (code) => model.layout.opcodes[code] },
    { name: "line", isNumber: false, value: (row) => model.lineOfSite[site[instruction[row]]], text: (row) => model.lineText(model.lineOfSite[site[instruction[row]]]), nameOf: (line) => model.lineText(line) },
    number("DMA engine", "which of them", (row) => engine[row], String),
    number("start (us)", "from the start of the run", (row) => start[row], time),
    number("took (us)", "until its end", (row) => length[row], time),
    number("moved", "bytes", (row) => bytes[row], formatBytes),
    number("rate", "bytes a second", (row) => (length[row] ? (bytes[row] / length[row]) * 1e12 : 0), (value) => `${formatBytes(value)}/s`),
  ];
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
function buildTables(model, store) {
  const holder = body("tables"), run = model.runs[0], stage = holder.querySelector("[data-stage]") ?? holder.appendChild(element("div"));
  stage.setAttribute("class", "table-stage");
  const fixed = /** @type {HTMLTableElement[]} */ ([...holder.querySelectorAll("table[data-table]")]);
  const count = element("span", { class: "soft wide number", "aria-live": "polite" });
  const query = element("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", spellcheck: false });
  /** Tables whose rows come from the columns. @type {Map<string, VirtualTable>} */
  const made = new Map();
  let shown = "";

  const make = (/** @type {string} */ name) => {
    const counted = (/** @type {number} */ seen) => { count.textContent = `${formatCount(seen)} rows`; };
    const instruction = run.transfers.column("instruction"), { base } = run;
    const table = name === "dma" ? new VirtualTable(transferColumns(model, run), run.transfers.rows, (row) => store.select("instruction", instruction[row] + base), counted)
      : new VirtualTable(instructionColumns(model, run), run.count, (row) => store.select("instruction", row + base), counted);
    made.set(name, table);
    return table;
  };
  const names = /** @type {Record<string, string>} */ ({ instructions: "Instructions", dma: "DMA", collectives: "Collectives", summary: "Summary", lines: "Lines", engines: "Engines" });
  const isVirtual = (/** @type {string} */ name) => Boolean(run?.count) && (name === "instructions" || name === "dma");
  const show = (/** @type {string} */ name) => {
    shown = name;
    for (const button of tabs) button.setAttribute("aria-pressed", String(button.dataset.name === name));
    for (const table of fixed) table.hidden = isVirtual(name) || table.dataset.table !== name;
    const entry = isVirtual(name) ? made.get(name) ?? make(name) : undefined;
    stage.replaceChildren(...(entry ? [entry.holder] : []));
    query.value = entry ? entry.words : "";
    filter();
    follow();
  };
  const filter = () => {
    const entry = made.get(shown);
    if (entry) return entry.filter(query.value);
    const table = fixed.find((each) => each.dataset.table === shown);
    count.textContent = `${formatCount(table ? filterRows(table, query.value) : 0)} rows`;
  };
  const follow = () => {
    const { kind, place } = store.chosen, entry = made.get(shown);
    if (!entry) {
      for (const row of /** @type {NodeListOf<HTMLElement>} */ (holder.querySelectorAll("tr[data-line]"))) {
        row.toggleAttribute("aria-current", kind === "line" && model.lineNamed(row.dataset.line) === place);
      }
      return;
    }
    const row = kind === "instruction" && place < run.count ? place : kind === "line" ? model.rowsOfLine(run, place)[0] ?? -1 : -1;
    entry.mark(shown === "dma" ? run.transfers.column("instruction").indexOf(row) : row, row >= 0);
  };
  const copy = async () => {
    const entry = made.get(shown), table = fixed.find((each) => each.dataset.table === shown);
    const copied = entry ? await entry.copy() : table ? await copyRows(table) : 0;
    count.textContent = `${formatCount(copied)} rows copied`;
  };
  const known = [...new Set(fixed.map((table) => table.dataset.table ?? ""))];
  const tabs = known.map((name) => element("button", { type: "button", "data-name": name, on: { click: () => show(name) } }, names[name] ?? name));
  query.addEventListener("input", filter);
  controls("tables").append(...tabs, query, element("button", { type: "button", title: "Copy the rows that are shown, for a spreadsheet", on: { click: copy } }, "Copy"), count);
  for (const table of fixed) {
    makeSortable(table);
    table.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("tr[data-line], tr[data-instruction]"));
      const line = model.lineNamed(row?.dataset.line);
      if (row?.dataset.instruction) store.select("instruction", Number(row.dataset.instruction) + (model.runs[Number(row.dataset.run ?? 0)]?.base ?? 0));
      else if (line >= 0) store.select("line", line);
    });
  }
  store.on("selection", follow);
  show(known.includes("instructions") ? "instructions" : known[0] ?? "");
}

// arrows.js
// Arrows to what a selection depends on and from it to what depends on it, and the line of the critical path.


/** Where an instruction is drawn, in CSS pixels; null where its lane is not shown.
 * @typedef {(id: number) => {from: number, to: number, y: number}|null} Locate */

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} colour @param {boolean} binds */
function drawArrow(context, x0, y0, x1, y1, colour, binds) {
  const bend = Math.max(14, Math.min(80, Math.abs(x1 - x0) / 2));
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = binds ? 2.4 : 1.1;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 7, y1 - 3.5);
  context.lineTo(x1 - 7, y1 + 3.5);
  context.fill();
}

/** From who came last to a meeting to those who waited there: all begin at one time, or a hop apart.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Model} model @param {number} id @param {Locate} locate */
function drawMeeting(context, model, id, locate) {
  const others = model.meetingOf(id);
  if (!others.length) return;
  const ready = (/** @type {number} */ each) => { const [run, row] = model.find(each); return run.column("ready")[row] + run.origin; };
  const all = [id, ...others], last = all.reduce((one, other) => (ready(other) > ready(one) ? other : one)), from = locate(last);
  context.strokeStyle = context.fillStyle = themeColour("ink");
  context.lineWidth = 1.6;
  for (const each of all) {
    const to = each === last ? null : locate(each);
    if (!from || !to) continue;
    const down = to.y > from.y ? 1 : -1;
    context.beginPath();
    context.moveTo(from.from, from.y);
    context.lineTo(to.from, to.y - 6 * down);
    context.stroke();
    context.beginPath();
    context.moveTo(to.from, to.y);
    context.lineTo(to.from - 4, to.y - 7 * down);
    context.lineTo(to.from + 4, to.y - 7 * down);
    context.fill();
  }
}

/** Arrows of some instructions both ways: of many that would lie on each other, one.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Model} model
 * @param {Iterable<number>} ids @param {Locate} locate @param {number} width of what is in view */
function drawArrows(context, model, ids, locate, width) {
  context.setLineDash([]);
  const drawn = new Set(), inside = (/** @type {number} */ x) => Math.round(Math.max(-1, Math.min(width + 1, x)));
  const draw = (/** @type {ReturnType<Locate>} */ from, /** @type {ReturnType<Locate>} */ to, /** @type {string} */ colour, /** @type {boolean} */ binds) => {
    if (!from || !to) return;
    const key = [inside(from.to), from.y, inside(to.from), to.y, colour].join();
    if (!drawn.has(key)) drawArrow(context, from.to, from.y, to.from, to.y, themeColour(colour), binds);
    drawn.add(key);
  };
  for (const id of ids) {
    const here = locate(id);
    if (!here) continue;
    for (const { id: other, binds } of model.before(id)) draw(locate(other), here, "arrow-in", binds);
    drawMeeting(context, model, id, locate);
    for (const { id: other, binds } of model.after(id)) draw(here, locate(other), "arrow-out", binds);
  }
}

/** Instructions of the critical path of a run, by rising start. @param {import("./model.js").Run} run @returns {Uint32Array} rows */
function criticalRows(run) {
  return run.once("critical", () => {
    const flags = run.column("critical"), start = run.column("start"), rows = [];
    for (let row = 0; row < run.count; row++) if (flags[row]) rows.push(row);
    return Uint32Array.from(rows.sort((one, other) => start[one] - start[other] || one - other));
  });
}

/** Join what of the critical path is in view, unless there is too much of it to follow.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Run} run @param {number} from @param {number} to @param {Locate} locate */
function drawCriticalPath(context, run, from, to, locate) {
  const rows = criticalRows(run), start = run.column("start");
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[rows[middle]] + run.origin < from) low = middle + 1;
    else high = middle;
  }
  const points = [];
  for (let place = Math.max(0, low - 1); place < rows.length && points.length <= 400; place++) {
    const where = locate(rows[place] + run.base);
    if (where) points.push(where);
    if (start[rows[place]] + run.origin > to) break;
  }
  if (points.length > 400) return;
  context.strokeStyle = themeColour("critical");
  context.lineWidth = 1.4;
  context.setLineDash([5, 3]);
  context.beginPath();
  points.forEach(({ from: x0, to: x1, y }, place) => {
    if (place === 0) context.moveTo(x0, y);
    else context.lineTo(x0, y);
    context.lineTo(x1, y);
  });
  context.stroke();
  context.setLineDash([]);
}

// timeline_geometry.js
// Where the parts of the timeline stand, in CSS pixels.

/** Width of the names of lanes. */
const GUTTER = 124;
/** Height of the strip of the whole run, and of the axis below it. */
const OVERVIEW = 24;
const AXIS = 22;
const LANES_TOP = OVERVIEW + AXIS;

// levels_of_detail.js
// What each column of pixels of a lane shows: from the slices themselves when they are few, else from bins
// summed beforehand, halved level by level, so that a column never costs more than a few reads.

/**
 * The slices of a lane, by rising start.
 * @typedef {object} Slices
 * @property {Float64Array} from when it began, in ps
 * @property {Float64Array} to when its slot ended
 * @property {Float64Array} wait for how long the lane stood idle before it, waiting, in ps
 * @property {Uint8Array} shade which colour
 * @property {Uint8Array} group which group of waits
 * @property {Uint32Array} id which instruction or transfer
 */

/**
 * Sums over even bins: shares of each bin, and what holds the most of it.
 * @typedef {{width: number, busy: Float32Array, shade: Uint8Array, wait: Float32Array, group: Uint8Array}} Bins
 */

/** Columns of pixels. @typedef {{busy: Float32Array, shade: Uint8Array, wait: Float32Array, group: Uint8Array}} Columns */

const MOST_BINS = 1 << 17;

/** @param {number} count @returns {Columns} */
function makeColumns(count) {
  return { busy: new Float32Array(count), shade: new Uint8Array(count), wait: new Float32Array(count), group: new Uint8Array(count) };
}

/** Add spans to bins of one width: shares, and the kind that holds the longest single part.
 * @param {Slices} slices @param {number} first @param {number} last @param {number} origin @param {number} width of a bin
 * @param {Columns} into */
function addSlices(slices, first, last, origin, width, into) {
  const count = into.busy.length;
  const longest = new Float32Array(count), longestWait = new Float32Array(count);
  /** @param {number} from @param {number} to @param {number} kind @param {Float32Array} sums @param {Uint8Array} kinds @param {Float32Array} most */
  const add = (from, to, kind, sums, kinds, most) => {
    const low = Math.max(0, (from - origin) / width), high = Math.min(count, (to - origin) / width);
    if (high <= low) return;
    for (let bin = Math.floor(low); bin < high; bin++) {
      const share = Math.min(high, bin + 1) - Math.max(low, bin);
      sums[bin] += share;
      if (share > most[bin]) { most[bin] = share; kinds[bin] = kind; }
    }
  };
  for (let place = first; place < last; place++) {
    const from = slices.from[place];
    add(from, slices.to[place], slices.shade[place], into.busy, into.shade, longest);
    if (slices.wait[place] > 0) add(from - slices.wait[place], from, slices.group[place], into.wait, into.group, longestWait);
  }
}

/** The same with bins of twice the width. @param {Bins} fine @returns {Bins} */
function halve(fine) {
  const count = Math.ceil(fine.busy.length / 2), made = makeColumns(count);
  for (let bin = 0; bin < count; bin++) {
    const left = 2 * bin, right = Math.min(left + 1, fine.busy.length - 1), lone = right === left;
    made.busy[bin] = (fine.busy[left] + (lone ? 0 : fine.busy[right])) / 2;
    made.wait[bin] = (fine.wait[left] + (lone ? 0 : fine.wait[right])) / 2;
    made.shade[bin] = fine.shade[fine.busy[right] > fine.busy[left] ? right : left];
    made.group[bin] = fine.group[fine.wait[right] > fine.wait[left] ? right : left];
  }
  return { width: fine.width * 2, ...made };
}

class Detail {
  /** @param {Slices} slices @param {number} length of the run, in ps */
  constructor(slices, length) {
    this.slices = slices;
    this.length = Math.max(1, length);
    /** @type {Bins[]} */
    this.levels = [];
    // The latest end so far: slices of a lane may overlap (DMA), so ends do not rise by themselves.
    this.latest = new Float64Array(slices.from.length);
    let latest = 0;
    for (let place = 0; place < slices.from.length; place++) {
      latest = Math.max(latest, slices.to[place]);
      this.latest[place] = latest;
    }
  }

  /** Make the bins; a lane of few slices needs none. */
  prepare() {
    const count = this.slices.from.length;
    if (this.levels.length || count < 2048) return;
    const bins = Math.min(MOST_BINS, 2 ** Math.ceil(Math.log2(count)));
    const base = { width: this.length / bins, ...makeColumns(bins) };
    addSlices(this.slices, 0, count, 0, base.width, base);
    for (let level = /** @type {Bins} */ (base); ; level = halve(level)) {
      this.levels.push(level);
      if (level.busy.length <= 256) break;
    }
  }

  /** The places of slices that touch a time, waits included: from the first up to the last.
   * @param {number} from @param {number} to @returns {[number, number]} */
  range(from, to) {
    const { slices } = this;
    const first = lowerBound(this.latest, from);
    let last = lowerBound(slices.from, to);
    // The next one's wait may reach into view.
    if (last < slices.from.length && slices.from[last] - slices.wait[last] < to) last++;
    return [first, last];
  }

  /** Fill columns that share a time evenly. @param {number} from @param {number} to @param {Columns} into */
  columns(from, to, into) {
    for (const part of Object.values(into)) part.fill(0);
    const count = into.busy.length, width = (to - from) / count;
    const [first, last] = this.range(from, to);
    const fit = this.levels.findLastIndex((level) => level.width <= width);
    if (fit < 0 || last - first < 4 * count) {
      addSlices(this.slices, first, last, from, width, into);
      return;
    }
    const level = this.levels[fit], bins = level.busy.length;
    for (let column = 0; column < count; column++) {
      const low = Math.max(0, Math.floor((from + column * width) / level.width));
      const high = Math.min(bins, Math.max(low + 1, Math.ceil((from + (column + 1) * width) / level.width)));
      let busy = 0, wait = 0, most = -1, mostWait = -1;
      for (let bin = low; bin < high; bin++) {
        busy += level.busy[bin];
        wait += level.wait[bin];
        if (level.busy[bin] > most) { most = level.busy[bin]; into.shade[column] = level.shade[bin]; }
        if (level.wait[bin] > mostWait) { mostWait = level.wait[bin]; into.group[column] = level.group[bin]; }
      }
      const parts = Math.max(1, high - low);
      into.busy[column] = busy / parts;
      into.wait[column] = wait / parts;
    }
  }

  /** The place of the slice at a time, or -1; with a wait, that of the slice that waits.
   * @param {number} time @param {number} slack in ps, for slices thinner than a pixel */
  at(time, slack) {
    const [first, last] = this.range(time - slack, time + slack);
    let best = -1, nearest = Infinity;
    for (let place = first; place < last && place < first + 4096; place++) {
      const from = this.slices.from[place], to = this.slices.to[place];
      const off = time < from ? (time >= from - this.slices.wait[place] ? slack : from - time) : time > to ? time - to : 0;
      if (off <= slack && off < nearest) { nearest = off; best = place; }
    }
    return best;
  }
}

/** The first place whose value is at least a value. @param {ArrayLike<number>} values @param {number} value */
function lowerBound(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// curve.js
// A quantity that holds from each time to the next: its mean over any time, from sums made once.


class Curve {
  /** @param {ArrayLike<number>} time in ps @param {ArrayLike<number>} value @param {number} origin of the times
   * @param {number} end in ps: until when the last holds @param {number} limit what can be at most; 0 where nobody says
   * @param {(value: number) => string} text @param {boolean} rate whether values are amounts until the next time, wanted per second */
  constructor(time, value, origin, end, limit, text, rate) {
    const count = time.length;
    this.text = text;
    this.limit = limit;
    this.time = new Float64Array(count + 1);
    this.sum = new Float64Array(count + 1);
    this.most = 0;
    for (let place = 0; place < count; place++) {
      this.time[place] = time[place] + origin;
      const next = place + 1 < count ? time[place + 1] : Math.max(end, time[place]), held = next - time[place];
      const level = rate ? (held > 0 ? (value[place] / held) * 1e12 : 0) : value[place];
      this.sum[place + 1] = this.sum[place] + level * held;
      if (held > 0) this.most = Math.max(this.most, level);
    }
    this.time[count] = Math.max(end, time[count - 1] ?? 0) + origin;
  }

  /** What has come together until a time. @param {number} time */
  until(time) {
    const last = this.time.length - 1;
    if (time <= this.time[0]) return 0;
    if (time >= this.time[last]) return this.sum[last];
    const next = lowerBound(this.time, time), share = (time - this.time[next - 1]) / (this.time[next] - this.time[next - 1] || 1);
    return this.sum[next - 1] + share * (this.sum[next] - this.sum[next - 1]);
  }

  /** @param {number} from @param {number} to */
  mean(from, to) {
    return to > from ? (this.until(to) - this.until(from)) / (to - from) : 0;
  }

  /** The value at a time. @param {number} time */
  at(time) {
    const next = lowerBound(this.time, time + 1);
    if (next <= 0 || next >= this.time.length) return 0;
    const held = this.time[next] - this.time[next - 1];
    return held > 0 ? (this.sum[next] - this.sum[next - 1]) / held : 0;
  }
}

// lanes.js
// The rows of the timeline: engines, DMA engines and queues (folded until asked for), curves, cores, ranks, levels.


/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./model.js").Run} Run */
/** @typedef {import("./levels_of_detail.js").Slices} Slices */

/**
 * A row of the timeline.
 * @typedef {object} Lane
 * @property {"head"|"slices"|"share"|"curve"} kind heading of a run; slices that follow each other; how much of many is
 *     at work; a curve
 * @property {string} key @property {string} label @property {string} hint @property {number} depth
 * @property {boolean} folds whether it stands for others that can be shown
 * @property {string[]} within keys of the folds that it is in
 * @property {Run} run @property {number} capacity how many are at work at most
 * @property {() => Detail} detail made when it is first drawn
 * @property {Curve|null} curve
 * @property {boolean} isEmpty
 */

/** Rows by rising start: dealt into even times, then sorted in each, which is fast for the nearly sorted.
 * @param {Uint32Array} rows @param {(row: number) => number} start @returns {Uint32Array} */
function byStart(rows, start) {
  let latest = 0, isRising = true;
  for (let place = 0; place < rows.length; place++) {
    const time = start(rows[place]);
    if (time < latest) isRising = false;
    else latest = time;
  }
  if (isRising) return rows;
  const parts = 2 ** Math.min(18, Math.ceil(Math.log2(rows.length))), each = (latest + 1) / parts, keys = new Uint32Array(rows.length);
  for (let place = 0; place < rows.length; place++) keys[place] = start(rows[place]) / each;
  const { starts, places } = groupBy(keys, parts), order = places.map((place) => rows[place]);
  for (let part = 0; part < parts; part++) {
    if (starts[part + 1] - starts[part] > 1) order.subarray(starts[part], starts[part + 1]).sort((one, other) => start(one) - start(other) || one - other);
  }
  return order;
}

/** Instructions or transfers as slices: by rising start, in time of all runs.
 * @param {Run} run @param {Uint32Array} rows @param {(row: number) => number} start @param {(row: number) => number} length
 * @param {(row: number) => number} instruction @param {(row: number) => number} shade @param {(row: number) => number} group of its wait
 * @param {boolean} waits */
function makeSlices(run, rows, start, length, instruction, shade, group, waits) {
  const count = rows.length, order = byStart(rows, start);
  /** @type {Slices} */
  const made = { from: new Float64Array(count), to: new Float64Array(count), wait: new Float64Array(count),
    shade: new Uint8Array(count), group: new Uint8Array(count), id: new Uint32Array(count) };
  const wait = waits ? run.column("wait") : null;
  for (let place = 0; place < count; place++) {
    const row = order[place], from = start(row) + run.origin;
    made.from[place] = from;
    made.to[place] = from + length(row);
    made.id[place] = instruction(row) + run.base;
    made.shade[place] = shade(instruction(row));
    if (wait) {
      made.wait[place] = wait[row];
      made.group[place] = group(row);
    }
  }
  return made;
}

class Lanes {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    const families = familyNames(), other = families.indexOf("other");
    this.families = Uint8Array.from(model.layout.opcodes ?? [], (_, opcode) => {
      const found = families.indexOf(model.layout.families?.[opcode]);
      return found < 0 ? other : found;
    });
    /** What bars are coloured by. @type {"family"|"line"} */
    this.colouring = "family";
    /** Keys of what is folded. @type {Set<string>} */
    this.folded = new Set();
    /** @type {Lane[]} */
    this.all = [];
    for (const run of model.runs) this.addRun(run);
  }

  /** Lanes that are not hidden in a fold. */
  visible() {
    return this.all.filter((lane) => lane.within.every((key) => !this.folded.has(key)));
  }

  /** @param {string} key */
  turn(key) {
    if (!this.folded.delete(key)) this.folded.add(key);
  }

  /** @param {"family"|"line"} colouring */
  colourBy(colouring) {
    this.colouring = colouring;
    for (const run of this.model.runs) for (const key of [...run.lazy.keys()]) if (key.startsWith("lane ")) run.lazy.delete(key);
  }

  /** @param {Run} run @returns {(row: number) => number} */
  shades(run) {
    if (this.colouring === "line") {
      const site = run.column("site"), { lineOfSite } = this.model;
      return (row) => lineOfSite[site[row]] % SERIES_COUNT;
    }
    const opcode = run.column("opcode");
    return (row) => this.families[opcode[row]];
  }

  /** @param {Run} run */
  addRun(run) {
    const several = this.model.runs.length > 1, top = `run ${run.number}`, inside = several ? [top] : [];
    if (several) {
      this.add(run, { kind: "head", key: top, label: run.title, hint: formatTime(run.place.latency_ps), folds: true,
        capacity: Math.max(1, run.place.streams.filter((/** @type {any} */ each) => each.queue === null).length) }, () => everyRow(run.count), []);
      if (!run.place.is_main && this.model.runs.length > 4) this.folded.add(top);
    }
    const streams = run.place.streams ?? [], byStream = () => run.once("streams", () => groupBy(run.column("stream"), streams.length));
    const queues = streams.map((/** @type {any} */ _, /** @type {number} */ place) => place).filter((/** @type {number} */ place) => streams[place].queue !== null && streams[place].queue !== undefined);
    const engines = streams.map((/** @type {any} */ _, /** @type {number} */ place) => place).filter((/** @type {number} */ place) => !queues.includes(place));
    engines.sort((/** @type {number} */ one, /** @type {number} */ other) => streams[one].engine - streams[other].engine);
    for (const place of engines) {
      this.add(run, { kind: "slices", key: `${top} stream ${place}`, label: streams[place].name, depth: 0 }, () => groupOf(byStream(), place), inside);
    }
    if (run.transfers.rows) {
      const key = `${top} dma`, instruction = run.transfers.column("instruction"), count = run.place.dma_engines || 1;
      const byEngine = () => run.once("dma engines", () => groupBy(run.transfers.column("dma_engine"), count));
      this.add(run, { kind: "share", key, label: "DMA engines", hint: `${count} together: height is how many move bytes`, folds: true,
        capacity: count, transfers: instruction }, () => everyRow(run.transfers.rows), inside);
      this.folded.add(key);
      for (let engine = 0; engine < count; engine++) {
        this.add(run, { kind: "slices", key: `${key} ${engine}`, label: `DMA ${engine}`, depth: 1, transfers: instruction },
          () => groupOf(byEngine(), engine), [...inside, key]);
      }
    }
    if (queues.length) {
      const key = `${top} queues`;
      this.add(run, { kind: "share", key, label: "DMA queues", hint: `${queues.length} together: height is how many have a transfer under way`, folds: true, capacity: queues.length },
        () => Uint32Array.from(queues.flatMap((/** @type {number} */ place) => [...groupOf(byStream(), place)])).sort(), inside);
      this.folded.add(key);
      for (const place of queues) {
        this.add(run, { kind: "slices", key: `${top} stream ${place}`, label: `queue ${streams[place].queue}`, hint: streams[place].name, depth: 1 },
          () => groupOf(byStream(), place), [...inside, key]);
      }
    }
    this.addCurves(run, top, inside);
  }

  /** @param {Run} run @param {string} top @param {string[]} inside */
  addCurves(run, top, inside) {
    /** @param {string} label @param {import("./data.js").ColumnTable} table @param {string} column @param {number} limit
     * @param {(value: number) => string} text @param {boolean} [rate] */
    const add = (label, table, column, limit, text, rate = false) => {
      if (table.rows < 2 || !table.has(column)) return;
      const make = () => run.once(`curve ${label}`, () => new Curve(table.column("time"), table.column(column), run.origin, run.place.latency_ps, limit, text, rate));
      this.all.push({ kind: "curve", key: `${top} ${label}`, label, hint: "", depth: 0, folds: false, within: inside, run, capacity: 1,
        detail: () => { throw new Error("a curve has no slices"); }, isEmpty: false, get curve() { return make(); } });
    };
    const { arch } = this.model.layout, limit = (/** @type {string} */ memory) => this.model.layout.memory?.find(
      (/** @type {any} */ each) => each.run === run.number && each.memory === memory)?.capacity_bytes ?? arch?.[`${memory}_partition_bytes`] ?? 0;
    add("HBM", run.hbm, "bytes", (arch?.hbm_gbps ?? 0) * 1e9, (value) => formatRate(value, "B/s"), true);
    add("SBUF", run.occupancy, "sbuf", limit("sbuf"), (value) => `${formatCapacity(value)} a partition`);
    add("PSUM", run.occupancy, "psum", limit("psum"), (value) => `${formatCapacity(value)} a partition`);
  }

  /** @param {Run} run @param {any} lane @param {Uint32Array|(() => Uint32Array)} rows @param {string[]} within */
  add(run, lane, rows, within) {
    const { transfers, ...rest } = lane;
    const taken = () => (typeof rows === "function" ? rows() : rows);
    const detail = () => run.once(`lane ${lane.key}`, () => {
      const table = transfers ? run.transfers : run.instructions, start = table.column("start"), length = table.column(transfers ? "length" : "slot");
      const slices = makeSlices(run, taken(), (row) => start[row], (row) => length[row], transfers ? (row) => transfers[row] : (row) => row,
        this.shades(run), this.model.waitGroups(run), !transfers && lane.kind === "slices");
      const made = new Detail(slices, this.model.length);
      made.prepare();
      return made;
    });
    this.all.push({ hint: "", depth: 0, folds: false, capacity: 1, ...rest, within, run, detail, curve: null,
      get isEmpty() { return lane.kind === "slices" && taken().length === 0; } });
  }
}

// lane_painter.js
// Puts lanes on the board: slices where they are few, shares of each column where they are many.


/** @typedef {import("./lanes.js").Lane} Lane */
/** A slice that is wide enough for its name, in pixels of the screen.
 * @typedef {{x: number, width: number, y: number, height: number, id: number, ink: string}} Named */

class LanePainter {
  constructor() {
    this.board = new PixelBoard();
    this.columns = makeColumns(0);
    /** @type {Named[]} */
    this.named = [];
    this.scale = 1;
  }

  /** Take the colours of the theme. @param {"family"|"line"} colouring @param {number} scale */
  ready(colouring, scale) {
    const names = familyNames();
    const colours = colouring === "family" ? names.map(familyColour) : Array.from({ length: SERIES_COUNT }, (_, place) => seriesColour(place));
    const paper = themeColour("paper");
    this.scale = scale;
    this.inks = colours.map(inkOn);
    this.full = Uint32Array.from(colours, pixelOf);
    this.dim = Uint32Array.from(colours, (colour) => pixelOf(mix(colour, paper, 0.78)));
    this.tiles = WAIT_GROUPS.map(({ hatch }, group) => makeTile(hatch, mix(waitColour(group), paper, hatch === "none" ? 0.6 : 0.82), mix(waitColour(group), paper, 0.25), scale));
    this.dimTiles = WAIT_GROUPS.map(({ hatch }, group) => makeTile(hatch, mix(waitColour(group), paper, 0.93), mix(waitColour(group), paper, 0.75), scale));
    this.paper = pixelOf(paper);
    this.faint = pixelOf(themeColour("faint"));
    this.critical = pixelOf(themeColour("critical"));
    this.curve = pixelOf(themeColour("accent"));
    this.curveGround = pixelOf(mix(themeColour("accent"), paper, 0.7));
  }

  /** @param {number} width @param {number} height in pixels of the screen */
  begin(width, height) {
    this.board.resize(width, height);
    this.board.clear(this.paper);
    if (this.columns.busy.length !== this.board.width) this.columns = makeColumns(this.board.width);
    this.named = [];
  }

  /** Draw a lane of slices or of shares.
   * @param {Lane} lane @param {number} top @param {number} height in pixels of the screen @param {number} from @param {number} to in ps
   * @param {{places: Uint32Array, from: Float64Array, mask: Uint8Array}|null} chosen what stays in full colour; null: all
   * @param {boolean} names whether slices are named */
  slices(lane, top, height, from, to, chosen, names) {
    const detail = lane.detail(), { board } = this, { slices } = detail;
    const [first, last] = detail.range(from, to), pixels = board.width / (to - from);
    const bottom = top + height;
    board.fill(0, board.width, bottom - 1, bottom, this.faint);
    if (lane.kind === "slices" && last - first <= 2 * board.width) {
      for (let place = first; place < last; place++) {
        const start = Math.floor((slices.from[place] - from) * pixels), end = Math.max(start + 1, Math.floor((slices.to[place] - from) * pixels));
        const on = !chosen || chosen.mask[slices.id[place] - lane.run.base];
        if (slices.wait[place] > 0) {
          const begin = Math.floor((slices.from[place] - slices.wait[place] - from) * pixels);
          board.hatch(begin, start, top + (height >> 2), bottom - 1, (on ? this.tiles : this.dimTiles)[slices.group[place]]);
        }
        if (end <= 0 || start >= board.width) continue;
        board.fill(start, end - start > 3 ? end - 1 : end, top + 1, bottom - 1, (on ? this.full : this.dim)[slices.shade[place]]);
        const left = Math.max(0, start), width = Math.min(board.width, end) - left;
        if (names && width > 30 * this.scale) this.named.push({ x: left, width, y: top, height, id: slices.id[place], ink: on ? this.inks[slices.shade[place]] : "" });
      }
      return;
    }
    detail.columns(from, to, this.columns);
    this.shares(lane, top, height, chosen ? this.dim : this.full, chosen ? this.dimTiles : this.tiles);
    if (chosen && lane.kind === "slices") this.marks(lane, chosen, from, to, (x, end, place) => board.fill(x, end, top + 1, bottom - 1, this.full[slices.shade[place]]));
    else if (chosen) this.marks(lane, chosen, from, to, (x, end, place) => board.fill(x, end, bottom - Math.ceil(height / 2), bottom - 1, this.full[slices.shade[place]]));
  }

  /** @param {Lane} lane @param {number} top @param {number} height @param {Uint32Array} colours @param {import("./raster.js").Tile[]} tiles */
  shares(lane, top, height, colours, tiles) {
    const { board, columns } = this, room = height - 2, bottom = top + height - 1;
    for (let x = 0; x < board.width; x++) {
      const busy = Math.min(1, columns.busy[x] / lane.capacity);
      if (busy <= 0 && columns.wait[x] <= 0) continue;
      const high = busy > 0 ? Math.max(1, Math.round(busy * room)) : 0;
      board.fill(x, x + 1, bottom - high, bottom, colours[columns.shade[x]]);
      if (columns.wait[x] > 0 && lane.kind === "slices") {
        const wait = Math.round(Math.min(1 - busy, columns.wait[x]) * room * 0.75);
        board.hatch(x, x + 1, bottom - high - wait, bottom - high, tiles[columns.group[x]]);
      }
    }
  }

  /** Visit some slices of a lane, each column at most once. @param {Lane} lane @param {{places: Uint32Array, from: Float64Array}} some
   * @param {number} from @param {number} to @param {(x: number, end: number, place: number) => void} draw */
  marks(lane, some, from, to, draw) {
    const { board } = this, { slices } = lane.detail(), pixels = board.width / (to - from), count = some.places.length;
    // One that begins before the view may reach into it.
    let next = Math.max(0, lowerBound(some.from, from) - (lane.kind === "slices" ? 1 : 64));
    while (next < count && some.from[next] < to) {
      const place = some.places[next], x = Math.floor((slices.from[place] - from) * pixels);
      const end = Math.max(x + 1, Math.floor((slices.to[place] - from) * pixels));
      if (end > 0) draw(x, end, place);
      next++;
      if (next < count && x >= 0 && (some.from[next] - from) * pixels < x + 1) next = Math.max(next, lowerBound(some.from, from + (x + 1) / pixels));
    }
  }

  /** Underline what is on the critical path. @param {Lane} lane @param {number} top @param {number} height
   * @param {number} from @param {number} to @param {{places: Uint32Array, from: Float64Array}} critical */
  criticalMarks(lane, top, height, from, to, critical) {
    const thick = Math.round(3 * this.scale);
    this.marks(lane, critical, from, to, (x, end) => this.board.fill(x, end, top + height - thick, top + height, this.critical));
  }

  /** @param {Lane} lane @param {number} top @param {number} height @param {number} from @param {number} to */
  curveLane(lane, top, height, from, to) {
    const curve = /** @type {import("./curve.js").Curve} */ (lane.curve), { board } = this, step = (to - from) / board.width;
    const room = height - Math.round(4 * this.scale), bottom = top + height - 1, most = curve.most || 1, thick = Math.max(1, Math.round(this.scale));
    let before = curve.until(from);
    for (let x = 0; x < board.width; x++) {
      const until = curve.until(from + (x + 1) * step), high = Math.round(((until - before) / step / most) * room);
      before = until;
      if (high <= 0) continue;
      board.fill(x, x + 1, bottom - high, bottom, this.curveGround);
      board.fill(x, x + 1, bottom - high, bottom - high + thick, this.curve);
    }
    board.fill(0, board.width, bottom, bottom + 1, this.faint);
  }
}

// overview.js
// The whole run in a strip, with a window on what is in view.


class Overview {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    /** @type {Float32Array|null} */
    this.shares = null;
    this.forget();
  }

  forget() {
    this.width = 0;
  }

  /** What part of the engines of the first run is at work in each of some even times; made once. @param {number} count */
  measure(count) {
    const shares = new Float32Array(count), width = this.store.length / count;
    for (const run of this.model.runs.filter((each) => each.place.is_main)) {
      const start = run.column("start"), slot = run.column("slot");
      for (let row = 0; row < run.count; row++) {
        const low = (start[row] + run.origin) / width, high = Math.min(count, low + slot[row] / width);
        for (let bin = Math.floor(low); bin < high; bin++) shares[bin] += Math.min(high, bin + 1) - Math.max(low, bin);
      }
    }
    return shares;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} left @param {number} width @param {number} height in CSS pixels */
  paint(context, left, width, height) {
    const shares = (this.shares ??= this.measure(2048)), bins = shares.length;
    const most = (this.most ??= shares.reduce((one, other) => Math.max(one, other), 0) || 1);
    context.fillStyle = themeColour("raised");
    context.fillRect(left, 2, width, height - 2);
    context.fillStyle = mix(themeColour("accent"), themeColour("paper"), 0.35);
    context.beginPath();
    context.moveTo(left, height);
    for (let x = 0; x <= width; x += 2) {
      const bin = Math.min(bins - 1, Math.floor((x / width) * bins));
      context.lineTo(left + x, height - (shares[bin] / most) * (height - 5));
    }
    context.lineTo(left + width, height);
    context.fill();
    const { from, to, length } = this.store;
    const x0 = left + (from / length) * width, x1 = Math.max(x0 + 3, left + (to / length) * width);
    context.globalAlpha = 0.55;
    context.fillStyle = themeColour("ground");
    context.fillRect(left, 2, x0 - left, height - 2);
    context.fillRect(x1, 2, left + width - x1, height - 2);
    context.globalAlpha = 1;
    context.strokeStyle = themeColour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x0 + 0.75, 2.75, Math.max(2, x1 - x0 - 1.5), height - 3.5);
  }
}

// timeline_cover.js
// What changes without the bars: the critical path, arrows of the selection, its frame, a measure.


/** @typedef {import("./timeline.js").Timeline} Timeline */

/** What lies over the bars: the critical path, arrows, the selection, what is measured. @param {Timeline} timeline */
function paintCover(timeline) {
  const width = timeline.stage.clientWidth, height = timeline.stage.clientHeight, context = fitCanvas(timeline.cover, width, height);
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(GUTTER, LANES_TOP, width - GUTTER, height - LANES_TOP);
  context.clip();
  const { chosen, from, to, measured } = timeline.store, locate = (/** @type {number} */ id) => timeline.locate(id);
  if (timeline.showsCritical) for (const run of timeline.model.runs) if (run.place.is_main) drawCriticalPath(context, run, from, to, locate);
  if (chosen.kind === "instruction") {
    if (timeline.showsArrows) drawArrows(context, timeline.model, [chosen.place], locate, width);
    const here = locate(chosen.place), high = here ? timeline.laneAt(here.y)?.height ?? 20 : 0;
    if (here) {
      context.strokeStyle = themeColour("ink");
      context.lineWidth = 2;
      context.strokeRect(here.from - 1, here.y - high / 2 + 1, Math.max(3, here.to - here.from + 1), high - 2);
    }
  } else if (timeline.showsArrows && chosen.kind !== "none") {
    const seen = chosenInView(timeline, 25);
    if (seen.length <= 24) drawArrows(context, timeline.model, seen, locate, width);
  }
  if (measured) paintMeasure(timeline, context, measured, height);
  context.restore();
}

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {[number, number]} times @param {number} height */
function paintMeasure(timeline, context, times, height) {
  const [low, high] = [Math.min(...times), Math.max(...times)], x0 = timeline.xOf(low), x1 = timeline.xOf(high);
  context.globalAlpha = 0.16;
  context.fillStyle = themeColour("accent");
  context.fillRect(x0, LANES_TOP, x1 - x0, height);
  context.globalAlpha = 1;
  context.fillRect(x0 - 0.5, LANES_TOP, 1, height);
  context.fillRect(x1 - 0.5, LANES_TOP, 1, height);
  context.font = "600 12px system-ui, sans-serif";
  const text = formatTime(high - low, 5), wide = context.measureText(text).width + 14;
  const x = Math.max(GUTTER + 2, Math.min(timeline.stage.clientWidth - wide - 2, (x0 + x1 - wide) / 2));
  context.fillRect(x, LANES_TOP + 6, wide, 20);
  context.fillStyle = themeColour("paper");
  context.textBaseline = "middle";
  context.fillText(text, x + 7, LANES_TOP + 16);
}

/** Instructions that are selected and in view, up to some. @param {Timeline} timeline @param {number} most @returns {number[]} */
function chosenInView(timeline, most) {
  const { from, to } = timeline.store, seen = new Set();
  for (const { lane } of timeline.placed) {
    if (lane.depth > 0 || lane.curve || lane.kind === "head") continue;
    const { slices } = lane.detail(), chosen = timeline.chosenOf(lane);
    if (!chosen) continue;
    for (let next = Math.max(0, lowerBound(chosen.from, from) - 1); next < chosen.places.length && chosen.from[next] < to && seen.size < most; next++) {
      const place = chosen.places[next];
      if (slices.to[place] > from) seen.add(slices.id[place]);
    }
  }
  return [...seen];
}

// timeline_input.js
// Mouse, touchpad and fingers on the timeline: wheel zooms, drag pans, click selects, a press on the strip jumps.


/** @typedef {import("./timeline.js").Timeline} Timeline */

/** @param {Timeline} timeline */
function listenToStage(timeline) {
  const { stage, store } = timeline;
  /** What the pointer began. @type {{kind: "pan"|"measure"|"overview", x: number, y: number, from: number, scroll: number, moved: boolean}|null} */
  let drag = null;
  const at = (/** @type {PointerEvent|WheelEvent|MouseEvent} */ event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const jump = (/** @type {number} */ x) => {
    const wide = store.to - store.from, middle = ((x - GUTTER) / timeline.plotWidth()) * store.length;
    store.zoom(middle - wide / 2, middle + wide / 2);
  };

  stage.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    const { x } = at(event), unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 200 : 1;
    const across = (event.shiftKey ? event.deltaX || event.deltaY : event.deltaX) * unit, down = event.shiftKey ? 0 : event.deltaY * unit;
    if (x < GUTTER || event.altKey) {
      timeline.scroll += down;
      timeline.draw();
    } else if (Math.abs(across) > Math.abs(down)) store.pan((across / timeline.plotWidth()) * (store.to - store.from));
    // A pinch on a touchpad comes as a wheel with the control key, in smaller steps.
    else store.scale(Math.exp(Math.max(-240, Math.min(240, down)) * (event.ctrlKey ? 0.01 : 0.0022)), timeline.timeAt(x));
  }, { passive: false });

  stage.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (event.button > 1) return;
    const { x, y } = at(event);
    stage.setPointerCapture(event.pointerId);
    hideTip();
    if (y < LANES_TOP - 22 && x >= GUTTER) {
      drag = { kind: "overview", x, y, from: store.from, scroll: timeline.scroll, moved: true };
      jump(x);
    } else drag = { kind: timeline.measuring && x >= GUTTER ? "measure" : "pan", x, y, from: store.from, scroll: timeline.scroll, moved: false };
  });

  stage.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const { x, y } = at(event);
    if (!drag) {
      hover(timeline, x, y, event);
      // The second of two clicks is shown before it is made.
      if (timeline.measuring && timeline.firstPoint !== undefined) store.measure([timeline.firstPoint, timeline.timeAt(x)]);
      return;
    }
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.kind === "overview") jump(x);
    else if (drag.kind === "measure") store.measure([timeline.timeAt(drag.x), timeline.timeAt(x)]);
    else {
      stage.classList.add("panning");
      timeline.scroll = drag.scroll - (y - drag.y);
      const wide = store.to - store.from, from = drag.from - ((x - drag.x) / timeline.plotWidth()) * wide;
      store.zoom(from, from + wide);
      timeline.draw();
    }
  });

  stage.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    const { x, y } = at(event), was = drag;
    drag = null;
    stage.classList.remove("panning");
    if (was?.kind === "measure" && was.moved) timeline.firstPoint = undefined;
    if (!was || was.moved) return;
    if (was.kind === "measure") {
      const time = timeline.timeAt(x);
      timeline.firstPoint = timeline.firstPoint === undefined ? time : undefined;
      if (timeline.firstPoint !== undefined) store.measure([time, time]);
      return;
    }
    const here = timeline.laneAt(y);
    if (here?.lane.folds && (x < GUTTER || here.lane.kind === "head")) {
      timeline.lanes.turn(here.lane.key);
      timeline.draw();
      return;
    }
    const found = sliceAt(timeline, x, y);
    if (found) store.select("instruction", found.id);
    else if (x >= GUTTER) store.select("none");
  });
  stage.addEventListener("pointercancel", () => { drag = null; });
  stage.addEventListener("pointerleave", hideTip);
  stage.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => {
    const { x, y } = at(event);
    if (x >= GUTTER && sliceAt(timeline, x, y)) timeline.zoomToSelection();
  });
}

/** The slice under a place of the stage. @param {Timeline} timeline @param {number} x @param {number} y */
function sliceAt(timeline, x, y) {
  const here = x >= GUTTER ? timeline.laneAt(y) : undefined;
  if (!here || here.lane.kind === "curve" || (here.lane.kind === "head" && !timeline.lanes.folded.has(here.lane.key))) return null;
  const slack = (2 * (timeline.store.to - timeline.store.from)) / timeline.plotWidth(), time = timeline.timeAt(x);
  const { slices } = here.lane.detail(), place = here.lane.detail().at(time, slack);
  if (place < 0) return null;
  return { id: slices.id[place], waits: time < slices.from[place] - slack / 4, wait: slices.wait[place], lane: here.lane,
    length: slices.to[place] - slices.from[place] };
}

/** @param {Timeline} timeline @param {number} x @param {number} y @param {PointerEvent} event */
function hover(timeline, x, y, event) {
  const here = timeline.laneAt(y);
  if (!here) return hideTip();
  if (x < GUTTER) return here.lane.folds ? showTip(event, here.lane.label, [here.lane.hint, "click to fold or unfold"]) : hideTip();
  if (here.lane.curve) {
    const time = timeline.timeAt(x), { curve, label } = here.lane;
    return showTip(event, `${label} at ${formatTime(time)}`, [curve.text(curve.at(time)), curve.limit ? `of ${curve.text(curve.limit)}` : ""]);
  }
  const found = sliceAt(timeline, x, y);
  if (!found) return hideTip();
  const { model } = timeline, [run, row] = model.find(found.id), { layout } = model;
  const opcode = layout.opcodes[run.column("opcode")[row]], label = layout.labels?.[run.column("label")[row]];
  const cause = (layout.cause_words ?? layout.causes ?? [])[run.column("cause")[row]], bytes = run.column("dma_bytes")[row];
  showTip(event, label ? `${label} (${opcode})` : opcode, [
    `instruction ${row}, ${model.lineText(model.lineOf(found.id))}`,
    `${formatTime(run.column("start")[row])} + ${formatTime(found.length)}`,
    bytes ? `${formatBytes(bytes)} moved` : "",
    found.wait > 0 ? `${found.waits ? "here: " : ""}waited ${formatTime(found.wait)}${cause && cause !== "nothing" ? ` for ${cause}` : ""}` : "",
    run.column("bound")[row] ? `bound by ${model.boundText(run, row)}` : "",
    run.column("critical")[row] ? "on the critical path" : "",
  ]);
}

// timeline_texts.js
// What is written on the timeline: names of lanes and of bars, the axis.


/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {import("./lanes.js").Lane} Lane */

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {number} scale */
function paintTexts(timeline, context, width, height, scale) {
  const ink = themeColour("ink"), soft = themeColour("soft");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  const { opcodes, labels } = timeline.model.layout;
  for (const { x, width: wide, y, height: high, id, ink: onBar } of timeline.painter.named) {
    const [run, row] = timeline.model.find(id), label = labels?.[run.column("label")[row]], text = label || opcodes[run.column("opcode")[row]];
    const shown = fitText(context, text, wide / scale - 8);
    context.fillStyle = onBar || soft;
    if (shown) context.fillText(shown, GUTTER + x / scale + 4, LANES_TOP + (y + high / 2) / scale);
  }
  context.fillStyle = themeColour("paper");
  context.fillRect(0, 0, GUTTER, height);
  context.fillRect(0, 0, width, LANES_TOP);
  context.textAlign = "center";
  const parts = Math.max(2, Math.floor(timeline.plotWidth() / 110));
  for (const { time, text } of timeTicks(timeline.store.from, timeline.store.to, parts)) {
    const x = Math.round(timeline.xOf(time)) + 0.5;
    context.fillStyle = themeColour("line");
    context.globalAlpha = 0.5;
    context.fillRect(x - 0.5, LANES_TOP, 1, height);
    context.globalAlpha = 1;
    context.fillRect(x - 0.5, LANES_TOP - 5, 1, 5);
    const half = context.measureText(text).width / 2;
    context.fillStyle = soft;
    context.fillText(text, Math.min(width - half - 2, Math.max(GUTTER + half, x)), OVERVIEW + 9);
  }
  context.textAlign = "left";
  context.fillStyle = themeColour("line");
  context.fillRect(GUTTER - 1, 0, 1, height);
  context.save();
  context.beginPath();
  context.rect(0, LANES_TOP, width, height);
  context.clip();
  for (const { lane, top, height: high } of timeline.placed) paintLabel(timeline, context, lane, top, high, width, ink, soft);
  context.restore();
  context.fillStyle = themeColour("line");
  context.fillRect(0, LANES_TOP - 1, width, 1);
}

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {Lane} lane @param {number} top @param {number} high @param {number} width @param {string} ink @param {string} soft */
function paintLabel(timeline, context, lane, top, high, width, ink, soft) {
  const middle = top + high / 2, folded = timeline.lanes.folded.has(lane.key);
  if (lane.kind === "head") {
    context.fillStyle = themeColour("raised");
    context.fillRect(0, top, folded ? GUTTER - 1 : width, high);
  }
  context.font = `${lane.kind === "head" ? "600 " : ""}${lane.depth || lane.isEmpty ? 10.5 : 12}px system-ui, sans-serif`;
  context.fillStyle = lane.isEmpty || lane.depth ? soft : ink;
  const text = `${lane.folds ? (folded ? "▸ " : "▾ ") : ""}${lane.label}`, room = lane.kind === "head" && !folded ? width : GUTTER - 12;
  const extra = lane.kind === "head" && !folded ? `   ${lane.hint}` : "";
  context.fillText(fitText(context, text + extra, room - 8 * lane.depth), 8 + 8 * lane.depth, middle);
  if (lane.kind === "curve" && lane.curve) {
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = soft;
    context.textAlign = "right";
    context.fillText(fitText(context, lane.curve.text(lane.curve.most).replace(" a partition", ""), GUTTER - 52), GUTTER - 6, middle);
    context.textAlign = "left";
  }
}

// timeline.js
// The timeline: what every engine, queue, core and rank did, over time.


/** @typedef {import("./lanes.js").Lane} Lane */
/** A lane and where it is drawn, in CSS pixels of the stage. @typedef {{lane: Lane, top: number, height: number}} Placed */

class Timeline {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.lanes = new Lanes(model);
    this.painter = new LanePainter();
    this.overview = new Overview(model, store);
    this.showsCritical = true;
    this.showsArrows = true;
    this.measuring = false;
    this.scroll = 0;
    /** @type {Placed[]} */
    this.placed = [];
    /** Places of lanes that are marked, by lane and what for. @type {Map<string, {places: Uint32Array, from: Float64Array, mask: Uint8Array}>} */
    this.marked = new Map();
    this.stage = element("div", { id: "stage", tabindex: "0", role: "application", "aria-label": "Timeline: arrow keys pan, + and - zoom, Enter selects" });
    this.base = element("canvas");
    this.cover = element("canvas", { css: { "pointer-events": "none" } });
    this.stage.append(this.base, this.cover);
    if (!model.count) this.stage.append(element("p", { class: "empty" }, "There is no instruction to show."));
    body("timeline").replaceChildren(this.stage);
    this.addControls();
    this.draw = eachFrame(() => this.paint());
    this.drawCover = eachFrame(() => paintCover(this));
    listenToStage(this);
    store.on("view", this.draw);
    store.on("measure", () => { this.showMeasure(); this.drawCover(); });
    store.on("selection", () => {
      this.forget("chosen ");
      if (store.chosen.kind === "instruction") this.scrollTo(store.chosen.place);
      this.draw();
    });
    store.on("theme", () => { this.themed = ""; this.overview.forget(); this.draw(); });
    new ResizeObserver(this.draw).observe(this.stage);
  }

  addControls() {
    const { store } = this, middle = () => (store.from + store.to) / 2;
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ click) => element("button", { type: "button", title, on: { click } }, text);
    this.measure = element("output", { "aria-live": "polite" });
    this.range = element("span", { class: "soft number wide", "aria-live": "off" });
    controls("timeline").append(
      button("+", "Zoom in ( + , or the wheel )", () => store.scale(0.5, middle())),
      button("−", "Zoom out ( - )", () => store.scale(2, middle())),
      button("Fit", "The whole run ( 0 )", () => store.zoom(0, store.length)),
      button("To selection", "Zoom to what is selected ( z )", () => this.zoomToSelection()),
      toggle("Measure", "Measure between two points: drag, or click twice ( m )", false, (on) => this.setMeasuring(on)),
      toggle("Critical path", "Underline the instructions that decide the latency ( c )", true, (on) => { this.showsCritical = on; this.draw(); }),
      toggle("Arrows", "Arrows to what the selection depends on, and from it ( a )", true, (on) => { this.showsArrows = on; this.draw(); }),
      chooser("Colour of bars", [["family", "colour: kind of instruction"], ["line", "colour: line of source"]], (value) => {
        this.lanes.colourBy(/** @type {"family"|"line"} */ (value));
        this.marked.clear();
        this.themed = "";
        this.draw();
      }),
      this.measure,
      this.range,
    );
  }

  /** Press a button of the heading by its text. @param {string} text */
  press(text) {
    const found = /** @type {HTMLButtonElement|undefined} */ ([...controls("timeline").querySelectorAll("button")].find((each) => each.textContent === text));
    found?.click();
  }

  /** @param {boolean} on */
  setMeasuring(on) {
    this.measuring = on;
    this.stage.classList.toggle("measuring", on);
    if (!on) this.store.measure(null);
  }

  showMeasure() {
    const { measured } = this.store;
    this.measure.textContent = measured ? `measured ${formatTime(Math.abs(measured[1] - measured[0]), 5)}` : "";
  }

  /** Forget marks made for something. @param {string} prefix */
  forget(prefix) {
    for (const key of [...this.marked.keys()]) if (key.startsWith(prefix)) this.marked.delete(key);
  }

  /** The time under a place of the stage. @param {number} x */
  timeAt(x) {
    return this.store.from + ((x - GUTTER) / this.plotWidth()) * (this.store.to - this.store.from);
  }

  /** @param {number} time */
  xOf(time) {
    return GUTTER + ((time - this.store.from) / (this.store.to - this.store.from)) * this.plotWidth();
  }

  plotWidth() {
    return Math.max(10, this.stage.clientWidth - GUTTER);
  }

  /** Put lanes below each other: as high as there is room for. */
  place() {
    const lanes = this.lanes.visible(), room = this.stage.clientHeight - LANES_TOP;
    const fixed = (/** @type {Lane} */ lane) => (lane.kind === "head" && !this.lanes.folded.has(lane.key) ? 20 : lane.isEmpty ? 12 : lane.depth > 0 ? 15 : 0);
    const used = lanes.reduce((sum, lane) => sum + fixed(lane), 0), free = lanes.filter((lane) => !fixed(lane)).length;
    const high = Math.max(18, Math.min(40, Math.floor((room - used) / Math.max(1, free))));
    let top = 0;
    this.placed = lanes.map((lane) => {
      const height = fixed(lane) || high, here = { lane, top, height };
      top += height;
      return here;
    });
    this.scroll = Math.max(0, Math.min(this.scroll, top - room));
    for (const here of this.placed) here.top += LANES_TOP - this.scroll;
  }

  /** The lane at a height of the stage. @param {number} y @returns {Placed|undefined} */
  laneAt(y) {
    return y < LANES_TOP ? undefined : this.placed.find(({ top, height }) => y >= top && y < top + height);
  }

  /** Slices of a lane that are to be marked. @param {string} what @param {Lane} lane @param {() => Uint32Array} rows of its run */
  marks(what, lane, rows) {
    const key = `${what} ${lane.key}`;
    let found = this.marked.get(key);
    if (!found) {
      const maskKey = `${what} mask ${lane.run.number}`;
      let mask = this.marked.get(maskKey)?.mask;
      if (!mask) {
        mask = new Uint8Array(lane.run.count);
        for (const row of rows()) mask[row] = 1;
        this.marked.set(maskKey, { places: new Uint32Array(0), from: new Float64Array(0), mask });
      }
      const { slices } = lane.detail(), base = lane.run.base, places = [];
      for (let place = 0; place < slices.id.length; place++) if (mask[slices.id[place] - base]) places.push(place);
      found = { places: Uint32Array.from(places), from: Float64Array.from(places, (place) => slices.from[place]), mask };
      this.marked.set(key, found);
    }
    return found;
  }

  /** @param {Lane} lane */
  chosenOf(lane) {
    const rows = () => this.model.chosenRows(lane.run, this.store.chosen) ?? new Uint32Array(0);
    // One instruction has a frame and arrows: the rest keeps its colours.
    return this.store.chosen.kind === "none" || this.store.chosen.kind === "instruction" ? null : this.marks("chosen", lane, rows);
  }

  paint() {
    const width = this.stage.clientWidth, height = this.stage.clientHeight;
    if (width < GUTTER + 20 || height < LANES_TOP + 10) return;
    const scale = window.devicePixelRatio || 1, context = fitCanvas(this.base, width, height), theme = `${this.lanes.colouring} ${scale}`;
    if (this.themed !== theme) this.painter.ready(this.lanes.colouring, scale);
    this.themed = theme;
    this.place();
    const { from, to } = this.store, painter = this.painter;
    const pixel = (/** @type {number} */ length) => Math.round(length * scale), left = pixel(GUTTER), top = pixel(LANES_TOP);
    painter.begin(this.base.width - left, this.base.height - top);
    for (const { lane, top: laneTop, height: laneHeight } of this.placed) {
      const y = pixel(laneTop) - top, high = pixel(laneTop + laneHeight) - top - y;
      if (y + high < 0 || y > painter.board.height) continue;
      if (lane.kind === "curve") painter.curveLane(lane, y, high, from, to);
      else if (lane.kind !== "head" || this.lanes.folded.has(lane.key)) {
        painter.slices(lane, y, high, from, to, this.chosenOf(lane), laneHeight > 13);
        if (this.showsCritical && lane.kind === "slices" && lane.depth === 0) painter.criticalMarks(lane, y, high, from, to, this.marks("critical", lane, () => criticalRows(lane.run)));
      }
    }
    context.fillStyle = themeColour("paper");
    context.fillRect(0, 0, width, height);
    painter.board.show(context, left, top);
    paintTexts(this, context, width, height, scale);
    this.overview.paint(context, GUTTER, width - GUTTER, OVERVIEW - 3);
    this.range.textContent = `${formatTime(from)} to ${formatTime(to)}: ${formatTime(to - from)}`;
    paintCover(this);
  }

  /** Where an instruction is drawn. @param {number} id @returns {{from: number, to: number, y: number}|null} */
  locate(id) {
    const [run, row] = this.model.find(id), top = `run ${run.number}`, stream = run.column("stream")[row];
    const here = [`${top} stream ${stream}`, `${top} queues`, top].map((key) => this.placed.find(({ lane }) => lane.key === key)).find(Boolean);
    if (!here) return null;
    const start = run.column("start")[row] + run.origin;
    return { from: this.xOf(start), to: this.xOf(start + run.column("slot")[row]), y: here.top + here.height / 2 };
  }

  zoomToSelection() {
    let low = Infinity, high = -Infinity;
    for (const run of this.model.runs) {
      const start = run.column("start"), length = run.column("slot");
      for (const row of this.model.chosenRows(run, this.store.chosen) ?? []) {
        low = Math.min(low, start[row] + run.origin);
        high = Math.max(high, start[row] + length[row] + run.origin);
      }
    }
    if (high <= low) return;
    const room = (high - low) * (this.store.chosen.kind === "instruction" ? 4 : 0.05);
    this.store.zoom(low - room, high + room);
  }

  /** Scroll to the lane of an instruction if it is not in view. @param {number} id */
  scrollTo(id) {
    const here = this.locate(id), high = this.stage.clientHeight;
    if (here && (here.y < LANES_TOP || here.y > high - 8)) this.scroll = Math.max(0, this.scroll + here.y - (high + LANES_TOP) / 2);
  }

  /** Bring an instruction into view if it is not, as wide as the view is. @param {number} id */
  reveal(id) {
    const [run, row] = this.model.find(id), start = run.column("start")[row] + run.origin, length = run.column("slot")[row], { from, to } = this.store;
    const wide = Math.max(20 * length, Math.min(to - from, 400 * length));
    const hidden = start + length < from || start > to, tiny = length < (to - from) / this.plotWidth();
    if (hidden || tiny) this.store.zoom(start + length / 2 - wide / 2, start + length / 2 + wide / 2);
  }
}

// main.js
// Opens the report: reads the data, builds the panes, says when it is ready.


/** @param {Model} model @param {Store} store @param {any} wanted */
function selectBy(model, store, wanted) {
  const { line, instruction, tensor } = wanted ?? {};
  if (line !== undefined && line !== null) {
    const found = model.lineNamed(line);
    if (found < 0) throw new RangeError(`select: no line ${line}; lines are "FILE:LINE" of the report's source`);
    store.select("line", found);
  } else if (instruction !== undefined && instruction !== null) {
    const { run = 0, row = instruction } = typeof instruction === "object" ? instruction : {};
    const place = model.runs[run];
    if (!place || !(row >= 0 && row < place.count)) throw new RangeError(`select: no instruction ${row} of run ${run}; there are ${place?.count ?? 0}`);
    store.select("instruction", place.base + row);
  } else if (tensor !== undefined && tensor !== null) {
    const found = typeof tensor === "object" ? model.runs[tensor.run].tensorBase + tensor.row : tensorNamed(model, String(tensor));
    if (found < 0) throw new RangeError(`select: no tensor ${tensor}`);
    store.select("tensor", found);
  } else store.select("none");
}

/** @param {Model} model @param {string} name @returns {number} among all runs, or -1 */
function tensorNamed(model, name) {
  for (const run of model.runs) {
    const names = run.tensors.column("name");
    for (let row = 0; row < run.tensors.rows; row++) if (model.layout.names[names[row]] === name) return run.tensorBase + row;
  }
  return -1;
}

/** What is selected, for scripts. @param {Model} model @param {Store} store */
function describeSelection(model, store) {
  const { kind, place } = store.chosen, nothing = { kind, line: null, instruction: null, tensor: null, instructions: 0 };
  const name = (/** @type {number} */ line) => (model.lines[line]?.number ? model.lines[line].name : null);
  const counted = model.runs.reduce((sum, run) => sum + (model.chosenRows(run, store.chosen)?.length ?? 0), 0);
  if (kind === "none") return nothing;
  if (kind === "line") return { ...nothing, line: name(place), instructions: counted };
  if (kind === "instruction") {
    const [run, row] = model.find(place);
    return { ...nothing, line: name(model.lineOf(place)), instruction: { run: run.number, row }, instructions: 1 };
  }
  const [run, row] = model.findTensor(place);
  return { ...nothing, line: name(model.lineOfSite[run.tensors.column("site")[row]]), instructions: counted,
    tensor: { run: run.number, row, name: model.layout.names[run.tensors.column("name")[row]] } };
}

/** Let the browser draw before more is done. */
const nextFrame = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); });

async function open() {
  buildTools();
  const layout = readJson("trn3-report");
  if (layout?.kind !== "profile") {
    byId("search").hidden = byId("help").hidden = true;
    buildGeneral(layout);
    await nextFrame();
    return null;
  }
  buildShell();
  /** @type {Store|null} */
  let store = null;
  const turnTheme = buildTheme(() => store?.tell("theme"));
  const model = new Model(layout, readJson("trn3-summary"), await readBytes("trn3-columns"));
  const held = store = new Store(model.length);
  const latency = document.querySelector("dl.key-figures dd");
  if (latency && model.figures.latency_us !== undefined) latency.setAttribute("title", `${model.figures.latency_us} us`);
  const timeline = new Timeline(model, held), source = new Source(model, held);
  buildInspector(model, held, timeline);
  // The picture first; the other panes may take their time.
  timeline.paint();
  performance.mark("trn3 picture");
  await nextFrame();
  for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll("#side-panes section:not([data-pane=tables]) table"))) makeSortable(table);
  buildAdvice(model, held);
  buildMemory(model, held);
  buildRoofline(model, held);
  buildTables(model, held);
  buildSettings(model, held);
  buildSearch(model, held, source, (id) => timeline.reveal(id));
  buildKeyboard(model, held, { timeline, source, turnTheme });
  await nextFrame();
  return { model, store: held };
}

const opened = open();
opened.catch((error) => document.body.prepend(element("p", { class: "alarm", role: "alert" }, `This report cannot be shown: ${error}`)));

/** What the panes share, when they are there. @type {{model: Model, store: Store}|null} */
let shared = null;
const ready = opened.then((parts) => { shared = parts; });

/** @param {string} what */
function sharedFor(what) {
  if (!shared) throw new Error(`${what}: the report is not ready; wait for trn3report.ready`);
  return shared;
}

Object.assign(window, { trn3report: Object.freeze({
  ready,
  /** @param {{line?: string|number, instruction?: number|{run: number, row: number}, tensor?: string|{run: number, row: number}}} wanted */
  select(wanted) {
    const { model, store } = sharedFor("select");
    selectBy(model, store, wanted);
  },
  selection() {
    const { model, store } = sharedFor("selection");
    return describeSelection(model, store);
  },
  /** @param {number} from @param {number} to in picoseconds */
  zoom(from, to) {
    if (!(Number.isFinite(from) && Number.isFinite(to) && from < to)) throw new RangeError(`zoom: from ${from} to ${to}, must be two rising times in ps`);
    sharedFor("zoom").store.zoom(from, to);
  },
}) });
