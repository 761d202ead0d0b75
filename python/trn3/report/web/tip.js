// The one tooltip: a heading and lines of text beside the pointer.

import { byId, element, replace } from "./dom.js";

/** @param {{clientX: number, clientY: number}} event @param {string} heading @param {(string|null|undefined)[]} lines */
export function showTip(event, heading, lines) {
  const tip = byId("tip");
  replace(tip, element("b", {}, heading), lines.filter(Boolean).join("\n"));
  tip.hidden = false;
  const wide = tip.offsetWidth, high = tip.offsetHeight, room = 14;
  const left = event.clientX + room + wide > innerWidth ? event.clientX - room - wide : event.clientX + room;
  const top = event.clientY + room + high > innerHeight ? event.clientY - room - high : event.clientY + room;
  tip.style.setProperty("left", `${Math.max(2, left)}px`);
  tip.style.setProperty("top", `${Math.max(2, top)}px`);
}

export function hideTip() {
  byId("tip").hidden = true;
}
