//! What stands on which track.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;

use trn3_machine::packed::PackedRows;
use trn3_machine::timing::record::NO_INSTRUCTION;

use crate::cause::{CAUSES, DMA, ENGINES};
use crate::core_profile::CoreProfile;
use crate::intervals::{Span, lanes, order};
use crate::traffic::even_edges;

/// **(choice)** HBM bandwidth is drawn as means over at most so many bins.
const MAX_BINS: u64 = 2000;
/// **(choice)** None of them is shorter than this, in picoseconds.
const SHORTEST_BIN_PS: u64 = 50_000;

/// The slices of one track, by rising start and without overlap.
pub(super) struct SliceTrack<'a> {
    pub(super) name: String,
    pub(super) slices: Vec<Slice>,
    /// What slices may be called.
    pub(super) names: Cow<'a, [String]>,
    pub(super) arguments: Vec<Argument<'a>>,
    /// Arrows that leave slices, and that arrive.
    pub(super) leaving: Option<Arrows>,
    pub(super) arriving: Option<Arrows>,
}

/// One slice; times in picoseconds.
pub(super) struct Slice {
    /// What arguments and arrows are asked for.
    pub(super) row: usize,
    pub(super) start_ps: u64,
    pub(super) end_ps: u64,
    /// Place in the names of the track.
    pub(super) name: usize,
}

/// One argument of a track's slices: numbers, or places in a list of texts.
#[derive(Clone)]
pub(super) struct Argument<'a> {
    pub(super) name: &'static str,
    pub(super) value: Rc<dyn Fn(usize) -> Option<u64> + 'a>,
    pub(super) texts: Option<Rc<[String]>>,
}

impl<'a> Argument<'a> {
    fn number(name: &'static str, value: impl Fn(usize) -> u64 + 'a) -> Self {
        Self { name, value: Rc::new(move |row| Some(value(row))), texts: None }
    }

    fn text(name: &'static str, texts: Rc<[String]>, value: impl Fn(usize) -> Option<u64> + 'a) -> Self {
        Self { name, value: Rc::new(value), texts: Some(texts) }
    }
}

/// Arrows between instructions, each named by the one that waited.
#[derive(Clone)]
pub(super) struct Arrows {
    /// Where the arrows of each instruction begin in `consumers`; one more at the end.
    first: Rc<[usize]>,
    consumers: Rc<[u32]>,
    core: u64,
}

impl Arrows {
    /// The arrows that leave each instruction, or those that arrive.
    fn new(waited_on: &[u32], core: usize, leave: bool) -> Self {
        let arrows = waited_on.iter().zip(0..).filter(|(on, _)| **on != NO_INSTRUCTION);
        let ends: Vec<(u32, u32)> = arrows.map(|(&on, row)| (if leave { on } else { row }, row)).collect();
        let mut first = vec![0; waited_on.len() + 1];
        for &(owner, _) in &ends {
            first[owner as usize + 1] += 1;
        }
        for place in 1..first.len() {
            first[place] += first[place - 1];
        }
        let (mut next, mut consumers) = (first.clone(), vec![0; ends.len()]);
        for (owner, row) in ends {
            consumers[next[owner as usize]] = row;
            next[owner as usize] += 1;
        }
        Self { first: first.into(), consumers: consumers.into(), core: core as u64 }
    }

    /// Numbers of an instruction's arrows, of which all cores have different ones.
    pub(super) fn of(&self, row: usize) -> Vec<u64> {
        let own = &self.consumers[self.first[row]..self.first[row + 1]];
        own.iter().map(|&consumer| u64::from(consumer) + (self.core << 32) + 1).collect()
    }
}

/// The values of a counter, each from a time in picoseconds on.
pub(super) enum Samples<'a> {
    Bytes(&'a PackedRows<u64>, &'a PackedRows<u64>),
    Rates(Vec<(u64, f64)>),
}

pub(super) struct CounterTrack<'a> {
    pub(super) name: &'static str,
    pub(super) samples: Samples<'a>,
}

/// The tracks of slices of a core: the kernel, the critical path, engines and DMA queues, DMA engines.
pub(super) fn slices(core: &CoreProfile, number: usize) -> Vec<SliceTrack<'_>> {
    let mut tracks = vec![kernel(core)];
    let arguments = arguments(core);
    if !core.columns().critical.is_empty() {
        tracks.push(critical(core, &arguments));
    }
    streams(core, number, &arguments, &mut tracks);
    dma_engines(core, &arguments[0], &mut tracks);
    tracks
}

fn kernel(core: &CoreProfile) -> SliceTrack<'_> {
    let columns = core.columns();
    let verdict = [crate::verdict::of_core(core)];
    SliceTrack {
        name: "kernel".to_owned(),
        slices: vec![Slice { row: 0, start_ps: 0, end_ps: columns.latency_ps, name: 0 }],
        names: vec![columns.kernel.clone()].into(),
        arguments: vec![
            Argument::number("latency (ns)", |_| columns.latency_ps / 1000),
            Argument::number("kernel start and end, not shown (ns)", |_| columns.overhead_ps / 1000),
            Argument::text("verdict", verdict.into(), |_| Some(0)),
        ],
        leaving: None,
        arriving: None,
    }
}

/// The critical path as one row: each step lasts until the next one starts.
fn critical<'a>(core: &'a CoreProfile, arguments: &[Argument<'a>]) -> SliceTrack<'a> {
    let (columns, rows) = (core.columns(), &core.columns().instructions);
    let shown = arguments.iter().filter(|argument| ["line", "instruction"].contains(&argument.name)).cloned();
    let engine = Argument::text("engine", ENGINES.map(str::to_owned).into(), |row| Some(rows.engine[row].into()));
    let steps = columns.critical.iter().zip(columns.critical_ps()).map(|(&row, length)| {
        let row = row as usize;
        let start_ps = rows.start_ps[row];
        Slice { row, start_ps, end_ps: start_ps + length, name: rows.opcode[row].into() }
    });
    SliceTrack {
        name: "critical path".to_owned(),
        slices: steps.collect(),
        names: Cow::Borrowed(&columns.opcodes),
        arguments: shown.chain([engine]).collect(),
        leaving: None,
        arriving: None,
    }
}

fn streams<'a>(core: &'a CoreProfile, number: usize, arguments: &[Argument<'a>], tracks: &mut Vec<SliceTrack<'a>>) {
    let (columns, rows) = (core.columns(), &core.columns().instructions);
    let leaving = Arrows::new(&rows.waited_on, number, true);
    let arriving = Arrows::new(&rows.waited_on, number, false);
    let stream = |row: usize| (rows.engine[row], if rows.engine[row] == DMA { rows.queue[row] } else { 0 });
    let streams: BTreeSet<(u8, u16)> = (0..rows.len()).map(stream).collect();
    for (engine, queue) in streams {
        // A queue's slot is free before its bytes have arrived; what is of interest is the way.
        let ends = if engine == DMA { &rows.end_ps } else { &rows.slot_end_ps };
        let name = match engine {
            DMA => format!("DMA queue {queue}"),
            _ => ENGINES[usize::from(engine)].to_owned(),
        };
        let own = columns.rows_of(engine).filter(|&row| stream(row) == (engine, queue)).collect();
        let shown = |argument: &&Argument| {
            (engine == DMA || !argument.name.ends_with("bytes")) && (engine == 0 || argument.name != "MACs")
        };
        for (suffix, part) in by_lane(own, |row| (rows.start_ps[row], ends[row])) {
            let slice = |&row: &usize| Slice {
                row,
                start_ps: rows.start_ps[row],
                end_ps: ends[row],
                name: rows.opcode[row].into(),
            };
            tracks.push(SliceTrack {
                name: format!("{name}{suffix}"),
                slices: part.iter().map(slice).collect(),
                names: Cow::Borrowed(&columns.opcodes),
                arguments: arguments.iter().filter(shown).cloned().collect(),
                leaving: Some(leaving.clone()),
                arriving: Some(arriving.clone()),
            });
        }
    }
}

fn dma_engines<'a>(core: &'a CoreProfile, line: &Argument<'a>, tracks: &mut Vec<SliceTrack<'a>>) {
    let (columns, rows, transfers) = (core.columns(), &core.columns().instructions, &core.columns().transfers);
    let instruction = |row: usize| transfers.instruction[row] as usize;
    let engines: BTreeSet<u16> = transfers.dma_engine.iter().copied().collect();
    for engine in engines {
        let own = (0..transfers.len()).filter(|&row| transfers.dma_engine[row] == engine).collect();
        for (suffix, part) in by_lane(own, |row| (transfers.start_ps[row], transfers.end_ps[row])) {
            let slice = |&row: &usize| Slice {
                row,
                start_ps: transfers.start_ps[row],
                end_ps: transfers.end_ps[row],
                name: rows.opcode[instruction(row)].into(),
            };
            let place = Rc::clone(&line.value);
            tracks.push(SliceTrack {
                name: format!("DMA engine {engine}{suffix}"),
                slices: part.iter().map(slice).collect(),
                names: Cow::Borrowed(&columns.opcodes),
                arguments: vec![
                    Argument { value: Rc::new(move |row| place(instruction(row))), ..line.clone() },
                    Argument::number("instruction", move |row| instruction(row) as u64),
                    Argument::number("bytes", |row| transfers.bytes[row]),
                ],
                leaving: None,
                arriving: None,
            });
        }
    }
}

/// Rows by rising start; what overlaps goes to a second track, a third and so on, with what their names end in.
fn by_lane(rows: Vec<usize>, span: impl Fn(usize) -> Span) -> Vec<(String, Vec<usize>)> {
    // In the trace's whole nanoseconds, which make some starts and ends equal.
    let whole = |row: usize| (span(row).0 / 1000, span(row).1 / 1000);
    let spans: Vec<Span> = rows.iter().map(|&row| whole(row)).collect();
    let lanes = lanes(&spans);
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); lanes.iter().max().map_or(0, |most| most + 1)];
    for place in order(&spans) {
        parts[lanes[place]].push(rows[place]);
    }
    let suffix = |lane: usize| if lane == 0 { String::new() } else { format!(" ({})", lane + 1) };
    parts.into_iter().enumerate().map(|(lane, part)| (suffix(lane), part)).collect()
}

/// What is said of every instruction.
fn arguments(core: &CoreProfile) -> Vec<Argument<'_>> {
    let (columns, rows) = (core.columns(), &core.columns().instructions);
    let place = |(file, line, function): &(String, u32, String)| match (line, function.as_str()) {
        (0, _) => "unknown line".to_owned(),
        (line, "") => format!("{file}:{line}"),
        (line, function) => format!("{file}:{line} in {function}"),
    };
    let is_labelled = |row: usize| !columns.labels[rows.label[row] as usize].is_empty();
    let has_waited = |row: usize| rows.wait_ps[row] > 0;
    let wait = move |row| has_waited(row).then(|| rows.wait_ps[row]);
    vec![
        Argument::text("line", columns.sites.iter().map(place).collect(), |row| Some(rows.site[row].into())),
        Argument::text("label", columns.labels.clone().into(), move |row| {
            is_labelled(row).then(|| rows.label[row].into())
        }),
        Argument::number("instruction", |row| row as u64),
        Argument::number("result visible after (ps)", |row| rows.end_ps[row] - rows.start_ps[row]),
        Argument::number("slot held (ps)", |row| rows.slot_end_ps[row] - rows.start_ps[row]),
        Argument { name: "waited before (ps)", value: Rc::new(wait), texts: None },
        Argument::text("waited for", CAUSES.map(str::to_owned).into(), move |row| {
            has_waited(row).then(|| rows.cause[row].into())
        }),
        Argument::number("MACs", |row| rows.macs[row]),
        Argument::number("DMA bytes", |row| rows.dma_bytes[row]),
        Argument::number("HBM read bytes", |row| rows.hbm_read[row]),
        Argument::number("HBM write bytes", |row| rows.hbm_write[row]),
    ]
}

/// Counters of a core: memories in use, and HBM bandwidth.
pub(super) fn counters(core: &CoreProfile) -> Vec<CounterTrack<'_>> {
    let (columns, occupancy) = (core.columns(), &core.columns().occupancy);
    let mut tracks = Vec::new();
    for (name, values) in
        [("SBUF bytes per partition", &occupancy.sbuf_bytes), ("PSUM bytes per partition", &occupancy.psum_bytes)]
    {
        if !values.is_empty() {
            tracks.push(CounterTrack { name, samples: Samples::Bytes(&occupancy.time_ps, values) });
        }
    }
    if columns.latency_ps > 0 && core.totals().hbm_read.saturating_add(core.totals().hbm_write) > 0 {
        let bins = MAX_BINS.min(columns.latency_ps.div_ceil(SHORTEST_BIN_PS));
        let edges = even_edges(columns.latency_ps as f64, bins as usize);
        let bytes = crate::traffic::by_bin(columns, &edges);
        let rates = edges.windows(2).zip(bytes).map(|(edges, bytes)| bytes / (edges[1] - edges[0]) * 1e3);
        let samples = edges.iter().map(|&edge| edge as u64).zip(rates.chain([0.0]));
        tracks.push(CounterTrack { name: "HBM bandwidth", samples: Samples::Rates(samples.collect()) });
    }
    tracks
}
