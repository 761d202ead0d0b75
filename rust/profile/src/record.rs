//! What a core holds of its run, as a profile keeps it.

use std::sync::Arc;

use trn3_machine::core::NeuronCore;
use trn3_machine::site::Site;
use trn3_machine::time::Picos;

use crate::advice::LazyAdvice;
use crate::findings::finding_record;
use crate::kept_run::{instructions, occupancy, transfers};
use crate::lazy_recorded::LazyRecorded;
use crate::machine_figures::MachineFigures;
use crate::precision::PrecisionLoss;
use crate::run_columns::{BasisTime, RunColumns};

impl RunColumns {
    /// What a core's run was so far: its timeline, findings, memories in use and lost precision.
    pub fn of(core: &mut NeuronCore, kernel: &str) -> Self {
        let latency = core.makespan();
        let occupancy = occupancy(&core.occupancy());
        let peaks = [occupancy.sbuf_peak_bytes, occupancy.psum_peak_bytes];
        let graph = core.timeline.graph().map(|graph| Arc::new(graph.clone()));
        let advice = LazyAdvice::of_graph(core, graph.clone(), peaks, core.options.unlimited);
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
            instructions: instructions(&core.timeline),
            transfers: transfers(core.timeline.transfers()),
            occupancy,
            recorded: LazyRecorded::of(core, graph),
            critical: core.timeline.critical_path(),
            basis,
            compile: None,
            advice,
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
