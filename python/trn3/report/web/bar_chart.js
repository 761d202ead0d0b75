// Bars beside each other, with their names before and their figures behind them.

import { element } from "./dom.js";
import { seriesColour } from "./palette.js";

/** More rows say nothing any more. */
const MOST_BARS = 60;

/** @param {any} chart @returns {Element[]} */
export function barChart(chart) {
  const drawn = chart.rows.slice(0, MOST_BARS), scale = chart.is_log ? (/** @type {number} */ value) => Math.log(Math.max(value, 1e-300)) : (/** @type {number} */ value) => value;
  const places = drawn.flatMap((/** @type {any} */ row) => row.values.map((/** @type {any} */ [value]) => value)).filter((/** @type {any} */ value) => value !== null && (!chart.is_log || value > 0)).map(scale);
  const base = scale(chart.base), low = Math.min(base, ...places), high = Math.max(base, ...places), length = high - low || 1;
  const share = (/** @type {number} */ place) => (100 * (place - low)) / length;
  const single = chart.names.length === 1;
  const rows = drawn.map((/** @type {any} */ row) => element("div", { class: "bar-row" }, element("span", { class: "bar-name", title: row.name }, row.name), element("div", { class: "bar-lines" },
    ...row.values.map((/** @type {any} */ [value, text], /** @type {number} */ place) => {
      const isDrawn = value !== null && (!chart.is_log || value > 0), at = isDrawn ? share(scale(value)) : share(base), from = share(base);
      return element("div", { class: "bar-line", title: single ? text : `${chart.names[place]}: ${text}` }, element("div", { class: "bar-room" },
        element("i", { css: { left: `${Math.min(at, from)}%`, width: `${Math.max(Math.abs(at - from), isDrawn ? 0.3 : 0)}%`, background: seriesColour(place) } }),
        low < base && high > base ? element("u", { css: { left: `${from}%` } }) : null), element("span", { class: "bar-text" }, text || "–"));
    }))));
  const keys = single ? [] : [element("p", { class: "keys" }, ...chart.names.map((/** @type {string} */ name, /** @type {number} */ place) => element("span", {}, element("i", { css: { background: seriesColour(place) } }), name)))];
  const more = chart.rows.length > drawn.length ? [element("p", { class: "soft" }, `The first ${drawn.length} of ${chart.rows.length}; the table has all.`)] : [];
  return [...keys, element("div", { class: "bars", role: "img", "aria-label": `${chart.title}: ${drawn.map((/** @type {any} */ row) => `${row.name} ${row.values.map((/** @type {any} */ [, text]) => text).join(", ")}`).join("; ")}` }, ...rows), ...more];
}
