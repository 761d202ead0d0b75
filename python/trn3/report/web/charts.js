// Drawings of plans, comparisons and the like, from the data of the page's layout: one function for each kind.

import { barChart } from "./bar_chart.js";
import { stackChart } from "./stack_chart.js";
import { xyChart } from "./xy_chart.js";

/** @param {any} chart @param {number} width in CSS pixels @returns {Element[]} */
export function drawChart(chart, width) {
  const draw = /** @type {Record<string, (chart: any, width: number) => Element[]>} */ ({ stacks: stackChart, curves: xyChart, bars: barChart })[chart.kind];
  if (!draw) throw new Error(`no drawing is called ${chart.kind}`);
  return draw(chart, width);
}
