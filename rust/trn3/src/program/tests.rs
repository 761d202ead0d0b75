//! Programs: round trips, refusals, and what is recorded.
