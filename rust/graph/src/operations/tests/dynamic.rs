use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::{counted, flat, floats, integers, kind, positions, product, refusal, run};

fn a_part() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, Vec<i64>)> {
    proptest::collection::vec((1usize..5).prop_flat_map(|length| (Just(length), 0..=length, -3i64..8)), 0..4).prop_map(
        |axes| {
            (
                axes.iter().map(|axis| axis.0).collect(),
                axes.iter().map(|axis| axis.1).collect(),
                axes.iter().map(|axis| axis.2).collect(),
            )
        },
    )
}

fn moved(starts: &[i64], part: &[usize], whole: &[usize]) -> Vec<usize> {
    (0..whole.len()).map(|axis| starts[axis].max(0).min((whole[axis] - part[axis]) as i64) as usize).collect()
}

proptest! {
    #[test]
    fn test_parts_lie_where_their_starts_are_moved((whole, part, starts) in a_part()) {
        let x = counted(&whole);
        let update = integers(&part, (0..product(&part) as i64).map(|value| -1 - value));
        let scalars: Vec<_> = starts.iter().map(|&start| integers(&[], [start])).collect();
        let first = moved(&starts, &part, &whole);
        let at = |position: &[usize]| {
            let place: Vec<usize> = position.iter().zip(&first).map(|(index, start)| index + start).collect();
            flat(&place, &whole)
        };

        let operands: Vec<_> = std::iter::once(&x).chain(&scalars).collect();
        let found = run("dynamic_slice", &operands, &kind(DType::Int32, &part), &format!(r#"{{"slice_sizes": {part:?}}}"#));
        let expected: Vec<i64> = positions(&part).iter().map(|position| at(position) as i64).collect();
        prop_assert_eq!(found.integers().unwrap(), expected);

        let operands: Vec<_> = [&x, &update].into_iter().chain(&scalars).collect();
        let found = run("dynamic_update_slice", &operands, x.kind(), "{}");
        let mut expected = x.integers().unwrap();
        for (value, position) in positions(&part).iter().enumerate() {
            expected[at(position)] = -1 - value as i64;
        }
        prop_assert_eq!(found.integers().unwrap(), expected);
    }
}

#[test]
fn test_parts_of_the_wrong_kind_are_refused() {
    let (x, start) = (floats(DType::BFloat16, &[4], &[0.0; 4]), integers(&[], [0]));
    let found = refusal("dynamic_slice", &[&x, &start], &[kind(DType::BFloat16, &[5])], r#"{"slice_sizes": [5]}"#);
    assert_eq!(found, "dynamic_slice: slice_sizes is [5] of bfloat16[4]; allowed: up to the length of each axis");
    let found = refusal("dynamic_slice", &[&x], &[kind(DType::BFloat16, &[2])], r#"{"slice_sizes": [2]}"#);
    assert_eq!(found, "dynamic_slice: 0 starts came for bfloat16[4]; each axis has one");
    let found = refusal("dynamic_slice", &[&x, &x], &[kind(DType::BFloat16, &[2])], r#"{"slice_sizes": [2]}"#);
    assert_eq!(found, "dynamic_slice: a start is bfloat16[4]; allowed: integers of shape []");
    let update = floats(DType::Float32, &[2], &[0.0; 2]);
    let found = refusal("dynamic_update_slice", &[&x, &update, &start], &[x.kind().clone()], "{}");
    let expected = "the update is float32[2] and a part of the operand is bfloat16[2]; they have to be the same";
    assert_eq!(found, format!("dynamic_update_slice: {expected}"));
}
