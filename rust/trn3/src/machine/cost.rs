//! How long the compute engines take: work per lane over the rate of the mode, at least the initiation interval.

use crate::machine::arch::ArchSpec;
use crate::machine::storage::Buffer;
use crate::machine::time::Clock;
use crate::machine::timing::work::Work;
use crate::machine::view::View;

/// Cycles for so many elements per lane at so many elements a cycle.
pub fn stream_cycles(elements: usize, rate: f64) -> u64 {
    (elements as f64 / rate).ceil() as u64
}

/// A VectorE instruction: `elements` per partition at `rate`, and what follows the stream (an accumulator's read-out).
pub fn vector(arch: &ArchSpec, elements: usize, rate: f64, extra_cycles: u64) -> Work {
    let cycles = stream_cycles(elements, rate).max(arch.minimum_interval_cycles) + extra_cycles;
    compute(arch.vector_clock(), cycles, arch.vector_fixed_ns, None)
}

/// A ScalarE instruction; `table` is the function table it needs.
pub fn scalar(arch: &ArchSpec, elements: usize, rate: f64, extra_cycles: u64, table: Option<u16>) -> Work {
    let cycles = stream_cycles(elements, rate).max(arch.minimum_interval_cycles) + extra_cycles;
    compute(arch.scalar_clock(), cycles, arch.scalar_fixed_ns, table)
}

/// A GpSimdE instruction: its start and so many cycles of work.
pub fn gpsimd(arch: &ArchSpec, cycles: u64) -> Work {
    compute(arch.gpsimd_clock(), arch.gpsimd_start_cycles + cycles, arch.gpsimd_fixed_ns, None)
}

fn compute(clock: Clock, cycles: u64, fixed_ns: f64, table: Option<u16>) -> Work {
    let interval = clock.cycles(cycles);
    let latency = interval + crate::machine::time::Picos::from_nanoseconds(fixed_ns);
    Work::Compute { interval, latency, table }
}

fn in_psum(view: &View) -> bool {
    view.storage.buffer == Buffer::Psum
}

/// A port delivers half when the innermost stride is long.
fn halved(arch: &ArchSpec, rate: f64, views: &[&View]) -> f64 {
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

/// VectorE elements a cycle of instructions over two tiles, by where the inputs lie and how wide they are.
pub fn pair_rate(arch: &ArchSpec, dst: &View, one: &View, two: &View) -> f64 {
    let narrow = [dst, one, two].iter().all(|view| view.dtype.is_float() && view.dtype.size() <= 2);
    let rate = if in_psum(one) || in_psum(two) {
        arch.vector_pair_rate_psum
    } else if narrow {
        arch.vector_pair_rate_16bit
    } else {
        arch.vector_pair_rate
    };
    halved(arch, rate, &[dst, one, two])
}

/// VectorE elements a cycle of everything else.
pub fn plain_rate(arch: &ArchSpec, rate: f64, views: &[&View]) -> f64 {
    halved(arch, rate, views)
}
