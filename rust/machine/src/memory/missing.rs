//! Elements of an operand that nothing wrote.

use std::ops::Range;

use super::resolve::Resolved;
use super::{bits, convert, lines};
use crate::storage::Shortage;
use crate::view::View;

/// Numbers of elements, in C order; neighbours are one range, so that a tensor of which nothing was written costs nothing.
#[derive(Debug, Default)]
pub(super) struct Missing {
    ranges: Vec<Range<usize>>,
    count: usize,
}

impl Missing {
    /// Those of an HBM operand of which some byte is not set; also the byte at which the first one starts.
    ///
    /// # Errors
    /// [`Shortage::Host`] where not even the list of them fits.
    pub(super) fn in_hbm(place: &Resolved, initialised: &[u64]) -> Result<(Self, Option<usize>), Shortage> {
        let mut missing = Self::default();
        let (mut first, mut outcome) = (None, Ok(()));
        lines::each_run(place, |number, run| {
            let mut at = run.start;
            while at < run.end && outcome.is_ok() {
                let (from, to) = match initialised.is_empty() {
                    true => (run.start, run.end),
                    false => {
                        let Some(clear) = bits::first_clear(initialised, at..run.end) else { break };
                        let from = run.start + (clear - run.start) / place.item * place.item;
                        let set = bits::first_set(initialised, from + place.item..run.end).unwrap_or(run.end);
                        (from, run.start + (set - run.start) / place.item * place.item)
                    }
                };
                first.get_or_insert(from);
                let element = |byte: usize| number + (byte - run.start) / place.item;
                outcome = missing.push(element(from)..element(to));
                at = to;
            }
        });
        outcome.map(|()| (missing, first))
    }

    /// Adds elements behind all others.
    pub(super) fn push(&mut self, range: Range<usize>) -> Result<(), Shortage> {
        self.count += range.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                let bytes = 2 * size_of_val(&self.ranges[..]) as u64;
                self.ranges.try_reserve(1).map_err(|_| Shortage::Host { bytes })?;
                self.ranges.push(range);
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts a value in place of each.
    pub(super) fn fill<T: Copy>(&self, values: &mut [T], value: T) {
        self.ranges.iter().for_each(|range| values[range.clone()].fill(value));
    }

    /// Puts what reading such an element gives in place of their codes.
    pub(super) fn patch(&self, codes: &mut [u8], view: &View) {
        let (item, code) = (view.dtype.size(), convert::unwritten(view).to_le_bytes());
        for range in &self.ranges {
            for element in codes[range.start * item..range.end * item].chunks_exact_mut(item) {
                element.copy_from_slice(&code[..item]);
            }
        }
    }
}
