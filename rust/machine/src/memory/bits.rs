//! One bit a byte: which bytes were written, and which of them by a matmul.

use std::ops::Range;

use smallvec::SmallVec;

use crate::storage::Placement;

const WORD: usize = u64::BITS as usize;

/// The bits `range` of the word that holds bits `word * 64 ..`, as a mask.
fn mask_of(word: usize, range: &Range<usize>) -> u64 {
    let low = range.start.saturating_sub(word * WORD);
    let high = (range.end - word * WORD).min(WORD);
    (u64::MAX << low) & (u64::MAX >> (WORD - high))
}

fn words_of(range: &Range<usize>) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start / WORD..range.end.div_ceil(WORD) }
}

/// The words of a range whose every bit is in it; before and after them there may be one each that holds others too.
fn inner_words(range: &Range<usize>) -> Range<usize> {
    let first = range.start.div_ceil(WORD);
    first..(range.end / WORD).max(first)
}

/// The words at the ends of a range, with their masks; the whole ones between are [`inner_words`].
fn outer_words(range: &Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let (all, inner) = (words_of(range), inner_words(range));
    let ends = [all.start, all.end.wrapping_sub(1)];
    let count = if all.len() > 1 { 2 } else { all.len() };
    let range = range.clone();
    ends.into_iter()
        .take(count)
        .filter(move |word| !inner.contains(word))
        .map(move |word| (word, mask_of(word, &range)))
}

/// Whether all bits of a range are set.
pub(super) fn all_set(bits: &[u64], range: Range<usize>) -> bool {
    outer_words(&range).all(|(word, mask)| bits[word] & mask == mask)
        && bits[inner_words(&range)].iter().all(|word| *word == u64::MAX)
}

/// The first bit of a range that is set; no bits at all are none that are set.
pub(super) fn first_set(bits: &[u64], range: Range<usize>) -> Option<usize> {
    if bits.is_empty() {
        return None;
    }
    words_of(&range).find_map(|word| {
        let found = bits[word] & mask_of(word, &range);
        (found != 0).then(|| word * WORD + found.trailing_zeros() as usize)
    })
}

/// Calls `visit` with each run of bits of a range that are set; no bits at all are none that are set.
pub(super) fn each_set(bits: &[u64], range: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
    let mut from = range.start;
    while let Some(start) = first_set(bits, from..range.end) {
        let end = first_clear(bits, start..range.end).unwrap_or(range.end);
        visit(start..end);
        from = end;
    }
}

/// Calls `visit` with each run of bits of a range that are not set; no bits at all are all clear.
pub(super) fn each_clear(bits: &[u64], range: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
    let mut from = range.start;
    while let Some(start) = first_clear(bits, from..range.end) {
        let end = first_set(bits, start..range.end).unwrap_or(range.end);
        visit(start..end);
        from = end;
    }
}

/// The first bit of a range that is not set; no bits at all are all clear.
pub(super) fn first_clear(bits: &[u64], range: Range<usize>) -> Option<usize> {
    if bits.is_empty() {
        return (!range.is_empty()).then_some(range.start);
    }
    words_of(&range).find_map(|word| {
        let found = !bits[word] & mask_of(word, &range);
        (found != 0).then(|| word * WORD + found.trailing_zeros() as usize)
    })
}

/// Sets all bits of a range.
pub(super) fn set(bits: &mut [u64], range: Range<usize>) {
    outer_words(&range).for_each(|(word, mask)| bits[word] |= mask);
    bits[inner_words(&range)].fill(u64::MAX);
}

/// Clears all bits of a range.
pub(super) fn clear(bits: &mut [u64], range: Range<usize>) {
    outer_words(&range).for_each(|(word, mask)| bits[word] &= !mask);
    bits[inner_words(&range)].fill(0);
}

/// Sets those of `length` bits from `place` on that are set in `from` from `at` on.
pub(super) fn copy(from: &[u64], at: usize, to: &mut [u64], place: usize, length: usize) {
    let mut done = 0;
    while done < length {
        let (source, target) = ((at + done) % WORD, (place + done) % WORD);
        let count = (WORD - source.max(target)).min(length - done);
        let found = from[(at + done) / WORD] >> source & (u64::MAX >> (WORD - count));
        to[(place + done) / WORD] |= found << target;
        done += count;
    }
}

/// Some partitions: `first`, `first + step`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partitions {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) step: isize,
}

/// Which bytes of a partition an operand touches; every partition of the operand has the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteMask {
    first_word: usize,
    masks: SmallVec<[u64; 16]>,
}

impl ByteMask {
    /// No bytes, of the words that hold `span`.
    pub(super) fn empty(span: &Range<usize>) -> Self {
        let words = words_of(span);
        Self { first_word: words.start, masks: SmallVec::from_elem(0, words.len()) }
    }

    /// All bytes of a range.
    pub(super) fn run(range: &Range<usize>) -> Self {
        let words = words_of(range);
        Self { first_word: words.start, masks: words.map(|word| mask_of(word, range)).collect() }
    }

    /// Adds the bytes of a range inside the span.
    pub(super) fn add(&mut self, range: Range<usize>) {
        for word in words_of(&range) {
            self.masks[word - self.first_word] |= mask_of(word, &range);
        }
    }

    fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.masks.iter().enumerate().map(|(word, &mask)| (self.first_word + word, mask)).filter(|(_, mask)| *mask != 0)
    }
}

/// Columns of a block.
const BLOCK: usize = 64;

/// Bits of an on-chip memory. The words of one 64-byte column lie together, partition after partition: an operand has
/// the same bytes in many partitions, so that one mask meets neighbouring words. Columns come in blocks, and a block
/// in which nothing was set yet does not exist: most kernels use a small part of the memory.
#[derive(Debug, Default)]
pub(super) struct PartitionBits {
    partitions: usize,
    blocks: Vec<Option<Box<[u64]>>>,
    /// The first partition and the first word of a partition that there are bits of.
    corner: (usize, usize),
}

impl PartitionBits {
    /// All clear.
    pub(super) fn new(partitions: usize, partition_bytes: usize) -> Self {
        Self { partitions, blocks: vec![None; partition_bytes.div_ceil(WORD * BLOCK)], corner: (0, 0) }
    }

    /// Bits of one place alone, all clear; it starts on a whole word.
    pub(super) fn of(place: Placement) -> Self {
        let mut bits = Self::new(place.partitions, place.bytes);
        bits.move_to(place);
        bits
    }

    /// There are more bytes in each partition, all clear.
    pub(super) fn lengthen(&mut self, partition_bytes: usize) {
        self.blocks.resize(partition_bytes.div_ceil(WORD * BLOCK), None);
    }

    /// What is known of a place is known of another one from here on.
    pub(super) fn move_to(&mut self, place: Placement) {
        self.corner = (place.partition, place.byte / WORD);
    }

    /// Partitions counted from the first one that there are bits of.
    fn inside(&self, at: Partitions) -> Partitions {
        Partitions { first: at.first - self.corner.0, ..at }
    }

    /// The bytes of a partition in which a bit was ever set, in blocks counted from the first byte that there are bits
    /// of; the last may reach beyond the partition.
    pub(super) fn touched(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| block.is_some());
        blocks.map(|(number, _)| number * BLOCK * WORD..(number + 1) * BLOCK * WORD)
    }

    /// All words, block after block, those of blocks that do not exist included.
    pub(super) fn words(&self) -> Vec<u64> {
        let length = BLOCK * self.partitions;
        let mut words = vec![0; length * self.blocks.len()];
        for (words, block) in words.chunks_exact_mut(length.max(1)).zip(&self.blocks) {
            if let Some(block) = block {
                words.copy_from_slice(block);
            }
        }
        words
    }

    /// Replaces the words by as many others. Every block exists from then on: bytes may have been written in any.
    pub(super) fn set_words(&mut self, words: &[u64]) {
        let length = BLOCK * self.partitions;
        for (words, block) in words.chunks_exact(length.max(1)).zip(&mut self.blocks) {
            *block = Some(words.into());
        }
    }

    /// The bits of a column; None where no bit was ever set.
    fn column(&self, word: usize) -> Option<&[u64]> {
        let word = word - self.corner.1;
        let block = self.blocks[word / BLOCK].as_deref()?;
        Some(&block[word % BLOCK * self.partitions..][..self.partitions])
    }

    fn column_mut(&mut self, word: usize) -> &mut [u64] {
        let word = word - self.corner.1;
        let block = self.blocks[word / BLOCK].get_or_insert_with(|| vec![0; BLOCK * self.partitions].into());
        &mut block[word % BLOCK * self.partitions..][..self.partitions]
    }

    /// Whether all these bytes of all these partitions are set.
    pub(super) fn all_set(&self, at: Partitions, bytes: &ByteMask) -> bool {
        let at = self.inside(at);
        bytes.words().all(|(word, mask)| {
            let Some(column) = self.column(word) else { return at.count == 0 };
            if at.step == 1 {
                // Not short-circuiting: whole columns are compared side by side.
                column[at.first..][..at.count].iter().fold(mask, |all, word| all & word) == mask
            } else {
                each(at).all(|partition| column[partition] & mask == mask)
            }
        })
    }

    /// Whether any of these bytes of these partitions is set.
    pub(super) fn any_set(&self, at: Partitions, bytes: &ByteMask) -> bool {
        let at = self.inside(at);
        bytes.words().any(|(word, mask)| {
            self.column(word).is_some_and(|column| each(at).any(|partition| column[partition] & mask != 0))
        })
    }

    /// Whether all bytes of a range of one partition are set.
    pub(super) fn range_is_set(&self, partition: usize, range: Range<usize>) -> bool {
        words_of(&range).all(|word| {
            let mask = mask_of(word, &range);
            self.column(word).is_some_and(|column| column[partition - self.corner.0] & mask == mask)
        })
    }

    /// Sets a range of one partition.
    pub(super) fn set_range(&mut self, partition: usize, range: Range<usize>) {
        for word in words_of(&range) {
            let partition = partition - self.corner.0;
            self.column_mut(word)[partition] |= mask_of(word, &range);
        }
    }

    /// Copies what is known of some bytes of every partition to others; both start on whole words.
    pub(super) fn carry(&mut self, from: Range<usize>, to: usize) {
        for (offset, word) in words_of(&from).enumerate() {
            let to = to / WORD + offset;
            // A column that was ever set goes over even if it is clear now: its bytes may hold something.
            match self.column(word).map(<[u64]>::to_vec) {
                Some(column) => self.column_mut(to).copy_from_slice(&column),
                None if self.column(to).is_some() => self.column_mut(to).fill(0),
                None => {}
            }
        }
    }

    /// Sets or clears these bytes of these partitions.
    pub(super) fn put(&mut self, at: Partitions, bytes: &ByteMask, value: bool) {
        let at = self.inside(at);
        let fill = if value { u64::MAX } else { 0 };
        for (word, mask) in bytes.words() {
            if !value && self.column(word).is_none() {
                continue;
            }
            let column = self.column_mut(word);
            if at.step == 1 {
                for bits in &mut column[at.first..][..at.count] {
                    *bits = (*bits & !mask) | (fill & mask);
                }
            } else {
                each(at).for_each(|partition| column[partition] = (column[partition] & !mask) | (fill & mask));
            }
        }
    }
}

fn each(at: Partitions) -> impl Iterator<Item = usize> {
    (0..at.count as isize).map(move |index| (at.first as isize + index * at.step) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_ranges_of_bits_are_exactly_those() {
        for start in 0..200 {
            for end in start..260 {
                let mut bits = vec![0; 5];
                set(&mut bits, start..end);
                for bit in 0..320 {
                    let is_set = bits[bit / WORD] >> (bit % WORD) & 1 == 1;
                    assert_eq!(is_set, (start..end).contains(&bit), "{start}..{end}: {bit}");
                }
                assert!(all_set(&bits, start..end));
                assert!(!all_set(&bits, start..end + 1));
                assert_eq!(first_set(&bits, 0..320), (start < end).then_some(start));
                assert_eq!(first_set(&bits, end..320), None);
                assert_eq!(first_clear(&bits, start..320), (end < 320).then_some(end));
                assert_eq!(first_clear(&bits, start..end), None);
                assert!(start == 0 || start == end || !all_set(&bits, start - 1..end));
                let mut rest = vec![u64::MAX; 5];
                clear(&mut rest, start..end);
                assert!(rest.iter().zip(&bits).all(|(rest, bits)| rest ^ bits == u64::MAX));
            }
        }
    }
}
