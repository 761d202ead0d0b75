//! An operation of a step as one rank sees it, and how long it takes: its arithmetic or its traffic, whichever is longer.

use serde::Serialize;

use super::dtype::DataType;
use super::hardware::Rank;
use super::tensor_class::TensorClass;

/// How a model is shared out over the ranks of one replica.
///
/// A stage of the pipeline has `tp * cp * dp` ranks. Attention and dense blocks are split over `tp`; sequences over
/// `dp`; the tokens of a sequence over `cp`; experts over `ep` groups of ranks of the stage, and within a group each
/// expert is split over the `stage / ep` ranks that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// Tensor parallelism.
    pub tp: u64,
    /// Context parallelism.
    pub cp: u64,
    /// Data parallelism inside of a replica: groups that share experts, not sequences.
    pub dp: u64,
    /// Expert parallelism.
    pub ep: u64,
    /// Stages of the pipeline.
    pub pp: u64,
}

impl Split {
    /// One rank for everything.
    pub const WHOLE: Self = Self { tp: 1, cp: 1, dp: 1, ep: 1, pp: 1 };

    /// Ranks of a stage.
    pub fn stage(&self) -> u64 {
        self.tp * self.cp * self.dp
    }

    /// Ranks of a replica.
    pub fn ranks(&self) -> u64 {
        self.stage() * self.pp
    }

    /// Ranks that share one expert.
    pub fn expert_tp(&self) -> u64 {
        self.stage() / self.ep
    }
}

/// What a stage works on at once: new tokens of some sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenStep {
    /// Sequences of the replica, over all of its data-parallel groups.
    pub sequences: f64,
    /// New tokens of each.
    pub tokens: f64,
    /// Tokens before them, whose keys and values are kept.
    pub past: f64,
    /// Of the new tokens of each sequence, those whose logits are made.
    pub logits: f64,
}

impl TokenStep {
    /// Reading prompts of `tokens` tokens.
    pub fn prefill(sequences: f64, tokens: f64) -> Self {
        Self { sequences, tokens, past: 0.0, logits: 1.0 }
    }

    /// Generating one token for each sequence after `context` others.
    pub fn decode(sequences: f64, context: f64) -> Self {
        Self { sequences, tokens: 1.0, past: context, logits: 1.0 }
    }

    /// A forward pass that learns from every token.
    pub fn training(sequences: f64, tokens: f64) -> Self {
        Self { sequences, tokens, past: 0.0, logits: tokens }
    }
}

/// What an operation mainly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A product with weights.
    Matmul,
    /// Products with the weights of the experts that some token picked.
    GroupedMatmul,
    /// Scores and weighted values over keys and values.
    Attention,
    /// Norms and residuals.
    Norm,
    /// Reading rows of a table.
    Gather,
    /// Picking tokens from logits.
    Sample,
    /// A convolution.
    Convolution,
    /// A recurrence over tokens.
    Scan,
}

/// One operation of a stage, as one rank does it, `count` times a step.
///
/// A product is `[m, k] x [k, n]`, done for `groups` sets of weights (experts) or heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerOperation {
    /// Its name: `qkv`, `attention`, `experts_in`, ...
    pub name: &'static str,
    /// What it mainly is.
    pub kind: Kind,
    /// Whose weights it reads.
    pub class: TensorClass,
    /// How often a step has it, over the layers of the stage.
    pub count: f64,
    /// Products of this shape.
    pub groups: f64,
    /// Rows: tokens.
    pub m: f64,
    /// Contracted elements.
    pub k: f64,
    /// Columns.
    pub n: f64,
    /// The format of the product.
    pub dtype: DataType,
    /// Operations of one of `count`.
    pub flops: f64,
    /// Bytes of weights that one of them reads.
    pub weight_bytes: f64,
    /// Bytes of keys and values that one reads and writes.
    pub kv_bytes: f64,
    /// Bytes of activations that one reads and writes.
    pub activation_bytes: f64,
    /// Width of the rank's shard on which the rate of products depends; infinite where it does not.
    pub shard: f64,
    /// Scores of a prompt, masked ones too; none for single tokens and for what is no attention.
    pub scores: f64,
}

impl LayerOperation {
    /// All bytes that one of `count` moves.
    pub fn bytes(&self) -> f64 {
        self.weight_bytes + self.kv_bytes + self.activation_bytes
    }

    /// The name under which a measured time replaces the roofline's: kind, shape and format.
    ///
    /// ```
    /// use trn3_planner::{TensorPrecision, DataType, Split, TokenStep, built_in_model, operations};
    ///
    /// let model = built_in_model("llama-3-8b").unwrap();
    /// let all = operations(&model, &TensorPrecision::uniform(DataType::Bf16), &Split::WHOLE, TokenStep::prefill(1.0, 512.0));
    /// assert_eq!(all[1].key(), "matmul:512x4096x6144:bf16");
    /// ```
    pub fn key(&self) -> String {
        let Self { m, k, n, groups, .. } = self;
        let shape = format!("{}x{}x{}", m.ceil(), k.ceil(), n.ceil());
        let dtype = self.dtype.name();
        match self.kind {
            Kind::Matmul => format!("matmul:{shape}:{dtype}"),
            Kind::GroupedMatmul => format!("grouped_matmul:{}x{shape}:{dtype}", groups.ceil()),
            Kind::Attention => format!("attention:{}x{shape}:{dtype}", groups.ceil()),
            Kind::Norm => format!("norm:{}x{}:{dtype}", m.ceil(), n.ceil()),
            Kind::Gather => format!("gather:{}x{}:{dtype}", m.ceil(), n.ceil()),
            Kind::Sample => format!("sample:{}x{}:{dtype}", m.ceil(), n.ceil()),
            Kind::Convolution => format!("convolution:{shape}:{dtype}"),
            Kind::Scan => format!("scan:{shape}:{dtype}"),
        }
    }
}

/// What limits an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationBound {
    /// The TensorEngine.
    Compute,
    /// Memory and the DMA engines that stream from it.
    Memory,
    /// A measured time, which says nothing of its cause.
    Measured,
}

/// How long one operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperationTiming {
    /// Seconds for all `count` of it.
    pub seconds: f64,
    /// Seconds of arithmetic alone.
    pub compute: f64,
    /// Seconds of traffic alone.
    pub memory: f64,
    /// Which of the two is the longer one.
    pub bound: OperationBound,
}

/// How far below their peaks parts of the machine run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// Width of a rank's shard at which products run at half of the array's peak; zero for the peak always.
    pub half_rate_width: f64,
    /// Times that activations pass between core and memory for the norms of a layer.
    pub norm_passes: f64,
}

impl Efficiency {
    /// Peaks everywhere.
    pub const PEAK: Self = Self { half_rate_width: 0.0, norm_passes: 6.0 };

    /// The share of the array's peak that products on a shard of this width reach.
    pub fn of_shard(&self, width: f64) -> f64 {
        if width.is_finite() { width / (width + self.half_rate_width) } else { 1.0 }
    }
}

impl Rank {
    /// The roofline: the longer of arithmetic and traffic.
    ///
    /// A format that the chip does not multiply takes the time of BF16.
    pub fn time(&self, operation: &LayerOperation, efficiency: &Efficiency) -> OperationTiming {
        let peak = self.peaks[operation.dtype.index()].or(self.peaks[DataType::Bf16.index()]).unwrap_or(f64::NAN);
        let compute = operation.count * operation.flops / (peak * efficiency.of_shard(operation.shard));
        let memory = operation.count * operation.bytes() / self.memory_rate;
        let bound = if compute > memory { OperationBound::Compute } else { OperationBound::Memory };
        OperationTiming { seconds: compute.max(memory), compute, memory, bound }
    }
}
