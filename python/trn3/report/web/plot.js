// What drawings have in common: a canvas as wide as its pane that is drawn anew when that, the theme or the selection changes.

import { eachFrame, element, fitCanvas } from "./dom.js";

/** @typedef {{context: CanvasRenderingContext2D, width: number, height: number}} Sheet */

/** @param {Element} parent @param {(room: number) => number} heightIn in CSS pixels, of the height that panes have @param {string} label
 * @param {import("./store.js").Store} store @param {import("./store.js").Topic[]} topics on which to draw anew
 * @param {(sheet: Sheet) => void} draw */
export function addPlot(parent, heightIn, label, store, topics, draw) {
  const canvas = element("canvas", { role: "img", tabindex: "0", "aria-label": label }), holder = element("div", { class: "plot" }, canvas);
  parent.append(holder);
  const frame = parent.closest("#side-panes") ?? parent;
  let isSeen = false;
  const again = eachFrame(() => {
    const width = holder.clientWidth - 20, height = heightIn(frame.clientHeight);
    // What is scrolled away is drawn when it comes back.
    if (width < 60 || !isSeen) return;
    const context = fitCanvas(canvas, width, height);
    context.clearRect(0, 0, width, height);
    draw({ context, width, height });
  });
  for (const topic of topics) store.on(topic, again);
  canvas.style.setProperty("height", `${heightIn(frame.clientHeight)}px`);
  const resized = new ResizeObserver(again);
  resized.observe(holder);
  resized.observe(frame);
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    again();
  }).observe(holder);
  return { canvas, holder, again };
}

/** Where an event is on a canvas. @param {HTMLCanvasElement} canvas @param {MouseEvent} event */
export function placeOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
