//! One tile of a matrix product, [128, 128] x [128, 512] in bfloat16: the instruction beside the bare arithmetic.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::memory::Request;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, Rounding, matmul, set_num_threads};

const ROWS: usize = 128;
const COLUMNS: usize = 128;
const LENGTH: usize = 512;

fn values(count: usize) -> Vec<f32> {
    (0..count as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0 - 0.5).collect()
}

fn bfloat16(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_ne_bytes()).collect()
}

fn core_with(values_only: bool) -> trn3_machine::Result<(NeuronCore, [View; 3])> {
    let options = CoreOptions { timing: !values_only, ..CoreOptions::default() };
    let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), options)?;
    let mut tensor = |name: &str, shape: &[usize], dtype, buffer| {
        let request = Request { name, shape, dtype, buffer, address: None, site: SiteId::default() };
        core.allocate(&request).map(View::whole)
    };
    let stationary = tensor("stationary", &[ROWS, COLUMNS], DType::BFloat16, Buffer::Sbuf)?;
    let moving = tensor("moving", &[ROWS, LENGTH], DType::BFloat16, Buffer::Sbuf)?;
    let dst = tensor("dst", &[COLUMNS, LENGTH], DType::Float32, Buffer::Psum)?;
    core.state.write(&stationary, &values(ROWS * COLUMNS))?;
    core.state.write(&moving, &values(ROWS * LENGTH))?;
    Ok((core, [dst, stationary, moving]))
}

fn bare(criterion: &mut Criterion) {
    let (a, b) = (bfloat16(&values(ROWS * COLUMNS)), bfloat16(&values(ROWS * LENGTH)));
    let mut out = vec![0.0f32; COLUMNS * LENGTH];
    criterion.bench_function("numerics matmul 128x128x512 bfloat16", |bencher| {
        bencher.iter(|| {
            // As the array has it: the stationary operand with the contraction along its rows.
            let strides = [2, 2 * COLUMNS as isize];
            let a = ArrayView::strided(Format::Bf16, &a, 0, &[COLUMNS, ROWS], &strides, false).expect("a view");
            let b = ArrayView::from_codes(Format::Bf16, &b, &[ROWS, LENGTH]).expect("a view");
            let out = ArrayMut::new(&mut out, &[COLUMNS, LENGTH]).expect("an output");
            matmul(black_box(&a), black_box(&b), None, out, Rounding::Nearest, Draws::None).expect("a product");
        });
    });
}

fn instruction(criterion: &mut Criterion) {
    for (name, accumulate) in [("overwriting", Some(false)), ("accumulating", None)] {
        let (mut core, [dst, stationary, moving]) = core_with(true).expect("a core");
        let matmul = NcMatmul {
            dst,
            stationary,
            moving,
            is_stationary_onezero: false,
            is_moving_onezero: false,
            is_transpose: false,
            accumulate,
            tile: None,
            double_row: false,
        };
        criterion.bench_function(&format!("nc_matmul 128x128x512 bfloat16, {name}"), |bencher| {
            bencher.iter(|| core.issue(black_box(&matmul), At::default()).expect("an instruction"));
        });
    }
}

fn benches(criterion: &mut Criterion) {
    set_num_threads(1).expect("one thread");
    bare(criterion);
    instruction(criterion);
}

criterion_group!(tile_matmul, benches);
criterion_main!(tile_matmul);
