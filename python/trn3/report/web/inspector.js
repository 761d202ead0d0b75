// What is selected, in words, beside the timeline; and what its colours and hatching mean.

import { body, element, fitCanvas, replace } from "./dom.js";
import { formatBytes, formatCapacity, formatCount, formatShare, formatTime } from "./format.js";
import { familyColour, themeColour, WAIT_GROUPS, waitColour, mix } from "./palette.js";
import { makeTile } from "./raster.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./store.js").Store} Store */

const USAGES = ["reads", "stationary", "writes", "updates"];

/** @param {Model} model @param {Store} store @param {import("./timeline.js").Timeline} timeline */
export function buildInspector(model, store, timeline) {
  const aside = element("aside", { id: "inspector", "aria-label": "Selection and legend", "aria-live": "polite" });
  body("timeline").append(aside);
  const show = () => {
    const { kind, place } = store.chosen;
    const parts = kind === "instruction" ? describeInstruction(model, store, place)
      : kind === "line" ? describeLine(model, store, place) : kind === "tensor" ? describeTensor(model, store, place) : describeNothing();
    if (kind !== "none") {
      parts.push(element("div", { class: "actions" },
        element("button", { type: "button", title: "z", on: { click: () => timeline.zoomToSelection() } }, "Zoom to it"),
        element("button", { type: "button", title: "Backspace", on: { click: () => store.back() } }, "Back"),
        element("button", { type: "button", title: "Escape", on: { click: () => store.select("none") } }, "Clear")));
    }
    replace(aside, ...parts, ...legend(model));
    aside.scrollTop = 0;
  };
  store.on("selection", show);
  store.on("theme", show);
  show();
}

function describeNothing() {
  return [element("p", { class: "soft" }, "Click a bar, a line of source, a rectangle of memory or a row of a table: the other panes follow. Wheel zooms, drag pans, ? lists the keys.")];
}

/** Pairs of name and value; pairs without a value are left out. @param {[string, string|Node|null|undefined|false][]} pairs */
export function pairs(pairs) {
  return element("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, /** @type {any} */ (value))]));
}

/** @param {string} text @param {() => void} click @param {string} [title] */
export function link(text, click, title = "") {
  return element("button", { type: "button", class: "link", title, on: { click } }, text);
}

/** Name of an instruction for people. @param {Model} model @param {number} id */
export function instructionText(model, id) {
  const [run, row] = model.find(id), { opcodes, labels } = model.layout;
  const label = labels?.[run.column("label")[row]];
  return `${label || opcodes[run.column("opcode")[row]]} #${row}`;
}

/** @param {Model} model @param {Store} store @param {number} id */
function describeInstruction(model, store, id) {
  const [run, row] = model.find(id), { layout } = model, value = (/** @type {string} */ name) => run.column(name)[row];
  const opcode = layout.opcodes[value("opcode")], label = layout.labels?.[value("label")], stream = run.place.streams[value("stream")];
  const line = model.lineOf(id), cause = (layout.cause_words ?? layout.causes)[value("cause")], bound = model.boundText(run, row);
  const before = model.before(id), first = before.find(({ binds }) => binds), ready = value("ready") + run.origin;
  const start = value("start") + run.origin, slot = value("slot"), length = value("length"), wait = value("wait");
  const bytes = value("dma_bytes"), macs = value("macs");
  return [
    element("h3", { title: label || opcode }, label || opcode),
    element("p", { class: "soft" }, `${label ? `${opcode}, ` : ""}instruction ${formatCount(row)} of ${formatCount(run.count)} on ${stream.name}${model.runs.length > 1 ? `, ${run.title}` : ""}`),
    pairs([
      ["line", model.lines[line]?.number ? link(model.lineText(line), () => store.select("line", line), "Show the line and all its instructions") : "unknown"],
      ["ready", value("bound") !== 0 && `${formatTime(ready, 6)}${start > ready ? `, ${formatTime(start - ready, 5)} before it started` : ""}`],
      ["starts", formatTime(start, 6)],
      ["bound by", value("bound") !== 0 && element("span", {}, `${bound}${first ? ", " : ""}`, first ? link(instructionText(model, first.id), () => store.select("instruction", first.id)) : "")],
      ["holds engine", formatTime(slot, 5)],
      ["result after", length !== slot && formatTime(length, 5)],
      ["waited", wait > 0 && `${formatTime(wait, 5)}${cause && cause !== "nothing" ? `, for ${cause}` : ""}`],
      ["moves", bytes > 0 && `${formatBytes(bytes)}, ${formatBytes((bytes / Math.max(1, length)) * 1e12)}/s`],
      ["HBM", value("hbm_read") + value("hbm_write") > 0 && `${formatBytes(value("hbm_read"))} read, ${formatBytes(value("hbm_write"))} written`],
      ["matmul", macs > 0 && `${formatCount(macs)} multiply-adds`],
      ["critical path", value("critical") ? "yes" : "no"],
    ]),
    ...stackOf(model, store, run, row),
    ...operandsOf(model, store, run, row),
    ...neighbours(model, store, "Depends on", "--arrow-in", before),
    ...neighbours(model, store, "Needed by", "--arrow-out", model.after(id)),
    ...meetingsOf(model, store, id),
  ];
}

/** Calls from the outermost to the instruction. @param {Model} model @param {Store} store @param {import("./model.js").Run} run @param {number} row */
function stackOf(model, store, run, row) {
  const sites = run.instructions.has("stack") ? model.layout.stacks?.[run.column("stack")[row]] ?? [] : [];
  const site = run.column("site")[row], known = sites.length ? sites : [site];
  if (!model.lines[model.lineOfSite[site]]?.number) return [];
  return [element("h3", {}, "Call stack"), element("ol", {}, ...known.map((/** @type {number} */ each) => {
    const line = model.lineOfSite[each], name = model.layout.sites[each][2];
    return element("li", {}, link(model.lineText(line), () => store.select("line", line)), name ? ` in ${name}` : "");
  }))];
}

/** @param {Model} model @param {Store} store @param {import("./model.js").Run} run @param {number} row */
function operandsOf(model, store, run, row) {
  const uses = [...model.operandsOf(run, row)].slice(0, 12);
  if (!uses.length) return [];
  return [element("h3", {}, "Operands"), element("ol", {}, ...uses.map((use) => {
    const tensor = run.uses.column("tensor")[use];
    return element("li", {}, `${USAGES[run.uses.column("usage")[use]]} `, link(tensorText(model, run, tensor), () => store.select("tensor", tensor + run.tensorBase)));
  }))];
}

/** @param {Model} model @param {Store} store @param {string} title @param {string} colour @param {import("./model.js").Neighbour[]} found */
function neighbours(model, store, title, colour, found) {
  if (!found.length) return [];
  const shown = found.slice(0, 6), rest = found.length - shown.length;
  return [element("h3", { css: { color: `var(${colour})` } }, `${title === "Depends on" ? "→ " : ""}${title}${title === "Needed by" ? " →" : ""} (${formatCount(found.length)})`),
    element("ol", {}, ...shown.map(({ id, kind, binds }) => element("li", {}, link(instructionText(model, id), () => store.select("instruction", id)), element("span", { class: "soft" }, ` ${kind}${binds ? ": bound it" : ""}`))),
      rest > 0 ? element("li", { class: "soft" }, `and ${formatCount(rest)} more`) : null)];
}

/** @param {Model} model @param {Store} store @param {number} id */
function meetingsOf(model, store, id) {
  const others = model.meetingOf(id);
  if (!others.length) return [];
  const ready = (/** @type {number} */ each) => { const [run, row] = model.find(each); return run.column("ready")[row] + run.origin; };
  const last = Math.max(ready(id), ...others.map(ready)), rest = others.length - 8;
  return [element("h3", {}, `Meets (${formatCount(others.length)})`), element("ol", {}, ...others.slice(0, 8).map((other) => {
    const [run, row] = model.find(other), early = last - ready(other);
    return element("li", {}, link(`${run.title} #${row}`, () => store.select("instruction", other)), element("span", { class: "soft" }, early > 0 ? ` ${formatTime(early)} before the last` : " came last"));
  }), rest > 0 ? element("li", { class: "soft" }, `and ${formatCount(rest)} more`) : null)];
}

/** Name, shape and dtype of a tensor. @param {Model} model @param {import("./model.js").Run} run @param {number} row */
export function tensorText(model, run, row) {
  const { names, shapes, dtypes } = model.layout, of = (/** @type {any[]} */ list, /** @type {string} */ name) => list?.[run.tensors.column(name)[row]];
  const shape = of(shapes, "shape") ?? [];
  return `${of(names, "name") || "(unnamed)"} ${shape.join("×")} ${of(dtypes, "dtype") ?? ""}`;
}

/** @param {Model} model @param {Store} store @param {number} line */
function describeLine(model, store, line) {
  const found = (model.figures.lines ?? []).find((/** @type {any} */ each) => `${each.file}:${each.line}` === model.lines[line]?.name);
  const run = model.runs[0], rows = run ? model.rowsOfLine(run, line) : [], ids = [...rows.subarray?.(0, 8) ?? []];
  const waits = Object.entries(found?.waits ?? {}).sort((one, other) => Number(other[1]) - Number(one[1])).slice(0, 3);
  return [
    element("h3", {}, model.lineText(line)),
    element("p", { class: "soft" }, `${formatCount(model.runs.filter((each) => each.place.is_main).reduce((sum, each) => sum + model.rowsOfLine(each, line).length, 0))} instructions`),
    found ? pairs([
      ["critical path", `${formatTime(found.critical_us * 1e6)}, ${formatShare(found.critical_us / (model.figures.latency_us || 1))} of the latency`],
      ["at work", formatTime(found.slot_us * 1e6)],
      ["waiting", formatTime(found.wait_us * 1e6)],
      ...waits.map(([cause, time]) => /** @type {[string, string]} */ (["", `${cause}: ${formatTime(Number(time) * 1e6)}`])),
      ["HBM", found.hbm_bytes > 0 && formatBytes(found.hbm_bytes)],
    ]) : "",
    ids.length ? element("h3", {}, "Its instructions") : "",
    element("ol", {}, ...ids.map((row) => element("li", {}, link(instructionText(model, row + run.base), () => store.select("instruction", row + run.base)),
      element("span", { class: "soft" }, ` at ${formatTime(run.column("start")[row] + run.origin)}`))),
    rows.length > ids.length ? element("li", { class: "soft" }, `and ${formatCount(rows.length - ids.length)} more: Shift with ← → steps through them`) : null),
  ];
}

/** @param {Model} model @param {Store} store @param {number} tensor */
function describeTensor(model, store, tensor) {
  const [run, row] = model.findTensor(tensor), value = (/** @type {string} */ name) => run.tensors.column(name)[row];
  const memory = model.layout.memories[value("memory")], onChip = memory === "sbuf" || memory === "psum", line = model.lineOfSite[value("site")];
  const users = model.usersOf(tensor);
  return [
    element("h3", {}, tensorText(model, run, row)),
    element("p", { class: "soft" }, `in ${memory.toUpperCase().replace("_", " ")}${model.runs.length > 1 ? `, ${run.title}` : ""}`),
    pairs([
      ["made at", model.lines[line]?.number ? link(model.lineText(line), () => store.select("line", line)) : null],
      ["place", onChip && `partitions ${value("partition")} to ${value("partition") + value("partitions") - 1}, bytes ${formatCount(value("byte"))} to ${formatCount(value("byte") + value("bytes") - 1)}`],
      ["size", onChip ? `${formatCapacity(value("bytes"))} a partition` : formatBytes(value("bytes"))],
      ["held", `${formatTime(value("from") + run.origin)} to ${formatTime(value("to") + run.origin)}`],
      ["used by", `${formatCount(users.length)} instructions`],
    ]),
    element("ol", {}, ...users.slice(0, 8).map((id) => element("li", {}, link(instructionText(model, id), () => store.select("instruction", id))))),
  ];
}

/** @param {Model} model */
function legend(model) {
  const used = new Set(model.layout.families ?? []), causes = new Set();
  for (const run of model.runs) {
    const wait = run.column("wait"), group = model.waitGroups(run), seen = run.once("waits", () => {
      const found = new Uint8Array(WAIT_GROUPS.length);
      for (let row = 0; row < run.count; row++) if (wait[row] > 0) found[group(row)] = 1;
      return [...found.keys()].filter((each) => found[each]);
    });
    for (const each of seen) causes.add(each);
  }
  const swatch = (/** @type {string} */ colour, /** @type {string} */ text) => element("span", {}, element("i", { css: { background: colour } }), text);
  return [
    element("h3", {}, "Bars"), element("div", { class: "legend" }, ...[...used].map((family) => swatch(familyColour(family), family))),
    causes.size ? element("h3", {}, "Hatched: the engine stood idle") : "",
    element("div", { class: "legend single" }, ...[...causes].sort((one, other) => one - other).map((group) => element("span", {}, hatchSwatch(group), WAIT_GROUPS[group].name))),
    element("h3", {}, "Lines"), element("div", { class: "legend single" }, swatch(themeColour("critical"), "critical path: it decides the latency"),
      swatch(themeColour("arrow-in"), "what the selection depends on"), swatch(themeColour("arrow-out"), "what depends on it"), element("span", {}, "thick: what decided the start"), ...(model.layout.meetings.length ? [element("span", {}, "upright: from who came last to a meeting")] : [])),
  ];
}

/** @param {number} group of waits */
function hatchSwatch(group) {
  const canvas = element("canvas"), context = fitCanvas(canvas, 22, 12), paper = themeColour("paper"), colour = waitColour(group);
  const tile = makeTile(WAIT_GROUPS[group].hatch, mix(colour, paper, 0.82), mix(colour, paper, 0.25), devicePixelRatio || 1);
  const image = context.createImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
  for (let place = 0; place < pixels.length; place++) {
    pixels[place] = tile.pixels[(Math.floor(place / canvas.width) % tile.size) * tile.size + ((place % canvas.width) % tile.size)];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
