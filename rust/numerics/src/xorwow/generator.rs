//! One XORWOW generator, by the definition: its state, its step, and what a draw stands for.

/// Words of a generator's state: the xorshift words x, y, z, w, v and the Weyl counter d.
pub(crate) const WORDS: usize = 6;

/// What the Weyl counter advances by.
pub(crate) const WEYL_STEP: u32 = 362_437;

/// Advances a generator by one step and returns its draw.
pub(crate) const fn step(state: &mut [u32; WORDS]) -> u32 {
    let [x, y, z, w, v, d] = *state;
    let t = x ^ (x >> 2);
    let v_next = (v ^ (v << 4)) ^ (t ^ (t << 1));
    let d_next = d.wrapping_add(WEYL_STEP);
    *state = [y, z, w, v, v_next, d_next];
    v_next.wrapping_add(d_next)
}

/// The number between `low` and `high` that a draw stands for; `width` is `high - low`.
pub(crate) fn uniform(draw: u32, low: f32, width: f32) -> f32 {
    let fraction = (draw >> 8) as f32 * (1.0 / 16_777_216.0);
    low + width * fraction
}
