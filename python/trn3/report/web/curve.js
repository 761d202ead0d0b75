// A quantity that holds from each time to the next: its mean over any time, from sums made once.

import { lowerBound } from "./levels_of_detail.js";

export class Curve {
  /** @param {ArrayLike<number>} time in ps @param {ArrayLike<number>} value @param {number} origin of the times
   * @param {number} end in ps: until when the last holds @param {number} limit what can be at most; 0 where nobody says
   * @param {(value: number) => string} text @param {boolean} rate whether values are amounts until the next time, wanted per second */
  constructor(time, value, origin, end, limit, text, rate) {
    const count = time.length;
    this.text = text;
    this.limit = limit;
    this.time = new Float64Array(count + 1);
    this.sum = new Float64Array(count + 1);
    this.most = 0;
    for (let place = 0; place < count; place++) {
      this.time[place] = time[place] + origin;
      const next = place + 1 < count ? time[place + 1] : Math.max(end, time[place]), held = next - time[place];
      const level = rate ? (held > 0 ? (value[place] / held) * 1e12 : 0) : value[place];
      this.sum[place + 1] = this.sum[place] + level * held;
      if (held > 0) this.most = Math.max(this.most, level);
    }
    this.time[count] = Math.max(end, time[count - 1] ?? 0) + origin;
  }

  /** What has come together until a time. @param {number} time */
  until(time) {
    const last = this.time.length - 1;
    if (time <= this.time[0]) return 0;
    if (time >= this.time[last]) return this.sum[last];
    const next = lowerBound(this.time, time), share = (time - this.time[next - 1]) / (this.time[next] - this.time[next - 1] || 1);
    return this.sum[next - 1] + share * (this.sum[next] - this.sum[next - 1]);
  }

  /** @param {number} from @param {number} to */
  mean(from, to) {
    return to > from ? (this.until(to) - this.until(from)) / (to - from) : 0;
  }

  /** The value at a time. @param {number} time */
  at(time) {
    const next = lowerBound(this.time, time + 1);
    if (next <= 0 || next >= this.time.length) return 0;
    const held = this.time[next] - this.time[next - 1];
    return held > 0 ? (this.sum[next] - this.sum[next - 1]) / held : 0;
  }
}
