// The whole run in a strip, with a window on what is in view.

import { mix, themeColour } from "./palette.js";

export class Overview {
  /** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    /** @type {Float32Array|null} */
    this.shares = null;
    this.forget();
  }

  forget() {
    this.width = 0;
  }

  /** What part of the engines of the first run is at work in each of some even times; made once. @param {number} count */
  measure(count) {
    const shares = new Float32Array(count), width = this.store.length / count;
    for (const run of this.model.runs.filter((each) => each.place.is_main)) {
      const start = run.column("start"), slot = run.column("slot");
      for (let row = 0; row < run.count; row++) {
        const low = (start[row] + run.origin) / width, high = Math.min(count, low + slot[row] / width);
        for (let bin = Math.floor(low); bin < high; bin++) shares[bin] += Math.min(high, bin + 1) - Math.max(low, bin);
      }
    }
    return shares;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} left @param {number} width @param {number} height in CSS pixels */
  paint(context, left, width, height) {
    const shares = (this.shares ??= this.measure(2048)), bins = shares.length;
    const most = (this.most ??= shares.reduce((one, other) => Math.max(one, other), 0) || 1);
    context.fillStyle = themeColour("raised");
    context.fillRect(left, 2, width, height - 2);
    context.fillStyle = mix(themeColour("accent"), themeColour("paper"), 0.35);
    context.beginPath();
    context.moveTo(left, height);
    for (let x = 0; x <= width; x += 2) {
      const bin = Math.min(bins - 1, Math.floor((x / width) * bins));
      context.lineTo(left + x, height - (shares[bin] / most) * (height - 5));
    }
    context.lineTo(left + width, height);
    context.fill();
    const { from, to, length } = this.store;
    const x0 = left + (from / length) * width, x1 = Math.max(x0 + 3, left + (to / length) * width);
    context.globalAlpha = 0.55;
    context.fillStyle = themeColour("ground");
    context.fillRect(left, 2, x0 - left, height - 2);
    context.fillRect(x1, 2, left + width - x1, height - 2);
    context.globalAlpha = 1;
    context.strokeStyle = themeColour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x0 + 0.75, 2.75, Math.max(2, x1 - x0 - 1.5), height - 3.5);
  }
}
