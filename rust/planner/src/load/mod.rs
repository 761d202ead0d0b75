//! Serving under load: requests that arrive, replicas that batch them step by step, and what their users wait for.
//!
//! - [`conversation`]: what arrives.
//! - [`traffic`] and [`traffic_request`]: traffic as front ends ask for it, from what is drawn or recorded.
//! - [`arrivals`], [`sessions`], [`lengths`], [`spread`] and [`weighted`]: when requests come, and what is drawn of them.
//! - [`traces`]: what was recorded of served models, in the layouts in which it was published.

pub mod arrivals;
pub mod conversation;
pub mod lengths;
pub mod sessions;
pub mod spread;
pub mod traces;
pub mod traffic;
mod traffic_checks;
pub mod traffic_request;
pub mod weighted;

pub use arrivals::{ArrivalProcess, Arrivals};
pub use conversation::{Conversation, PromptSegment, Turn};
pub use lengths::Lengths;
pub use sessions::{SessionShape, SessionStreams, Sessions};
pub use spread::{NumberOrText, Spread};
pub use traces::{RecordedTraffic, TraceLayout, TraceRequest, bytes_as_tokens};
pub use traffic::Traffic;
pub use traffic_request::{RangeRatio, TrafficRequest};
pub use weighted::Weighted;
