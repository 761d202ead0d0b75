//! The profile as tables whose columns bear the names that Neuron Explorer gives them. A column of theirs that the machine
//! does not know is left out, never filled with a guess; columns of our own begin with `trn3_`.

mod dma;
mod stack_frames;

use serde_json::Value;
use trn3_machine::timing::record::NO_INSTRUCTION;

use crate::cause::{BOUNDS, CAUSES, DMA, ENGINES};
use crate::columns_by_name::{ProfileTable, TableColumn, nanoseconds, positions};
use crate::core_profile::CoreProfile;
use crate::intervals::union_length;
use crate::profile::Profile;
use dma::{dma_packet, dma_packet_aggregated};
use stack_frames::StackFrames;

/// Names of the tables.
pub const TABLES: [&str; 9] = [
    "Instruction",
    "DmaPacket",
    "DmaPacketAggregated",
    "Summary",
    "Metadata",
    "StackFrame",
    "StackFrameFileLocation",
    "StackFrameFileName",
    "StackFrameFunctionName",
];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Profile {
    /// The table of one of the names of [`TABLES`], core by core where there are several (`trn3_core`); None for another
    /// name. Times are nanoseconds, in `Summary` seconds.
    pub fn table(&self, name: &str) -> Option<ProfileTable> {
        let of = match name {
            "Instruction" => instruction,
            "DmaPacket" => dma_packet,
            "DmaPacketAggregated" => dma_packet_aggregated,
            "Summary" => summary,
            "Metadata" => return Some(metadata(self)),
            _ => return StackFrames::of(self).table(name),
        };
        let frames = (name == "Instruction").then(|| StackFrames::of(self));
        let part = |number: usize, profile: &Profile| {
            let core = &self.cores()[number];
            let mut part = of(core, profile);
            if let Some(frames) = &frames {
                part.names("stack_frame_ids", frames.ids(number), &core.columns().instructions.site);
            }
            part
        };
        if !self.is_joint() {
            return Some(part(0, self));
        }
        let (mut joined, mut numbers) = (ProfileTable::default(), Vec::new());
        for (number, core) in self.cores().iter().enumerate() {
            let part = part(number, &Profile::of_core(core.clone()));
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

/// What the machine's description says, of one core where it is of one.
fn metadata(profile: &Profile) -> ProfileTable {
    let (arch, cores) = (&profile.columns().arch, profile.cores().len() as u64);
    let mut table = ProfileTable::default();
    table.integer("num_physical_cores", cores);
    table.integer("vnc_enabled", u64::from(cores > 1));
    table.integer("first_hw_timestamp", 0);
    table.integer("last_hw_timestamp", nanoseconds(profile.columns().latency_ps) as u64);
    table.float("dma_ddr_bandwidth", 1e9 * arch.dma_engines * arch.dma_engine_bytes_per_ns);
    table.integer("num_dma_engines_per_neuroncore", arch.dma_engines as u64);
    table.integer("tensor_engine_num_rows", arch.partitions as u64);
    table.integer("tensor_engine_num_cols", arch.partitions as u64);
    for engine in &ENGINES[..usize::from(DMA)] {
        let clock = arch.entries().get(&format!("{engine}_clock_mhz")).and_then(Value::as_f64);
        // There is no field for that of sync.
        if let (Some(clock), true) = (clock, *engine != "sync") {
            table.float(format!("{engine}_engine_clock_freq"), clock / 1e3);
        }
    }
    let mut text = |name: &str, text: &str| table.names(name, vec![text.to_owned()], &[0u32]);
    text("profile_name", &profile.columns().kernel);
    text("trn3_arch", &arch.name);
    text("trn3_version", env!("CARGO_PKG_VERSION"));
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
    table.integer("trn3_latency_ps", columns.latency_ps);
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
