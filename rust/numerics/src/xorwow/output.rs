//! What a call makes of its draws, and where they go.

/// What becomes of a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// The draw.
    Draws,
    /// The bits of the float32 between the bounds that the draw stands for.
    Uniform { low: f32, high: f32 },
}

/// What to write: `steps` draws of each stream in whole vectors, those of a stream `stride` vectors after those of the
/// one before. What is in the last vectors beyond `steps` is unspecified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    pub(crate) output: Output,
    pub(crate) steps: usize,
    pub(crate) stride: usize,
}
