//! Kernels side by side on the cores of a chip: one HBM, whose bandwidth they share.
//!
//! Each kernel runs as if it were alone, which gives its values: what other kernels do changes no bit of them. What its
//! time is made of is kept, and then all cores are timed once more, transfers in the order of time, under one ceiling of
//! HBM bandwidth: at once where all begin together ([`time_together`]), or as runs come and go ([`ChipRuns`]).

mod lane;
mod runs;
mod saved;
#[cfg(test)]
mod tests;

use crate::core::NeuronCore;
use crate::error::{Error, Result};
use crate::timing::ceiling::HbmCeiling;

use lane::{Lane, run_until};

pub use runs::ChipRuns;
pub use saved::SavedRuns;

/// Times the cores of a chip together: their transfers share the bandwidth of its HBM. Of cores that
/// [keep](NeuronCore::keep_timed) what their time is made of, all that met one another; their order changes nothing but
/// who comes first of transfers at one moment.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::chip;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
///
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let mut cores = [0, 1].map(|_| NeuronCore::new(Arc::clone(&arch), CoreOptions::default()));
/// let [Ok(first), Ok(second)] = &mut cores else { return Ok(()) };
/// first.keep_timed();
/// second.keep_timed();
/// chip::time_together(&mut [first, second])?;
/// # Ok::<(), trn3_machine::Error>(())
/// ```
///
/// # Errors
/// [`Error::Value`] for a core that kept nothing, and where one met a core that is missing here.
pub fn time_together(cores: &mut [&mut NeuronCore]) -> Result<()> {
    let Some(first) = cores.first() else { return Ok(()) };
    let ceiling = HbmCeiling::new(first.arch().hbm_gbps);
    let mut lanes = Vec::with_capacity(cores.len());
    for (number, core) in cores.iter_mut().enumerate() {
        if !core.keeps_timed() {
            return Err(Error::Value("a core did not keep what its time is made of: call keep_timed first".to_owned()));
        }
        let mut lane = Lane::new(number, core.timeline_under(&ceiling));
        lane.extend(core.take_timed());
        core.stop_keeping();
        lane.go_on();
        lanes.push(lane);
    }
    run_until(&mut lanes, None);
    if lanes.iter().any(Lane::waits) {
        return Err(Error::Value("a core met one that is not timed with it".to_owned()));
    }
    for (core, lane) in cores.iter_mut().zip(lanes) {
        core.timeline = lane.timeline;
    }
    Ok(())
}
