// What changes without the bars: the critical path, arrows of the selection, its frame, a measure.

import { drawArrows, drawCriticalPath } from "./arrows.js";
import { fitCanvas } from "./dom.js";
import { formatTime } from "./format.js";
import { lowerBound } from "./levels_of_detail.js";
import { themeColour } from "./palette.js";
import { GUTTER, LANES_TOP } from "./timeline_geometry.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

/** What lies over the bars: the critical path, arrows, the selection, what is measured. @param {Timeline} timeline */
export function paintCover(timeline) {
  const width = timeline.stage.clientWidth, height = timeline.stage.clientHeight, context = fitCanvas(timeline.cover, width, height);
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(GUTTER, LANES_TOP, width - GUTTER, height - LANES_TOP);
  context.clip();
  const { chosen, from, to, measured } = timeline.store, locate = (/** @type {number} */ id) => timeline.locate(id);
  if (timeline.showsCritical) for (const run of timeline.model.runs) if (run.place.is_main) drawCriticalPath(context, run, from, to, locate);
  if (chosen.kind === "instruction") {
    if (timeline.showsArrows) drawArrows(context, timeline.model, [chosen.place], locate, width);
    const here = locate(chosen.place), high = here ? timeline.laneAt(here.y)?.height ?? 20 : 0;
    if (here) {
      context.strokeStyle = themeColour("ink");
      context.lineWidth = 2;
      context.strokeRect(here.from - 1, here.y - high / 2 + 1, Math.max(3, here.to - here.from + 1), high - 2);
    }
  } else if (timeline.showsArrows && chosen.kind !== "none") {
    const seen = chosenInView(timeline, 25);
    if (seen.length <= 24) drawArrows(context, timeline.model, seen, locate, width);
  }
  if (measured) paintMeasure(timeline, context, measured, height);
  context.restore();
}

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {[number, number]} times @param {number} height */
function paintMeasure(timeline, context, times, height) {
  const [low, high] = [Math.min(...times), Math.max(...times)], x0 = timeline.xOf(low), x1 = timeline.xOf(high);
  context.globalAlpha = 0.16;
  context.fillStyle = themeColour("accent");
  context.fillRect(x0, LANES_TOP, x1 - x0, height);
  context.globalAlpha = 1;
  context.fillRect(x0 - 0.5, LANES_TOP, 1, height);
  context.fillRect(x1 - 0.5, LANES_TOP, 1, height);
  context.font = "600 12px system-ui, sans-serif";
  const text = formatTime(high - low, 5), wide = context.measureText(text).width + 14;
  const x = Math.max(GUTTER + 2, Math.min(timeline.stage.clientWidth - wide - 2, (x0 + x1 - wide) / 2));
  context.fillRect(x, LANES_TOP + 6, wide, 20);
  context.fillStyle = themeColour("paper");
  context.textBaseline = "middle";
  context.fillText(text, x + 7, LANES_TOP + 16);
}

/** Instructions that are selected and in view, up to some. @param {Timeline} timeline @param {number} most @returns {number[]} */
function chosenInView(timeline, most) {
  const { from, to } = timeline.store, seen = new Set();
  for (const { lane } of timeline.placed) {
    if (lane.depth > 0 || lane.curve || lane.kind === "head") continue;
    const { slices } = lane.detail(), chosen = timeline.chosenOf(lane);
    if (!chosen) continue;
    for (let next = Math.max(0, lowerBound(chosen.from, from) - 1); next < chosen.places.length && chosen.from[next] < to && seen.size < most; next++) {
      const place = chosen.places[next];
      if (slices.to[place] > from) seen.add(slices.id[place]);
    }
  }
  return [...seen];
}
