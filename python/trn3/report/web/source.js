// The kernel's text with heat by line: the page has it as text; here it becomes clickable and follows the selection.

import { body, chooser, controls, element, replace } from "./dom.js";

/** What a line can be hot by. @type {[string, string][]} */
const HEATS = [["critical", "critical path"], ["wait", "waiting"], ["bytes", "HBM bytes"], ["instructions", "instructions"], ["precision", "precision lost"]];

export class Source {
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
