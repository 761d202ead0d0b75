//! Units of spec files in base units.

use crate::error::{Error, Result};

const KIBI: f64 = 1024.0;

/// What spec files know, for messages.
pub(crate) const KNOWN: &str =
    "count, x, fraction, B to EB, KiB to TiB, FLOPS, Hz, s, h, W, USD with SI prefixes, /s and /h";

/// [`factor`] of a unit that something cannot do without.
///
/// # Errors
/// [`Error::Spec`] if spec files do not know it.
pub fn known_factor(unit: &str) -> Result<f64> {
    factor(unit).ok_or_else(|| Error::Spec(format!("unit '{unit}' is unknown; allowed: {KNOWN}")))
}

/// What one of a unit is in bytes, seconds, operations, hertz, watts, US dollars or a quotient of them.
///
/// Only the first word counts: `"GB/s/dir per chip"` is gigabytes a second. Bits are converted to bytes. Counts,
/// ratios and unnamed units are 1; an energy of a bit becomes that of a byte. `None` for a unit that nothing here knows.
///
/// ```
/// use trn3_facts::factor;
///
/// assert_eq!(factor("TB/s"), Some(1e12));
/// assert_eq!(factor("GiB"), Some(1_073_741_824.0));
/// assert_eq!(factor("Gbit/s"), Some(1.25e8));
/// assert_eq!(factor("furlongs"), None);
/// ```
pub fn factor(unit: &str) -> Option<f64> {
    let word = unit.split([' ', ',']).next().unwrap_or_default();
    let word = word.strip_suffix("/dir").unwrap_or(word);
    let (word, per) = match word.split_once('/') {
        None => (word, 1.0),
        Some((word, "s" | "FLOP")) => (word, 1.0),
        Some(("pJ", "bit")) => ("pJ", 8.0),
        Some((word, "h" | "chip/h" | "GPU/h")) => (word, 1.0 / 3600.0),
        // Rates in cycles, lanes and partitions have no time of their own.
        Some((_, _)) => ("count", 1.0),
    };
    let scale = match word {
        "" | "count" | "x" | "fraction" | "bool" | "B" | "W" | "USD" | "s" | "Hz" | "sequences" | "accesses"
        | "M:N" | "cores" | "servers" | "physical" | "multiply" | "of" => 1.0,
        "KiB" => KIBI,
        "MiB" => KIBI.powi(2),
        "GiB" => KIBI.powi(3),
        "TiB" => KIBI.powi(4),
        "KB" | "kW" | "KHz" => 1e3,
        "MB" | "MW" | "MHz" => 1e6,
        "GB" | "GW" | "GHz" | "GFLOPS" => 1e9,
        "TB" | "TFLOPS" | "TOPS" => 1e12,
        "PB" | "PFLOPS" => 1e15,
        "EB" | "EFLOPS" => 1e18,
        "ZFLOPS" => 1e21,
        "Mbit" => 1e6 / 8.0,
        "Gbit" => 1e9 / 8.0,
        "Tbit" => 1e12 / 8.0,
        "h" => 3600.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "ps" => 1e-12,
        "pJ" => 1e-12,
        _ => return None,
    };
    Some(scale * per)
}
