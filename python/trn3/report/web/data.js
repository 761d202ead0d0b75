// What the page carries: the layout as JSON and the columns, decoded when they are first asked for.

/** @typedef {{name: string, coding: string, width: number, at: number, by?: string}} ColumnPlace */
/** @typedef {{rows: number, columns: ColumnPlace[]}} TablePlace */

/** The JSON of a script element of the page, or null where there is none. @param {string} id @returns {any} */
export function readJson(id) {
  const holder = document.getElementById(id);
  return holder?.textContent ? JSON.parse(holder.textContent) : null;
}

/** The columns' bytes: base64 of a zlib stream, fed to the browser's decompressor part by part. @param {string} id */
export async function readBytes(id) {
  const text = (document.getElementById(id)?.textContent ?? "").trim();
  if (!text) return new Uint8Array(0);
  const stream = new ReadableStream({
    start() { this.at = 0; },
    pull(controller) {
      if (this.at >= text.length) return controller.close();
      // A multiple of four letters is whole bytes.
      const part = atob(text.slice(this.at, this.at + (1 << 20)));
      this.at += 1 << 20;
      const bytes = new Uint8Array(part.length);
      for (let place = 0; place < part.length; place++) bytes[place] = part.charCodeAt(place);
      controller.enqueue(bytes);
    },
  });
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}

/** A table whose columns are decoded on demand. */
export class ColumnTable {
  /** @param {Uint8Array} bytes of all columns of the page @param {TablePlace|undefined} place */
  constructor(bytes, place) {
    this.bytes = bytes;
    this.rows = place?.rows ?? 0;
    this.places = new Map((place?.columns ?? []).map((column) => [column.name, column]));
    /** @type {Map<string, any>} */
    this.decoded = new Map();
  }

  /** @param {string} name */
  has(name) {
    return this.places.has(name);
  }

  /** The values of a column; zeros of one that is missing. @param {string} name
   * @returns {Uint8Array|Uint16Array|Uint32Array|Float64Array} */
  column(name) {
    let found = this.decoded.get(name);
    if (!found) {
      const place = this.places.get(name);
      found = place ? this.decode(place) : new Uint8Array(this.rows);
      this.decoded.set(name, found);
    }
    return found;
  }

  /** @param {ColumnPlace} place */
  decode({ at, width, coding, by }) {
    const { bytes, rows } = this;
    if (coding === "plain" && width === 0) return new Uint8Array(rows);
    if (coding === "plain" && width === 1) return bytes.slice(at, at + rows);
    if (width <= 4) {
      const whole = width <= 2 && coding === "plain" ? new Uint16Array(rows) : new Uint32Array(rows);
      for (let plane = 0; plane < width; plane++) {
        const shift = 8 * plane, start = at + plane * rows;
        for (let row = 0; row < rows; row++) whole[row] |= bytes[start + row] << shift;
      }
      return coding === "plain" ? whole : this.sums(whole, by);
    }
    const wide = new Float64Array(rows);
    for (let plane = width - 1; plane >= 0; plane--) {
      const start = at + plane * rows;
      for (let row = 0; row < rows; row++) wide[row] = wide[row] * 256 + bytes[start + row];
    }
    return coding === "plain" ? wide : this.sums(wide, by);
  }

  /** Undo differences: each to the row before of the same kind. @param {ArrayLike<number>} zigzag @param {string|undefined} by */
  sums(zigzag, by) {
    const values = new Float64Array(this.rows), keys = by ? this.column(by) : null;
    const last = new Float64Array(keys ? largest(keys) + 1 : 1);
    for (let row = 0; row < this.rows; row++) {
      const coded = zigzag[row], key = keys ? keys[row] : 0;
      last[key] += coded % 2 ? -(coded + 1) / 2 : coded / 2;
      values[row] = last[key];
    }
    return values;
  }
}

/** @param {ArrayLike<number>} values none of them below 0 */
export function largest(values) {
  let most = 0;
  for (let place = 0; place < values.length; place++) if (values[place] > most) most = values[place];
  return most;
}

/** Places by key: those of key k are `places[starts[k]]` up to `places[starts[k + 1]]`, in rising order.
 * @typedef {{starts: Uint32Array, places: Uint32Array}} Groups */

/** @param {ArrayLike<number>} keys @param {number} count how many keys there are @returns {Groups} */
export function groupBy(keys, count) {
  const starts = new Uint32Array(count + 2);
  for (let place = 0; place < keys.length; place++) starts[keys[place] + 2]++;
  for (let key = 2; key < starts.length; key++) starts[key] += starts[key - 1];
  const places = new Uint32Array(keys.length);
  for (let place = 0; place < keys.length; place++) places[starts[keys[place] + 1]++] = place;
  return { starts: starts.subarray(0, count + 1), places };
}

/** @param {Groups} groups @param {number} key */
export const groupOf = (groups, key) => groups.places.subarray(groups.starts[key], groups.starts[key + 1]);

/** All rows of a table. @param {number} count */
export function everyRow(count) {
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  return rows;
}
