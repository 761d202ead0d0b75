//! What a core's time was made of, kept so that several cores can be timed once more, together.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::NeuronCore;
use crate::engine::Engine;
use crate::isa::custom::instruction_name;
use crate::opcode::Opcodes;
use crate::program::OPERATIONS;
use crate::site::SiteId;
use crate::time::Picos;
use crate::timing::ceiling::HbmCeiling;
use crate::timing::record::Cause;
use crate::timing::region::{Rect, Region, Space};
use crate::timing::timeline::{TimedInstruction, Timeline};
use crate::timing::work::{Transfer, Work};

/// An instruction that got its time.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    opcode: u16,
    engine: Engine,
    site: SiteId,
    label: u32,
    work: Work,
    /// What it reads, then what its stationary load reads, then what it writes.
    regions: Box<[Region]>,
    ends: [usize; 2],
    after: Box<[u32]>,
    dynamic: bool,
    macs: (u64, u64),
    /// The meeting it was part of.
    pub(crate) met: Option<Met>,
}

/// A core's part in a meeting.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    /// The meeting: one for all that came.
    pub(crate) meeting: Arc<Meeting>,
    /// Which of those it is.
    pub(crate) place: usize,
}

/// What cores ran together.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) cores: usize,
    pub(crate) hop: Picos,
    pub(crate) sharing: Vec<Range<usize>>,
    pub(crate) cause: Cause,
}

impl Meeting {
    /// Gives the parts of all that came their time; says of each when the last of the others came and when it was done.
    pub(crate) fn run(&self, issues: &mut [(&mut Timeline, TimedInstruction<'_>)]) -> Vec<(u64, u64)> {
        let (spans, came): (Vec<_>, Vec<_>) = Timeline::hold(issues, self.hop, self.cause).into_iter().unzip();
        for range in &self.sharing {
            if let (Some(cores), Some(spans)) = (issues.get_mut(range.clone()), spans.get(range.clone())) {
                Timeline::order_shared(cores, spans);
            }
        }
        came.into_iter().zip(spans).map(|(latest, span)| (latest, span.end.0)).collect()
    }
}

impl Timed {
    /// What an instruction's time is made of, that was not issued by a kernel.
    pub(crate) fn of(issue: &TimedInstruction<'_>, met: Option<Met>) -> Self {
        let ends = [issue.reads.len(), issue.reads.len() + issue.stationary_reads.len()];
        Self {
            opcode: issue.opcode,
            engine: issue.engine,
            site: issue.site,
            label: issue.label,
            work: issue.work.clone(),
            regions: [issue.reads, issue.stationary_reads, issue.writes].concat().into(),
            ends,
            after: issue.after.into(),
            dynamic: issue.dynamic,
            macs: (issue.macs, issue.peak_macs_per_cycle),
            met,
        }
    }

    pub(crate) fn issue(&self) -> TimedInstruction<'_> {
        let [reads, stationary] = self.ends;
        TimedInstruction {
            opcode: self.opcode,
            engine: self.engine,
            site: self.site,
            label: self.label,
            work: self.work.clone(),
            reads: &self.regions[..reads],
            stationary_reads: &self.regions[reads..stationary],
            writes: &self.regions[stationary..],
            after: &self.after,
            dynamic: self.dynamic,
            macs: self.macs.0,
            peak_macs_per_cycle: self.macs.1,
        }
    }

    /// Whether it moves bytes of HBM, which other cores may be moving too.
    pub(crate) fn draws(&self) -> bool {
        matches!(self.work, Work::Dma(_) | Work::Collective(_))
    }
}

impl NeuronCore {
    /// Keeps what its time is made of from here on, for [`crate::chip::time_together`].
    pub fn keep_timed(&mut self) {
        self.come_home();
        self.timed.get_or_insert_default();
    }

    /// Whether it keeps what its time is made of.
    pub(crate) fn keeps_timed(&self) -> bool {
        self.timed.is_some()
    }

    /// What its time was made of since the last call, which it goes on to keep; nothing where it is not kept.
    pub(crate) fn take_timed(&mut self) -> Vec<Timed> {
        self.settle(0);
        self.timed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Its time was made of this instead, where it is kept.
    pub(crate) fn replace_timed(&mut self, timed: impl Iterator<Item = Timed>) {
        if let Some(kept) = &mut self.timed {
            *kept = timed.collect();
        }
    }

    /// Keeps what its time is made of no longer.
    pub(crate) fn stop_keeping(&mut self) {
        self.timed = None;
    }

    /// An empty timeline like its own, that draws from a ceiling.
    pub(crate) fn timeline_under(&self, ceiling: &HbmCeiling) -> Timeline {
        self.timeline.again(Arc::clone(&self.state.arch), ceiling)
    }
}

/// Meetings of saved instructions, by number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeetingTable(Vec<SavedMeeting>, #[serde(skip)] HashMap<usize, usize>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedMeeting(usize, Picos, Vec<Range<usize>>, Cause);

impl MeetingTable {
    fn number(&mut self, meeting: &Arc<Meeting>) -> usize {
        let Self(meetings, numbers) = self;
        *numbers.entry(Arc::as_ptr(meeting).addr()).or_insert_with(|| {
            let Meeting { cores, hop, sharing, cause } = &**meeting;
            meetings.push(SavedMeeting(*cores, *hop, sharing.clone(), *cause));
            meetings.len() - 1
        })
    }

    pub(crate) fn restore(self) -> Vec<Arc<Meeting>> {
        let restored = |SavedMeeting(cores, hop, sharing, cause)| Arc::new(Meeting { cores, hop, sharing, cause });
        self.0.into_iter().map(restored).collect()
    }
}

/// An instruction as data: opcode, engine, line, label, work, regions, where reads and stationary ones end, edges, whether
/// it is dynamic, multiply-adds, the meeting and its place there. Opcodes, labels and memories are numbered from 0 on in
/// order of use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedTimed(
    u16,
    Engine,
    u32,
    u32,
    Work,
    Vec<SavedRegion>,
    [usize; 2],
    Vec<u32>,
    bool,
    (u64, u64),
    Option<(usize, usize)>,
);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedRegion(SavedSpace, Vec<[u64; 4]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum SavedSpace {
    Sbuf,
    Psum,
    Hbm(u64),
    Register(u64),
}

/// The number of something among those seen.
fn numbered<K: std::hash::Hash + Eq>(seen: &mut HashMap<K, usize>, key: K, add: impl FnOnce()) -> usize {
    let next = seen.len();
    *seen.entry(key).or_insert_with(|| {
        add();
        next
    })
}

impl Timed {
    /// All instructions as data, with the names and labels that they have.
    pub(crate) fn save_all(
        parts: &[Timed],
        names: &Opcodes,
        (opcodes, labels): (&mut Vec<String>, &mut Vec<String>),
        meetings: &mut MeetingTable,
    ) -> Vec<SavedTimed> {
        let (mut seen_opcodes, mut seen_labels, mut seen_spaces) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut saved = Vec::with_capacity(parts.len());
        for part in parts {
            let opcode = numbered(&mut seen_opcodes, part.opcode, || {
                opcodes.push(names.opcodes().get(usize::from(part.opcode)).copied().unwrap_or_default().to_owned());
            });
            let label = numbered(&mut seen_labels, part.label, || {
                labels.push(names.labels().get(part.label as usize).cloned().unwrap_or_default());
            });
            let regions = part.regions.iter().map(|region| {
                let space = match region.space {
                    Space::Sbuf => SavedSpace::Sbuf,
                    Space::Psum => SavedSpace::Psum,
                    space @ Space::Hbm(_) => SavedSpace::Hbm(numbered(&mut seen_spaces, space, || ()) as u64),
                    space @ Space::Register(_) => SavedSpace::Register(numbered(&mut seen_spaces, space, || ()) as u64),
                };
                let of = |rect: &Rect| [rect.rows.start, rect.rows.end, rect.columns.start, rect.columns.end];
                SavedRegion(space, region.rects.iter().map(of).collect())
            });
            saved.push(SavedTimed(
                opcode as u16,
                part.engine,
                part.site.0,
                label as u32,
                part.work.clone(),
                regions.collect(),
                part.ends,
                part.after.to_vec(),
                part.dynamic,
                part.macs,
                part.met.as_ref().map(|met| (meetings.number(&met.meeting), met.place)),
            ));
        }
        saved
    }

    /// Instructions from data, whose names get numbers of a core; None for what cannot have been saved.
    pub(crate) fn restore_all(
        saved: Vec<SavedTimed>,
        (opcodes, labels): (&[String], &[String]),
        names: &mut Opcodes,
        meetings: &[Arc<Meeting>],
    ) -> Option<Vec<Timed>> {
        let opcodes: Vec<u16> =
            opcodes.iter().map(|name| Some(names.opcode(static_name(name)?))).collect::<Option<_>>()?;
        let label = |label: &String| if label.is_empty() { 0 } else { names.label(label) };
        let labels: Vec<u32> = labels.iter().map(label).collect();
        let mut taken = 0u64;
        let mut parts = Vec::with_capacity(saved.len());
        for SavedTimed(opcode, engine, site, label, work, regions, ends, after, dynamic, macs, met) in saved {
            taken = taken.saturating_add(most_picoseconds(&work)?);
            let regions: Option<Box<[Region]>> = regions.into_iter().map(restored).collect();
            let regions = regions.filter(|regions| ends[0] <= ends[1] && ends[1] <= regions.len())?;
            let met = match met {
                None => None,
                Some((number, place)) => Some(Met { meeting: Arc::clone(meetings.get(number)?), place }),
            };
            parts.push(Timed {
                opcode: *opcodes.get(usize::from(opcode))?,
                engine,
                site: SiteId(site),
                label: *labels.get(label as usize)?,
                work,
                regions,
                ends,
                after: after.into(),
                dynamic,
                macs,
                met,
            });
        }
        (taken <= MOST_TAKEN).then_some(parts)
    }
}

/// Most picoseconds that all instructions of a saved run may take, one after the other.
const MOST_TAKEN: u64 = 1 << 60;
/// Picoseconds that no byte and no descriptor of a saved transfer takes.
const MOST_BYTE_PS: f64 = 1e3;
const MOST_DESCRIPTOR_PS: f64 = 1e6;
/// Bytes of a saved instruction's name.
const MOST_NAME: usize = 256;

/// A name as instructions have it.
fn static_name(name: &str) -> Option<&'static str> {
    let known = OPERATIONS.iter().find(|known| **known == name).copied();
    known.or_else(|| (name.len() <= MOST_NAME).then(|| instruction_name(name)))
}

/// How long work takes at most; None for what no instruction asks.
fn most_picoseconds(work: &Work) -> Option<u64> {
    let all = |times: &[Picos]| times.iter().fold(0u64, |all, time| all.saturating_add(time.0));
    match work {
        Work::Compute { interval, latency, .. } => Some(all(&[*interval, *latency])),
        Work::Matmul { load, load_latency, multiply, multiply_latency, .. } => {
            Some(all(&[*load, *load_latency, *multiply, *multiply_latency]))
        }
        Work::Collective(part) => Some(part.duration.0.saturating_add(part.bytes)),
        Work::Dma(Transfer {
            rows, first_row, row_bytes, row_descriptors, rate_share, hbm_read, hbm_write, ..
        }) => {
            if !(*rate_share > 1e-3 && *rate_share <= 1.0) || *first_row > u64::from(u32::MAX) {
                return None;
            }
            let bytes = rows.saturating_mul(*row_bytes).saturating_add(*hbm_read).saturating_add(*hbm_write);
            let descriptors = rows.saturating_mul(*row_descriptors);
            let most = bytes as f64 * MOST_BYTE_PS / rate_share + descriptors as f64 * MOST_DESCRIPTOR_PS;
            Some(Picos::from_nanoseconds(most / 1e3).0)
        }
    }
}

fn restored(SavedRegion(space, rects): SavedRegion) -> Option<Region> {
    let space = match space {
        SavedSpace::Sbuf => Space::Sbuf,
        SavedSpace::Psum => Space::Psum,
        SavedSpace::Hbm(number) => Space::Hbm(number),
        SavedSpace::Register(number) => Space::Register(number),
    };
    let of = |[top, bottom, left, right]: [u64; 4]| {
        (top <= bottom && left <= right).then_some(Rect { rows: top..bottom, columns: left..right })
    };
    let rects: Option<SmallVec<[Rect; 2]>> = rects.into_iter().map(of).collect();
    Some(Region { space, rects: rects? })
}
