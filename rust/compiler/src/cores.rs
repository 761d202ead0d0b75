//! The runs of cores, compiled: their traces go through the passes, and come back as their time.

use trn3_machine::core::NeuronCore;
use trn3_machine::time::Picos;
use trn3_machine::trace::{Trace, time_as_written, time_cores};
use trn3_machine::{Error, Result};

use crate::bound::lower_bound;
use crate::constants::CompilerConstants;
use crate::live::live_ranges;
use crate::options::CompileOptions;
use crate::passes::check::check;
use crate::report::{CompileReport, PassReport, Verification};

/// Compiles what cores ran, and makes that their time. The cores are all that met one another, each of which keeps a trace:
/// its [places are without limit](trn3_machine::core::CoreOptions::unlimited).
///
/// # Errors
/// [`Error::Value`] for a pass that there is not, a core that kept no trace, and a pass that the check refuses; the capacity
/// errors where the operands of one instruction do not fit; those of the machine.
pub fn compile_cores(cores: &mut [&mut NeuronCore], options: &CompileOptions) -> Result<Vec<CompileReport>> {
    let mut traces = take_traces(cores)?;
    let as_written = time_before(cores, &mut traces)?;
    compile_traces(cores, &mut traces, as_written, options)
}

/// What cores ran; they keep it no longer.
pub(crate) fn take_traces(cores: &mut [&mut NeuronCore]) -> Result<Vec<Trace>> {
    let missing =
        || Error::Value("a core kept no trace of its run: it is made with unlimited places, and timing".to_owned());
    cores.iter_mut().map(|core| core.take_trace().ok_or_else(missing)).collect()
}

/// What each core takes as written, which it keeps beside its own time; None where tensors do not fit.
pub(crate) fn time_before(cores: &mut [&mut NeuronCore], traces: &mut [Trace]) -> Result<Option<Vec<Picos>>> {
    let fits: Vec<bool> = traces.iter_mut().map(Trace::place_as_written).collect();
    if fits.contains(&false) {
        return Ok(None);
    }
    time_as_written(cores, &traces.iter().collect::<Vec<_>>()).map(Some)
}

/// Compiles the traces of cores, and makes what comes out the time of these.
pub(crate) fn compile_traces(
    cores: &mut [&mut NeuronCore],
    traces: &mut [Trace],
    as_written: Option<Vec<Picos>>,
    options: &CompileOptions,
) -> Result<Vec<CompileReport>> {
    let constants = options.constants.map_or_else(CompilerConstants::load, Ok)?;
    constants.instead(|| run_passes(cores, traces, as_written, options))
}

fn run_passes(
    cores: &mut [&mut NeuronCore],
    traces: &mut [Trace],
    as_written: Option<Vec<Picos>>,
    options: &CompileOptions,
) -> Result<Vec<CompileReport>> {
    let pipeline = options.pipeline()?;
    if pipeline.iter().any(|pass| pass.name() == "allocate") {
        // Until then tensors lie nowhere.
        traces.iter_mut().for_each(|trace| trace.places.fill(None));
    }
    let mut reports = Vec::with_capacity(traces.len());
    for (number, trace) in traces.iter_mut().enumerate() {
        let mut passes = Vec::with_capacity(pipeline.len());
        for pass in &pipeline {
            let mut report = PassReport::new(pass.name());
            let before = options.verify.then(|| trace.clone());
            pass.run(trace, &mut report)?;
            if let Some(before) = before {
                check(&before, trace).map_err(|error| Error::Value(format!("pass {}: {error}", pass.name())))?;
            }
            passes.push(report);
        }
        // What steps could be is decided; the records of all of them come on top of the trace.
        trace.steps.iter_mut().for_each(|step| step.alternatives = None);
        trace.steps.shrink_to_fit();
        reports.push(CompileReport {
            level: options.level.name(),
            as_written_us: as_written.as_ref().map(|all| all[number].microseconds()),
            compiled_us: 0.0,
            bound_us: lower_bound(trace).microseconds(),
            spilled_bytes: passes.iter().map(|pass| pass.count("spilled_bytes")).sum(),
            verified: options.verify.then_some(Verification { passes: passes.len(), outputs: 0 }),
            passes,
            live: Vec::new(),
        });
    }
    time_cores(cores, &traces.iter().collect::<Vec<_>>())?;
    for ((core, report), trace) in cores.iter_mut().zip(&mut reports).zip(traces.iter()) {
        report.compiled_us = core.makespan().microseconds();
        if options.live {
            core.timeline.schedule();
            report.live = live_ranges(trace, &core.timeline);
        }
    }
    Ok(reports)
}
