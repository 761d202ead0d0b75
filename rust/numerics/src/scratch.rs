//! Memory that kernels work in and reuse.

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use memmap2::MmapMut;

use crate::error::Result;
use crate::par;

/// What the system maps at a time where memory is asked for in large pieces, clearing it on the first write. Scratch of
/// this size and more is mapped so: packed operands are walked in panels, each on pages of its own, and finding those
/// costs a twentieth of a product.
pub(crate) const HUGE_PAGE: usize = 1 << HUGE_PAGE_BITS;
const HUGE_PAGE_BITS: u32 = 21;

/// Has the system map memory that was never written, on all threads. What it holds is unspecified afterwards, as it was.
///
/// Linux clears a huge page towards the place that is written first. Written from its beginning, as loops do, it is
/// cleared downwards, which CPUs are half as fast at as upwards: so each page is asked for by its last byte.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted), and what `TRN3_NUM_THREADS` says wrong.
///
/// ```
/// let mut fresh = Vec::with_capacity(1 << 24);
/// fresh.resize(1 << 24, 0u8);
/// trn3_numerics::map_pages(&mut fresh)?;
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn map_pages(fresh: &mut [u8]) -> Result<()> {
    let head = fresh.as_ptr().align_offset(HUGE_PAGE).min(fresh.len());
    par::for_each(fresh[head..].chunks_exact_mut(HUGE_PAGE), |page| page[HUGE_PAGE - 1] = 0)
}

/// Growable scratch memory, aligned to a cache line.
#[derive(Debug, Default)]
pub(crate) struct AlignedBytes {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Lines(Vec<CacheLine>),
    Pages(MmapMut),
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

impl Default for Memory {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl Memory {
    /// At least so many bytes of zeros. What the system refuses to map is allocated, or ends as allocations do.
    fn zeroed(count: usize) -> Self {
        if count >= HUGE_PAGE
            && let Ok(mut pages) = MmapMut::map_anon(count.next_multiple_of(HUGE_PAGE))
        {
            #[cfg(target_os = "linux")]
            // A hint: a system without huge pages may refuse it, and the pages are good all the same.
            let _ = pages.advise(memmap2::Advice::HugePage);
            // Interrupted, the pages are mapped when they are written.
            let _ = map_pages(&mut pages);
            return Self::Pages(pages);
        }
        Self::Lines(bytemuck::zeroed_vec(count.div_ceil(size_of::<CacheLine>())))
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Self::Pages(pages) => pages,
        }
    }
}

impl AlignedBytes {
    /// `count` bytes: what was there before, however many that were, then unspecified but initialised ones.
    pub(crate) fn bytes_mut(&mut self, count: usize) -> &mut [u8] {
        if self.memory.bytes().len() < count {
            let mut grown = Memory::zeroed(count);
            let old = self.memory.bytes();
            grown.bytes()[..old.len()].copy_from_slice(old);
            self.memory = grown;
        }
        &mut self.memory.bytes()[..count]
    }

    /// `count` elements of a plain type.
    pub(crate) fn slice_mut<T: NoUninit + AnyBitPattern>(&mut self, count: usize) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut(count * size_of::<T>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_scratch_keeps_its_contents_when_it_grows() {
        let mut scratch = AlignedBytes::default();
        for count in [3, 1000, HUGE_PAGE, 2 * HUGE_PAGE] {
            let words = scratch.slice_mut::<u32>(count);
            assert!(words.as_ptr().addr().is_multiple_of(64));
            words[..3].copy_from_slice(&[1, 2, 3]);
            words[count - 1] = 4;
            assert_eq!(scratch.slice_mut::<u32>(count * 2)[count - 1], 4);
            assert_eq!(scratch.slice_mut::<u32>(2)[..2], [1, 2]);
        }
    }
}
