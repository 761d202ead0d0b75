//! A rate that shares take in program order.
//!
//! What a server says of shares that all come later by a span comes later by that span: it is made of differences alone. So
//! a server whose shares, and those it is asked about, have moved by one span can be moved as well, with [`Server::move_on`],
//! without being asked about those in between.

/// A rate shared in program order: counted from any moment, a share is done no sooner than the work of all shares up
/// to it in the program that start at that moment or later.
///
/// Raising a start never lowers what this gives: it is the largest, over sets of shares, of the earliest start in the
/// set plus the work of the set. At its rate the server can always be done with each share by then, working on those
/// first that are due first; when it does is
/// [`super::schedule`]'s, and the start kept here is the latest that would do.
#[derive(Clone, Debug)]
pub(super) struct Server {
    total: u64,
    /// The shares that start last, by their start.
    shares: Vec<Admitted>,
    /// Largest lead of the shares dropped.
    dropped: u64,
    /// Shares that it has room for: fewer than [`WINDOW`] while others, which come before all that are here, are not.
    room: usize,
    /// All shares that start at this moment or later are here; those before may not be.
    known_from: u64,
    is_doubtful: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admitted {
    start: u64,
    /// Work of all shares that start before.
    before: u64,
    /// Largest `start - before` up to this share: with the total, when work counted from a start is done.
    lead: u64,
}

/// Shares kept at most. Half are dropped beyond: a share that could start before those has to come after them, so that
/// this many shares on one engine are the most that a transfer can overtake. **(choice)**
const WINDOW: usize = 512;

/// Shares that may be dropped at once, and those that never are.
const HALF: usize = WINDOW / 2;

impl Default for Server {
    fn default() -> Self {
        Self { total: 0, shares: Vec::new(), dropped: 0, room: WINDOW, known_from: 0, is_doubtful: false }
    }
}

impl Server {
    /// When a share that can start at a moment and takes some time alone is done.
    pub(super) fn admit(&mut self, ready: u64, work: u64) -> u64 {
        let below = self.position(ready);
        if below == 0 {
            self.is_doubtful |= ready < self.known_from;
        }
        let before = self.shares.get(below).map_or(self.total, |share| share.before);
        let lead = self.lead(below);
        self.total = self.total.saturating_add(work);
        let done = ready.saturating_add(self.total - before).max(lead.saturating_add(self.total));
        self.insert(done - work, work);
        done
    }

    /// Index of the first share that starts at a moment or later: most start last of all, or among the last.
    fn position(&self, start: u64) -> usize {
        let count = self.shares.len();
        if self.shares.last().is_none_or(|last| last.start < start) {
            return count;
        }
        let mut reach = 2;
        while reach <= count && self.shares[count - reach].start >= start {
            reach *= 2;
        }
        let low = count.saturating_sub(reach);
        low + self.shares[low..count - reach / 2].partition_point(|share| share.start < start)
    }

    fn lead(&self, below: usize) -> u64 {
        below.checked_sub(1).map_or(self.dropped, |index| self.shares[index].lead)
    }

    fn insert(&mut self, start: u64, work: u64) {
        if self.shares.len() == self.room {
            self.drop_half();
        }
        let index = self.position(start);
        let before = self.shares.get(index).map_or(self.total - work, |share| share.before);
        let mut lead = self.lead(index).max(start.saturating_sub(before));
        if index == self.shares.len() {
            return self.shares.push(Admitted { start, before, lead });
        }
        self.shares.insert(index, Admitted { start, before, lead });
        for share in &mut self.shares[index + 1..] {
            share.before = share.before.saturating_add(work);
            lead = lead.max(share.start.saturating_sub(share.before));
            share.lead = lead;
        }
    }

    /// Those that are not here go first: they come before all that are.
    fn drop_half(&mut self) {
        let absent = WINDOW - self.room;
        let present = HALF.saturating_sub(absent);
        if let Some(last) = present.checked_sub(1) {
            self.dropped = self.shares[last].lead;
            self.shares.drain(..present);
        }
        self.room = (self.room + HALF).min(WINDOW);
        if self.room == WINDOW {
            self.known_from = 0;
        }
    }
}

/// What a server makes of shares that could start at a moment or later.
#[derive(Clone, Debug)]
pub(super) struct ServerTail {
    total: u64,
    /// Largest lead of the shares before.
    lead: u64,
    shares: Vec<Admitted>,
    /// Shares that the server holds in all, those that are not here included.
    held: usize,
    from: u64,
}

/// How far a server goes between two moments: all starts by one span, and what it was asked about meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerStride {
    pub(super) span: u64,
    pub(super) work: u64,
    pub(super) shares: usize,
}

impl ServerStride {
    /// So many of these.
    pub(super) fn times(self, count: usize) -> Option<Self> {
        let Self { span, work, shares } = self;
        let times = count as u64;
        Some(Self {
            span: span.checked_mul(times)?,
            work: work.checked_mul(times)?,
            shares: shares.checked_mul(count)?,
        })
    }
}

impl ServerTail {
    /// Later by a stride.
    pub(super) fn moved(&self, stride: ServerStride) -> Option<Self> {
        let ServerStride { span, work, shares } = stride;
        // Leads are starts without the work before them.
        let lead = |lead: u64| lead.checked_add(span)?.checked_sub(work);
        let moved = |share: &Admitted| {
            let (start, before) = (share.start.checked_add(span)?, share.before.checked_add(work)?);
            Some(Admitted { start, before, lead: lead(share.lead)? })
        };
        let count = self.held.checked_add(shares)?;
        Some(Self {
            total: self.total.checked_add(work)?,
            lead: lead(self.lead)?,
            shares: self.shares.iter().map(moved).collect::<Option<_>>()?,
            held: if count <= WINDOW { count } else { count - HALF * (count - WINDOW).div_ceil(HALF) },
            from: self.from.checked_add(span)?,
        })
    }

    /// Whether another one says the same of every share that could start from its moment on.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        (self.total, self.lead, self.from) == (other.total, other.lead, other.from) && self.shares == other.shares
    }

    /// What it was asked about since another one was taken.
    pub(super) fn work_since(&self, other: &Self) -> u64 {
        self.total.saturating_sub(other.total)
    }
}

impl Server {
    /// What it makes of shares that could start at a moment or later, if it knows and never drops what that takes.
    pub(super) fn tail(&self, from: u64) -> Option<ServerTail> {
        let first = self.position(from);
        let shares = &self.shares[first..];
        if from < self.known_from || shares.len() > HALF {
            return None;
        }
        let held = self.shares.len() + WINDOW - self.room;
        Some(ServerTail { total: self.total, lead: self.lead(first), shares: shares.to_vec(), held, from })
    }

    /// Becomes what it would be after shares which left it with such a tail.
    pub(super) fn move_on(&mut self, tail: &ServerTail) {
        let absent = tail.held.saturating_sub(tail.shares.len());
        self.total = tail.total;
        self.dropped = tail.lead;
        self.shares.clone_from(&tail.shares);
        self.room = WINDOW.saturating_sub(absent);
        self.known_from = if absent == 0 { 0 } else { tail.from };
    }

    /// Whether it was asked about a share that could start before those that it has since it was moved on: what it said may
    /// be wrong.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(shares: &[(u64, u64)]) -> Vec<u64> {
        let mut server = Server::default();
        shares.iter().map(|&(ready, work)| server.admit(ready, work)).collect()
    }

    #[test]
    fn test_a_share_is_found_wherever_it_is() {
        for count in 0..40u64 {
            let shares = (0..count).map(|number| Admitted { start: number / 2 * 2, before: 0, lead: 0 });
            let server = Server { shares: shares.collect(), ..Server::default() };
            for start in 0..count + 2 {
                let expected = server.shares.iter().take_while(|share| share.start < start).count();
                assert_eq!(server.position(start), expected, "{start} of {count}");
            }
        }
    }

    proptest! {
        #[test]
        fn test_a_server_is_the_latest_over_sets_of_shares(shares in prop::collection::vec((0u64..500, 0u64..50), 1..40)) {
            let done = run(&shares);
            for (last, &(ready, work)) in shares.iter().enumerate() {
                let starts: Vec<u64> = (0..last).map(|index| done[index] - shares[index].1).collect();
                let counted_from = |moment: u64| {
                    let later = (0..last).filter(|&index| starts[index] >= moment);
                    moment + later.map(|index| shares[index].1).sum::<u64>() + work
                };
                let moments = starts.iter().copied().filter(|&start| start <= ready).chain([ready]);
                prop_assert_eq!(done[last], moments.map(counted_from).max().unwrap_or(0));
            }
        }

        #[test]
        fn test_a_server_can_keep_what_it_promises(shares in prop::collection::vec((0u64..500, 0u64..50), 1..40)) {
            let done = run(&shares);
            for &(from, _) in &shares {
                for &until in &done {
                    let within = (0..shares.len()).filter(|&index| shares[index].0 >= from && done[index] <= until);
                    let work: u64 = within.map(|index| shares[index].1).sum();
                    prop_assert!(work <= until.saturating_sub(from), "{} of work in {}..{}", work, from, until);
                }
            }
        }

        #[test]
        fn test_a_later_share_makes_no_other_earlier(
            shares in prop::collection::vec((0u64..50_000, 0u64..50), 600..900),
            at in 0usize..600,
            by in 0u64..50_000,
        ) {
            let mut late = shares.clone();
            late[at].0 += by;
            prop_assert!(run(&shares).iter().zip(run(&late)).all(|(before, after)| *before <= after));
        }
    }

    /// Bodies of a loop: each share as far behind the start of its body as in the others, with as much work.
    fn asked(bodies: std::ops::Range<u64>, span: u64, body: &[(u64, u64)]) -> Vec<(u64, u64)> {
        bodies.flat_map(|number| body.iter().map(move |&(ready, work)| (number * span + ready, work))).collect()
    }

    proptest! {
        /// What it says of shares that it does not doubt is what the one says that was asked about all.
        #[test]
        fn test_a_server_that_moved_on_is_the_one_that_was_asked(
            body in prop::collection::vec((0u64..400, 0u64..20), 1..8),
            slack in 0u64..60,
            (before, skipped) in (4u64..60, 1u64..300),
            after in prop::collection::vec((any::<bool>(), 0u64..3000, 0u64..40), 1..1500),
        ) {
            let work: u64 = body.iter().map(|share| share.1).sum();
            let span = work + slack + 1;
            let ask = |server: &mut Server, shares: Vec<(u64, u64)>| {
                shares.into_iter().map(|(ready, work)| server.admit(ready, work)).collect::<Vec<_>>()
            };
            let mut full = Server::default();
            ask(&mut full, asked(0..before, span, &body));
            let first = body.iter().map(|share| share.0).min().unwrap();
            let one = full.tail((before - 1) * span + first);
            ask(&mut full, asked(before..before + 1, span, &body));
            let other = full.tail(before * span + first);
            let stride = ServerStride { span, work, shares: body.len() };
            let (Some(one), Some(other)) = (one, other) else { return Ok(()) };
            let is_regular = one.moved(stride).is_some_and(|moved| moved.is_alike(&other));
            prop_assume!(is_regular);

            let mut moved = full.clone();
            let tail = other.moved(stride.times(skipped as usize).unwrap()).unwrap();
            moved.move_on(&tail);
            ask(&mut full, asked(before + 1..before + 1 + skipped, span, &body));
            prop_assert_eq!(full.shares.len(), moved.shares.len() + WINDOW - moved.room);
            let now = (before + skipped) * span;
            let mut doubted = 0;
            for (is_old, back, work) in after {
                let ready = if is_old { now.saturating_sub(back * 8) } else { now + back };
                let (said, wanted) = (moved.admit(ready, work), full.admit(ready, work));
                if moved.is_doubtful() {
                    doubted += 1;
                    break;
                }
                prop_assert_eq!(said, wanted);
                prop_assert_eq!(full.shares.len(), moved.shares.len() + WINDOW - moved.room);
            }
            prop_assert!(doubted == 0 || moved.known_from > 0);
        }
    }

    #[test]
    fn test_shares_before_those_that_are_known_are_doubted() {
        let body = [(0, 10), (5, 10)];
        let mut full = Server::default();
        asked(0..10, 40, &body).into_iter().for_each(|(ready, work)| _ = full.admit(ready, work));
        let mut moved = full.clone();
        let stride = ServerStride { span: 40, work: 20, shares: 2 };
        moved.move_on(&full.tail(360).unwrap().moved(stride.times(100).unwrap()).unwrap());
        asked(10..110, 40, &body).into_iter().for_each(|(ready, work)| _ = full.admit(ready, work));
        for back in [0, 100, 300] {
            let (mut moved, mut full) = (moved.clone(), full.clone());
            assert_eq!(moved.admit(4360 + back, 7), full.admit(4360 + back, 7));
            assert!(!moved.is_doubtful());
        }
        moved.admit(4359, 7);
        assert!(moved.is_doubtful());

        // When those that were not there would be gone, what comes before all is behind them, and nothing is in doubt.
        let mut moved = full.clone();
        moved.move_on(&full.tail(4360).unwrap().moved(stride.times(1000).unwrap()).unwrap());
        asked(110..1110, 40, &body).into_iter().for_each(|(ready, work)| _ = full.admit(ready, work));
        let far = 1_000_000;
        (0..WINDOW as u64).for_each(|number| assert_eq!(moved.admit(far + number, 1), full.admit(far + number, 1)));
        assert_eq!(moved.admit(0, 3), full.admit(0, 3));
        assert!(!moved.is_doubtful());
    }
}
