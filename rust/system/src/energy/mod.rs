//! Power and cost of a job: a model whose parameters are all choices, and that says so with every figure.
//!
//! No vendor publishes the power of a Trainium. [`EnergyModel`] is therefore parametric: a static share of the TDP, an
//! energy for each operation by dtype, an energy for each bit of HBM, links and SBUF, all in
//! `rust/facts/specs/models/energy.toml`. One factor scales the whole to another TDP. [`cost`] knows no price: it takes
//! them, or takes one by name from a dated set.
//!
//! ```
//! use trn3_system::energy::{EnergyModel, estimate};
//!
//! let model = EnergyModel::built_in("trainium3", None).unwrap();
//! let busy = estimate(&model, &model.full_load("mxfp8", 1.0).unwrap()).unwrap();
//! assert_eq!(busy.watts.round(), 1011.0); // 300 static + 554 arithmetic + 157 HBM
//! ```

pub mod cost;
mod efficiency;
mod estimate;
mod model;
mod price_set;
mod rack;

pub use efficiency::{Reading, per_watt, published_pflops};
pub use estimate::{Energy, EnergyPart, EnergyWork, estimate};
pub use model::{DTYPES, EnergyModel, chip_of, parameters};
pub use rack::{RackPower, rack_power};

use crate::error::{Error, Result};

/// The largest number that is taken, so that products of several stay finite.
const LARGEST: f64 = 1e60;

/// Refuses what is no number, too large for products or below a bound; `least` itself is allowed unless `open`.
pub(crate) fn check(name: &str, value: f64, least: f64, open: bool) -> Result<f64> {
    let low = if open { value <= least } else { value < least };
    if !value.is_finite() || low {
        let bound = if open { "above" } else { "at least" };
        return Err(Error::Value(format!("{name} is {value}; it must be a finite number {bound} {least}")));
    }
    if value > LARGEST {
        return Err(Error::Value(format!("{name} is {value:e}; it must be at most {LARGEST:e}")));
    }
    Ok(value)
}

/// Refuses a share outside of zero (excluded) to one.
pub(crate) fn check_share(name: &str, value: f64) -> Result<f64> {
    check(name, value, 0.0, true)?;
    if value > 1.0 {
        return Err(Error::Value(format!("{name} is {value}; it is a share: above 0, at most 1")));
    }
    Ok(value)
}
