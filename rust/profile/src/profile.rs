//! The figures of a run on one core, or on the cores of a logical core together.

use std::sync::{Arc, OnceLock};

use crate::advice::RunAdvice;
use crate::band::LatencyBasis;
use crate::cause::ENGINES;
use crate::core_profile::{CoreProfile, Totals};
use crate::critical::CriticalStep;
use crate::engines::EngineTotal;
use crate::findings::ReportedFinding;
use crate::lines::LineTotal;
use crate::meetings::JointStep;
use crate::precision::{CoreLoss, by_growth};
use crate::roofline::{Roofline, Work};
use crate::rows::PS_PER_US;
use crate::run_columns::{CompileFigures, RunColumns};
use crate::speed_of_light::SpeedOfLight;

/// What one run of a kernel cost, and why.
///
/// Of several cores ([`Profile::joint`]): all start at time 0; the latency is that of the core that ends last, whose
/// critical path it is as far as that core waited for no other. Counts are sums over the cores, utilisations are of all
/// cores together, and **(choice)** an engine's times are means over the cores.
#[derive(Clone, Debug)]
pub struct Profile {
    cores: Vec<Arc<CoreProfile>>,
    /// The core that ends last.
    last: usize,
    /// Whether figures are of several cores together; of one alone they are that core's own.
    is_joint: bool,
    path: Arc<OnceLock<Vec<JointStep>>>,
}

impl Profile {
    /// The profile of a run on one core.
    pub fn of_run(columns: RunColumns) -> Self {
        Self::of_core(Arc::new(CoreProfile::new(columns)))
    }

    /// The profile of one core.
    pub fn of_core(core: Arc<CoreProfile>) -> Self {
        Self { cores: vec![core], last: 0, is_joint: false, path: Arc::default() }
    }

    /// The joint profile of cores, in order of their numbers; None of no core.
    pub fn joint(cores: Vec<Arc<CoreProfile>>) -> Option<Self> {
        let latencies = cores.iter().map(|core| core.columns().latency_ps).enumerate();
        let (last, _) = latencies.reduce(|most, next| if next.1 > most.1 { next } else { most })?;
        Some(Self { cores, last, is_joint: true, path: Arc::default() })
    }

    /// The cores, in order of their numbers.
    pub fn cores(&self) -> &[Arc<CoreProfile>] {
        &self.cores
    }

    /// Whether it is of several cores together.
    pub fn is_joint(&self) -> bool {
        self.is_joint
    }

    /// The place of the core that ends last.
    pub fn last(&self) -> usize {
        self.last
    }

    /// What the core that ends last recorded.
    pub fn columns(&self) -> &RunColumns {
        self.cores[self.last].columns()
    }

    fn count(&self) -> f64 {
        self.cores.len() as f64
    }

    fn sum(&self, part: impl Fn(&Totals) -> u64) -> u64 {
        self.cores.iter().fold(0, |sum, core| sum.saturating_add(part(core.totals())))
    }

    fn core_number(&self, number: usize) -> Option<usize> {
        self.is_joint.then_some(number)
    }

    /// Length of the busy window, in microseconds.
    pub fn latency_us(&self) -> f64 {
        self.cores[self.last].latency_us()
    }

    /// What the latency rests on: of several cores, that of the one that ends last. None of records that do not say.
    pub fn latency_basis(&self) -> Option<LatencyBasis> {
        LatencyBasis::of(self.columns())
    }

    /// From which latency on the hardware's is expected, in microseconds.
    pub fn latency_low_us(&self) -> Option<f64> {
        Some(self.latency_basis()?.band()?.low_us)
    }

    /// Up to which latency the hardware's is expected, in microseconds.
    pub fn latency_high_us(&self) -> Option<f64> {
        Some(self.latency_basis()?.band()?.high_us)
    }

    /// What a compiler made of the run: of several cores, of the one that ends last.
    pub fn compile(&self) -> CompileFigures {
        let latency_us = self.latency_us();
        let as_written = || CompileFigures {
            level: "as-written".to_owned(),
            as_written_us: Some(latency_us),
            compiled_us: latency_us,
            bound_us: None,
            spilled_bytes: 0,
            passes: Vec::new(),
            verified: None,
        };
        self.columns().compile.clone().unwrap_or_else(as_written)
    }

    /// What starting and ending a kernel costs beside the latency, in microseconds.
    ///
    /// **(choice)** Of several cores the sum: each core's program is started by itself, one after the other. The line
    /// through published kernels that stream weights has 41 us on two cores without a byte moved, and 17 on one.
    pub fn overhead_us(&self) -> f64 {
        self.cores.iter().map(|core| core.columns().overhead_ps as f64).sum::<f64>() / PS_PER_US
    }

    /// Instructions.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.columns().instructions.len() as u64).sum()
    }

    /// What the run found to complain of, core by core.
    pub fn findings(&self) -> Vec<ReportedFinding> {
        let of = |(number, core): (usize, &Arc<CoreProfile>)| {
            let records = core.columns().findings.iter();
            records.map(|record| ReportedFinding::of(record, self.core_number(number))).collect::<Vec<_>>()
        };
        self.cores.iter().enumerate().flat_map(of).collect()
    }

    /// What each line's instructions lost of their results' precision, worst first; empty without a shadow run.
    pub fn precision(&self) -> Vec<CoreLoss> {
        let of = |(number, core): (usize, &Arc<CoreProfile>)| {
            let losses = core.columns().precision.iter();
            let placed = losses.map(|loss| CoreLoss { loss: loss.clone(), core: self.core_number(number) });
            by_growth(placed.collect())
        };
        by_growth(self.cores.iter().enumerate().flat_map(of).collect())
    }

    /// Multiply-accumulate operations of all matmuls.
    pub fn macs(&self) -> u64 {
        self.sum(|totals| totals.macs)
    }

    /// Bytes that DMA instructions moved.
    pub fn dma_bytes(&self) -> u64 {
        self.sum(|totals| totals.dma_bytes)
    }

    /// Bytes read from HBM.
    pub fn hbm_read_bytes(&self) -> u64 {
        self.sum(|totals| totals.hbm_read)
    }

    /// Bytes written to HBM.
    pub fn hbm_write_bytes(&self) -> u64 {
        self.sum(|totals| totals.hbm_write)
    }

    /// The most bytes of an SBUF partition in use at a time, of any core.
    pub fn sbuf_peak_bytes(&self) -> u64 {
        self.cores.iter().map(|core| core.columns().occupancy.sbuf_peak_bytes).max().unwrap_or(0)
    }

    /// The most bytes of a PSUM partition in use at a time, of any core.
    pub fn psum_peak_bytes(&self) -> u64 {
        self.cores.iter().map(|core| core.columns().occupancy.psum_peak_bytes).max().unwrap_or(0)
    }

    /// How long all matmuls would take at the peak of their element types, shared evenly by the cores, in microseconds.
    pub fn ideal_matmul_us(&self) -> f64 {
        self.cores.iter().map(|core| core.ideal_matmul_us()).sum::<f64>() / self.count()
    }

    /// Model FLOPs utilisation: [`Profile::ideal_matmul_us`] as part of the latency.
    pub fn mfu(&self) -> f64 {
        if self.columns().latency_ps > 0 { self.ideal_matmul_us() / self.latency_us() } else { 0.0 }
    }

    /// Memory bandwidth utilisation: HBM bytes as part of what HBM gives all cores in the latency.
    pub fn mbu(&self) -> f64 {
        let room = self.latency_us() * self.columns().arch.hbm_gbps * 1e3;
        if room > 0.0 { self.work().hbm_bytes as f64 / room / self.count() } else { 0.0 }
    }

    /// How long each DMA engine moved bytes, in microseconds: those of core 0 first.
    pub fn dma_engine_us(&self) -> Vec<f64> {
        let busy = self.cores.iter().flat_map(|core| core.dma_engine_ps());
        busy.map(|&picoseconds| picoseconds as f64 / PS_PER_US).collect()
    }

    /// How long all DMA engines moved bytes, each for itself, in picoseconds.
    pub(crate) fn dma_engine_ps(&self) -> u64 {
        self.cores.iter().flat_map(|core| core.dma_engine_ps()).sum()
    }

    /// What part of the latency a DMA engine moved bytes, as the mean over all of them: at most the `busy_share` of `dma`,
    /// which is the time in which any did.
    pub fn dma_mean_busy_share(&self) -> f64 {
        let busy = self.dma_engine_us();
        let room = busy.len() as f64 * self.latency_us();
        if room > 0.0 { busy.iter().sum::<f64>() / room } else { 0.0 }
    }

    /// Bytes moved as part of what DMA engines at work could move; None without transfers.
    pub fn dma_efficiency(&self) -> Option<f64> {
        let room: f64 = self.cores.iter().map(|core| core.dma_room()).sum();
        (room > 0.0).then(|| self.sum(|totals| totals.transfer_bytes) as f64 / room)
    }

    fn work(&self) -> Work {
        let sum = |part: fn(&Totals) -> u64| self.cores.iter().map(|core| u128::from(part(core.totals()))).sum();
        Work {
            cores: self.count(),
            macs: sum(|totals| totals.macs),
            hbm_bytes: sum(|totals| totals.hbm_read) + sum(|totals| totals.hbm_write),
            ideal_matmul_us: self.ideal_matmul_us(),
            latency_us: self.latency_us(),
        }
    }

    /// FLOP of matmuls per byte of HBM traffic; infinite without traffic, 0 without matmuls.
    pub fn arithmetic_intensity(&self) -> f64 {
        self.work().intensity()
    }

    /// Where the kernel stands under the ceilings of the machine, of all cores together.
    pub fn roofline(&self) -> Roofline {
        crate::roofline::of(&self.work(), &self.columns().arch)
    }

    /// What each engine did, in the order of [`ENGINES`].
    pub fn engines(&self) -> Vec<EngineTotal> {
        if self.is_joint {
            let cores: Vec<&[EngineTotal]> = self.cores.iter().map(|core| core.engines()).collect();
            return crate::engines::of_cores(&cores, self.latency_us());
        }
        self.cores[0].engines().to_vec()
    }

    fn path(&self) -> &[JointStep] {
        self.path.get_or_init(|| crate::meetings::critical_path(&self.cores, self.last))
    }

    /// How much of the critical path each engine holds, on whichever core, in microseconds, in the order of [`ENGINES`].
    pub fn critical_engine_us(&self) -> [f64; ENGINES.len()] {
        let held = match self.is_joint {
            true => crate::meetings::engine_ps(&self.cores, self.path()),
            false => self.columns().critical_engine_ps(),
        };
        held.map(|picoseconds| picoseconds as f64 / PS_PER_US)
    }

    /// The instructions that decide the latency, by rising start. Where a core waited for another, the path goes on there.
    pub fn critical_path(&self) -> Vec<CriticalStep> {
        if self.is_joint {
            return self.path().iter().map(|step| CriticalStep::of(&self.cores[step.core], step.instruction)).collect();
        }
        self.columns().critical.iter().map(|&step| CriticalStep::of(&self.cores[0], step)).collect()
    }

    /// What each line of the kernel cost, on all cores, costliest first.
    pub fn lines(&self) -> Vec<LineTotal> {
        if self.is_joint {
            let critical = crate::meetings::line_ps(&self.cores, self.path());
            return crate::lines::of_cores(self.cores.iter().flat_map(|core| core.lines()), &critical);
        }
        self.cores[0].lines().to_vec()
    }

    /// HBM bytes, read and written, that move between edges in picoseconds, which must rise.
    pub fn hbm_bytes_by_bin(&self, edges_ps: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; edges_ps.len().saturating_sub(1)];
        for core in &self.cores {
            for (sum, part) in sums.iter_mut().zip(crate::traffic::by_bin(core.columns(), edges_ps)) {
                *sum += part;
            }
        }
        sums
    }

    /// In plain words what binds the kernel, of several cores the one that ends last, and what to look at first.
    pub fn verdict(&self) -> String {
        let verdict = crate::verdict::of_core(&self.cores[self.last]);
        if !self.is_joint {
            return verdict;
        }
        let times: Vec<String> = self.cores.iter().map(|core| format!("{:.1}", core.latency_us())).collect();
        let (last, times) = (self.last, times.join(", "));
        format!("{verdict} (Core {last}, which ends last; the cores take {times} us.)")
    }

    /// How long the run would take if nothing waited; None of one that took no time.
    pub fn speed_of_light(&self) -> Option<SpeedOfLight> {
        SpeedOfLight::of(&self.cores[self.last])
    }

    /// What would make the run faster, the largest gain first; of several cores, the one that ends last, while the others
    /// stay as they are.
    pub fn advice(&self) -> &[RunAdvice] {
        self.columns().advice.get().map_or(&[], |found| &found.advice)
    }

    /// Why there is no advice; empty where there is some.
    pub fn advice_note(&self) -> &str {
        self.columns().advice.get().map_or("nothing was looked for: the run cannot be timed anew", |found| &found.note)
    }

    /// A native Perfetto trace, a process for each core.
    pub fn to_perfetto(&self) -> Vec<u8> {
        crate::perfetto::trace(&self.cores)
    }
}
