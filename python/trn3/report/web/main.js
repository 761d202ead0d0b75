// Opens the report: reads the data, builds the panes, says when it is ready.

import { buildAdvice } from "./advice.js";
import { readBytes, readJson } from "./data.js";
import { byId, element } from "./dom.js";
import { makeSortable } from "./fixed_table.js";
import { buildGeneral } from "./general.js";
import { buildInspector } from "./inspector.js";
import { buildKeyboard } from "./keyboard.js";
import { buildMemory } from "./memory.js";
import { Model } from "./model.js";
import { buildRoofline } from "./roofline.js";
import { buildSearch } from "./search.js";
import { buildSettings } from "./settings.js";
import { buildShell, buildTools } from "./shell.js";
import { Source } from "./source.js";
import { Store } from "./store.js";
import { buildTables } from "./tables.js";
import { buildTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

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
