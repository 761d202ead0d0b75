//! Questions about fleets, and their answers, in forms that serde knows.

use serde::{Deserialize, Serialize};
use trn3_system::{Error, Result};

use super::request::{ServingFleetRequest, TrainingFleetRequest};
use super::serving::ServingFleet;
use super::training::TrainingFleet;

/// A question about a fleet.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum FleetRequest {
    /// What failures leave of a training run.
    Training(Box<TrainingFleetRequest>),
    /// How many spare replicas serving needs.
    Serving(ServingFleetRequest),
}

/// What a question about a fleet is answered with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FleetAnswer {
    /// Of training.
    Training(Box<TrainingFleet>),
    /// Of serving.
    Serving(Box<ServingFleet>),
}

impl FleetRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Value`] if the text is no request.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Value(format!("the fleet request is wrong: {error}")))
    }

    /// The answer; the same request has the same one on any number of threads.
    ///
    /// # Errors
    /// [`Error::Value`] if a number is out of its range, [`Error::Unknown`] for a name that there is not.
    ///
    /// ```
    /// use trn3_planner::fleet::{FleetAnswer, FleetRequest};
    ///
    /// let text = r#"{"of": "training", "system": {"name": "h100"}, "chips": 16384, "days": 54}"#;
    /// let FleetAnswer::Training(found) = FleetRequest::parse(text)?.answer()? else { unreachable!() };
    /// assert_eq!(found.interruptions_expected.round(), 419.0);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn answer(&self) -> Result<FleetAnswer> {
        Ok(match self {
            Self::Training(asked) => FleetAnswer::Training(Box::new(asked.answer()?)),
            Self::Serving(asked) => FleetAnswer::Serving(Box::new(asked.answer()?)),
        })
    }
}
