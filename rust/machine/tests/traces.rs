//! What a trace says an instruction may become: other engines and other inputs with the same bits, and no more.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::accumulate::{ReduceCommand, Reduction};
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::copy::{Memset, TensorCopy};
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::elementwise::TensorTensor;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::isa::{Instruction, activation};
use trn3_machine::memory::Request;
use trn3_machine::storage::Buffer;
use trn3_machine::trace::{Home, Trace, TraceStep};
use trn3_machine::view::View;

fn core() -> NeuronCore {
    let options = CoreOptions { unlimited: true, ..CoreOptions::default() };
    NeuronCore::new(Arc::new(ArchSpec::load("trn2").expect("built in")), options).expect("a core")
}

fn tile(core: &mut NeuronCore, dtype: DType, buffer: Buffer) -> View {
    View::whole(core.allocate(&Request::unsited("tile", &[128, 64], dtype, buffer)).expect("places without limit"))
}

fn issue(core: &mut NeuronCore, instruction: &dyn Instruction) {
    core.issue(instruction, At::default()).expect("a correct instruction");
}

fn fill(core: &mut NeuronCore, dst: &View) {
    issue(core, &Memset { dst: dst.clone(), value: 1.0, engine: None });
}

fn traced(mut core: NeuronCore) -> Trace {
    core.take_trace().expect("a trace")
}

fn add(dst: &View, data1: &View, data2: &View) -> TensorTensor {
    TensorTensor { dst: dst.clone(), data1: data1.clone(), data2: data2.clone(), op: AluOp::Add, engine: None }
}

fn engines(step: &TraceStep) -> Vec<Engine> {
    step.alternatives.iter().flat_map(|other| &other.engines).map(|(engine, _)| *engine).collect()
}

fn reducing(core: &mut NeuronCore, dst: &View, data: &View, command: ReduceCommand) {
    let reduction = Reduction::new(AluOp::Add, command, None);
    let (bias, scale) = (ScalarOperand::None, ScalarOperand::None);
    let (dst, data) = (dst.clone(), data.clone());
    let op = trn3_numerics::Activation::Exp;
    issue(core, &activation::Activation { name: "activation", dst, op, data, bias, scale, reduction });
}

#[test]
fn test_steps_that_go_on_from_running_values_stay_in_order() {
    for (command, is_free) in [(ReduceCommand::ResetReduce, true), (ReduceCommand::Reduce, false)] {
        let mut core = core();
        let [from, to] = [0; 2].map(|_| tile(&mut core, DType::Float32, Buffer::Sbuf));
        fill(&mut core, &from);
        reducing(&mut core, &to, &from, ReduceCommand::ResetReduce);
        reducing(&mut core, &to, &from, command);
        let trace = traced(core);
        assert!(trace.steps[0].fingerprint.is_some() && !trace.steps[0].marks.is_ordered);
        for step in &trace.steps[1..] {
            assert_eq!((step.fingerprint.is_some(), step.marks.is_ordered), (is_free, !is_free), "{command}");
        }
    }
}

#[test]
fn test_an_engine_that_was_named_is_not_open_but_could_be_another() {
    let mut core = core();
    let [one, other, to] = [0; 3].map(|_| tile(&mut core, DType::Float32, Buffer::Sbuf));
    fill(&mut core, &one);
    fill(&mut core, &other);
    issue(&mut core, &TensorTensor { engine: Some(Engine::GpSimd), ..add(&to, &one, &other) });
    let trace = traced(core);
    let all = trace.steps[2].alternatives.as_ref().expect("another engine");
    let renamed: Vec<Engine> = all.renamed.iter().map(|(engine, _)| *engine).collect();
    assert_eq!((engines(&trace.steps[2]), renamed), (vec![], vec![Engine::Vector]));
}

#[test]
fn test_transfers_of_one_type_may_be_triggered_where_descriptors_are_made_in_hardware() {
    for (arch, from, takes) in
        [("trn2", DType::Float32, true), ("trn2", DType::BFloat16, false), ("trn1", DType::Float32, false)]
    {
        let options = CoreOptions { unlimited: true, ..CoreOptions::default() };
        let mut core = NeuronCore::new(Arc::new(ArchSpec::load(arch).expect("built in")), options).expect("a core");
        let (src, dst) = (tile(&mut core, from, Buffer::Sbuf), tile(&mut core, DType::Float32, Buffer::Sbuf));
        fill(&mut core, &src);
        issue(&mut core, &DmaCopy { dst, src, options: Options::default(), engine: None });
        assert_eq!(traced(core).steps[1].marks.takes_trigger, takes, "{arch} {from}");
    }
}

#[test]
fn test_integers_stay_on_the_engine_that_has_them_exact() {
    for (dtype, others) in [(DType::Float32, vec![Engine::GpSimd]), (DType::Int32, vec![])] {
        let mut core = core();
        let [one, other, to] = [0; 3].map(|_| tile(&mut core, dtype, Buffer::Sbuf));
        fill(&mut core, &one);
        fill(&mut core, &other);
        issue(&mut core, &add(&to, &one, &other));
        assert_eq!(engines(&traced(core).steps[2]), others, "{dtype}");
    }
}

#[test]
fn test_a_copy_may_be_passed_by_after_its_source_was_given_back() {
    let mut core = core();
    let [tile_of_ones, copy, to] = [0; 3].map(|_| tile(&mut core, DType::Float32, Buffer::Sbuf));
    fill(&mut core, &tile_of_ones);
    {
        let product = tile(&mut core, DType::Float32, Buffer::Psum);
        fill(&mut core, &product);
        issue(&mut core, &TensorCopy { dst: copy.clone(), src: product, engine: None });
    }
    issue(&mut core, &add(&to, &tile_of_ones, &copy));
    // What is written cannot be another tensor.
    issue(&mut core, &add(&copy, &tile_of_ones, &copy));
    let trace = traced(core);
    let alternatives = trace.steps[3].alternatives.as_ref().expect("a copy is read");
    assert_eq!(alternatives.forwarded.len(), 1);
    let forwarded = &alternatives.forwarded[0];
    let home = |tensor: u32| trace.tensors[tensor as usize].home;
    assert_eq!(home(forwarded.instead.tensor), Home::Open(Buffer::Psum));
    assert_eq!(forwarded.instead.rects, trace.steps[3].operands[usize::from(forwarded.operand)].rects);
    // Where an operand lies in PSUM, VectorE alone reaches it.
    assert_eq!((engines(&trace.steps[3]), forwarded.engines.len()), (vec![Engine::GpSimd], 0));
    assert!(trace.steps[4].alternatives.as_ref().is_none_or(|other| other.forwarded.is_empty()));
}

#[test]
fn test_products_say_whether_they_overwrite_what_is_no_product() {
    for (accumulate, joins) in [(None, true), (Some(true), false), (Some(false), false)] {
        let mut core = core();
        let [stationary, moving] = [0; 2].map(|_| tile(&mut core, DType::BFloat16, Buffer::Sbuf));
        fill(&mut core, &stationary);
        fill(&mut core, &moving);
        let shape = [64, 64];
        let request = Request::unsited("total", &shape, DType::Float32, Buffer::Psum);
        let dst = View::whole(core.allocate(&request).expect("places without limit"));
        let product = NcMatmul {
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
        issue(&mut core, &product);
        let marks = traced(core).steps[2].marks;
        assert_eq!((marks.joins_products, marks.overwrites), (joins, accumulate == Some(false)), "{accumulate:?}");
    }
}
