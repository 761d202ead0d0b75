//! What VectorE and ScalarE instructions cost, against published single-instruction measurements and documented rates.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::accumulate::{ReduceCommand, Reduction};
use trn3_machine::isa::activation::Activation;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::elementwise::{Reciprocal, ScalarTensorTensor, TensorTensor};
use trn3_machine::isa::exponential::Exponential;
use trn3_machine::isa::quantize::QuantizeMx;
use trn3_machine::isa::reduce::TensorReduce;
use trn3_machine::isa::scan::TensorTensorScan;
use trn3_machine::isa::statistics::BnAggr;
use trn3_machine::isa::tensor_scalar::{TensorScalar, TensorScalarReduce};
use trn3_machine::isa::{Instruction, ScalarOperand};
use trn3_machine::memory::{Memory, MemoryOptions, Request};
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::work::Work;
use trn3_machine::view::View;
use trn3_numerics::Activation as Function;

struct Bench {
    arch: Arc<ArchSpec>,
    memory: Memory,
}

impl Bench {
    fn new(arch: &str) -> Self {
        let arch = Arc::new(ArchSpec::load(arch).expect("built in"));
        Self { memory: Memory::new(&arch, MemoryOptions::default()), arch }
    }

    fn tile(&mut self, columns: usize, dtype: DType, buffer: Buffer) -> View {
        let request =
            Request { name: "t", shape: &[128, columns], dtype, buffer, address: None, site: SiteId::default() };
        View::whole(self.memory.allocate(&request).expect("fits"))
    }

    fn sbuf(&mut self, columns: usize, dtype: DType) -> View {
        self.tile(columns, dtype, Buffer::Sbuf)
    }

    /// Interval and latency in nanoseconds.
    fn times(&self, instruction: &dyn Instruction) -> (f64, f64) {
        instruction.check(&self.arch).expect("legal");
        match instruction.work(&self.arch) {
            Work::Compute { interval, latency, .. } => (interval.0 as f64 / 1e3, latency.0 as f64 / 1e3),
            other => panic!("{other:?} is no work of a compute engine"),
        }
    }

    fn cycles(&self, instruction: &dyn Instruction, megahertz: u64) -> u64 {
        (self.times(instruction).0 * megahertz as f64 / 1e3).round() as u64
    }
}

fn tensor_tensor(dst: View, data1: View, data2: View, op: AluOp) -> TensorTensor {
    TensorTensor { dst, data1, data2, op, engine: None }
}

fn activation(dst: View, data: View, op: Function, result: Option<View>) -> Activation {
    let reduction = Reduction::new(AluOp::Add, ReduceCommand::ResetReduce, result);
    Activation { name: "activation", dst, op, data, bias: ScalarOperand::None, scale: ScalarOperand::None, reduction }
}

#[track_caller]
fn assert_published(got: f64, published: f64) {
    assert!((got / published - 1.0).abs() < 0.03, "{got} ns for published {published} ns");
}

#[test]
fn test_tensor_tensor_latency_is_as_published() {
    let mut trn1 = Bench::new("trn1");
    let [dst, x, y] = [(); 3].map(|()| trn1.sbuf(8192, DType::Float32));
    assert_published(trn1.times(&tensor_tensor(dst, x, y, AluOp::Add)).1, 14_968.0);
    let mut trn2 = Bench::new("trn2");
    let (dst, x) = (trn2.sbuf(512, DType::Float32), trn2.sbuf(512, DType::Float32));
    let y = trn2.tile(512, DType::Float32, Buffer::Psum);
    assert_published(trn2.times(&tensor_tensor(dst, x, y, AluOp::Add)).1, 688.0);
}

#[test]
fn test_activation_latency_is_as_published() {
    let mut trn2 = Bench::new("trn2");
    for (columns, published) in [(4096, 3710.0), (128, 403.0)] {
        let (dst, data) = (trn2.sbuf(columns, DType::BFloat16), trn2.sbuf(columns, DType::BFloat16));
        assert_published(trn2.times(&activation(dst, data, Function::Exp, None)).1, published);
    }
    let mut trn1 = Bench::new("trn1");
    let (dst, data) = (trn1.sbuf(1, DType::Float32), trn1.sbuf(1, DType::Float32));
    let (_, latency) = trn1.times(&activation(dst, data, Function::Exp, None));
    assert_published(latency, 159.0);
    assert_published(latency + trn1.arch.same_engine_ns, 189.0);
}

#[test]
fn test_functions_need_tables_of_their_own() {
    let mut bench = Bench::new("trn3");
    let (dst, data) = (bench.sbuf(8, DType::Float32), bench.sbuf(8, DType::Float32));
    let mut seen = Vec::new();
    for op in Function::ALL.into_iter().filter(|op| *op != Function::Prelu) {
        let Work::Compute { table, .. } = activation(dst.clone(), data.clone(), op, None).work(&bench.arch) else {
            panic!("work of a compute engine")
        };
        let is_plain = matches!(op.name(), "copy" | "relu" | "square" | "abs" | "sign");
        assert_eq!(table.is_none(), is_plain, "{op}");
        assert!(table.is_none() || !seen.contains(&table), "{op}");
        seen.push(table);
    }
}

#[test]
fn test_reading_running_values_costs_cycles() {
    let mut bench = Bench::new("trn3");
    let (dst, data) = (bench.sbuf(512, DType::BFloat16), bench.sbuf(512, DType::BFloat16));
    let result = bench.sbuf(1, DType::Float32);
    let silent = activation(dst.clone(), data.clone(), Function::Exp, None);
    let reading = activation(dst.clone(), data.clone(), Function::Exp, Some(result.clone()));
    assert_eq!((bench.cycles(&silent, 1200), bench.cycles(&reading, 1200)), (512, 576));
    let mut reduce = TensorScalarReduce {
        dst,
        data,
        op0: AluOp::Add,
        operand0: ScalarOperand::Constant(1.0),
        reverse0: false,
        reduction: Reduction::new(AluOp::Add, ReduceCommand::ResetReduce, Some(result)),
    };
    assert_eq!(bench.cycles(&reduce, 1200), 576);
    reduce.reduction.result = None;
    assert_eq!(bench.cycles(&reduce, 1200), 512);
}

#[test]
fn test_tensor_tensor_rates_by_type_and_generation() {
    use DType::{BFloat16, Float8E4M3, Float16, Float32};
    // Cycles for 512 elements: bfloat16, float16, float8, float32; add.
    for (arch, megahertz, expected) in [
        ("trn1", 1120, [512, 1024, 1024, 1024]),
        ("trn2", 960, [512, 512, 1024, 1024]),
        ("trn3", 1200, [512, 512, 512, 1024]),
    ] {
        let mut bench = Bench::new(arch);
        let got = [BFloat16, Float16, Float8E4M3, Float32].map(|dtype| {
            let [dst, x, y] = [(); 3].map(|()| bench.sbuf(512, dtype));
            bench.cycles(&tensor_tensor(dst, x, y, AluOp::Add), megahertz)
        });
        assert_eq!(got, expected, "{arch}");
    }
    let mut trn1 = Bench::new("trn1");
    let [dst, x, y] = [(); 3].map(|()| trn1.sbuf(512, DType::BFloat16));
    assert_eq!(trn1.cycles(&tensor_tensor(dst, x, y, AluOp::Maximum), 1120), 1024);
}

#[test]
fn test_documented_cycles_on_trn3() {
    let mut bench = Bench::new("trn3");
    let tiles = |bench: &mut Bench, count: usize, dtype: DType| -> Vec<View> {
        (0..count).map(|_| bench.sbuf(512, dtype)).collect()
    };
    let f = tiles(&mut bench, 3, DType::Float32);
    let b = tiles(&mut bench, 3, DType::BFloat16);
    let i = tiles(&mut bench, 3, DType::Int32);
    let [f0, f1, f2] = [0, 1, 2].map(|at: usize| f[at].clone());
    let (b0, b1) = (b[0].clone(), b[1].clone());
    let (row, row16) = (bench.sbuf(1, DType::Float32), bench.sbuf(1, DType::BFloat16));
    let pair = bench.sbuf(2, DType::Float32);
    let triples = bench.sbuf(510, DType::Float32);
    let (packed, scales) = (bench.sbuf(128, DType::Float8E4M3FnX4), bench.sbuf(128, DType::UInt8));
    let reduce = |dst: &View, data: &View, op| TensorReduce {
        dst: dst.clone(),
        op,
        data: data.clone(),
        axes: [1].as_slice().into(),
        negate: false,
        keepdims: false,
    };
    let scalar = |dst: &View, data: &View, op0, engine| TensorScalar {
        dst: dst.clone(),
        data: data.clone(),
        op0,
        operand0: if op0 == AluOp::Rsqrt { ScalarOperand::None } else { ScalarOperand::Constant(2.0) },
        reverse0: false,
        op1: None,
        operand1: ScalarOperand::None,
        reverse1: false,
        engine,
    };
    let exponential = |dst: &View, src: &View| Exponential {
        dst: dst.clone(),
        src: src.clone(),
        max_value: ScalarOperand::None,
        reduction: Reduction::new(AluOp::Add, ReduceCommand::Idle, None),
    };
    let stt = ScalarTensorTensor {
        dst: f0.clone(),
        data: f1.clone(),
        op0: AluOp::Add,
        operand0: ScalarOperand::Constant(1.0),
        op1: AluOp::Add,
        operand1: f2.clone(),
        reverse0: false,
        reverse1: false,
    };
    let scan = TensorTensorScan {
        dst: f0.clone(),
        data0: f1.clone(),
        data1: f2.clone(),
        initial: ScalarOperand::Constant(0.0),
        op0: AluOp::Multiply,
        op1: AluOp::Add,
        reverse0: false,
        reverse1: false,
    };
    let scalar_engine = Some(trn3_machine::engine::Engine::Scalar);
    let quantize = QuantizeMx { dst: packed, src: b0.clone(), dst_scale: scales, ocp_rule: false };
    let table: Vec<(&str, Box<dyn Instruction>, u64)> = vec![
        ("scalar_tensor_tensor", Box::new(stt), 1024),
        ("tensor_tensor_scan", Box::new(scan), 1024),
        ("reciprocal", Box::new(Reciprocal { dst: f0.clone(), data: f1.clone() }), 4096),
        ("tensor_reduce float32", Box::new(reduce(&row, &f0, AluOp::Add)), 512),
        ("tensor_reduce bfloat16", Box::new(reduce(&row16, &b0, AluOp::Maximum)), 256),
        ("tensor_reduce bfloat16 multiply", Box::new(reduce(&row16, &b0, AluOp::Multiply)), 512),
        ("tensor_scalar bfloat16", Box::new(scalar(&b0, &b1, AluOp::Add, None)), 128),
        ("tensor_scalar float32", Box::new(scalar(&f0, &f1, AluOp::Add, None)), 256),
        ("tensor_scalar ScalarE", Box::new(scalar(&b0, &b1, AluOp::Add, scalar_engine)), 256),
        ("tensor_scalar rsqrt", Box::new(scalar(&f0, &f1, AluOp::Rsqrt, None)), 150 + 4 * 512),
        (
            "tensor_tensor int32",
            Box::new(tensor_tensor(i[0].clone(), i[1].clone(), i[2].clone(), AluOp::Add)),
            150 + 512,
        ),
        ("exponential bfloat16", Box::new(exponential(&b0, &b1)), 128),
        ("exponential float32", Box::new(exponential(&f0, &f1)), 256),
        ("bn_aggr", Box::new(BnAggr { dst: pair, data: triples }), 13 * 170),
        ("quantize_mx", Box::new(quantize), 128),
        ("activation", Box::new(activation(f0.clone(), f1.clone(), Function::Gelu, None)), 512),
    ];
    for (name, instruction, expected) in table {
        assert_eq!(bench.cycles(instruction.as_ref(), 1200), expected, "{name}");
    }
}

#[test]
fn test_a_long_innermost_stride_halves_the_rate() {
    let mut bench = Bench::new("trn3");
    let mut wide = bench.tile(4096, DType::Float32, Buffer::Sbuf);
    let dst = bench.sbuf(512, DType::Float32);
    wide.shape[1] = 512;
    for (stride, cycles) in [(1, 512), (4, 512), (5, 1024), (8, 1024)] {
        wide.strides[1] = stride;
        assert_eq!(
            bench.cycles(&activation(dst.clone(), wide.clone(), Function::Copy, None), 1200),
            cycles,
            "{stride}"
        );
    }
}

#[test]
fn test_the_least_interval_holds_the_slot_alone() {
    let mut bench = Bench::new("trn3");
    let (dst, data) = (bench.sbuf(1, DType::Float32), bench.sbuf(1, DType::Float32));
    let (interval, latency) = bench.times(&Reciprocal { dst, data });
    assert!((interval - 64.0 / 1.2).abs() < 0.01, "{interval}");
    assert!((latency - (8.0 / 1.2 + bench.arch.vector_fixed_ns)).abs() < 0.01, "{latency}");
}
