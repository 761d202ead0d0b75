// Search: lines by their text or place, instructions by number or name, tensors by name.

import { byId, element } from "./dom.js";
import { formatCount } from "./format.js";
import { tensorText } from "./inspector.js";

/** @typedef {{kind: "line"|"instruction"|"tensor", place: number, type: string, text: string, note: string}} Hit */

const MOST_HITS = 60;

/** First instruction of each opcode and label, and how many there are. @param {import("./model.js").Model} model */
function kindsOf(model) {
  const found = new Map();
  for (const run of model.runs) {
    const opcode = run.column("opcode"), label = run.column("label");
    for (let row = 0; row < run.count; row++) {
      const key = opcode[row] * 1e6 + label[row], known = found.get(key);
      if (known) known.count += 1;
      else found.set(key, { id: row + run.base, count: 1, name: model.layout.opcodes[opcode[row]], label: model.layout.labels?.[label[row]] ?? "" });
    }
  }
  return [...found.values()];
}

/** @param {import("./model.js").Model} model @param {import("./source.js").Source} source @param {string} words @returns {Hit[]} */
export function findHits(model, source, words) {
  const wanted = words.trim().toLowerCase(), hits = /** @type {Hit[]} */ ([]);
  if (!wanted) return hits;
  const number = /^#?(\d+)$/.exec(wanted);
  if (number && Number(number[1]) < model.count) hits.push({ kind: "instruction", place: Number(number[1]), type: "instruction", text: `#${number[1]}`, note: model.lineText(model.lineOf(Number(number[1]))) });
  for (const { id, count, name, label } of model.runs[0]?.once("kinds", () => kindsOf(model)) ?? []) {
    if (`${name} ${label}`.toLowerCase().includes(wanted)) hits.push({ kind: "instruction", place: id, type: "instruction", text: label ? `${label} (${name})` : name, note: `first of ${formatCount(count)}` });
  }
  const { names = [] } = model.layout;
  if (names.some((/** @type {string} */ name) => name.toLowerCase().includes(wanted))) {
    const seen = new Set();
    for (const run of model.runs) {
      const name = run.tensors.column("name");
      for (let row = 0; row < run.tensors.rows && seen.size < 20; row++) {
        if (seen.has(name[row]) || !names[name[row]].toLowerCase().includes(wanted)) continue;
        seen.add(name[row]);
        hits.push({ kind: "tensor", place: row + run.tensorBase, type: "tensor", text: tensorText(model, run, row), note: model.layout.memories[run.tensors.column("memory")[row]] });
      }
    }
  }
  for (const [line, row] of source.rows) {
    const text = row.querySelector("code")?.textContent ?? "", place = model.lineText(line);
    if (text.toLowerCase().includes(wanted) || place.toLowerCase().includes(wanted) || model.layout.sites.some(
      (/** @type {[number, number, string]} */ site, /** @type {number} */ at) => model.lineOfSite[at] === line && site[2].toLowerCase() === wanted)) {
      hits.push({ kind: "line", place: line, type: place, text: text.trim(), note: "" });
    }
  }
  return hits.slice(0, MOST_HITS);
}

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store @param {import("./source.js").Source} source
 * @param {(id: number) => void} reveal shows an instruction on the timeline */
export function buildSearch(model, store, source, reveal) {
  const query = byId("query"), list = byId("hits"), found = byId("found");
  /** @type {Hit[]} */
  let hits = [];
  let at = -1;
  const go = (/** @type {number} */ place) => {
    at = (place + hits.length) % hits.length;
    const hit = hits[at];
    store.select(hit.kind, hit.place);
    if (hit.kind === "instruction") reveal(hit.place);
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    found.textContent = `${at + 1} of ${hits.length}`;
  };
  const look = () => {
    hits = findHits(model, source, query.value);
    at = -1;
    const lines = new Set(hits.filter(({ kind }) => kind === "line").map(({ place }) => place));
    for (const [line, row] of source.rows) row.classList.toggle("hit", lines.has(line));
    list.replaceChildren(...hits.map((hit, place) => element("li", { role: "option", on: { pointerdown: (/** @type {Event} */ event) => { event.preventDefault(); go(place); list.hidden = true; } } },
      element("span", {}, hit.type), element("span", {}, hit.text), element("span", { class: "soft" }, hit.note))));
    list.hidden = !hits.length;
    found.textContent = query.value.trim() ? (hits.length ? `${hits.length}${hits.length === MOST_HITS ? "+" : ""} found` : "nothing found") : "";
  };
  query.addEventListener("input", look);
  query.addEventListener("focus", () => { list.hidden = !hits.length; });
  query.addEventListener("blur", () => { list.hidden = true; });
  query.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") { query.value = ""; look(); query.blur(); }
    const step = /** @type {Record<string, number>} */ ({ Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (!step || !hits.length) return;
    event.preventDefault();
    go(at < 0 ? (step > 0 ? 0 : hits.length - 1) : at + step);
  });
  byId("search").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
}
