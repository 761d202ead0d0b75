//! What binds a kernel, in one plain sentence, and what to look at first.

use crate::cause::{DMA, ENGINES};
use crate::core_profile::CoreProfile;
use crate::engines::EngineTotal;
use crate::text::printable;

/// **(choice)** An engine that works this part of the time binds the kernel.
const BUSY_ENOUGH: f64 = 0.75;
/// **(choice)** Below this part of its own peak a busy tensor engine does the wrong work.
const ARRAY_WELL_USED: f64 = 0.5;
/// **(choice)** Below this part of their number at work, or of their rate, DMA engines are badly used.
const DMA_WELL_USED: f64 = 0.5;
/// **(choice)** Below this part of the bytes that a queue's issue interval pays for, transfers are short.
const ROWS_WELL_USED: f64 = 0.5;

const SHORT_ROWS: &str = "transfers are short, and a queue issues one only every so often; make each larger, 2 KiB a \
                          partition or more";
const OVERLAP: &str = "work on several tiles at once, so that engines overlap";

/// What unburdens an engine other than TensorE and DMA.
fn unburden(engine: &str) -> &'static str {
    match engine {
        "vector" => "move element-wise work to the scalar or gpsimd engine, or use 16-bit types in SBUF",
        "scalar" => "move plain copies and arithmetic to the vector engine, keep functions here",
        "gpsimd" => "move what the vector or scalar engine can do there",
        _ => "trigger fewer and larger DMA transfers, or trigger some from other engines",
    }
}

/// What helps against a cause of waiting.
fn remedy(cause: &str) -> &'static str {
    match cause {
        "dma" => "load earlier, into more buffers",
        "DMA queue" => "spread transfers over more queues",
        "table load" => "group activations by function",
        "PSUM bank" => "put what runs side by side into different PSUM banks",
        "issue order" => "interleave independent tiles",
        "depends_on" => "drop edges that are not needed",
        "other core" => "share the work evenly, and meet less often",
        "other rank" => "share the work evenly among the ranks",
        _ => OVERLAP,
    }
}

/// The first of the largest.
fn largest<T>(items: &[T], size: impl Fn(&T) -> f64) -> usize {
    let sizes = items.iter().map(size).enumerate();
    sizes.reduce(|most, next| if next.1 > most.1 { next } else { most }).map_or(0, |(place, _)| place)
}

/// What binds the run on one core.
pub(crate) fn of_core(core: &CoreProfile) -> String {
    if core.columns().instructions.is_empty() {
        return "The kernel has no instructions.".to_owned();
    }
    let busiest = &core.engines()[largest(core.engines(), |total| total.busy_us)];
    if busiest.busy_share < BUSY_ENOUGH {
        return waiting(core, busiest);
    }
    let engine = busiest.engine;
    let busy = if engine == "dma" { "DMA engines are".to_owned() } else { format!("{engine} engine is") };
    let text = format!("Bound by work: the {busy} busy {:.0} % of the time", 100.0 * busiest.busy_share);
    let first = look_at(line_of(core, engine));
    match engine {
        "tensor" => {
            let used = core.ideal_matmul_us() / busiest.busy_us;
            if used >= ARRAY_WELL_USED {
                let used = 100.0 * used;
                return format!("{text}, at {used:.0} % of peak. A narrower type or fewer FLOP help{first}.");
            }
            format!(
                "{text}, but at only {:.0} % of peak: fill all rows of the array, merge small matmuls{first}.",
                100.0 * used
            )
        }
        "dma" => format!("{text}: {}{first}.", unburden_dma(core, busiest)),
        _ => format!("{text}: {}{first}.", unburden(engine)),
    }
}

fn unburden_dma(core: &CoreProfile, busiest: &EngineTotal) -> String {
    let busy = core.dma_engine_ps();
    let together = busy.iter().sum::<u64>() as f64 / 1e6 / busy.len() as f64 / busiest.busy_us;
    let efficiency = core.dma_efficiency().unwrap_or(0.0);
    if has_short_rows(core) {
        SHORT_ROWS.to_owned()
    } else if together < DMA_WELL_USED {
        format!("{:.0} % of them at a time; spread transfers over partitions", 100.0 * together)
    } else if efficiency < DMA_WELL_USED {
        format!("at {:.0} % of their rate; make each transfer larger", 100.0 * efficiency)
    } else {
        "keep data in SBUF, load it once, or use a narrower type".to_owned()
    }
}

fn waiting(core: &CoreProfile, busiest: &EngineTotal) -> String {
    let mut text = format!(
        "Bound by waiting: even the busiest engine, {}, works only {:.0} % of the time",
        busiest.engine,
        100.0 * busiest.busy_share
    );
    let first = look_at(core.lines().first().map(|line| (line.file.as_str(), line.line)));
    let held = core.columns().critical_engine_ps();
    let longest = largest(&held, |&length| length as f64);
    if held[longest] > 0 && core.columns().latency_ps > 0 {
        let share = 100.0 * (held[longest] as f64 / 1e6) / core.latency_us();
        let engine = ENGINES[longest];
        let holder = if engine == "dma" { "DMA".to_owned() } else { format!("the {engine} engine") };
        text += &format!(", and {holder} holds {share:.0} % of the critical path");
    }
    let longest_wait = busiest.waits.longest().map_or("", |(cause, _)| cause);
    let cause = if longest == usize::from(DMA) { "dma" } else { longest_wait };
    let is_short = cause == "dma" && has_short_rows(core);
    match core.columns().advice.get().and_then(|found| found.advice.first()).filter(|_| !is_short) {
        Some(best) => format!("{text}. {}: {:.2} times as fast.", capitalised(&best.change), best.gain),
        None => format!("{text}. {}{first}.", capitalised(if is_short { SHORT_ROWS } else { remedy(cause) })),
    }
}

fn capitalised(text: &str) -> String {
    let (initial, rest) = text.split_at(1);
    initial.to_uppercase() + rest
}

/// Whether queues cannot issue transfers as fast as the engines would move them.
fn has_short_rows(core: &CoreProfile) -> bool {
    let (arch, transfers) = (&core.columns().arch, &core.columns().transfers);
    let Some(floor) = arch.dma_row_floor_bytes.filter(|floor| *floor != 0.0) else { return false };
    let rows = (arch.partitions / arch.dma_engines).ceil();
    let mean = core.totals().transfer_bytes as f64 / transfers.len() as f64;
    !transfers.is_empty() && mean < ROWS_WELL_USED * rows * floor
}

/// File and number of the line that keeps an engine busy longest.
fn line_of<'a>(core: &'a CoreProfile, engine: &str) -> Option<(&'a str, u32)> {
    let (columns, instructions) = (core.columns(), &core.columns().instructions);
    let number = ENGINES.iter().position(|name| *name == engine)? as u8;
    let end = if number == DMA { &instructions.end_ps } else { &instructions.slot_end_ps };
    let mut held = vec![0u64; columns.sites.len()];
    for row in columns.rows_of(number) {
        held[instructions.site[row] as usize] += end[row] - instructions.start_ps[row];
    }
    let (file, line, _) = columns.sites.get(largest(&held, |&length| length as f64))?;
    Some((file, *line))
}

/// Where to look first, if that is known.
fn look_at(place: Option<(&str, u32)>) -> String {
    let Some((file, line)) = place.filter(|(_, line)| *line > 0) else { return String::new() };
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("; look first at {}:{line}", printable(name))
}
