//! Random bits, equal to the framework's.

use serde::Deserialize;
use trn3_machine::dtype::DType;

use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::strided::{permuted, pick, row_major};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Which generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomAlgorithm {
    /// Threefry 2x32 of 20 rounds.
    Threefry,
    /// Philox 4x32 of 10 rounds.
    Philox,
    /// XLA's on CPUs: Philox.
    Default,
}

/// Random bits of a key and a counter: `rng_bit_generator(state)` makes the next state and bits of the second result's
/// shape, equal to XLA's.
///
/// The state is uint32, the low word of each 64 bits first: key (2 words) and counter (2), for Philox the counter also of
/// 4 words. Bits are integers of 8, 16 or 32 bits, the low ones of 32.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RngBitGenerator {
    /// Which generator.
    pub algorithm: RandomAlgorithm,
}

/// One block of Threefry 2x32 (J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011).
fn threefry(counter: u64, key: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1bd1_1bda;
    let [low, high] = [key as u32, (key >> 32) as u32];
    let keys = [low, high, low ^ high ^ PARITY];
    let mut x = [(counter as u32).wrapping_add(keys[0]), ((counter >> 32) as u32).wrapping_add(keys[1])];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// One block of Philox 4x32 (the same article).
fn philox(counter: u128, key: u64) -> [u32; 4] {
    const FACTORS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let mut x = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    let mut key = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let [first, second] = [u64::from(x[0]) * u64::from(FACTORS[0]), u64::from(x[2]) * u64::from(FACTORS[1])];
        x = [(second >> 32) as u32 ^ x[1] ^ key[0], second as u32, (first >> 32) as u32 ^ x[3] ^ key[1], first as u32];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
    }
    x
}

/// The axis that Threefry's two words of a block lie along, as XLA lays them: the first of even length, else the longest.
fn split_axis(shape: &[usize]) -> Option<usize> {
    let longest = || (0..shape.len()).rev().max_by_key(|&axis| shape[axis]);
    shape.iter().position(|length| length.is_multiple_of(2)).or_else(longest)
}

impl RngBitGenerator {
    fn is_threefry(self) -> bool {
        self.algorithm == RandomAlgorithm::Threefry
    }

    /// Blocks of [halves, 2], the two words of a block side by side along the split axis.
    fn threefry_bits(key: u64, counter: u64, shape: &[usize]) -> Result<(u64, Vec<i64>)> {
        let axis = split_axis(shape);
        let mut halves = shape.to_vec();
        if let Some(axis) = axis {
            halves[axis] = halves[axis].div_ceil(2);
        }
        let blocks: usize = halves.iter().product();
        let next = counter.wrapping_add(blocks as u64);
        let words = (0..blocks as u64).flat_map(|block| threefry(counter.wrapping_add(block), key));
        let made = Tensor::from_integers(
            TensorType::new(DType::UInt32, &[halves.as_slice(), &[2]].concat()),
            words.map(i64::from),
        )?;
        let Some(axis) = axis else { return Ok((next, made.integers()?[..1].to_vec())) };
        // [.., halves, .., 2] as [.., halves, 2, ..]: one axis, without the word that is too many.
        let mut order: Vec<usize> = (0..halves.len()).collect();
        order.insert(axis + 1, halves.len());
        halves[axis] *= 2;
        let joined = permuted(&made, &order)?.reinterpreted(TensorType::new(DType::UInt32, &halves))?;
        Ok((next, pick(&joined, shape, &row_major(&halves), 0)?.integers()?))
    }

    fn philox_bits(key: u64, counter: u128, count: usize) -> (u128, Vec<i64>) {
        let blocks = count.div_ceil(4);
        let words = (0..blocks as u128).flat_map(|block| philox(counter.wrapping_add(block), key));
        (counter.wrapping_add(blocks as u128), words.take(count).map(i64::from).collect())
    }
}

impl TensorOperation for RngBitGenerator {
    fn name(&self) -> &'static str {
        "rng_bit_generator"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [state] = exactly("operands", operands)?;
        let [next, bits] = exactly("results", results)?;
        let allowed: &[usize] = if self.is_threefry() { &[4] } else { &[4, 6] };
        if state.dtype != DType::UInt32 || state.rank() != 1 || !allowed.contains(&state.shape[0]) {
            return Err(format!("the state is {state}; allowed: uint32 of {allowed:?} words"));
        }
        check_same("the next state", next, "the state", state)?;
        if bits.is_integer() { Ok(()) } else { Err(format!("the bits are {bits}; allowed: integers")) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let state = operands[0].integers()?;
        let pair = |place: usize| state[2 * place] as u64 | (state[2 * place + 1] as u64) << 32;
        let kind = &results[1];
        let (next, bits) = if self.is_threefry() {
            let (next, bits) = Self::threefry_bits(pair(0), pair(1), &kind.shape)?;
            (u128::from(next), bits)
        } else {
            // Of a short state the counter is the low half of what the block counts, with the key above it.
            let high = if state.len() > 4 { pair(2) } else { pair(0) };
            Self::philox_bits(pair(0), u128::from(pair(1)) | u128::from(high) << 64, kind.elements())
        };
        let words = (2..state.len()).map(|word| i64::from((next >> (32 * (word - 2))) as u32));
        let state = state[..2].iter().copied().chain(words);
        Ok(vec![Tensor::from_integers(results[0].clone(), state)?, Tensor::from_integers(kind.clone(), bits)?])
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "rng_bit_generator",
    jax: &["stablehlo.rng_bit_generator"],
    aten: &[],
    template: "a function of GpSimdE",
    accuracy: "equal to XLA's",
    read: plain::<RngBitGenerator>,
}];
