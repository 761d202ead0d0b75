//! The streams in motion and their rates.
//!
//! Streams of one path that began together with the same bytes are one [`Stream`] with many members. What happens when
//! some begin or end is in [`super::refill`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::paths::Paths;
use super::{LOWEST_PRIORITY, Resource};

/// Stands for a fill level while it is being found.
pub(super) const RISING: f64 = -1.0;

/// Seconds this near count as equal where only names depend on it.
const NEARLY: f64 = 1.0 - 1e-9;

pub(super) type Names = SmallVec<[u32; 4]>;

/// Equal transfers in motion.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) path: u32,
    pub(super) members: Vec<u32>,
    /// Bytes left for each member at the moment `since`.
    pub(super) remaining: f64,
    pub(super) since: f64,
    /// Bytes a second of each member.
    pub(super) rate: f64,
    /// Fill level: rate for a share of 1; [`RISING`] while it is being found.
    pub(super) level: f64,
    /// The level before it was to be found anew.
    pub(super) before: f64,
    pub(super) alive: bool,
    /// Tells valid predictions of the end from those that a change of rate made void.
    pub(super) stamp: u64,
    pub(super) visit: u64,
    /// The full resources that hold it back, in ascending order; several where they fill at the same level.
    pub(super) held_by: Names,
    held_since: f64,
    /// The same as just found.
    pub(super) found: Names,
    /// Seconds for which each held it back so far.
    held: SmallVec<[(u32, f64); 2]>,
}

impl Stream {
    /// Bytes a second on a resource of that weight for a fill level of 1.
    pub(super) fn load(&self, weight: f64, paths: &Paths) -> f64 {
        weight * paths.path(self.path).share * self.members.len() as f64
    }

    /// From now on what was just found holds it back.
    pub(super) fn hold(&mut self, now: f64) {
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
pub(super) struct User {
    pub(super) stream: u32,
    pub(super) priority: u8,
    /// Bytes a second here for a fill level of 1.
    pub(super) load: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    pub(super) users: Vec<User>,
    pub(super) rate: f64,
    /// Bytes a second of all users, up to rounding.
    pub(super) total: f64,
    /// The same of users whose level stays, or is found already.
    pub(super) fixed: f64,
    /// Load of the users whose level is being found, by class.
    pub(super) rising: [f64; LOWEST_PRIORITY as usize + 1],
    /// Whether it was found to hold a stream back.
    pub(super) holds: bool,
    /// How many streams it holds back.
    pub(super) holding: u32,
    /// How many streams move through it.
    moving: u32,
    pub(super) visit: u64,
    busy_since: f64,
    busy: f64,
}

impl Port {
    /// A stream begins to move through it.
    pub(super) fn enter(&mut self, now: f64) {
        if self.moving == 0 {
            self.busy_since = now;
        }
        self.moving += 1;
    }

    /// A stream moves through it no more.
    pub(super) fn leave(&mut self, now: f64) {
        self.moving -= 1;
        if self.moving == 0 {
            self.busy += now - self.busy_since;
        }
    }
}

/// The streams whose levels are found, the resources they use, and room to do it.
#[derive(Default)]
pub(super) struct Part {
    pub(super) ports: Vec<u32>,
    pub(super) streams: Vec<u32>,
    pub(super) wronged: Vec<u32>,
    pub(super) levels: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Resources, and the streams on them.
pub(super) struct Network<'a> {
    pub(super) paths: &'a Paths,
    pub(super) ports: Vec<Port>,
    pub(super) streams: Vec<Stream>,
    free: Vec<u32>,
    /// Began since the last refill.
    pub(super) begun: Vec<u32>,
    /// Ended since the last refill; until then their resources still list them.
    ended: Vec<u32>,
    pub(super) ends: BinaryHeap<Reverse<(u64, u32, u64)>>,
    alive: usize,
    pub(super) stamp: u64,
    pub(super) visit: u64,
    /// Resources of those that ended.
    pub(super) touched: Vec<u32>,
    pub(super) part: Part,
}

impl<'a> Network<'a> {
    pub(super) fn new(resources: &[Resource], paths: &'a Paths) -> Self {
        let ports = resources.iter().map(|resource| Port { rate: resource.rate, ..Port::default() }).collect();
        Self {
            paths,
            ports,
            streams: Vec::new(),
            free: Vec::new(),
            begun: Vec::new(),
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
        (stream.held_since, stream.alive, stream.level) = (now, true, 0.0);
        self.alive += 1;
        let count = stream.members.len() as f64;
        let (priority, share) = (self.paths.path(path).priority, self.paths.path(path).share);
        for &(resource, weight) in self.paths.uses(path) {
            let load = weight * share * count;
            self.ports[resource as usize].users.push(User { stream: index, priority, load });
        }
        self.begun.push(index);
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
        for &resource in &stream.held_by {
            self.ports[resource as usize].holding -= 1;
        }
        stream.hold(now);
        let longest = stream.held.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let mut names: Names =
            stream.held.iter().filter(|(_, seconds)| *seconds >= longest * NEARLY).map(|(name, _)| *name).collect();
        names.sort_unstable();
        self.alive -= 1;
        self.ended.push(index);
        for &(resource, weight) in self.paths.uses(stream.path) {
            let port = &mut self.ports[resource as usize];
            port.total -= stream.load(weight, self.paths) * stream.level;
            port.leave(now);
            self.touched.push(resource);
        }
        (&self.streams[index as usize].members, names)
    }

    /// Forgets what ended.
    pub(super) fn tidy(&mut self) {
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
}
