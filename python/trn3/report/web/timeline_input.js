// Mouse, touchpad and fingers on the timeline: wheel zooms, drag pans, click selects, a press on the strip jumps.

import { hideTip, showTip } from "./tip.js";
import { formatBytes, formatTime } from "./format.js";
import { GUTTER, LANES_TOP } from "./timeline_geometry.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

/** @param {Timeline} timeline */
export function listenToStage(timeline) {
  const { stage, store } = timeline;
  /** What the pointer began. @type {{kind: "pan"|"measure"|"overview", x: number, y: number, from: number, scroll: number, moved: boolean}|null} */
  let drag = null;
  const at = (/** @type {PointerEvent|WheelEvent|MouseEvent} */ event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const jump = (/** @type {number} */ x) => {
    const wide = store.to - store.from, middle = ((x - GUTTER) / timeline.plotWidth()) * store.length;
    store.zoom(middle - wide / 2, middle + wide / 2);
  };

  stage.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    const { x } = at(event), unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 200 : 1;
    const across = (event.shiftKey ? event.deltaX || event.deltaY : event.deltaX) * unit, down = event.shiftKey ? 0 : event.deltaY * unit;
    if (x < GUTTER || event.altKey) {
      timeline.scroll += down;
      timeline.draw();
    } else if (Math.abs(across) > Math.abs(down)) store.pan((across / timeline.plotWidth()) * (store.to - store.from));
    // A pinch on a touchpad comes as a wheel with the control key, in smaller steps.
    else store.scale(Math.exp(Math.max(-240, Math.min(240, down)) * (event.ctrlKey ? 0.01 : 0.0022)), timeline.timeAt(x));
  }, { passive: false });

  stage.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (event.button > 1) return;
    const { x, y } = at(event);
    stage.setPointerCapture(event.pointerId);
    hideTip();
    if (y < LANES_TOP - 22 && x >= GUTTER) {
      drag = { kind: "overview", x, y, from: store.from, scroll: timeline.scroll, moved: true };
      jump(x);
    } else drag = { kind: timeline.measuring && x >= GUTTER ? "measure" : "pan", x, y, from: store.from, scroll: timeline.scroll, moved: false };
  });

  stage.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const { x, y } = at(event);
    if (!drag) {
      hover(timeline, x, y, event);
      // The second of two clicks is shown before it is made.
      if (timeline.measuring && timeline.firstPoint !== undefined) store.measure([timeline.firstPoint, timeline.timeAt(x)]);
      return;
    }
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.kind === "overview") jump(x);
    else if (drag.kind === "measure") store.measure([timeline.timeAt(drag.x), timeline.timeAt(x)]);
    else {
      stage.classList.add("panning");
      timeline.scroll = drag.scroll - (y - drag.y);
      const wide = store.to - store.from, from = drag.from - ((x - drag.x) / timeline.plotWidth()) * wide;
      store.zoom(from, from + wide);
      timeline.draw();
    }
  });

  stage.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    const { x, y } = at(event), was = drag;
    drag = null;
    stage.classList.remove("panning");
    if (was?.kind === "measure" && was.moved) timeline.firstPoint = undefined;
    if (!was || was.moved) return;
    if (was.kind === "measure") {
      const time = timeline.timeAt(x);
      timeline.firstPoint = timeline.firstPoint === undefined ? time : undefined;
      if (timeline.firstPoint !== undefined) store.measure([time, time]);
      return;
    }
    const here = timeline.laneAt(y);
    if (here?.lane.folds && (x < GUTTER || here.lane.kind === "head")) {
      timeline.lanes.turn(here.lane.key);
      timeline.draw();
      return;
    }
    const found = sliceAt(timeline, x, y);
    if (found) store.select("instruction", found.id);
    else if (x >= GUTTER) store.select("none");
  });
  stage.addEventListener("pointercancel", () => { drag = null; });
  stage.addEventListener("pointerleave", hideTip);
  stage.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => {
    const { x, y } = at(event);
    if (x >= GUTTER && sliceAt(timeline, x, y)) timeline.zoomToSelection();
  });
}

/** The slice under a place of the stage. @param {Timeline} timeline @param {number} x @param {number} y */
export function sliceAt(timeline, x, y) {
  const here = x >= GUTTER ? timeline.laneAt(y) : undefined;
  if (!here || here.lane.kind === "curve" || (here.lane.kind === "head" && !timeline.lanes.folded.has(here.lane.key))) return null;
  const slack = (2 * (timeline.store.to - timeline.store.from)) / timeline.plotWidth(), time = timeline.timeAt(x);
  const { slices } = here.lane.detail(), place = here.lane.detail().at(time, slack);
  if (place < 0) return null;
  return { id: slices.id[place], waits: time < slices.from[place] - slack / 4, wait: slices.wait[place], lane: here.lane,
    length: slices.to[place] - slices.from[place] };
}

/** @param {Timeline} timeline @param {number} x @param {number} y @param {PointerEvent} event */
function hover(timeline, x, y, event) {
  const here = timeline.laneAt(y);
  if (!here) return hideTip();
  if (x < GUTTER) return here.lane.folds ? showTip(event, here.lane.label, [here.lane.hint, "click to fold or unfold"]) : hideTip();
  if (here.lane.curve) {
    const time = timeline.timeAt(x), { curve, label } = here.lane;
    return showTip(event, `${label} at ${formatTime(time)}`, [curve.text(curve.at(time)), curve.limit ? `of ${curve.text(curve.limit)}` : ""]);
  }
  const found = sliceAt(timeline, x, y);
  if (!found) return hideTip();
  const { model } = timeline, [run, row] = model.find(found.id), { layout } = model;
  const opcode = layout.opcodes[run.column("opcode")[row]], label = layout.labels?.[run.column("label")[row]];
  const cause = (layout.cause_words ?? layout.causes ?? [])[run.column("cause")[row]], bytes = run.column("dma_bytes")[row];
  showTip(event, label ? `${label} (${opcode})` : opcode, [
    `instruction ${row}, ${model.lineText(model.lineOf(found.id))}`,
    `${formatTime(run.column("start")[row])} + ${formatTime(found.length)}`,
    bytes ? `${formatBytes(bytes)} moved` : "",
    found.wait > 0 ? `${found.waits ? "here: " : ""}waited ${formatTime(found.wait)}${cause && cause !== "nothing" ? ` for ${cause}` : ""}` : "",
    run.column("bound")[row] ? `bound by ${model.boundText(run, row)}` : "",
    run.column("critical")[row] ? "on the critical path" : "",
  ]);
}
