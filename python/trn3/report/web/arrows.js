// Arrows to what a selection depends on and from it to what depends on it, and the line of the critical path.

import { themeColour } from "./palette.js";

/** Where an instruction is drawn, in CSS pixels; null where its lane is not shown.
 * @typedef {(id: number) => {from: number, to: number, y: number}|null} Locate */

const MOST_ARROWS = 160;

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} colour */
function drawArrow(context, x0, y0, x1, y1, colour) {
  const bend = Math.max(14, Math.min(80, Math.abs(x1 - x0) / 2));
  context.strokeStyle = context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 7, y1 - 3.5);
  context.lineTo(x1 - 7, y1 + 3.5);
  context.fill();
}

/** Arrows of some instructions both ways. @param {CanvasRenderingContext2D} context @param {import("./model.js").Model} model
 * @param {Iterable<number>} ids @param {Locate} locate */
export function drawArrows(context, model, ids, locate) {
  let drawn = 0;
  context.lineWidth = 1.6;
  context.setLineDash([]);
  for (const id of ids) {
    const here = locate(id);
    if (!here) continue;
    for (const { id: other } of model.before(id)) {
      const there = locate(other);
      if (there && drawn++ < MOST_ARROWS) drawArrow(context, there.to, there.y, here.from, here.y, themeColour("arrow-in"));
    }
    for (const other of model.meetingOf(id)) {
      const there = locate(other);
      if (there && drawn++ < MOST_ARROWS) drawArrow(context, here.to, here.y, there.from, there.y, themeColour("ink"));
    }
    for (const { id: other } of model.after(id)) {
      const there = locate(other);
      if (there && drawn++ < MOST_ARROWS) drawArrow(context, here.to, here.y, there.from, there.y, themeColour("arrow-out"));
    }
  }
}

/** Instructions of the critical path of a run, by rising start. @param {import("./model.js").Run} run @returns {Uint32Array} rows */
export function criticalRows(run) {
  return run.once("critical", () => {
    const flags = run.column("critical"), start = run.column("start"), rows = [];
    for (let row = 0; row < run.count; row++) if (flags[row]) rows.push(row);
    return Uint32Array.from(rows.sort((one, other) => start[one] - start[other] || one - other));
  });
}

/** Join what of the critical path is in view, unless there is too much of it to follow.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Run} run @param {number} from @param {number} to @param {Locate} locate */
export function drawCriticalPath(context, run, from, to, locate) {
  const rows = criticalRows(run), start = run.column("start");
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[rows[middle]] + run.origin < from) low = middle + 1;
    else high = middle;
  }
  const points = [];
  for (let place = Math.max(0, low - 1); place < rows.length && points.length <= 400; place++) {
    const where = locate(rows[place] + run.base);
    if (where) points.push(where);
    if (start[rows[place]] + run.origin > to) break;
  }
  if (points.length > 400) return;
  context.strokeStyle = themeColour("critical");
  context.lineWidth = 1.4;
  context.setLineDash([5, 3]);
  context.beginPath();
  points.forEach(({ from: x0, to: x1, y }, place) => {
    if (place === 0) context.moveTo(x0, y);
    else context.lineTo(x0, y);
    context.lineTo(x1, y);
  });
  context.stroke();
  context.setLineDash([]);
}
