// The roofline: what limits the kernel, its functions and its lines, for each engine.

import { body, chooser, controls, element } from "./dom.js";
import { formatNumber, formatTime } from "./format.js";
import { seriesColour, themeColour } from "./palette.js";
import { addPlot, placeOn } from "./plot.js";
import { hideTip, showTip } from "./tip.js";

/** A point that is drawn. @typedef {{x: number, y: number, isFree: boolean, limit: number, point: any}} Mark */

const LEFT_ROOM = 64, BOTTOM_ROOM = 38, TOP_ROOM = 14, RIGHT_ROOM = 14;
const KINDS = ["kernel", "region", "line"];

class Roofline {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.data = model.layout.roofline;
    /** -1: FLOP of the tensor engine; else the share of an engine. */
    this.engine = -1;
    /** @type {{px: number, py: number, mark: Mark}[]} */
    this.drawn = [];
    const holder = body("roofline"), stage = holder.querySelector("[data-stage]") ?? holder;
    const engines = [...new Set(this.data.points.flatMap((/** @type {any} */ point) => point.engines.map((/** @type {any} */ each) => each.engine)))].sort();
    const hasFlop = this.data.points.some((/** @type {any} */ point) => point.flop > 0);
    if (!hasFlop) this.engine = engines[0] ?? -1;
    const choices = /** @type {[string, string][]} */ ([...(hasFlop ? [["-1", "TensorE: FLOP/s"]] : []), ...engines.map((engine) => [String(engine), `${model.layout.engines[engine]}: share of its time`])]);
    const { canvas, again } = addPlot(stage, (room) => Math.max(230, Math.min(520, room - 80)), "Roofline", store, ["selection", "theme"], (sheet) => this.draw(sheet));
    controls("roofline").append(chooser("What is on the roofline", choices, (value) => { this.engine = Number(value); again(); }));
    stage.append(element("p", { class: "keys" }, ...KINDS.map((kind) => element("span", {}, element("i", { class: `mark-${kind}` }), kind === "region" ? "function" : kind)),
      element("span", {}, "at the right edge: no HBM traffic")));
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.hover(event, this.near(placeOn(canvas, event))));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const mark = this.near(placeOn(canvas, event));
      if (mark && mark.point.kind === "line") store.select("line", model.lineOfSite[mark.point.site]);
    });
  }

  /** Points of the engine that is shown. @returns {Mark[]} */
  marks() {
    const { points } = this.data;
    if (this.engine < 0) {
      return points.filter((/** @type {any} */ point) => point.flop > 0 && point.tflops > 0).map((/** @type {any} */ point) => (
        { x: point.intensity ?? Infinity, y: point.tflops, isFree: point.intensity === null, limit: point.attainable_tflops, point }));
    }
    return points.flatMap((/** @type {any} */ point) => {
      const busy = point.engines.find((/** @type {any} */ each) => each.engine === this.engine)?.busy_us ?? 0;
      if (!busy || !point.active_us) return [];
      const x = point.hbm_us ? busy / point.hbm_us : Infinity;
      return [{ x, y: busy / point.active_us, isFree: !point.hbm_us, limit: Math.min(1, x), point }];
    });
  }

  /** Roofs, as the height over an x: of compute flat, of memory rising. */
  roofs() {
    if (this.engine < 0) {
      return { compute: this.data.compute.map((/** @type {any} */ roof) => ({ name: `${roof.name}: ${formatNumber(roof.tflops)} TFLOP/s`, height: roof.tflops })),
        memory: this.data.memory.map((/** @type {any} */ roof) => ({ name: `${roof.name}: ${formatNumber(roof.gbps)} GB/s`, slope: roof.gbps / 1000 })) };
    }
    return { compute: [{ name: `all of the ${this.model.layout.engines[this.engine]} engine's time`, height: 1 }], memory: [{ name: "HBM bandwidth", slope: 1 }] };
  }

  /** @param {import("./plot.js").Sheet} sheet */
  draw({ context, width, height }) {
    const marks = this.marks(), { compute, memory } = this.roofs();
    const finite = marks.filter(({ isFree, x }) => !isFree && x > 0).map(({ x }) => x), peak = Math.max(...compute.map((/** @type {any} */ roof) => roof.height), 1e-9);
    const ridges = memory.flatMap((/** @type {any} */ roof) => compute.map((/** @type {any} */ top) => top.height / roof.slope));
    const lowX = 10 ** Math.floor(Math.log10(Math.min(...finite, ...ridges) / 3)), highX = 10 ** Math.ceil(Math.log10(Math.max(...finite, ...ridges) * 2));
    const lowY = 10 ** Math.max(Math.floor(Math.log10(peak)) - 6, Math.floor(Math.log10(Math.min(peak / 20, ...marks.map(({ y }) => y))))), highY = peak * 2.2;
    const right = width - RIGHT_ROOM, bottom = height - BOTTOM_ROOM;
    const xOf = (/** @type {number} */ x) => LEFT_ROOM + (Math.log(x / lowX) / Math.log(highX / lowX)) * (right - LEFT_ROOM);
    const yOf = (/** @type {number} */ y) => bottom - (Math.log(y / lowY) / Math.log(highY / lowY)) * (bottom - TOP_ROOM);
    this.drawGrid(context, { lowX, highX, lowY, highY, right, bottom, xOf, yOf });
    const ink = themeColour("ink"), soft = themeColour("soft");
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1.8;
    context.save();
    context.beginPath();
    context.rect(LEFT_ROOM, TOP_ROOM - 4, right - LEFT_ROOM, bottom - TOP_ROOM + 4);
    context.clip();
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      const end = peak / roof.slope;
      context.strokeStyle = place ? soft : ink;
      context.beginPath();
      context.moveTo(xOf(lowX), yOf(lowX * roof.slope));
      context.lineTo(xOf(end), yOf(peak));
      context.stroke();
    });
    compute.forEach((/** @type {any} */ roof) => {
      context.strokeStyle = roof.height === peak ? ink : soft;
      context.beginPath();
      context.moveTo(xOf(Math.min(...memory.map((/** @type {any} */ each) => roof.height / each.slope))), yOf(roof.height));
      context.lineTo(right, yOf(roof.height));
      context.stroke();
    });
    context.restore();
    this.nameRoofs(context, { compute, memory, peak, lowX, right, bottom, xOf, yOf, ink, soft });
    this.drawn = marks.map((mark) => ({ mark, px: mark.isFree ? right - 5 : xOf(Math.max(mark.x, lowX)), py: yOf(Math.max(mark.y, lowY)) }));
    this.drawMarks(context, right);
  }

  /** @param {CanvasRenderingContext2D} context @param {any} frame */
  drawGrid(context, { lowX, highX, lowY, highY, right, bottom, xOf, yOf }) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const power = (/** @type {number} */ value) => (value >= 1e-3 && value < 1e5 ? formatNumber(value) : `1e${Math.round(Math.log10(value))}`);
    const skip = Math.ceil(Math.log10(highX / lowX) / Math.max(2, (right - LEFT_ROOM) / 52));
    context.textAlign = "center";
    for (let value = lowX, place = 0; value <= highX * 1.001; value *= 10, place++) {
      context.fillStyle = themeColour("faint");
      context.fillRect(Math.round(xOf(value)), TOP_ROOM, 1, bottom - TOP_ROOM);
      context.fillStyle = themeColour("soft");
      if (place % skip === 0) context.fillText(power(value), Math.min(right - 12, xOf(value)), bottom + 10);
    }
    context.textAlign = "right";
    for (let value = lowY; value <= highY; value *= 10) {
      context.fillStyle = themeColour("faint");
      context.fillRect(LEFT_ROOM, Math.round(yOf(value)), right - LEFT_ROOM, 1);
      context.fillStyle = themeColour("soft");
      context.fillText(this.engine < 0 ? power(value) : `${power(100 * value)} %`, LEFT_ROOM - 6, yOf(value));
    }
    context.textAlign = "center";
    context.fillText(this.engine < 0 ? "FLOP for each byte of HBM traffic" : "engine time for each unit of HBM time", (LEFT_ROOM + right) / 2, bottom + 27);
    context.save();
    context.translate(10, (TOP_ROOM + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.engine < 0 ? "TFLOP/s" : "share of the engine's time", 0, 0);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {any} frame */
  nameRoofs(context, { compute, memory, peak, lowX, right, bottom, xOf, yOf, ink, soft }) {
    context.textAlign = "right";
    context.fillStyle = ink;
    for (const roof of compute) context.fillText(roof.name, right - 4, yOf(roof.height) - 8);
    context.textAlign = "left";
    const angle = Math.atan2(yOf(1) - yOf(10), xOf(10) - xOf(1));
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      // Beside the roof, where it comes into the picture.
      const inside = Math.max(lowX, (10 ** (Math.log10(peak) - (bottom - TOP_ROOM - 30) / (yOf(1) - yOf(10)))) / roof.slope) * 1.2;
      context.save();
      context.translate(xOf(inside), yOf(inside * roof.slope));
      context.rotate(-angle);
      context.fillStyle = place ? soft : ink;
      context.fillText(roof.name, 4, -7);
      context.restore();
    });
    context.setLineDash([3, 3]);
    context.lineWidth = 1;
    memory.forEach((/** @type {any} */ roof, /** @type {number} */ place) => {
      const x = peak / roof.slope;
      context.strokeStyle = soft;
      context.beginPath();
      context.moveTo(xOf(x), yOf(peak));
      context.lineTo(xOf(x), bottom);
      context.stroke();
      context.fillStyle = soft;
      context.fillText(`ridge ${formatNumber(x)}`, Math.min(xOf(x) + 4, right - 60), bottom - 8 - 13 * (place % 2));
    });
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} right */
  drawMarks(context, right) {
    const { kind: chosen, place } = this.store.chosen;
    const line = chosen === "line" ? place : chosen === "instruction" ? this.model.lineOf(place) : -1;
    /** @type {[number, number, number][]} */
    const taken = [];
    const order = [...this.drawn].sort((one, other) => KINDS.indexOf(one.mark.point.kind) - KINDS.indexOf(other.mark.point.kind) || other.mark.point.active_us - one.mark.point.active_us);
    for (const { px, py, mark: { point } } of [...order].reverse()) {
      const isOn = point.kind === "line" && this.model.lineOfSite[point.site] === line, size = { kernel: 8, region: 6, line: 5 }[/** @type {"line"} */ (point.kind)];
      context.globalAlpha = line >= 0 && !isOn ? 0.35 : 1;
      context.fillStyle = seriesColour(KINDS.indexOf(point.kind) === 0 ? 4 : KINDS.indexOf(point.kind) === 1 ? 2 : 0);
      context.beginPath();
      if (point.kind === "kernel") for (let corner = 0; corner < 4; corner++) context.lineTo(px + size * Math.cos((corner * Math.PI) / 2), py + size * Math.sin((corner * Math.PI) / 2));
      else if (point.kind === "region") context.rect(px - size, py - size, 2 * size, 2 * size);
      else context.arc(px, py, size, 0, 7);
      context.fill();
      context.strokeStyle = isOn ? themeColour("ink") : themeColour("paper");
      context.lineWidth = isOn ? 2.5 : 1;
      context.stroke();
    }
    context.globalAlpha = 1;
    context.fillStyle = themeColour("ink");
    for (const { px, py, mark: { point } } of order) {
      const name = this.nameOf(point), wide = context.measureText(name).width, toLeft = px + wide + 14 > right;
      const x = toLeft ? px - wide - 10 : px + 10;
      if (taken.length > 9 || taken.some(([left, top, end]) => x < end && x + wide > left && Math.abs(py - top) < 13)) continue;
      taken.push([x, py, x + wide]);
      context.textAlign = "left";
      context.fillText(name, x, py);
    }
  }

  /** Name of a point, of a line without its folders. @param {any} point @returns {string} */
  nameOf(point) {
    return point.kind === "line" ? this.model.lineText(this.model.lineOfSite[point.site]) : point.name;
  }

  /** @param {{x: number, y: number}} place @returns {Mark|null} */
  near({ x, y }) {
    let best = null, least = 14;
    for (const { px, py, mark } of this.drawn) {
      const off = Math.hypot(px - x, py - y);
      if (off < least) { least = off; best = mark; }
    }
    return best;
  }

  /** @param {PointerEvent} event @param {Mark|null} mark */
  hover(event, mark) {
    if (!mark) return hideTip();
    const { point, isFree } = mark, text = (/** @type {number} */ value) => (this.engine < 0 ? `${formatNumber(value)} TFLOP/s` : `${formatNumber(100 * value)} %`);
    showTip(event, this.nameOf(point), [`${text(mark.y)} of ${text(mark.limit)} attainable: ${formatNumber((100 * mark.y) / mark.limit, 3)} %`,
      isFree ? "no HBM traffic" : `${formatNumber(mark.x)} ${this.engine < 0 ? "FLOP a byte" : "of engine time for HBM time"}`, `active ${formatTime(point.active_us * 1e6)}`]);
  }
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
export function buildRoofline(model, store) {
  if (model.layout.roofline?.points?.length) new Roofline(model, store);
}
