//! Replicas that come and go with the load.

use serde::{Deserialize, Serialize};
use trn3_system::{Error, Result};

/// How the number of replicas follows the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscaling {
    /// The fewest replicas.
    #[serde(default = "one")]
    pub least: u64,
    /// The most.
    pub most: u64,
    /// Requests a replica that it aims at, waiting ones too.
    pub target: f64,
    /// Seconds from one look to the next.
    #[serde(default = "fifteen")]
    pub interval: f64,
    /// Seconds of less load before a replica goes.
    #[serde(default = "five_minutes")]
    pub patience: f64,
    /// Seconds until a new replica serves; none: those in which its weights are loaded, and its start.
    #[serde(default)]
    pub startup: Option<f64>,
}

fn one() -> u64 {
    1
}

/// The period of Kubernetes' horizontal autoscaler.
fn fifteen() -> f64 {
    15.0
}

/// Its window of stabilisation.
fn five_minutes() -> f64 {
    300.0
}

impl Autoscaling {
    /// Checks every number.
    ///
    /// # Errors
    /// [`Error::Value`] that names the one that is wrong.
    pub fn check(&self) -> Result<()> {
        let Self { least, most, target, interval, patience, startup } = *self;
        if least < 1 || most < least {
            return Err(Error::Value(format!(
                "autoscaling goes from {least} to {most} replicas; needed: at least 1, and no fewer at most than at least"
            )));
        }
        for (name, value, zero) in [
            ("target", target, false),
            ("interval", interval, false),
            ("patience", patience, true),
            ("startup", startup.unwrap_or(0.0), true),
        ] {
            if !value.is_finite() || value < 0.0 || (value == 0.0 && !zero) {
                return Err(Error::Value(format!("autoscaling.{name} is {value}; needed: a number above 0")));
            }
        }
        Ok(())
    }

    /// How many replicas it wants for so many requests.
    pub(super) fn wanted(&self, requests: usize) -> u64 {
        ((requests as f64 / self.target).ceil() as u64).clamp(self.least, self.most)
    }
}

/// What a replica's chips are doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PowerState {
    /// They load weights until then.
    Starts(f64),
    /// They serve.
    Serves,
    /// They serve what they have.
    Drains,
    /// They are somebody else's.
    Off,
}

/// One replica's chips over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Powered {
    pub(super) state: PowerState,
    /// When they were taken.
    since: f64,
    /// Seconds of earlier times.
    seconds: f64,
}

impl Powered {
    pub(super) fn new(serves: bool) -> Self {
        Self { state: if serves { PowerState::Serves } else { PowerState::Off }, since: 0.0, seconds: 0.0 }
    }

    /// Whether it takes requests.
    pub(super) fn is_open(&self) -> bool {
        self.state == PowerState::Serves
    }

    /// Whether it counts among those that there will be.
    pub(super) fn is_coming(&self) -> bool {
        matches!(self.state, PowerState::Starts(_) | PowerState::Serves)
    }

    pub(super) fn start(&mut self, now: f64, ready: f64) {
        (self.state, self.since) = (PowerState::Starts(ready), now);
    }

    pub(super) fn stop(&mut self, now: f64) {
        self.seconds += now - self.since;
        self.state = PowerState::Off;
    }

    /// Seconds for which the chips were taken, up to a time.
    pub(super) fn until(&self, now: f64) -> f64 {
        if self.state == PowerState::Off { self.seconds } else { self.seconds + now - self.since }
    }
}
