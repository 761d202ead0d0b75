// Where the parts of the timeline stand, in CSS pixels.

/** Width of the names of lanes. */
export const GUTTER = 124;
/** Height of the strip of the whole run, and of the axis below it. */
export const OVERVIEW = 24;
const AXIS = 22;
export const LANES_TOP = OVERVIEW + AXIS;
