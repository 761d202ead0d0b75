//! What a core keeps of each instruction of a long run, in bytes of the host's memory.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::copy::TensorCopy;
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::elementwise::TensorTensor;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::memory::Request;
use trn3_machine::site::Site;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;

/// Most bytes an instruction: when it ran and why, what it cost, moved and came after, the tensors that it used.
const MOST_BYTES: usize = 200;

fn tensor(core: &mut NeuronCore, name: &str, shape: &[usize], dtype: DType, buffer: Buffer) -> View {
    View::whole(core.allocate(&Request::unsited(name, shape, dtype, buffer)).expect("room"))
}

/// Rows of blocks: each is loaded, multiplied with a weight again and again, copied from PSUM and added up in new tiles.
fn run(blocks: usize, products: usize) -> NeuronCore {
    let arch = ArchSpec::shared("trn3").expect("a spec");
    let options = CoreOptions { values: false, ..CoreOptions::default() };
    let mut core = NeuronCore::new(Arc::clone(&arch), options).expect("a core");
    let sites: Vec<_> = (1..5)
        .map(|line| core.sites.intern(Site { file: "kernel.py".to_owned(), line, function: "kernel".to_owned() }))
        .collect();
    let at = |line: usize| At { site: sites[line], ..At::default() };
    let (square, wide) = ([128, 128], [128, 512]);
    let source = tensor(&mut core, "x", &[128, 512 * blocks], DType::BFloat16, Buffer::PrivateHbm);
    let weight = tensor(&mut core, "weight", &square, DType::BFloat16, Buffer::Sbuf);
    for block in 0..blocks {
        let moving = tensor(&mut core, "moving", &wide, DType::BFloat16, Buffer::Sbuf);
        let src = source.slice(1, 512 * block as i64, 512 * (block + 1) as i64, 1).expect("inside");
        let load = DmaCopy { dst: moving.clone(), src, options: Options::default(), engine: None };
        core.issue(&load, at(0)).expect("a load");
        let mut sum = tensor(&mut core, "sum", &wide, DType::Float32, Buffer::Sbuf);
        for _ in 0..products {
            let product = tensor(&mut core, "product", &wide, DType::Float32, Buffer::Psum);
            let matmul = NcMatmul {
                dst: product.clone(),
                stationary: weight.clone(),
                moving: moving.clone(),
                is_stationary_onezero: false,
                is_moving_onezero: false,
                is_transpose: false,
                accumulate: Some(false),
                tile: None,
                double_row: false,
            };
            core.issue(&matmul, at(1)).expect("a product");
            let copied = tensor(&mut core, "copied", &wide, DType::Float32, Buffer::Sbuf);
            let engine = Some(Engine::Scalar);
            core.issue(&TensorCopy { dst: copied.clone(), src: product, engine }, at(2)).expect("a copy");
            let next = tensor(&mut core, "sum", &wide, DType::Float32, Buffer::Sbuf);
            let add = TensorTensor { dst: next.clone(), data1: sum, data2: copied, op: AluOp::Add, engine: None };
            core.issue(&add, at(3)).expect("a sum");
            sum = next;
        }
    }
    core
}

#[test]
fn test_an_instruction_of_a_long_run_takes_at_most_so_many_bytes() {
    let mut core = run(520, 64);
    core.makespan();
    core.timeline.schedule();
    let count = core.issued() as usize;
    assert!(count > 100_000);
    let bytes = core.kept_bytes();
    assert!(bytes <= MOST_BYTES * count, "{} bytes an instruction", bytes as f64 / count as f64);
}

#[test]
fn test_what_is_kept_of_a_long_run_is_what_is_kept_of_a_short_one() {
    let [mut long, mut short] = [run(12, 64), run(1, 64)];
    long.makespan();
    short.makespan();
    let (longer, shorter) = (long.timeline.records(), short.timeline.records());
    assert!(longer.len() > 2048 && longer.iter().take(shorter.len() - 1).eq(shorter.iter().take(shorter.len() - 1)));
    for step in 0..shorter.len() - 1 {
        assert!(long.timeline.comes_after(step).eq(short.timeline.comes_after(step)), "{step}");
    }
}
