// Tables: every instruction and transfer from the columns, the other tables as the page has them; sorted, filtered, copied.

import { body, controls, element } from "./dom.js";
import { copyRows, filterRows, makeSortable } from "./fixed_table.js";
import { formatBytes, formatCount, formatDigits } from "./format.js";
import { VirtualTable } from "./virtual_table.js";

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
export function buildTables(model, store) {
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
