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
export function makeColumns(count) {
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

export class Detail {
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
export function lowerBound(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
