// Puts lanes on the board: slices where they are few, shares of each column where they are many.

import { lowerBound, makeColumns } from "./levels_of_detail.js";
import { familyColour, familyNames, inkOn, mix, pixelOf, seriesColour, SERIES_COUNT, themeColour, WAIT_GROUPS, waitColour } from "./palette.js";
import { makeTile, PixelBoard } from "./raster.js";

/** @typedef {import("./lanes.js").Lane} Lane */
/** A slice that is wide enough for its name, in pixels of the screen.
 * @typedef {{x: number, width: number, y: number, height: number, id: number, ink: string}} Named */

export class LanePainter {
  constructor() {
    this.board = new PixelBoard();
    this.columns = makeColumns(0);
    /** @type {Named[]} */
    this.named = [];
    this.scale = 1;
  }

  /** Take the colours of the theme. @param {"family"|"line"} colouring @param {number} scale */
  ready(colouring, scale) {
    const names = familyNames();
    const colours = colouring === "family" ? names.map(familyColour) : Array.from({ length: SERIES_COUNT }, (_, place) => seriesColour(place));
    const paper = themeColour("paper");
    this.scale = scale;
    this.inks = colours.map(inkOn);
    this.full = Uint32Array.from(colours, pixelOf);
    this.dim = Uint32Array.from(colours, (colour) => pixelOf(mix(colour, paper, 0.78)));
    this.tiles = WAIT_GROUPS.map(({ hatch }, group) => makeTile(hatch, mix(waitColour(group), paper, hatch === "none" ? 0.6 : 0.82), mix(waitColour(group), paper, 0.25), scale));
    this.dimTiles = WAIT_GROUPS.map(({ hatch }, group) => makeTile(hatch, mix(waitColour(group), paper, 0.93), mix(waitColour(group), paper, 0.75), scale));
    this.paper = pixelOf(paper);
    this.faint = pixelOf(themeColour("faint"));
    this.critical = pixelOf(themeColour("critical"));
    this.curve = pixelOf(themeColour("accent"));
    this.curveGround = pixelOf(mix(themeColour("accent"), paper, 0.7));
  }

  /** @param {number} width @param {number} height in pixels of the screen */
  begin(width, height) {
    this.board.resize(width, height);
    this.board.clear(this.paper);
    if (this.columns.busy.length !== this.board.width) this.columns = makeColumns(this.board.width);
    this.named = [];
  }

  /** Draw a lane of slices or of shares.
   * @param {Lane} lane @param {number} top @param {number} height in pixels of the screen @param {number} from @param {number} to in ps
   * @param {{places: Uint32Array, from: Float64Array, mask: Uint8Array}|null} chosen what stays in full colour; null: all
   * @param {boolean} names whether slices are named */
  slices(lane, top, height, from, to, chosen, names) {
    const detail = lane.detail(), { board } = this, { slices } = detail;
    const [first, last] = detail.range(from, to), pixels = board.width / (to - from);
    const bottom = top + height;
    board.fill(0, board.width, bottom - 1, bottom, this.faint);
    if (lane.kind === "slices" && last - first <= 2 * board.width) {
      for (let place = first; place < last; place++) {
        const start = Math.floor((slices.from[place] - from) * pixels), end = Math.max(start + 1, Math.floor((slices.to[place] - from) * pixels));
        const on = !chosen || chosen.mask[slices.id[place] - lane.run.base];
        if (slices.wait[place] > 0) {
          const begin = Math.floor((slices.from[place] - slices.wait[place] - from) * pixels);
          board.hatch(begin, start, top + (height >> 2), bottom - 1, (on ? this.tiles : this.dimTiles)[slices.group[place]]);
        }
        if (end <= 0 || start >= board.width) continue;
        board.fill(start, end - start > 3 ? end - 1 : end, top + 1, bottom - 1, (on ? this.full : this.dim)[slices.shade[place]]);
        const left = Math.max(0, start), width = Math.min(board.width, end) - left;
        if (names && width > 30 * this.scale) this.named.push({ x: left, width, y: top, height, id: slices.id[place], ink: on ? this.inks[slices.shade[place]] : "" });
      }
      return;
    }
    detail.columns(from, to, this.columns);
    this.shares(lane, top, height, chosen ? this.dim : this.full, chosen ? this.dimTiles : this.tiles);
    if (chosen && lane.kind === "slices") this.marks(lane, chosen, from, to, (x, end, place) => board.fill(x, end, top + 1, bottom - 1, this.full[slices.shade[place]]));
    else if (chosen) this.marks(lane, chosen, from, to, (x, end, place) => board.fill(x, end, bottom - Math.ceil(height / 2), bottom - 1, this.full[slices.shade[place]]));
  }

  /** @param {Lane} lane @param {number} top @param {number} height @param {Uint32Array} colours @param {import("./raster.js").Tile[]} tiles */
  shares(lane, top, height, colours, tiles) {
    const { board, columns } = this, room = height - 2, bottom = top + height - 1;
    for (let x = 0; x < board.width; x++) {
      const busy = Math.min(1, columns.busy[x] / lane.capacity);
      if (busy <= 0 && columns.wait[x] <= 0) continue;
      const high = busy > 0 ? Math.max(1, Math.round(busy * room)) : 0;
      board.fill(x, x + 1, bottom - high, bottom, colours[columns.shade[x]]);
      if (columns.wait[x] > 0 && lane.kind === "slices") {
        const wait = Math.round(Math.min(1 - busy, columns.wait[x]) * room * 0.75);
        board.hatch(x, x + 1, bottom - high - wait, bottom - high, tiles[columns.group[x]]);
      }
    }
  }

  /** Visit some slices of a lane, each column at most once. @param {Lane} lane @param {{places: Uint32Array, from: Float64Array}} some
   * @param {number} from @param {number} to @param {(x: number, end: number, place: number) => void} draw */
  marks(lane, some, from, to, draw) {
    const { board } = this, { slices } = lane.detail(), pixels = board.width / (to - from), count = some.places.length;
    // One that begins before the view may reach into it.
    let next = Math.max(0, lowerBound(some.from, from) - (lane.kind === "slices" ? 1 : 64));
    while (next < count && some.from[next] < to) {
      const place = some.places[next], x = Math.floor((slices.from[place] - from) * pixels);
      const end = Math.max(x + 1, Math.floor((slices.to[place] - from) * pixels));
      if (end > 0) draw(x, end, place);
      next++;
      if (next < count && x >= 0 && (some.from[next] - from) * pixels < x + 1) next = Math.max(next, lowerBound(some.from, from + (x + 1) / pixels));
    }
  }

  /** Underline what is on the critical path. @param {Lane} lane @param {number} top @param {number} height
   * @param {number} from @param {number} to @param {{places: Uint32Array, from: Float64Array}} critical */
  criticalMarks(lane, top, height, from, to, critical) {
    const thick = Math.round(3 * this.scale);
    this.marks(lane, critical, from, to, (x, end) => this.board.fill(x, end, top + height - thick, top + height, this.critical));
  }

  /** @param {Lane} lane @param {number} top @param {number} height @param {number} from @param {number} to */
  curveLane(lane, top, height, from, to) {
    const curve = /** @type {import("./curve.js").Curve} */ (lane.curve), { board } = this, step = (to - from) / board.width;
    const room = height - Math.round(4 * this.scale), bottom = top + height - 1, most = curve.most || 1, thick = Math.max(1, Math.round(this.scale));
    let before = curve.until(from);
    for (let x = 0; x < board.width; x++) {
      const until = curve.until(from + (x + 1) * step), high = Math.round(((until - before) / step / most) * room);
      before = until;
      if (high <= 0) continue;
      board.fill(x, x + 1, bottom - high, bottom, this.curveGround);
      board.fill(x, x + 1, bottom - high, bottom - high + thick, this.curve);
    }
    board.fill(0, board.width, bottom, bottom + 1, this.faint);
  }
}
