//! How long the compute engines take: work per lane over the rate of the mode, at least the initiation interval.

use crate::arch::ArchSpec;
use crate::check::column_index;
use crate::dtype::DType;
use crate::storage::Buffer;
use crate::time::{Clock, Picos};
use crate::timing::work::Work;
use crate::view::View;

/// Cycles for so many elements per lane at so many elements a cycle.
pub fn stream_cycles(elements: usize, rate: f64) -> u64 {
    (elements as f64 / rate).ceil() as u64
}

/// A VectorE instruction: `elements` per partition at `rate`, and what follows the stream (an accumulator's read-out).
pub fn vector(arch: &ArchSpec, elements: usize, rate: f64, extra_cycles: u64) -> Work {
    let stream = stream_cycles(elements, rate) + extra_cycles;
    let interval = stream.max(arch.minimum_interval_cycles + extra_cycles);
    compute(arch.vector_clock(), interval, stream, arch.vector_fixed_ns, None)
}

/// A ScalarE instruction; `table` is the function table it needs.
pub fn scalar(arch: &ArchSpec, elements: usize, rate: f64, extra_cycles: u64, table: Option<u16>) -> Work {
    let stream = stream_cycles(elements, rate) + extra_cycles;
    let interval = stream.max(arch.minimum_interval_cycles + extra_cycles);
    compute(arch.scalar_clock(), interval, stream, arch.scalar_fixed_ns, table)
}

/// A GpSimdE instruction: its start and so many cycles of work.
pub fn gpsimd(arch: &ArchSpec, cycles: u64) -> Work {
    let cycles = arch.gpsimd_start_cycles + cycles;
    compute(arch.gpsimd_clock(), cycles, cycles, arch.gpsimd_fixed_ns, None)
}

/// The least interval holds the issue slot only: the result of a short stream is there after the stream and the fixed
/// part, as the published one-element activation shows.
fn compute(clock: Clock, interval: u64, stream: u64, fixed_ns: f64, table: Option<u16>) -> Work {
    let interval = clock.cycles(interval);
    let latency = (clock.cycles(stream) + Picos::from_nanoseconds(fixed_ns)).max(interval);
    Work::Compute { interval, latency, table }
}

fn in_psum(view: &View) -> bool {
    view.storage.buffer == Buffer::Psum
}

/// A port delivers half when the innermost stride is long; picked columns come one at a time, in no fast mode
/// **(choice)**.
fn halved(arch: &ArchSpec, rate: f64, views: &[&View]) -> f64 {
    let picks = views.iter().any(|view| column_index(view).is_some());
    let rate = if picks { rate.min(arch.vector_rate) } else { rate };
    let slow = views.iter().any(|view| view.innermost_stride_bytes() > arch.slow_stride_bytes as usize);
    if slow { rate / 2.0 } else { rate }
}

/// VectorE elements a cycle of copies and tensor_scalar, by type, memory and layout.
pub fn copy_rate(arch: &ArchSpec, dst: &View, src: &View) -> f64 {
    let widest = dst.dtype.size().max(src.dtype.size());
    let floats = dst.dtype.is_float() && src.dtype.is_float();
    let contiguous = dst.free_is_contiguous() && src.free_is_contiguous();
    let psum = in_psum(dst) || in_psum(src);
    let rate = match (floats, widest) {
        (true, 1) if contiguous && !psum => arch.vector_copy_rate_8bit,
        (true, 1) => arch.vector_copy_rate_16bit_psum.min(arch.vector_copy_rate_8bit),
        (true, 2) if contiguous && !psum => arch.vector_copy_rate_16bit,
        // Strided and in PSUM at once has no documented rate: taken as the slower of the two, which are equal.
        (true, 2) => arch.vector_copy_rate_16bit_psum,
        _ if psum => arch.vector_copy_rate_32bit_psum,
        _ => arch.vector_copy_rate_32bit,
    };
    halved(arch, rate, &[dst, src]).max(f64::MIN_POSITIVE)
}

/// Whether two-tile instructions run in their fast mode on these operands: bfloat16 alone and without gaps on gen2,
/// 16-bit floats from gen3, all narrow floats from gen4.
fn is_narrow_pair(arch: &ArchSpec, views: [&View; 3]) -> bool {
    views.iter().all(|view| match arch.generation {
        ..=2 => view.dtype == DType::BFloat16 && view.free_is_contiguous(),
        3 => matches!(view.dtype, DType::BFloat16 | DType::Float16),
        _ => view.dtype.is_float() && view.dtype.size() <= 2,
    })
}

/// VectorE elements a cycle of instructions over two tiles, by where the inputs lie and how wide they are; `has_fast_mode`
/// says whether the operator takes part in the fast mode of gen2, which knows few.
pub fn pair_rate(arch: &ArchSpec, dst: &View, one: &View, two: &View, has_fast_mode: bool) -> f64 {
    let rate = if in_psum(one) || in_psum(two) {
        arch.vector_pair_rate_psum
    } else if is_narrow_pair(arch, [dst, one, two]) && (has_fast_mode || arch.generation >= 3) {
        arch.vector_pair_rate_16bit
    } else {
        arch.vector_pair_rate
    };
    halved(arch, rate, &[dst, one, two])
}

/// VectorE elements a cycle of instructions that stream two tiles and have no fast mode.
pub fn two_stream_rate(arch: &ArchSpec, dst: &View, one: &View, two: &View) -> f64 {
    let rate = if in_psum(one) || in_psum(two) { arch.vector_pair_rate_psum } else { arch.vector_pair_rate };
    halved(arch, rate, &[dst, one, two])
}

/// VectorE or ScalarE elements a cycle of everything else.
pub fn plain_rate(arch: &ArchSpec, rate: f64, views: &[&View]) -> f64 {
    halved(arch, rate, views)
}

/// GpSimdE cycles of so many elements per partition: twice as fast where every operand has at most 16 bits.
pub fn gpsimd_stream(arch: &ArchSpec, elements: usize, views: &[&View]) -> u64 {
    let narrow = views.iter().all(|view| view.dtype.size() <= 2);
    stream_cycles(elements, if narrow { arch.gpsimd_rate_16bit } else { arch.gpsimd_rate })
}
