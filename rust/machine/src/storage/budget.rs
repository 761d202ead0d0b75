//! How much of the host's memory the contents of HBM may take, and how much each tensor's contents take.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Error;

/// Bytes of the pieces in which what is held is counted, as a power of two **(choice)**: small beside a large tensor, and a
/// few thousand of them are a gigabyte.
const PIECE_BITS: u32 = 16;

/// Contents of no more bytes are held whole from the first write on.
const SMALL: usize = 1 << 20;

/// Bytes that a budget without a limit of its own gives before it looks at what the host has free.
const UNSEEN: u64 = 64 << 20;

/// Why bytes cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The host's allocator refuses so many.
    Host {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A budget is spent.
    Budget {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes held already.
        held: u64,
        /// Most bytes.
        limit: u64,
        /// What sets the limit.
        option: &'static str,
    },
}

impl Shortage {
    /// The error of a tensor, or of what else is named.
    pub fn of(self, what: impl fmt::Display) -> Error {
        Error::HostMemory(format!("{what}: {self}"))
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::Host { bytes } => {
                write!(formatter, "the host has no room for {bytes} bytes more")?;
                match address_limit() {
                    Some(limit) => write!(formatter, "; this process may address {limit} bytes (ulimit -v)"),
                    None => write!(formatter, "; {} bytes of it are available", available()),
                }
            }
            Shortage::Budget { bytes, held, limit, option } => write!(
                formatter,
                "{bytes} bytes more of the host's memory are needed, {held} are in use, the limit is {limit} ({option})"
            ),
        }
    }
}

/// Most bytes that this process may address; None where nothing limits them, or nobody knows.
fn address_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes of the host's memory that are free for this process, its control group's limit included.
fn available() -> u64 {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let host = system.available_memory();
    system.cgroup_limits().map_or(host, |group| host.min(group.free_memory))
}

/// Bytes of the host's memory that contents of HBM may hold together.
#[derive(Debug)]
pub struct HostBudget {
    /// What sets the limit, for messages.
    option: &'static str,
    given: Option<u64>,
    /// The limit, once anybody had to know.
    limit: OnceLock<u64>,
    held: AtomicU64,
}

impl Default for HostBudget {
    fn default() -> Self {
        Self::new("max_host_bytes", None)
    }
}

impl HostBudget {
    /// At most so many bytes; None: three quarters of what is free when it matters **(choice)**. `option` is what users know
    /// the limit by.
    pub fn new(option: &'static str, limit: Option<u64>) -> Self {
        Self { option, given: limit, limit: OnceLock::new(), held: AtomicU64::new(0) }
    }

    /// Bytes held.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether so many bytes more may be had, besides what is held.
    ///
    /// # Errors
    /// [`Shortage::Budget`] where they may not.
    pub fn check(&self, bytes: u64) -> Result<(), Shortage> {
        let held = self.held();
        let wanted = held.saturating_add(bytes);
        if self.given.is_none() && wanted <= UNSEEN {
            return Ok(());
        }
        let free = || (held.saturating_add(available()) / 4).saturating_mul(3);
        let limit = self.given.unwrap_or_else(|| *self.limit.get_or_init(free));
        match wanted <= limit {
            true => Ok(()),
            false => Err(Shortage::Budget { bytes, held, limit, option: self.option }),
        }
    }

    fn take(&self, bytes: u64) -> Result<(), Shortage> {
        self.check(bytes)?;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Which pieces of some contents are held, and at whose charge.
#[derive(Debug, Default)]
pub struct Held {
    charge: Charge,
    /// One bit a piece; empty for small contents, and where all are held.
    pieces: Vec<u64>,
    is_whole: bool,
}

/// Bytes taken from a budget, which get back to it.
#[derive(Debug, Default)]
struct Charge {
    budget: Option<Arc<HostBudget>>,
    bytes: u64,
}

impl Charge {
    fn take(&mut self, bytes: u64) -> Result<(), Shortage> {
        if let Some(budget) = &self.budget {
            budget.take(bytes)?;
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back(self.bytes);
        }
    }
}

impl Held {
    /// Nothing yet, to be charged to a budget.
    pub fn charged_to(budget: Arc<HostBudget>) -> Self {
        Self { charge: Charge { budget: Some(budget), bytes: 0 }, ..Self::default() }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.charge.bytes
    }

    /// Charges what is held to another budget, or to none. It is taken whatever the limit: whoever moves contents asks
    /// before.
    pub(crate) fn charge(&mut self, budget: Option<&Arc<HostBudget>>) {
        let bytes = self.charge.bytes;
        if let Some(budget) = budget {
            budget.held.fetch_add(bytes, Ordering::Relaxed);
        }
        self.charge = Charge { budget: budget.cloned(), bytes };
    }

    /// Whether all bytes are held.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Nothing yet, at the same charge.
    pub(crate) fn alike(&self) -> Self {
        Self { charge: Charge { budget: self.charge.budget.clone(), bytes: 0 }, ..Self::default() }
    }

    /// Holds a range of contents that have `length` bytes.
    ///
    /// # Errors
    /// [`Shortage`]; nothing more is held then.
    #[inline]
    pub(crate) fn claim(&mut self, range: Range<usize>, length: usize) -> Result<(), Shortage> {
        if self.is_whole || range.is_empty() { Ok(()) } else { self.claim_pieces(range, length) }
    }

    fn claim_pieces(&mut self, range: Range<usize>, length: usize) -> Result<(), Shortage> {
        if length <= SMALL || range.len() == length {
            self.charge.take(length as u64 - self.charge.bytes)?;
            (self.is_whole, self.pieces) = (true, Vec::new());
            return Ok(());
        }
        let pieces = length.div_ceil(1 << PIECE_BITS);
        if self.pieces.is_empty() {
            let words = pieces.div_ceil(u64::BITS as usize);
            self.pieces.try_reserve_exact(words).map_err(|_| Shortage::Host { bytes: words as u64 * 8 })?;
            self.pieces.resize(words, 0);
        }
        for piece in range.start >> PIECE_BITS..((range.end - 1) >> PIECE_BITS) + 1 {
            let (word, bit) = (piece / u64::BITS as usize, 1 << (piece % u64::BITS as usize));
            if self.pieces[word] & bit == 0 {
                let first = piece << PIECE_BITS;
                self.charge.take(length.min(first + (1 << PIECE_BITS)) as u64 - first as u64)?;
                self.pieces[word] |= bit;
            }
        }
        Ok(())
    }

    /// The ranges held of contents that have `length` bytes, in order; neighbours are one.
    pub fn ranges(&self, length: usize) -> impl Iterator<Item = Range<usize>> + Clone + '_ {
        let count = length.div_ceil(1 << PIECE_BITS);
        let is_held = move |piece: usize| {
            self.is_whole
                || self.pieces.get(piece / u64::BITS as usize).is_some_and(|word| word >> (piece % 64) & 1 == 1)
        };
        let next = move |from: usize| {
            let first = (from..count).find(|&piece| is_held(piece))?;
            Some(first..(first..count).find(|&piece| !is_held(piece)).unwrap_or(count))
        };
        std::iter::successors(next(0), move |last| next(last.end))
            .map(move |pieces| pieces.start << PIECE_BITS..length.min(pieces.end << PIECE_BITS))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn test_held_pieces_cover_what_was_claimed(
            claims in prop::collection::vec((0usize..8 << 20, 1usize..300_000), 1..20),
            length in prop::sample::select(vec![1usize << 19, (8 << 20) + 17]),
        ) {
            let budget = Arc::new(HostBudget::new("limit", Some(1 << 30)));
            let mut held = Held::charged_to(Arc::clone(&budget));
            let mut model = vec![false; length.div_ceil(1 << PIECE_BITS)];
            for (start, bytes) in claims {
                let start = start % length;
                let end = (start + bytes).min(length);
                held.claim(start..end, length).expect("room");
                let all = length <= SMALL;
                let pieces = if all { 0..model.len() } else { start >> PIECE_BITS..((end - 1) >> PIECE_BITS) + 1 };
                model[pieces].fill(true);
            }
            let counted: usize = held.ranges(length).map(|range| range.len()).sum();
            prop_assert_eq!(counted as u64, held.bytes());
            prop_assert_eq!(budget.held(), held.bytes());
            for (piece, is_held) in model.into_iter().enumerate() {
                let first = piece << PIECE_BITS;
                prop_assert_eq!(held.ranges(length).any(|range| range.contains(&first)), is_held);
            }
            drop(held);
            prop_assert_eq!(budget.held(), 0);
        }
    }

    #[test]
    fn test_a_spent_budget_refuses_and_keeps_its_count() {
        let budget = Arc::new(HostBudget::new("max_host_bytes", Some(100_000)));
        let mut held = Held::charged_to(Arc::clone(&budget));
        held.claim(5..10, 10 << 20).expect("one piece");
        let shortage = held.claim(1 << 20..(1 << 20) + 1, 10 << 20).expect_err("a second piece");
        let text = shortage.of("tensor `x`").to_string();
        for part in ["tensor `x`", "65536 bytes", "100000", "max_host_bytes"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!((budget.held(), held.bytes()), (1 << PIECE_BITS, 1 << PIECE_BITS));
    }

    #[test]
    fn test_without_a_limit_a_share_of_what_is_free_is_one() {
        let budget = HostBudget::default();
        assert_eq!(budget.check(UNSEEN), Ok(()));
        assert!(matches!(budget.check(u64::MAX), Err(Shortage::Budget { limit, .. }) if limit > UNSEEN));
    }
}
