// Puts the page's sections into a working shell: the timeline above, source beside the other panes, tools on top.

import { body, element, pane } from "./dom.js";

/** Key figures that name the run. */
const NAMING = ["machine", "level", "instructions"];
/** Panes at the side of the source, in order. */
export const SIDE_PANES = ["advice", "memory", "roofline", "tables", "settings"];

/** Give a section a heading with room for controls, and a body of all else. @param {string} name @param {boolean} [canGrow] */
export function frame(name, canGrow = true) {
  const section = pane(name), title = section.querySelector("h2") ?? element("h2", {}, name);
  const grow = element("button", { type: "button", class: "grow", title: "As large as the window, or back ( f )", "aria-label": "Larger or smaller", on: { click: () => enlarge(name) } }, "⤢");
  const rest = [...section.childNodes].filter((node) => node !== title);
  section.replaceChildren(element("div", { class: "heading" }, title, element("div", { class: "controls" }), canGrow ? grow : null), element("div", { class: "body" }, ...rest));
  return section;
}

/** Show a pane alone, or all again. @param {string} name */
export function enlarge(name) {
  const shell = /** @type {HTMLElement} */ (document.querySelector("main"));
  const group = SIDE_PANES.includes(name) ? "side" : name, wanted = `full-${group}`, was = shell.classList.contains(wanted);
  shell.classList.remove("full-timeline", "full-source", "full-side");
  if (!was) shell.classList.add(wanted);
}

/** Scroll a pane of the side into view. @param {string} name */
export function showPane(name) {
  const panes = /** @type {HTMLElement} */ (document.getElementById("side-panes"));
  panes.scrollTo({ top: pane(name).offsetTop });
}

/** @param {string} id @param {"level"|"upright"} kind @param {string} label @param {HTMLElement} sized the part whose size it sets */
function splitter(id, kind, label, sized) {
  const upright = kind === "upright";
  const bar = element("div", { class: `splitter ${kind}`, id, role: "separator", "aria-orientation": upright ? "vertical" : "horizontal", "aria-label": label, tabindex: "0" });
  const set = (/** @type {number} */ pixels) => {
    const room = upright ? bar.parentElement.clientWidth : bar.parentElement.clientHeight;
    sized.style.setProperty("flex", `0 0 ${Math.max(140, Math.min(room - 160, pixels))}px`);
  };
  bar.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    bar.setPointerCapture(event.pointerId);
    const start = upright ? event.clientX : event.clientY, size = upright ? sized.offsetWidth : sized.offsetHeight;
    const move = (/** @type {PointerEvent} */ next) => set(size + (upright ? next.clientX : next.clientY) - start);
    bar.addEventListener("pointermove", move);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
  });
  bar.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ (upright ? { ArrowLeft: -24, ArrowRight: 24 } : { ArrowUp: -24, ArrowDown: 24 })[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    set((upright ? sized.offsetWidth : sized.offsetHeight) + step);
  });
  return bar;
}

/** Key figures as cards; what names the run stands beside its title. @param {HTMLElement} header @returns {HTMLElement[]} */
function cardsOf(header) {
  const list = header.querySelector("dl.key-figures");
  if (!list) return [];
  for (const name of list.querySelectorAll("dt")) {
    const value = name.nextElementSibling, [, most, rest] = /^(.*?)(?: \((.*)\))?$/.exec(value?.textContent ?? "") ?? [];
    value?.replaceChildren(most ?? "");
    list.append(element("div", { class: NAMING.includes(name.textContent ?? "") ? "naming" : "" }, name, value, rest ? element("dd", { class: "band" }, rest) : null));
  }
  return [/** @type {HTMLElement} */ (list)];
}

/** Tools of the header, for every kind of report. */
export function buildTools() {
  const header = /** @type {HTMLElement} */ (document.querySelector("header")), title = header.querySelector("h1");
  const search = element("form", { id: "search", role: "search", autocomplete: "off" },
    element("input", { id: "query", type: "search", placeholder: "Search lines, instructions, tensors  ( / )", "aria-label": "Search lines, instructions and tensors", "aria-controls": "hits", spellcheck: false }),
    element("output", { id: "found", "aria-live": "polite" }), element("ol", { id: "hits", hidden: true, role: "listbox" }));
  const bar = element("div", { id: "bar" }, title, element("span", { id: "machine" }), element("span", { id: "choices" }), search,
    element("button", { id: "help", type: "button", title: "Keys and mouse ( ? )" }, "?"),
    element("button", { id: "theme", type: "button", title: "Light or dark ( d )", "aria-label": "Light or dark" }, "◐"));
  const figures = element("div", { id: "figures" }, ...cardsOf(header), ...header.querySelectorAll(".verdict"));
  header.prepend(bar, figures);
  const naming = [...figures.querySelectorAll(".naming")];
  bar.querySelector("#machine")?.append(naming.map((card) => `${card.children[1]?.textContent}${card.children[0].textContent === "instructions" ? (card.children[1]?.textContent === "1" ? " instruction" : " instructions") : ""}`).join(" · "));
  for (const card of naming) card.remove();
  document.body.append(element("div", { id: "tip", role: "tooltip", hidden: true }), element("dialog", { id: "keys", "aria-label": "Keys and mouse" }));
  document.body.classList.add("live");
}

/** Put the panes of a profile beside each other. */
export function buildShell() {
  const main = /** @type {HTMLElement} */ (document.querySelector("main")), nav = document.querySelector("nav") ?? element("nav");
  const timeline = frame("timeline"), source = frame("source"), side = SIDE_PANES.map(frame);
  const buttons = SIDE_PANES.map((name) => element("button", { type: "button", "data-goto": name, on: { click: () => showPane(name) } }, pane(name).querySelector("h2")?.textContent ?? name));
  nav.id = "side-nav";
  nav.replaceChildren(...buttons);
  const panes = element("div", { id: "side-panes" }, ...side);
  const lower = element("div", { id: "lower" }, source, splitter("split-columns", "upright", "Width of the source", source), element("div", { id: "side" }, nav, panes));
  main.id = "shell";
  main.replaceChildren(timeline, splitter("split-rows", "level", "Height of the timeline", timeline), lower);
  // What the page says below the timeline is a table like others.
  body("tables").append(...timeline.querySelectorAll("table"));
  markOnScroll(panes, side, buttons);
}

/** Mark the button of the pane that is in view. @param {HTMLElement} holder that scrolls @param {HTMLElement[]} sections @param {HTMLElement[]} buttons */
export function markOnScroll(holder, sections, buttons) {
  const mark = () => {
    const top = holder.scrollTop + Math.min(80, holder.clientHeight / 3), isDown = holder.scrollTop + holder.clientHeight > holder.scrollHeight - 2;
    const here = (holder.scrollTop > 0 && isDown ? sections.at(-1) : sections.findLast((section) => section.offsetTop <= top)) ?? sections[0];
    for (const button of buttons) button.setAttribute("aria-current", String(button.dataset.goto === here?.dataset.pane));
  };
  holder.addEventListener("scroll", mark, { passive: true });
  mark();
}
