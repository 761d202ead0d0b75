use std::cmp::Ordering;

use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::{counted, flat, floats, integers, kind, positions, refusal, run, run_on};
use crate::{MatmulPath, Tensor, TensorType};

fn run_all(op: &str, operands: &[&Tensor], results: &[TensorType], attributes: &str) -> Vec<Tensor> {
    run_on(MatmulPath::AsTyped, op, operands, results, attributes).unwrap()
}

/// Bubbles neighbours until all are in order: stable.
fn bubbled(mut line: Vec<Vec<i64>>, keys: usize, is_descending: bool) -> Vec<Vec<i64>> {
    for _ in 0..line.len() {
        for place in 1..line.len() {
            let order = line[place][..keys].cmp(&line[place - 1][..keys]);
            if order == if is_descending { Ordering::Greater } else { Ordering::Less } {
                line.swap(place, place - 1);
            }
        }
    }
    line
}

proptest! {
    #[test]
    fn test_all_operands_move_with_the_keys(
        (shape, dimension) in proptest::collection::vec(1usize..6, 1..4)
            .prop_flat_map(|shape| { let rank = shape.len(); (Just(shape), 0..rank) }),
        keys in 1usize..4,
        descending: bool,
        values in proptest::collection::vec(-2i64..3, 375),
    ) {
        let count: usize = shape.iter().product();
        let first = integers(&shape, values[..count].iter().copied());
        let second_kind = kind(DType::UInt8, &shape);
        let second = Tensor::from_integers(second_kind, values[125..125 + count].iter().map(|value| value & 1)).unwrap();
        let third = counted(&shape);
        let operands = [&first, &second, &third];
        let results: Vec<TensorType> = operands.iter().map(|operand| operand.kind().clone()).collect();
        let attributes = format!(
            r#"{{"dimension": {dimension}, "stable": true, "descending": {descending}, "keys": {keys}}}"#
        );
        let found: Vec<Vec<i64>> =
            run_all("sort", &operands, &results, &attributes).iter().map(|x| x.integers().unwrap()).collect();
        let given: Vec<Vec<i64>> = operands.iter().map(|x| x.integers().unwrap()).collect();
        for position in positions(&shape).into_iter().filter(|position| position[dimension] == 0) {
            let places: Vec<usize> = (0..shape[dimension])
                .map(|index| { let mut at = position.clone(); at[dimension] = index; flat(&at, &shape) })
                .collect();
            let line = |from: &[Vec<i64>]| -> Vec<Vec<i64>> {
                places.iter().map(|&place| from.iter().map(|values| values[place]).collect()).collect()
            };
            prop_assert_eq!(line(&found), bubbled(line(&given), keys, descending));
        }
    }

    #[test]
    fn test_the_largest_come_first_and_the_first_of_equal_ones(
        rows in 0usize..4, length in 1usize..9, k in 0usize..9, values in proptest::collection::vec(-3i64..4, 32),
    ) {
        let k = k.min(length);
        let numbers: Vec<f32> = values[..rows * length].iter().map(|&value| value as f32).collect();
        let x = floats(DType::BFloat16, &[rows, length], &numbers);
        let results = [kind(DType::BFloat16, &[rows, k]), kind(DType::Int32, &[rows, k])];
        let found = run_all("top_k", &[&x], &results, &format!(r#"{{"k": {k}}}"#));
        let (largest, places) = (found[0].floats().unwrap(), found[1].integers().unwrap());
        for (row, line) in values[..rows * length].chunks(length).enumerate() {
            let mut left: Vec<usize> = (0..length).collect();
            for column in 0..k {
                let best = *left.iter().rev().max_by_key(|&&place| line[place]).unwrap();
                left.retain(|&place| place != best);
                prop_assert_eq!(places[row * k + column], best as i64);
                prop_assert_eq!(largest[row * k + column], line[best] as f32);
            }
        }
    }
}

/// Zeros of both signs, NaN of both signs, subnormals, infinities.
fn oddities() -> Tensor {
    let bits = [0x0000_0000u32, 0x8000_0000, 0x7fc0_0000, 0x3f80_0000, 0xffc0_0000, 0, 0xbf80_0000, 1, 0x8000_0001];
    let bytes: Vec<u8> = bits.iter().chain(&[0x7f80_0000, 0xff80_0000]).flat_map(|word| word.to_le_bytes()).collect();
    Tensor::from_bytes(kind(DType::Float32, &[11]), &bytes).unwrap()
}

#[test]
fn test_zeros_are_equal_and_nan_comes_last_as_in_jax() {
    let results = [kind(DType::Float32, &[11]), kind(DType::Int32, &[11])];
    let sorted = |attributes: &str| {
        let found = run_all("sort", &[&oddities(), &counted(&[11])], &results, attributes);
        let words: Vec<u8> = found[0].bytes().to_vec();
        for (place, from) in found[1].integers().unwrap().into_iter().enumerate() {
            assert_eq!(words[4 * place..4 * place + 4], oddities().bytes()[4 * from as usize..4 * from as usize + 4]);
        }
        found[1].integers().unwrap()
    };
    assert_eq!(sorted(r#"{"dimension": 0}"#), [10, 6, 8, 0, 1, 5, 7, 3, 9, 2, 4]);
    assert_eq!(sorted(r#"{"dimension": 0, "descending": true}"#), [2, 4, 9, 3, 7, 0, 1, 5, 8, 6, 10]);
}

#[test]
fn test_the_largest_have_the_total_order_as_in_jax() {
    let results = [kind(DType::Float32, &[11]), kind(DType::Int32, &[11])];
    let found = run_all("top_k", &[&oddities()], &results, r#"{"k": 11}"#);
    assert_eq!(found[1].integers().unwrap(), [2, 9, 3, 7, 0, 5, 1, 8, 6, 10, 4]);
}

#[test]
fn test_keys_that_there_are_not_are_refused() {
    let x = counted(&[3]);
    let found = refusal("sort", &[&x], &[x.kind().clone()], r#"{"dimension": 0, "keys": 2}"#);
    assert_eq!(found, "sort: keys is 2 of 1 operands; allowed: 1 up to all");
    let found =
        refusal("sort", &[&x, &counted(&[4])], &[x.kind().clone(), kind(DType::Int32, &[4])], r#"{"dimension": 0}"#);
    assert_eq!(found, "sort: int32[4] came with int32[3]; operands have one shape");
    let found = refusal("top_k", &[&x], &[kind(DType::Int32, &[4]), kind(DType::Int32, &[4])], r#"{"k": 4}"#);
    assert_eq!(found, "top_k: k is 4 of int32[3]; allowed: up to 3");
    assert_eq!(run("sort", &[&x], x.kind(), r#"{"dimension": 0}"#), x);
}
