//! Speed of plans: one layout evaluated, and a search over all of them. Run on one core; the goal is 2,000 plans a second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trn3_planner::{
    Constraints, DataType, Layout, Machine, Planner, ServingObjective, ServingSettings, Split, TensorPrecision,
    Workload, built_in_model, search,
};

const WORKLOAD: Workload = Workload { batch: 64, input: 10_000, output: 3_000 };

fn plans(criterion: &mut Criterion) {
    let machine = Machine::built_in("gen2").expect("a system of the crate");
    let mut group = criterion.benchmark_group("planner");
    for (name, dtype) in [("gpt-oss-120b", DataType::MxFp4), ("llama-3.3-70b", DataType::Bf16)] {
        let model = built_in_model(name).expect("a model of the crate");
        let settings = ServingSettings::new(TensorPrecision::named(dtype, model.experts.is_some()));
        let planner = Planner::new(&machine, &model, 2, settings).expect("two cores share a bank");
        let ep = if model.experts.is_some() { 8 } else { 1 };
        let layout = Layout { split: Split { tp: 8, ep, ..Split::WHOLE }, replicas: 72, lnc: 2 };
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("evaluate/{name}"), |bencher| {
            bencher.iter(|| planner.evaluate(black_box(layout), black_box(WORKLOAD)).expect("divides"));
        });
        let find =
            || search(&planner, WORKLOAD, ServingObjective::Throughput, &Constraints::default(), 1).expect("some fit");
        let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        group.throughput(Throughput::Elements(find().evaluated as u64));
        group.sample_size(10);
        group.bench_function(format!("search/{name}"), |bencher| bencher.iter(|| one_core.install(find)));
    }
    group.bench_function("from_names", |bencher| {
        bencher.iter(|| {
            let machine = Machine::built_in(black_box("gen2")).expect("a system of the crate");
            let model = built_in_model(black_box("gpt-oss-120b")).expect("a model of the crate");
            (machine.chips, model.layers)
        });
    });
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
