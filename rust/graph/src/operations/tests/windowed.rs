use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::{flat, floats, integers, kind, noise, positions, product, refusal, run};

#[derive(Clone, Debug)]
struct Axis {
    length: usize,
    window: usize,
    stride: usize,
    base: usize,
    dilation: usize,
    padding: [i64; 2],
}

/// Axes of one array.
#[derive(Clone, Debug)]
struct Case(Vec<Axis>);

fn a_case(is_dilated: bool) -> impl Strategy<Value = Case> {
    let dilation = if is_dilated { 1usize..4 } else { 1usize..2 };
    let axis = (1usize..6, 1usize..4, 1usize..4, dilation.clone(), dilation, -1i64..4, -1i64..4).prop_map(
        |(length, window, stride, base, dilation, low, high)| {
            let padding = if length < 3 { [low.max(0), high.max(0)] } else { [low, high] };
            Axis { length, window, stride, base, dilation, padding }
        },
    );
    proptest::collection::vec(axis, 1..4).prop_map(Case)
}

impl Axis {
    fn windows(&self) -> usize {
        let padded = (self.length as i64 - 1) * self.base as i64 + 1 + self.padding[0] + self.padding[1];
        let last = (self.window as i64 - 1) * self.dilation as i64;
        (0..).take_while(|&window| window * self.stride as i64 + last < padded).count()
    }

    fn element(&self, window: usize, place: usize) -> Option<usize> {
        let at = (window * self.stride + place * self.dilation) as i64 - self.padding[0];
        (0..self.length).find(|&element| (element * self.base) as i64 == at)
    }
}

impl Case {
    fn list<T>(&self, of: impl Fn(&Axis) -> T) -> Vec<T> {
        self.0.iter().map(of).collect()
    }

    fn shape(&self) -> Vec<usize> {
        self.list(|axis| axis.length)
    }

    fn windows(&self) -> Vec<usize> {
        self.list(Axis::windows)
    }

    fn reduce(&self, function: &str) -> String {
        format!(
            r#"{{"window": {:?}, "strides": {:?}, "base_dilations": {:?}, "window_dilations": {:?}, "padding": {:?},
                "function": "{function}"}}"#,
            self.list(|axis| axis.window),
            self.list(|axis| axis.stride),
            self.list(|axis| axis.base),
            self.list(|axis| axis.dilation),
            self.list(|axis| axis.padding),
        )
    }

    /// The elements of a window, in ascending order.
    fn elements(&self, window: &[usize]) -> Vec<usize> {
        let of = |place: &Vec<usize>| {
            let met: Option<Vec<usize>> =
                (0..self.0.len()).map(|axis| self.0[axis].element(window[axis], place[axis])).collect();
            met.map(|position| flat(&position, &self.shape()))
        };
        positions(&self.list(|axis| axis.window)).iter().filter_map(of).collect()
    }
}

type Join<T> = fn(T, T) -> T;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn test_windows_of_whole_numbers_are_exact(case in a_case(true), function in 0usize..6, init in -3i64..4, seed: u64) {
        let functions: [(&str, Join<i64>); 6] = [
            ("add", |x, y| x + y),
            ("multiply", |x, y| x * y),
            ("maximum", i64::max),
            ("minimum", i64::min),
            ("and", |x, y| x & y),
            ("or", |x, y| x | y),
        ];
        let (name, join) = functions[function];
        let values: Vec<i64> = noise(seed, product(&case.shape())).into_iter().map(|value| (value * 4.0) as i64).collect();
        let x = integers(&case.shape(), values.iter().copied());
        let result = kind(DType::Int32, &case.windows());
        let found = run("reduce_window", &[&x, &integers(&[], [init])], &result, &case.reduce(name));
        let of = |window: &Vec<usize>| {
            let sum = case.elements(window).into_iter().fold(init, |sum, element| join(sum, values[element]));
            i64::from(sum as i32)
        };
        prop_assert_eq!(found.integers().unwrap(), positions(&case.windows()).iter().map(of).collect::<Vec<_>>());
    }

    #[test]
    fn test_windows_of_floats_are_joined_in_ascending_order(case in a_case(true), function in 0usize..4, seed: u64) {
        let functions: [(&str, Join<f32>, f32); 4] = [
            ("add", |x, y| x + y, 0.0),
            ("multiply", |x, y| x * y, 1.0),
            ("maximum", f32::max, f32::NEG_INFINITY),
            ("minimum", f32::min, f32::INFINITY),
        ];
        let (name, join, identity) = functions[function];
        let values = noise(seed, product(&case.shape()));
        let (x, init) = (floats(DType::Float32, &case.shape(), &values), noise(seed ^ 1, 1)[0]);
        let result = kind(DType::Float32, &case.windows());
        let operands = [&x, &floats(DType::Float32, &[], &[init])];
        // A window that runs towards the end has an order of its own, which has its own test.
        let is_towards_the_end = |axis: &Axis| {
            let padding = [0, axis.window as i64 - 1];
            axis.window == axis.length && axis.window > 1 && axis.padding == padding
        };
        prop_assume!(!case.0.iter().any(is_towards_the_end));
        let found = run("reduce_window", &operands, &result, &case.reduce(name));
        let of = |window: &Vec<usize>| {
            join(init, case.elements(window).into_iter().fold(identity, |sum, element| join(sum, values[element])))
        };
        prop_assert_eq!(&*found.floats().unwrap(), &positions(&case.windows()).iter().map(of).collect::<Vec<_>>()[..]);
    }

    #[test]
    fn test_what_windows_choose_gets_their_source(case in a_case(false), is_least: bool, seed: u64) {
        let values: Vec<i64> = noise(seed, product(&case.shape())).into_iter().map(|value| (value * 3.0) as i64).collect();
        let windows = case.windows();
        let given: Vec<i64> = noise(seed ^ 1, product(&windows)).into_iter().map(|value| (value * 50.0) as i64).collect();
        let mut expected = vec![7.0; values.len()];
        for (number, window) in positions(&windows).iter().enumerate() {
            let mut chosen: Option<usize> = None;
            for element in case.elements(window) {
                let is_kept = |best: usize| {
                    if is_least { values[best] <= values[element] } else { values[best] >= values[element] }
                };
                if !chosen.is_some_and(is_kept) {
                    chosen = Some(element);
                }
            }
            if let Some(element) = chosen {
                expected[element] += given[number] as f64;
            }
        }
        let attributes = format!(
            r#"{{"window": {:?}, "strides": {:?}, "padding": {:?}, "select": "{}", "scatter": "add"}}"#,
            case.list(|axis| axis.window),
            case.list(|axis| axis.stride),
            case.list(|axis| axis.padding),
            if is_least { "le" } else { "ge" },
        );
        let (x, source) = (integers(&case.shape(), values.iter().copied()), integers(&windows, given.iter().copied()));
        let found = run("select_and_scatter", &[&x, &source, &integers(&[], [7])], x.kind(), &attributes);
        prop_assert_eq!(found.numbers().unwrap(), expected.clone());
        let as_floats = |tensor: &crate::Tensor| {
            let values: Vec<f32> = tensor.integers().unwrap().into_iter().map(|value| value as f32).collect();
            floats(DType::Float32, tensor.shape(), &values)
        };
        let operands = [as_floats(&x), as_floats(&source), floats(DType::Float32, &[], &[7.0])];
        let operands: Vec<_> = operands.iter().collect();
        let found = run("select_and_scatter", &operands, operands[0].kind(), &attributes);
        prop_assert_eq!(found.numbers().unwrap(), expected);
    }

    #[test]
    fn test_running_windows_are_one_step_from_their_neighbours(
        shape in proptest::collection::vec(1usize..6, 1..4), axis in 0usize..3, is_towards_the_end: bool, seed: u64,
        function in 0usize..4,
    ) {
        let axis = axis % shape.len();
        let (name, join, identity): (_, Join<f32>, _) = [
            ("add", (|x, y| x + y) as Join<f32>, 0.0),
            ("multiply", |x, y| x * y, 1.0),
            ("maximum", f32::max, f32::NEG_INFINITY),
            ("minimum", f32::min, f32::INFINITY),
        ][function];
        let length = shape[axis];
        let mut case = Case(shape.iter().map(|&length| {
            Axis { length, window: 1, stride: 1, base: 1, dilation: 1, padding: [0, 0] }
        }).collect());
        let before = length as i64 - 1;
        case.0[axis].window = length;
        case.0[axis].padding = if is_towards_the_end { [0, before] } else { [before, 0] };
        let values = noise(seed, product(&shape));
        let x = floats(DType::Float32, &shape, &values);
        let init = floats(DType::Float32, &[], &[identity]);
        let found = run("reduce_window", &[&x, &init], x.kind(), &case.reduce(name));
        let of = |position: &Vec<usize>| {
            let mut sum = identity;
            let mut step = |index: usize| {
                let mut at = position.clone();
                at[axis] = index;
                sum = join(sum, values[flat(&at, &shape)]);
            };
            if is_towards_the_end { (position[axis]..length).rev().for_each(&mut step) } else { (0..=position[axis]).for_each(&mut step) }
            sum
        };
        prop_assert_eq!(&*found.floats().unwrap(), &positions(&shape).iter().map(of).collect::<Vec<_>>()[..]);
    }
}

#[test]
fn test_padding_is_left_out_and_init_joined_once_as_in_xla() {
    let x = floats(DType::Float32, &[4], &[0.0, 1.0, 2.0, 3.0]);
    let init = floats(DType::Float32, &[], &[5.0]);
    let attributes = |base: usize| {
        format!(
            r#"{{"window": [3], "strides": [1], "base_dilations": [{base}], "window_dilations": [1], "padding": [[1, 1]],
                "function": "add"}}"#
        )
    };
    let found = run("reduce_window", &[&x, &init], x.kind(), &attributes(1));
    assert_eq!(&*found.floats().unwrap(), &[6.0, 8.0, 11.0, 10.0]);
    let found = run("reduce_window", &[&x, &init], &kind(DType::Float32, &[7]), &attributes(2));
    assert_eq!(&*found.floats().unwrap(), &[5.0, 6.0, 6.0, 8.0, 7.0, 10.0, 8.0]);
}

#[test]
fn test_sums_are_rounded_once() {
    // 256 + 1 + 1 would stay 256 in bfloat16.
    let x = floats(DType::BFloat16, &[4], &[256.0, 1.0, 1.0, f32::NAN]);
    let init = floats(DType::BFloat16, &[], &[0.0]);
    let attributes = r#"{"window": [4], "strides": [1], "base_dilations": [1], "window_dilations": [1],
        "padding": [[3, 0]], "function": "add"}"#;
    let found = run("reduce_window", &[&x, &init], x.kind(), attributes);
    let values = found.floats().unwrap();
    assert_eq!(values[..3], [256.0, 256.0, 258.0]);
    assert!(values[3].is_nan());
}

#[test]
fn test_a_long_sum_takes_a_step_for_each_element() {
    let count = 1 << 20;
    let x = integers(&[count], (0..count as i64).map(|value| value & 1));
    let last = count - 1;
    let attributes = format!(
        r#"{{"window": [{count}], "strides": [1], "base_dilations": [1], "window_dilations": [1],
            "padding": [[{last}, 0]], "function": "add"}}"#
    );
    let found = run("reduce_window", &[&x, &integers(&[], [0])], x.kind(), &attributes).integers().unwrap();
    assert_eq!((found[last], found[last - 1]), (1 << 19, (1 << 19) - 1));
}

#[test]
fn test_nan_gives_way_to_what_follows() {
    let x = floats(DType::Float32, &[3], &[1.0, f32::NAN, 0.5]);
    let source = floats(DType::Float32, &[1], &[2.0]);
    let init = floats(DType::Float32, &[], &[0.0]);
    let attributes = r#"{"window": [3], "strides": [1], "padding": [[0, 0]], "select": "ge", "scatter": "add"}"#;
    let found = run("select_and_scatter", &[&x, &source, &init], x.kind(), attributes);
    assert_eq!(&*found.floats().unwrap(), &[0.0, 0.0, 2.0]);
    let found =
        refusal("select_and_scatter", &[&x, &source, &init], &[x.kind().clone()], &attributes.replace("ge", "eq"));
    assert_eq!(found, "select_and_scatter: select is Eq; allowed: ge, le");
    let found = refusal("select_and_scatter", &[&x, &x, &init], &[x.kind().clone()], attributes);
    assert!(found.contains("the source is float32[3] and the windows is float32[1]"), "{found}");
}

#[test]
fn test_windows_of_nothing_are_refused() {
    let (x, init) = (integers(&[4], [0; 4]), integers(&[], [0]));
    let refused = |window: &str, function: &str| {
        let attributes = format!(
            r#"{{"window": {window}, "strides": [1], "base_dilations": [1], "window_dilations": [1],
                "padding": [[0, 0]], "function": "{function}"}}"#
        );
        refusal("reduce_window", &[&x, &init], &[x.kind().clone()], &attributes)
    };
    assert!(refused("[0]", "add").contains("are positive"));
    assert_eq!(refused("[1, 1]", "add"), "reduce_window: window has 2 entries for int32[4]; each axis has one");
    assert!(refused("[1]", "subtract").contains("unknown variant `subtract`"));
}
