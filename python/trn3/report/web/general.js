// Reports of plans, comparisons and the like: panes below each other, drawings above their tables.

import { drawChart } from "./charts.js";
import { body, controls, eachFrame, element } from "./dom.js";
import { copyRows, filterRows, makeSortable } from "./fixed_table.js";
import { formatCount } from "./format.js";
import { frame, markOnScroll } from "./shell.js";
import { buildTheme } from "./theme.js";

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
export function buildGeneral(layout) {
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
