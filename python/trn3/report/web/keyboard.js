// Keys for everything that a mouse does.

import { byId, element, replace } from "./dom.js";
import { enlarge, showPane, SIDE_PANES } from "./shell.js";

/** @typedef {{keys: string[], shown: string, text: string, act: () => void}} Command */

/** The next instruction: of the line that is selected, or beside the selected one on its engine.
 * @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {number} step */
export function stepInstruction(model, store, step) {
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
export function buildKeyboard(model, store, { timeline, source, turnTheme }) {
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
