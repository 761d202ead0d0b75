// Light or dark: as the system says, until the switch says otherwise.

import { byId } from "./dom.js";
import { isDark, setDark } from "./palette.js";

/** @param {() => void} changed @returns {() => void} turns it */
export function buildTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (/** @type {boolean} */ dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    setDark(dark);
    changed();
  };
  let follows = true;
  system.addEventListener("change", () => { if (follows) set(system.matches); });
  const turn = () => {
    follows = false;
    set(!isDark());
  };
  byId("theme").addEventListener("click", turn);
  set(system.matches);
  return turn;
}
