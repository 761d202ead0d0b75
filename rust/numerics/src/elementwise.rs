//! Driving a kernel over an array in chunks: gathered where the layout asks for it, on all threads, interruptible.

use crate::array::{AlignedBytes, ArrayMut, ElementSource, element_count};
use crate::error::{Error, Result};
use crate::pages::HUGE_PAGE;
use crate::par;
use crate::simd::settle;

/// Elements a task works on: large enough that handing it out costs nothing, small enough to balance.
pub(crate) const TASK: usize = 1 << 16;
/// Tasks that a thread should have at least, so that threads end at about the same time.
const TASKS_PER_THREAD: usize = 4;
/// Elements staged at a time where input must be gathered or converted first: input, float32 and output fit in L1/L2.
pub(crate) const STAGE: usize = 1 << 11;

/// Calls `kernel(first element, input codes, output codes, scratch)` for consecutive pieces that cover the array.
pub(crate) fn for_each_piece(
    source: &ElementSource<'_>,
    out: ArrayMut<'_>,
    kernel: impl Fn(usize, &[u8], &mut [u8], &mut AlignedBytes) + Sync,
) -> Result<()> {
    for_each_stage(source, out, STAGE, kernel)
}

/// As [`for_each_piece`] for kernels without scratch: pieces are as long as tasks where the input lies as it is read.
pub(crate) fn for_each_long_piece(
    source: &ElementSource<'_>,
    out: ArrayMut<'_>,
    kernel: impl Fn(usize, &[u8], &mut [u8]) + Sync,
) -> Result<()> {
    let stage = if source.is_borrowed() { TASK } else { STAGE };
    for_each_stage(source, out, stage, |start, codes, out, _| kernel(start, codes, out))
}

/// Elements a task works on where it writes `bytes` for each: large outputs are cut so that threads write different huge
/// pages. Of two that write a fresh one at the same time, each would clear one, and one be thrown away.
pub(crate) fn task_length(count: usize, bytes: usize) -> Result<usize> {
    let threads = par::num_threads()?;
    let page = HUGE_PAGE / bytes;
    Ok(if threads > 1 && count >= TASKS_PER_THREAD * threads * page { page } else { TASK })
}

fn for_each_stage(
    source: &ElementSource<'_>,
    out: ArrayMut<'_>,
    longest: usize,
    kernel: impl Fn(usize, &[u8], &mut [u8], &mut AlignedBytes) + Sync,
) -> Result<()> {
    check_shapes(source, &out)?;
    let item_out = out.format().item_size();
    let length = task_length(element_count(out.shape()), item_out)?;
    par::for_each(out.into_bytes().chunks_mut(length * item_out).enumerate(), |(task, piece)| {
        let (mut codes, mut scratch) = (AlignedBytes::default(), AlignedBytes::default());
        for (stage, out) in piece.chunks_mut(longest * item_out).enumerate() {
            let start = task * length + stage * longest;
            let count = out.len() / item_out;
            kernel(start, input(source, start, count, out, &mut codes), out, &mut scratch);
        }
        settle();
    })
}

/// Refuses a source that is not the output's shape, or not its element size where it is the output's own memory.
pub(crate) fn check_shapes(source: &ElementSource<'_>, out: &ArrayMut<'_>) -> Result<()> {
    match source {
        ElementSource::Array(view) if view.shape() != out.shape() => {
            Err(Error::shape("out", out.shape(), format!("it must have shape {:?}", view.shape())))
        }
        ElementSource::InPlace(format) if format.item_size() != out.format().item_size() => {
            let item = out.format().item_size();
            Err(Error::dtype("x", format, format!("a dtype of {item} bytes, as the output it is read from")))
        }
        _ => Ok(()),
    }
}

/// The codes of `count` elements; `out` is where their results go, which is where they are in place.
pub(crate) fn input<'s>(
    source: &'s ElementSource<'_>,
    start: usize,
    count: usize,
    out: &[u8],
    scratch: &'s mut AlignedBytes,
) -> &'s [u8] {
    match source {
        ElementSource::Array(view) => view.chunk(start..start + count, scratch),
        ElementSource::InPlace(_) => {
            let copy = scratch.bytes_mut(out.len());
            copy.copy_from_slice(out);
            copy
        }
    }
}
