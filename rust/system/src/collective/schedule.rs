//! Schedules: who sends what to whom, when. One object is executed on data, counted and timed.
//!
//! A schedule is a list of *stages*; a stage is a number of *lanes* that do the same [`StepPattern`] side by side, each for
//! its own ranks and its own pieces of the buffer; a pattern is a number of *steps*. Actions of a step happen at once:
//! they read what was there before it.
//!
//! The buffer is cut into `chunks` chunks, and each chunk into `channels` *pieces*; piece `p * channels + c` is channel
//! `c` of chunk `p`. Chunk sizes differ by at most one element, and so do those of pieces.
//!
//! Reduce-scatter schedules are all-gather schedules run backwards: steps in reverse, source and target exchanged, copy
//! turned into reduce. So for each piece the tree along which copies spread is the tree along which sums arrive.
//!
//! *Order of additions.* All that arrives in one slot in one step is folded, together with what is there, in ascending
//! order of the positions it comes from, what is there standing at the rank's own position.

use std::ops::Range;

use super::name::{Algorithm, Operation};
use super::pattern::{Move, StepPattern};

/// What happens at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// The pieces replace what is there. [`Action::with`] is a second target: one read, two writes.
    Copy,
    /// The pieces are reduced into what is there. [`Action::with`] is a second source on the chip of the first one: the
    /// two are reduced before they are sent.
    Reduce,
}

/// One transfer of a step. Ranks are positions in the group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Action<'a> {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The other rank of the pair: see [`ActionKind`].
    pub with: Option<u32>,
    /// What happens at the target.
    pub kind: ActionKind,
    /// The pieces, by number.
    pub pieces: &'a [u32],
    /// The channel.
    pub channel: u32,
    /// Whether it is the exchange of a pair's own chunks, which a ring of single ranks has no counterpart of.
    pub is_own: bool,
}

/// Ranks that follow a pattern, and the pieces that are its units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Positions in the group; index `i` of the pattern is `members[i]`.
    pub members: Vec<u32>,
    /// Unit `u` of the pattern is `pieces[u * width..(u + 1) * width]`.
    pub pieces: Vec<u32>,
    /// Pieces in a unit.
    pub width: u32,
    /// The channel.
    pub channel: u32,
}

/// Lanes that run side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What it is, for readers.
    pub name: &'static str,
    /// What each lane does.
    pub pattern: StepPattern,
    /// Whether it is run backwards, reducing.
    pub is_mirrored: bool,
    /// The lanes.
    pub lanes: Vec<Lane>,
}

/// How large pieces are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceCut {
    /// A buffer of `B` bytes is cut into all pieces.
    Buffer,
    /// Piece `a * ranks + b` goes from `a` to `b`: one of `ranks` parts of `a`'s buffer of `B` bytes.
    Pairs,
    /// Each piece is a buffer.
    Whole,
}

/// Who sends what to whom, when.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// What it does.
    pub operation: Operation,
    /// How.
    pub algorithm: Algorithm,
    /// Number of ranks.
    pub ranks: u32,
    /// Chunks of the buffer.
    pub chunks: u32,
    /// Pieces of a chunk.
    pub channels: u32,
    /// How pieces relate to buffers.
    pub cut: PieceCut,
    /// The stages, one after another.
    pub stages: Vec<Stage>,
    /// The position whose data is spread, in a broadcast.
    pub root: u32,
    /// The order of additions, or what else a reader must know, in words.
    pub order: &'static str,
}

impl Stage {
    /// Steps that it takes.
    pub fn steps(&self) -> u32 {
        self.lanes.iter().map(|lane| self.pattern.steps(lane.members.len())).max().unwrap_or(0)
    }

    /// Steps whose transfers have equal sizes and ends, as `(one of them, how many)`.
    pub fn classes(&self) -> Vec<(u32, u32)> {
        let Some(longest) = self.lanes.iter().max_by_key(|lane| self.pattern.steps(lane.members.len())) else {
            return Vec::new();
        };
        let steps = self.steps();
        let mut classes = self.pattern.classes(longest.members.len());
        if self.is_mirrored {
            for (step, _) in &mut classes {
                *step = steps - 1 - *step;
            }
        }
        classes
    }

    /// Calls `visit` with each action of a step.
    pub fn for_each<'a>(&'a self, step: u32, mut visit: impl FnMut(Action<'a>)) {
        for lane in &self.lanes {
            let n = lane.members.len();
            let steps = self.pattern.steps(n);
            if step >= steps {
                continue;
            }
            let forward = if self.is_mirrored { steps - 1 - step } else { step };
            self.pattern.moves(n, forward, &mut |one: Move| {
                let units =
                    one.units.start as usize * lane.width as usize..one.units.end as usize * lane.width as usize;
                let (from, to) = if self.is_mirrored { (one.to, one.from) } else { (one.from, one.to) };
                let kind =
                    if self.is_mirrored || self.pattern.reduces() { ActionKind::Reduce } else { ActionKind::Copy };
                visit(Action {
                    from: lane.members[from as usize],
                    to: lane.members[to as usize],
                    with: one.with.map(|with| lane.members[with as usize]),
                    kind,
                    pieces: &lane.pieces[units],
                    channel: lane.channel,
                    is_own: one.is_own,
                });
            });
        }
    }
}

impl Schedule {
    /// Steps in all.
    pub fn steps(&self) -> u32 {
        self.stages.iter().map(Stage::steps).sum()
    }

    /// Number of pieces.
    pub fn pieces(&self) -> u32 {
        match self.cut {
            PieceCut::Buffer => self.chunks * self.channels,
            PieceCut::Pairs => self.ranks * self.ranks,
            PieceCut::Whole => self.chunks,
        }
    }

    /// What one piece is of the operation's size `B`.
    pub fn piece_fraction(&self) -> f64 {
        match self.cut {
            PieceCut::Buffer => 1.0 / f64::from(self.chunks) / f64::from(self.channels),
            PieceCut::Pairs => 1.0 / f64::from(self.ranks),
            PieceCut::Whole => 1.0,
        }
    }

    /// The elements of a piece, in a buffer of `length` elements that is cut into all of them.
    pub fn range(&self, piece: u32, length: usize) -> Range<usize> {
        let (chunk, channel) = (piece / self.channels, piece % self.channels);
        part(part(0..length, chunk as usize, self.chunks as usize), channel as usize, self.channels as usize)
    }
}

/// One of `count` parts of a range, whose lengths differ by at most one.
pub(super) fn part(of: Range<usize>, index: usize, count: usize) -> Range<usize> {
    let length = of.end - of.start;
    of.start + length * index / count..of.start + length * (index + 1) / count
}
