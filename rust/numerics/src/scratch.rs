//! Memory that kernels work in and reuse.

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};

use crate::pages::{HUGE_PAGE, Pages};

/// Growable scratch memory, aligned to a cache line.
#[derive(Debug, Default)]
pub(crate) struct AlignedBytes {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Lines(Vec<CacheLine>),
    Pages(Pages),
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
    /// At least so many bytes that hold anything: packed operands are in huge pages. What the system refuses to map, or
    /// was interrupted in, is allocated, or ends as allocations do.
    fn of(count: usize) -> Self {
        if count >= HUGE_PAGE
            && let Ok(Some(pages)) = Pages::new(count)
        {
            return Self::Pages(pages);
        }
        Self::Lines(bytemuck::zeroed_vec(count.div_ceil(size_of::<CacheLine>())))
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Self::Pages(pages) => pages.bytes_mut(),
        }
    }
}

impl AlignedBytes {
    /// `count` bytes: what was there before, however many that were, then unspecified but initialised ones.
    pub(crate) fn bytes_mut(&mut self, count: usize) -> &mut [u8] {
        if self.memory.bytes().len() < count {
            let mut grown = Memory::of(count);
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
