// Tables that the page has as text: sorted by their heads, filtered by words, copied.

import { copyText, element } from "./dom.js";

/** Make a table of the page sortable by its heads. @param {HTMLTableElement} table */
export function makeSortable(table) {
  const rows = table.tBodies[0], heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  heads.forEach((head, place) => {
    const text = head.textContent ?? "";
    head.replaceChildren(element("button", { type: "button", on: { click: () => {
      const falling = head.getAttribute("aria-sort") === "ascending" || (head.getAttribute("aria-sort") !== "descending" && head.classList.contains("number"));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = (/** @type {HTMLTableRowElement} */ row) => row.cells[place]?.dataset.value ?? row.cells[place]?.textContent ?? "";
      const order = [...rows.rows].sort((one, other) => key(one).localeCompare(key(other), "en", { numeric: true }) || 0);
      const numeric = order.every((row) => key(row) === "" || Number.isFinite(Number(key(row))));
      if (numeric) order.sort((one, other) => Number(key(one) || -Infinity) - Number(key(other) || -Infinity));
      rows.append(...(falling ? order.reverse() : order));
    } } }, text));
  });
}

/** Hide the rows that lack one of some words. @param {HTMLTableElement} table @param {string} text @returns {number} how many are shown */
export function filterRows(table, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let seen = 0;
  for (const row of table.tBodies[0]?.rows ?? []) {
    row.hidden = !words.every((word) => (row.textContent ?? "").toLowerCase().includes(word));
    if (!row.hidden) seen += 1;
  }
  return seen;
}

/** Put the heads and the rows that are shown on the clipboard, for a spreadsheet. @param {HTMLTableElement} table @returns {Promise<number>} how many rows */
export async function copyRows(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  await copyText(rows.map((row) => [...row.cells].map((cell) => cell.textContent).join("\t")).join("\n"));
  return rows.length - (table.tHead?.rows.length ?? 0);
}
