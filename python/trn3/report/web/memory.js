// SBUF and PSUM as address over time: a rectangle a tensor, in the time that the timeline shows.

import { body, controls, element, chooser } from "./dom.js";
import { largest } from "./data.js";
import { fitText, formatBytes, formatCapacity, formatShare, formatTime, timeTicks } from "./format.js";
import { tensorText } from "./inspector.js";
import { inkOn, mix, pixelOf, SERIES_COUNT, seriesColour, themeColour } from "./palette.js";
import { addPlot, placeOn } from "./plot.js";
import { PixelBoard } from "./raster.js";
import { hideTip, showTip } from "./tip.js";

/** @typedef {import("./model.js").Run} Run */

const LEFT = 62, BOTTOM = 20;

class MemoryMap {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {Element} parent @param {number} run @param {any} memory its entry in the layout */
  constructor(model, store, parent, run, memory) {
    this.model = model;
    this.store = store;
    this.run = model.runs[run];
    this.memory = memory;
    this.board = new PixelBoard();
    const { tensors } = this.run, kind = tensors.column("memory"), number = model.layout.memories.indexOf(memory.memory);
    this.rows = [...kind.keys()].filter((row) => kind[row] === number);
    this.used = largest(this.rows.map((row) => tensors.column("byte")[row] + tensors.column("bytes")[row]));
    this.whole = false;
    const [least, most] = memory.memory === "psum" ? [130, 260] : [200, 460], height = (/** @type {number} */ room) => Math.max(least, Math.min(most, room * (most / 760)));
    const { canvas, again } = addPlot(parent, height, `${memory.memory.toUpperCase()}: addresses in use over time`, store, ["view", "selection", "theme"], (sheet) => this.draw(sheet));
    this.again = again;
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      const row = this.at(canvas, placeOn(canvas, event));
      if (row < 0) return hideTip();
      const value = (/** @type {string} */ name) => tensors.column(name)[row];
      showTip(event, tensorText(model, this.run, row), [
        `${formatCapacity(value("bytes"))} of each of ${value("partitions")} partitions, from byte ${value("byte")}`,
        `${formatTime(value("from") + this.run.origin)} to ${formatTime(value("to") + this.run.origin)}`,
        model.lineText(model.lineOfSite[value("site")])]);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const row = this.at(canvas, placeOn(canvas, event));
      if (row < 0) store.select("none");
      else store.select("tensor", row + this.run.tensorBase);
    });
    canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const share = (placeOn(canvas, event).x - LEFT) / (canvas.clientWidth - LEFT);
      store.scale(Math.exp(event.deltaY * 0.01), store.from + share * (store.to - store.from));
    }, { passive: false });
  }

  /** Bytes that the height stands for. */
  top() {
    return this.whole ? this.memory.capacity_bytes : Math.max(1, this.used);
  }

  /** The tensor under a place, or -1. @param {HTMLCanvasElement} canvas @param {{x: number, y: number}} place */
  at(canvas, { x, y }) {
    const { tensors } = this.run, { from, to } = this.store, width = canvas.clientWidth - LEFT, height = canvas.clientHeight - BOTTOM;
    const time = from + ((x - LEFT) / width) * (to - from) - this.run.origin, byte = (1 - y / height) * this.top(), slack = ((to - from) / width) * 1.5;
    const [begin, end, low, bytes] = ["from", "to", "byte", "bytes"].map((name) => tensors.column(name));
    return x < LEFT ? -1 : this.rows.findLast((row) => begin[row] - slack <= time && time <= end[row] + slack && low[row] <= byte && byte < low[row] + bytes[row]) ?? -1;
  }

  /** Tensors to stress; null where nothing is selected. Found once for a selection. @returns {Set<number>|null} */
  chosen() {
    if (this.foundFor !== this.store.chosen) this.found = this.findChosen();
    this.foundFor = this.store.chosen;
    return this.found ?? null;
  }

  /** @returns {Set<number>|null} */
  findChosen() {
    const { kind, place } = this.store.chosen, { run, model } = this;
    if (kind === "none") return null;
    if (kind === "tensor") return new Set(model.findTensor(place)[0] === run ? [place - run.tensorBase] : []);
    const tensor = run.uses.column("tensor"), found = new Set();
    if (kind === "line") {
      const site = run.tensors.column("site");
      for (const row of this.rows) if (model.lineOfSite[site[row]] === place) found.add(row);
    }
    const rows = model.chosenRows(run, this.store.chosen) ?? [];
    for (const row of rows.length > 20000 ? rows.slice(0, 20000) : rows) for (const use of model.operandsOf(run, row)) found.add(tensor[use]);
    return found;
  }

  /** @param {import("./plot.js").Sheet} sheet */
  draw({ context, width, height }) {
    const { board, run, model } = this, { from, to } = this.store, { tensors } = run, scale = devicePixelRatio || 1, paper = themeColour("paper");
    const left = Math.round(LEFT * scale), wide = Math.round(width * scale) - left, high = Math.round((height - BOTTOM) * scale);
    board.resize(wide, high);
    board.clear(pixelOf(themeColour("raised")));
    const [begin, end, low, bytes, name] = ["from", "to", "byte", "bytes", "name"].map((each) => tensors.column(each));
    const across = wide / (to - from), up = high / this.top(), chosen = this.chosen();
    const colours = Array.from({ length: SERIES_COUNT }, (_, place) => seriesColour(place));
    const full = colours.map(pixelOf), edge = colours.map((colour) => pixelOf(mix(colour, paper, 0.55))), dim = colours.map((colour) => pixelOf(mix(colour, paper, 0.8)));
    const texts = [];
    for (const row of this.rows) {
      if (begin[row] + run.origin > to || end[row] + run.origin < from) continue;
      const x0 = Math.floor((begin[row] + run.origin - from) * across), x1 = Math.max(x0 + 1, Math.floor((end[row] + run.origin - from) * across));
      const y1 = high - Math.floor(low[row] * up), y0 = Math.min(y1 - 1, high - Math.floor((low[row] + bytes[row]) * up)), shade = name[row] % SERIES_COUNT;
      const on = !chosen || chosen.has(row), colour = on ? full[shade] : dim[shade];
      board.fill(x0, x1, y0, y1, colour);
      if (x1 - x0 > 4 && y1 - y0 > 4) {
        board.fill(x0, x1, y0, y0 + 1, edge[shade]);
        board.fill(x1 - 1, x1, y0, y1, edge[shade]);
      }
      if (on && x1 - x0 > 50 * scale && y1 - y0 > 12 * scale && texts.length < 300) texts.push({ row, x0: Math.max(0, x0), x1: Math.min(wide, x1), y: (y0 + y1) / 2, ink: inkOn(colours[shade]) });
    }
    board.show(context, left, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { row, x0, x1, y, ink } of texts) {
      const text = fitText(context, tensorText(model, run, row), (x1 - x0) / scale - 8);
      context.fillStyle = ink;
      if (text) context.fillText(text, LEFT + x0 / scale + 4, y / scale);
    }
    this.drawAxes(context, width, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  drawAxes(context, width, height) {
    const soft = themeColour("soft"), room = height - BOTTOM;
    context.fillStyle = soft;
    context.textAlign = "right";
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, this.top() / 6)));
    for (let byte = 0; byte <= this.top(); byte += step) {
      const y = room - (byte / this.top()) * room;
      context.fillText(formatCapacity(byte), LEFT - 6, Math.max(7, Math.min(room - 4, y)));
    }
    context.textAlign = "center";
    const { from, to } = this.store;
    for (const { time, text } of timeTicks(from, to, Math.max(2, Math.floor((width - LEFT) / 110)))) {
      const x = LEFT + ((time - from) / (to - from)) * (width - LEFT), half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(LEFT + half, Math.min(width - half, x)), height - 8);
    }
    context.textAlign = "left";
  }
}

/** @param {any} memory its entry in the layout */
function factsOf(memory) {
  const { peak_bytes: peak, capacity_bytes: capacity, free_bytes: free, largest_free_bytes: hole } = memory;
  const fact = (/** @type {string} */ value, /** @type {string} */ text) => element("span", {}, element("b", {}, value), ` ${text}`);
  return element("p", { class: "facts" }, element("b", {}, memory.memory.toUpperCase()),
    fact(formatCapacity(peak), `of ${formatCapacity(capacity)} a partition at the peak (${formatShare(peak / capacity)}), ${formatTime(memory.peak_ps)} after the start`),
    free > 0 && hole < free ? fact(formatShare(1 - hole / free), `of the free bytes then are outside the largest hole, ${formatCapacity(hole)}`) : null);
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
export function buildMemory(model, store) {
  const holder = body("memory"), stage = holder.querySelector("[data-stage]") ?? holder, { layout } = model;
  const known = (layout.memory ?? []).filter((/** @type {any} */ memory) => model.runs[memory.run]?.tensors.rows);
  /** @type {MemoryMap[]} */
  let maps = [];
  let shown = -1, isWhole = false;
  /** Each run's maps, made once. @type {Map<number, {maps: MemoryMap[], part: Element}>} */
  const made = new Map();
  const make = (/** @type {number} */ run) => {
    const part = element("div");
    // A plot is as large as there is room: it has to be in the page.
    stage.replaceChildren(part);
    const maps = known.filter((/** @type {any} */ memory) => memory.run === run).map((/** @type {any} */ memory) => {
      part.append(factsOf(memory));
      return new MemoryMap(model, store, part, run, memory);
    });
    const spilled = (layout.spills ?? []).filter((/** @type {any} */ spill) => spill.run === run).reduce((/** @type {number} */ sum, /** @type {any} */ spill) => sum + spill.write_bytes, 0);
    part.append(element("p", { class: "facts" }, spilled ? `${formatBytes(spilled)} are spilled to HBM (below).` : "Nothing is spilled to HBM."));
    const found = { maps, part };
    made.set(run, found);
    return found;
  };
  const range = () => {
    for (const map of maps) { map.whole = isWhole; map.again(); }
  };
  const show = (/** @type {number} */ run) => {
    if (run === shown) return;
    const found = made.get(run) ?? make(run);
    shown = run;
    maps = found.maps;
    stage.replaceChildren(found.part);
    range();
  };
  const runs = [...new Set(known.map((/** @type {any} */ memory) => memory.run))];
  if (runs.length > 1) {
    const choice = chooser("Core or level", runs.map((run) => [String(run), model.runs[run].title]), (run) => show(Number(run)));
    controls("memory").append(choice);
    store.on("selection", () => {
      const { kind, place } = store.chosen, found = kind === "instruction" ? model.find(place)[0] : kind === "tensor" ? model.findTensor(place)[0] : null;
      if (!found || !runs.includes(found.number)) return;
      choice.value = String(found.number);
      show(found.number);
    });
  }
  controls("memory").append(chooser("Range of addresses", [["used", "addresses: used"], ["all", "addresses: all"]], (value) => {
    isWhole = value === "all";
    range();
  }));
  if (runs.length) show(runs[0]);
  holder.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("tr[data-tensor]"));
    if (row) store.select("tensor", (model.runs[Number(row.dataset.run)]?.tensorBase ?? 0) + Number(row.dataset.tensor));
  });
}
