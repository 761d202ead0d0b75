//! Rates after a change, found where they change and nowhere else.
//!
//! An allocation is max-min fair exactly if every stream has a bottleneck: a full resource on which no stream of its
//! class is at a higher level, and none of a lower class moves. So it is enough to find new levels for the streams that
//! began and for those whose bottleneck lost a stream, with all others as they are; then to look whether every stream at
//! the resources concerned still has its bottleneck; and to find anew, with the first ones, those that do not. What comes
//! out has a bottleneck for every stream, and only one allocation has.

use std::cmp::Reverse;

use super::network::{Network, RISING};
use super::{LOWEST_PRIORITY, TIE};

/// Levels and loads this near are equal when bottlenecks are looked for.
const SLACK: f64 = 1e-9;

/// The same where a resource is added to those that hold a stream back: stricter, so that it holds when looked at again.
const STRICT: f64 = 1e-10;

/// After so many attempts everything that hangs together is found anew at once.
const ATTEMPTS: usize = 12;

impl Network<'_> {
    /// Finds the rates that follow from what began and ended since the last time.
    pub(super) fn refill(&mut self, now: f64) {
        self.visit += 1;
        self.part.ports.clear();
        self.part.streams.clear();
        self.free_ports();
        for index in std::mem::take(&mut self.begun) {
            self.include(index);
        }
        for attempt in 0.. {
            if attempt == ATTEMPTS {
                self.include_all();
            }
            self.fill();
            self.find_wronged();
            if self.part.wronged.is_empty() {
                break;
            }
            for index in std::mem::take(&mut self.part.wronged) {
                self.include(index);
            }
        }
        self.settle(now);
        self.tidy();
    }

    /// Takes what ended from its resources; those they held back may rise.
    fn free_ports(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &resource in &touched {
            let streams = &self.streams;
            let port = &mut self.ports[resource as usize];
            port.users.retain(|user| streams[user.stream as usize].alive);
            if port.users.is_empty() {
                port.total = 0.0;
            }
            if port.holding == 0 {
                continue;
            }
            for at in 0..self.ports[resource as usize].users.len() {
                let index = self.ports[resource as usize].users[at].stream;
                if self.streams[index as usize].held_by.contains(&resource) {
                    self.include(index);
                }
            }
        }
        touched.clear();
        self.touched = touched;
    }

    /// The level of this stream is found anew.
    fn include(&mut self, index: u32) {
        let stream = &mut self.streams[index as usize];
        if stream.visit == self.visit {
            return;
        }
        stream.visit = self.visit;
        stream.before = stream.level;
        self.part.streams.push(index);
        for &(resource, _) in self.paths.uses(stream.path) {
            let port = &mut self.ports[resource as usize];
            if port.visit != self.visit {
                port.visit = self.visit;
                self.part.ports.push(resource);
            }
        }
    }

    /// The levels of all streams that share a resource with these, or with those, and so on, are found anew.
    fn include_all(&mut self) {
        let mut next = 0;
        while let Some(&resource) = self.part.ports.get(next) {
            next += 1;
            for at in 0..self.ports[resource as usize].users.len() {
                self.include(self.ports[resource as usize].users[at].stream);
            }
        }
    }

    /// Progressive filling, class by class, beside the streams that stay as they are.
    fn fill(&mut self) {
        for &resource in &self.part.ports {
            let port = &mut self.ports[resource as usize];
            port.fixed = port.total;
            port.rising = [0.0; LOWEST_PRIORITY as usize + 1];
            port.holds = false;
        }
        let mut classes = [0usize; LOWEST_PRIORITY as usize + 1];
        for &index in &self.part.streams {
            let stream = &mut self.streams[index as usize];
            stream.level = RISING;
            stream.found.clear();
            let class = self.paths.path(stream.path).priority as usize;
            classes[class] += 1;
            for &(resource, weight) in self.paths.uses(stream.path) {
                let load = stream.load(weight, self.paths);
                let port = &mut self.ports[resource as usize];
                port.fixed -= load * stream.before;
                port.rising[class] += load;
            }
        }
        for (priority, count) in (0..=LOWEST_PRIORITY).zip(classes).filter(|(_, count)| *count > 0) {
            self.fill_class(priority, count);
            for &index in &self.part.streams {
                let stream = &self.streams[index as usize];
                if self.paths.path(stream.path).priority == priority {
                    for &(resource, weight) in self.paths.uses(stream.path) {
                        self.ports[resource as usize].fixed += stream.load(weight, self.paths) * stream.level;
                    }
                }
            }
        }
    }

    fn fill_class(&mut self, priority: u8, mut count: usize) {
        let mut levels = std::mem::take(&mut self.part.levels);
        levels.clear();
        for &resource in &self.part.ports {
            let port = &self.ports[resource as usize];
            let rising = port.rising[priority as usize];
            if rising > 0.0 {
                // Sums are kept up to rounding; this is certainly not too high.
                let left = (port.rate * (1.0 - SLACK) - port.fixed).max(0.0);
                levels.push(Reverse(((left / rising).to_bits(), resource)));
            }
        }
        let mut now = 0.0;
        while let Some(Reverse((expected, resource))) = levels.pop() {
            if count == 0 && f64::from_bits(expected) > now * (1.0 + SLACK) {
                break;
            }
            let port = &self.ports[resource as usize];
            let (mut used, mut rising, mut top) = (0.0, 0.0, 0.0f64);
            for user in &port.users {
                let stream = &self.streams[user.stream as usize];
                if stream.level == RISING {
                    rising += if user.priority == priority { user.load } else { 0.0 };
                } else {
                    used += user.load * stream.level;
                    top = if user.priority == priority { top.max(stream.level) } else { top };
                }
            }
            if rising > 0.0 {
                let left = port.rate - used;
                let level = if left < port.rate * TIE { 0.0 } else { left / rising };
                // Others may have stopped rising since: then this one fills later than expected, never earlier.
                if level > f64::from_bits(expected) * (1.0 + TIE) {
                    levels.push(Reverse((level.to_bits(), resource)));
                    continue;
                }
                if level > now * (1.0 + TIE) {
                    now = level;
                }
                top = now;
            } else if used < port.rate * (1.0 - STRICT) {
                continue;
            }
            let port = &mut self.ports[resource as usize];
            for user in port.users.iter().filter(|user| user.priority == priority) {
                let stream = &mut self.streams[user.stream as usize];
                if stream.level == RISING {
                    stream.level = now;
                    count -= 1;
                }
                if stream.visit == self.visit && stream.level >= top * (1.0 - STRICT) {
                    stream.found.push(resource);
                    port.holds = true;
                }
            }
        }
        self.part.levels = levels;
    }

    /// Collects the streams that have no bottleneck any more, or deny one to others.
    fn find_wronged(&mut self) {
        let mut wronged = std::mem::take(&mut self.part.wronged);
        for &resource in &self.part.ports {
            let port = &self.ports[resource as usize];
            if !port.holds && port.holding == 0 {
                continue;
            }
            let mut used = 0.0;
            // By class: the highest level, that of the streams it was found to hold, and the lowest class that moves.
            let mut top = [0.0f64; LOWEST_PRIORITY as usize + 1];
            let mut held = [f64::INFINITY; LOWEST_PRIORITY as usize + 1];
            let mut moving = 0;
            for user in &port.users {
                let stream = &self.streams[user.stream as usize];
                let class = user.priority as usize;
                used += user.load * stream.level;
                top[class] = top[class].max(stream.level);
                if stream.level > 0.0 {
                    moving = moving.max(class);
                }
                if stream.visit == self.visit && stream.found.contains(&resource) {
                    held[class] = stream.level;
                }
            }
            let is_full = used >= port.rate * (1.0 - SLACK);
            for user in &port.users {
                let stream = &self.streams[user.stream as usize];
                if stream.visit == self.visit {
                    continue;
                }
                let class = user.priority as usize;
                let denies = stream.level > held[class] * (1.0 + SLACK)
                    || (stream.level > 0.0 && held[..class].iter().any(|level| level.is_finite()));
                let lacks = stream.held_by.contains(&resource)
                    && !(is_full && moving <= class && stream.level >= top[class] * (1.0 - SLACK));
                if denies || lacks {
                    wronged.push(user.stream);
                }
            }
        }
        self.part.wronged = wronged;
    }

    /// Turns levels into rates, and rates into predictions of the end.
    fn settle(&mut self, now: f64) {
        for &resource in &self.part.ports {
            let port = &mut self.ports[resource as usize];
            port.total = port.fixed;
        }
        for &index in &self.part.streams {
            let stream = &mut self.streams[index as usize];
            let rate = stream.level * self.paths.path(stream.path).share;
            stream.found.sort_unstable();
            if stream.found != stream.held_by {
                for &resource in &stream.held_by {
                    self.ports[resource as usize].holding -= 1;
                }
                for &resource in &stream.found {
                    self.ports[resource as usize].holding += 1;
                }
                stream.hold(now);
            }
            if rate.to_bits() == stream.rate.to_bits() {
                continue;
            }
            let (moved, moves) = (stream.rate > 0.0, rate > 0.0);
            if moved {
                stream.remaining = (stream.remaining - stream.rate * (now - stream.since)).max(0.0);
            }
            if moved != moves {
                for &(resource, _) in self.paths.uses(stream.path) {
                    let port = &mut self.ports[resource as usize];
                    if moves { port.enter(now) } else { port.leave(now) }
                }
            }
            (stream.rate, stream.since) = (rate, now);
            self.stamp += 1;
            stream.stamp = self.stamp;
            if moves {
                self.ends.push(Reverse(((now + stream.remaining / rate).to_bits(), index, self.stamp)));
            }
        }
    }
}
