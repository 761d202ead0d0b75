//! The streams in motion and their rates.
//!
//! Streams of one path that began together with the same bytes are one [`Stream`] with many members. A change refills
//! only the part of the network that it touches: the streams that share a resource with it, or with those, and so on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::paths::Paths;
use super::{LOWEST_PRIORITY, Resource, TIE};

const RISING: f64 = -1.0;

/// A resource this full, or seconds this near, count as equal where only names depend on it.
const NEARLY: f64 = 1.0 - 1e-9;

type Names = SmallVec<[u32; 4]>;

/// Equal transfers in motion.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) path: u32,
    pub(super) members: Vec<u32>,
    /// Bytes left for each member at the moment `since`.
    remaining: f64,
    since: f64,
    /// Bytes a second of each member.
    rate: f64,
    /// Fill level: rate for a share of 1; [`RISING`] while it is being found.
    level: f64,
    alive: bool,
    /// Tells valid predictions of the end from those that a change of rate made void.
    stamp: u64,
    visit: u64,
    /// The full resources that hold it back, in ascending order; several where they fill at the same level.
    held_by: Names,
    held_since: f64,
    /// The same as just found.
    found: Names,
    /// Seconds for which each held it back so far.
    held: SmallVec<[(u32, f64); 2]>,
}

impl Stream {
    /// From now on what was just found holds it back.
    fn hold(&mut self, now: f64) {
        let seconds = now - self.held_since;
        for &resource in &self.held_by {
            match self.held.iter_mut().find(|(earlier, _)| *earlier == resource) {
                Some(earlier) => earlier.1 += seconds,
                None => self.held.push((resource, seconds)),
            }
        }
        self.held_since = now;
        std::mem::swap(&mut self.held_by, &mut self.found);
    }
}

/// A stream as its resource sees it.
#[derive(Clone, Copy, Debug)]
struct User {
    stream: u32,
    priority: u8,
    /// Bytes a second here for a fill level of 1.
    load: f64,
}

#[derive(Clone, Debug, Default)]
struct Port {
    users: Vec<User>,
    rate: f64,
    left: f64,
    visit: u64,
    busy_since: Option<f64>,
    busy: f64,
}

/// Resources, and the streams on them.
pub(super) struct Network<'a> {
    paths: &'a Paths,
    ports: Vec<Port>,
    streams: Vec<Stream>,
    free: Vec<u32>,
    /// Ended since the last refill; until then their resources still list them.
    ended: Vec<u32>,
    ends: BinaryHeap<Reverse<(u64, u32, u64)>>,
    alive: usize,
    stamp: u64,
    visit: u64,
    touched: Vec<u32>,
    part: Part,
}

/// The part of the network that a change touches, and room to fill it.
#[derive(Default)]
struct Part {
    ports: Vec<u32>,
    streams: Vec<u32>,
    levels: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Network<'a> {
    pub(super) fn new(resources: &[Resource], paths: &'a Paths) -> Self {
        let ports = resources.iter().map(|resource| Port { rate: resource.rate, ..Port::default() }).collect();
        Self {
            paths,
            ports,
            streams: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            ends: BinaryHeap::new(),
            alive: 0,
            stamp: 0,
            visit: 0,
            touched: Vec::new(),
            part: Part::default(),
        }
    }

    /// Adds equal transfers of one path, each with so many bytes left.
    pub(super) fn add(&mut self, path: u32, members: impl Iterator<Item = u32>, bytes: f64, now: f64) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::default());
            (self.streams.len() - 1) as u32
        });
        let stream = &mut self.streams[index as usize];
        stream.members.clear();
        stream.members.extend(members);
        stream.held_by.clear();
        stream.held.clear();
        (stream.path, stream.remaining, stream.since, stream.rate) = (path, bytes, now, f64::NAN);
        (stream.held_since, stream.alive) = (now, true);
        self.alive += 1;
        let count = stream.members.len() as f64;
        let (priority, share) = (self.paths.path(path).priority, self.paths.path(path).share);
        for &(resource, weight) in self.paths.uses(path) {
            let load = weight * share * count;
            self.ports[resource as usize].users.push(User { stream: index, priority, load });
            self.touched.push(resource);
        }
    }

    /// The moment at which the next stream ends.
    pub(super) fn next_end(&mut self) -> Option<f64> {
        while let Some(&Reverse((end, stream, stamp))) = self.ends.peek() {
            let stream = &self.streams[stream as usize];
            if stream.alive && stream.stamp == stamp {
                return Some(f64::from_bits(end));
            }
            self.ends.pop();
        }
        None
    }

    /// Ends the stream that is next to end: its members, and which resources held it back longest, in ascending order.
    pub(super) fn end_next(&mut self, now: f64) -> (&[u32], Names) {
        let Some(Reverse((_, index, _))) = self.ends.pop() else { return (&[], Names::new()) };
        let stream = &mut self.streams[index as usize];
        stream.alive = false;
        stream.hold(now);
        let longest = stream.held.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let mut names: Names =
            stream.held.iter().filter(|(_, seconds)| *seconds >= longest * NEARLY).map(|(name, _)| *name).collect();
        names.sort_unstable();
        self.alive -= 1;
        self.ended.push(index);
        self.touched.extend(self.paths.uses(stream.path).iter().map(|&(resource, _)| resource));
        (&self.streams[index as usize].members, names)
    }

    /// Finds the rates anew wherever something began or ended since the last time.
    pub(super) fn refill(&mut self, now: f64) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        self.visit += 1;
        for &resource in &touched {
            if self.ports[resource as usize].visit != self.visit {
                self.gather(resource);
                self.fill();
                self.settle(now);
            }
        }
        touched.clear();
        self.touched = touched;
        self.free.append(&mut self.ended);
        if self.ends.len() > 4 * self.alive + 1024 {
            let streams = &self.streams;
            self.ends.retain(|Reverse((_, stream, stamp))| {
                let stream = &streams[*stream as usize];
                stream.alive && stream.stamp == *stamp
            });
        }
    }

    /// Seconds in which each resource carried anything.
    pub(super) fn busy(&self) -> Vec<f64> {
        self.ports.iter().map(|port| port.busy).collect()
    }

    /// A transfer that moves but never ends, once nothing is left to happen.
    pub(super) fn stuck(&self) -> Option<u32> {
        self.streams.iter().find(|stream| stream.alive).and_then(|stream| stream.members.first().copied())
    }

    /// Collects what hangs together with a resource, in an order that only its own history decides.
    fn gather(&mut self, resource: u32) {
        let Part { ports, streams, .. } = &mut self.part;
        ports.clear();
        streams.clear();
        ports.push(resource);
        self.ports[resource as usize].visit = self.visit;
        let mut next = 0;
        while let Some(&resource) = ports.get(next) {
            next += 1;
            let all = &mut self.streams;
            self.ports[resource as usize].users.retain(|user| all[user.stream as usize].alive);
            for at in 0..self.ports[resource as usize].users.len() {
                let index = self.ports[resource as usize].users[at].stream;
                let stream = &mut all[index as usize];
                if stream.visit == self.visit {
                    continue;
                }
                stream.visit = self.visit;
                stream.level = RISING;
                stream.found.clear();
                streams.push(index);
                for &(other, _) in self.paths.uses(stream.path) {
                    let port = &mut self.ports[other as usize];
                    if port.visit != self.visit {
                        port.visit = self.visit;
                        ports.push(other);
                    }
                }
            }
        }
    }

    /// Progressive filling, class by class.
    fn fill(&mut self) {
        let mut classes = 0u8;
        for &resource in &self.part.ports {
            let port = &mut self.ports[resource as usize];
            port.left = port.rate;
            classes |= port.users.iter().fold(0, |mask, user| mask | (1 << user.priority));
        }
        for priority in (0..=LOWEST_PRIORITY).filter(|priority| classes & (1 << priority) != 0) {
            self.fill_class(priority);
            if classes >> (priority + 1) == 0 {
                break;
            }
            for &resource in &self.part.ports {
                let port = &mut self.ports[resource as usize];
                let users = port.users.iter().filter(|user| user.priority == priority);
                let used: f64 = users.map(|user| user.load * self.streams[user.stream as usize].level).sum();
                port.left = rest(port.left, used, port.rate);
            }
        }
    }

    fn fill_class(&mut self, priority: u8) {
        let mut levels = std::mem::take(&mut self.part.levels);
        levels.clear();
        for &resource in &self.part.ports {
            let port = &self.ports[resource as usize];
            let load: f64 = port.users.iter().filter(|user| user.priority == priority).map(|user| user.load).sum();
            if load > 0.0 {
                levels.push(Reverse(((port.left / load).to_bits(), resource)));
            }
        }
        let mut now = 0.0;
        while let Some(Reverse((expected, resource))) = levels.pop() {
            let port = &self.ports[resource as usize];
            let users = || port.users.iter().filter(|user| user.priority == priority);
            let (mut used, mut rising, mut top) = (0.0, 0.0, 0.0f64);
            for user in users() {
                match self.streams[user.stream as usize].level {
                    RISING => rising += user.load,
                    level => {
                        used += user.load * level;
                        top = top.max(level);
                    }
                }
            }
            if rising > 0.0 {
                // Others may have stopped rising since: then this one fills later than expected, never earlier.
                let level = rest(port.left, used, port.rate) / rising;
                if level > f64::from_bits(expected) * (1.0 + TIE) {
                    levels.push(Reverse((level.to_bits(), resource)));
                    continue;
                }
                if level > now * (1.0 + TIE) {
                    now = level;
                }
                top = top.max(now);
            } else if used < port.left * NEARLY {
                continue;
            }
            for user in users() {
                let stream = &mut self.streams[user.stream as usize];
                if stream.level == RISING {
                    stream.level = now;
                }
                if stream.level >= top * NEARLY {
                    stream.found.push(resource);
                }
            }
        }
        self.part.levels = levels;
    }

    /// Turns levels into rates, and rates into predictions of the end.
    fn settle(&mut self, now: f64) {
        for &index in &self.part.streams {
            let stream = &mut self.streams[index as usize];
            let rate = stream.level * self.paths.path(stream.path).share;
            stream.found.sort_unstable();
            if stream.found != stream.held_by {
                stream.hold(now);
            }
            if rate.to_bits() == stream.rate.to_bits() {
                continue;
            }
            if stream.rate > 0.0 {
                stream.remaining = (stream.remaining - stream.rate * (now - stream.since)).max(0.0);
            }
            (stream.rate, stream.since) = (rate, now);
            self.stamp += 1;
            stream.stamp = self.stamp;
            if rate > 0.0 {
                self.ends.push(Reverse(((now + stream.remaining / rate).to_bits(), index, self.stamp)));
            }
        }
        for &resource in &self.part.ports {
            let port = &mut self.ports[resource as usize];
            let moves = port.users.iter().any(|user| self.streams[user.stream as usize].level > 0.0);
            match (moves, port.busy_since) {
                (true, None) => port.busy_since = Some(now),
                (false, Some(since)) => {
                    port.busy += now - since;
                    port.busy_since = None;
                }
                _ => {}
            }
        }
    }
}

/// What of a resource is left, where rounding alone would leave less than nothing or next to nothing.
fn rest(left: f64, used: f64, rate: f64) -> f64 {
    let rest = left - used;
    if rest < rate * TIE { 0.0 } else { rest }
}
