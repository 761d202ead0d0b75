//! The operations of a step on one rank: from the shapes of a model, how it is split, and how prompts are served.

use super::dtype::{DataType, TensorPrecision};
use super::recipe::ServingRecipe;
use super::roofline::{Efficiency, Kind, LayerOperation, Split, TokenStep};
use super::shapes::{Attention, Experts, FeedForward, Model};
use super::tensor_class::TensorClass;

/// Experts that a rank holds some part of, and how many tokens each gets.
struct Routing {
    /// Experts of the rank that at least one token picked.
    busy: f64,
    /// Tokens of each of them.
    tokens: f64,
}

impl Routing {
    /// Tokens of a rank's experts, in blocks of one expert each if `block` is not zero: a block is computed whole.
    fn new(experts: &Experts, split: &Split, tokens: f64, block: f64) -> Self {
        let held = experts.count as f64 / split.ep as f64;
        let busy = held * experts.touched(tokens);
        let mut picked = tokens * experts.active as f64;
        if block > 0.0 {
            let blocks = (picked / block).ceil() + experts.count as f64 - 1.0;
            picked = blocks.min(picked) * block;
        }
        Self { busy, tokens: if busy > 0.0 { picked / split.ep as f64 / busy } else { 0.0 } }
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
    let is_prompt = step.past == 0.0;
    Builder { model, precision, split, step, share: 1.0 / split.pp as f64, expert_block: 0.0, is_prompt }
        .all(efficiency.norm_passes)
}

/// [`operations`] as a recipe does them: prompts, or pieces of them if `is_prompt`, in blocks of experts, their norms
/// shared out over ranks.
pub(super) fn operations_of(
    model: &Model,
    precision: &TensorPrecision,
    split: &Split,
    step: TokenStep,
    recipe: &ServingRecipe,
    is_prompt: bool,
) -> Vec<LayerOperation> {
    let expert_block = if is_prompt { recipe.expert_block } else { 0.0 };
    let ranks = if is_prompt && recipe.norms_shared { split.tp as f64 } else { 1.0 };
    let list = Builder { model, precision, split, step, share: 1.0 / split.pp as f64, expert_block, is_prompt };
    list.all(recipe.norm_passes / ranks)
}

struct Builder<'a> {
    model: &'a Model,
    precision: &'a TensorPrecision,
    split: &'a Split,
    step: TokenStep,
    /// The part of the layers that the stage has.
    share: f64,
    /// Tokens of a block of one expert; zero where there are no blocks.
    expert_block: f64,
    /// Whether it reads a prompt, or a piece of one.
    is_prompt: bool,
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
            scores: if self.is_prompt { local * heads * tokens * seen / cp } else { 0.0 },
        }
    }

    /// Width of the layer's feed-forward shard on a rank: of the dense block, or of what a token passes of experts.
    fn layer_shard(&self) -> f64 {
        match &self.model.experts {
            Some(experts) if self.model.dense_layers() == 0 => self.passed_shard(experts),
            _ => self.model.feed_forward.width as f64 / self.split.tp as f64,
        }
    }

    /// Columns of experts that a token passes on an average rank, whole experts or parts of all.
    fn passed_shard(&self, experts: &Experts) -> f64 {
        (experts.active * experts.block.width) as f64 / self.split.stage() as f64
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
        let routing = Routing::new(experts, self.split, self.step.sequences * self.step.tokens, self.expert_block);
        let passed = self.passed_shard(experts);
        let columns = experts.block.inputs() as f64 * shard;
        for (name, k, n) in [("experts_in", width, columns), ("experts_out", shard, width)] {
            let one = self.matmul(name, TensorClass::Experts, layers, routing.tokens, k, n, passed);
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
            scores: 0.0,
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
            scores: 0.0,
        }
    }
}
