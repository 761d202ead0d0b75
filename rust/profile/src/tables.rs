//! The profile as tables whose columns bear the names that Neuron Explorer gives them. A column of theirs that the machine
//! does not know is left out, never filled with a guess; columns of our own begin with `trn3_`.

use trn3_machine::timing::record::NO_INSTRUCTION;

use crate::cause::{BOUNDS, CAUSES, DMA, ENGINES};
use crate::core_profile::CoreProfile;
use crate::intervals::union_length;
use crate::profile::Profile;

/// Names of the tables.
pub const TABLES: [&str; 3] = ["Instruction", "DmaPacket", "Summary"];

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum TableColumn {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Others; what is not known is NaN.
    Floats(Vec<f64>),
    /// Texts, by their places in a list.
    Names {
        /// The texts.
        names: Vec<String>,
        /// Of each row, the place of its text.
        places: Vec<u32>,
    },
}

impl TableColumn {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            TableColumn::Integers(values) => values.len(),
            TableColumn::Floats(values) => values.len(),
            TableColumn::Names { places, .. } => places.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the rows of a column of the same table behind its own.
    fn append(&mut self, other: TableColumn) {
        match (self, other) {
            (TableColumn::Integers(values), TableColumn::Integers(more)) => values.extend(more),
            (TableColumn::Floats(values), TableColumn::Floats(more)) => values.extend(more),
            (TableColumn::Names { names, places }, TableColumn::Names { names: others, places: more }) => {
                let offset = names.len() as u32;
                names.extend(others);
                places.extend(more.into_iter().map(|place| place + offset));
            }
            // Columns of one name are of one kind.
            _ => {}
        }
    }
}

/// A column for each name, all of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileTable {
    /// Names and columns, in order.
    pub columns: Vec<(String, TableColumn)>,
}

impl ProfileTable {
    fn put(&mut self, name: impl Into<String>, column: TableColumn) {
        self.columns.push((name.into(), column));
    }

    fn integers(&mut self, name: &str, values: impl Iterator<Item = i64>) {
        self.put(name, TableColumn::Integers(values.collect()));
    }

    fn names<T: Copy + Into<u32>>(&mut self, name: &str, names: Vec<String>, places: &[T]) {
        self.put(name, TableColumn::Names { names, places: places.iter().map(|&place| place.into()).collect() });
    }

    fn integer(&mut self, name: impl Into<String>, value: u64) {
        self.put(name, TableColumn::Integers(vec![value as i64]));
    }

    fn float(&mut self, name: impl Into<String>, value: f64) {
        self.put(name, TableColumn::Floats(vec![value]));
    }

    /// Their times are whole nanoseconds. Cut off, not rounded, ends stay before the starts that follow them.
    fn spans(&mut self, start_ps: &[u64], end_ps: &[u64]) {
        self.integers("start_ts", start_ps.iter().map(|&start| nanoseconds(start)));
        self.integers("end_ts", end_ps.iter().map(|&end| nanoseconds(end)));
        let spans = start_ps.iter().zip(end_ps);
        self.integers("duration_ns", spans.map(|(&start, &end)| nanoseconds(end) - nanoseconds(start)));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn nanoseconds(picoseconds: u64) -> i64 {
    (picoseconds / 1000) as i64
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// For each entry, how many equal ones stand before it.
fn positions<T: Copy + Into<u32>>(groups: &[T]) -> impl Iterator<Item = i64> {
    let mut counts: Vec<i64> = Vec::new();
    groups.iter().map(move |&group| {
        let group = group.into() as usize;
        if group >= counts.len() {
            counts.resize(group + 1, 0);
        }
        counts[group] += 1;
        counts[group] - 1
    })
}

impl Profile {
    /// The table of one of the names of [`TABLES`], core by core where there are several (`trn3_core`); None for another
    /// name. Times are nanoseconds in the first two, seconds in `Summary`.
    pub fn table(&self, name: &str) -> Option<ProfileTable> {
        let of = match name {
            "Instruction" => instruction,
            "DmaPacket" => dma_packet,
            "Summary" => summary,
            _ => return None,
        };
        if !self.is_joint() {
            return Some(of(&self.cores()[0], self));
        }
        let (mut joined, mut numbers) = (ProfileTable::default(), Vec::new());
        for (number, core) in self.cores().iter().enumerate() {
            let part = of(core, &Profile::of_core(core.clone()));
            numbers.resize(numbers.len() + part.len(), number as i64);
            if joined.columns.is_empty() {
                joined = part;
                continue;
            }
            for ((_, column), (_, more)) in joined.columns.iter_mut().zip(part.columns) {
                column.append(more);
            }
        }
        joined.put("trn3_core", TableColumn::Integers(numbers));
        Some(joined)
    }
}

fn instruction(core: &CoreProfile, _: &Profile) -> ProfileTable {
    let (columns, rows) = (core.columns(), &core.columns().instructions);
    let place = |(file, line, _): &(String, u32, String)| match line {
        0 => String::new(),
        line => format!("{file}:{line}"),
    };
    let whole = |column: &[u64]| column.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let flop: Vec<i64> = rows.macs.iter().map(|&macs| 2 * macs as i64).collect();
    // FLOP of 16-bit matmuls that would have taken as long: theirs run at one a cell and cycle.
    let cells = columns.arch.partitions * columns.arch.partitions;
    let peak = |row: usize| if rows.macs[row] > 0 { rows.peak_macs_per_cycle[row] as f64 } else { 1.0 };
    let adjusted = flop.iter().enumerate().map(|(row, &flop)| (flop as f64 * (cells / peak(row))).round_ties_even());
    let mut table = ProfileTable::default();
    table.spans(&rows.start_ps, &rows.end_ps);
    table.names("engine", owned(&ENGINES), &rows.engine);
    table.names("opcode", columns.opcodes.clone(), &rows.opcode);
    table.integers("id", 0..rows.len() as i64);
    table.integers("pc", positions(&rows.engine));
    table.integers("evt_wait_time_ns", rows.wait_ps.iter().map(|&wait| nanoseconds(wait)));
    table.names("nki_source_location", columns.sites.iter().map(place).collect(), &rows.site);
    table.put("hbm_read_bytes", TableColumn::Integers(whole(&rows.hbm_read)));
    table.put("hbm_write_bytes", TableColumn::Integers(whole(&rows.hbm_write)));
    table.integers("raw_flops", flop.iter().copied());
    table.integers("adjusted_flops", adjusted.map(|flop| flop as i64));
    table.names("trn3_label", columns.labels.clone(), &rows.label);
    table.integers("trn3_slot_end_ts", rows.slot_end_ps.iter().map(|&end| nanoseconds(end)));
    table.names("trn3_wait_cause", owned(&CAUSES), &rows.cause);
    let waited_on = rows.waited_on.iter().map(|&on| if on == NO_INSTRUCTION { -1 } else { i64::from(on) });
    table.integers("trn3_waited_on_id", waited_on);
    table.integers("trn3_ready_ts", rows.ready_ps.iter().map(|&ready| nanoseconds(ready)));
    table.names("trn3_bound_by", owned(&BOUNDS), &rows.bound);
    let queues = rows.engine.iter().zip(&rows.queue);
    let queues = queues.map(|(&engine, &queue)| if engine == DMA { i64::from(queue) } else { -1 });
    table.integers("trn3_dma_queue", queues);
    table.put("trn3_dma_bytes", TableColumn::Integers(whole(&rows.dma_bytes)));
    table
}

fn dma_packet(core: &CoreProfile, _: &Profile) -> ProfileTable {
    let (rows, transfers) = (&core.columns().instructions, &core.columns().transfers);
    let lasted = |row: usize| (transfers.end_ps[row] - transfers.start_ps[row]) as f64;
    let rate = |row: usize| match lasted(row) {
        0.0 => 0.0,
        lasted => transfers.bytes[row] as f64 * 1e12 / lasted,
    };
    let mut table = ProfileTable::default();
    table.spans(&transfers.start_ps, &transfers.end_ps);
    table.integers("id", 0..transfers.len() as i64);
    table.integers("packet_idx", positions(&transfers.instruction));
    table.integers("packet_aggregation_id", transfers.instruction.iter().map(|&row| i64::from(row)));
    table.integers("engine_idx", transfers.dma_engine.iter().map(|&engine| i64::from(engine)));
    table.integers("transfer_bytes", transfers.bytes.iter().map(|&bytes| bytes as i64));
    table.put("throughput", TableColumn::Floats((0..transfers.len()).map(rate).collect()));
    table.integers("queue_idx", transfers.instruction.iter().map(|&row| i64::from(rows.queue[row as usize])));
    table
}

fn summary(core: &CoreProfile, profile: &Profile) -> ProfileTable {
    let (columns, rows) = (core.columns(), &core.columns().instructions);
    let roofline = profile.roofline();
    let moves = columns.rows_of(DMA).count() as u64;
    let slots = rows.start_ps.iter().copied().zip(rows.slot_end_ps.iter().copied());
    let active = union_length(slots.chain(columns.busy_spans(DMA)).collect()) as f64 / 1e12;
    let latency = columns.latency_ps as f64;
    let intensity = profile.arithmetic_intensity();
    let mut table = ProfileTable::default();
    table.float("total_time", latency / 1e12);
    table.float("total_active_time", active);
    table.float("total_active_time_percent", if latency > 0.0 { 100e12 * active / latency } else { 0.0 });
    table.integer("hardware_flops", 2 * profile.macs());
    table.float("mfu_estimated_percent", 100.0 * profile.mfu());
    table.float("mbu_estimated_percent", 100.0 * profile.mbu());
    table.float("mm_arithmetic_intensity", if intensity.is_finite() { intensity } else { f64::NAN });
    table.float("peak_flops_bandwidth_ratio", 1e3 * roofline.compute_tflops / roofline.hbm_gbps);
    table.integer("hbm_read_bytes", profile.hbm_read_bytes());
    table.integer("hbm_write_bytes", profile.hbm_write_bytes());
    table.integer("dma_transfer_count", moves);
    table.integer("dma_transfer_total_bytes", profile.dma_bytes());
    let average = if moves > 0 { profile.dma_bytes() as f64 / moves as f64 } else { 0.0 };
    table.float("dma_transfer_average_bytes", average);
    table.float("dma_packet_time", profile.dma_engine_ps() as f64 / 1e12);
    table.float("trn3_overhead_time", columns.overhead_ps as f64 / 1e12);
    table.integer("trn3_sbuf_peak_bytes", profile.sbuf_peak_bytes());
    table.integer("trn3_psum_peak_bytes", profile.psum_peak_bytes());
    for (number, total) in core.engines().iter().enumerate() {
        let (active, share) = (total.busy_us / 1e6, 100.0 * total.busy_share);
        if number == usize::from(DMA) {
            table.float("dma_active_time", active);
            table.float("dma_active_time_percent", share);
            continue;
        }
        let slots = columns.rows_of(number as u8).map(|row| rows.slot_end_ps[row] - rows.start_ps[row]);
        let name = |what: &str| format!("{}_engine_{what}", total.engine);
        table.integer(name("instruction_count"), total.instructions);
        table.float(name("instruction_time"), slots.sum::<u64>() as f64 / 1e12);
        table.float(name("active_time"), active);
        table.float(name("active_time_percent"), share);
    }
    table
}
