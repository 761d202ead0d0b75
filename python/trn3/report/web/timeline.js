// The timeline: what every engine, queue, core and rank did, over time.

import { criticalRows } from "./arrows.js";
import { body, chooser, controls, eachFrame, element, fitCanvas, toggle } from "./dom.js";
import { formatTime } from "./format.js";
import { GUTTER, LANES_TOP, OVERVIEW } from "./timeline_geometry.js";
import { Lanes } from "./lanes.js";
import { LanePainter } from "./lane_painter.js";
import { Overview } from "./overview.js";
import { themeColour } from "./palette.js";
import { paintCover } from "./timeline_cover.js";
import { listenToStage } from "./timeline_input.js";
import { paintTexts } from "./timeline_texts.js";

/** @typedef {import("./lanes.js").Lane} Lane */
/** A lane and where it is drawn, in CSS pixels of the stage. @typedef {{lane: Lane, top: number, height: number}} Placed */

export class Timeline {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.lanes = new Lanes(model);
    this.painter = new LanePainter();
    this.overview = new Overview(model, store);
    this.showsCritical = true;
    this.showsArrows = true;
    this.measuring = false;
    this.scroll = 0;
    /** @type {Placed[]} */
    this.placed = [];
    /** Places of lanes that are marked, by lane and what for. @type {Map<string, {places: Uint32Array, from: Float64Array, mask: Uint8Array}>} */
    this.marked = new Map();
    this.stage = element("div", { id: "stage", tabindex: "0", role: "application", "aria-label": "Timeline: arrow keys pan, + and - zoom, Enter selects" });
    this.base = element("canvas");
    this.cover = element("canvas", { css: { "pointer-events": "none" } });
    this.stage.append(this.base, this.cover);
    if (!model.count) this.stage.append(element("p", { class: "empty" }, "There is no instruction to show."));
    body("timeline").replaceChildren(this.stage);
    this.addControls();
    this.draw = eachFrame(() => this.paint());
    this.drawCover = eachFrame(() => paintCover(this));
    listenToStage(this);
    store.on("view", this.draw);
    store.on("measure", () => { this.showMeasure(); this.drawCover(); });
    store.on("selection", () => {
      this.forget("chosen ");
      if (store.chosen.kind === "instruction") this.scrollTo(store.chosen.place);
      this.draw();
    });
    store.on("theme", () => { this.themed = ""; this.overview.forget(); this.draw(); });
    new ResizeObserver(this.draw).observe(this.stage);
  }

  addControls() {
    const { store } = this, middle = () => (store.from + store.to) / 2;
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ click) => element("button", { type: "button", title, on: { click } }, text);
    this.measure = element("output", { "aria-live": "polite" });
    this.range = element("span", { class: "soft number wide", "aria-live": "off" });
    controls("timeline").append(
      button("+", "Zoom in ( + , or the wheel )", () => store.scale(0.5, middle())),
      button("−", "Zoom out ( - )", () => store.scale(2, middle())),
      button("Fit", "The whole run ( 0 )", () => store.zoom(0, store.length)),
      button("To selection", "Zoom to what is selected ( z )", () => this.zoomToSelection()),
      toggle("Measure", "Measure between two points: drag, or click twice ( m )", false, (on) => this.setMeasuring(on)),
      toggle("Critical path", "Underline the instructions that decide the latency ( c )", true, (on) => { this.showsCritical = on; this.draw(); }),
      toggle("Arrows", "Arrows to what the selection depends on, and from it ( a )", true, (on) => { this.showsArrows = on; this.draw(); }),
      chooser("Colour of bars", [["family", "colour: kind of instruction"], ["line", "colour: line of source"]], (value) => {
        this.lanes.colourBy(/** @type {"family"|"line"} */ (value));
        this.marked.clear();
        this.themed = "";
        this.draw();
      }),
      this.measure,
      this.range,
    );
  }

  /** Press a button of the heading by its text. @param {string} text */
  press(text) {
    const found = /** @type {HTMLButtonElement|undefined} */ ([...controls("timeline").querySelectorAll("button")].find((each) => each.textContent === text));
    found?.click();
  }

  /** @param {boolean} on */
  setMeasuring(on) {
    this.measuring = on;
    this.stage.classList.toggle("measuring", on);
    if (!on) this.store.measure(null);
  }

  showMeasure() {
    const { measured } = this.store;
    this.measure.textContent = measured ? `measured ${formatTime(Math.abs(measured[1] - measured[0]), 5)}` : "";
  }

  /** Forget marks made for something. @param {string} prefix */
  forget(prefix) {
    for (const key of [...this.marked.keys()]) if (key.startsWith(prefix)) this.marked.delete(key);
  }

  /** The time under a place of the stage. @param {number} x */
  timeAt(x) {
    return this.store.from + ((x - GUTTER) / this.plotWidth()) * (this.store.to - this.store.from);
  }

  /** @param {number} time */
  xOf(time) {
    return GUTTER + ((time - this.store.from) / (this.store.to - this.store.from)) * this.plotWidth();
  }

  plotWidth() {
    return Math.max(10, this.stage.clientWidth - GUTTER);
  }

  /** Put lanes below each other: as high as there is room for. */
  place() {
    const lanes = this.lanes.visible(), room = this.stage.clientHeight - LANES_TOP;
    const fixed = (/** @type {Lane} */ lane) => (lane.kind === "head" && !this.lanes.folded.has(lane.key) ? 20 : lane.isEmpty ? 12 : lane.depth > 0 ? 15 : 0);
    const used = lanes.reduce((sum, lane) => sum + fixed(lane), 0), free = lanes.filter((lane) => !fixed(lane)).length;
    const high = Math.max(18, Math.min(40, Math.floor((room - used) / Math.max(1, free))));
    let top = 0;
    this.placed = lanes.map((lane) => {
      const height = fixed(lane) || high, here = { lane, top, height };
      top += height;
      return here;
    });
    this.scroll = Math.max(0, Math.min(this.scroll, top - room));
    for (const here of this.placed) here.top += LANES_TOP - this.scroll;
  }

  /** The lane at a height of the stage. @param {number} y @returns {Placed|undefined} */
  laneAt(y) {
    return y < LANES_TOP ? undefined : this.placed.find(({ top, height }) => y >= top && y < top + height);
  }

  /** Slices of a lane that are to be marked. @param {string} what @param {Lane} lane @param {() => Uint32Array} rows of its run */
  marks(what, lane, rows) {
    const key = `${what} ${lane.key}`;
    let found = this.marked.get(key);
    if (!found) {
      const maskKey = `${what} mask ${lane.run.number}`;
      let mask = this.marked.get(maskKey)?.mask;
      if (!mask) {
        mask = new Uint8Array(lane.run.count);
        for (const row of rows()) mask[row] = 1;
        this.marked.set(maskKey, { places: new Uint32Array(0), from: new Float64Array(0), mask });
      }
      const { slices } = lane.detail(), base = lane.run.base, places = [];
      for (let place = 0; place < slices.id.length; place++) if (mask[slices.id[place] - base]) places.push(place);
      found = { places: Uint32Array.from(places), from: Float64Array.from(places, (place) => slices.from[place]), mask };
      this.marked.set(key, found);
    }
    return found;
  }

  /** @param {Lane} lane */
  chosenOf(lane) {
    const rows = () => this.model.chosenRows(lane.run, this.store.chosen) ?? new Uint32Array(0);
    // One instruction has a frame and arrows: the rest keeps its colours.
    return this.store.chosen.kind === "none" || this.store.chosen.kind === "instruction" ? null : this.marks("chosen", lane, rows);
  }

  paint() {
    const width = this.stage.clientWidth, height = this.stage.clientHeight;
    if (width < GUTTER + 20 || height < LANES_TOP + 10) return;
    const scale = window.devicePixelRatio || 1, context = fitCanvas(this.base, width, height), theme = `${this.lanes.colouring} ${scale}`;
    if (this.themed !== theme) this.painter.ready(this.lanes.colouring, scale);
    this.themed = theme;
    this.place();
    const { from, to } = this.store, painter = this.painter;
    const pixel = (/** @type {number} */ length) => Math.round(length * scale), left = pixel(GUTTER), top = pixel(LANES_TOP);
    painter.begin(this.base.width - left, this.base.height - top);
    for (const { lane, top: laneTop, height: laneHeight } of this.placed) {
      const y = pixel(laneTop) - top, high = pixel(laneTop + laneHeight) - top - y;
      if (y + high < 0 || y > painter.board.height) continue;
      if (lane.kind === "curve") painter.curveLane(lane, y, high, from, to);
      else if (lane.kind !== "head" || this.lanes.folded.has(lane.key)) {
        painter.slices(lane, y, high, from, to, this.chosenOf(lane), laneHeight > 13);
        if (this.showsCritical && lane.kind === "slices" && lane.depth === 0) painter.criticalMarks(lane, y, high, from, to, this.marks("critical", lane, () => criticalRows(lane.run)));
      }
    }
    context.fillStyle = themeColour("paper");
    context.fillRect(0, 0, width, height);
    painter.board.show(context, left, top);
    paintTexts(this, context, width, height, scale);
    this.overview.paint(context, GUTTER, width - GUTTER, OVERVIEW - 3);
    this.range.textContent = `${formatTime(from)} to ${formatTime(to)}: ${formatTime(to - from)}`;
    paintCover(this);
  }

  /** Where an instruction is drawn. @param {number} id @returns {{from: number, to: number, y: number}|null} */
  locate(id) {
    const [run, row] = this.model.find(id), top = `run ${run.number}`, stream = run.column("stream")[row];
    const here = [`${top} stream ${stream}`, `${top} queues`, top].map((key) => this.placed.find(({ lane }) => lane.key === key)).find(Boolean);
    if (!here) return null;
    const start = run.column("start")[row] + run.origin;
    return { from: this.xOf(start), to: this.xOf(start + run.column("slot")[row]), y: here.top + here.height / 2 };
  }

  zoomToSelection() {
    let low = Infinity, high = -Infinity;
    for (const run of this.model.runs) {
      const start = run.column("start"), length = run.column("slot");
      for (const row of this.model.chosenRows(run, this.store.chosen) ?? []) {
        low = Math.min(low, start[row] + run.origin);
        high = Math.max(high, start[row] + length[row] + run.origin);
      }
    }
    if (high <= low) return;
    const room = (high - low) * (this.store.chosen.kind === "instruction" ? 4 : 0.05);
    this.store.zoom(low - room, high + room);
  }

  /** Scroll to the lane of an instruction if it is not in view. @param {number} id */
  scrollTo(id) {
    const here = this.locate(id), high = this.stage.clientHeight;
    if (here && (here.y < LANES_TOP || here.y > high - 8)) this.scroll = Math.max(0, this.scroll + here.y - (high + LANES_TOP) / 2);
  }

  /** Bring an instruction into view if it is not, as wide as the view is. @param {number} id */
  reveal(id) {
    const [run, row] = this.model.find(id), start = run.column("start")[row] + run.origin, length = run.column("slot")[row], { from, to } = this.store;
    const wide = Math.max(20 * length, Math.min(to - from, 400 * length));
    const hidden = start + length < from || start > to, tiny = length < (to - from) / this.plotWidth();
    if (hidden || tiny) this.store.zoom(start + length / 2 - wide / 2, start + length / 2 + wide / 2);
  }
}
