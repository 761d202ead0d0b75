// The run as the panes ask for it: instructions by number, lines, tensors, and what depends on what.

import { ColumnTable, groupBy, groupOf } from "./data.js";
import { baseName } from "./format.js";
import { waitGroup } from "./palette.js";

/** @typedef {{id: number, kind: string, binds: boolean}} Neighbour an instruction, what ties it to another, and whether the
 * later one of both started when it did because of that */

/** One timeline: of a core, of a rank, of a level of the compiler. */
export class Run {
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

export class Model {
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
