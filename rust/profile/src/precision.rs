//! What the instructions of a line lost of their results' precision.

use serde::{Deserialize, Serialize};
use trn3_machine::shadow::Loss;
use trn3_machine::site::Sites;

/// What the instructions of one line lost of a result's precision, over all their runs. Errors are the worst of all runs;
/// a relative one is the largest difference as part of the largest exact magnitude of the operand **(choice)**.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrecisionLoss {
    /// File of the kernel's line.
    pub file: String,
    /// Line of the kernel, from 1; 0 if it is not known.
    pub line: u32,
    /// The instruction.
    pub instruction: String,
    /// Name of what it wrote in the worst run.
    pub tensor: String,
    /// Type of that.
    pub dtype: String,
    /// How often it ran.
    pub count: u64,
    /// Number of the run with the largest relative error, among the instructions of its core.
    pub worst: u64,
    /// Error of the result, against a run in float64 that never rounds.
    pub error: f64,
    /// The same, relative.
    pub relative_error: f64,
    /// Error that its inputs had already.
    pub input_error: f64,
    /// The same, relative.
    pub relative_input_error: f64,
    /// Error that this instruction added: its result against what its real inputs give in float64.
    pub added_error: f64,
    /// The same, relative.
    pub relative_added_error: f64,
}

/// A loss, and the core that it was on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreLoss {
    /// What was lost.
    #[serde(flatten)]
    pub loss: PrecisionLoss,
    /// Core of a logical core with several; None with one.
    pub core: Option<usize>,
}

impl PrecisionLoss {
    /// What the shadow of a run found.
    pub fn of(loss: Loss, sites: &Sites) -> Self {
        let site = sites.get(loss.site);
        Self {
            file: site.file,
            line: site.line,
            instruction: loss.instruction.to_owned(),
            tensor: loss.tensor,
            dtype: loss.dtype.name().to_owned(),
            count: loss.count,
            worst: loss.worst,
            error: loss.total.absolute,
            relative_error: loss.total.relative,
            input_error: loss.inputs.absolute,
            relative_input_error: loss.inputs.relative,
            added_error: loss.added.absolute,
            relative_added_error: loss.added.relative,
        }
    }

    /// How much the relative error grew here: by what was added, or by cancellation.
    pub fn relative_growth(&self) -> f64 {
        (self.relative_error - self.relative_input_error).max(self.relative_added_error)
    }
}

/// Losses, the largest growth first, and among equals in the order of their lines.
pub(crate) fn by_growth(mut losses: Vec<CoreLoss>) -> Vec<CoreLoss> {
    losses.sort_by(|CoreLoss { loss: one, .. }, CoreLoss { loss: other, .. }| {
        let places = (&one.file, one.line).cmp(&(&other.file, other.line));
        other.relative_growth().total_cmp(&one.relative_growth()).then(places)
    });
    losses
}
