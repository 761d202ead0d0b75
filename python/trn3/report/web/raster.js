// A board of pixels that bars and hatching are put on: what a frame costs does not depend on how many there are.

import { pixelOf } from "./palette.js";

/** A small square that repeats. @typedef {{size: number, pixels: Uint32Array}} Tile */

/** Hatching as a tile. @param {string} hatch @param {string} ground @param {string} line colours @param {number} scale of CSS pixels @returns {Tile} */
export function makeTile(hatch, ground, line, scale) {
  const size = 2 * Math.round(3.5 * scale), half = size / 2, thick = Math.max(1, Math.round(1.2 * scale));
  const pixels = new Uint32Array(size * size).fill(pixelOf(ground)), ink = pixelOf(line);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const rise = (x + y) % size < thick, fall = (x - y + size) % size < thick;
      const dot = y % half < thick + 1 && (x + (y < half ? 0 : half)) % size < thick + 1;
      const level = y % half < thick, upright = x % half < thick;
      const on = {
        rise, fall, level, upright, cross: rise || fall, dots: dot, grid: y % size < thick || x % size < thick, steep: (2 * x + y) % size < thick + 1,
        dashes: level && (x + (y < half ? 0 : half)) % size < half + 1, posts: upright && (y + (x < half ? 0 : half)) % size < half + 1, checks: y < half === x < half,
      }[hatch];
      if (on) pixels[y * size + x] = ink;
    }
  }
  return { size, pixels };
}

export class PixelBoard {
  constructor() {
    this.width = 0;
    this.height = 0;
    this.image = new ImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {number} width in pixels of the screen @param {number} height */
  resize(width, height) {
    if (width === this.width && height === this.height) return;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.image = new ImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {number} pixel */
  clear(pixel) {
    this.pixels.fill(pixel);
  }

  /** Fill from x0 up to x1, y0 up to y1. @param {number} x0 @param {number} x1 @param {number} y0 @param {number} y1 @param {number} pixel */
  fill(x0, x1, y0, y1, pixel) {
    const { width, pixels } = this, left = Math.max(0, x0), right = Math.min(width, x1), bottom = Math.min(this.height, y1);
    if (left >= right) return;
    if (right - left < 8) {
      for (let y = Math.max(0, y0); y < bottom; y++) for (let x = y * width + left, end = y * width + right; x < end; x++) pixels[x] = pixel;
    } else for (let y = Math.max(0, y0); y < bottom; y++) pixels.fill(pixel, y * width + left, y * width + right);
  }

  /** @param {number} x0 @param {number} x1 @param {number} y0 @param {number} y1 @param {Tile} tile */
  hatch(x0, x1, y0, y1, tile) {
    const { width, pixels } = this, left = Math.max(0, x0), right = Math.min(width, x1), bottom = Math.min(this.height, y1);
    for (let y = Math.max(0, y0); y < bottom; y++) {
      const row = y * width, from = (y % tile.size) * tile.size;
      for (let x = left, phase = left % tile.size; x < right; x++) {
        pixels[row + x] = tile.pixels[from + phase];
        if (++phase === tile.size) phase = 0;
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y in pixels of the screen */
  show(context, x, y) {
    context.putImageData(this.image, x, y);
  }
}
