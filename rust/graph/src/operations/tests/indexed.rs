use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::{counted, flat, floats, integers, kind, noise, positions, product, refusal, run};
use crate::Tensor;

/// What an axis of the operand is to its windows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Kept,
    Collapsed,
    Batched,
}

/// One way to name windows of an operand; attributes as they are written.
#[derive(Clone, Debug)]
struct Case {
    operand: Vec<usize>,
    sizes: Vec<usize>,
    /// Lengths of the windows' axes.
    kept: Vec<usize>,
    collapsed: Vec<usize>,
    operand_batching: Vec<usize>,
    indices_batching: Vec<usize>,
    map: Vec<usize>,
    vector: usize,
    indices: Tensor,
    batch: Vec<usize>,
    /// Axes of the result (or the updates) along which windows lie.
    offsets: Vec<usize>,
    shape: Vec<usize>,
}

fn a_case() -> impl Strategy<Value = Case> {
    let axis = (1usize..5).prop_flat_map(|length| {
        let role = prop_oneof![Just(Role::Kept), Just(Role::Kept), Just(Role::Collapsed), Just(Role::Batched)];
        (Just(length), 0..=length, role, any::<bool>())
    });
    let free = proptest::collection::vec(0usize..4, 0..3);
    (proptest::collection::vec(axis, 1..4), free, 0usize..4, any::<u64>(), any::<bool>()).prop_map(
        |(axes, mut batch, vector, seed, is_last)| {
            let operand: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
            let of_role = |role| (0..axes.len()).filter(|&axis| axes[axis].2 == role).collect::<Vec<_>>();
            let sizes: Vec<usize> = axes.iter().map(|axis| if axis.2 == Role::Kept { axis.1 } else { 1 }).collect();
            let operand_batching = of_role(Role::Batched);
            let mut map: Vec<usize> =
                (0..axes.len()).filter(|&axis| axes[axis].2 != Role::Batched && axes[axis].3).collect();
            map.reverse();
            // Batched axes stand in front of the others, the last one first.
            let mut batched: Vec<usize> = operand_batching.iter().rev().map(|&axis| operand[axis]).collect();
            batched.append(&mut batch);
            let batch = batched;
            let has_vector = map.len() != 1 || !is_last;
            let vector = if has_vector { vector.min(batch.len()) } else { batch.len() };
            let mut shape = batch.clone();
            if has_vector {
                shape.insert(vector, map.len());
            }
            let after = |axis: usize| axis + usize::from(has_vector && axis >= vector);
            let count = operand_batching.len();
            let indices_batching = (0..count).map(|place| after(count - 1 - place)).collect();
            let values = noise(seed, product(&shape)).into_iter().map(|value| (value * 6.0) as i64);
            let indices = integers(&shape, values);
            let kept: Vec<usize> = of_role(Role::Kept).iter().map(|&axis| sizes[axis]).collect();
            let rank = batch.len() + kept.len();
            let mut offsets: Vec<usize> = (0..rank).collect();
            offsets.rotate_left((seed % rank.max(1) as u64) as usize);
            offsets.truncate(kept.len());
            offsets.sort_unstable();
            let (mut windows, mut others) = (kept.iter(), batch.iter());
            let of = |axis: usize| if offsets.contains(&axis) { windows.next() } else { others.next() };
            let shape = (0..rank).map(of).map(|length| *length.unwrap()).collect();
            let collapsed = of_role(Role::Collapsed);
            Case {
                operand,
                sizes,
                kept,
                collapsed,
                operand_batching,
                indices_batching,
                map,
                vector,
                indices,
                batch,
                offsets,
                shape,
            }
        },
    )
}

impl Case {
    fn gather(&self) -> String {
        format!(
            r#"{{"offset_dims": {:?}, "collapsed_slice_dims": {:?}, "operand_batching_dims": {:?},
                "start_indices_batching_dims": {:?}, "start_index_map": {:?}, "index_vector_dim": {}, "slice_sizes": {:?}}}"#,
            self.offsets,
            self.collapsed,
            self.operand_batching,
            self.indices_batching,
            self.map,
            self.vector,
            self.sizes
        )
    }

    fn scatter(&self, function: &str) -> String {
        format!(
            r#"{{"update_window_dims": {:?}, "inserted_window_dims": {:?}, "input_batching_dims": {:?},
                "scatter_indices_batching_dims": {:?}, "scatter_dims_to_operand_dims": {:?}, "index_vector_dim": {},
                "function": "{function}"}}"#,
            self.offsets, self.collapsed, self.operand_batching, self.indices_batching, self.map, self.vector
        )
    }

    /// The index of the window at a position of the batch.
    fn index(&self, batch: &[usize]) -> Vec<i64> {
        let numbers = self.indices.integers().unwrap();
        if self.vector == self.indices.shape().len() {
            return vec![numbers[flat(batch, self.indices.shape())]];
        }
        let at = |component| {
            let mut position = batch.to_vec();
            position.insert(self.vector, component);
            numbers[flat(&position, self.indices.shape())]
        };
        (0..self.map.len()).map(at).collect()
    }

    /// The operand's position of a position of the result or the updates, as the specification adds it up.
    fn place(&self, position: &[usize], is_moved: bool) -> Option<Vec<usize>> {
        let rank = position.len();
        let batch: Vec<usize> =
            (0..rank).filter(|axis| !self.offsets.contains(axis)).map(|axis| position[axis]).collect();
        let window: Vec<usize> = self.offsets.iter().map(|&axis| position[axis]).collect();
        let mut full: Vec<i64> = vec![0; self.operand.len()];
        for (&axis, start) in self.map.iter().zip(self.index(&batch)) {
            let last = (self.operand[axis] - self.sizes[axis]) as i64;
            if !is_moved && !(0..=last).contains(&start) {
                return None;
            }
            full[axis] += start.max(0).min(last);
        }
        for (&of_operand, &of_indices) in self.operand_batching.iter().zip(&self.indices_batching) {
            full[of_operand] += batch[of_indices - usize::from(of_indices > self.vector)] as i64;
        }
        let mut offsets = window.iter();
        for axis in 0..self.operand.len() {
            if !self.collapsed.contains(&axis) && !self.operand_batching.contains(&axis) {
                full[axis] += *offsets.next().unwrap() as i64;
            }
        }
        Some(full.into_iter().map(|index| index as usize).collect())
    }

    /// Positions of the updates, those of one window together.
    fn in_order_of_windows(&self) -> Vec<Vec<usize>> {
        let mut all = vec![];
        for batch in positions(&self.batch) {
            for window in positions(&self.kept) {
                let (mut batch, mut window) = (batch.iter(), window.iter());
                let of = |axis: usize| if self.offsets.contains(&axis) { window.next() } else { batch.next() };
                all.push((0..self.shape.len()).map(of).map(|index| *index.unwrap()).collect());
            }
        }
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn test_windows_are_picked_as_the_specification_says(case in a_case()) {
        let x = counted(&case.operand);
        let found = run("gather", &[&x, &case.indices], &kind(DType::Int32, &case.shape), &case.gather());
        let of = |position: &Vec<usize>| flat(&case.place(position, true).unwrap(), &case.operand) as i64;
        let expected: Vec<i64> = positions(&case.shape).iter().map(of).collect();
        prop_assert_eq!(found.integers().unwrap(), expected);
    }

    #[test]
    fn test_windows_are_joined_as_the_specification_says(case in a_case(), name in 0usize..5) {
        type Join = fn(i64, i64) -> i64;
        let functions: [(&str, Join); 5] = [
            ("replace", |_, y| y),
            ("add", |x, y| x + y),
            ("multiply", |x, y| x.wrapping_mul(y)),
            ("maximum", |x, y| x.max(y)),
            ("minimum", |x, y| x.min(y)),
        ];
        let (name, join) = functions[name];
        let x = counted(&case.operand);
        let values: Vec<i64> = noise(7, product(&case.shape)).iter().map(|value| (value * 50.0) as i64).collect();
        let updates = integers(&case.shape, values.iter().copied());
        let mut expected = x.integers().unwrap();
        for position in case.in_order_of_windows() {
            if let Some(place) = case.place(&position, false) {
                let element = &mut expected[flat(&place, &case.operand)];
                *element = i64::from(join(*element, values[flat(&position, &case.shape)]) as i32);
            }
        }
        let found = run("scatter", &[&x, &case.indices, &updates], x.kind(), &case.scatter(name));
        prop_assert_eq!(found.integers().unwrap(), expected);
    }
}

const ROWS_OF_TWO: &str = r#"{"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1, "function": "add"}"#;

#[test]
fn test_sums_are_rounded_one_after_another() {
    // 256 + 1 is 256 in bfloat16, each time; 3 times 1 at once would be 260.
    let x = floats(DType::BFloat16, &[2, 2], &[256.0, 0.0, 1.0, 2.0]);
    let indices = integers(&[4, 1], [0, 0, 1, 0]);
    let updates = floats(DType::BFloat16, &[4, 2], &[1.0, 0.5, 3.0, 4.0, 1.0, -2.0, f32::NAN, 1.0]);
    let found = run("scatter", &[&x, &indices, &updates], x.kind(), ROWS_OF_TWO);
    let values = found.floats().unwrap();
    assert_eq!(values[1..], [5.5, 2.0, 0.0]);
    assert!(values[0].is_nan());
    let updates = floats(DType::BFloat16, &[4, 2], &[1.0, 0.5, 1.0, 4.0, 1.0, -2.0, 1.0, 1.0]);
    let found = run("scatter", &[&x, &indices, &updates], x.kind(), ROWS_OF_TWO);
    assert_eq!(&*found.floats().unwrap(), &[256.0, 5.5, 2.0, 0.0]);
    let exact = floats(DType::Float32, &[2, 2], &[256.0, 0.0, 1.0, 2.0]);
    let updates = floats(DType::Float32, &[4, 2], &updates.floats().unwrap());
    let found = run("scatter", &[&exact, &indices, &updates], exact.kind(), ROWS_OF_TWO);
    assert_eq!(&*found.floats().unwrap(), &[259.0, 5.5, 2.0, 0.0]);
}

#[test]
fn test_every_type_is_rounded_as_it_is_written() {
    let values: Vec<f32> =
        noise(3, 400).iter().zip(0..).map(|(value, place)| value * 2f32.powi(place / 9 - 22)).collect();
    let attributes = ROWS_OF_TWO.replace("add", "multiply");
    for dtype in [DType::BFloat16, DType::Float16, DType::Float8E4M3, DType::Float8E4M3Fn, DType::Float8E5M2] {
        let (x, y) = (floats(dtype, &[200, 2], &values), floats(dtype, &[200, 2], &noise(4, 400)));
        let found = run("scatter", &[&x, &integers(&[200, 1], 0..200), &y], x.kind(), &attributes);
        let expected = run("multiply", &[&x, &y], x.kind(), "{}");
        assert_eq!(found.bytes(), expected.bytes(), "{dtype}");
        // A second time: the first product was rounded before.
        let twice = Tensor::from_bytes(kind(dtype, &[400, 2]), &y.bytes().repeat(2)).unwrap();
        let indices = integers(&[400, 1], (0..200).chain(0..200));
        let found = run("scatter", &[&x, &indices, &twice], x.kind(), &attributes);
        let expected = run("multiply", &[&expected, &y], x.kind(), "{}");
        assert_eq!(found.bytes(), expected.bytes(), "{dtype}");
    }
}

#[test]
fn test_a_window_that_reaches_beyond_is_left_out_whole() {
    // As XLA has it: of starts 3, -1 and 1 in five elements, windows of three elements lie inside for the last alone.
    let attributes = r#"{"update_window_dims": [1], "inserted_window_dims": [], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1, "function": "add"}"#;
    let (x, indices) = (integers(&[5], [0; 5]), integers(&[3, 1], [3, -1, 1]));
    let found = run("scatter", &[&x, &indices, &integers(&[3, 3], 1..10)], x.kind(), attributes);
    assert_eq!(found.integers().unwrap(), [0, 7, 8, 9, 0]);
}

#[test]
fn test_axes_that_fit_nothing_are_refused() {
    let (x, indices) = (counted(&[3, 2]), integers(&[4, 1], [0; 4]));
    let gather = |offsets: &str, sizes: &str, map: &str| {
        let attributes = format!(
            r#"{{"offset_dims": {offsets}, "collapsed_slice_dims": [0], "start_index_map": {map}, "index_vector_dim": 1,
                "slice_sizes": {sizes}}}"#
        );
        refusal("gather", &[&x, &indices], &[kind(DType::Int32, &[4, 2])], &attributes)
    };
    let found = gather("[1]", "[1, 3]", "[0]");
    assert_eq!(found, "gather: slice_sizes is [1, 3] of int32[3, 2]; allowed: up to the length of each axis");
    let found = gather("[2]", "[1, 2]", "[0]");
    assert_eq!(found, "gather: offset_dims is [2]; allowed: 1 ascending axes of 2");
    let found = gather("[1]", "[1, 2]", "[0, 1]");
    assert_eq!(found, "gather: start_index_map is [0, 1]; indices int32[4, 1] have 1 components");
    let found = gather("[1]", "[2, 2]", "[0]");
    assert!(found.contains("collapsed_slice_dims is [0]"), "{found}");
    let found = refusal("scatter", &[&x, &indices, &counted(&[4, 3])], &[x.kind().clone()], ROWS_OF_TWO);
    assert_eq!(found, "scatter: windows are 3 long along axis 1 of int32[3, 2]");
    let found = refusal("scatter", &[&x, &indices, &counted(&[5, 2])], &[x.kind().clone()], ROWS_OF_TWO);
    assert!(found.contains("name windows [4]"), "{found}");
    let packed = Tensor::from_bytes(kind(DType::Float8E8M0Fnu, &[3, 2]), &[1; 6]).unwrap();
    let updates = Tensor::from_bytes(kind(DType::Float8E8M0Fnu, &[4, 2]), &[1; 8]).unwrap();
    let found = refusal("scatter", &[&packed, &indices, &updates], &[packed.kind().clone()], ROWS_OF_TWO);
    assert!(found.contains("which Add does not join"), "{found}");
}
