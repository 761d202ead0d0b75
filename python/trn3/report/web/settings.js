// Settings: what the figures rest on, as a bar above the page's own lists.

import { body, element } from "./dom.js";
import { formatShare, formatTime } from "./format.js";
import { seriesColour } from "./palette.js";

/** Kinds of evidence, from the best. @type {[string, string, number][]} name, words, colour */
const EVIDENCE = [["documented_us", "documented by the vendor", 2], ["measured_us", "measured on the hardware", 0], ["estimated_us", "estimated", 1]];

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
export function buildSettings(model, store) {
  const basis = model.figures.latency_basis, { latency_us: latency, latency_low_us: low, latency_high_us: high } = model.figures;
  const stage = body("settings").querySelector("[data-stage]");
  if (!basis || !stage || !latency) return;
  const known = EVIDENCE.filter(([key]) => basis[key] > 0), whole = known.reduce((sum, [key]) => sum + basis[key], 0);
  const show = () => stage.replaceChildren(element("div", { class: "settings" }, element("div", {},
    element("h3", {}, "What the latency rests on"),
    element("div", { class: "split", role: "img", "aria-label": known.map(([key, words]) => `${words}: ${formatShare(basis[key] / whole)}`).join(", ") },
      ...known.map(([key, , colour]) => element("i", { css: { width: `${(100 * basis[key]) / whole}%`, background: seriesColour(colour) } }))),
    element("p", { class: "keys" }, ...known.map(([key, words, colour]) => element("span", {}, element("i", { css: { background: seriesColour(colour) } }),
      `${formatTime(basis[key] * 1e6)} (${formatShare(basis[key] / whole)}) on figures ${words}`))),
    low && high ? element("p", {}, `On the hardware, ${formatTime(low * 1e6)} to ${formatTime(high * 1e6)} is to be expected.`) : null)));
  show();
  store.on("theme", show);
}
