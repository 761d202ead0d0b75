//! Energy of a piece of work.

use serde::Serialize;

use super::check;
use super::model::{DTYPES, EnergyModel, index_of};
use crate::error::Result;

/// What one chip does in a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnergyWork {
    /// Operations of each dtype, in the order of [`DTYPES`]; see [`EnergyWork::add`].
    pub flops: [f64; DTYPES.len()],
    /// Bytes read from and written to HBM.
    pub hbm_bytes: f64,
    /// Bytes sent over the chip's links.
    pub link_bytes: f64,
    /// Bytes read from and written to SBUF.
    pub sbuf_bytes: f64,
    /// How long it takes.
    pub seconds: f64,
}

impl EnergyWork {
    /// Adds operations of a dtype.
    ///
    /// # Errors
    /// [`crate::Error::Unknown`] if the dtype is none of [`DTYPES`], [`crate::Error::Value`] if there are fewer than none.
    pub fn add(&mut self, dtype: &str, flops: f64) -> Result<()> {
        let index = index_of(dtype)?;
        self.flops[index] += check("flops", flops, 0.0, false)?;
        Ok(())
    }
}

/// A share of an energy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyPart {
    /// `static`, a dtype, `hbm`, `link` or `sbuf`.
    pub name: String,
    /// Joules.
    pub joules: f64,
    /// Watts, over the time of the work.
    pub watts: f64,
}

/// Energy of a piece of work on one chip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// Total, joules.
    pub joules: f64,
    /// Average over the time of the work.
    pub watts: f64,
    /// What it is made of: `static`, each dtype that occurs, `hbm`, `link`, `sbuf`.
    pub parts: Vec<EnergyPart>,
    /// The TDP that is assumed, watts.
    pub tdp: f64,
    /// Average power by TDP, for each TDP that sources give.
    pub variants: Vec<(f64, f64)>,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

/// Energy of `work` on one chip.
///
/// The model limits nothing: work at every peak at once draws a little more than the TDP, and a chip would slow down.
///
/// # Errors
/// [`crate::Error::Value`] if an amount is negative or the time is not positive.
///
/// ```
/// use trn3_system::energy::{EnergyModel, EnergyWork, estimate};
///
/// let model = EnergyModel::built_in("trainium3", Some(500.0)).unwrap();
/// let mut work = EnergyWork { hbm_bytes: 4.9e12, seconds: 1.0, ..EnergyWork::default() };
/// work.add("bf16", 629e12).unwrap();
/// let energy = estimate(&model, &work).unwrap();
/// assert_eq!(energy.watts.round(), 436.0); // half of 300 + 415 + 157
/// ```
pub fn estimate(model: &EnergyModel, work: &EnergyWork) -> Result<Energy> {
    check("seconds", work.seconds, 0.0, true)?;
    for (name, amount) in
        [("hbm bytes", work.hbm_bytes), ("link bytes", work.link_bytes), ("sbuf bytes", work.sbuf_bytes)]
    {
        check(name, amount, 0.0, false)?;
    }
    for flops in work.flops {
        check("flops", flops, 0.0, false)?;
    }
    let part = |name: &str, joules: f64| EnergyPart { name: name.to_owned(), joules, watts: joules / work.seconds };
    let mut parts = vec![part("static", model.static_watts * work.seconds)];
    for ((name, flops), energy) in DTYPES.iter().zip(work.flops).zip(model.flop) {
        if flops > 0.0 {
            parts.push(part(name, flops * energy));
        }
    }
    parts.push(part("hbm", work.hbm_bytes * model.hbm));
    parts.push(part("link", work.link_bytes * model.link));
    parts.push(part("sbuf", work.sbuf_bytes * model.sbuf));
    let joules: f64 = parts.iter().map(|part| part.joules).sum();
    let watts = joules / work.seconds;
    // Every part is proportional to the TDP, so another one needs no second estimate.
    let variants = model.variants.iter().map(|tdp| (*tdp, watts * tdp / model.tdp)).collect();
    Ok(Energy { joules, watts, parts, tdp: model.tdp, variants, assumptions: model.assumptions.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model() -> EnergyModel {
        EnergyModel::built_in("trainium3", None).expect("built in")
    }

    #[test]
    fn test_full_load_closes_on_the_tdp() {
        let energy = estimate(&model(), &model().full_load("mxfp8", 2.0).expect("peak")).expect("works");
        let watts: Vec<f64> = energy.parts.iter().map(|part| part.watts.round()).collect();
        assert_eq!(watts, [300.0, 554.0, 157.0, 0.0, 0.0]);
        assert_eq!(energy.watts.round(), 1011.0);
        assert_eq!(energy.joules.round(), 2021.0);
        assert_eq!(
            energy.variants.iter().map(|v| (v.0, v.1.round())).collect::<Vec<_>>(),
            [(500.0, 505.0), (1000.0, 1011.0)]
        );
        assert!(energy.assumptions[0].contains("500 W and 1000 W"));
    }

    #[test]
    fn test_one_knob_scales_everything() {
        let half = EnergyModel::built_in("trainium3", Some(500.0)).expect("built in");
        let work = model().full_load("bf16", 1.0).expect("peak");
        let (full, less) = (estimate(&model(), &work).expect("works"), estimate(&half, &work).expect("works"));
        assert!((full.watts - 2.0 * less.watts).abs() < 1e-9);
        assert_eq!(model().with_tdp(500.0).expect("positive").flop, half.flop);
        assert_eq!(model().with_tdp(500.0).expect("positive").scale, half.scale);
    }

    #[test]
    fn test_other_chips_close_on_their_tdp() {
        for chip in ["trainium2", "b300", "b200", "h100"] {
            let model = EnergyModel::built_in(chip, None).expect("built in");
            let work = model.full_load("fp8", 1.0).expect("peak");
            assert!((estimate(&model, &work).expect("works").watts / model.tdp - 1.0).abs() < 1e-12, "{chip}");
        }
        let trainium1 = EnergyModel::built_in("trainium1", None).expect_err("no TDP").to_string();
        assert!(trainium1.contains("no published TDP") && trainium1.contains("tdp="), "{trainium1}");
        assert!(EnergyModel::built_in("trn1_32xlarge", Some(300.0)).is_ok());
    }

    #[test]
    fn test_wrong_work_is_refused() {
        let model = model();
        for (work, needle) in [
            (EnergyWork { seconds: 0.0, ..EnergyWork::default() }, "seconds is 0"),
            (EnergyWork { seconds: f64::NAN, ..EnergyWork::default() }, "seconds is NaN"),
            (EnergyWork { seconds: 1.0, hbm_bytes: -1.0, ..EnergyWork::default() }, "hbm bytes is -1"),
            (EnergyWork { seconds: 1.0, link_bytes: f64::INFINITY, ..EnergyWork::default() }, "link bytes is inf"),
        ] {
            let text = estimate(&model, &work).expect_err(needle).to_string();
            assert!(text.contains(needle), "{text}");
        }
        let mut work = EnergyWork::default();
        assert!(work.add("fp7", 1.0).expect_err("unknown").to_string().contains("nearest"));
        assert!(work.add("bf16", -1.0).is_err());
        assert!(EnergyModel::built_in("trainium3", Some(-5.0)).is_err());
        assert!(model.peak("fp16").expect_err("none").to_string().contains("bf16"));
    }

    proptest! {
        #[test]
        fn test_energy_grows_with_every_amount(
            base in prop::array::uniform4(0.0..1e15f64), more in 1.0..1e15f64, which in 0..4usize, dtype in 0..DTYPES.len(),
        ) {
            let work = |amounts: [f64; 4]| {
                let mut work = EnergyWork {
                    hbm_bytes: amounts[1], link_bytes: amounts[2], sbuf_bytes: amounts[3], seconds: 1.0, ..EnergyWork::default()
                };
                work.flops[dtype] = amounts[0];
                work
            };
            let mut larger = base;
            larger[which] += more;
            let (small, large) = (estimate(&model(), &work(base)).unwrap(), estimate(&model(), &work(larger)).unwrap());
            prop_assert!(large.joules > small.joules);
            let sum: f64 = large.parts.iter().map(|part| part.joules).sum();
            prop_assert!((sum - large.joules).abs() <= 1e-12 * sum);
        }
    }
}
