//! A kernel that a core ran: attention as a beginner writes it, in as many instructions as are wanted.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::accumulate::{ReduceCommand, Reduction};
use trn3_machine::isa::activation::Activation;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::copy::{Memset, TensorCopy};
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::elementwise::TensorTensor;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::isa::{Instruction, ScalarOperand};
use trn3_machine::memory::Request;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::trace::LoopKind;
use trn3_machine::view::View;

/// Blocks of keys that a block of queries meets.
const KEYS: i64 = 64;
/// Instructions of such a meeting.
const MEETING: usize = 8;

struct Kernel {
    core: NeuronCore,
}

impl Kernel {
    fn tensor(&mut self, name: &str, shape: [usize; 2], dtype: DType, buffer: Buffer, line: u32) -> View {
        let request = Request { site: SiteId(line), ..Request::unsited(name, &shape, dtype, buffer) };
        View::whole(self.core.allocate(&request).expect("places without limit"))
    }

    fn issue(&mut self, line: u32, instruction: &dyn Instruction) {
        let at = At { site: SiteId(line), ..At::default() };
        self.core.issue(instruction, at).expect("a correct instruction");
    }

    fn load(&mut self, line: u32, dst: &View, src: View) {
        self.issue(line, &DmaCopy { dst: dst.clone(), src, options: Options::default(), engine: None });
    }

    fn store(&mut self, line: u32, dst: View, src: &View) {
        self.issue(line, &DmaCopy { dst, src: src.clone(), options: Options::default(), engine: None });
    }

    fn copy(&mut self, line: u32, dst: &View, src: &View) {
        self.issue(line, &TensorCopy { dst: dst.clone(), src: src.clone(), engine: None });
    }

    fn add(&mut self, line: u32, dst: &View, one: &View, other: &View) {
        let [dst, data1, data2] = [dst, one, other].map(View::clone);
        self.issue(line, &TensorTensor { dst, data1, data2, op: AluOp::Add, engine: None });
    }

    fn exp(&mut self, line: u32, dst: &View, data: &View) {
        let reduction = Reduction::new(AluOp::Add, ReduceCommand::Idle, None);
        let (dst, data, op) = (dst.clone(), data.clone(), trn3_numerics::Activation::Exp);
        let (bias, scale) = (ScalarOperand::None, ScalarOperand::Constant(0.125));
        self.issue(line, &Activation { name: "activation", dst, op, data, bias, scale, reduction });
    }

    fn product(&mut self, line: u32, dst: &View, stationary: &View, moving: &View) {
        let [dst, stationary, moving] = [dst, stationary, moving].map(View::clone);
        let (is_stationary_onezero, is_moving_onezero, is_transpose, double_row) = (false, false, false, false);
        let (accumulate, tile) = (None, None);
        self.issue(
            line,
            &NcMatmul {
                dst,
                stationary,
                moving,
                is_stationary_onezero,
                is_moving_onezero,
                is_transpose,
                accumulate,
                tile,
                double_row,
            },
        );
    }
}

fn block(view: &View, dim: usize, number: i64, length: i64) -> View {
    view.slice(dim, number * length, (number + 1) * length, 1).expect("within the tensor")
}

/// A core that ran so many instructions, or up to a block of queries more, and kept their trace.
pub(crate) fn attention(steps: usize) -> NeuronCore {
    let options = CoreOptions { unlimited: true, values: false, nan_origin: false, ..CoreOptions::default() };
    let arch = Arc::new(ArchSpec::load("trn2").expect("built in"));
    let mut kernel = Kernel { core: NeuronCore::new(arch, options).expect("a core") };
    let blocks = steps.div_ceil(KEYS as usize * MEETING + 4) as i64;
    let [bf16, f32] = [DType::BFloat16, DType::Float32];
    let [sbuf, psum, hbm] = [Buffer::Sbuf, Buffer::Psum, Buffer::SharedHbm];
    let q = kernel.tensor("q", [128, blocks as usize * 128], bf16, hbm, 1);
    let k = kernel.tensor("k", [128, KEYS as usize * 128], bf16, hbm, 1);
    let v = kernel.tensor("v", [128, KEYS as usize * 128], bf16, hbm, 1);
    let out = kernel.tensor("out", [128, blocks as usize * 128], bf16, hbm, 2);
    kernel.core.begin_loop(LoopKind::Affine, Some(blocks as u32), SiteId(3));
    for row in 0..blocks {
        kernel.core.next_iteration();
        let queries = kernel.tensor("queries", [128, 128], bf16, sbuf, 4);
        kernel.load(5, &queries, block(&q, 1, row, 128));
        let total = kernel.tensor("total", [128, 128], f32, sbuf, 6);
        kernel.issue(7, &Memset { dst: total.clone(), value: 0.0, engine: None });
        kernel.core.begin_loop(LoopKind::Affine, Some(KEYS as u32), SiteId(8));
        for column in 0..KEYS {
            kernel.core.next_iteration();
            let keys = kernel.tensor("keys", [128, 128], bf16, sbuf, 9);
            kernel.load(10, &keys, block(&k, 1, column, 128));
            let scores = kernel.tensor("scores", [128, 128], f32, psum, 11);
            kernel.product(12, &scores, &keys, &queries);
            let copied = kernel.tensor("copied", [128, 128], f32, sbuf, 13);
            kernel.copy(14, &copied, &scores);
            let weights = kernel.tensor("weights", [128, 128], bf16, sbuf, 15);
            kernel.exp(16, &weights, &copied);
            let values = kernel.tensor("values", [128, 128], bf16, sbuf, 17);
            kernel.load(18, &values, block(&v, 1, column, 128));
            let mixed = kernel.tensor("mixed", [128, 128], f32, psum, 19);
            kernel.product(20, &mixed, &weights, &values);
            let wide = kernel.tensor("wide", [128, 128], f32, sbuf, 21);
            kernel.copy(22, &wide, &mixed);
            kernel.add(23, &total, &total, &wide);
        }
        kernel.core.end_loop();
        let narrow = kernel.tensor("narrow", [128, 128], bf16, sbuf, 24);
        kernel.copy(25, &narrow, &total);
        kernel.store(26, block(&out, 1, row, 128), &narrow);
    }
    kernel.core.end_loop();
    kernel.core
}
