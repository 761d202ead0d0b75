//! The timeline as arrays: what `trn3.machine.Profile` is made of.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_machine::core::NeuronCore;
use trn3_machine::engine::Engine;
use trn3_machine::timing::record::{Cause, Record, TransferRecord};

fn column<'py, T: numpy::Element>(
    dict: &Bound<'py, PyDict>,
    key: &str,
    records: &[Record],
    value: impl Fn(&Record) -> T,
) -> PyResult<()> {
    let values: Vec<T> = records.iter().map(value).collect();
    dict.set_item(key, PyArray1::from_vec(dict.py(), values))
}

fn transfer_column<'py, T: numpy::Element>(
    dict: &Bound<'py, PyDict>,
    key: &str,
    records: &[TransferRecord],
    value: impl Fn(&TransferRecord) -> T,
) -> PyResult<()> {
    let values: Vec<T> = records.iter().map(value).collect();
    dict.set_item(key, PyArray1::from_vec(dict.py(), values))
}

/// The arrays, by the field names of `ProfileData`.
pub(crate) fn arrays<'py>(py: Python<'py>, core: &mut NeuronCore) -> PyResult<Bound<'py, PyDict>> {
    let latency = core.makespan();
    let dict = PyDict::new(py);
    dict.set_item("latency_ps", latency.0)?;
    dict.set_item("overhead_ps", core.arch().nanoseconds(core.arch().kernel_overhead_ns).0)?;
    dict.set_item("opcodes", core.opcodes.opcodes().to_vec())?;
    dict.set_item("labels", core.opcodes.labels().to_vec())?;
    let sites: Vec<(String, u32, String)> =
        core.sites.all().into_iter().map(|site| (site.file, site.line, site.function)).collect();
    dict.set_item("sites", sites)?;
    let records = core.timeline.records();
    column(&dict, "opcode", records, |record| record.opcode)?;
    column(&dict, "engine", records, |record| record.engine as u8)?;
    column(&dict, "queue", records, |record| record.queue)?;
    column(&dict, "site", records, |record| record.site.0)?;
    column(&dict, "label", records, |record| record.label)?;
    column(&dict, "start_ps", records, |record| record.start.0)?;
    column(&dict, "slot_end_ps", records, |record| record.slot_end.0)?;
    column(&dict, "end_ps", records, |record| record.end.0)?;
    column(&dict, "wait_ps", records, |record| record.wait.0)?;
    column(&dict, "cause", records, |record| cause_code(record.cause))?;
    column(&dict, "waited_on", records, |record| record.waited_on)?;
    column(&dict, "dma_bytes", records, |record| record.dma_bytes)?;
    column(&dict, "hbm_read", records, |record| record.hbm_read)?;
    column(&dict, "hbm_write", records, |record| record.hbm_write)?;
    column(&dict, "macs", records, |record| record.macs)?;
    column(&dict, "peak_macs_per_cycle", records, |record| record.peak_macs_per_cycle)?;
    let transfers = core.timeline.transfers();
    transfer_column(&dict, "transfer_instruction", transfers, |transfer| transfer.id)?;
    transfer_column(&dict, "transfer_engine", transfers, |transfer| transfer.dma_engine)?;
    transfer_column(&dict, "transfer_start_ps", transfers, |transfer| transfer.start.0)?;
    transfer_column(&dict, "transfer_end_ps", transfers, |transfer| transfer.end.0)?;
    transfer_column(&dict, "transfer_bytes", transfers, |transfer| transfer.bytes)?;
    dict.set_item("critical", PyArray1::from_vec(py, core.timeline.critical_path()))?;
    let occupancy = core.occupancy();
    dict.set_item("occupancy_time_ps", PyArray1::from_vec(py, occupancy.iter().map(|point| point.time.0).collect()))?;
    dict.set_item("sbuf_bytes", PyArray1::from_vec(py, occupancy.iter().map(|point| point.sbuf).collect()))?;
    dict.set_item("psum_bytes", PyArray1::from_vec(py, occupancy.iter().map(|point| point.psum).collect()))?;
    Ok(dict)
}

/// What `ProfileData.cause` means.
fn cause_code(cause: Cause) -> u8 {
    match cause {
        Cause::None => 0,
        Cause::Engine(Engine::Tensor) => 1,
        Cause::Engine(Engine::Vector) => 2,
        Cause::Engine(Engine::Scalar) => 3,
        Cause::Engine(Engine::GpSimd) => 4,
        Cause::Engine(Engine::Sync) => 5,
        Cause::Engine(Engine::Dma) | Cause::Dma => 6,
        Cause::Order => 7,
        Cause::TableLoad => 8,
        Cause::PsumBank => 9,
        Cause::DependsOn => 10,
        Cause::Queue => 11,
        Cause::Core => 12,
        Cause::Rank => 13,
    }
}
