//! The skip-zero product: every level against the scalar definition, and that against a naive chain.

use half::bf16;
use proptest::prelude::*;
use trn3_numerics::{
    ArrayMut, ArrayView, Draws, Error, Format, Rounding, SimdLevel, SparseView, SparsityPattern, Xorwow, matmul,
    matmul_sparse, set_num_threads, with_level,
};

fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|level| level.is_available())
}

fn noise(count: usize, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count).map(|_| next()).collect()
}

/// An array of codes, one to a word, with what a view of it needs.
#[derive(Clone, Debug)]
struct Matrix {
    format: Format,
    shape: Vec<usize>,
    codes: Vec<u32>,
    /// Bytes as they lie in memory: C order, or the last two axes exchanged.
    words: Vec<u64>,
    transposed: bool,
}

impl Matrix {
    fn new(format: Format, shape: &[usize], codes: Vec<u32>, transposed: bool) -> Self {
        let (rows, columns) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        let item = format.item_size();
        let mut words = vec![0u64; (codes.len() * item).div_ceil(8)];
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(&mut words);
        for (at, code) in codes.iter().enumerate() {
            let (matrix, place) = (at / (rows * columns), at % (rows * columns));
            let place = if transposed { place % columns * rows + place / columns } else { place };
            let at = (matrix * rows * columns + place) * item;
            bytes[at..at + item].copy_from_slice(&code.to_ne_bytes()[..item]);
        }
        Self { format, shape: shape.to_vec(), codes, words, transposed }
    }

    fn view(&self) -> ArrayView<'_> {
        let rank = self.shape.len();
        let item = self.format.item_size() as isize;
        let mut strides = vec![item; rank];
        for axis in (0..rank - 1).rev() {
            strides[axis] = strides[axis + 1] * self.shape[axis + 1] as isize;
        }
        if self.transposed {
            strides[rank - 1] = self.shape[rank - 2] as isize * item;
            strides[rank - 2] = item;
        }
        let bytes = bytemuck::cast_slice(&self.words);
        ArrayView::strided(self.format, bytes, 0, &self.shape, &strides, false).expect("inside")
    }

    fn value(&self, at: usize) -> f32 {
        match self.format {
            Format::F32 | Format::Tf32 => f32::from_bits(self.codes[at]),
            format => format.decode_code(self.codes[at]),
        }
    }
}

/// What values an operand has.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Exponents around this one.
    Around(i32),
    /// Any code: infinities, NaN with payloads, subnormals.
    Any,
    /// Mostly ordinary numbers, some infinite or NaN.
    Spoilt,
}

/// Codes; about one in `zero_in` is a zero of either sign.
fn codes(format: Format, count: usize, seed: u32, kind: Kind, zero_in: u32) -> Vec<u32> {
    let spec = format.spec();
    let shift = if format == Format::Tf32 { 13 } else { 0 };
    let (sign, magnitude) = (1u32 << (spec.bits - 1), (1u32 << (spec.bits - 1)) - 1);
    let code = |[bits, other]: [u32; 2]| {
        let special = spec.infinity.or(spec.nan).unwrap_or(spec.max_code);
        let around = |exponent: i32| {
            let low = 1 - spec.bias;
            let high = spec.max_exponent() - 1;
            let field = (exponent + (other >> 8) as i32 % 4).clamp(low, high) + spec.bias;
            (field as u32) << spec.mantissa_bits | bits & ((1 << spec.mantissa_bits) - 1)
        };
        let code = match kind {
            _ if other % zero_in == 0 => 0,
            Kind::Any => bits & magnitude,
            Kind::Spoilt if other >> 8 & 7 == 0 => special + (bits >> 8 & 1).min(magnitude - special),
            Kind::Spoilt => around(0),
            Kind::Around(exponent) => around(exponent),
        };
        (bits & sign | code) << shift
    };
    noise(2 * count, seed).as_chunks::<2>().0.iter().map(|&pair| code(pair)).collect()
}

#[derive(Clone, Debug)]
struct Case {
    batch: Vec<usize>,
    m: usize,
    groups: usize,
    n: usize,
    pattern: SparsityPattern,
    a: Format,
    w: Format,
    out: Format,
    rounding: Rounding,
    with_c: bool,
    transposed: bool,
    kinds: [Kind; 2],
    /// One slot in so many is unused.
    unused: u32,
}

fn base() -> Case {
    Case {
        batch: Vec::new(),
        m: 13,
        groups: 20,
        n: 50,
        pattern: pattern("4:16"),
        a: Format::Bf16,
        w: Format::Bf16,
        out: Format::F32,
        rounding: Rounding::Nearest,
        with_c: false,
        transposed: false,
        kinds: [Kind::Around(0); 2],
        unused: 10,
    }
}

fn pattern(name: &str) -> SparsityPattern {
    name.parse().expect("a pattern")
}

struct Operands {
    a: Matrix,
    values: Matrix,
    indices: Vec<u8>,
    c: Matrix,
    draws: Vec<u32>,
    shape: Vec<usize>,
}

impl Case {
    fn k(&self) -> usize {
        self.groups * self.pattern.group()
    }

    fn operands(&self) -> Operands {
        let (keep, group) = (self.pattern.keep(), self.pattern.group());
        let shape: Vec<usize> = self.batch.iter().copied().chain([self.m, self.n]).collect();
        let count: usize = shape.iter().product();
        let a_shape: Vec<usize> = self.batch.iter().copied().chain([self.m, self.k()]).collect();
        let a_codes = codes(self.a, a_shape.iter().product(), 1, self.kinds[0], 9);
        let slots = self.groups * keep * self.n;
        let mut indices = vec![0; slots];
        for (at, lane) in noise(self.groups * self.n, 5).into_iter().enumerate() {
            // The first M of a shuffle, sorted.
            let mut order: Vec<u8> = (0..group as u8).collect();
            let mut state = lane;
            for place in 0..keep {
                order.swap(place, place + state as usize % (group - place));
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) >> 3;
            }
            order[..keep].sort_unstable();
            let (along, column) = (at / self.n, at % self.n);
            for slot in 0..keep {
                indices[(along * keep + slot) * self.n + column] = order[slot];
            }
        }
        let value_codes = codes(self.w, slots, 2, self.kinds[1], self.unused);
        Operands {
            a: Matrix::new(self.a, &a_shape, a_codes, self.transposed),
            values: Matrix::new(self.w, &[self.groups * keep, self.n], value_codes, self.transposed),
            indices,
            c: Matrix::new(Format::F32, &shape, codes(Format::F32, count, 3, Kind::Around(3), 9), self.transposed),
            draws: noise(count * self.k().div_ceil(128), 9),
            shape,
        }
    }

    fn run(&self, operands: &Operands, level: SimdLevel) -> Vec<u32> {
        let count: usize = operands.shape.iter().product();
        let mut words = vec![0xdead_beefu32; count];
        let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..count * self.out.item_size()];
        let w = SparseView::new(operands.values.view(), &operands.indices, self.pattern, 0).expect("sound");
        let (a, c) = (operands.a.view(), operands.c.view());
        let draws = if self.rounding == Rounding::Stochastic { Draws::Given(&operands.draws) } else { Draws::None };
        with_level(level, || {
            let out = ArrayMut::from_codes(self.out, bytes, &operands.shape).expect("aligned");
            matmul_sparse(&a, &w, self.with_c.then_some(&c), out, self.rounding, draws).expect("valid call");
        })
        .expect("available");
        bytes
            .chunks(self.out.item_size())
            .map(|code| code.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte)))
            .collect()
    }

    /// The contract, output by output, for roundings that float32 and the `half` crate do.
    fn naive(&self, operands: &Operands) -> Vec<u32> {
        let (keep, group, k, n) = (self.pattern.keep(), self.pattern.group(), self.k(), self.n);
        let outputs = operands.shape.iter().product();
        let rounded = |value: f32| if self.out == Format::Bf16 { f32::from(bf16::from_f32(value)) } else { value };
        let output = |at: usize| {
            let (row, column) = (at / n, at % n);
            let mut accumulator = self.with_c.then(|| operands.c.value(at));
            for tile in (0..k).step_by(128) {
                let mut sum = 0.0f32;
                for slot in 0..self.groups * keep {
                    let place = slot * n + column;
                    let at = slot / keep * group + usize::from(operands.indices[place]);
                    let value = operands.values.value(place);
                    if (tile..tile + 128).contains(&at) && value != 0.0 {
                        sum = operands.a.value(row * k + at).mul_add(value, sum);
                    }
                }
                accumulator = Some(rounded(accumulator.map_or(sum, |accumulator| accumulator + sum)));
            }
            let value = rounded(accumulator.unwrap_or(0.0));
            let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
            if self.out == Format::Bf16 { bits >> 16 } else { bits }
        };
        (0..outputs).map(output).collect()
    }

    fn check(&self) {
        self.check_with(&[]);
    }

    /// Checks the levels with each of these numbers of threads, or the one that is set.
    fn check_with(&self, threads: &[usize]) {
        let operands = self.operands();
        let expected = self.run(&operands, SimdLevel::Scalar);
        if self.rounding == Rounding::Nearest {
            assert!(self.naive(&operands) == expected, "scalar {self:?}");
        }
        let check_levels = || {
            for level in levels() {
                let got = self.run(&operands, level);
                let differs = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                if let Some(at) = differs {
                    panic!("{level} {self:?}: output {at} is {:#x}, not {:#x}", got[at], expected[at]);
                }
            }
        };
        if threads.is_empty() {
            check_levels();
        }
        for &count in threads {
            set_num_threads(count).expect("some threads");
            check_levels();
        }
    }
}

#[test]
fn test_every_pattern_over_several_tiles() {
    for name in ["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"] {
        let pattern = pattern(name);
        for k in [pattern.group(), 120, 240, 528, 1008] {
            let groups = k / pattern.group();
            Case { pattern, groups, ..base() }.check();
            Case { pattern, groups, with_c: true, out: Format::Bf16, ..base() }.check();
            Case { pattern, groups, a: Format::F32, w: Format::F32, unused: u32::MAX, ..base() }.check();
        }
    }
}

#[test]
fn test_every_pair_of_formats() {
    let narrow =
        [Format::F16, Format::Bf16, Format::F8E4M3Fn, Format::F8E5M2, Format::F8E4M3, Format::F8E3M4].map(Some);
    for a in narrow.into_iter().flatten() {
        for w in narrow.into_iter().flatten() {
            Case { a, w, ..base() }.check();
        }
    }
    for (a, w) in [(Format::F32, Format::Tf32), (Format::Tf32, Format::F32), (Format::Tf32, Format::Tf32)] {
        Case { a, w, ..base() }.check();
    }
}

#[test]
fn test_every_number_of_rows_and_columns() {
    for m in [1, 15, 16, 17, 32, 33, 49, 63, 64, 65, 112, 127, 128, 129, 200, 257] {
        Case { m, n: 5, groups: 9, ..base() }.check();
    }
    for n in [1, 2, 3, 63, 64, 65, 129, 1025] {
        Case { m: 3, n, groups: 9, ..base() }.check();
    }
}

#[test]
fn test_roundings_batches_and_layouts() {
    for batch in [vec![], vec![3], vec![2, 2]] {
        for transposed in [false, true] {
            for with_c in [false, true] {
                let case = Case { batch: batch.clone(), transposed, with_c, ..base() };
                case.check();
                for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Stochastic] {
                    Case { rounding, out: Format::Bf16, ..case.clone() }.check();
                }
            }
        }
    }
}

#[test]
fn test_codes_of_every_kind() {
    for (a, w) in [(Format::Bf16, Format::Bf16), (Format::F32, Format::F32), (Format::F8E5M2, Format::F16)] {
        for out in [Format::F32, Format::Bf16] {
            Case { a, w, out, kinds: [Kind::Any; 2], with_c: true, ..base() }.check();
            Case { a, w, out, kinds: [Kind::Spoilt, Kind::Around(0)], ..base() }.check();
            Case { a, w, out, kinds: [Kind::Around(0), Kind::Spoilt], ..base() }.check();
        }
    }
}

#[test]
fn test_results_around_the_smallest_normal_number() {
    for exponent in [-90, -75, -68, -67, -66, -60, -56, -55, -54, -53, -52, -51, -50, -40] {
        for a in [Format::Bf16, Format::F32] {
            Case { a, w: a, kinds: [Kind::Around(-60), Kind::Around(exponent)], ..base() }.check();
        }
    }
}

#[test]
fn test_empty_shapes() {
    for (m, groups, n) in [(0, 2, 3), (3, 2, 0), (3, 0, 4), (0, 0, 0)] {
        for with_c in [false, true] {
            for out in [Format::F32, Format::Bf16] {
                Case { m, groups, n, with_c, out, ..base() }.check();
            }
        }
    }
}

#[test]
fn test_several_tasks_and_visits_on_any_number_of_threads() {
    let threads = [1, 2, 3, 8];
    // Rows and columns of several tasks; lists made in several parts along the columns and along k.
    Case { m: 150, groups: 9, n: 600, ..base() }.check_with(&threads);
    let several = Case { m: 3, groups: 330, n: 4200, pattern: pattern("1:2"), with_c: true, ..base() };
    several.check_with(&threads);
    Case { groups: 300, out: Format::Bf16, rounding: Rounding::Stochastic, ..several }.check_with(&[2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn test_any_product(
        m in 1usize..40,
        groups in 1usize..40,
        n in 1usize..70,
        pattern in prop::sample::select(SparsityPattern::ALL.to_vec()),
        formats in prop::sample::select(vec![
            (Format::Bf16, Format::Bf16), (Format::F8E4M3Fn, Format::Bf16), (Format::F16, Format::F8E5M2),
            (Format::F8E4M3, Format::F8E3M4), (Format::F32, Format::F32), (Format::F32, Format::Tf32),
        ]),
        out in prop::sample::select(vec![Format::F32, Format::Bf16]),
        with_c: bool,
        transposed: bool,
        unused in prop::sample::select(vec![1u32, 2, 5, u32::MAX]),
        exponents in (-70i32..20, -70i32..20),
    ) {
        let kinds = [Kind::Around(exponents.0), Kind::Around(exponents.1)];
        let (a, w) = formats;
        Case { m, groups, n, pattern, a, w, out, with_c, transposed, unused, kinds, ..base() }.check();
    }

    #[test]
    fn test_equals_the_dense_product_for_finite_values(
        m in 1usize..20,
        groups in 1usize..20,
        n in 1usize..40,
        pattern in prop::sample::select(SparsityPattern::ALL.to_vec()),
    ) {
        let case = Case { m, groups, n, pattern, ..base() };
        let operands = case.operands();
        let w = SparseView::new(operands.values.view(), &operands.indices, pattern, 0).expect("sound");
        let mut dense = vec![bf16::ZERO; case.k() * n];
        w.to_dense(ArrayMut::new(&mut dense, &[case.k(), n]).expect("whole")).expect("valid call");
        let dense = ArrayView::new(&dense, &[case.k(), n]).expect("whole");
        for level in levels() {
            let mut product = vec![0.0f32; m * n];
            with_level(level, || {
                let out = ArrayMut::new(&mut product, &[m, n]).expect("whole");
                matmul(&operands.a.view(), &dense, None, out, Rounding::Nearest, Draws::None).expect("valid call");
            })
            .expect("available");
            // Adding +0 leaves the sign of a zero as the one thing that may differ.
            let expected: Vec<u32> = product.iter().map(|value| (value + 0.0).to_bits()).collect();
            let got = case.run(&operands, level);
            let got: Vec<u32> = got.into_iter().map(|bits| (f32::from_bits(bits) + 0.0).to_bits()).collect();
            prop_assert!(got == expected, "{level} {case:?}");
        }
    }
}

#[test]
fn test_draws_of_a_generator_are_those_it_would_give() {
    let case = Case { rounding: Rounding::Stochastic, out: Format::Bf16, groups: 24, batch: vec![2], ..base() };
    let mut operands = case.operands();
    let mut reference = Xorwow::seed(7, 6, 1).expect("a seed");
    let count = operands.draws.len();
    let mut drawn = vec![0; count.div_ceil(6) * 6];
    reference.uint32(count.div_ceil(6), &mut drawn).expect("whole lanes");
    operands.draws = drawn[..count].to_vec();
    let expected = case.run(&operands, SimdLevel::Scalar);
    for level in levels() {
        let mut rng = Xorwow::seed(7, 6, 1).expect("a seed");
        let mut out = vec![bf16::ZERO; operands.shape.iter().product()];
        let w = SparseView::new(operands.values.view(), &operands.indices, case.pattern, 0).expect("sound");
        with_level(level, || {
            let out = ArrayMut::new(&mut out, &operands.shape).expect("whole");
            let draws = Draws::Xorwow(&mut rng);
            matmul_sparse(&operands.a.view(), &w, None, out, Rounding::Stochastic, draws).expect("valid call");
        })
        .expect("available");
        let got: Vec<u32> = out.iter().map(|value| value.to_bits().into()).collect();
        assert!(got == expected, "{level}");
        assert!(rng == reference, "{level}: the generator advances by the draws used");
    }
}

fn message(result: Result<(), Error>) -> String {
    result.expect_err("a refused call").to_string()
}

#[test]
fn test_operands_that_do_not_fit_are_named() {
    let dense = vec![bf16::ZERO; 48 * 48];
    let wide = vec![0.0f32; 48 * 48];
    let view = |shape: &[usize]| ArrayView::new(&dense[..shape.iter().product()], shape).expect("whole");
    let ascending: Vec<u8> = (0..128).map(|slot| slot % 4).collect();
    let along_columns = SparseView::new(view(&[32, 4]), &ascending, pattern("4:16"), 1).expect("sound");
    let refuse = |a: &ArrayView<'_>, w: &SparseView<'_>| {
        let mut out = [0.0f32; 48];
        let out = ArrayMut::new(&mut out[..6], &[2, 3]).expect("whole");
        message(matmul_sparse(a, w, None, out, Rounding::Nearest, Draws::None))
    };
    assert_eq!(
        refuse(&view(&[2, 32]), &along_columns),
        "w.axis is 1 (-1); w must be compressed along the contraction axis, 0 (-2)"
    );
    let indices: Vec<u8> = (0..8).flat_map(|slot| [slot % 4; 3]).collect();
    let w = SparseView::new(view(&[8, 3]), &indices, pattern("4:16"), 0).expect("sound");
    assert_eq!(
        refuse(&view(&[2, 48]), &w),
        "a has shape [2, 48]; its last axis must be 32 long, as w's first in shape [32, 3]"
    );
    assert_eq!(refuse(&view(&[32]), &w), "a has shape [32]; it needs at least two axes");
    assert_eq!(refuse(&view(&[4, 32]), &w), "out has shape [2, 3]; it must have shape [4, 3]");
    let a = ArrayView::new(&wide[..64], &[2, 32]).expect("whole");
    assert!(refuse(&a, &w).starts_with("w has dtype bfloat16 where a has float32; allowed: "));
    let line = SparseView::new(view(&[8]), &[1; 8], pattern("1:2"), 0).expect("sound");
    assert_eq!(refuse(&view(&[2, 16]), &line), "w has shape [16]; it needs exactly two axes, [K, N]");
    let fp4 = ArrayView::from_codes(Format::F4E2M1Fn, &[0; 64], &[2, 32]).expect("whole");
    assert!(refuse(&fp4, &w).starts_with("a has dtype float4_e2m1fn; allowed: bfloat16, "));
}
