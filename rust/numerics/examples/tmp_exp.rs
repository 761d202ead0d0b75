//! x
use half::{bf16, f16};
use std::time::Instant;
use trn3_numerics::*;
fn run<X: Element, Y: Element>(name: &str, x: &[X], zero: Y, shape: [usize; 2], with: bool) {
    let (mut y, mut sums) = (vec![zero; x.len()], vec![0.0; shape[0]]);
    let bias = vec![0.1; shape[0]];
    let source = ArrayView::new(x, &shape).unwrap().into();
    let reps = ((1usize << 24) / x.len()).clamp(3, 400);
    let mut best = f64::INFINITY;
    for _ in 0..reps {
        let t = Instant::now();
        let out = ArrayMut::new(&mut y, &shape).unwrap();
        exp(&source, Bias::PerRow(&bias), out, with.then_some(&mut sums[..])).unwrap();
        best = best.min(t.elapsed().as_secs_f64());
    }
    println!("{name} {shape:?} sums={with}: {:.4} ns", best / x.len() as f64 * 1e9);
}
fn inputs<T: Element>(count: usize, from: impl Fn(f32) -> T) -> Vec<T> {
    let hash = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    (0..count).map(|index| from(hash(index) as f32 / 2f32.powi(32) * 20.0 - 10.0)).collect()
}
fn main() {
    set_num_threads(std::env::args().nth(1).map_or(1, |a| a.parse().unwrap())).unwrap();
    for shape in [[1, 4096], [16, 4096], [64, 4096], [4096, 4096], [1024, 64], [65536, 1], [4096, 5]] {
        run("f32", &inputs(shape[0] * shape[1], |x| x), 0f32, shape, false);
    }
    let shape = [64, 1024];
    let n = 65536;
    run("f32-bf16", &inputs(n, |x| x), bf16::ZERO, shape, false);
    run("f32-f16", &inputs(n, |x| x), f16::ZERO, shape, false);
    run("bf16-f32", &inputs(n, bf16::from_f32), 0f32, shape, false);
    run("bf16-bf16", &inputs(n, bf16::from_f32), bf16::ZERO, shape, false);
    run("f16-f16", &inputs(n, f16::from_f32), f16::ZERO, shape, false);
    run("f32 -inf", &vec![f32::NEG_INFINITY; n], 0f32, shape, false);
    run("f32 -100", &vec![-100f32; n], 0f32, shape, false);
    run("f32 nan", &vec![f32::NAN; n], 0f32, shape, false);
    run("bf16 -inf", &vec![bf16::NEG_INFINITY; n], bf16::ZERO, shape, false);
    run("bf16 -100", &vec![bf16::from_f32(-90.0); n], bf16::ZERO, shape, false);
    for shape in [
        [1, 16384],
        [2, 8192],
        [3, 8192],
        [4, 4096],
        [5, 4096],
        [8, 2048],
        [16, 1024],
        [64, 1024],
        [64, 1040],
        [4096, 4096],
        [512, 32768],
        [512, 32784],
        [1, 1 << 20],
        [4, 1 << 18],
        [4096, 64],
        [4096, 5],
    ] {
        run("f32", &inputs(shape[0] * shape[1], |x| x), 0f32, shape, true);
        run("f32-bf16", &inputs(shape[0] * shape[1], |x| x), bf16::ZERO, shape, true);
    }
}
