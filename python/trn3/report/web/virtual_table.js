// A table of any number of rows: only those in view are elements. It is filtered, sorted, copied.

import { everyRow } from "./data.js";
import { copyText, eachFrame, element } from "./dom.js";

/**
 * A column. `text` is shown, `value` sorts; of a column of names it is a number that stands for one, which `nameOf` gives.
 * @typedef {{name: string, isNumber: boolean, title?: string, value: (row: number) => number, text: (row: number) => string,
 *     nameOf?: (code: number) => string}} TableColumn
 */

const ROW = 23;
/** Browsers lay out no element higher than this. */
const HIGHEST = 8e6;
const MOST_COPIED = 100_000;

export class VirtualTable {
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
