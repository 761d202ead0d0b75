//! Bodies of a loop that follow from those before them, to the picosecond.
//!
//! What runs later depends on a state: moments of streams, queues and engines, the ends that edges of the loop reach back to,
//! and the shares of servers. Let F be what a body makes of it.
//!
//! 1. F is made of `latest of` and `plus a constant`, so that each moment is a convex function of the state, but for servers.
//!    A server is no such function, but all inputs later by a span give results later by that span. So where its shares,
//!    and the moments at which it is asked for more, move by one span a body, so does all it says.
//! 2. Two bodies are run from a state y(0): if y(1) and y(2) are as far from each other as y(0) and y(1), moment by moment,
//!    the guess is that y(k) = y(0) + k r, each moment at a rate of its own, those of a server at one. Then F maps the line
//!    on itself at two points.
//! 3. F is run once more, at y(n) of the line, a body in full. If all that it gives is where the line has it, then F, as a convex
//!    function that is on a line at three points, is on it everywhere between; and y(k) is on the line by induction, for
//!    each body that was left out.
//!
//! 1. holds body by body in the order of the steps: up to a server's answer all moments are convex, what it is asked is on its
//!    line at three points and so between, hence its answer is as well, and what follows goes on from there. A transfer's start
//!    is the least of its engines' answers less their work, which are on their lines: concave, and on its own at three
//!    points. Edges to a stationary operand's release take the load's end, which is no later than the pass's. What is no
//!    moment, a table, blocks, queues, has to be the same at each end of a body.
//!
//! Without a current-step limit and classes of transfers, which nothing here is true of.

use super::rerun::Rerun;
use crate::timing::repetition::Repetition;
use crate::timing::server::{ServerStride, ServerTail};
use crate::timing::timeline::Constants;

/// Bodies that are watched at most before a loop is taken as one that does not go on alike, beside those that edges reach.
const WATCHED: usize = 64;
/// Bodies after which two, three and four of them are watched as one: what goes round may come back after some rounds.
const PATIENCE: usize = 24;
const TURNS: usize = 4;
/// Attempts at one loop.
const ATTEMPTS: usize = 4;

/// The state between two bodies, without servers and ends of steps.
struct Boundary {
    moments: Vec<u64>,
    constants: Constants,
    /// What servers had been asked by then.
    asked: usize,
}

/// Some bodies of a repetition as one.
#[derive(Clone, Copy)]
struct Body {
    turns: usize,
    steps: usize,
    /// How far back its edges go.
    reach: usize,
}

/// What a server was asked in a body.
#[derive(Clone, Copy)]
struct Load {
    /// How much later than in the body before.
    span: u64,
    /// The first moment at which a share could start.
    from: u64,
    shares: usize,
}

/// How a body goes on from the one before.
struct Line {
    moments: Vec<u64>,
    /// What each server was asked, if it was.
    loads: Vec<Option<Load>>,
}

impl Rerun<'_, '_> {
    /// Runs bodies of a repetition from a place on, and leaves out as many as go on alike. Returns the place where it
    /// stopped, and whether it may be worth while to go on with the repetition there.
    pub(super) fn skip(&mut self, repetition: Repetition, from: usize) -> (usize, bool) {
        self.watch(true);
        let reached = self.watch_bodies(repetition, from);
        self.watch(false);
        reached
    }

    fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
        self.timeline.watch(is_watched);
        self.asked.clear();
    }

    fn watch_bodies(&mut self, repetition: Repetition, from: usize) -> (usize, bool) {
        let Repetition { first, lag, end } = repetition;
        let mut at = from.max(first);
        let reach = self.flat.reach(at + lag..at + 2 * lag);
        let mut boundaries = vec![self.boundary()];
        let mut attempts = 0;
        while at + lag <= end && boundaries.len() <= WATCHED + reach / lag && attempts < ATTEMPTS {
            self.body(&mut at, lag, &mut boundaries);
            for turns in 1..=if boundaries.len() > PATIENCE { TURNS } else { 1 } {
                let body = Body { turns, steps: lag * turns, reach };
                let Some(line) = self.line(body, first, at, &boundaries) else { continue };
                attempts += 1;
                if let Some(reached) = self.leave_out(&line, body, repetition, &mut at, &mut boundaries) {
                    return (reached, true);
                }
                break;
            }
        }
        (at, false)
    }

    fn body(&mut self, at: &mut usize, steps: usize, boundaries: &mut Vec<Boundary>) {
        self.steps(*at..*at + steps);
        *at += steps;
        boundaries.push(self.boundary());
    }

    fn boundary(&mut self) -> Boundary {
        let mut moments = Vec::with_capacity(128);
        self.timeline.each_moment(&mut |moment| moments.push(*moment));
        Boundary { moments, constants: self.timeline.constants(), asked: self.asked.len() }
    }

    /// How the body that ends here goes on from the one before, if that goes on so from the one before it.
    fn line(&self, body: Body, first: usize, at: usize, boundaries: &[Boundary]) -> Option<Line> {
        let last = boundaries.len() - 1;
        let [one, two, three] = [2 * body.turns, body.turns, 0].map(|back| last.checked_sub(back));
        let (one, two, three) = (&boundaries[one?], &boundaries[two?], &boundaries[three?]);
        if one.constants != two.constants || two.constants != three.constants {
            return None;
        }
        let moments = rates(&one.moments, &two.moments, &three.moments)?;
        // The ends that its edges reach go on so too, as do those that they would reach from the body before.
        let far = body.reach.max(body.steps);
        let from = at.checked_sub(far)?;
        if from < first + 2 * body.steps {
            return None;
        }
        let goes_on = |column: &Vec<u64>| {
            let (newest, newer, older) =
                (&column[from..at], &column[from - body.steps..], &column[from - 2 * body.steps..]);
            let mut places = newest.iter().zip(newer).zip(older);
            places.all(|((newest, newer), older)| newest >= newer && newest - newer == newer.wrapping_sub(*older))
        };
        if !self.columns.iter().all(goes_on) {
            return None;
        }
        let loads = self.loads(one.asked..two.asked, two.asked..three.asked)?;
        Some(Line { moments, loads })
    }

    /// What servers were asked in a body, if each one was asked the same in the body before, and all of it one span sooner.
    fn loads(&self, older: std::ops::Range<usize>, newer: std::ops::Range<usize>) -> Option<Vec<Option<Load>>> {
        let mut loads: Vec<Option<Load>> = vec![None; self.timeline.servers().count()];
        let (older, newer) = (self.asked.get(older)?, self.asked.get(newer)?);
        if older.len() != newer.len() {
            return None;
        }
        for (&(other, before), &(server, from)) in older.iter().zip(newer) {
            let span = from.checked_sub(before)?;
            let load = loads.get_mut(usize::from(server))?.get_or_insert(Load { span, from, shares: 0 });
            if other != server || span != load.span {
                return None;
            }
            load.shares += 1;
            load.from = load.from.min(from);
        }
        Some(loads)
    }

    /// What servers that were asked in a body make of what comes next.
    fn tails(&self, loads: &[Option<Load>]) -> Option<Vec<Option<ServerTail>>> {
        let tail = |(server, load): (&crate::timing::server::Server, &Option<Load>)| match load {
            Some(load) => server.tail(load.from).map(Some),
            None => Some(None),
        };
        self.timeline.servers().zip(loads).map(tail).collect()
    }

    /// Leaves out as many bodies as it can, behind one more, and runs the one after them. Returns where it ends, if it did.
    fn leave_out(
        &mut self,
        line: &Line,
        body: Body,
        repetition: Repetition,
        at: &mut usize,
        boundaries: &mut Vec<Boundary>,
    ) -> Option<usize> {
        let bodies = |at: usize| (repetition.end - at) / body.steps;
        if bodies(*at) < 4 {
            return None;
        }
        // Servers are on their lines from here on, through both bodies that the line is drawn by.
        let mut tails = self.tails(&line.loads)?;
        let mut goes_on = None;
        for _ in 0..2 {
            (0..body.turns).for_each(|_| self.body(at, repetition.lag, boundaries));
            let line = self.line(body, repetition.first, *at, boundaries)?;
            let before = std::mem::replace(&mut tails, self.tails(&line.loads)?);
            goes_on = Some((strides(&before, &tails, &line.loads)?, line));
        }
        let (strides, line) = goes_on?;
        let loop_end = LoopEnd { at: *at, body, line, tails, strides, boundary: boundaries.last()? };
        let kept = self.timeline.clone();
        let asked = self.asked.len();
        let mut left_out = bodies(*at) - 1;
        while left_out > 0 {
            if let Some(reached) = self.land(&loop_end, left_out) {
                self.repeated += left_out * body.steps;
                return Some(reached);
            }
            self.timeline.clone_from(&kept);
            self.asked.truncate(asked);
            left_out /= 2;
        }
        None
    }

    /// Goes on as if so many bodies were done, and runs the one after them; None if that is not where the line has it, or
    /// beyond what a number holds.
    fn land(&mut self, end: &LoopEnd<'_>, left_out: usize) -> Option<usize> {
        let LoopEnd { at, body, line, tails, strides, boundary } = end;
        let (at, steps, times) = (*at, body.steps, left_out as u64);
        let moved = |times: u64| -> Option<Vec<u64>> {
            let moved = |(moment, rate): (&u64, &u64)| moment.checked_add(rate.checked_mul(times)?);
            boundary.moments.iter().zip(&line.moments).map(moved).collect()
        };
        let tails_after = |count: usize| -> Option<Vec<Option<ServerTail>>> {
            let moved = |(tail, stride): (&Option<ServerTail>, &Option<ServerStride>)| match (tail, stride) {
                (Some(tail), Some(stride)) => tail.moved(stride.times(count)?).map(Some),
                _ => Some(None),
            };
            tails.iter().zip(strides).map(moved).collect()
        };
        let (before, after) = (moved(times)?, moved(times + 1)?);
        let (tails_before, tails_after) = (tails_after(left_out)?, tails_after(left_out + 1)?);
        let columns: Vec<Vec<(u64, u64)>> =
            self.columns.iter().map(|column| lines(column, at, steps, times + 1)).collect::<Option<_>>()?;

        let mut moments = before.iter();
        self.timeline.each_moment(&mut |moment| {
            if let Some(moved) = moments.next() {
                *moment = *moved;
            }
        });
        for (server, tail) in self.timeline.servers_mut().zip(&tails_before) {
            if let Some(tail) = tail {
                server.move_on(tail);
            }
        }
        for (column, lines) in self.columns.iter_mut().zip(&columns) {
            for (time, places) in (1..).zip(column[at..at + left_out * steps].chunks_exact_mut(steps)) {
                places.iter_mut().zip(lines).for_each(|(place, (first, rate))| *place = first + rate * time);
            }
        }
        let from = at + left_out * steps;
        let asked = self.asked.len();
        self.steps(from..from + steps);

        let is_there = |(column, lines): (&Vec<u64>, &Vec<(u64, u64)>)| {
            let mut places = column[from..from + steps].iter().zip(lines);
            places.all(|(place, (first, rate))| *place == first + rate * (times + 1))
        };
        let before = asked - self.asked.len().checked_sub(asked)?.min(asked);
        let loads = self.loads(before..asked, asked..self.asked.len())?;
        let spans = loads.iter().zip(strides).all(|(load, stride)| match (load, stride) {
            (Some(load), Some(stride)) => Some(load.span) == stride.span.checked_mul(times + 1),
            (load, stride) => load.is_none() && stride.is_none(),
        });
        let tails = self.tails(&loads)?;
        let servers = tails.iter().zip(&tails_after).all(|pair| match pair {
            (Some(tail), Some(wanted)) => tail.is_alike(wanted),
            (tail, wanted) => tail.is_none() && wanted.is_none(),
        });
        let now = self.boundary();
        let is_on_line = spans
            && servers
            && self.columns.iter().zip(&columns).all(is_there)
            && now.moments == after
            && now.constants == boundary.constants
            && !self.timeline.is_doubtful();
        is_on_line.then_some(from + steps)
    }
}

/// Where bodies are left out, and how they go on from there.
struct LoopEnd<'b> {
    at: usize,
    body: Body,
    line: Line,
    tails: Vec<Option<ServerTail>>,
    strides: Vec<Option<ServerStride>>,
    boundary: &'b Boundary,
}

/// How far apart three are, moment by moment, if they are equally so.
fn rates(one: &[u64], two: &[u64], three: &[u64]) -> Option<Vec<u64>> {
    let rate = |((one, two), three): ((&u64, &u64), &u64)| {
        let rate = two.checked_sub(*one)?;
        (three.checked_sub(*two)? == rate).then_some(rate)
    };
    let is_whole = one.len() == two.len() && two.len() == three.len();
    if is_whole { one.iter().zip(two).zip(three).map(rate).collect() } else { None }
}

/// Of each server how it goes on, if that is all it does between two bodies.
fn strides(
    before: &[Option<ServerTail>],
    after: &[Option<ServerTail>],
    loads: &[Option<Load>],
) -> Option<Vec<Option<ServerStride>>> {
    let stride = |((before, after), load): ((&Option<ServerTail>, &Option<ServerTail>), &Option<Load>)| match (
        before, after, load,
    ) {
        (Some(before), Some(after), Some(load)) => {
            let stride = ServerStride { span: load.span, work: after.work_since(before), shares: load.shares };
            before.moved(stride)?.is_alike(after).then_some(Some(stride))
        }
        (None, None, None) => Some(None),
        _ => None,
    };
    before.iter().zip(after).zip(loads).map(stride).collect()
}

/// Of each place of the last body the moment, and how much later it is a body later; None if it is beyond what a number
/// holds after so many.
fn lines(column: &[u64], at: usize, steps: usize, times: u64) -> Option<Vec<(u64, u64)>> {
    let (older, newer) = (column.get(at - 2 * steps..at - steps)?, column.get(at - steps..at)?);
    let line = |(older, newer): (&u64, &u64)| {
        let rate = newer.checked_sub(*older)?;
        newer.checked_add(rate.checked_mul(times)?)?;
        Some((*newer, rate))
    };
    older.iter().zip(newer).map(line).collect()
}
