// The rows of the timeline: engines, DMA engines and queues (folded until asked for), curves, cores, ranks, levels.

import { everyRow, groupBy, groupOf } from "./data.js";
import { Curve } from "./curve.js";
import { formatCapacity, formatRate, formatTime } from "./format.js";
import { Detail } from "./levels_of_detail.js";
import { familyNames, SERIES_COUNT } from "./palette.js";

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

export class Lanes {
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
