//! One forward pass of a network, operator by operator: shapes, weights, arithmetic, traffic.

use crate::dtype::TensorPrecision;
use crate::roofline::{Kind, LayerOperation};
use crate::tensor_class::TensorClass;

/// Operators of a pass that belong together: an encoder, a denoising step, one generated token.
#[derive(Clone, Debug)]
pub struct Forward<'a> {
    /// What it is a pass of.
    pub name: &'static str,
    /// What it yields: `tokens`, `images`, ...
    pub unit: &'static str,
    /// How many of them.
    pub yields: f64,
    /// Its operators.
    pub operations: Vec<LayerOperation>,
    /// Weights by the operators that hold them; what another pass or operator holds is not in it.
    pub weights: f64,
    precision: &'a TensorPrecision,
}

/// Attention of one operator: heads, and who sees what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub count: f64,
    pub width: f64,
    pub kv_count: f64,
}

impl Heads {
    /// As many heads of keys as of queries.
    pub(super) fn plain(count: f64, width: f64) -> Self {
        Self { count, width, kv_count: count }
    }
}

impl<'a> Forward<'a> {
    pub(crate) fn new(name: &'static str, unit: &'static str, yields: f64, precision: &'a TensorPrecision) -> Self {
        Self { name, unit, yields, operations: Vec::new(), weights: 0.0, precision }
    }

    fn push(&mut self, name: &'static str, kind: Kind, count: f64, [m, k, n]: [f64; 3]) -> &mut LayerOperation {
        self.operations.push(LayerOperation {
            name,
            kind,
            class: TensorClass::Dense,
            count,
            groups: 1.0,
            m,
            k,
            n,
            dtype: self.precision.activations,
            flops: 0.0,
            weight_bytes: 0.0,
            kv_bytes: 0.0,
            activation_bytes: 0.0,
            shard: f64::INFINITY,
            scores: 0.0,
        });
        self.operations.last_mut().expect("just pushed")
    }

    /// Products with weights that this operator holds.
    pub(super) fn linear(&mut self, name: &'static str, count: f64, [m, k, n]: [f64; 3], bias: bool) {
        self.weights += count * (k * n + if bias { n } else { 0.0 });
        self.product(name, count, [m, k, n]);
    }

    /// Products with weights that another operator holds.
    pub(super) fn product(&mut self, name: &'static str, count: f64, [m, k, n]: [f64; 3]) {
        let (stored, active) = (self.precision.of(TensorClass::Dense), self.precision.activations.bytes());
        let one = self.push(name, Kind::Matmul, count, [m, k, n]);
        one.dtype = stored.multiplied();
        one.flops = 2.0 * m * k * n;
        one.weight_bytes = k * n * stored.bytes();
        one.activation_bytes = m * (k + n) * active;
    }

    /// Products with the experts that `rows` tokens pick, `active` of `experts` each: `[width, columns]` matrices.
    pub(super) fn experts(
        &mut self,
        name: &'static str,
        count: f64,
        [rows, k, n]: [f64; 3],
        [active, experts]: [f64; 2],
    ) {
        self.weights += count * experts * k * n;
        let (stored, bytes) = (self.precision.of(TensorClass::Experts), self.precision.activations.bytes());
        let busy = experts * -f64::exp_m1(rows * f64::ln_1p(-active / experts));
        let one = self.push(name, Kind::GroupedMatmul, count, [rows * active / busy, k, n]);
        one.groups = busy;
        one.dtype = stored.multiplied();
        one.flops = 2.0 * rows * active * k * n;
        one.weight_bytes = busy * k * n * stored.bytes();
        one.activation_bytes = rows * active * (k + n) * bytes;
    }

    /// A convolution over `positions` outputs, with `area` weights for each pair of channels of a group.
    pub(super) fn convolution(
        &mut self,
        name: &'static str,
        count: f64,
        positions: f64,
        [inputs, outputs, area, groups]: [f64; 4],
    ) {
        let weights = inputs / groups * outputs * area;
        self.weights += count * (weights + outputs);
        let (stored, active) = (self.precision.of(TensorClass::Dense), self.precision.activations.bytes());
        let one = self.push(name, Kind::Convolution, count, [positions, inputs / groups * area, outputs]);
        one.dtype = stored.multiplied();
        one.flops = 2.0 * positions * weights;
        one.weight_bytes = weights * stored.bytes();
        one.activation_bytes = positions * (inputs + outputs) * active;
    }

    /// Reads `rows` rows of a table of `entries`, which it holds.
    pub(super) fn table(&mut self, name: &'static str, entries: f64, width: f64, rows: f64) {
        self.weights += entries * width;
        let active = self.precision.activations.bytes();
        self.push(name, Kind::Gather, 1.0, [rows, 1.0, width]).activation_bytes = 2.0 * rows * width * active;
    }

    /// Norms of `rows` rows with `weights` for each element of the width; residuals are among their passes.
    pub(super) fn norm(&mut self, name: &'static str, count: f64, rows: f64, width: f64, weights: f64) {
        self.weights += count * weights * width;
        let active = self.precision.activations.bytes();
        // A residual and a norm read two activations and write one.
        self.push(name, Kind::Norm, count, [rows, 1.0, width]).activation_bytes = 3.0 * rows * width * active;
    }

    /// Scores and weighted values of `rows` queries, which see `seen` keys each, of `sequences` caches of `kept` keys.
    pub(super) fn attention(
        &mut self,
        name: &'static str,
        count: f64,
        heads: Heads,
        rows: f64,
        [seen, kept, sequences]: [f64; 3],
    ) {
        let (kv, active) = (self.precision.kv, self.precision.activations.bytes());
        let one = self.push(name, Kind::Attention, count, [rows / sequences, heads.width, seen]);
        one.groups = sequences * heads.count;
        one.dtype = kv;
        one.flops = 4.0 * rows * seen * heads.count * heads.width;
        one.kv_bytes = 2.0 * sequences * kept * heads.kv_count * heads.width * kv.bytes();
        one.activation_bytes = 2.0 * rows * heads.count * heads.width * active;
    }

    /// A recurrence over `rows` tokens with `states` elements of state for each of `channels`, kept for each sequence.
    ///
    /// An element of state is decayed, added to and read: three multiplications and two additions, and the exponential
    /// of the decay.
    pub(super) fn scan(&mut self, name: &'static str, count: f64, rows: f64, [channels, states]: [f64; 2], kept: f64) {
        let active = self.precision.activations.bytes();
        let state = crate::dtype::DataType::Fp32.bytes();
        let one = self.push(name, Kind::Scan, count, [rows, states, channels]);
        one.flops = 6.0 * rows * channels * states;
        one.kv_bytes = 2.0 * kept * channels * states * state;
        one.activation_bytes = rows * (3.0 * channels + 2.0 * states) * active;
    }

    /// Weights that an operator has beside its matrices: biases, scales, learned vectors.
    pub(super) fn hold(&mut self, weights: f64) {
        self.weights += weights;
    }
}
