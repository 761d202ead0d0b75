//! Products of operands that are pruned, turned and quantised as a recipe says.

use std::borrow::Cow;

use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_numerics::{
    ArrayMut, BLOCK, Draws, Format, MxOptions, Rounding, ScaleRule, SparsityPattern, Xorwow, dequantize_mx, matmul_mx,
    prune,
};

use crate::error::Result;
use crate::options::MatmulPath;
use crate::product::{Matrices, Quantized, product, product_shape, settle};
use crate::row::text;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Lanes of the generator: one a partition.
pub(crate) const LANES: usize = 128;

/// How one side of a product is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MxSide {
    /// Elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    #[serde(deserialize_with = "element_format")]
    pub format: Format,
    /// How scales are chosen.
    #[serde(deserialize_with = "text::parsed")]
    pub scale_rule: ScaleRule,
    /// How elements are rounded.
    #[serde(default)]
    pub rounding: MxRounding,
    /// Along which axis the operand was kept before.
    #[serde(default)]
    pub blocks: MxBlocks,
}

/// How elements are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MxRounding {
    /// To the nearer neighbour.
    #[default]
    Nearest,
    /// With draws of the seed.
    Stochastic,
}

/// Along which axis an operand was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MxBlocks {
    /// It comes whole, and is quantised once.
    #[default]
    Contraction,
    /// It was kept in MX blocks along its free axis, as another product of it had them: rounded to these to nearest first,
    /// then again along the contraction, which the array needs.
    Free,
}

impl MxSide {
    /// Whether it takes draws.
    pub fn is_stochastic(self) -> bool {
        self.rounding == MxRounding::Stochastic
    }

    fn options(self, rounding: MxRounding) -> MxOptions {
        let rounding = if rounding == MxRounding::Nearest { Rounding::Nearest } else { Rounding::Stochastic };
        MxOptions { scale_rule: self.scale_rule, rounding }
    }
}

fn element_format<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Format, D::Error> {
    const ALLOWED: [Format; 3] = [Format::F8E4M3Fn, Format::F8E5M2, Format::F4E2M1Fn];
    let format: Format = text::parsed(deserializer)?;
    if ALLOWED.contains(&format) {
        return Ok(format);
    }
    let names = ALLOWED.map(|format| format.to_string()).join(", ");
    Err(serde::de::Error::custom(format!("format is {format}; allowed: {names}")))
}

/// What is done to both sides of a product.
pub(crate) struct MxProduct {
    pub(crate) sides: [Option<MxSide>; 2],
    pub(crate) hadamard: usize,
    pub(crate) sparsity: Option<SparsityPattern>,
    pub(crate) seed: u64,
    /// Whether to count what is clipped.
    pub(crate) counts: bool,
}

impl MxProduct {
    /// left [batch..., m, k] by right [batch..., k, n] in float32, and the share clipped of each. Where nothing is
    /// quantised, the product is that of `path`.
    ///
    /// # Errors
    /// As [`product`].
    pub(crate) fn product(
        &self,
        path: MatmulPath,
        left: &Matrices<'_>,
        right: &Matrices<'_>,
    ) -> Result<(Vec<f32>, [f32; 2])> {
        let shape = product_shape(left, right);
        let axes = [shape.len() - 1, shape.len() - 2];
        let right = match self.sparsity {
            Some(pattern) => Cow::Owned(pruned(right, axes[1], pattern)?),
            None => Cow::Borrowed(right),
        };
        let [Some(first), Some(second)] = self.sides else { return Ok((product(path, left, &right)?, [0.0; 2])) };
        let mut generator = Xorwow::seed(self.seed, LANES, 1)?;
        let signs = self.signs(&mut generator)?;
        let mut clipped = [0.0; 2];
        let mut made = Vec::with_capacity(2);
        for (place, (side, matrices)) in [(first, left), (second, &*right)].into_iter().enumerate() {
            let axis = axes[place];
            let mut source = Cow::Borrowed(matrices);
            if side.blocks == MxBlocks::Free {
                source = Cow::Owned(kept(&source, axes[1 - place], side)?);
            }
            if self.hadamard > 0 {
                source = Cow::Owned(turned(&source, axis, &signs)?);
            }
            let draws = if side.is_stochastic() { Draws::Xorwow(&mut generator) } else { Draws::None };
            let quantized = source.quantized(axis, side.format, side.options(side.rounding), draws)?;
            if self.counts {
                clipped[place] = share_clipped(&source, axis, &quantized)?;
            }
            made.push(quantized);
        }
        let mut values = vec![0.0f32; shape.iter().product()];
        let out = ArrayMut::new(&mut values, &shape)?;
        matmul_mx(&made[0].view()?, &made[1].view()?, None, out, Rounding::Nearest, Draws::None)?;
        settle(&mut values, left.shape()[axes[0]]);
        Ok((values, clipped))
    }

    /// One for each place of a block; the same for all blocks and both sides, so that one matrix turns them all.
    fn signs(&self, generator: &mut Xorwow) -> Result<Vec<f32>> {
        let mut draws = vec![0u32; if self.hadamard > 0 { LANES } else { 0 }];
        if self.hadamard > 0 {
            generator.uint32(1, &mut draws)?;
        }
        Ok(draws[..self.hadamard].iter().map(|&draw| if draw >> 31 == 0 { 1.0 } else { -1.0 }).collect())
    }
}

/// The largest of each group along an axis, zeros for the others.
fn pruned(matrices: &Matrices<'_>, axis: usize, pattern: SparsityPattern) -> Result<Matrices<'static>> {
    let mut shape = matrices.shape().to_vec();
    let length = shape[axis];
    shape[axis] = length.next_multiple_of(pattern.group());
    let source = matrices.filled(axis, &shape)?;
    let tensor = pruned_tensor(&source.dense()?, pattern, axis)?;
    Ok(Matrices::of(tensor).first(axis, length))
}

/// The largest of each group of a tensor along an axis, zeros for the others.
///
/// # Errors
/// [`crate::GraphError::Numerics`] where the axis is no whole number of groups.
pub(crate) fn pruned_tensor(source: &Tensor, pattern: SparsityPattern, axis: usize) -> Result<Tensor> {
    let matrices = Matrices::of(source.clone());
    let view = matrices.view()?;
    let mut bytes = vec![0u8; source.bytes().len()];
    prune(&view, pattern, axis, ArrayMut::from_codes(view.format(), &mut bytes, source.shape())?)?;
    Tensor::from_bytes(source.kind().clone(), &bytes)
}

/// What MX blocks along `axis` kept of the elements, in float32.
fn kept(matrices: &Matrices<'_>, axis: usize, side: MxSide) -> Result<Matrices<'static>> {
    let quantized = matrices.quantized(axis, side.format, side.options(MxRounding::Nearest), Draws::None)?;
    let view = quantized.view()?;
    let shape = view.elements.shape().to_vec();
    let mut values = vec![0.0f32; view.elements.len()];
    dequantize_mx(&view, ArrayMut::new(&mut values, &shape)?)?;
    let tensor = Tensor::from_floats(TensorType::new(DType::Float32, &shape), values)?;
    Ok(Matrices::of(tensor).first(axis, matrices.shape()[axis]))
}

/// Blocks along `axis`, filled up with zeros, times a Hadamard matrix with signs, divided by the root of its length: in
/// float32 each element by its sign over the root, then sums and differences of neighbours, of pairs, and so on.
fn turned(matrices: &Matrices<'_>, axis: usize, signs: &[f32]) -> Result<Matrices<'static>> {
    let mut shape = matrices.shape().to_vec();
    shape[axis] = shape[axis].next_multiple_of(BLOCK);
    let filled = matrices.filled(axis, &shape)?.dense()?;
    let mut values = filled.floats()?.into_owned();
    let inner: usize = shape[axis + 1..].iter().product();
    let factor = 1.0 / (signs.len() as f32).sqrt();
    let factors: Vec<f32> = signs.iter().map(|sign| sign * factor).collect();
    for block in values.chunks_mut((signs.len() * inner).max(1)) {
        for (row, &factor) in block.chunks_mut(inner).zip(&factors) {
            row.iter_mut().for_each(|value| *value *= factor);
        }
        let mut half = inner;
        while half < block.len() {
            for pair in block.chunks_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high) {
                    (*low, *high) = (*low + *high, *low - *high);
                }
            }
            half *= 2;
        }
    }
    Ok(Matrices::of(Tensor::from_floats(TensorType::new(DType::Float32, &shape), values)?))
}

/// The share of elements that are larger in magnitude than the largest number of their block.
fn share_clipped(source: &Matrices<'_>, axis: usize, quantized: &Quantized) -> Result<f32> {
    let dense = source.dense()?;
    let values = dense.floats()?;
    let view = quantized.view()?;
    let scales = &quantized.scales;
    let largest = view.elements.format().decode_code(view.elements.format().spec().max_code);
    let shape = source.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let (length, blocks) = (shape[axis], view.scales.shape()[axis]);
    let mut count = 0usize;
    for (row, values) in values.chunks(inner.max(1)).enumerate() {
        let block = row / length * blocks + row % length / BLOCK;
        let scales = &scales[block * inner..][..values.len()];
        for (value, &scale) in values.iter().zip(scales) {
            // Byte 255 is NaN: such a block is lost, not clipped.
            let is_number = scale != u8::MAX;
            let limit = f64::from(largest) * f64::exp2(f64::from(scale) - 127.0);
            count += usize::from(is_number && f64::from(value.abs()) > limit);
        }
    }
    Ok(count as f32 / values.len().max(1) as f32)
}
