//! How operations are computed on a core.

/// How an operation was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateKind {
    /// Before the run: everything it takes was known.
    Folded,
    /// By no instruction: its result is another look at what is there.
    View,
    /// By transfers alone.
    Copy,
    /// By its bodies' operations.
    Body,
    /// By instructions of its own.
    Instructions,
    /// By instructions that share tiles on chip with its neighbours.
    Fused,
    /// By the kernel of attention: scores of a block of queries stay on chip.
    Attention,
    /// By a function on GpSimdE: no engine has it.
    GpSimdFunction,
    /// By a collective with other ranks.
    Collective,
    /// By nothing: no output needs it, or what is there already is its result.
    Removed,
    /// By a kernel of the user's own, whose own run stands in the timeline as one instruction.
    Kernel,
}

impl TemplateKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            TemplateKind::Folded => "folded",
            TemplateKind::View => "view",
            TemplateKind::Copy => "copy",
            TemplateKind::Body => "body",
            TemplateKind::Instructions => "instructions",
            TemplateKind::Fused => "fused",
            TemplateKind::Attention => "attention",
            TemplateKind::GpSimdFunction => "gpsimd_function",
            TemplateKind::Collective => "collective",
            TemplateKind::Removed => "removed",
            TemplateKind::Kernel => "kernel",
        }
    }
}

/// One operation of a run by instructions.
#[derive(Clone, Debug)]
pub struct OperationRun {
    /// The label that its instructions have: name and number.
    pub label: String,
    /// How it was computed.
    pub template: TemplateKind,
}
