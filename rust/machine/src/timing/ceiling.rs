//! The bandwidth of HBM as the cores of a chip share it.
//!
//! - **(choice)** A transfer draws its bytes between when it may begin and when its engines are done, as late as it can,
//!   and no faster than engines move them. What it cannot draw by then, because others before it drew all there is, it
//!   draws after, and ends later. Those that come sooner come first; a transfer that had its bandwidth keeps it.
//! - **(choice)** A collective draws in the same way, over its duration.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// What rounding may add to a rate, as a share of the ceiling.
const ROUNDING: f64 = 1e-9;

/// What is drawn over time: from when on how many bytes a picosecond, until the next.
#[derive(Clone, Debug)]
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
        (self.0.range(at.saturating_add(1)..).next().map(|(next, _)| *next), rate)
    }

    /// Drops what was before a moment.
    fn forget_before(&mut self, moment: u64) {
        let (_, rate) = self.from(moment);
        self.0 = self.0.split_off(&moment);
        self.0.entry(moment).or_insert(rate);
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

    /// A ceiling of which as much is drawn as of this one.
    pub(crate) fn fork(&self) -> Self {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { ceiling: self.ceiling, drawn: Arc::new(Mutex::new(drawn)) }
    }

    /// Drops what was drawn before a moment: nobody draws there any more.
    pub(crate) fn forget_before(&self, moment: u64) {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).forget_before(moment);
    }

    /// What is drawn: from when on how many bytes a picosecond.
    pub(crate) fn rates(&self) -> Vec<(u64, f64)> {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.0.iter().map(|(at, rate)| (*at, *rate)).collect()
    }

    /// Has so much drawn and nothing else.
    pub(crate) fn set_rates(&self, rates: Vec<(u64, f64)>) {
        *self.drawn.lock().unwrap_or_else(PoisonError::into_inner) = Rates(rates.into_iter().collect());
    }
}

/// What one core draws of a ceiling, in time that begins at an origin of its own. A clone knows how much the core had drawn
/// when it was made, and draws for it too.
#[derive(Debug)]
pub(crate) struct HbmDraw {
    shared: HbmCeiling,
    own: Arc<Mutex<OwnDraw>>,
    origin: u64,
    /// Pieces that there were.
    mark: usize,
}

#[derive(Clone, Debug, Default)]
struct OwnDraw {
    rates: Rates,
    pieces: Vec<(Range<u64>, f64)>,
    /// Of each draw, when it was done and in how many pieces.
    log: Vec<(u64, usize)>,
    /// What draws that were made before are told instead of drawing again, and how many pieces that were.
    replayed: std::vec::IntoIter<(u64, usize)>,
    past: usize,
}

/// All that a core drew of a ceiling, and what each draw was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedDraw {
    rates: Vec<(u64, f64)>,
    pieces: Vec<(u64, u64, f64)>,
    log: Vec<(u64, usize)>,
}

impl SavedDraw {
    /// Whether a core can have drawn so, until some moment at the latest.
    pub(crate) fn is_sound(&self, latest: u64) -> bool {
        self.log.iter().all(|(end, _)| *end <= latest)
            && self.pieces.iter().all(|(start, end, _)| start <= end && *end <= latest)
    }
}

impl OwnDraw {
    fn count(&self) -> usize {
        self.past.saturating_add(self.pieces.len())
    }

    fn add(&mut self, all: &mut Rates, span: Range<u64>, rate: f64) {
        all.add(span.clone(), rate);
        self.rates.add(span.clone(), rate);
        self.pieces.push((span, rate));
    }
}

impl Clone for HbmDraw {
    fn clone(&self) -> Self {
        let mark = self.own.lock().unwrap_or_else(PoisonError::into_inner).count();
        Self { shared: self.shared.clone(), own: Arc::clone(&self.own), origin: self.origin, mark }
    }
}

impl HbmDraw {
    pub(crate) fn of(shared: &HbmCeiling, origin: u64) -> Self {
        Self { shared: shared.clone(), own: Arc::default(), origin, mark: 0 }
    }

    /// The same core on a copy of the ceiling.
    pub(crate) fn fork(&self, ceiling: &HbmCeiling) -> Self {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { shared: ceiling.clone(), own: Arc::new(Mutex::new(own)), origin: self.origin, mark: self.mark }
    }

    /// What it draws of.
    #[cfg(test)]
    pub(crate) fn ceiling(&self) -> &HbmCeiling {
        &self.shared
    }

    /// As much drawn as here, by the core that `other` draws for.
    pub(crate) fn beside(&self, other: &HbmDraw) -> Self {
        Self { mark: self.mark, ..other.clone() }
    }

    pub(crate) fn save(&self) -> SavedDraw {
        let OwnDraw { rates, pieces, log, .. } = &*self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = rates.0.iter().map(|(at, rate)| (*at, *rate)).collect();
        let pieces = pieces.iter().map(|(span, rate)| (span.start, span.end, *rate)).collect();
        SavedDraw { rates, pieces, log: log.clone() }
    }

    /// Tells the draws that come what they were told before.
    pub(crate) fn replay(&mut self, saved: &SavedDraw) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).replayed = saved.log.clone().into_iter();
    }

    /// Has drawn what was saved; false unless all of that was replayed and nothing else.
    pub(crate) fn resume(&mut self, saved: SavedDraw) -> bool {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let is_replayed = own.replayed.next().is_none()
            && own.log == saved.log
            && own.past == saved.pieces.len()
            && own.pieces.is_empty();
        let SavedDraw { rates, pieces, .. } = saved;
        own.rates = Rates(rates.into_iter().collect());
        own.pieces = pieces.into_iter().map(|(start, end, rate)| (start..end, rate)).collect();
        own.past = 0;
        is_replayed
    }

    /// Gives back what the core drew since a clone was made.
    pub(crate) fn go_back(&mut self, to: &HbmDraw) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.shared.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        own.past = own.past.min(to.mark);
        let kept = to.mark.saturating_sub(own.past).min(own.pieces.len());
        for (span, rate) in own.pieces.split_off(kept) {
            all.add(span.clone(), -rate);
            own.rates.add(span, -rate);
        }
    }

    /// Draws bytes from a moment on, at most so many a picosecond; the core alone has done so at `end`. Returns when it has.
    pub(crate) fn draw(&mut self, ready: u64, end: u64, bytes: u64, pace: f64) -> u64 {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((done, pieces)) = own.replayed.next() {
            own.past = own.past.saturating_add(pieces);
            own.log.push((done, pieces));
            return end.max(done);
        }
        let before = own.pieces.len();
        let [ready, until] = [ready, end].map(|at| at.saturating_add(self.origin));
        let at = self.draw_within(&mut own, ready, until, bytes, pace);
        let done = end.max(at.saturating_sub(self.origin));
        let pieces = own.pieces.len() - before;
        own.log.push((done, pieces));
        done
    }

    /// As [`HbmDraw::draw`], in the time that all cores have in common.
    fn draw_within(&self, own: &mut OwnDraw, ready: u64, end: u64, bytes: u64, pace: f64) -> u64 {
        let ceiling = self.shared.ceiling;
        let least = ceiling * ROUNDING;
        let mut drawn = self.shared.drawn.lock().unwrap_or_else(PoisonError::into_inner);
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
        while left >= 1.0 && at < u64::MAX {
            let (next, all) = drawn.from(at);
            let free = (ceiling - all).min(pace);
            if free > least {
                let done = at.saturating_add((left / free).ceil() as u64).max(at.saturating_add(1));
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
            let mut cores = [0; 3].map(|_| HbmDraw::of(&ceiling, 0));
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
                prop_assert_eq!(HbmDraw::of(&ceiling, 0).draw(ready, ready + span, span, 1.0), ready + span);
            }
        }
    }

    #[test]
    fn test_what_is_given_back_is_free_again() {
        let ceiling = HbmCeiling::new(1000.0);
        let mut cores = [0, 1].map(|_| HbmDraw::of(&ceiling, 0));
        let before = cores[0].clone();
        assert_eq!(cores[0].draw(0, 100, 100, 1.0), 100);
        cores[0].go_back(&before);
        assert_eq!(cores[1].draw(0, 100, 100, 1.0), 100);
        assert_eq!(cores[0].draw(0, 100, 50, 1.0), 150);
    }

    #[test]
    fn test_two_at_full_pace_take_twice_as_long() {
        let ceiling = HbmCeiling::new(1000.0);
        let mut cores = [0, 1].map(|_| HbmDraw::of(&ceiling, 0));
        assert_eq!(cores.each_mut().map(|core| core.draw(0, 100, 100, 1.0)), [100, 200]);
    }
}
