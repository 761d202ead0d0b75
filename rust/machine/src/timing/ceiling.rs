//! The bandwidth of HBM as the cores of a chip share it.
//!
//! - **(choice)** A transfer draws its bytes between when it may begin and when its engines are done, as late as it can,
//!   and no faster than engines move them. What it cannot draw by then, because others before it drew all there is, it
//!   draws after, and ends later. Those that come sooner come first; a transfer that had its bandwidth keeps it.
//! - **(choice)** A collective draws in the same way, over its duration.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What rounding may add to a rate, as a share of the ceiling.
const ROUNDING: f64 = 1e-9;

/// What is drawn over time: from when on how many bytes a picosecond, until the next.
#[derive(Debug)]
struct Rates(BTreeMap<u64, f64>);

impl Default for Rates {
    fn default() -> Self {
        Self(BTreeMap::from([(0, 0.0)]))
    }
}

impl Rates {
    /// The stretch of one rate that ends at a moment or after and starts before it.
    fn before(&self, at: u64) -> (u64, f64) {
        self.0.range(..at).next_back().map_or((0, 0.0), |(start, rate)| (*start, *rate))
    }

    /// The rate at a moment, and until when it holds.
    fn from(&self, at: u64) -> (Option<u64>, f64) {
        let rate = self.0.range(..=at).next_back().map_or(0.0, |(_, rate)| *rate);
        (self.0.range(at + 1..).next().map(|(next, _)| *next), rate)
    }

    fn add(&mut self, span: Range<u64>, rate: f64) {
        for at in [span.start, span.end] {
            let (_, before) = self.from(at);
            self.0.entry(at).or_insert(before);
        }
        self.0.range_mut(span).for_each(|(_, held)| *held += rate);
    }
}

/// What is drawn of a ceiling; clones are one.
#[derive(Clone, Debug)]
pub struct HbmCeiling {
    /// Bytes a picosecond.
    ceiling: f64,
    drawn: Arc<Mutex<Rates>>,
}

impl HbmCeiling {
    /// Nothing drawn yet of so many gigabytes a second.
    pub fn new(gigabytes_per_second: f64) -> Self {
        Self { ceiling: gigabytes_per_second / 1e3, drawn: Arc::default() }
    }
}

/// What one core draws of a ceiling. A clone knows how much the core had drawn when it was made, and draws for it too.
#[derive(Debug)]
pub(crate) struct HbmDraw {
    shared: HbmCeiling,
    own: Arc<Mutex<OwnDraw>>,
    /// Pieces that there were.
    mark: usize,
}

#[derive(Debug, Default)]
struct OwnDraw {
    rates: Rates,
    pieces: Vec<(Range<u64>, f64)>,
}

impl OwnDraw {
    fn add(&mut self, all: &mut Rates, span: Range<u64>, rate: f64) {
        all.add(span.clone(), rate);
        self.rates.add(span.clone(), rate);
        self.pieces.push((span, rate));
    }
}

impl Clone for HbmDraw {
    fn clone(&self) -> Self {
        let mark = self.own.lock().unwrap_or_else(PoisonError::into_inner).pieces.len();
        Self { shared: self.shared.clone(), own: Arc::clone(&self.own), mark }
    }
}

impl HbmDraw {
    pub(crate) fn of(shared: &HbmCeiling) -> Self {
        Self { shared: shared.clone(), own: Arc::default(), mark: 0 }
    }

    /// Gives back what the core drew since a clone was made.
    pub(crate) fn go_back(&mut self, to: &HbmDraw) {
        let mut all = self.shared.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        for (span, rate) in own.pieces.split_off(to.mark) {
            all.add(span.clone(), -rate);
            own.rates.add(span, -rate);
        }
    }

    /// Draws bytes from a moment on, at most so many a picosecond; the core alone has done so at `end`. Returns when it has.
    pub(crate) fn draw(&mut self, ready: u64, end: u64, bytes: u64, pace: f64) -> u64 {
        let ceiling = self.shared.ceiling;
        let least = ceiling * ROUNDING;
        let mut drawn = self.shared.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Less than a byte is what rounding left.
        let mut left = bytes as f64;
        // Its own engines are busy with others at times; where that leaves too little, the core's promise still holds.
        for minds_own in [true, false] {
            let mut until = end;
            while until > ready && left >= 1.0 {
                let ((start, all), (own_start, held)) = (drawn.before(until), own.rates.before(until));
                let from = if minds_own { start.max(own_start) } else { start }.max(ready);
                let free = (ceiling - all).min(if minds_own { pace - held } else { ceiling });
                if free > least {
                    let span = (until - from) as f64;
                    let rate = free.min(left / span);
                    // As late as it can: at the full rate, in the last part of the stretch.
                    let from =
                        if rate < free { until - ((left / free).ceil() as u64).clamp(1, until - from) } else { from };
                    let rate = free.min(left / (until - from) as f64);
                    own.add(&mut drawn, from..until, rate);
                    left -= rate * (until - from) as f64;
                }
                until = from;
            }
        }
        let mut at = end;
        while left >= 1.0 {
            let (next, all) = drawn.from(at);
            let free = (ceiling - all).min(pace);
            if free > least {
                let done = at.saturating_add((left / free).ceil() as u64).max(at + 1);
                let until = next.map_or(done, |next| next.min(done));
                let rate = free.min(left / (until - at) as f64);
                own.add(&mut drawn, at..until, rate);
                left -= rate * (until - at) as f64;
                at = until;
            } else {
                let Some(next) = next else { break };
                at = next;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn test_the_ceiling_is_never_passed_and_nothing_is_lost(
            draws in prop::collection::vec((0u64..1000, 1u64..300, 1u64..5000, 0..3usize), 1..40),
        ) {
            let ceiling = HbmCeiling::new(8000.0);
            let mut cores = [0; 3].map(|_| HbmDraw::of(&ceiling));
            let (mut sum, mut draws_made) = (0, 0);
            for (ready, span, bytes, core) in draws {
                let end = ready + span.max(bytes / 4 + 1);
                let done = cores[core].draw(ready, end, bytes, 4.0);
                prop_assert!(done >= end);
                sum += bytes;
                draws_made += 1;
            }
            let drawn = ceiling.drawn.lock().expect("a ceiling");
            let times: Vec<_> = drawn.0.iter().map(|(at, rate)| (*at, *rate)).collect();
            prop_assert!(times.iter().all(|(_, rate)| *rate <= 8.0 * (1.0 + 1e-6)));
            let moved: f64 = times.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum();
            prop_assert!((moved - sum as f64).abs() <= f64::from(draws_made) + 1e-6 * sum as f64);
        }

        #[test]
        fn test_what_stays_below_the_ceiling_is_not_slowed(
            draws in prop::collection::vec((0u64..1000, 1u64..300), 1..8),
        ) {
            let ceiling = HbmCeiling::new(8000.0);
            for (ready, span) in draws {
                prop_assert_eq!(HbmDraw::of(&ceiling).draw(ready, ready + span, span, 1.0), ready + span);
            }
        }
    }

    #[test]
    fn test_what_is_given_back_is_free_again() {
        let ceiling = HbmCeiling::new(1000.0);
        let mut cores = [0, 1].map(|_| HbmDraw::of(&ceiling));
        let before = cores[0].clone();
        assert_eq!(cores[0].draw(0, 100, 100, 1.0), 100);
        cores[0].go_back(&before);
        assert_eq!(cores[1].draw(0, 100, 100, 1.0), 100);
        assert_eq!(cores[0].draw(0, 100, 50, 1.0), 150);
    }

    #[test]
    fn test_two_at_full_pace_take_twice_as_long() {
        let ceiling = HbmCeiling::new(1000.0);
        let mut cores = [0, 1].map(|_| HbmDraw::of(&ceiling));
        assert_eq!(cores.each_mut().map(|core| core.draw(0, 100, 100, 1.0)), [100, 200]);
    }
}
