//! What arrives: requests, alone or as the turns of a conversation.

/// Tokens that prompts may have in common: those of one number are the same, from their first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSegment {
    /// Which tokens.
    pub number: u64,
    /// How many of them.
    pub tokens: u32,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Tokens of its prompt, those of earlier turns included.
    pub input: u32,
    /// Tokens that are generated for it.
    pub output: u32,
    /// The smaller, the earlier it is scheduled where the server heeds priorities, as in vLLM.
    pub priority: i32,
    /// What its prompt begins with and others' may, too; tokens beyond are its own.
    pub segments: Vec<PromptSegment>,
    /// The number under which later prompts have its answer as a segment; `None` where none has.
    pub answer: Option<u64>,
}

/// Requests of one user, each sent a pause after the answer to the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// When its first turn is sent, seconds; of closed loops the time that its user waits before it.
    pub at: f64,
    /// Which of the models of a fleet it is for.
    pub model: u32,
    /// Its turns, at least one.
    pub turns: Vec<Turn>,
    /// Seconds between an answer's last token and the next turn.
    pub pause: f64,
}

impl Conversation {
    /// A single request.
    ///
    /// ```
    /// use trn3_planner::load::Conversation;
    ///
    /// let one = Conversation::single(0.5, 512, 64);
    /// assert_eq!((one.turns.len(), one.turns[0].input), (1, 512));
    /// ```
    pub fn single(at: f64, input: u32, output: u32) -> Self {
        Self { at, turns: vec![Turn { input, output, ..Turn::default() }], ..Self::default() }
    }
}
