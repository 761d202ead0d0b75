// Advice: what the page says, with ways to the lines and instructions that it speaks of.

import { body, element } from "./dom.js";
import { formatShare, formatTime } from "./format.js";

/** @param {import("./model.js").Model} model @param {import("./store.js").Store} store */
export function buildAdvice(model, store) {
  const holder = body("advice"), bound = model.figures.bound_us ?? model.figures.compile?.bound_us, latency = model.figures.latency_us;
  if (bound > 0 && latency > 0) {
    holder.prepend(element("div", { class: "limit" },
      element("p", {}, element("b", {}, formatTime(bound * 1e6)), ` if nothing waited; this run takes `, element("b", {}, formatTime(latency * 1e6)), `: it is at ${formatShare(bound / latency)} of that speed.`),
      element("div", { class: "bar", role: "img", "aria-label": formatShare(bound / latency) }, element("i", { css: { width: `${(100 * bound) / latency}%` } }))));
  }
  for (const item of /** @type {NodeListOf<HTMLElement>} */ (holder.querySelectorAll(".advice li"))) {
    const line = model.lineNamed(item.dataset.line), row = Number(item.dataset.instruction), actions = element("p", { class: "actions" });
    if (item.dataset.cause) actions.append(element("span", { class: "soft" }, `cause: ${item.dataset.cause}`));
    if (line >= 0) actions.append(element("button", { type: "button", on: { click: () => store.select("line", line) } }, `Show ${model.lineText(line)}`));
    if (item.dataset.instruction && row < (model.runs[0]?.count ?? 0)) {
      actions.append(element("button", { type: "button", on: { click: () => store.select("instruction", row) } }, `Show instruction ${row}`));
    }
    item.append(actions);
  }
  store.on("selection", () => {
    const { kind, place } = store.chosen, chosen = kind === "line" ? place : kind === "instruction" ? model.lineOf(place) : -1;
    for (const item of /** @type {NodeListOf<HTMLElement>} */ (holder.querySelectorAll(".advice li"))) {
      item.toggleAttribute("aria-current", chosen >= 0 && model.lineNamed(item.dataset.line) === chosen);
    }
  });
}
