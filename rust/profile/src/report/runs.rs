//! The timelines of a report, as columns.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::cause::{DMA, ENGINES};
use crate::packed::{Packer, TableLayout};
use crate::report::lists::Places;
use crate::report::residents::spans_of;
use crate::report::view::RunView;
use crate::traffic::even_edges;
use trn3_machine::packed::PackedRows;
use trn3_machine::timing::record::NO_INSTRUCTION;

/// **(choice)** HBM bandwidth is drawn as means over at most so many bins, none shorter than this in picoseconds.
const MAX_BINS: u64 = 1000;
const SHORTEST_BIN_PS: u64 = 50_000;

/// A stream of instructions in order.
#[derive(Debug, Serialize)]
struct Stream {
    engine: u8,
    queue: Option<u16>,
    name: String,
}

/// One run of a report.
#[derive(Debug, Serialize)]
pub(super) struct RunLayout {
    core: usize,
    rank: Option<usize>,
    level: String,
    is_main: bool,
    latency_ps: u64,
    overhead_ps: u64,
    origin_ps: u64,
    dma_engines: u64,
    streams: Vec<Stream>,
    tables: BTreeMap<&'static str, TableLayout>,
}

/// Which run it is.
#[derive(Clone, Debug)]
pub(super) struct RunName {
    pub(super) core: usize,
    pub(super) rank: Option<usize>,
    pub(super) level: String,
    pub(super) is_main: bool,
}

impl RunView<'_> {
    pub(super) fn pack(&self, name: &RunName, places: &Places, packer: &mut Packer) -> RunLayout {
        let rows = self.instructions;
        let stream = |row: usize| (rows.engine[row], (rows.engine[row] == DMA).then(|| rows.queue[row]));
        let streams: BTreeSet<(u8, Option<u16>)> = (0..rows.len()).map(stream).collect();
        let numbers: BTreeMap<_, u64> = streams.iter().copied().zip(0..).collect();
        let stream_of: Vec<u64> = (0..rows.len()).map(|row| numbers[&stream(row)]).collect();
        let mut tables = BTreeMap::new();
        tables.insert("instructions", self.pack_instructions(&stream_of, places, packer));
        tables.insert("transfers", self.pack_transfers(packer));
        tables.insert("tensors", self.pack_tensors(places, packer));
        tables.insert("uses", self.pack_uses(packer));
        tables.insert("edges", self.pack_edges(packer));
        tables.insert("occupancy", self.pack_occupancy(packer));
        tables.insert("hbm", self.pack_hbm(packer));
        let named = |(engine, queue): (u8, Option<u16>)| Stream {
            engine,
            queue,
            name: match queue {
                Some(queue) => format!("DMA queue {queue}"),
                None => ENGINES[usize::from(engine)].to_owned(),
            },
        };
        RunLayout {
            core: name.core,
            rank: name.rank,
            level: name.level.clone(),
            is_main: name.is_main,
            latency_ps: self.latency_ps,
            overhead_ps: self.columns.overhead_ps,
            origin_ps: 0,
            dma_engines: self.columns.arch.dma_engines as u64,
            streams: streams.into_iter().map(named).collect(),
            tables,
        }
    }

    fn pack_instructions(&self, stream: &[u64], places: &Places, packer: &mut Packer) -> TableLayout {
        let rows = self.instructions;
        let mut table = TableLayout::of(rows.len());
        let mut critical = vec![0; rows.len()];
        self.critical.iter().for_each(|&row| critical[row as usize] = 1);
        let since_start = |until: &[u64]| until.iter().zip(&rows.start_ps).map(|(end, start)| end - start).collect();
        let back = |(row, &on): (usize, &u32)| if on == NO_INSTRUCTION { 0 } else { row as u64 - u64::from(on) };
        packer.put(&mut table, "stream", stream.to_vec());
        packer.put(&mut table, "opcode", rows.opcode.iter().map(|&of| places.opcodes[usize::from(of)]).collect());
        packer.put(&mut table, "site", rows.site.iter().map(|&of| places.sites[of as usize]).collect());
        if places.stacks.iter().any(|&stack| stack > 0) {
            packer.put(&mut table, "stack", rows.site.iter().map(|&of| places.stacks[of as usize]).collect());
        }
        packer.put(&mut table, "label", rows.label.iter().map(|&of| places.labels[of as usize]).collect());
        packer.put_by(&mut table, "start", &rows.start_ps, "stream", stream);
        packer.put(&mut table, "slot", since_start(&rows.slot_end_ps));
        packer.put(&mut table, "length", since_start(&rows.end_ps));
        packer.put(&mut table, "wait", rows.wait_ps.clone());
        packer.put(&mut table, "cause", rows.cause.iter().map(|&cause| cause.into()).collect());
        packer.put(&mut table, "waited_on", rows.waited_on.iter().enumerate().map(back).collect());
        packer.put_by(&mut table, "ready", &rows.ready_ps, "stream", stream);
        packer.put(&mut table, "bound", rows.bound.iter().map(|&bound| bound.into()).collect());
        packer.put(&mut table, "critical", critical);
        packer.put(&mut table, "dma_bytes", rows.dma_bytes.clone());
        packer.put(&mut table, "hbm_read", rows.hbm_read.clone());
        packer.put(&mut table, "hbm_write", rows.hbm_write.clone());
        packer.put(&mut table, "macs", rows.macs.clone());
        table
    }

    fn pack_transfers(&self, packer: &mut Packer) -> TableLayout {
        let rows = self.transfers;
        let mut table = TableLayout::of(rows.len());
        let engine: Vec<u64> = rows.dma_engine.iter().map(|&engine| engine.into()).collect();
        let length = rows.end_ps.iter().zip(&rows.start_ps).map(|(end, start)| end - start);
        packer.put(&mut table, "instruction", rows.instruction.iter().map(|&row| row.into()).collect());
        packer.put(&mut table, "dma_engine", engine.clone());
        packer.put_by(&mut table, "start", &rows.start_ps, "dma_engine", &engine);
        packer.put(&mut table, "length", length.collect());
        packer.put(&mut table, "bytes", rows.bytes.clone());
        table
    }

    fn pack_tensors(&self, places: &Places, packer: &mut Packer) -> TableLayout {
        let rows = self.tensors;
        let mut table = TableLayout::of(rows.len());
        let wide = |column: &PackedRows<u32>| column.iter().map(u64::from).collect::<Vec<u64>>();
        let spans = spans_of(self);
        packer.put(&mut table, "memory", rows.memory.iter().map(u64::from).collect());
        packer.put(&mut table, "name", rows.name.iter().map(|of| places.names[of as usize]).collect());
        packer.put(&mut table, "shape", rows.shape.iter().map(|of| places.shapes[of as usize]).collect());
        packer.put(&mut table, "dtype", rows.dtype.iter().map(|of| places.dtypes[usize::from(of)]).collect());
        packer.put(&mut table, "site", rows.site.iter().map(|of| places.sites[of as usize]).collect());
        packer.put(&mut table, "partition", wide(&rows.partition));
        packer.put(&mut table, "partitions", wide(&rows.partitions));
        packer.put(&mut table, "byte", rows.byte.iter().collect());
        packer.put(&mut table, "bytes", rows.bytes.iter().collect());
        packer.put(&mut table, "came", wide(&rows.came));
        packer.put(&mut table, "went", wide(&rows.went));
        packer.put(&mut table, "from", spans.iter().map(|span| span.from_ps).collect());
        packer.put(&mut table, "to", spans.iter().map(|span| span.to_ps).collect());
        packer.put(&mut table, "first_use", spans.iter().map(|span| span.first_use).collect());
        packer.put(&mut table, "last_use", spans.iter().map(|span| span.last_use).collect());
        table
    }

    fn pack_uses(&self, packer: &mut Packer) -> TableLayout {
        let mut table = TableLayout::of(self.uses.len());
        packer.put(&mut table, "instruction", self.uses.instruction.iter().map(u64::from).collect());
        packer.put(&mut table, "tensor", self.uses.tensor.iter().map(u64::from).collect());
        packer.put(&mut table, "usage", self.uses.usage.iter().map(u64::from).collect());
        table
    }

    fn pack_edges(&self, packer: &mut Packer) -> TableLayout {
        let rows = self.edges;
        let mut table = TableLayout::of(rows.len());
        let back = rows.consumer.iter().zip(&rows.producer).map(|(consumer, producer)| u64::from(consumer - producer));
        packer.put(&mut table, "consumer", rows.consumer.iter().map(u64::from).collect());
        packer.put(&mut table, "back", back.collect());
        packer.put(&mut table, "kind", rows.kind.iter().map(u64::from).collect());
        table
    }

    fn pack_occupancy(&self, packer: &mut Packer) -> TableLayout {
        let mut table = TableLayout::of(self.occupancy.time_ps.len());
        packer.put(&mut table, "time", self.occupancy.time_ps.iter().collect());
        packer.put(&mut table, "sbuf", self.occupancy.sbuf_bytes.iter().collect());
        packer.put(&mut table, "psum", self.occupancy.psum_bytes.iter().collect());
        table
    }

    fn pack_hbm(&self, packer: &mut Packer) -> TableLayout {
        let bins = MAX_BINS.min(self.latency_ps.div_ceil(SHORTEST_BIN_PS));
        let edges = if bins == 0 { Vec::new() } else { even_edges(self.latency_ps as f64, bins as usize) };
        let bytes = crate::traffic::of_columns(self.instructions, self.transfers, &edges);
        let mut table = TableLayout::of(bytes.len());
        packer.put(&mut table, "time", edges.iter().take(bytes.len()).map(|&edge| edge as u64).collect());
        packer.put(&mut table, "bytes", bytes.iter().map(|bytes| bytes.round() as u64).collect());
        table
    }
}
