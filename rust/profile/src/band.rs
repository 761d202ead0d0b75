//! How sure a latency is: what it rests on, and between which bounds the hardware's would be expected.

use serde::Serialize;
use trn3_facts::{Evidence, parameters};

use crate::rows::PS_PER_US;
use crate::run_columns::RunColumns;

/// A part of a latency that rests on one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BasisShare {
    /// The figure's name, in the machine's description.
    pub constant: String,
    /// What it rests on itself.
    pub evidence: Evidence,
    /// Microseconds of the latency.
    pub us: f64,
}

/// What a latency rests on. The parts by evidence add up to the latency; clocks are documented.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyBasis {
    /// Microseconds that documented figures decide.
    pub documented_us: f64,
    /// Microseconds that measured figures decide.
    pub measured_us: f64,
    /// Microseconds that estimated figures decide.
    pub estimated_us: f64,
    /// The figures, the one that decides most first; without the clocks.
    pub constants: Vec<BasisShare>,
    /// What the width of the band was read off.
    pub rows: String,
}

/// Bounds of a latency, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) low_us: f64,
    pub(crate) high_us: f64,
}

impl LatencyBasis {
    /// None of a run that does not say what its time rests on.
    pub(crate) fn of(columns: &RunColumns) -> Option<Self> {
        if columns.basis.is_empty() {
            return None;
        }
        let sum = |evidence: Evidence| {
            let of = columns.basis.iter().filter(|time| time.evidence == evidence);
            of.fold(0.0, |sum, time| sum + time.time_ps as f64 / PS_PER_US)
        };
        let latency_us = columns.latency_us();
        let measured_us = sum(Evidence::Measured).min(latency_us);
        let estimated_us = sum(Evidence::Estimated).min(latency_us - measured_us);
        let mut constants: Vec<BasisShare> = columns
            .basis
            .iter()
            .map(|time| BasisShare {
                constant: time.constant.clone(),
                evidence: time.evidence,
                us: time.time_ps as f64 / PS_PER_US,
            })
            .collect();
        constants.sort_by(|one, other| other.us.total_cmp(&one.us));
        Some(Self {
            documented_us: latency_us - measured_us - estimated_us,
            measured_us,
            estimated_us,
            constants,
            rows: errors().map(|errors| errors.rows.clone()).unwrap_or_default(),
        })
    }

    /// **(choice)** Errors of all figures are taken to have one sign, and bounds lie as far apart in ratio on both sides.
    pub(crate) fn band(&self) -> Option<Band> {
        let errors = errors()?;
        let latency = self.documented_us + self.measured_us + self.estimated_us;
        let slower = self.documented_us * errors.documented
            + self.measured_us * errors.measured
            + self.estimated_us * errors.estimated;
        let high_us = latency + slower;
        Some(Band { low_us: if high_us > 0.0 { latency * latency / high_us } else { latency }, high_us })
    }
}

/// The errors of the facts: `models/latency.toml`.
struct Errors {
    documented: f64,
    measured: f64,
    estimated: f64,
    rows: String,
}

fn errors() -> Option<&'static Errors> {
    static READ: std::sync::OnceLock<Option<Errors>> = std::sync::OnceLock::new();
    let read = || {
        let facts = parameters("latency").ok()?;
        let figure = |name: &str| facts.si(name).ok();
        let rows = facts.quantity("documented_error").ok()?.sources.first()?.source.clone();
        Some(Errors {
            documented: figure("documented_error")?,
            measured: figure("measured_error")?,
            estimated: figure("estimated_error")?,
            rows: rows.trim_start_matches("fitted: ").to_owned(),
        })
    };
    READ.get_or_init(read).as_ref()
}
