//! Serving under load: requests that arrive, replicas that batch them step by step, and what their users wait for.
//!
//! - [`request`] and [`answer`]: what front ends ask for and get.
//! - [`conversation`]: what arrives.
//! - [`traffic`] and [`traffic_request`]: traffic as front ends ask for it, from what is drawn or recorded.
//! - [`arrivals`], [`sessions`], [`lengths`], [`spread`] and [`weighted`]: when requests come, and what is drawn of them.
//! - [`traces`]: what was recorded of served models, in the layouts in which it was published.
//! - `deployment`, `costs`, `tables`, `room`: a model on its chips, and what its steps take.
//! - `replica`, `blocks`, `waiting`, `job`, `acceptance`: continuous batching over paged keys and values.
//! - `service`, `router`, `scaling`, `handover`: replicas, and the events between their steps.
//! - [`live`]: requests that come from outside while it runs.
//! - [`sizing`] and [`target`]: the least machines that keep what is promised.
//! - `run`, [`statistics`]: from the first request to the last token, and what is said of it.

mod acceptance;
pub mod answer;
pub mod arrivals;
mod blocks;
pub mod conversation;
mod costs;
mod deployment;
mod handover;
mod job;
pub mod lengths;
pub mod live;
mod replica;
pub mod request;
mod room;
pub mod router;
pub mod rules;
mod run;
pub mod scaling;
mod service;
pub mod sessions;
pub mod sizing;
pub mod spread;
pub mod statistics;
mod tables;
pub mod target;
pub mod traces;
pub mod traffic;
mod traffic_checks;
pub mod traffic_request;
mod waiting;
pub mod weighted;

pub use answer::{LittlesLaw, LoadAnswer, LoadCost, LoadEnergy, ModelUnderLoad};
pub use arrivals::{ArrivalProcess, Arrivals};
pub use conversation::{Conversation, PromptSegment, Turn};
pub use lengths::Lengths;
pub use live::{LivePrompt, LiveRequest, LiveService, LiveState, LiveTokens};
pub use request::{DeploymentRequest, LoadRequest, ReplicaCounts, ServerRequest, ServiceLimits};
pub use router::RoutingPolicy;
pub use rules::{PreemptionMode, ReplicaRole};
pub use scaling::Autoscaling;
pub use sessions::{SessionShape, SessionStreams, Sessions};
pub use sizing::{SizeAnswer, SizeRequest, SizedFleet, SizedSystem};
pub use spread::{NumberOrText, Spread};
pub use statistics::{ServiceTimeline, WaitSummary};
pub use target::SizeTarget;
pub use traces::{RecordedTraffic, TraceLayout, TraceRequest, bytes_as_tokens};
pub use traffic::Traffic;
pub use traffic_request::{RangeRatio, TrafficRequest};
pub use weighted::Weighted;
