//! A generator gives stochastic rounding the draws it would have given out, and ends where it would have ended.

use trn3_numerics::{
    ArrayMut, ArrayView, CastOptions, Draws, Format, MxOptions, Overflow, Rounding, ScaleRule, SimdLevel, Xorwow, cast,
    matmul, quantize_mx, with_level,
};

/// The draws of a block of `total` elements, from a copy of the generator, which is left where it ends.
fn block(generator: &mut Xorwow, total: usize) -> Vec<u32> {
    let n = total.div_ceil(generator.lanes());
    let mut draws = vec![0; n * generator.lanes()];
    generator.uint32(n, &mut draws).expect("right length");
    draws.truncate(total);
    draws
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| (index as f32 * 0.618_034).sin() * 100.0).collect()
}

/// Runs `round` with a generator and with its draws given: same bits, same generator after.
fn check(lanes: usize, generators: usize, total: usize, round: impl Fn(Draws<'_>) -> Vec<u8>) {
    let mut generator = Xorwow::seed(7, lanes, generators).expect("allowed");
    generator.jump(5).expect("not interrupted");
    let mut copy = generator.clone();
    let draws = block(&mut copy, total);
    assert!(
        round(Draws::Given(&draws)) == round(Draws::Xorwow(&mut generator)),
        "{lanes} lanes, {generators} generators"
    );
    assert_eq!(generator, copy);
}

const STOCHASTIC: CastOptions = CastOptions { rounding: Rounding::Stochastic, overflow: Overflow::Ieee };

#[test]
fn test_cast_draws() {
    for (lanes, generators, count) in
        [(128, 1, 70_001), (128, 4, 999), (3, 1, 100_000), (1, 4, 40), (128, 1, 5), (7, 4, 0)]
    {
        let x = values(count);
        check(lanes, generators, count, |draws| {
            let mut words = vec![0u16; count];
            let out = ArrayMut::from_codes(Format::Bf16, bytemuck::cast_slice_mut(&mut words), &[count]).expect("fits");
            cast(&ArrayView::new(&x, &[count]).expect("fits").into(), out, STOCHASTIC, draws).expect("valid");
            bytemuck::cast_slice(&words).to_vec()
        });
    }
}

#[test]
fn test_cast_draws_as_it_rounds() {
    let formats = [Format::Bf16, Format::F16, Format::Tf32, Format::F8E4M3Fn, Format::F8E5M2, Format::F4E2M1Fn];
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        for format in formats {
            // Equal rows, short, long, and so long that each begins a line behind the one before.
            for (lanes, generators, row, offset) in
                [(16, 1, 48, 0), (33, 4, 1040, 3), (16, 4, 5 << 10, 12), (16, 1, 4096, 5)]
            {
                let count = lanes * row;
                let mut x = values(count + offset);
                x[offset..][..5].copy_from_slice(&[f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX, -0.0]);
                let x = ArrayView::new(&x[offset..], &[lanes, row]).expect("fits").into();
                check(lanes, generators, count, |draws| {
                    let mut words = vec![0u32; count];
                    let codes = &mut bytemuck::cast_slice_mut(&mut words)[..count * format.item_size()];
                    let out = ArrayMut::from_codes(format, codes, &[lanes, row]).expect("fits");
                    with_level(level, || cast(&x, out, STOCHASTIC, draws)).expect("available").expect("valid");
                    bytemuck::cast_slice(&words).to_vec()
                });
            }
        }
    }
}

#[test]
fn test_quantize_draws_in_slabs_and_wide_units() {
    // The last one is a unit too wide for one slab of draws.
    for (shape, axis) in [([64, 96], 0), ([96, 64], 1), ([1024, 4224], 1), ([1056, 4100], 0), ([32, 140_000], 0)] {
        let count = shape[0] * shape[1];
        let x = values(count);
        let mut scale_shape = shape;
        scale_shape[axis] /= 32;
        check(128, 1, count, |draws| {
            let (mut elements, mut scales) = (vec![0u8; count], vec![0u8; count / 32]);
            let options = MxOptions { scale_rule: ScaleRule::Ocp, rounding: Rounding::Stochastic };
            quantize_mx(
                &ArrayView::new(&x, &shape).expect("fits"),
                axis,
                ArrayMut::from_codes(Format::F4E2M1Fn, &mut elements, &shape).expect("fits"),
                ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &scale_shape).expect("fits"),
                options,
                draws,
            )
            .expect("valid");
            elements.extend(scales);
            elements
        });
    }
}

#[test]
fn test_matmul_draws_by_tile_batch_row_column() {
    for (batch, m, k, n) in [(1, 40, 300, 33), (3, 5, 129, 7), (2, 2100, 130, 2050)] {
        let (a, b) = (values(batch * m * k), values(batch * k * n));
        let (a_shape, b_shape, shape) = ([batch, m, k], [batch, k, n], [batch, m, n]);
        check(128, 4, batch * m * n * k.div_ceil(128), |draws| {
            let mut words = vec![0u16; batch * m * n];
            matmul(
                &ArrayView::new(&a, &a_shape).expect("fits"),
                &ArrayView::new(&b, &b_shape).expect("fits"),
                None,
                ArrayMut::from_codes(Format::Bf16, bytemuck::cast_slice_mut(&mut words), &shape).expect("fits"),
                Rounding::Stochastic,
                draws,
            )
            .expect("valid");
            bytemuck::cast_slice(&words).to_vec()
        });
    }
}
