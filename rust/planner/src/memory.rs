//! Bytes on the device, in the categories of the runtime's out-of-memory table.

use serde::Serialize;

use super::constants::Constants;
use super::dtype::TensorPrecision;
use super::hardware::{Chip, Rank};
use super::roofline::Split;
use super::shapes::{Attention, Model};
use super::tensor_class::TensorClass;
use trn3_system::{Error, Result};

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Weights.
    Tensors,
    /// Keys and values.
    KvCache,
    /// Gradients, of training.
    Gradients,
    /// Moments and masters of the optimizer, of training.
    Optimizer,
    /// Activations kept for the backward pass, of training.
    Activations,
    /// Tables that programs carry.
    Constants,
    /// Instructions and microcode.
    Code,
    /// Scratch memory, in pages.
    Scratchpad,
    /// DMA descriptors.
    DmaRings,
    /// Buffers of collectives.
    Collectives,
    /// Buffers of the profiler.
    Profile,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 11] = [
        Self::Tensors,
        Self::KvCache,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::Constants,
        Self::Code,
        Self::Scratchpad,
        Self::DmaRings,
        Self::Collectives,
        Self::Profile,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tensors => "tensors (weights)",
            Self::KvCache => "kv cache",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer states",
            Self::Activations => "activations",
            Self::Constants => "constants",
            Self::Code => "code and microcode",
            Self::Scratchpad => "scratchpad",
            Self::DmaRings => "dma rings",
            Self::Collectives => "collectives buffers",
            Self::Profile => "profile buffers",
        }
    }
}

/// Bytes of one rank by category.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint([f64; Category::ALL.len()]);

impl Footprint {
    /// Nothing yet.
    pub fn empty() -> Self {
        Self([0.0; Category::ALL.len()])
    }

    /// Adds bytes to a category.
    pub fn add(&mut self, category: Category, bytes: f64) {
        self.0[category as usize] += bytes;
    }

    /// Bytes of a category.
    pub fn of(&self, category: Category) -> f64 {
        self.0[category as usize]
    }

    /// All bytes.
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// What a replica keeps in memory at its fullest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Sequences of the replica.
    pub sequences: f64,
    /// Tokens of each whose keys and values are kept.
    pub context: f64,
    /// Tokens of a prompt that are read at once.
    pub prompt: f64,
    /// Whether the profiler runs.
    pub profiling: bool,
}

/// Bytes of weights on one rank of the fullest stage.
///
/// Heads of keys and values, of which there are fewer than ranks, are repeated; so are latent projections, routers and
/// norms. With a pipeline, the first stage has the table of tokens and the last one the projection to the vocabulary;
/// the larger one counts.
pub fn weight_bytes(model: &Model, precision: &TensorPrecision, split: &Split) -> f64 {
    let parameters = model.parameters();
    let (tp, stages) = (split.tp as f64, split.pp as f64);
    let bytes = |class: TensorClass| parameters.of(class) as f64 * precision.of(class).bytes();
    let (embedding, unembedding) = (bytes(TensorClass::Embedding) / tp, bytes(TensorClass::Unembedding) / tp);
    let ends = match (split.pp, model.tied) {
        (1, _) => embedding + unembedding,
        // The last stage needs the shared table as well.
        (_, true) => embedding,
        _ => embedding.max(unembedding),
    };
    let attention =
        attention_elements(model, split.tp) * model.layers as f64 * precision.of(TensorClass::Attention).bytes();
    let layers = attention
        + (bytes(TensorClass::Dense) + bytes(TensorClass::SharedExperts)) / tp
        + bytes(TensorClass::Experts) / split.stage() as f64
        + bytes(TensorClass::Router)
        + bytes(TensorClass::Norms);
    layers / stages + ends
}

/// Weights of one layer's attention on one rank.
fn attention_elements(model: &Model, tp: u64) -> f64 {
    let (width, attention) = (model.width as f64, &model.attention);
    let of_rank = attention.heads_of_rank(tp) as f64;
    match model.attention {
        Attention::Grouped { head_width, bias, output_bias, .. } => {
            let head = head_width as f64;
            let queries = of_rank * head;
            let keys = 2.0 * attention.kv_heads_of_rank(tp) as f64 * head;
            let biases = if bias { queries + keys } else { 0.0 } + if output_bias { width } else { 0.0 };
            width * (2.0 * queries + keys) + biases
        }
        Attention::Latent { query_rank, kv_rank, nope, rope, value, .. } => {
            let heads = of_rank;
            let queries = heads * (nope + rope) as f64;
            let up = query_rank.map_or(width * queries, |rank| rank as f64 * (width + queries));
            let kv_rank = kv_rank as f64;
            up + width * (kv_rank + rope as f64)
                + kv_rank * heads * (nope + value) as f64
                + heads * value as f64 * width
        }
    }
}

/// Bytes of keys and values that one rank keeps for one sequence of this length that it serves.
pub fn kv_bytes_per_sequence(model: &Model, precision: &TensorPrecision, split: &Split, context: f64) -> f64 {
    let share = model.attention.kv_heads_of_rank(split.tp) as f64 / model.attention.kv_heads() as f64;
    model.kv_bytes(context, precision.kv) * share / (split.cp * split.pp) as f64
}

/// What serving takes on one rank.
pub fn footprint(
    model: &Model,
    precision: &TensorPrecision,
    split: &Split,
    chip: &Chip,
    rank: &Rank,
    load: &Load,
    constants: &Constants,
) -> Footprint {
    let mut footprint = Footprint::empty();
    footprint.add(Category::Tensors, weight_bytes(model, precision, split));
    let sequences = (load.sequences / split.dp as f64).ceil();
    footprint.add(Category::KvCache, sequences * kv_bytes_per_sequence(model, precision, split, load.context));
    footprint.add(Category::Constants, rotary_table(model, load.context));
    let rows = load.prompt.min(constants.prefill_chunk).max(sequences) / split.cp as f64;
    let scratch = rows * scratch_per_token(model, split) * precision.activations.bytes();
    footprint.add(Category::Scratchpad, (scratch / constants.scratch_page).ceil() * constants.scratch_page);
    add_runtime(&mut footprint, chip, rank, split.ranks() > 1, load.profiling, constants);
    footprint
}

/// Adds what the runtime takes on every rank: code, descriptors, buffers.
pub fn add_runtime(
    footprint: &mut Footprint,
    chip: &Chip,
    rank: &Rank,
    communicates: bool,
    profiling: bool,
    constants: &Constants,
) {
    footprint.add(Category::Code, constants.code + constants.microcode * f64::from(rank.lnc));
    if !chip.descriptors_in_hardware {
        footprint.add(Category::DmaRings, constants.dma_rings);
    }
    if communicates {
        footprint.add(Category::Collectives, constants.collectives_buffer);
    }
    if profiling {
        footprint.add(Category::Profile, constants.profile_buffer);
    }
}

/// Sines and cosines of every position, in FP32.
fn rotary_table(model: &Model, context: f64) -> f64 {
    let width = match model.attention {
        Attention::Grouped { head_width, .. } => head_width,
        Attention::Latent { rope, .. } => rope,
    };
    2.0 * context * width as f64 / 2.0 * 4.0
}

/// Elements that a token has in scratch memory at a time: residual and normed input, the widest pair of products.
fn scratch_per_token(model: &Model, split: &Split) -> f64 {
    let width = model.width as f64;
    let tp = split.tp as f64;
    let dense = if model.dense_layers() > 0 { 2.0 * model.feed_forward.width as f64 / tp } else { 0.0 };
    let experts = model.experts.as_ref().map_or(0.0, |experts| {
        let routed = experts.active as f64 / split.ep as f64;
        routed * (width + 2.0 * experts.block.width as f64 / split.expert_tp() as f64)
    });
    let attention = (2 * model.attention.heads_of_rank(split.tp) + model.attention.kv_heads_of_rank(split.tp)) as f64
        * match model.attention {
            Attention::Grouped { head_width, .. } => head_width as f64,
            Attention::Latent { nope, rope, .. } => (nope + rope) as f64,
        };
    2.0 * width + dense.max(experts).max(attention)
}

/// One line of a memory table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What for.
    pub category: &'static str,
    /// Bytes on one logical core.
    pub per_rank: f64,
    /// Bytes on one bank: of every logical core that shares it.
    pub per_bank: f64,
    /// Bytes of a whole replica.
    pub per_replica: f64,
}

/// Memory by category against what a bank has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryTable {
    /// Categories that are not empty.
    pub rows: Vec<Row>,
    /// Logical cores that share a bank.
    pub ranks_per_bank: u32,
    /// Bytes of one bank.
    pub bank: f64,
    /// Bytes used of it.
    pub used: f64,
    /// Whether that is no more than there is.
    pub fits: bool,
}

impl MemoryTable {
    /// The table of ranks that are all alike.
    pub fn new(footprint: &Footprint, chip: &Chip, rank: &Rank, ranks: u64) -> Self {
        let sharing = (chip.cores_per_bank / rank.lnc).max(1);
        let rows = Category::ALL.into_iter().filter(|&category| footprint.of(category) > 0.0).map(|category| {
            let bytes = footprint.of(category);
            Row {
                category: category.name(),
                per_rank: bytes,
                per_bank: bytes * f64::from(sharing),
                per_replica: bytes * ranks as f64,
            }
        });
        // A logical core of several banks has them all.
        let bank = chip.hbm_bytes * f64::from(chip.cores_per_bank.max(rank.lnc)) / f64::from(chip.cores);
        let used = footprint.total() * f64::from(sharing);
        Self { rows: rows.collect(), ranks_per_bank: sharing, bank, used, fits: used <= bank }
    }

    /// The table as text, in GiB.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;

        const GIB: f64 = (1_u64 << 30) as f64;
        let mut text = format!("{:<22}{:>16}{:>12}\n", "GiB", "a logical core", "a bank");
        for row in &self.rows {
            let _ = writeln!(text, "{:<22}{:>16.3}{:>12.3}", row.category, row.per_rank / GIB, row.per_bank / GIB);
        }
        let _ = writeln!(text, "{:<22}{:>28.3}", "total", self.used / GIB);
        let _ = write!(text, "{:<22}{:>28.3}", "available", self.bank / GIB);
        text
    }

    /// The refusal of a plan that does not fit: why, the table, and what would.
    pub fn refusal(&self, what: &str, advice: &str) -> Error {
        const GIB: f64 = (1_u64 << 30) as f64;
        Error::Memory(format!(
            "{what} does not fit: {:.1} GiB on a bank of {:.1} GiB{}; {advice}\n{}",
            self.used / GIB,
            self.bank / GIB,
            if self.ranks_per_bank > 1 {
                format!(", which {} logical cores share", self.ranks_per_bank)
            } else {
                String::new()
            },
            self.to_text()
        ))
    }

    /// [`MemoryTable::refusal`] where it does not fit.
    ///
    /// # Errors
    /// [`Error::Memory`] then.
    pub fn check(&self, what: &str, advice: impl FnOnce() -> String) -> Result<()> {
        if self.fits { Ok(()) } else { Err(self.refusal(what, &advice())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::named;
    use crate::{Architecture, BUILT_IN_MODELS, DataType, built_in_model};

    #[test]
    fn test_one_rank_holds_every_weight() {
        for (name, _) in BUILT_IN_MODELS.iter() {
            let Architecture::Transformer(model) = named(name).expect(name) else { continue };
            let precision = TensorPrecision::named(DataType::MxFp4, model.experts.is_some());
            let (rank, whole) = (weight_bytes(&model, &precision, &Split::WHOLE), model.weight_bytes(&precision));
            assert!((rank / whole - 1.0).abs() < 1e-5, "{name}: {rank} against {whole}");
        }
    }

    #[test]
    fn test_ranks_together_hold_at_least_every_weight() {
        for name in ["llama-3.3-70b", "gpt-oss-120b", "deepseek-v3", "qwen3-235b-a22b"] {
            let model = built_in_model(name).expect(name);
            let precision = TensorPrecision::uniform(DataType::Bf16);
            let mut last = f64::INFINITY;
            for tp in [1, 2, 4, 8, 16, 32] {
                let split = Split { tp, ep: if model.experts.is_some() { tp } else { 1 }, ..Split::WHOLE };
                let one = weight_bytes(&model, &precision, &split);
                assert!(one < last && one * tp as f64 >= model.weight_bytes(&precision) * (1.0 - 1e-5), "{name} {tp}");
                last = one;
            }
        }
    }

    #[test]
    fn test_keys_are_repeated_where_heads_are_fewer_than_ranks() {
        let (model, precision) =
            (built_in_model("llama-3.3-70b").expect("there"), TensorPrecision::uniform(DataType::Bf16));
        let kept = |tp, cp| kv_bytes_per_sequence(&model, &precision, &Split { tp, cp, ..Split::WHOLE }, 1000.0);
        assert_eq!(kept(8, 1), kept(1, 1) / 8.0);
        assert_eq!(kept(64, 1), kept(8, 1));
        assert_eq!(kept(64, 4), kept(8, 1) / 4.0);
        // A latent vector is needed whole by every rank.
        let latent = built_in_model("deepseek-v3").expect("there");
        let kept = |tp| kv_bytes_per_sequence(&latent, &precision, &Split { tp, ..Split::WHOLE }, 1000.0);
        assert_eq!(kept(1), 1000.0 * 61.0 * 576.0 * 2.0);
        assert_eq!(kept(16), kept(1));
    }
}
