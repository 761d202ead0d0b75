//! Serving under load: requests that arrive, replicas that batch them step by step, and what their users wait for.
//!
//! - [`conversation`]: what arrives.

pub mod conversation;

pub use conversation::{Conversation, PromptSegment, Turn};
