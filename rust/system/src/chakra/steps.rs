//! A step of a plan as traces: one for each rank of a replica.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::messages::{ChakraAttribute, ChakraMetadata, ChakraNode, ChakraValue};
use super::trace::{ChakraNodeType, ChakraTrace};
use crate::error::{Error, Result};
use crate::replay::JobExchange;

/// The schema version that files of ours name.
pub const VERSION: &str = "0.0.4";

const PICOSECONDS: f64 = 1e12;
const PS_PER_US: f64 = 1e6;

/// Where collectives stand: after the operation of a layer that comes last of these.
const AFTER: [(&str, &[&str]); 10] = [
    ("context all-gather", &["qkv", "kv_up"]),
    ("context all-reduce", &["attention", "window_attention"]),
    ("attention all-reduce", &["attention_out"]),
    ("mlp all-reduce", &["mlp_out"]),
    ("expert dispatch", &["router"]),
    ("expert all-gather", &["router"]),
    ("expert reduce-scatter", &["experts_out"]),
    ("expert combine", &["experts_out"]),
    ("experts all-gather", &["experts_out", "shared_experts_out"]),
    ("experts all-reduce", &["experts_out", "shared_experts_out"]),
];
const FIRST: [&str; 2] = ["embedding", "embedding all-reduce"];
const LAST: [&str; 3] = ["unembedding", "sampling", "sampling all-gather"];

/// An operation of one logical core in one stage, and what one of it takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TracedOperation {
    /// Its name.
    pub name: String,
    /// How often it runs.
    pub count: f64,
    /// Operations.
    pub flops: f64,
    /// Bytes of weights.
    pub weight_bytes: f64,
    /// Bytes of keys and values.
    pub kv_bytes: f64,
    /// Bytes of activations.
    pub activation_bytes: f64,
    /// Its dtype.
    pub dtype: String,
}

/// Ranks that exchange: how many, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TracedGroup {
    /// How many.
    pub ranks: u32,
    /// How far apart.
    pub stride: u32,
}

/// What ranks exchange in one stage: a collective, or the `send` to the next stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TracedExchange {
    /// Its name.
    pub name: String,
    /// `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all` or `send`.
    pub collective: String,
    /// How often.
    pub count: f64,
    /// Bytes of one.
    pub bytes: f64,
    /// Who takes part.
    pub group: TracedGroup,
}

/// One step of a plan, with sums over the layers of one stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PlannedStep {
    /// Name of the model.
    pub model: String,
    /// Name of the system.
    pub system: String,
    /// The layout, in words.
    pub layout: String,
    /// `decode` or `prefill`.
    pub phase: String,
    /// Ranks of a replica.
    pub ranks: u32,
    /// Stages of its pipeline.
    pub stages: u32,
    /// Layers of the model.
    pub layers: u32,
    /// What is computed.
    pub operations: Vec<TracedOperation>,
    /// What is exchanged.
    pub exchanges: Vec<TracedExchange>,
    /// Seconds of a stage by name of an operation; `layer overhead` is spread over the layers.
    pub seconds: BTreeMap<String, f64>,
}

/// An operation or a collective of the whole model: how often, and what one of it is.
struct Piece<'a> {
    name: &'a str,
    total: u32,
    work: Work<'a>,
}

enum Work<'a> {
    Compute { attributes: Vec<ChakraAttribute>, ps: u64 },
    Exchange(&'a TracedExchange),
}

impl Piece<'_> {
    /// Whether a layer has it.
    fn is_in(&self, layer: u32, layers: u32, beside: &[&Self]) -> bool {
        if self.total >= layers {
            return true;
        }
        let begins = |names: &[&str]| names.iter().any(|name| self.name.starts_with(name));
        if self.name == "window_attention" {
            // Layers that look at a window are those that do not look at everything.
            !beside.iter().any(|piece| piece.name == "attention" && piece.is_in(layer, layers, &[]))
        } else if begins(&["mlp"]) {
            layer < self.total
        } else if begins(&["expert", "router", "shared"]) {
            layer >= layers - self.total
        } else {
            let until = |layer: u32| u64::from(layer) * u64::from(self.total) / u64::from(layers);
            until(layer + 1) > until(layer)
        }
    }
}

impl PlannedStep {
    /// The traces, one for each rank; ranks are numbered as on the system, tensor parallelism innermost. All nodes of a
    /// rank follow each other: plans overlap nothing. Where the plan knows only sums over layers, each layer has an equal
    /// part.
    ///
    /// # Errors
    /// [`Error::Value`] if there is no rank, stage or layer, ranks are no multiple of stages, or a collective is none.
    pub fn traces(&self) -> Result<Vec<ChakraTrace>> {
        if self.stages == 0 || self.layers == 0 || self.ranks == 0 || !self.ranks.is_multiple_of(self.stages) {
            let Self { ranks, stages, layers, .. } = self;
            return Err(Error::Value(format!(
                "{ranks} ranks in {stages} stages of {layers} layers; needed: 1 or more in each"
            )));
        }
        let (pieces, transfer) = self.pieces();
        (0..self.ranks).map(|rank| self.trace(rank, &pieces, transfer)).collect()
    }

    /// How often one of a stage is in the whole model, and what of it one then has.
    fn spread(&self, count: f64) -> (u32, f64) {
        let all = count * f64::from(self.stages);
        let total = (all.round_ties_even() as u32).max(1);
        (total, all / f64::from(total))
    }

    fn pieces(&self) -> (Vec<Piece<'_>>, Option<&TracedExchange>) {
        let stages = f64::from(self.stages);
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        let computed = |ops: f64, bytes: f64, seconds: f64| {
            let attributes = vec![
                attribute("is_cpu_op", ChakraValue::Bool(false)),
                attribute("num_ops", ChakraValue::Int64(ops.round_ties_even() as i64)),
                attribute("tensor_size", ChakraValue::Uint64(bytes.round_ties_even() as u64)),
            ];
            (attributes, (seconds * PICOSECONDS).round_ties_even() as u64)
        };
        for one in &self.operations {
            let (total, scale) = self.spread(one.count);
            let moved = one.weight_bytes + one.kv_bytes + one.activation_bytes;
            let seconds = self.seconds.get(&one.name).copied().unwrap_or(0.0) * stages / f64::from(total);
            let (mut attributes, ps) = computed(one.flops * scale, moved * scale, seconds);
            attributes.push(attribute("dtype", ChakraValue::String(one.dtype.clone())));
            pieces.push(Piece { name: &one.name, total, work: Work::Compute { attributes, ps } });
        }
        if let Some(&overhead) = self.seconds.get("layer overhead").filter(|seconds| **seconds != 0.0) {
            let (attributes, ps) = computed(0.0, 0.0, overhead * stages / f64::from(self.layers));
            let work = Work::Compute { attributes, ps };
            pieces.push(Piece { name: "layer overhead", total: self.layers, work });
        }
        let mut transfer = None;
        for one in &self.exchanges {
            if one.collective == "send" {
                transfer = Some(one);
                continue;
            }
            let piece = Piece { name: &one.name, total: self.spread(one.count).0, work: Work::Exchange(one) };
            pieces.insert(place(&pieces, &one.name), piece);
        }
        (pieces, transfer)
    }

    fn trace(&self, rank: u32, pieces: &[Piece<'_>], transfer: Option<&TracedExchange>) -> Result<ChakraTrace> {
        let size = self.ranks / self.stages;
        let stage = rank / size;
        let mut made = Maker { rank, nodes: Vec::new(), clock: 0 };
        match transfer {
            _ if stage == 0 => {
                for piece in pieces.iter().filter(|piece| FIRST.contains(&piece.name)) {
                    made.add(piece)?;
                }
            }
            Some(transfer) => made.message(transfer, rank - size, false),
            None => {}
        }
        let within: Vec<&Piece<'_>> =
            pieces.iter().filter(|piece| !FIRST.contains(&piece.name) && !LAST.contains(&piece.name)).collect();
        let begin = |stage: u32| (u64::from(stage) * u64::from(self.layers) / u64::from(self.stages)) as u32;
        for layer in begin(stage)..begin(stage + 1) {
            for piece in within.iter().filter(|piece| piece.is_in(layer, self.layers, &within)) {
                made.add(piece)?;
            }
        }
        match transfer {
            _ if stage + 1 == self.stages => {
                for piece in pieces.iter().filter(|piece| LAST.contains(&piece.name)) {
                    made.add(piece)?;
                }
            }
            Some(transfer) => made.message(transfer, rank + size, true),
            None => {}
        }
        let text = |name: &str, text: &str| attribute(name, ChakraValue::String(text.to_owned()));
        let attributes = vec![
            text("model", &self.model),
            text("system", &self.system),
            text("layout", &self.layout),
            text("phase", &self.phase),
            attribute("rank", ChakraValue::Int64(rank.into())),
        ];
        Ok(ChakraTrace { metadata: ChakraMetadata { version: VERSION.to_owned(), attributes }, nodes: made.nodes })
    }
}

/// Where a collective stands among the pieces.
fn place(pieces: &[Piece<'_>], name: &str) -> usize {
    if FIRST.contains(&name) {
        return pieces.iter().position(|piece| piece.name == "embedding").map_or(0, |at| at + 1);
    }
    let anchors = AFTER.iter().find(|(collective, _)| *collective == name).map_or(&[][..], |(_, after)| *after);
    let Some(last) = pieces.iter().rposition(|piece| anchors.contains(&piece.name)) else { return pieces.len() };
    // Behind collectives that stand at the same operation.
    let behind = pieces[last + 1..].iter().take_while(|piece| matches!(piece.work, Work::Exchange(_)));
    last + 1 + behind.count()
}

/// Nodes of a rank, each after the one before.
struct Maker {
    rank: u32,
    nodes: Vec<ChakraNode>,
    /// Picoseconds.
    clock: u64,
}

impl Maker {
    fn add(&mut self, piece: &Piece<'_>) -> Result<()> {
        match &piece.work {
            Work::Compute { attributes, ps } => {
                let exact = attribute("duration_ps", ChakraValue::Uint64(*ps));
                let attributes = attributes.iter().cloned().chain([exact]).collect();
                self.append(piece.name, ChakraNodeType::Compute, attributes, *ps);
                Ok(())
            }
            Work::Exchange(one) => self.collective(one),
        }
    }

    fn append(&mut self, name: &str, kind: ChakraNodeType, attributes: Vec<ChakraAttribute>, ps: u64) {
        // Start and end are rounded each, so that the sum of whole microseconds stays right.
        let microseconds = |ps: u64| (ps as f64 / PS_PER_US).round_ties_even() as u64;
        let (first, last) = (microseconds(self.clock), microseconds(self.clock + ps));
        self.clock += ps;
        let id = self.nodes.len() as u64;
        self.nodes.push(ChakraNode {
            id,
            name: name.to_owned(),
            kind: kind as i32,
            ctrl_deps: id.checked_sub(1).into_iter().collect(),
            start_time_micros: first,
            duration_micros: last - first,
            attributes,
            ..ChakraNode::default()
        });
    }

    fn collective(&mut self, one: &TracedExchange) -> Result<()> {
        let number = JobExchange::ALL.iter().position(|exchange| exchange.name() == one.collective);
        let number = number.ok_or_else(|| Error::Value(format!("{:?} is no collective of a step", one.collective)))?;
        let TracedGroup { ranks, stride } = one.group;
        let block = self.rank / (ranks * stride) * ranks * stride + self.rank % stride;
        // Plans give the gathered buffer, traces a rank's input.
        let bytes = if one.collective == "all_gather" { one.bytes / f64::from(ranks) } else { one.bytes };
        let attributes = vec![
            attribute("is_cpu_op", ChakraValue::Bool(false)),
            attribute("comm_type", ChakraValue::Int64(number as i64)),
            attribute("comm_size", ChakraValue::Int64(bytes.round_ties_even() as i64)),
            attribute("pg_name", ChakraValue::String(format!("{ranks} ranks {stride} apart from {block}"))),
        ];
        self.append(&one.name, ChakraNodeType::Collective, attributes, 0);
        Ok(())
    }

    fn message(&mut self, one: &TracedExchange, other: u32, is_send: bool) {
        let (source, target) = if is_send { (self.rank, other) } else { (other, self.rank) };
        let whole = |name: &str, number: i64| attribute(name, ChakraValue::Int64(number));
        let attributes = vec![
            attribute("is_cpu_op", ChakraValue::Bool(false)),
            whole("comm_src", source.into()),
            whole("comm_dst", target.into()),
            whole("comm_size", one.bytes.round_ties_even() as i64),
            whole("comm_tag", 0),
        ];
        let kind = if is_send { ChakraNodeType::Send } else { ChakraNodeType::Receive };
        self.append(&one.name, kind, attributes, 0);
    }
}

fn attribute(name: &str, value: ChakraValue) -> ChakraAttribute {
    ChakraAttribute { name: name.to_owned(), doc: String::new(), value: Some(value) }
}
