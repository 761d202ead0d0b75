//! Every figure as plain data, and the text of `profile.json`.

use serde::Serialize;
use serde_json::Value;

use crate::advice::RunAdvice;
use crate::band::LatencyBasis;
use crate::engines::EngineTotal;
use crate::findings::ReportedFinding;
use crate::lines::LineTotal;
use crate::precision::CoreLoss;
use crate::profile::Profile;
use crate::roofline::Roofline;
use crate::run_columns::{CompileFigures, RunColumns};
use crate::speed_of_light::SpeedOfLight;

/// The `format` of `profile.json`.
pub const FORMAT: &str = "trn3-profile";
/// The `version` of `profile.json`.
pub const FORMAT_VERSION: u32 = 1;

/// Every figure of a profile, with units in the names: the `figures` of `profile.json`. [`Profile`] has what each means.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // As the methods of `Profile` of these names.
pub struct Figures {
    pub kernel: String,
    pub arch: String,
    pub latency_us: f64,
    pub latency_low_us: Option<f64>,
    pub latency_high_us: Option<f64>,
    pub latency_basis: Option<LatencyBasis>,
    pub overhead_us: f64,
    pub compile: CompileFigures,
    pub instructions: u64,
    pub verdict: String,
    pub speed_of_light: Option<SpeedOfLight>,
    pub advice: Vec<RunAdvice>,
    pub advice_note: String,
    pub mfu: f64,
    pub mbu: f64,
    pub dma_efficiency: Option<f64>,
    pub dma_mean_busy_share: f64,
    pub macs: u64,
    pub dma_bytes: u64,
    pub hbm_read_bytes: u64,
    pub hbm_write_bytes: u64,
    pub sbuf_peak_bytes: u64,
    pub psum_peak_bytes: u64,
    pub roofline: Roofline,
    pub engines: Vec<EngineTotal>,
    pub lines: Vec<LineTotal>,
    pub findings: Vec<ReportedFinding>,
    pub precision: Vec<CoreLoss>,
    /// Of each core, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Vec<Figures>>,
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    figures: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RunColumns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<Vec<&'a RunColumns>>,
}

impl Profile {
    /// Every figure as plain data.
    pub fn figures(&self) -> Figures {
        let cores = || self.cores().iter().map(|core| Profile::of_core(core.clone()).figures()).collect();
        Figures {
            kernel: self.columns().kernel.clone(),
            arch: self.columns().arch.name.clone(),
            latency_us: self.latency_us(),
            latency_low_us: self.latency_low_us(),
            latency_high_us: self.latency_high_us(),
            latency_basis: self.latency_basis(),
            overhead_us: self.overhead_us(),
            compile: self.compile(),
            instructions: self.instructions(),
            verdict: self.verdict(),
            speed_of_light: self.speed_of_light(),
            advice: self.advice().to_vec(),
            advice_note: self.advice_note().to_owned(),
            mfu: self.mfu(),
            mbu: self.mbu(),
            dma_efficiency: self.dma_efficiency(),
            dma_mean_busy_share: self.dma_mean_busy_share(),
            macs: self.macs(),
            dma_bytes: self.dma_bytes(),
            hbm_read_bytes: self.hbm_read_bytes(),
            hbm_write_bytes: self.hbm_write_bytes(),
            sbuf_peak_bytes: self.sbuf_peak_bytes(),
            psum_peak_bytes: self.psum_peak_bytes(),
            roofline: self.roofline(),
            engines: self.engines(),
            lines: self.lines(),
            findings: self.findings(),
            precision: self.precision(),
            cores: self.is_joint().then(cores),
        }
    }

    /// A figure by its path of names in [`Profile::figures`]: `latency_us`, `roofline.ridge`, `engines.tensor.busy_share`,
    /// `engines.dma.waits.DMA queue`, `lines.0.critical_us`, `cores.1.mfu`. None where there is no such number, or it is
    /// infinite.
    pub fn figure(&self, path: &str) -> Option<f64> {
        let figures = serde_json::to_value(self.figures()).ok()?;
        let mut found = &figures;
        for name in path.split('.') {
            found = match found {
                Value::Object(entries) => entries.get(name)?,
                Value::Array(items) => match name.parse::<usize>() {
                    Ok(place) => items.get(place)?,
                    Err(_) => items.iter().find(|item| item.get("engine").and_then(Value::as_str) == Some(name))?,
                },
                _ => return None,
            };
        }
        found.as_f64()
    }

    /// The text of `profile.json`: the format, every figure under `figures`, and the machine's records under `data`; of
    /// several cores, the records of each under `cores`.
    ///
    /// # Errors
    /// None that a profile of numbers has; [`crate::Error::Value`] says what could not be written.
    pub fn to_json(&self) -> crate::Result<String> {
        let cores = || self.cores().iter().map(|core| core.columns()).collect();
        let document = Document {
            format: FORMAT,
            version: FORMAT_VERSION,
            figures: self.figures(),
            data: (!self.is_joint()).then(|| self.columns()),
            cores: self.is_joint().then(cores),
        };
        serde_json::to_string(&document).map_err(|error| crate::Error::Value(format!("profile.json: {error}")))
    }
}
