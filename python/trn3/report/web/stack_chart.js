// Bars of one length, each cut into parts; parts of one name have one colour.

import { element } from "./dom.js";
import { formatShare } from "./format.js";
import { seriesColour, SERIES_COUNT } from "./palette.js";
import { hideTip, showTip } from "./tip.js";

/** A smaller share of a bar is drawn with the others of its kind. */
const SMALL_SHARE = 0.015;

/** @param {any} chart @returns {Element[]} */
export function stackChart(chart) {
  /** The largest parts have colours of their own. @type {Map<string, number>} */
  const largest = new Map();
  for (const { parts, limit } of chart.rows) {
    const whole = limit ?? parts.reduce((/** @type {number} */ sum, /** @type {any} */ part) => sum + part.value, 0);
    for (const { name, value } of parts) if (whole > 0 && value >= SMALL_SHARE * whole) largest.set(name, Math.max(largest.get(name) ?? 0, value / whole));
  }
  const known = [...largest].sort((one, other) => other[1] - one[1]).slice(0, SERIES_COUNT - 1).map(([name]) => name);
  const colourOf = (/** @type {string} */ name) => (known.includes(name) ? seriesColour(known.indexOf(name)) : "var(--soft)");
  let hasOthers = false;
  const rows = chart.rows.map((/** @type {any} */ row) => {
    const sum = row.parts.reduce((/** @type {number} */ total, /** @type {any} */ part) => total + part.value, 0), whole = Math.max(row.limit ?? sum, sum) || 1;
    const named = row.parts.filter((/** @type {any} */ part) => known.includes(part.name)), others = row.parts.filter((/** @type {any} */ part) => !known.includes(part.name) && part.value > 0);
    const rest = others.reduce((/** @type {number} */ total, /** @type {any} */ part) => total + part.value, 0);
    hasOthers ||= rest > 0;
    const piece = (/** @type {string} */ name, /** @type {number} */ value, /** @type {string[]} */ lines, /** @type {string} */ colour) => element("i", {
      css: { width: `${(100 * value) / whole}%`, background: colour },
      on: { pointermove: (/** @type {PointerEvent} */ event) => showTip(event, name, lines), pointerleave: hideTip } });
    const over = row.limit && sum > row.limit ? " over" : "";
    return element("div", { class: "stack-row" }, element("b", {}, row.name),
      element("div", { class: `split${over}`, role: "img", "aria-label": `${row.name}: ${row.parts.map((/** @type {any} */ part) => `${part.name} ${part.text}`).join(", ")}` },
        ...named.map((/** @type {any} */ part) => piece(part.name, part.value, [part.text, `${formatShare(part.value / whole)} of ${row.name}`], colourOf(part.name))),
        rest > 0 ? piece("others", rest, others.map((/** @type {any} */ part) => `${part.name}: ${part.text}`), "var(--soft)") : null),
      element("span", { class: "number" }, row.text));
  });
  const key = (/** @type {string} */ name, /** @type {string} */ colour) => element("span", {}, element("i", { css: { background: colour } }), name);
  return [...rows, element("p", { class: "keys" }, ...known.map((name) => key(name, colourOf(name))), hasOthers ? key("others", "var(--soft)") : null)];
}
