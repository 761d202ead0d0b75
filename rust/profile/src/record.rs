//! From what a core holds of its run to columns.

use trn3_machine::core::{NeuronCore, OccupancyPoint};
use trn3_machine::site::Site;
use trn3_machine::time::Picos;
use trn3_machine::timing::record::{Record, TransferRecord};

use crate::cause::cause_number;
use crate::columns::{BasisTime, InstructionColumns, OccupancyColumns, RunColumns, TransferColumns};
use crate::findings::finding_record;
use crate::machine_figures::MachineFigures;
use crate::precision::PrecisionLoss;
use crate::recorded::Recorded;

impl RunColumns {
    /// What a core's run was so far: its timeline, findings, memories in use and lost precision.
    pub fn of(core: &mut NeuronCore, kernel: &str) -> Self {
        let latency = core.makespan();
        let occupancy = occupancy(&core.occupancy());
        let sites = core.sites.all().into_iter();
        let basis = basis_of(core);
        let findings = core.state.memory.findings().clone();
        Self {
            arch: MachineFigures::of(core.arch()),
            kernel: kernel.to_owned(),
            latency_ps: latency.0,
            overhead_ps: core.arch().nanoseconds(core.arch().kernel_overhead_ns).0,
            opcodes: core.opcodes.opcodes().iter().map(|name| (*name).to_owned()).collect(),
            labels: core.opcodes.labels().to_vec(),
            sites: sites.map(|Site { file, line, function }| (file, line, function)).collect(),
            findings: findings.iter().map(|finding| finding_record(finding, &core.sites)).collect(),
            instructions: instructions(core.timeline.records()),
            transfers: transfers(core.timeline.transfers()),
            occupancy,
            recorded: Recorded::of(core),
            critical: core.timeline.critical_path(),
            basis,
            compile: None,
            precision: core.losses().into_iter().map(|loss| PrecisionLoss::of(loss, &core.sites)).collect(),
        }
    }
}

fn basis_of(core: &mut NeuronCore) -> Vec<BasisTime> {
    let basis = core.latency_basis();
    let entries = core.arch().entries();
    let time = |(place, time): (usize, Picos)| {
        let entry = entries.get(place)?;
        Some(BasisTime { constant: entry.key.clone(), evidence: entry.evidence(), time_ps: time.0 })
    };
    basis.into_iter().filter_map(time).collect()
}

pub(crate) fn instructions(records: &[Record]) -> InstructionColumns {
    InstructionColumns {
        opcode: records.iter().map(|record| record.opcode).collect(),
        engine: records.iter().map(|record| record.engine as u8).collect(),
        queue: records.iter().map(|record| record.queue).collect(),
        site: records.iter().map(|record| record.site.0).collect(),
        label: records.iter().map(|record| record.label).collect(),
        start_ps: records.iter().map(|record| record.start.0).collect(),
        slot_end_ps: records.iter().map(|record| record.slot_end.0).collect(),
        end_ps: records.iter().map(|record| record.end.0).collect(),
        wait_ps: records.iter().map(|record| record.wait.0).collect(),
        cause: records.iter().map(|record| cause_number(record.cause)).collect(),
        waited_on: records.iter().map(|record| record.waited_on).collect(),
        dma_bytes: records.iter().map(|record| record.dma_bytes).collect(),
        hbm_read: records.iter().map(|record| record.hbm_read).collect(),
        hbm_write: records.iter().map(|record| record.hbm_write).collect(),
        macs: records.iter().map(|record| record.macs).collect(),
        peak_macs_per_cycle: records.iter().map(|record| record.peak_macs_per_cycle).collect(),
    }
}

pub(crate) fn transfers(records: &[TransferRecord]) -> TransferColumns {
    TransferColumns {
        instruction: records.iter().map(|record| record.id).collect(),
        dma_engine: records.iter().map(|record| record.dma_engine).collect(),
        start_ps: records.iter().map(|record| record.start.0).collect(),
        end_ps: records.iter().map(|record| record.end.0).collect(),
        bytes: records.iter().map(|record| record.bytes).collect(),
    }
}

pub(crate) fn occupancy(points: &[OccupancyPoint]) -> OccupancyColumns {
    OccupancyColumns {
        time_ps: points.iter().map(|point| point.time.0).collect(),
        sbuf_bytes: points.iter().map(|point| point.sbuf).collect(),
        psum_bytes: points.iter().map(|point| point.psum).collect(),
        sbuf_peak_bytes: points.iter().map(|point| point.sbuf).max().unwrap_or(0),
        psum_peak_bytes: points.iter().map(|point| point.psum).max().unwrap_or(0),
    }
}
