//! How fast a run could be.

use serde::Serialize;

use crate::core_profile::CoreProfile;

/// What a run would take if its busiest engine never stood idle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedOfLight {
    /// The engine that works longest.
    pub engine: &'static str,
    /// How long it works, in microseconds.
    pub latency_us: f64,
    /// That as part of the latency.
    pub share: f64,
    /// In words.
    pub text: String,
}

impl SpeedOfLight {
    pub(crate) fn of(core: &CoreProfile) -> Option<Self> {
        let longest =
            |most: &'_ crate::engines::EngineTotal, next: &crate::engines::EngineTotal| next.busy_us > most.busy_us;
        let busiest = core.engines().iter().reduce(|most, next| if longest(most, next) { next } else { most })?;
        if core.columns().latency_ps == 0 || core.columns().instructions.is_empty() {
            return None;
        }
        let (latency_us, share) = (busiest.busy_us, busiest.busy_share);
        let text = format!("{latency_us:.1} us if nothing waited; you are at {:.0} %", 100.0 * share);
        Some(Self { engine: busiest.engine, latency_us, share, text })
    }
}
