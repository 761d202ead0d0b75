//! Elements in order.

use serde::Deserialize;
use trn3_machine::dtype::DType;

use crate::error::{GraphError, Reason, Result};
use crate::fits::{check_count, check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::tensor::{Tensor, on_words};
use crate::tensor_type::TensorType;

/// What a zero's sign and a NaN's bits count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Equals {
    /// Nothing: zeros are equal, and NaN are equal and behind all others.
    Numbers,
    /// As IEEE 754's total order has it: -NaN, -inf ... -0, 0 ... inf, NaN.
    Bits,
}

/// Numbers without sign that ascend as the elements do.
fn ranks(tensor: &Tensor, equals: Equals) -> Result<Vec<u32>> {
    const SIGN: u32 = 1 << 31;
    let kind = tensor.kind();
    if kind.is_float() {
        let rank = |value: &f32| {
            let bits = match equals {
                Equals::Numbers if *value == 0.0 => 0,
                Equals::Numbers if value.is_nan() => f32::NAN.to_bits(),
                _ => value.to_bits(),
            };
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        };
        // Reading makes no NaN's sign another one: every format widens by its bits.
        return Ok(tensor.floats()?.iter().map(rank).collect());
    }
    let bias = if kind.dtype.is_signed_integer() { SIGN } else { 0 };
    Ok(tensor.integers()?.into_iter().map(|value| value as u32 ^ bias).collect())
}

/// A rank and a place in one number: those of equal rank keep their order.
fn placed(rank: u32, place: usize) -> u64 {
    u64::from(rank) << 32 | place as u64
}

/// Refuses an axis of more elements than places in one number.
fn check_length(length: usize) -> Reason {
    if u32::try_from(length).is_ok() {
        Ok(())
    } else {
        Err(format!("{length} elements came to sort; allowed: up to 2^32 - 1"))
    }
}

/// Operands in the order of the first ones along an axis: `sort(x...)`. All move along; equal ones keep their order.
///
/// Floats ascend with NaN behind all others, zeros of either sign and all NaN being equal, as `jax.lax.sort` has it;
/// descending is the other way round: NaN first **(choice)**.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// The axis.
    pub dimension: usize,
    /// Whether equal ones have to keep their order; they do anyway.
    #[serde(default)]
    pub stable: bool,
    /// Whether the largest comes first.
    #[serde(default)]
    pub descending: bool,
    /// How many operands say the order: by the first one, then where it is equal by the next.
    #[serde(default = "one")]
    pub keys: usize,
}

const fn one() -> usize {
    1
}

impl Sort {
    /// For every element of the results, the operands' element that goes there.
    fn order(&self, keys: &[&Tensor]) -> Result<Vec<u32>> {
        let shape = keys[0].shape();
        let length = shape[self.dimension];
        let inner: usize = shape[self.dimension + 1..].iter().product();
        let mut ranked = Vec::with_capacity(keys.len());
        for key in keys {
            let mut ranks = ranks(key, Equals::Numbers)?;
            if self.descending {
                ranks.iter_mut().for_each(|rank| *rank = !*rank);
            }
            ranked.push(ranks);
        }
        let mut order = vec![0u32; keys[0].kind().elements()];
        let mut line: Vec<u64> = Vec::with_capacity(length);
        for column in 0..order.len().checked_div(length).unwrap_or(0) {
            let first = column / inner * inner * length + column % inner;
            line.clear();
            line.extend((0..length).map(|place| placed(ranked[0][first + place * inner], place)));
            let at = |entry: u64| first + (entry as u32) as usize * inner;
            if ranked.len() == 1 {
                line.sort_unstable();
            } else {
                let others = &ranked[1..];
                line.sort_unstable_by(|&x, &y| {
                    let next =
                        || others.iter().map(|ranks| ranks[at(x)].cmp(&ranks[at(y)])).find(|order| order.is_ne());
                    (x >> 32).cmp(&(y >> 32)).then_with(|| next().unwrap_or_else(|| x.cmp(&y)))
                });
            }
            for (place, &entry) in line.iter().enumerate() {
                order[first + place * inner] = at(entry) as u32;
            }
        }
        Ok(order)
    }
}

impl TensorOperation for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        check_count("results", results.len(), operands.len())?;
        if self.keys == 0 || self.keys > operands.len() {
            return Err(format!("keys is {} of {} operands; allowed: 1 up to all", self.keys, operands.len()));
        }
        let first = operands[0];
        if self.dimension >= first.rank() {
            return Err(format!("dimension is {} of {first}; allowed: its axes", self.dimension));
        }
        check_length(first.elements())?;
        for (operand, result) in operands.iter().zip(results) {
            if operand.shape != first.shape {
                return Err(format!("{operand} came with {first}; operands have one shape"));
            }
            check_same("a result", result, "its operand", operand)?;
        }
        match operands[..self.keys].iter().find(|key| !(key.is_float() || key.is_integer() || key.is_bool())) {
            Some(key) => Err(format!("a key is {key}; allowed: floats, integers, bool")),
            None => Ok(()),
        }
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let order = self.order(&operands[..self.keys])?;
        let moved = |tensor: &&Tensor| {
            let words = on_words!(tensor.words(), words => order.iter().map(|&place| words[place as usize]).collect());
            Tensor::new(tensor.kind().clone(), words)
        };
        operands.iter().map(moved).collect()
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        let axes = (0..results[0].rank()).filter(|&axis| axis != self.dimension);
        axes.map(|axis| OperationCut::same(axis, operands.len(), results.len())).collect()
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        let length = operands[0].shape[self.dimension].max(1) as u64;
        operands[0].elements() as u64 * u64::from(length.ilog2() + 1)
    }
}

/// The `k` largest elements along the last axis, the largest first, and their places: `top_k(x)` makes values and int32
/// indices. Of equal ones the first counts as larger; NaN is the largest and 0 larger than -0, as XLA has it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopKOperation {
    /// How many.
    pub k: usize,
}

impl TensorOperation for TopKOperation {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [values, indices] = exactly("results", results)?;
        let Some((&length, outer)) = x.shape.split_last() else {
            return Err(format!("the operand is {x}; allowed: one axis or more"));
        };
        if !(x.is_float() || x.is_integer() || x.is_bool()) {
            return Err(format!("the operand is {x}; allowed: floats, integers, bool"));
        }
        if self.k > length {
            return Err(format!("k is {} of {x}; allowed: up to {length}", self.k));
        }
        if i32::try_from(length).is_err() {
            return Err(format!("the last axis of {x} is longer than int32 indices reach"));
        }
        let made = x.with_shape(&[outer, &[self.k]].concat());
        check_same("the values", values, "the largest elements", &made)?;
        check_same("the indices", indices, "their places", &made.with_dtype(DType::Int32))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let x = operands[0];
        let Some(&length) = x.shape().last() else {
            return Err(GraphError::Argument(format!("the operand is {}; allowed: one axis or more", x.kind())));
        };
        let ranks = ranks(x, Equals::Bits)?;
        let mut order: Vec<usize> = Vec::with_capacity(results[0].elements());
        let mut row: Vec<u64> = Vec::with_capacity(length);
        for (number, ranks) in ranks.chunks(length.max(1)).enumerate().filter(|_| self.k > 0) {
            row.clear();
            row.extend(ranks.iter().enumerate().map(|(place, &rank)| placed(!rank, place)));
            if self.k < length {
                row.select_nth_unstable(self.k);
            }
            let largest = &mut row[..self.k];
            largest.sort_unstable();
            order.extend(largest.iter().map(|&entry| number * length + (entry as u32) as usize));
        }
        let words = on_words!(x.words(), words => order.iter().map(|&place| words[place]).collect());
        let places = order.iter().map(|&place| (place % length) as i64);
        Ok(vec![Tensor::new(results[0].clone(), words)?, Tensor::from_integers(results[1].clone(), places)?])
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        (1..results[0].rank()).map(|rank| OperationCut::same(rank - 1, operands.len(), results.len())).collect()
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        operands[0].elements() as u64
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "sort",
        jax: &["stablehlo.sort"],
        aten: &["sort", "argsort"],
        template: "a function of GpSimdE",
        accuracy: "exact",
        read: plain::<Sort>,
    },
    OperationRow {
        name: "top_k",
        jax: &["chlo.top_k"],
        aten: &["topk"],
        template: "a function of GpSimdE",
        accuracy: "exact",
        read: plain::<TopKOperation>,
    },
];
