//! Serving under load: requests that arrive, replicas that batch them step by step, and what their users wait for.
//!
//! - [`conversation`]: what arrives.
//! - [`arrivals`], [`sessions`], [`lengths`], [`spread`] and [`weighted`]: when requests come, and what is drawn of them.
//! - [`traces`]: what was recorded of served models, in the layouts in which it was published.

pub mod arrivals;
pub mod conversation;
pub mod lengths;
pub mod sessions;
pub mod spread;
pub mod traces;
pub mod weighted;

pub use arrivals::{ArrivalProcess, Arrivals};
pub use conversation::{Conversation, PromptSegment, Turn};
pub use lengths::Lengths;
pub use sessions::{SessionShape, SessionStreams, Sessions};
pub use spread::{NumberOrText, Spread};
pub use traces::{RecordedTraffic, TraceLayout, TraceRequest, bytes_as_tokens};
pub use weighted::Weighted;
