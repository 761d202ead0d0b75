//! The operations of a step as one rank sees them, and how long each takes: its arithmetic or its traffic, whichever
//! is longer.

use serde::Serialize;

use super::dtype::{DataType, TensorPrecision};
use super::hardware::Rank;
use super::shapes::{Attention, Experts, FeedForward, Model};
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

/// Experts that a rank holds some part of, and how many tokens each gets.
struct Routing {
    /// Experts of the rank that at least one token picked.
    busy: f64,
    /// Tokens of each of them.
    tokens: f64,
}

impl Routing {
    fn new(experts: &Experts, split: &Split, tokens: f64) -> Self {
        let held = experts.count as f64 / split.ep as f64;
        let busy = held * experts.touched(tokens);
        let picked = tokens * experts.active as f64 / split.ep as f64;
        Self { busy, tokens: if busy > 0.0 { picked / busy } else { 0.0 } }
    }
}

/// The operations of a step on one rank of an average stage of the pipeline: counts are those of the whole model
/// divided by `pp`, embedding and logits included, so that `pp` stages make the model.
///
/// Norms pass `norm_passes` activations; see [`operations_with`] for another number.
pub fn operations(model: &Model, precision: &TensorPrecision, split: &Split, step: TokenStep) -> Vec<LayerOperation> {
    operations_with(model, precision, split, step, &Efficiency::PEAK)
}

/// [`operations`] with the passes of norms of `efficiency`.
pub fn operations_with(
    model: &Model,
    precision: &TensorPrecision,
    split: &Split,
    step: TokenStep,
    efficiency: &Efficiency,
) -> Vec<LayerOperation> {
    let list = Builder { model, precision, split, step, share: 1.0 / split.pp as f64 };
    list.all(efficiency.norm_passes)
}

struct Builder<'a> {
    model: &'a Model,
    precision: &'a TensorPrecision,
    split: &'a Split,
    step: TokenStep,
    /// The part of the layers that the stage has.
    share: f64,
}

impl Builder<'_> {
    fn all(&self, norm_passes: f64) -> Vec<LayerOperation> {
        let mut all = Vec::with_capacity(16);
        let model = self.model;
        let layers = model.layers as f64 * self.share;
        let rows = self.rows();
        let width = model.width as f64;
        all.push(self.streaming("embedding", Kind::Gather, TensorClass::Embedding, self.share, rows, 2.0));
        self.attention(&mut all, layers);
        let dense = model.dense_layers() as f64 * self.share;
        if dense > 0.0 {
            let shard = model.feed_forward.width as f64 / self.split.tp as f64;
            self.block(&mut all, ["mlp_in", "mlp_out"], TensorClass::Dense, dense, model.feed_forward, shard);
        }
        if let Some(experts) = &model.experts {
            self.experts(&mut all, experts);
        }
        let norms = self.streaming("norms", Kind::Norm, TensorClass::Norms, layers, rows, norm_passes);
        all.push(norms);
        let columns = model.vocabulary as f64 / self.split.tp as f64;
        let picked = self.step.sequences / self.split.dp as f64 * self.step.logits / self.split.cp as f64;
        all.push(self.matmul(
            "unembedding",
            TensorClass::Unembedding,
            self.share,
            picked,
            width,
            columns,
            f64::INFINITY,
        ));
        all.push(LayerOperation {
            n: columns,
            activation_bytes: picked * columns * DataType::Fp32.bytes(),
            ..self.streaming("sampling", Kind::Sample, TensorClass::Unembedding, self.share, picked, 0.0)
        });
        all
    }

    /// Tokens that a rank works on.
    fn rows(&self) -> f64 {
        self.step.sequences * self.step.tokens / (self.split.dp * self.split.cp) as f64
    }

    fn attention(&self, all: &mut Vec<LayerOperation>, layers: f64) {
        let (width, rows, tp) = (self.model.width as f64, self.rows(), self.split.tp);
        let class = TensorClass::Attention;
        let add = |all: &mut Vec<LayerOperation>, name, k: f64, n: f64, shard: f64| {
            all.push(self.matmul(name, class, layers, rows, k, n, shard));
        };
        // The rate of products was fitted to the width of the feed-forward shard, so all of a layer share it.
        let shard = self.layer_shard();
        let heads = self.model.attention.heads_of_rank(tp) as f64;
        let output = match self.model.attention {
            Attention::Grouped { head_width, .. } => {
                let head = head_width as f64;
                // Fewer heads of keys than ranks: each rank has a whole one, some the same.
                let keys = self.model.attention.kv_heads_of_rank(tp) as f64;
                add(all, "qkv", width, (heads + 2.0 * keys) * head, shard);
                heads * head
            }
            Attention::Latent { query_rank, kv_rank, nope, rope, value, .. } => {
                let (latent, queries) = ((kv_rank + rope) as f64, heads * (nope + rope) as f64);
                add(all, "kv_down", width, latent, shard);
                match query_rank {
                    Some(rank) => {
                        add(all, "q_down", width, rank as f64, shard);
                        add(all, "q_up", rank as f64, queries, shard);
                    }
                    None => add(all, "q_up", width, queries, shard),
                }
                // Prompts unfold keys and values; single tokens fold the same matrix into queries and outputs.
                add(all, "kv_up", kv_rank as f64, heads * (nope + value) as f64, shard);
                heads * value as f64
            }
        };
        let full = self.model.full_layers() as f64 * self.share;
        if full > 0.0 {
            all.push(self.scores("attention", full, None));
        }
        if let Some(window) = self.model.window {
            all.push(self.scores("window_attention", window.layers as f64 * self.share, Some(window.tokens)));
        }
        add(all, "attention_out", output, width, shard);
    }

    fn scores(&self, name: &'static str, layers: f64, window: Option<u64>) -> LayerOperation {
        let TokenStep { sequences, tokens, past, .. } = self.step;
        let (tp, cp) = (self.split.tp, self.split.cp as f64);
        let attention = &self.model.attention;
        let heads = attention.heads_of_rank(tp) as f64;
        let local = sequences / self.split.dp as f64;
        let absorbed = tokens <= past;
        let pairs = self.model.pairs(tokens, past, window) / cp;
        let of_head = attention.pair_multiplies(absorbed) as f64 / attention.heads() as f64;
        let flops = 2.0 * of_head * heads * pairs * local;
        let seen = window.map_or(past + tokens, |window| (past + tokens).min(window as f64 + tokens - 1.0));
        let kept = attention.kv_elements() as f64 / attention.kv_heads() as f64 * attention.kv_heads_of_rank(tp) as f64;
        let outputs = match *attention {
            Attention::Grouped { head_width, .. } => 2.0 * heads * head_width as f64,
            Attention::Latent { nope, rope, value, .. } => heads * (nope + rope + value) as f64,
        };
        LayerOperation {
            name,
            kind: Kind::Attention,
            class: TensorClass::Attention,
            count: layers,
            groups: local * heads,
            m: tokens / cp,
            k: of_head / 2.0,
            n: seen,
            dtype: self.precision.kv.multiplied(),
            flops,
            weight_bytes: 0.0,
            // Reads what is seen and writes what is new.
            kv_bytes: local * kept * self.precision.kv.bytes() * (seen + tokens) / cp,
            activation_bytes: self.rows() * outputs * self.precision.activations.bytes(),
            shard: self.layer_shard(),
        }
    }

    /// Width of the layer's feed-forward shard on a rank: of the dense block, or of what a token passes of experts.
    fn layer_shard(&self) -> f64 {
        match &self.model.experts {
            Some(experts) if self.model.dense_layers() == 0 => self.expert_shard(experts),
            _ => self.model.feed_forward.width as f64 / self.split.tp as f64,
        }
    }

    fn expert_shard(&self, experts: &Experts) -> f64 {
        experts.block.width as f64 / self.split.expert_tp() as f64
    }

    fn experts(&self, all: &mut Vec<LayerOperation>, experts: &Experts) {
        let layers = experts.layers as f64 * self.share;
        let (width, rows) = (self.model.width as f64, self.rows());
        let shard = self.expert_shard(experts);
        all.push(self.matmul("router", TensorClass::Router, layers, rows, width, experts.count as f64, f64::INFINITY));
        if let Some(shared) = experts.shared {
            let shard = shared.width as f64 / self.split.tp as f64;
            let names = ["shared_experts_in", "shared_experts_out"];
            self.block(all, names, TensorClass::SharedExperts, layers, shared, shard);
        }
        // Tokens of every rank that shares these experts count, those of other data-parallel groups too.
        let routing = Routing::new(experts, self.split, self.step.sequences * self.step.tokens);
        let columns = experts.block.inputs() as f64 * shard;
        for (name, k, n) in [("experts_in", width, columns), ("experts_out", shard, width)] {
            let one = self.matmul(name, TensorClass::Experts, layers, routing.tokens, k, n, shard);
            all.push(LayerOperation {
                kind: Kind::GroupedMatmul,
                groups: routing.busy,
                flops: one.flops * routing.busy,
                weight_bytes: one.weight_bytes * routing.busy,
                activation_bytes: one.activation_bytes * routing.busy,
                ..one
            });
        }
    }

    fn block(
        &self,
        all: &mut Vec<LayerOperation>,
        names: [&'static str; 2],
        class: TensorClass,
        layers: f64,
        block: FeedForward,
        shard: f64,
    ) {
        let (width, rows) = (self.model.width as f64, self.rows());
        all.push(self.matmul(names[0], class, layers, rows, width, block.inputs() as f64 * shard, shard));
        all.push(self.matmul(names[1], class, layers, rows, shard, width, shard));
    }

    fn matmul(
        &self,
        name: &'static str,
        class: TensorClass,
        count: f64,
        m: f64,
        k: f64,
        n: f64,
        shard: f64,
    ) -> LayerOperation {
        let stored = self.precision.of(class);
        LayerOperation {
            name,
            kind: Kind::Matmul,
            class,
            count,
            groups: 1.0,
            m,
            k,
            n,
            dtype: stored.multiplied(),
            flops: 2.0 * m * k * n,
            weight_bytes: k * n * stored.bytes(),
            kv_bytes: 0.0,
            activation_bytes: m * (k + n) * self.precision.activations.bytes(),
            shard,
        }
    }

    fn streaming(
        &self,
        name: &'static str,
        kind: Kind,
        class: TensorClass,
        count: f64,
        rows: f64,
        passes: f64,
    ) -> LayerOperation {
        let width = self.model.width as f64;
        LayerOperation {
            name,
            kind,
            class,
            count,
            groups: 1.0,
            m: rows,
            k: 1.0,
            n: width,
            dtype: self.precision.activations,
            flops: 0.0,
            weight_bytes: 0.0,
            kv_bytes: 0.0,
            activation_bytes: passes * rows * width * self.precision.activations.bytes(),
            shard: f64::INFINITY,
        }
    }
}
