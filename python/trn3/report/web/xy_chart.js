// Lines and marks over two axes, as inline SVG.

import { element, printable } from "./dom.js";
import { formatNumber, roundStep } from "./format.js";
import { seriesColour } from "./palette.js";
import { hideTip, showTip } from "./tip.js";

const XY_HEIGHT = 320, XY_LEFT = 66, XY_RIGHT = 16, XY_TOP = 10, XY_BOTTOM = 42;
/** How near a pointer must be to a mark, in CSS pixels. */
const XY_NEAR = 24;
/** More marks are drawn as lines alone. */
const MOST_MARKS = 4000;

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children */
function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.map((child) => (typeof child === "string" ? printable(child) : child)));
  return made;
}

/** A scale from values to pixels, with its ticks. @param {number[]} values @param {{is_log: boolean, unit: string}} axis @param {number} from @param {number} to
 * @returns {{place: (value: number) => number, ticks: [number, string][]}} */
function axisScale(values, axis, from, to) {
  const shown = axis.is_log ? values.filter((value) => value > 0) : values;
  let low = shown.reduce((least, value) => Math.min(least, value), Infinity), high = shown.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!Number.isFinite(low)) [low, high] = axis.is_log ? [1, 10] : [0, 1];
  const say = (/** @type {number} */ value) => formatNumber(value) + axis.unit;
  if (axis.is_log) {
    low /= 1.15;
    high *= 1.15;
    const place = (/** @type {number} */ value) => from + (Math.log(Math.max(value, low / 10) / low) / Math.log(high / low)) * (to - from), decades = Math.log10(high / low), ticks = /** @type {[number, string][]} */ ([]);
    if (decades < 0.7) {
      const step = roundStep(high - low, 6);
      for (let count = Math.ceil(low / step); count * step <= high; count++) ticks.push([count * step, say(Number((count * step).toPrecision(12)))]);
      return { place, ticks };
    }
    const factors = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (decades > 9 && power % Math.ceil(decades / 8)) continue;
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) ticks.push([value, say(value)]);
      }
    }
    return { place, ticks };
  }
  // A quantity that is near nothing is drawn from there.
  if (low > 0 && low < 0.4 * high) low = 0;
  const room = (high - low || Math.abs(high) || 1) * 0.03;
  [low, high] = [low === 0 ? 0 : low - room, high + room];
  const step = roundStep(high - low, Math.max(4, Math.abs(to - from) / (from > to ? 50 : 90))), ticks = /** @type {[number, string][]} */ ([]);
  for (let count = Math.ceil(low / step); count * step <= high; count++) ticks.push([count * step, say(Number((count * step).toPrecision(12)))]);
  return { place: (value) => from + ((value - low) / (high - low)) * (to - from), ticks };
}

/** @param {any} chart @param {number} width @returns {Element[]} */
export function xyChart(chart, width) {
  const right = Math.max(XY_LEFT + 100, width - XY_RIGHT), bottom = XY_HEIGHT - XY_BOTTOM;
  /** @type {(place: 0|1) => number[]} */
  const all = (place) => chart.series.flatMap((/** @type {any} */ series) => series.points.map((/** @type {any} */ point) => point[place]));
  const x = axisScale(all(0), chart.x, XY_LEFT, right), y = axisScale(all(1), chart.y, bottom, XY_TOP);
  const drawing = shape("svg", { width: right + XY_RIGHT, height: XY_HEIGHT, role: "img", class: "xy" });
  drawing.setAttribute("aria-label", printable(`${chart.title}: ${chart.y.name} over ${chart.x.name}`));
  let last = -Infinity;
  for (const [value, text] of x.ticks) {
    const place = x.place(value);
    drawing.append(shape("line", { class: "grid", x1: place, x2: place, y1: XY_TOP, y2: bottom }));
    if (place - last < 46) continue;
    last = place;
    drawing.append(shape("text", { x: place, y: bottom + 15, "text-anchor": "middle" }, text));
  }
  last = Infinity;
  for (const [value, text] of y.ticks) {
    const place = y.place(value);
    drawing.append(shape("line", { class: "grid", x1: XY_LEFT, x2: right, y1: place, y2: place }));
    if (last - place < 15) continue;
    last = place;
    drawing.append(shape("text", { x: XY_LEFT - 6, y: place + 4, "text-anchor": "end" }, text));
  }
  drawing.append(shape("text", { x: (XY_LEFT + right) / 2, y: XY_HEIGHT - 8, "text-anchor": "middle" }, chart.x.name),
    shape("text", { transform: `translate(12 ${(XY_TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, chart.y.name));
  /** @type {[number, number, string, string][]} */
  const marks = [];
  chart.series.forEach((/** @type {any} */ series, /** @type {number} */ number) => {
    const colour = seriesColour(number), places = series.points.map((/** @type {any} */ [px, py, text]) => [x.place(px), y.place(py), text]);
    const points = series.is_step ? places.flatMap((/** @type {any} */ [px, py], /** @type {number} */ place) => (place ? [[px, places[place - 1][1]], [px, py]] : [[px, py]])) : places;
    if (series.is_line) drawing.append(shape("polyline", { points: points.map((/** @type {any} */ [px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.6 }));
    const isMarked = series.is_marked && places.length <= MOST_MARKS;
    for (const [px, py, text] of places) {
      if (isMarked) drawing.append(shape("circle", { cx: px.toFixed(1), cy: py.toFixed(1), r: series.is_line ? 3.2 : 4.2, fill: colour, class: "mark" }));
      marks.push([px, py, series.name, text]);
    }
  });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = XY_NEAR;
    for (const mark of marks) {
      const off = Math.hypot(mark[0] - px, mark[1] - py);
      if (off < least) { least = off; best = mark; }
    }
    if (best) showTip(event, best[2], best[3].split("\n"));
    else hideTip();
  });
  drawing.addEventListener("pointerleave", hideTip);
  const keys = chart.series.length < 2 ? [] : [element("p", { class: "keys" }, ...chart.series.map((/** @type {any} */ series, /** @type {number} */ number) => element("span", {}, element("i", { css: { background: seriesColour(number) } }), series.name)))];
  return [...keys, drawing];
}
