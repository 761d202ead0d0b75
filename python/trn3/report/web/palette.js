// Colours that stay apart for colour-blind readers (Okabe and Ito's, and kin), for light and dark.

/** Families of instructions: [on light, on dark]. @type {Record<string, [string, string]>} */
const FAMILIES = {
  matmul: ["#0072b2", "#4aa8e0"],
  transpose: ["#56b4e9", "#9ad4f5"],
  "element-wise": ["#009e73", "#2fc39a"],
  reduction: ["#b8a800", "#e6d84a"],
  function: ["#d55e00", "#f0803c"],
  "copy, set": ["#cc79a7", "#e39fc3"],
  quantise: ["#7a3e9d", "#b585d6"],
  "gather, select": ["#8c5a2b", "#c08d5c"],
  DMA: ["#e69f00", "#f2b632"],
  control: ["#5f6b76", "#98a4b0"],
  other: ["#33373d", "#d3d7dd"],
};
/** For what has no family: tensors, lines, regions. @type {[string, string][]} */
const SERIES = [
  ["#0072b2", "#4aa8e0"], ["#e69f00", "#f2b632"], ["#009e73", "#2fc39a"], ["#cc79a7", "#e39fc3"],
  ["#d55e00", "#f0803c"], ["#56b4e9", "#9ad4f5"], ["#b8a800", "#e6d84a"], ["#7a3e9d", "#b585d6"],
  ["#8c5a2b", "#c08d5c"], ["#5f6b76", "#98a4b0"],
];

/**
 * What a wait was for, in groups that differ in hatching as well as in colour.
 * @typedef {{name: string, hatch: string, colour: [string, string]}} WaitGroup
 */
/** @type {WaitGroup[]} */
export const WAIT_GROUPS = [
  { name: "idle, no cause recorded", hatch: "none", colour: ["#c9cfd6", "#3c444d"] },
  { name: "waits for an engine's result", hatch: "fall", colour: ["#7d8a98", "#7e8c9b"] },
  { name: "waits for what DMA brings", hatch: "rise", colour: ["#c98f10", "#c4922a"] },
  { name: "waits for a buffer that is still in use", hatch: "upright", colour: ["#2f8f72", "#3f9c80"] },
  { name: "waits to write what others still use", hatch: "posts", colour: ["#5a9c2f", "#6fa645"] },
  { name: "waits for those ahead of it in its queue", hatch: "level", colour: ["#c0562a", "#c86a40"] },
  { name: "waits for a bank or a port", hatch: "cross", colour: ["#a8578f", "#b06a9b"] },
  { name: "waits for a function table", hatch: "grid", colour: ["#6f55b5", "#8d76cf"] },
  { name: "waits as depends_on asks", hatch: "steep", colour: ["#5f6b76", "#98a4b0"] },
  { name: "waits for its DMA queue", hatch: "dashes", colour: ["#b8591a", "#d07f45"] },
  { name: "waits for bandwidth", hatch: "checks", colour: ["#a08a00", "#a8942a"] },
  { name: "waits for another core or rank", hatch: "dots", colour: ["#2f6fb0", "#5585b5"] },
];
const [RESULT, BY_DMA] = [1, 2];
const GROUP_OF_BOUND = new Map([
  ["read after write", RESULT], ["buffer reuse", 3], ["write after use", 4], ["queue order", 5], ["bank", 6], ["table load", 7],
  ["depends_on", 8], ["DMA queue", 9], ["bandwidth", 10], ["meeting", 11],
]);
/** Of runs that do not say what bound their instructions. */
const GROUP_OF_CAUSE = new Map([
  ["nothing", 0], ["dma", BY_DMA], ["issue order", 5], ["PSUM bank", 6], ["table load", 7], ["depends_on", 8], ["DMA queue", 9],
  ["other core", 11], ["other rank", 11],
]);

/** Place in WAIT_GROUPS of what bound an instruction. @param {string} bound @param {string} cause */
export function waitGroup(bound, cause) {
  const found = GROUP_OF_BOUND.get(bound) ?? GROUP_OF_CAUSE.get(cause) ?? RESULT;
  return found === RESULT && cause === "dma" ? BY_DMA : found;
}

let dark = false;

/** Whether the page is dark now. */
export const isDark = () => dark;

/** @param {boolean} on */
export function setDark(on) {
  dark = on;
  variables.clear();
}

/** @param {string} family */
export const familyColour = (family) => (FAMILIES[family] ?? FAMILIES.other)[dark ? 1 : 0];
/** @param {number} place */
export const seriesColour = (place) => SERIES[place % SERIES.length][dark ? 1 : 0];
/** @param {number} group */
export const waitColour = (group) => WAIT_GROUPS[group].colour[dark ? 1 : 0];
/** How many colours a series has before they repeat. */
export const SERIES_COUNT = SERIES.length;
export const familyNames = () => Object.keys(FAMILIES);

/** @type {Map<string, string>} */
const variables = new Map();

/** A colour that the style sheet names. @param {string} name such as `ink` */
export function themeColour(name) {
  let found = variables.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    variables.set(name, found);
  }
  return found;
}

/** @param {string} colour #rrggbb @returns {[number, number, number]} */
export function channels(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Black or white, whichever reads better on a colour. @param {string} colour */
export function inkOn(colour) {
  const [red, green, blue] = channels(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#101214" : "#ffffff";
}

/** A colour as a pixel of ImageData. @param {string} colour */
export function pixelOf(colour) {
  const [red, green, blue] = channels(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A colour between two. @param {string} from @param {string} to @param {number} share of `to` */
export function mix(from, to, share) {
  const first = channels(from), second = channels(to);
  return "#" + first.map((value, place) => Math.round(value + (second[place] - value) * share).toString(16).padStart(2, "0")).join("");
}
