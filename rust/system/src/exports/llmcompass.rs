//! Devices of cores with systolic arrays, and their links.

use serde_json::json;
use trn3_facts::{Facts, Spec, Value};

use super::{Dimension, ExportContent, chip_of, spec_of};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, LevelKind};

/// A PCIe transaction of the links, in bytes **(choice)**: PCIe 6 sends flits of 256, 236 of them data.
const FLIT_BYTES: u32 = 256;
const HEADER_BYTES: u32 = 20;
const PAYLOAD_BYTES: u32 = 236;
/// Pins of a channel of HBM.
const PINS: u32 = 1024;

pub(super) fn export(fabric: &Fabric, dimensions: &[Dimension], facts: &Facts) -> Result<ExportContent> {
    let chip = chip_of(facts)?;
    let spec = spec_of(&chip)?;
    let (Some(core), Some(inner)) = (spec.parts.get("core"), dimensions.first()) else {
        return Err(Error::Value(format!(
            "{}: {} has no core in the published figures; allowed: systems of Trainium chips",
            fabric.name(),
            chip.name
        )));
    };
    let count = |spec: &Spec, key: &str| {
        spec.quantities.get(key).and_then(|figure| figure.number()).map(|number| number as u64)
    };
    let needed = |spec: &Spec, key: &str| Ok::<u64, Error>(spec.quantity(key)?.number().unwrap_or_default() as u64);
    let clock = core.si("clock_tensor")?;
    let chiplets = count(&spec, "compute_chiplets").unwrap_or(1);
    let cores = needed(&spec, "cores")? / chiplets;
    let stacks = count(&spec, "hbm_stacks").unwrap_or(1);
    let lanes = needed(core, "pe_cols")?;
    let links = match inner.kind {
        LevelKind::Switch => 1,
        LevelKind::Ring => 2,
        LevelKind::Direct => inner.size - 1,
    };
    let sbuf = core.si("sbuf")?;
    let buffer = sbuf * (cores * chiplets) as f64 / f64::from(1 << 20);
    let process = match spec.quantities.get("process").map(|figure| &figure.value) {
        Some(Value::Text(text)) => text.clone(),
        Some(other) => other.number().map(|number| number.to_string()).unwrap_or_default(),
        None => String::new(),
    };
    let content = json!({
        "name": fabric.title(),
        "device_count": dimensions.iter().map(|dimension| dimension.size).product::<u32>(),
        "interconnect": {
            "link": {
                "name": format!("NeuronLink {}", inner.name),
                "bandwidth_per_direction_byte": inner.rate,
                "bandwidth_both_directions_byte": 2.0 * inner.rate,
                "latency_second": inner.latency,
                "flit_size_byte": FLIT_BYTES,
                "header_size_byte": HEADER_BYTES,
                "max_payload_size_byte": PAYLOAD_BYTES,
            },
            "link_count_per_device": links,
            "topology": if inner.kind == LevelKind::Ring { "RING" } else { "FC" },
        },
        "device": {
            "frequency_Hz": clock,
            "compute_chiplet_count": chiplets,
            "compute_chiplet": {
                "physical_core_count": cores,
                "core_count": cores,
                "process_node": process,
                "core": {
                    "sublane_count": 1,
                    "systolic_array": {
                        "array_width": lanes,
                        "array_height": needed(core, "pe_rows")?,
                        "data_type": "fp16",
                        "mac_per_cycle": 1,
                    },
                    "vector_unit": {
                        "vector_width": lanes,
                        // Its own clock, in cycles of the one clock that the format has.
                        "flop_per_cycle": core.si("tflops_vector_fp32")? / (lanes as f64 * clock),
                        "data_type": "fp32",
                        "int32_count": lanes,
                        "fp16_count": 0,
                        "fp32_count": lanes,
                        "fp64_count": 0,
                    },
                    "register_file": {
                        "num_reg_files": 1,
                        "num_registers": core.si("psum")? as u64 / 4,
                        "register_bitwidth": 32,
                        "num_rdwr_ports": 2,
                    },
                    "SRAM_KB": sbuf / 1024.0,
                },
            },
            "memory_protocol": if chip.like() == "trainium3" { "HBM3E" } else { "HBM" },
            "io": {
                "process_node": process,
                "global_buffer_MB": buffer,
                "physical_global_buffer_MB": buffer,
                "global_buffer_bandwidth_per_cycle_byte": spec.si("dma_bandwidth")? / clock,
                "memory_channel_physical_count": stacks,
                "memory_channel_active_count": stacks,
                "pin_count_per_channel": PINS,
                "bandwidth_per_pin_bit": spec.si("hbm_bandwidth")? * 8.0 / (stacks as f64 * f64::from(PINS)),
            },
            "memory": {"total_capacity_GB": spec.si("hbm_capacity")? / f64::from(1 << 30)},
        },
    });
    let notes = vec![
        "one of its cores is one NeuronCore, in BF16".to_owned(),
        "sizes in MB and GB are MiB and GiB: so its reader takes them".to_owned(),
        "the format has one clock: rates of other engines are per cycle of the tensor engine".to_owned(),
        match dimensions.len() {
            1 => format!("links are those of the {} level", inner.name),
            _ => format!("one sort of link: the {} level; the others are left out", inner.name),
        },
        "the global buffer is the chip's SBUF at the rate of its DMA engines".to_owned(),
    ];
    Ok(ExportContent { content, notes })
}
