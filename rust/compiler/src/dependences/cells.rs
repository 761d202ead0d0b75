//! Who wrote and read each byte last: as the machine's hazards, but every reader since the last write is kept.
//!
//! A memory is a map of rectangles, each with the last writer and the readers since. Readers are chains whose tails
//! rectangles share, so that splitting one copies a number, and a write that covers many walks a shared tail once.

use trn3_machine::timing::rectangles::RectangleMap;
use trn3_machine::timing::region::Rect;

const NOBODY: u32 = u32::MAX;

/// Who used some bytes.
#[derive(Clone, Copy, Debug)]
struct Users {
    writer: u32,
    /// The last reader, by its place among all.
    readers: u32,
}

impl Default for Users {
    fn default() -> Self {
        Self { writer: NOBODY, readers: NOBODY }
    }
}

/// A reader of some bytes.
#[derive(Clone, Copy, Debug)]
struct Reader {
    step: u32,
    /// The one before.
    before: u32,
    /// The step that walked past last.
    seen: u32,
}

/// Uses of all memories so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    maps: Vec<RectangleMap<Users>>,
    readers: Vec<Reader>,
}

impl Uses {
    /// Of so many memories.
    pub(crate) fn new(memories: usize) -> Self {
        Self { maps: vec![RectangleMap::default(); memories], readers: Vec::new() }
    }

    /// Visits the last writers of some bytes, and for one who writes them the readers since; says which a step is.
    pub(crate) fn visit(
        &mut self,
        map: usize,
        rects: &[Rect],
        now: u32,
        writes: bool,
        visit: &mut impl FnMut(u32, bool),
    ) {
        let readers = &mut self.readers;
        for rect in rects {
            self.maps[map].visit(rect, &mut |users| {
                if users.writer != NOBODY {
                    visit(users.writer, true);
                }
                let mut at = if writes { users.readers } else { NOBODY };
                while at != NOBODY && readers[at as usize].seen != now {
                    let reader = &mut readers[at as usize];
                    reader.seen = now;
                    visit(reader.step, false);
                    at = reader.before;
                }
            });
        }
    }

    /// Notes that a step uses some bytes.
    pub(crate) fn note(&mut self, map: usize, rects: &[Rect], now: u32, writes: bool) {
        for rect in rects {
            if writes {
                self.maps[map].put(rect, Users { writer: now, readers: NOBODY });
                continue;
            }
            let readers = &mut self.readers;
            // Bytes that had the same readers so far go on with the same chain.
            let mut made: Option<(u32, u32)> = None;
            self.maps[map].change(rect, &mut |users| {
                if users.readers != NOBODY && readers[users.readers as usize].step == now {
                    return;
                }
                let head = match made {
                    Some((before, head)) if before == users.readers => head,
                    _ => {
                        readers.push(Reader { step: now, before: users.readers, seen: NOBODY });
                        readers.len() as u32 - 1
                    }
                };
                made = Some((users.readers, head));
                users.readers = head;
            });
        }
    }
}
