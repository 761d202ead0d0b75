//! Peaks, and efficiencies by size, in the form that Calculon reads since it knows types (`system.py` at 345f893).

use serde_json::{Map, Value, json};
use trn3_facts::{Facts, general};

use super::{Dimension, ExportContent, chip_of, or, rounded, spec_of};
use crate::error::{Error, Result};
use crate::fabric::LevelKind;

const GIBI: f64 = (1u64 << 30) as f64;
/// Sizes at which the tables have a line: GFLOP of an operation, MB of an access.
const GFLOP_STEPS: [f64; 6] = [1000.0, 100.0, 10.0, 1.0, 0.1, 0.0];
const MB_STEPS: [f64; 5] = [100.0, 10.0, 1.0, 0.1, 0.0];
/// Chips that the network joins: what Calculon's own systems say of theirs **(choice)**.
const NETWORK_CHIPS: u32 = 1 << 16;

pub(super) fn export(dimensions: &[Dimension], facts: &Facts) -> Result<ExportContent> {
    let network = Dimension::beyond(facts)?;
    let chip = chip_of(facts)?;
    for key in ["tflops_bf16", "hbm_bandwidth", "hbm_capacity"] {
        if !chip.quantities.contains_key(key) {
            let (file, name) = (&chip.file, &chip.name);
            return Err(Error::Spec(format!(
                "{file}: {name} lacks {key}, which Calculon needs; add [{name}.{key}] with default, unit and sources"
            )));
        }
    }
    let spec = spec_of(&chip)?;
    let ramp = or(&spec, "core.tensor_didt_ramp", 0.0);
    let start = if ramp == 0.0 { 1.0 } else { or(&spec, "core.tensor_didt_start_fraction", 1.0) };
    let setup = or(&spec, "core.dma_setup_latency", 0.0);
    let bf16 = or(&spec, "tflops_bf16", 0.0);
    let fp8 = ["tflops_mxfp8", "tflops_fp8"].into_iter().find_map(|key| spec.known(key));
    let fp32 = spec.known("tflops_fp32");
    let dtypes: Vec<(&str, f64)> =
        [("float16", Some(bf16)), ("bfloat16", Some(bf16)), ("float8", fp8), ("float32", fp32)]
            .into_iter()
            .filter_map(|(name, rate)| Some((name, rate?)))
            .collect();
    let hbm = or(&spec, "hbm_bandwidth", 0.0);
    let bandwidth = hbm.min(or(&spec, "dma_bandwidth", hbm));
    let vector = match or(&spec, "core.tflops_vector_fp32", 0.0) * or(&spec, "cores", 1.0) {
        0.0 => or(&spec, "tflops_fp32", bf16),
        vector => vector,
    };
    let engine = |of: &dyn Fn(f64) -> Value| -> Map<String, Value> {
        dtypes.iter().map(|(name, rate)| ((*name).to_owned(), of(*rate))).collect()
    };
    let matrix = |rate: f64| {
        let efficiency = |size: f64| rounded(ramped(size * 1e9 / rate, ramp, start), 6);
        let table = GFLOP_STEPS.map(|size| json!([step(size), efficiency(size)]));
        json!({"tflops": rounded(rate / 1e12, 6), "gflops_efficiency": table})
    };
    let elements = json!({"tflops": rounded(vector / 1e12, 6), "gflops_efficiency": [[0, 1.0]]});
    let rate = rounded(bandwidth / 1e9, 6);
    let content = json!({
        "matrix": engine(&matrix),
        "vector": engine(&|_| elements.clone()),
        "mem1": {
            "GiB": rounded(or(&spec, "hbm_capacity", 0.0) / GIBI, 6),
            "GBps": rate,
            "MB_efficiency": MB_STEPS.map(|size| json!([step(size), filled(size * 1e6, bandwidth, setup)])),
        },
        // No rate to the host is published: without capacity nothing is offloaded.
        "mem2": {"GiB": 0, "GBps": rate, "MB_efficiency": [[0, 1.0]]},
        "processing_mode": "roofline",
        "networks": networks(dimensions, network.as_ref()),
    });
    let of_dma =
        if setup == 0.0 { String::new() } else { format!(", with {} us to set up a DMA", general(setup * 1e6, 6)) };
    let of_matrix = match ramp {
        0.0 => "matrix efficiency is 1: no ramp is published for this chip".to_owned(),
        ramp => format!(
            "matrix efficiency is the ramp of the current limit: {} of a type's peak, full after {} us",
            general(start, 6),
            general(ramp * 1e6, 6)
        ),
    };
    let mut notes = vec![
        "one processor is one chip; peaks are array x clock".to_owned(),
        format!("memory runs at the lesser of HBM and DMA engines{of_dma}"),
        of_matrix,
        "mem2 has no capacity: no rate to the host is published".to_owned(),
        "collectives are rings: (n-1)/n of the bytes, twice that for an all-reduce".to_owned(),
        "collectives run beside computation (CC-cores), so networks use no processor".to_owned(),
    ];
    notes.extend(network.map(|network| {
        let (name, rate) = (&network.name, general(network.rate / 1e9, 6));
        format!("the last network is {name}, {rate} GB/s a chip; nobody says how many chips it joins: {NETWORK_CHIPS}")
    }));
    Ok(ExportContent { content, notes })
}

/// A size of a table, whole where it is.
fn step(size: f64) -> Value {
    if size.fract() == 0.0 { json!(size as u64) } else { json!(size) }
}

/// The levels of the fabric and the network beyond it, each with all the chips that it joins.
fn networks(dimensions: &[Dimension], network: Option<&Dimension>) -> Vec<Value> {
    let mut size = 1;
    let mut tiers: Vec<Value> = Vec::new();
    for dimension in dimensions {
        size *= dimension.size;
        // Both directions of a ring serve a collective, and all direct links; a message goes over one.
        let ways = match dimension.kind {
            LevelKind::Ring => 2.min(dimension.size - 1),
            LevelKind::Direct => dimension.size - 1,
            LevelKind::Switch => 1,
        };
        tiers.push(tier(dimension.rate, ways, size, dimension.latency));
    }
    tiers.extend(network.map(|network| tier(network.rate, 1, NETWORK_CHIPS.max(size), network.latency)));
    if let Some(outermost) = tiers.last_mut() {
        outermost["must_be_filled"] = false.into();
    }
    tiers
}

/// A pair for each operation: what its bytes are multiplied by, and what of a member's share is added to that.
fn tier(rate: f64, ways: u32, size: u32, latency: f64) -> Value {
    json!({
        "bandwidth": rounded(rate * f64::from(ways) / 1e9, 6),
        "efficiency": 1.0,
        "size": size,
        "latency": rounded(latency, 6),
        "ops": {
            "p2p": [f64::from(ways), null],
            "reduce_scatter": [1.0, -1.0],
            "all_gather": [1.0, -1.0],
            "all_reduce": [2.0, -1.0],
        },
        "must_be_filled": true,
        "processor_usage": 0.0,
    })
}

/// The mean speed over a burst whose work takes `seconds` at full speed, where the speed grows linearly from `start` to 1.
fn ramped(seconds: f64, ramp: f64, start: f64) -> f64 {
    if ramp == 0.0 {
        return 1.0;
    }
    if seconds <= 0.0 {
        return start;
    }
    // Work done while the speed grows.
    let whole = ramp * (1.0 + start) / 2.0;
    if seconds >= whole {
        return seconds / (ramp + seconds - whole);
    }
    // Speed grows linearly, so its mean is that of its first and last value.
    let slope = (1.0 - start) / ramp;
    (start + (start * start + 2.0 * slope * seconds).sqrt()) / 2.0
}

fn filled(size: f64, bandwidth: f64, setup: f64) -> f64 {
    if setup == 0.0 {
        return 1.0;
    }
    // Nothing is a whole access; a tenth of the smallest line stands for it.
    let size = if size == 0.0 { MB_STEPS[3] * 1e5 } else { size };
    rounded(size / (size + setup * bandwidth), 6)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ramped;

    proptest! {
        #[test]
        fn test_the_ramp_is_the_integral_of_the_speed(
            seconds in 0.0..1e-3,
            ramp in 1e-7..1e-5,
            start in 0.1..1.0,
        ) {
            let mean = ramped(seconds, ramp, start);
            let elapsed = seconds / mean;
            // The work that a speed growing linearly from `start` does, by the trapezoid rule on its corner.
            let rising = elapsed.min(ramp);
            let speed = start + (1.0 - start) * rising / ramp;
            let work: f64 = rising * (start + speed) / 2.0 + (elapsed - ramp).max(0.0);
            prop_assert!((work - seconds).abs() <= 1e-6 * seconds + 1e-15);
            prop_assert!(start - 1e-9 <= mean && mean <= 1.0);
        }
    }

    #[test]
    fn test_the_ramp_gives_three_quarters_in_its_length() {
        // A burst of the ramp's length, 3 us, does three quarters of the peak's work.
        assert!((ramped(0.75 * 3e-6, 3e-6, 0.5) - 0.75).abs() < 1e-12);
        assert!(ramped(100e-6, 3e-6, 0.5) > 0.98);
    }
}
