//! Runs that a worker times while they go on: every moment is that of a run timed as it goes.

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::copy::TensorCopy;
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::elementwise::TensorTensor;
use trn3_machine::memory::Request;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;

/// More than a core times before it has a worker, and some batches.
const STEPS: usize = 3_000;

fn core(aside: bool) -> NeuronCore {
    // A worker needs a second thread, wherever the tests run.
    trn3_numerics::set_num_threads(4).expect("threads");
    let options = CoreOptions { values: false, ..CoreOptions::default() };
    let mut core = NeuronCore::new(ArchSpec::shared("trn3").expect("a spec"), options).expect("a core");
    if aside {
        core.time_aside();
    }
    core
}

fn tensor(core: &mut NeuronCore, name: &str, buffer: Buffer) -> View {
    View::whole(core.allocate(&Request::unsited(name, &[128, 256], DType::Float32, buffer)).expect("room"))
}

/// Loads, copies on either engine and sums in tensors that come and go; some wait for what came before.
fn go_on(core: &mut NeuronCore, steps: usize) {
    let source = tensor(core, "x", Buffer::PrivateHbm);
    let mut sum = tensor(core, "sum", Buffer::Sbuf);
    for step in 0..steps {
        let loaded = tensor(core, "loaded", Buffer::Sbuf);
        let load = DmaCopy { dst: loaded.clone(), src: source.clone(), options: Options::default(), engine: None };
        let first = core.issue(&load, At::default()).expect("a load");
        let copied = tensor(core, "copied", Buffer::Sbuf);
        let engine = Some(if step % 3 == 0 { Engine::Scalar } else { Engine::Vector });
        let copy = TensorCopy { dst: copied.clone(), src: loaded, engine };
        let second = core.issue(&copy, At { after: &[first], ..At::default() }).expect("a copy");
        let next = tensor(core, "sum", Buffer::Sbuf);
        let add = TensorTensor { dst: next.clone(), data1: sum, data2: copied, op: AluOp::Add, engine: None };
        let third = core.issue(&add, At::default()).expect("a sum");
        if step % 7 == 0 {
            core.order(third, second.saturating_sub(500)).expect("an edge");
        }
        sum = next;
    }
}

fn assert_same(one: &mut NeuronCore, other: &mut NeuronCore) {
    assert_eq!(one.makespan(), other.makespan());
    assert_eq!(one.occupancy(), other.occupancy());
    assert_eq!(one.latency_basis(), other.latency_basis());
    let (left, right) = (&one.timeline, &other.timeline);
    assert_eq!(left.records().len() as u64, one.issued());
    assert!(left.records().iter().eq(right.records().iter()));
    assert_eq!(left.transfers(), right.transfers());
    assert_eq!(left.critical_path(), right.critical_path());
    for step in 0..left.records().len() {
        assert!(left.comes_after(step).eq(right.comes_after(step)), "{step}");
    }
}

#[test]
fn test_times_of_a_worker_are_those_of_the_core_itself() {
    let [mut aside, mut here] = [core(true), core(false)];
    for _ in 0..2 {
        // Looked at in between, the run goes on from there.
        for core in [&mut aside, &mut here] {
            go_on(core, STEPS);
        }
        assert!(aside.timeline.records().len() < here.timeline.records().len(), "no worker took over");
        assert_same(&mut aside, &mut here);
    }
}

#[test]
fn test_a_new_start_and_the_end_of_a_core_end_its_worker() {
    let mut again = core(true);
    go_on(&mut again, STEPS);
    again.restart();
    let mut here = core(false);
    // What the memories hold, and so where tensors come, is as before the new start.
    go_on(&mut here, STEPS);
    here.restart();
    for core in [&mut again, &mut here] {
        go_on(core, STEPS);
    }
    assert_same(&mut again, &mut here);
    let mut dropped = core(true);
    go_on(&mut dropped, STEPS);
    drop(dropped);
}

#[test]
fn test_what_is_kept_of_times_for_others_holds_what_came_since() {
    let mut kept = core(true);
    go_on(&mut kept, STEPS);
    kept.keep_timed();
    go_on(&mut kept, STEPS);
    let mut here = core(false);
    go_on(&mut here, 2 * STEPS);
    assert_eq!(kept.issued(), here.issued());
    kept.makespan();
    assert_eq!(kept.timeline.records().len() as u64, kept.issued());
}
