//! Memory of keys and values in blocks, as vLLM pages it: blocks of sequences, and blocks that prompts may share.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::conversation::PromptSegment;

/// The blocks of one replica.
///
/// A block is free, a sequence's own, or known by its content. One that is known and that no sequence uses is kept until
/// its room is needed; the one that was used least recently goes first.
#[derive(Clone, Debug)]
pub(super) struct KvBlocks {
    /// Tokens of a block.
    pub(super) tokens: u32,
    total: u64,
    own: u64,
    known: HashMap<u64, KnownBlock, BuildHasherDefault<ContentHasher>>,
    unused: BTreeMap<u64, u64>,
    stamp: u64,
}

#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    users: u32,
    /// Its place in `unused`, while nobody uses it.
    stamp: u64,
}

/// Contents are numbers that are mixed already.
#[derive(Clone, Copy, Debug, Default)]
struct ContentHasher(u64);

impl Hasher for ContentHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mixed(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl KvBlocks {
    /// So many free blocks of `tokens` tokens.
    pub(super) fn new(total: u64, tokens: u32) -> Self {
        Self { tokens, total, own: 0, known: HashMap::default(), unused: BTreeMap::new(), stamp: 0 }
    }

    /// All blocks.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Blocks that sequences can have: free ones, and known ones that nobody uses.
    pub(super) fn available(&self) -> u64 {
        self.total - self.used()
    }

    /// Blocks that sequences have.
    pub(super) fn used(&self) -> u64 {
        self.own + (self.known.len() - self.unused.len()) as u64
    }

    /// Blocks that hold so many tokens.
    pub(super) fn of_tokens(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.tokens))
    }

    /// How many of the first contents are known, and how many of these nobody uses.
    pub(super) fn find(&self, contents: impl Iterator<Item = u64>) -> (u64, u64) {
        let found = contents.map_while(|content| self.known.get(&content));
        found.fold((0, 0), |(count, unused), block| (count + 1, unused + u64::from(block.users == 0)))
    }

    /// Takes known blocks into use; each has to be known.
    pub(super) fn share(&mut self, contents: &[u64]) {
        for content in contents {
            if let Some(block) = self.known.get_mut(content) {
                if block.users == 0 {
                    self.unused.remove(&block.stamp);
                }
                block.users += 1;
            }
        }
    }

    /// Takes blocks for a sequence of its own, known ones that nobody uses if no others are free. There have to be as many
    /// [`available`](Self::available).
    pub(super) fn take(&mut self, count: u64) {
        let free = self.total - self.own - self.known.len() as u64;
        for _ in free..count {
            if let Some((_, content)) = self.unused.pop_first() {
                self.known.remove(&content);
            }
        }
        self.own += count;
    }

    /// Gives back blocks of its own.
    pub(super) fn give_back(&mut self, count: u64) {
        self.own -= count;
    }

    /// Makes a block of a sequence's own known by its content, and keeps it in use.
    ///
    /// Returns whether it was not known yet: else the sequence's own is free again, and it uses the known one.
    pub(super) fn publish(&mut self, content: u64) -> bool {
        self.own -= 1;
        if self.known.contains_key(&content) {
            self.share(&[content]);
            return false;
        }
        self.known.insert(content, KnownBlock { users: 1, stamp: 0 });
        true
    }

    /// Ends the use of known blocks; they stay known. Of one sequence the last are the first to go.
    pub(super) fn release(&mut self, contents: &[u64]) {
        for content in contents.iter().rev() {
            let Some(block) = self.known.get_mut(content) else { continue };
            block.users -= 1;
            if block.users == 0 {
                self.stamp += 1;
                block.stamp = self.stamp;
                self.unused.insert(self.stamp, *content);
            }
        }
    }
}

/// The contents of full blocks of a prompt: each depends on all tokens up to its end. `segments` may be followed by others'.
pub(super) fn contents(segments: impl Iterator<Item = PromptSegment>, block: u32) -> impl Iterator<Item = u64> {
    let mut segments = segments.filter(|segment| segment.tokens > 0).peekable();
    let (mut offset, mut chain) = (0_u32, 0_u64);
    std::iter::from_fn(move || {
        let mut missing = block;
        while missing > 0 {
            let segment = *segments.peek()?;
            let taken = missing.min(segment.tokens - offset);
            chain = mixed(chain ^ mixed(segment.number ^ mixed(u64::from(offset) << 32 | u64::from(taken))));
            (missing, offset) = (missing - taken, offset + taken);
            if offset == segment.tokens {
                segments.next();
                offset = 0;
            }
        }
        Some(chain)
    })
}

/// A number whose every bit depends on every bit of another: the finaliser of SplitMix64.
pub(super) fn mixed(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(segments: &[(u64, u32)], block: u32) -> Vec<u64> {
        contents(segments.iter().map(|&(number, tokens)| PromptSegment { number, tokens }), block).collect()
    }

    #[test]
    fn test_contents_are_equal_as_far_as_prompts_are() {
        let (short, long) = (of(&[(1, 40), (2, 30)], 16), of(&[(1, 40), (3, 30)], 16));
        assert_eq!((short.len(), long.len()), (4, 4));
        assert_eq!(short[..2], long[..2]);
        assert!(short[2] != long[2] && short[3] != long[3]);
        assert!(of(&[(1, 15)], 16).is_empty());
    }

    #[test]
    fn test_least_recently_used_blocks_go_first() {
        let mut blocks = KvBlocks::new(4, 16);
        let (first, second) = (of(&[(1, 32)], 16), of(&[(2, 32)], 16));
        for contents in [&first, &second] {
            blocks.take(2);
            assert!(contents.iter().all(|&content| blocks.publish(content)));
            blocks.release(contents);
        }
        assert_eq!((blocks.available(), blocks.used()), (4, 0));
        blocks.take(1);
        // The last block of the first prompt went, its beginning is still known.
        assert_eq!(blocks.find(first.iter().copied()), (1, 1));
        assert_eq!(blocks.find(second.iter().copied()), (2, 2));
        blocks.share(&second);
        assert_eq!(blocks.available(), 1);
    }

    proptest! {
        /// Whatever is taken and given back, blocks are neither made nor lost.
        #[test]
        fn test_blocks_are_conserved(steps in prop::collection::vec((0_u8..3, 1_u64..4, 1_u32..6), 1..200)) {
            let mut blocks = KvBlocks::new(12, 16);
            let mut held: Vec<(u64, Vec<u64>)> = Vec::new();
            for (what, number, count) in steps {
                match what {
                    0 if blocks.available() >= u64::from(count) => {
                        let content = of(&[(number, 16 * count)], 16);
                        let (found, _) = blocks.find(content.iter().copied());
                        let rest = u64::from(count) - found;
                        blocks.share(&content[..found as usize]);
                        blocks.take(rest);
                        held.push((rest, content));
                    }
                    1 => if let Some((own, content)) = held.pop() {
                        let found = content.len() - own as usize;
                        for content in &content[found..] { blocks.publish(*content); }
                        blocks.release(&content);
                    }
                    _ => if let Some((own, content)) = held.pop() {
                        blocks.give_back(own);
                        blocks.release(&content[..content.len() - own as usize]);
                    }
                }
                let own: u64 = held.iter().map(|(own, _)| own).sum();
                let mut shared: Vec<u64> =
                    held.iter().flat_map(|(own, content)| content[..content.len() - *own as usize].to_vec()).collect();
                shared.sort_unstable();
                shared.dedup();
                prop_assert_eq!(blocks.used(), own + shared.len() as u64);
                prop_assert!(blocks.own + blocks.known.len() as u64 <= blocks.total);
            }
            for (own, content) in held {
                blocks.give_back(own);
                blocks.release(&content[..content.len() - own as usize]);
            }
            prop_assert_eq!(blocks.used(), 0);
        }
    }
}
