//! Ten hot paths, one a process, for counts of their instructions: `scripts/instructions.py` holds them to a table.
//!
//! `paths` runs each, `paths list` lists their names, `paths NAME` runs one, on one thread at the level of `TRN3_SIMD`. Each
//! does a fixed amount of work, large beside what a process takes to begin. Nothing is timed.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;

use half::bf16;
use trn3::embed::{Command, Device, DeviceSpec};
use trn3::numerics::{
    ArrayMut, ArrayView, Bias, CastOptions, Draws, Format, MxOptions, MxView, Overflow, Rounding, ScaleRule,
    SparseView, SparsityPattern, Xorwow, cast, compress, exp, matmul, matmul_mx, matmul_sparse, prune, quantize_mx,
    set_num_threads,
};
use trn3::planner::load::LoadRequest;

type Outcome = Result<(), Box<dyn Error>>;

const PATHS: [(&str, fn() -> Outcome); 10] = [
    ("cast", cast_nearest),
    ("cast_stochastic", cast_stochastic),
    ("quantize_mx", quantize),
    ("matmul_mx", product_mx),
    ("matmul_bf16", product_bf16),
    ("matmul_sparse", product_sparse),
    ("exp", exponentials),
    ("xorwow", draws),
    ("kernel_timing", kernel_timing),
    ("serving", serving),
];

/// Elements of the paths that go over an array once, and how often they do.
const COUNT: usize = 1 << 16;
const TIMES: usize = 32;
/// Rows, columns and contraction of products, and how often each is done.
const SIDE: usize = 256;
const PRODUCTS: usize = 2;
const INSTRUCTIONS: usize = 10_000;

/// -1 .. 1, in no order.
fn noise(count: usize) -> Vec<f32> {
    let hash = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    (0..count).map(|index| f32::from_bits(hash(index) >> 9 | 0x4000_0000) - 3.0).collect()
}

fn narrow(count: usize) -> Vec<bf16> {
    noise(count).into_iter().map(bf16::from_f32).collect()
}

fn cast_with(to: Format, rounding: Rounding, draws: Option<&[u32]>) -> Outcome {
    let values = noise(COUNT);
    let source = ArrayView::new(&values, &[COUNT])?.into();
    let mut bytes = vec![0; COUNT * to.item_size()];
    for _ in 0..TIMES {
        let out = ArrayMut::from_codes(to, &mut bytes, &[COUNT])?;
        cast(
            black_box(&source),
            out,
            CastOptions { rounding, overflow: Overflow::Ieee },
            draws.map_or(Draws::None, Draws::Given),
        )?;
    }
    black_box(&bytes);
    Ok(())
}

fn cast_nearest() -> Outcome {
    cast_with(Format::F8E4M3Fn, Rounding::Nearest, None)
}

fn cast_stochastic() -> Outcome {
    let draws: Vec<u32> = (0..COUNT as u32).map(|index| index.wrapping_mul(0x9e37_79b9)).collect();
    cast_with(Format::Bf16, Rounding::Stochastic, Some(&draws))
}

/// Elements and scales of a square of noise, blocked along an axis.
fn quantized(axis: usize, times: usize) -> Result<(Vec<u8>, Vec<u8>, [usize; 2]), Box<dyn Error>> {
    let values = noise(SIDE * SIDE);
    let x = ArrayView::new(&values, &[SIDE, SIDE])?;
    let (mut elements, mut scales) = (vec![0; SIDE * SIDE], vec![0; SIDE * SIDE / 32]);
    let mut scale_shape = [SIDE, SIDE];
    scale_shape[axis] /= 32;
    let options = MxOptions { scale_rule: ScaleRule::default_for(Format::F8E4M3Fn), rounding: Rounding::Nearest };
    for _ in 0..times {
        let elements = ArrayMut::from_codes(Format::F8E4M3Fn, &mut elements, &[SIDE, SIDE])?;
        let scales = ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &scale_shape)?;
        quantize_mx(black_box(&x), axis, elements, scales, options, Draws::None)?;
    }
    Ok((elements, scales, scale_shape))
}

fn quantize() -> Outcome {
    black_box(quantized(0, TIMES)?);
    Ok(())
}

fn product_mx() -> Outcome {
    let (a, b) = (quantized(1, 1)?, quantized(0, 1)?);
    let a = MxView {
        elements: ArrayView::from_codes(Format::F8E4M3Fn, &a.0, &[SIDE, SIDE])?,
        scales: ArrayView::from_codes(Format::F8E8M0Fnu, &a.1, &a.2)?,
        axis: 1,
    };
    let b = MxView {
        elements: ArrayView::from_codes(Format::F8E4M3Fn, &b.0, &[SIDE, SIDE])?,
        scales: ArrayView::from_codes(Format::F8E8M0Fnu, &b.1, &b.2)?,
        axis: 0,
    };
    let mut out = vec![0.0f32; SIDE * SIDE];
    for _ in 0..PRODUCTS {
        let out = ArrayMut::new(&mut out, &[SIDE, SIDE])?;
        matmul_mx(black_box(&a), &b, None, out, Rounding::Nearest, Draws::None)?;
    }
    black_box(&out);
    Ok(())
}

fn product_bf16() -> Outcome {
    let (a, b) = (narrow(SIDE * SIDE), narrow(SIDE * SIDE));
    let (a, b) = (ArrayView::new(&a, &[SIDE, SIDE])?, ArrayView::new(&b, &[SIDE, SIDE])?);
    let mut out = vec![0.0f32; SIDE * SIDE];
    for _ in 0..PRODUCTS {
        let out = ArrayMut::new(&mut out, &[SIDE, SIDE])?;
        matmul(black_box(&a), &b, None, out, Rounding::Nearest, Draws::None)?;
    }
    black_box(&out);
    Ok(())
}

fn product_sparse() -> Outcome {
    let (a, dense) = (narrow(SIDE * SIDE), narrow(SIDE * SIDE));
    let shape = [SIDE, SIDE];
    let a = ArrayView::new(&a, &shape)?;
    let pattern: SparsityPattern = "4:16".parse()?;
    let stored = pattern.compressed_shape(&shape, 0)?;
    let mut pruned = vec![bf16::ZERO; SIDE * SIDE];
    prune(&ArrayView::new(&dense, &shape)?, pattern, 0, ArrayMut::new(&mut pruned, &shape)?)?;
    let mut values = vec![bf16::ZERO; stored[0] * SIDE];
    let mut indices = vec![0; values.len()];
    compress(&ArrayView::new(&pruned, &shape)?, pattern, 0, ArrayMut::new(&mut values, &stored)?, &mut indices)?;
    let w = SparseView::new(ArrayView::new(&values, &stored)?, &indices, pattern, 0)?;
    let mut out = vec![0.0f32; SIDE * SIDE];
    for _ in 0..4 * PRODUCTS {
        let out = ArrayMut::new(&mut out, &shape)?;
        matmul_sparse(black_box(&a), &w, None, out, Rounding::Nearest, Draws::None)?;
    }
    black_box(&out);
    Ok(())
}

fn exponentials() -> Outcome {
    let shape = [COUNT / SIDE, SIDE];
    let values = noise(COUNT);
    let source = ArrayView::new(&values, &shape)?.into();
    let (mut out, mut sums) = (vec![bf16::ZERO; COUNT], vec![0.0; shape[0]]);
    for _ in 0..TIMES {
        let out = ArrayMut::new(&mut out, &shape)?;
        exp(black_box(&source), Bias::Scalar(0.5), out, Some(&mut sums))?;
    }
    black_box((&out, &sums));
    Ok(())
}

fn draws() -> Outcome {
    let mut generator = Xorwow::seed(0, 128, 1)?;
    let mut out = vec![0; COUNT];
    for _ in 0..TIMES {
        generator.uint32(COUNT / 128, black_box(&mut out))?;
    }
    Ok(())
}

/// A kernel of two tiles that are loaded, scaled and stored in turn: checks, hazards and times of its instructions, without
/// values.
fn kernel_timing() -> Outcome {
    let tile = |name: &str, space: &str, rest: &str| {
        format!(r#"{{"name": "{name}", "space": "{space}", "shape": [128, 512], "dtype": "float32", {rest}}}"#)
    };
    let tensors = [
        tile("x", "hbm", r#""role": "input""#),
        tile("out", "hbm", r#""role": "output""#),
        tile("t0", "sbuf", r#""address": [0, 0]"#),
        tile("t1", "sbuf", r#""address": [0, 2048]"#),
    ];
    let step = |number: usize| match (number % 3, number / 3 % 2) {
        (0, tile) => format!(r#"{{"op": "dma_copy", "dst": "t{tile}", "src": "x"}}"#),
        (1, tile) => format!(
            r#"{{"op": "tensor_scalar", "dst": "t{tile}", "data": "t{tile}", "op0": "multiply", "operand0": 2.0}}"#
        ),
        (_, tile) => format!(r#"{{"op": "dma_copy", "dst": "out", "src": "t{tile}"}}"#),
    };
    let steps: Vec<String> = (0..INSTRUCTIONS).map(step).collect();
    let text = format!(
        r#"{{"format": "trn3-program", "version": 1, "name": "paths", "tensors": [{}], "steps": [{}]}}"#,
        tensors.join(", "),
        steps.join(", ")
    );
    let mut device = Device::new(DeviceSpec { cores: 1, values: false, ..DeviceSpec::default() })?;
    let program = device.load(text.as_bytes())?;
    device.submit(Command::Run { core: 0, program }, 1)?;
    while let Some(next) = device.next_event() {
        device.advance(next)?;
    }
    black_box(device.poll());
    Ok(())
}

fn serving() -> Outcome {
    let request: LoadRequest = serde_json::from_str(
        r#"{"models": [{"plan": {"model": {"name": "llama-3-8b"}, "system": {"name": "trn2_instance"}, "tp": 4}}],
            "traffic": {"rate": 4, "input": 512, "output": 64, "requests": 20000}, "bands": false}"#,
    )?;
    black_box(request.serve()?.completed);
    Ok(())
}

fn main() -> Outcome {
    // Cargo gives benches options of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    set_num_threads(1)?;
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    for (name, path) in PATHS {
        match words.first().map(String::as_str) {
            Some("list") => writeln!(std::io::stdout(), "{name}")?,
            Some(word) if word != name => {}
            _ => path()?,
        }
    }
    Ok(())
}
