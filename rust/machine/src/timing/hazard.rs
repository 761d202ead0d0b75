//! Hazards: which earlier instructions an access has to wait for, found on rectangles of rows and bytes.
//!
//! Every memory is a map of [rectangles](super::rectangles), each with the last writer and the readers since. A write takes
//! the place of everything below it, for it waited for all of that itself. Readers are kept one an engine, the one that ends
//! last: what an access waits for depends on the producer's engine and end alone.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::graph::EdgeKind;
use super::record::NO_INSTRUCTION;
use super::rectangles::RectangleMap;
use super::region::{Region, Space};
use crate::by_number::ByNumber;
use crate::engine::Engine;

const ENGINES: usize = Engine::ALL.len();

/// An instruction's use of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the use is over, in picoseconds.
    pub end: u64,
    /// The instruction.
    pub id: u32,
    /// Its engine.
    pub engine: Engine,
}

impl Default for Access {
    fn default() -> Self {
        Self::NONE
    }
}

impl Access {
    const NONE: Access = Access { end: 0, id: NO_INSTRUCTION, engine: Engine::Sync };

    fn is_some(self) -> bool {
        self.id != NO_INSTRUCTION
    }

    /// Whether this one ends later; of two ends at once, the later instruction's counts.
    fn outlasts(self, other: Access) -> bool {
        !other.is_some() || (self.end, self.id) >= (other.end, other.id)
    }
}

/// What an instruction has to wait for: of each engine the access that ends last.
#[derive(Clone, Debug)]
pub struct Waits {
    latest: [Access; ENGINES],
    /// Every access that it comes after, and why, where that is kept.
    seen: Option<SmallVec<[(Access, EdgeKind); 6]>>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { latest: [Access::NONE; ENGINES], seen: None }
    }
}

impl Waits {
    /// As the default, and every access is kept.
    pub(crate) fn keeping(keeps: bool) -> Self {
        Self { seen: keeps.then(SmallVec::new), ..Self::default() }
    }

    /// Every access that it comes after, some of them twice, where that was kept.
    pub(crate) fn seen(&self) -> &[(Access, EdgeKind)] {
        self.seen.as_deref().unwrap_or_default()
    }

    fn see(&mut self, access: Access, kind: EdgeKind) {
        if let Some(seen) = &mut self.seen
            && access.is_some()
            && seen.last().is_none_or(|last| *last != (access, kind))
        {
            seen.push((access, kind));
        }
    }

    /// The last access of each engine that is waited for.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        self.latest.iter().copied().filter(|access| access.is_some())
    }

    fn note(&mut self, access: Access) {
        if access.is_some() {
            let latest = &mut self.latest[access.engine as usize];
            if access.outlasts(*latest) {
                *latest = access;
            }
        }
    }
}

/// Readers since the last write: at most one an engine.
type Readers = SmallVec<[Access; 2]>;

/// Who used some bytes.
#[derive(Clone, Debug, Default)]
struct Users {
    writer: Access,
    readers: Readers,
}

impl Users {
    fn read(&mut self, access: Access) {
        match self.readers.iter_mut().find(|reader| reader.engine == access.engine) {
            Some(reader) if access.outlasts(*reader) => *reader = access,
            Some(_) => {}
            None => self.readers.push(access),
        }
    }

    /// A write that did not wait for its own engine: what of that ends later is still waited for.
    fn accumulate(&mut self, access: Access) {
        let mut last = access;
        if self.writer.engine == access.engine && self.writer.is_some() && !access.outlasts(self.writer) {
            last = self.writer;
        }
        self.writer = last;
        self.readers.retain(|reader| reader.engine == access.engine && !access.outlasts(*reader));
    }
}

type Map = RectangleMap<Users>;

/// Uses of every memory so far.
#[derive(Clone, Debug, Default)]
pub struct Hazards {
    sbuf: Map,
    psum: Map,
    others: HashMap<Space, Map, ByNumber>,
}

impl Hazards {
    fn map(&self, space: Space) -> Option<&Map> {
        match space {
            Space::Sbuf => Some(&self.sbuf),
            Space::Psum => Some(&self.psum),
            Space::Hbm(_) | Space::Register(_) => self.others.get(&space),
        }
    }

    fn map_mut(&mut self, space: Space) -> &mut Map {
        match space {
            Space::Sbuf => &mut self.sbuf,
            Space::Psum => &mut self.psum,
            Space::Hbm(_) | Space::Register(_) => self.others.entry(space).or_default(),
        }
    }

    /// Notes what a read of a region waits for: the last writers of its bytes. `own`: an engine whose accesses are not
    /// waited for, because it adds to what it wrote.
    pub fn before_read(&self, region: &Region, own: Option<Engine>, waits: &mut Waits) {
        if let Some(map) = self.map(region.space) {
            for rect in &region.rects {
                map.visit(rect, &mut |users| {
                    let is_own = own == Some(users.writer.engine);
                    waits.see(users.writer, if is_own { EdgeKind::Sum } else { EdgeKind::Result });
                    if !is_own {
                        waits.note(users.writer);
                    }
                });
            }
        }
    }

    /// Notes what a write of a region waits for: the last writers of its bytes and their readers since. `own` as for
    /// [`Hazards::before_read`].
    pub fn before_write(&self, region: &Region, own: Option<Engine>, waits: &mut Waits) {
        if let Some(map) = self.map(region.space) {
            let on_chip = matches!(region.space, Space::Sbuf | Space::Psum);
            let kind = if on_chip { EdgeKind::Reuse } else { EdgeKind::Overwrite };
            for rect in &region.rects {
                map.visit(rect, &mut |users| {
                    for access in std::iter::once(users.writer).chain(users.readers.iter().copied()) {
                        let is_own = own == Some(access.engine);
                        waits.see(access, if is_own { EdgeKind::Sum } else { kind });
                        if !is_own {
                            waits.note(access);
                        }
                    }
                });
            }
        }
    }

    /// Records a read.
    pub fn read(&mut self, region: &Region, access: Access) {
        let map = self.map_mut(region.space);
        for rect in &region.rects {
            map.change(rect, &mut |users| users.read(access));
        }
    }

    /// Records a write. `accumulates`: it did not wait for accesses of its own engine.
    pub fn write(&mut self, region: &Region, access: Access, accumulates: bool) {
        let map = self.map_mut(region.space);
        for rect in &region.rects {
            if accumulates {
                map.change(rect, &mut |users| users.accumulate(access));
            } else {
                map.put(rect, Users { writer: access, readers: Readers::new() });
            }
        }
    }

    /// Segments kept of a memory.
    #[cfg(test)]
    pub(crate) fn segments(&self, space: Space) -> usize {
        self.map(space).map_or(0, |map| map.segments())
    }

    /// Drops all that is known of a memory: nothing will touch it again.
    pub fn forget(&mut self, space: Space) {
        match space {
            Space::Sbuf => self.sbuf = Map::default(),
            Space::Psum => self.psum = Map::default(),
            Space::Hbm(_) | Space::Register(_) => {
                self.others.remove(&space);
            }
        }
    }
}
