use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::{flat, floats, integers, kind, noise, positions, product, refusal, run, run_on};
use crate::{MatmulPath, Tensor, TensorType};

/// One spatial axis.
#[derive(Clone, Debug)]
struct Axis {
    length: usize,
    window: usize,
    stride: usize,
    base: usize,
    dilation: usize,
    padding: [i64; 2],
    reversed: bool,
}

impl Axis {
    /// Windows that fit, by trying one after another.
    fn windows(&self) -> usize {
        let spread = if self.length == 0 { 0 } else { (self.length as i64 - 1) * self.base as i64 + 1 };
        let padded = spread + self.padding[0] + self.padding[1];
        let last = (self.window as i64 - 1) * self.dilation as i64;
        (0..).take_while(|&window| window * self.stride as i64 + last < padded).count()
    }

    /// The element that a place of a window meets.
    fn element(&self, window: usize, place: usize) -> Option<usize> {
        let at = (window * self.stride + place * self.dilation) as i64 - self.padding[0];
        let element = (0..self.length).find(|&element| (element * self.base) as i64 == at);
        element.filter(|_| at >= 0)
    }
}

#[derive(Clone, Debug)]
struct Case {
    axes: Vec<Axis>,
    images: usize,
    features: usize,
    outputs: usize,
    feature_groups: usize,
    batch_groups: usize,
    orders: [Vec<usize>; 3],
}

fn an_axis() -> impl Strategy<Value = Axis> {
    (1usize..6, 1usize..4, 1usize..4, 1usize..4, 1usize..3, -2i64..4, -2i64..4, any::<bool>()).prop_map(
        |(length, window, stride, base, dilation, low, high, reversed)| {
            // Cuts leave something.
            let low = low.max(0) - (-low).max(0).min(length as i64 / 2);
            let high = high.max(0) - (-high).max(0).min(length as i64 / 2);
            Axis { length, window, stride, base, dilation, padding: [low, high], reversed }
        },
    )
}

fn a_case() -> impl Strategy<Value = Case> {
    (proptest::collection::vec(an_axis(), 0..3), 1usize..3, 1usize..4, 1usize..3, 1usize..4, any::<bool>())
        .prop_flat_map(|(axes, images, features, outputs, groups, is_of_features)| {
            let rank = axes.len() + 2;
            let order = || Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
            let [feature_groups, batch_groups] = if is_of_features { [groups, 1] } else { [1, groups] };
            (order(), order(), order()).prop_map(move |(lhs, rhs, out)| Case {
                axes: axes.clone(),
                images: images * batch_groups,
                features,
                outputs: outputs * groups,
                feature_groups,
                batch_groups,
                orders: [lhs, rhs, out],
            })
        })
}

/// Lengths or indices in the order of an array's axes: entry i of `logical` is axis `order[i]`.
fn laid(logical: &[usize], order: &[usize]) -> Vec<usize> {
    let mut out = vec![0; logical.len()];
    order.iter().zip(logical).for_each(|(&axis, &length)| out[axis] = length);
    out
}

impl Case {
    fn spatial(&self, of: impl Fn(&Axis) -> usize) -> Vec<usize> {
        self.axes.iter().map(of).collect()
    }

    /// Shapes of lhs and out as [batch, feature, spatial...], of rhs as [input, output, spatial...].
    fn logical(&self) -> [Vec<usize>; 3] {
        let of = |first: usize, second: usize, spatial: Vec<usize>| [vec![first, second], spatial].concat();
        [
            of(self.images, self.features * self.feature_groups, self.spatial(|axis| axis.length)),
            of(self.features, self.outputs, self.spatial(|axis| axis.window)),
            of(self.images / self.batch_groups, self.outputs, self.spatial(Axis::windows)),
        ]
    }

    fn shapes(&self) -> [Vec<usize>; 3] {
        let logical = self.logical();
        [0, 1, 2].map(|place| laid(&logical[place], &self.orders[place]))
    }

    fn attributes(&self) -> String {
        let layout = |place: usize, names: [&str; 2]| {
            let order = &self.orders[place];
            format!(r#"{{"{}": {}, "{}": {}, "spatial": {:?}}}"#, names[0], order[0], names[1], order[1], &order[2..])
        };
        let paddings: Vec<[i64; 2]> = self.axes.iter().map(|axis| axis.padding).collect();
        let reversal: Vec<bool> = self.axes.iter().map(|axis| axis.reversed).collect();
        format!(
            r#"{{"window_strides": {:?}, "padding": {paddings:?}, "lhs_dilation": {:?}, "rhs_dilation": {:?},
                "lhs_layout": {}, "rhs_layout": {}, "out_layout": {}, "feature_groups": {}, "batch_groups": {},
                "reversal": {reversal:?}}}"#,
            self.spatial(|axis| axis.stride),
            self.spatial(|axis| axis.base),
            self.spatial(|axis| axis.dilation),
            layout(0, ["batch", "feature"]),
            layout(1, ["input_feature", "output_feature"]),
            layout(2, ["batch", "feature"]),
            self.feature_groups,
            self.batch_groups,
        )
    }

    /// The sums, each over all places of its window and all input features of its group.
    fn expected(&self, lhs: &[f64], rhs: &[f64]) -> Vec<f64> {
        let shapes = self.shapes();
        let mut sums = vec![0.0; product(&shapes[2])];
        let groups = self.feature_groups * self.batch_groups;
        for position in positions(&self.logical()[2]) {
            let (image, output) = (position[0], position[1]);
            let group = output / (self.outputs / groups);
            let image = if self.batch_groups > 1 { image + group * (self.images / groups) } else { image };
            let mut sum = 0.0;
            for place in positions(&self.spatial(|axis| axis.window)) {
                let met = |number: usize| self.axes[number].element(position[2 + number], place[number]);
                let Some(elements) = (0..self.axes.len()).map(met).collect::<Option<Vec<usize>>>() else { continue };
                let taken = (0..self.axes.len()).map(|number| {
                    let axis = &self.axes[number];
                    if axis.reversed { axis.window - 1 - place[number] } else { place[number] }
                });
                let taken: Vec<usize> = taken.collect();
                for feature in 0..self.features {
                    let first = if self.feature_groups > 1 { group * self.features } else { 0 };
                    let from = laid(&[vec![image, first + feature], elements.clone()].concat(), &self.orders[0]);
                    let by = laid(&[vec![feature, output], taken.clone()].concat(), &self.orders[1]);
                    sum += lhs[flat(&from, &shapes[0])] * rhs[flat(&by, &shapes[1])];
                }
            }
            sums[flat(&laid(&position, &self.orders[2]), &shapes[2])] = sum;
        }
        sums
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn test_sums_of_whole_numbers_are_exact(case in a_case(), seed: u64) {
        let shapes = case.shapes();
        let values = |seed, shape: &[usize]| noise(seed, product(shape)).into_iter().map(|value| (value * 100.0) as i64);
        let lhs = integers(&shapes[0], values(seed, &shapes[0]));
        let rhs = integers(&shapes[1], values(seed ^ 1, &shapes[1]));
        let found = run("convolution", &[&lhs, &rhs], &kind(DType::Int32, &shapes[2]), &case.attributes());
        let expected = case.expected(&lhs.numbers().unwrap(), &rhs.numbers().unwrap());
        prop_assert_eq!(found.numbers().unwrap(), expected);
    }

    #[test]
    fn test_sums_of_floats_are_near(case in a_case(), seed: u64, dtype in 0usize..3) {
        let shapes = case.shapes();
        let dtype = [DType::Float32, DType::BFloat16, DType::Float8E4M3][dtype];
        let lhs = floats(dtype, &shapes[0], &noise(seed, product(&shapes[0])));
        let rhs = floats(dtype, &shapes[1], &noise(seed ^ 1, product(&shapes[1])));
        let found = run("convolution", &[&lhs, &rhs], &kind(DType::Float32, &shapes[2]), &case.attributes());
        let expected = case.expected(&lhs.numbers().unwrap(), &rhs.numbers().unwrap());
        for (found, expected) in found.numbers().unwrap().into_iter().zip(expected) {
            prop_assert!((found - expected).abs() <= 1e-5, "{found} is not {expected}");
        }
    }
}

const IMAGES: &str = r#"{"window_strides": [1], "padding": [[0, 0]], "lhs_dilation": [1], "rhs_dilation": [1],
    "lhs_layout": {"batch": 0, "spatial": [1], "feature": 2}, "out_layout": {"batch": 0, "spatial": [1], "feature": 2},
    "rhs_layout": {"spatial": [0], "input_feature": 1, "output_feature": 2}}"#;

/// A window that covers its image is one product along [position, feature].
#[test]
fn test_a_contraction_is_in_chains_along_positions_then_features() {
    let (lhs, rhs) = (noise(1, 2 * 30 * 9), noise(2, 30 * 9 * 4));
    let images = floats(DType::Float32, &[2, 30, 9], &lhs);
    let kernel = floats(DType::Float32, &[30, 9, 4], &rhs);
    let found = run("convolution", &[&images, &kernel], &kind(DType::Float32, &[2, 1, 4]), IMAGES);
    for (place, &value) in found.floats().unwrap().iter().enumerate() {
        let (image, output) = (place / 4, place % 4);
        let factor = |k: usize| (lhs[image * 270 + k], rhs[k * 4 + output]);
        let chain = |ks: std::ops::Range<usize>| ks.map(factor).fold(0.0f32, |sum, (x, y)| x.mul_add(y, sum));
        assert_eq!(value, chain(0..128) + chain(128..256) + chain(256..270));
    }
}

#[test]
fn test_paths_are_those_of_products() {
    let images = floats(DType::Float32, &[1, 5, 12], &noise(1, 60));
    let kernel = floats(DType::Float32, &[5, 12, 2], &noise(2, 120));
    let result = kind(DType::Float32, &[1, 1, 2]);
    let on = |path, images: &Tensor, kernel: &Tensor| {
        run_on(path, "convolution", &[images, kernel], std::slice::from_ref(&result), IMAGES).unwrap().remove(0)
    };
    let exact = on(MatmulPath::AsTyped, &images, &kernel).numbers().unwrap();
    let rounded = |tensor: &Tensor| floats(DType::BFloat16, tensor.shape(), &tensor.floats().unwrap());
    let brief = on(MatmulPath::Bf16, &images, &kernel);
    assert_eq!(brief, on(MatmulPath::AsTyped, &rounded(&images), &rounded(&kernel)));
    for (path, bound) in [(MatmulPath::Mxfp8, 0.5), (MatmulPath::Mxfp4, 3.0)] {
        let found = on(path, &images, &kernel).numbers().unwrap();
        assert_ne!(found, exact);
        assert!(found.iter().zip(&exact).all(|(x, y)| (x - y).abs() < bound), "{path}: {found:?} for {exact:?}");
    }
}

#[test]
fn test_layouts_and_groups_that_do_not_fit_are_refused() {
    let images = floats(DType::Float32, &[1, 5, 3], &[0.0; 15]);
    let kernel = floats(DType::Float32, &[2, 3, 4], &[0.0; 24]);
    let refused = |result: &TensorType, from: &str, to: &str| {
        refusal("convolution", &[&images, &kernel], std::slice::from_ref(result), &IMAGES.replacen(from, to, 1))
    };
    let result = kind(DType::Float32, &[1, 4, 4]);
    let found = refused(&kind(DType::Float32, &[1, 5, 4]), "", "");
    assert_eq!(found, "convolution: the result is float32[1, 5, 4]; its shape has to be [1, 4, 4]");
    let found = refused(&result, r#""padding": [[0, 0]]"#, r#""padding": []"#);
    assert_eq!(found, "convolution: padding has 0 entries for 1 spatial axes");
    let found = refused(&result, r#""feature": 2"#, r#""feature": 1"#);
    assert_eq!(found, "convolution: lhs_layout has the axes [0, 1, 1] of float32[1, 5, 3]; allowed: each axis once");
    let found = refused(&result, "{", r#"{"feature_groups": 2, "#);
    assert!(found.starts_with("convolution: feature_groups is 2 and batch_groups 1"), "{found}");
    let found = refused(&result, r#""window_strides": [1]"#, r#""window_strides": [0]"#);
    assert!(found.contains("are positive"), "{found}");
}
