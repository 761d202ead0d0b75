//! Layouts of traces: the columns that their authors document.

use trn3_system::{Error, Result};

/// A layout of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLayout {
    /// The Azure LLM inference traces of 2023 and 2024: CSV of `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`.
    Azure,
    /// BurstGPT: CSV of `Timestamp` in seconds, `Model`, `Request tokens`, `Response tokens` and others that are not read.
    BurstGpt,
    /// Mooncake: lines of JSON with `timestamp` in milliseconds, `input_length`, `output_length` and `hash_ids`, one for
    /// each 512 tokens of the prompt.
    Mooncake,
    /// The Bailian traces of Qwen: lines of JSON with `chat_id`, `timestamp` in seconds, `input_length`, `output_length`
    /// and `hash_ids`, one for each 16 tokens.
    Bailian,
    /// What vLLM's benchmark calls a timed trace: keys as Mooncake's, seconds, 16 tokens a hash.
    VllmTimed,
    /// A result of vLLM's benchmark, saved in detail: one JSON document with lists `input_lens`, `output_lens` and,
    /// from newer ones, `start_times`.
    VllmResult,
    /// A custom data set of vLLM's benchmark: lines of JSON with a `prompt` and perhaps `output_tokens`.
    VllmCustom,
    /// ShareGPT: a list, or lines, of JSON objects with `conversations`, whose messages have `from` and `value`.
    ShareGpt,
    /// Our own: CSV or lines of JSON with `input` and `output`, and perhaps `arrival` in seconds, `priority`, `model`
    /// and `session`.
    Plain,
}

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Arrival,
    Input,
    Output,
    Priority,
    Model,
    Session,
    Blocks,
}

impl TraceLayout {
    /// All layouts, those whose columns others have, too, after these.
    pub const ALL: [Self; 9] = [
        Self::VllmResult,
        Self::ShareGpt,
        Self::Azure,
        Self::BurstGpt,
        Self::Bailian,
        Self::Mooncake,
        Self::VllmTimed,
        Self::VllmCustom,
        Self::Plain,
    ];

    /// The name, as requests give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::BurstGpt => "burstgpt",
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
            Self::VllmTimed => "vllm_timed",
            Self::VllmResult => "vllm_result",
            Self::VllmCustom => "vllm_custom",
            Self::ShareGpt => "sharegpt",
            Self::Plain => "plain",
        }
    }

    /// The layout of a name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none.
    ///
    /// ```
    /// use trn3_planner::load::TraceLayout;
    ///
    /// assert_eq!(TraceLayout::parse("azure").unwrap(), TraceLayout::Azure);
    /// assert!(TraceLayout::parse("azur").unwrap_err().to_string().contains("azure"));
    /// ```
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| Error::unknown("trace format", name, Self::ALL.map(Self::name)))
    }

    /// Columns or keys without which a file is not of this layout.
    pub fn needed(self) -> &'static [&'static str] {
        match self {
            Self::Azure => &["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
            Self::BurstGpt => &["Timestamp", "Model", "Request tokens", "Response tokens"],
            Self::Mooncake | Self::VllmTimed => &["timestamp", "input_length", "output_length", "hash_ids"],
            Self::Bailian => &["chat_id", "timestamp", "input_length", "output_length"],
            Self::VllmResult => &["input_lens", "output_lens"],
            Self::VllmCustom => &["prompt"],
            Self::ShareGpt => &["conversations"],
            Self::Plain => &["input", "output"],
        }
    }

    /// The layout whose columns are there.
    pub(super) fn recognised(columns: &[&str]) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.needed().iter().all(|needed| columns.contains(needed)))
    }

    /// What messages say of all layouts.
    pub(super) fn known() -> String {
        let one = |layout: Self| format!("{} ({})", layout.name(), layout.needed().join(", "));
        Self::ALL.map(one).join("; ")
    }

    /// The column of a role.
    pub(super) fn column(self, role: Role) -> Option<&'static str> {
        match (self, role) {
            (Self::Azure, Role::Arrival) => Some("TIMESTAMP"),
            (Self::Azure, Role::Input) => Some("ContextTokens"),
            (Self::Azure, Role::Output) => Some("GeneratedTokens"),
            (Self::BurstGpt, Role::Arrival) => Some("Timestamp"),
            (Self::BurstGpt, Role::Input) => Some("Request tokens"),
            (Self::BurstGpt, Role::Output) => Some("Response tokens"),
            (Self::BurstGpt, Role::Model) => Some("Model"),
            (Self::Mooncake | Self::Bailian | Self::VllmTimed, Role::Arrival) => Some("timestamp"),
            (Self::Mooncake | Self::Bailian | Self::VllmTimed, Role::Input) => Some("input_length"),
            (Self::Mooncake | Self::Bailian | Self::VllmTimed, Role::Output) => Some("output_length"),
            (Self::Mooncake | Self::Bailian | Self::VllmTimed, Role::Blocks) => Some("hash_ids"),
            (Self::VllmCustom, Role::Input) => Some("prompt"),
            (Self::VllmCustom, Role::Output) => Some("output_tokens"),
            (Self::Plain, Role::Arrival) => Some("arrival"),
            (Self::Plain, Role::Input) => Some("input"),
            (Self::Plain, Role::Output) => Some("output"),
            (Self::Plain, Role::Priority) => Some("priority"),
            (Self::Plain, Role::Model) => Some("model"),
            (Self::Plain, Role::Session) => Some("session"),
            _ => None,
        }
    }

    /// Whether its times are dates rather than numbers.
    pub(super) fn has_dates(self) -> bool {
        self == Self::Azure
    }

    /// Its unit of time, as how many of it a second has.
    pub(super) fn ticks(self) -> f64 {
        if self == Self::Mooncake { 1e3 } else { 1.0 }
    }

    /// Tokens that a hash stands for.
    pub(super) fn block(self) -> u32 {
        if self == Self::Mooncake { 512 } else { 16 }
    }

    /// Whether requests may stand in another order than they were sent in: a result lists them as they were made, and
    /// clients hold some back.
    pub(super) fn is_unordered(self) -> bool {
        self == Self::VllmResult
    }

    /// Whether it is ours, where nothing is passed over.
    pub(super) fn is_strict(self) -> bool {
        self == Self::Plain
    }
}

impl Role {
    /// All roles.
    pub(super) const ALL: [Self; 7] =
        [Self::Arrival, Self::Input, Self::Output, Self::Priority, Self::Model, Self::Session, Self::Blocks];
}
