// What is selected and which time is looked at, and who wants to know: the one thing that panes share.

/**
 * A selection: an instruction, a line (place in the sites), a tensor (place in the tensors), or nothing.
 * @typedef {{kind: "none"|"instruction"|"line"|"tensor", place: number}} Selection
 */
/** @typedef {"selection"|"view"|"theme"|"core"|"measure"|"hover"} Topic */

export class Store {
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
