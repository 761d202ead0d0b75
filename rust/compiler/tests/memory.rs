//! Bytes that a trace takes at most on its way through the passes, for each instruction. What its core keeps besides is not of it.

#[path = "support/kernel.rs"]
mod kernel;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use trn3_compiler::{CompileLevel, PassReport, passes_of};

/// Instructions of the kernel: more than those whose places are tried in several ways, which are there several times meanwhile.
const STEPS: usize = 300_000;
/// Bytes that each may take.
const MOST: usize = 1024;

/// The system's allocator, which counts.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is the system's allocator's; numbers are counted beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        let now = NOW.fetch_add(size, Ordering::Relaxed) + size;
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn test_an_instruction_takes_less_than_a_kilobyte() {
    let before = NOW.load(Ordering::Relaxed);
    let mut trace = kernel::attention(STEPS).take_trace().expect("a trace");
    let steps = trace.steps.len();
    assert!(steps >= STEPS);
    // What the core keeps of the run besides is gone.
    PEAK.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    for pass in passes_of(CompileLevel::NeuronxCc) {
        pass.run(&mut trace, &mut PassReport::new(pass.name())).expect("a kernel that fits");
    }
    assert!(trace.steps.len() < steps && trace.places.iter().any(Option::is_some));
    let bytes = (PEAK.load(Ordering::Relaxed) - before) / steps;
    assert!(bytes <= MOST, "{bytes} bytes an instruction, {MOST} are allowed");
}
