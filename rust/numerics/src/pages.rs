//! Memory in huge pages, kept for the next to ask for as much.
//!
//! The system clears a page when it is first written, which takes as long as a cast of what it holds, and gives memory back
//! to it as soon as an array of 32 MiB or more is dropped. Results in a loop are as large each time, so a few mappings stay.

use std::sync::{Mutex, OnceLock, TryLockError};

use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::par;

/// What the system maps at a time where memory is asked for in large pieces, clearing it on the first write. Operands are
/// walked in panels, each on pages of its own, and finding those costs a twentieth of a product.
pub(crate) const HUGE_PAGE: usize = 1 << HUGE_PAGE_BITS;
const HUGE_PAGE_BITS: u32 = 21;

/// Variable that says how many MiB of mappings are kept when nobody uses them.
const KEPT_VARIABLE: &str = "TRN3_KEPT_MIB";

/// What it is if it is not set: the results of a loop over arrays of 64 MiB, or one of 256.
const KEPT_MIB: usize = 256;

/// A mapping may be longer than what is asked for by one part in so many: what is beyond is held for nothing.
const SPARE: usize = 4;

/// Mappings that nobody uses, the one that waits longest first.
static SHELF: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Memory that begins on a huge page, of at least so many bytes. Once dropped it is kept for the next, up to 256 MiB or what
/// the variable `TRN3_KEPT_MIB` says, the oldest going first.
///
/// ```
/// let mut pages = trn3_numerics::Pages::new(3 << 20)?.expect("the system has 4 MiB");
/// assert!(pages.bytes_mut().len() >= 3 << 20);
/// assert!(pages.bytes_mut().as_ptr().addr().is_multiple_of(1 << 21));
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
#[derive(Debug)]
pub struct Pages {
    /// `None` once it is dropped.
    mapping: Option<MmapMut>,
}

impl Pages {
    /// Whether so many bytes fill their pages: not where more than a fifth would be held for nothing.
    pub fn suit(bytes: usize) -> bool {
        bytes.checked_next_multiple_of(HUGE_PAGE).is_some_and(|whole| whole - bytes <= bytes / SPARE)
    }

    /// At least so many bytes, all mapped, holding what they happen to hold. `None` where the system refuses them.
    ///
    /// # Errors
    /// [`Error::Interrupted`], and [`Error::Value`] when `TRN3_KEPT_MIB` is not a whole number or `TRN3_NUM_THREADS` is
    /// wrong.
    pub fn new(bytes: usize) -> Result<Option<Self>> {
        let Some(needed) = bytes.max(1).checked_next_multiple_of(HUGE_PAGE) else { return Ok(None) };
        let most = needed + needed / SPARE;
        let kept = with_shelf(|shelf| {
            let fits = |mapping: &MmapMut| (needed..=most).contains(&usable(mapping));
            let best = (0..shelf.len()).filter(|&at| fits(&shelf[at])).min_by_key(|&at| usable(&shelf[at]));
            best.map(|at| shelf.remove(at))
        });
        if let Some(mapping) = kept.flatten() {
            return Ok(Some(Self { mapping: Some(mapping) }));
        }
        // Before anything is mapped: dropping has no way to say so.
        kept_bytes()?;
        let Some(mapping) = map(needed).or_else(|| {
            with_shelf(Vec::clear);
            map(needed)
        }) else {
            return Ok(None);
        };
        let mut pages = Self { mapping: Some(mapping) };
        touch(pages.bytes_mut())?;
        Ok(Some(pages))
    }

    /// The memory, from a huge page's beginning on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.mapping {
            Some(mapping) => {
                let head = head(mapping);
                &mut mapping[head..]
            }
            None => &mut [],
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (Some(mapping), Ok(most)) = (self.mapping.take(), kept_bytes()) else { return };
        // What leaves the shelf is unmapped once it is free for others again: that takes the system a while.
        let gone = with_shelf(|shelf| {
            shelf.push(mapping);
            let mut held: usize = shelf.iter().map(|kept| kept.len()).sum();
            let over = shelf.iter().take_while(|kept| {
                let over = held > most;
                held -= kept.len();
                over
            });
            let count = over.count();
            shelf.drain(..count).collect::<Vec<_>>()
        });
        drop(gone);
    }
}

/// How many bytes of [`Pages`] that nobody uses are kept at most: 256 MiB, or what the variable `TRN3_KEPT_MIB` says.
///
/// # Errors
/// [`Error::Value`] when it is not a whole number of MiB.
pub fn kept_bytes() -> Result<usize> {
    static KEPT: OnceLock<Result<usize>> = OnceLock::new();
    KEPT.get_or_init(|| {
        let Ok(text) = std::env::var(KEPT_VARIABLE) else { return Ok(KEPT_MIB << 20) };
        let most = usize::MAX >> 20;
        match text.trim().parse::<usize>() {
            Ok(kept) if kept <= most => Ok(kept << 20),
            _ => Err(Error::value(
                KEPT_VARIABLE,
                format!("{text:?}"),
                format!("a whole number of MiB from 0 to {most} is needed"),
            )),
        }
    })
    .clone()
}

/// `None` while another thread is at the shelf, or was when this process was forked: who comes second does without.
fn with_shelf<R>(work: impl FnOnce(&mut Vec<MmapMut>) -> R) -> Option<R> {
    match SHELF.try_lock() {
        Ok(mut shelf) => Some(work(&mut shelf)),
        Err(TryLockError::Poisoned(poisoned)) => Some(work(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Bytes before the first huge page.
fn head(mapping: &MmapMut) -> usize {
    mapping.as_ptr().align_offset(HUGE_PAGE).min(mapping.len())
}

fn usable(mapping: &MmapMut) -> usize {
    (mapping.len() - head(mapping)) / HUGE_PAGE * HUGE_PAGE
}

/// So many bytes that begin on a huge page, or nothing where the system has none.
fn map(bytes: usize) -> Option<MmapMut> {
    let exact = MmapMut::map_anon(bytes).ok()?;
    let mapping = if usable(&exact) == bytes {
        exact
    } else {
        // Some systems let mappings begin anywhere. What is not written takes no memory.
        drop(exact);
        MmapMut::map_anon(bytes.checked_add(HUGE_PAGE)?).ok()?
    };
    #[cfg(target_os = "linux")]
    // A hint: a system without huge pages may refuse it, and the pages are good all the same.
    let _ = mapping.advise(memmap2::Advice::HugePage);
    Some(mapping)
}

/// Has the system map memory that was never written, on all threads.
///
/// Linux clears a huge page towards the place that is written first. Written from its beginning, as loops do, it is
/// cleared downwards, which CPUs are half as fast at as upwards: so each page is asked for by its last byte.
fn touch(fresh: &mut [u8]) -> Result<()> {
    par::for_each(fresh.chunks_exact_mut(HUGE_PAGE), |page| page[HUGE_PAGE - 1] = 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of the process are at the shelf too, so no test says what is on it: only that what was marked comes back.
    #[test]
    fn test_pages_are_kept_for_the_next_of_their_length() -> Result<()> {
        const ODD: usize = 37 * HUGE_PAGE;
        let mut addresses = Vec::new();
        for round in 0..8_u8 {
            let mut pages = Pages::new(ODD - 5)?.expect("the system has 74 MiB");
            let bytes = pages.bytes_mut();
            assert!(bytes.len() >= ODD && bytes.as_ptr().addr().is_multiple_of(HUGE_PAGE));
            addresses.push(bytes.as_ptr().addr());
            bytes[..ODD].fill(round);
            assert!(bytes[..ODD].iter().all(|&byte| byte == round));
        }
        assert!(addresses.windows(2).any(|pair| pair[0] == pair[1]), "{addresses:x?}");
        Ok(())
    }

    #[test]
    fn test_a_much_longer_mapping_is_not_given() -> Result<()> {
        drop(Pages::new(21 * HUGE_PAGE)?);
        let mut short = Pages::new(11 * HUGE_PAGE)?.expect("the system has 22 MiB");
        assert!(short.bytes_mut().len() < 21 * HUGE_PAGE);
        Ok(())
    }

    #[test]
    fn test_what_nobody_uses_is_at_most_what_may_be_kept() -> Result<()> {
        let most = kept_bytes()?;
        for pages in 20..40 {
            drop(Pages::new(pages * HUGE_PAGE)?);
            let held = with_shelf(|shelf| shelf.iter().map(|kept| kept.len()).sum::<usize>());
            assert!(held.is_none_or(|held| held <= most), "{held:?}");
        }
        Ok(())
    }

    #[test]
    fn test_little_more_than_a_page_does_not_suit() {
        let megabytes = [0, 1, 2, 3, 4, 5, 8, 9, 63].map(|count| Pages::suit(count << 20));
        assert_eq!(megabytes, [true, false, true, false, true, true, true, true, true]);
        assert!(!Pages::suit(usize::MAX));
    }

    #[test]
    fn test_more_than_there_is_is_refused() -> Result<()> {
        assert!(Pages::new(usize::MAX)?.is_none());
        assert!(Pages::new(1 << 60)?.is_none());
        Ok(())
    }
}
