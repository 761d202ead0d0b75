//! Serving under load against what queueing theory says of it.

use serde_json::{Value, json};
use trn3_planner::PlanRequest;
use trn3_planner::load::{LoadAnswer, LoadRequest};

fn plan(batch: u64) -> Value {
    json!({
        "model": {"name": "llama-3-8b"}, "system": {"name": "trn2_instance"}, "tp": 8, "batch": batch,
        "input": 512, "output": 16,
    })
}

fn serve(model: Value, traffic: Value, seed: u64) -> LoadAnswer {
    let mut model = model;
    model["plan"] = plan(1);
    let request = json!({"models": [model], "traffic": traffic, "seed": seed, "bands": false});
    serde_json::from_value::<LoadRequest>(request).expect("a request").serve().expect("served")
}

/// Seconds of a request that is alone.
fn alone(model: &Value) -> f64 {
    let traffic = json!({"users": 1, "input": 512, "output": 16, "requests": 20});
    serve(model.clone(), traffic, 0).waits["mean_e2el_ms"] / 1e3
}

fn one_at_a_time(replicas: u64) -> Value {
    json!({"server": {"max_num_seqs": 1}, "replicas": {"both": replicas}, "router": "round_robin"})
}

#[test]
fn test_one_request_at_a_time_takes_what_its_plan_says() {
    let asked: PlanRequest = serde_json::from_value(plan(1)).expect("a request");
    let plan = asked.plan().expect("planned").into_evaluation();
    for sequences in [1, 8, 256] {
        let model = json!({"server": {"max_num_seqs": sequences}});
        let traffic = json!({"users": 1, "input": 512, "output": 16, "requests": 50});
        let found = serve(model, traffic, 0).waits;
        assert!((found["mean_ttft_ms"] / 1e3 / plan.ttft - 1.0).abs() < 1e-6, "{sequences}: {found:?}");
        assert!((found["mean_tpot_ms"] / 1e3 / plan.tpot - 1.0).abs() < 2e-3, "{sequences}: {found:?}");
    }
}

/// The mean wait of M/D/1 is half of M/M/1's: rho / (1 - rho) times half of a service.
#[test]
fn test_fixed_lengths_wait_as_in_m_d_1() {
    let model = one_at_a_time(1);
    let service = alone(&model);
    for (load, requests, tolerance) in [(0.3, 400_000, 0.004), (0.7, 400_000, 0.008), (0.9, 3_000_000, 0.02)] {
        let traffic = json!({"rate": load / service, "input": 512, "output": 16, "requests": requests});
        let found = serve(model.clone(), traffic, 3);
        let wait = found.waits["mean_e2el_ms"] / 1e3 - service;
        let expected = load / (1.0 - load) * service / 2.0;
        assert!((wait / expected - 1.0).abs() < 3.0 * tolerance, "{load}: {wait} against {expected}");
    }
}

/// Pollaczek and Khinchine: the mean wait is rate times the mean square of a service over 2 (1 - rho).
#[test]
fn test_other_lengths_wait_as_in_m_g_1() {
    let model = one_at_a_time(1);
    let of = |output: u64| {
        let traffic = json!({"users": 1, "input": 512, "output": output, "requests": 5});
        serve(model.clone(), traffic, 0).waits["mean_e2el_ms"] / 1e3
    };
    let (short, long) = (of(4), of(64));
    let (mean, square) = (0.8 * short + 0.2 * long, 0.8 * short * short + 0.2 * long * long);
    let load = 0.6;
    let output = "choice:4@0.8,64@0.2";
    let traffic = json!({"rate": load / mean, "input": 512, "output": output, "requests": 600_000});
    let found = serve(model.clone(), traffic, 5);
    let wait = found.waits["mean_e2el_ms"] / 1e3 - mean;
    let expected = load / mean * square / (2.0 * (1.0 - load));
    assert!((wait / expected - 1.0).abs() < 0.03, "{wait} against {expected}");
}

/// With services of one length, replicas that take turns serve as one queue for all of them does. Its mean wait is that of
/// M/M/c times about (1 + 1/c) / 2 at heavy load; held here against the same queue, simulated in six lines.
#[test]
fn test_replicas_wait_as_in_m_d_c() {
    for policy in ["round_robin", "least_loaded"] {
        let mut model = one_at_a_time(4);
        model["router"] = json!(policy);
        let service = alone(&one_at_a_time(1));
        let traffic = json!({"rate": 4.0 * 0.8 / service, "input": 512, "output": 16, "requests": 200_000});
        let found = serve(model, traffic.clone(), 11);
        let request: LoadRequest =
            serde_json::from_value(json!({"models": [], "traffic": traffic})).expect("a request");
        let mut free = [0.0_f64; 4];
        let mut waits = 0.0;
        for conversation in request.traffic.traffic(11).expect("traffic") {
            let next = (0..4).min_by(|left, right| free[*left].total_cmp(&free[*right])).expect("four");
            let begins = free[next].max(conversation.at);
            waits += begins - conversation.at;
            free[next] = begins + service;
        }
        let (wait, expected) = (found.waits["mean_e2el_ms"] / 1e3 - service, waits / 200_000.0);
        assert!((wait / expected - 1.0).abs() < 1e-3, "{policy}: {wait} against {expected}");
    }
}

#[test]
fn test_littles_law_and_conservation_hold_in_every_run() {
    let servers = [
        json!({}),
        json!({"max_num_seqs": 4}),
        json!({"chunked_prefill": true, "max_num_batched_tokens": 512}),
        json!({"kv_blocks": 120, "max_num_seqs": 16}),
        json!({"kv_blocks": 120, "max_num_seqs": 16, "preemption_mode": "swap"}),
        json!({"prefix_caching": true, "kv_blocks": 300}),
    ];
    for server in servers {
        for (rate, name) in [(json!(2.0), "light"), (json!("inf"), "all at once")] {
            let traffic = json!({
                "rate": rate, "input": "uniform:10:900", "output": "uniform:1:200", "requests": 600, "prefix": 64,
                "priorities": "0@0.7,5@0.3",
            });
            let found = serve(json!({"server": server, "replicas": {"both": 2}}), traffic.clone(), 1);
            let law = found.little;
            assert!((law.under_way / law.rate_times_time - 1.0).abs() < 1e-9, "{server} {name}: {law:?}");
            let request: LoadRequest = serde_json::from_value(json!({"models": [], "traffic": traffic})).expect("fine");
            let turns: Vec<_> = request.traffic.traffic(1).expect("traffic").flat_map(|one| one.turns).collect();
            let sum =
                |of: fn(&trn3_planner::load::Turn) -> u32| turns.iter().map(|turn| u64::from(of(turn))).sum::<u64>();
            assert_eq!(found.total_input_tokens, sum(|turn| turn.input), "{server} {name}");
            assert_eq!(found.total_output_tokens, sum(|turn| turn.output), "{server} {name}");
            assert_eq!((found.completed, found.failed), (600, 0));
            let model = &found.models[0];
            match server.get("kv_blocks") {
                // Sixteen sequences grow beyond 1,920 tokens.
                Some(blocks) if *blocks == json!(120) && name != "light" => assert!(model.preemptions > 0, "{server}"),
                Some(_) => {}
                None => assert_eq!(model.preemptions, 0, "{server} {name}"),
            }
            assert!(model.kv_cache_peak <= 1.0 && model.utilisation <= 1.0);
        }
    }
}

#[test]
fn test_a_queue_that_grows_is_served_to_the_last() {
    let traffic = json!({"rate": 100_000.0, "input": 512, "output": 64, "requests": 20_000});
    let found = serve(json!({}), traffic, 1);
    assert_eq!(found.total_output_tokens, 20_000 * 64);
    assert!(found.models[0].utilisation > 0.99);
}
