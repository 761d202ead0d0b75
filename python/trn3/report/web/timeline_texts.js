// What is written on the timeline: names of lanes and of bars, the axis.

import { fitText, timeTicks } from "./format.js";
import { themeColour } from "./palette.js";
import { GUTTER, LANES_TOP, OVERVIEW } from "./timeline_geometry.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {import("./lanes.js").Lane} Lane */

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {number} scale */
export function paintTexts(timeline, context, width, height, scale) {
  const ink = themeColour("ink"), soft = themeColour("soft");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  const { opcodes, labels } = timeline.model.layout;
  for (const { x, width: wide, y, height: high, id, ink: onBar } of timeline.painter.named) {
    const [run, row] = timeline.model.find(id), label = labels?.[run.column("label")[row]], text = label || opcodes[run.column("opcode")[row]];
    const shown = fitText(context, text, wide / scale - 8);
    context.fillStyle = onBar || soft;
    if (shown) context.fillText(shown, GUTTER + x / scale + 4, LANES_TOP + (y + high / 2) / scale);
  }
  context.fillStyle = themeColour("paper");
  context.fillRect(0, 0, GUTTER, height);
  context.fillRect(0, 0, width, LANES_TOP);
  context.textAlign = "center";
  const parts = Math.max(2, Math.floor(timeline.plotWidth() / 110));
  for (const { time, text } of timeTicks(timeline.store.from, timeline.store.to, parts)) {
    const x = Math.round(timeline.xOf(time)) + 0.5;
    context.fillStyle = themeColour("line");
    context.globalAlpha = 0.5;
    context.fillRect(x - 0.5, LANES_TOP, 1, height);
    context.globalAlpha = 1;
    context.fillRect(x - 0.5, LANES_TOP - 5, 1, 5);
    const half = context.measureText(text).width / 2;
    context.fillStyle = soft;
    context.fillText(text, Math.min(width - half - 2, Math.max(GUTTER + half, x)), OVERVIEW + 9);
  }
  context.textAlign = "left";
  context.fillStyle = themeColour("line");
  context.fillRect(GUTTER - 1, 0, 1, height);
  context.save();
  context.beginPath();
  context.rect(0, LANES_TOP, width, height);
  context.clip();
  for (const { lane, top, height: high } of timeline.placed) paintLabel(timeline, context, lane, top, high, width, ink, soft);
  context.restore();
  context.fillStyle = themeColour("line");
  context.fillRect(0, LANES_TOP - 1, width, 1);
}

/** @param {Timeline} timeline @param {CanvasRenderingContext2D} context @param {Lane} lane @param {number} top @param {number} high @param {number} width @param {string} ink @param {string} soft */
function paintLabel(timeline, context, lane, top, high, width, ink, soft) {
  const middle = top + high / 2, folded = timeline.lanes.folded.has(lane.key);
  if (lane.kind === "head") {
    context.fillStyle = themeColour("raised");
    context.fillRect(0, top, folded ? GUTTER - 1 : width, high);
  }
  context.font = `${lane.kind === "head" ? "600 " : ""}${lane.depth || lane.isEmpty ? 10.5 : 12}px system-ui, sans-serif`;
  context.fillStyle = lane.isEmpty || lane.depth ? soft : ink;
  const text = `${lane.folds ? (folded ? "▸ " : "▾ ") : ""}${lane.label}`, room = lane.kind === "head" && !folded ? width : GUTTER - 12;
  const extra = lane.kind === "head" && !folded ? `   ${lane.hint}` : "";
  context.fillText(fitText(context, text + extra, room - 8 * lane.depth), 8 + 8 * lane.depth, middle);
  if (lane.kind === "curve" && lane.curve) {
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = soft;
    context.textAlign = "right";
    context.fillText(fitText(context, lane.curve.text(lane.curve.most).replace(" a partition", ""), GUTTER - 52), GUTTER - 6, middle);
    context.textAlign = "left";
  }
}
