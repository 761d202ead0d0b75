// Arrows to what a selection depends on and from it to what depends on it, and the line of the critical path.

import { themeColour } from "./palette.js";

/** Where an instruction is drawn, in CSS pixels; null where its lane is not shown.
 * @typedef {(id: number) => {from: number, to: number, y: number}|null} Locate */

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} colour @param {boolean} binds */
function drawArrow(context, x0, y0, x1, y1, colour, binds) {
  const bend = Math.max(14, Math.min(80, Math.abs(x1 - x0) / 2));
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = binds ? 2.4 : 1.1;
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

/** From who came last to a meeting to those who waited there: all begin at one time, or a hop apart.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Model} model @param {number} id @param {Locate} locate */
function drawMeeting(context, model, id, locate) {
  const others = model.meetingOf(id);
  if (!others.length) return;
  const ready = (/** @type {number} */ each) => { const [run, row] = model.find(each); return run.column("ready")[row] + run.origin; };
  const all = [id, ...others], last = all.reduce((one, other) => (ready(other) > ready(one) ? other : one)), from = locate(last);
  context.strokeStyle = context.fillStyle = themeColour("ink");
  context.lineWidth = 1.6;
  for (const each of all) {
    const to = each === last ? null : locate(each);
    if (!from || !to) continue;
    const down = to.y > from.y ? 1 : -1;
    context.beginPath();
    context.moveTo(from.from, from.y);
    context.lineTo(to.from, to.y - 6 * down);
    context.stroke();
    context.beginPath();
    context.moveTo(to.from, to.y);
    context.lineTo(to.from - 4, to.y - 7 * down);
    context.lineTo(to.from + 4, to.y - 7 * down);
    context.fill();
  }
}

/** Arrows of some instructions both ways: of many that would lie on each other, one.
 * @param {CanvasRenderingContext2D} context @param {import("./model.js").Model} model
 * @param {Iterable<number>} ids @param {Locate} locate @param {number} width of what is in view */
export function drawArrows(context, model, ids, locate, width) {
  context.setLineDash([]);
  const drawn = new Set(), inside = (/** @type {number} */ x) => Math.round(Math.max(-1, Math.min(width + 1, x)));
  const draw = (/** @type {ReturnType<Locate>} */ from, /** @type {ReturnType<Locate>} */ to, /** @type {string} */ colour, /** @type {boolean} */ binds) => {
    if (!from || !to) return;
    const key = [inside(from.to), from.y, inside(to.from), to.y, colour].join();
    if (!drawn.has(key)) drawArrow(context, from.to, from.y, to.from, to.y, themeColour(colour), binds);
    drawn.add(key);
  };
  for (const id of ids) {
    const here = locate(id);
    if (!here) continue;
    for (const { id: other, binds } of model.before(id)) draw(locate(other), here, "arrow-in", binds);
    drawMeeting(context, model, id, locate);
    for (const { id: other, binds } of model.after(id)) draw(here, locate(other), "arrow-out", binds);
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
