use proptest::prelude::*;

use super::*;
use crate::flow::{self, FlowMessage, over_fabric};

fn cluster(unit: &str, units: u64, options: NetworkOptions) -> Cluster {
    Cluster::new(&Facts::built_in(unit).expect("built in"), units, LinkProfile::Docs, &options).expect("valid")
}

fn plain(unit: &str, units: u64) -> Cluster {
    cluster(unit, units, NetworkOptions::default())
}

fn exchange(operation: ExchangeOperation, bytes: f64) -> ClusterExchange {
    ClusterExchange { operation, bytes, units: None, chips: None, count: 1, algorithm: Between::Auto }
}

fn seconds(cluster: &Cluster, exchange: &ClusterExchange) -> f64 {
    cluster.exchange(exchange).expect("valid").seconds
}

#[test]
fn test_roles_cover_all_live_units_and_grow_with_failures_only() {
    for units in [1, 15, 16, 17, 255, 256, 257, 6_944, 1 << 32] {
        let whole = plain("trn2_instance", units);
        assert!(whole.roles().len() <= 3, "{units}: {:?}", whole.roles());
        assert_eq!(whole.roles().iter().map(|role| role.units).sum::<u64>(), units);
    }
    let mut broken = plain("trn3_gen2", 6_944);
    for failed in 0..100 {
        broken = broken.fail(failed * 61).expect("alive");
        assert!(broken.roles().len() as u64 <= 3 + 2 * (failed + 1));
        assert_eq!(broken.roles().iter().map(|role| role.units).sum::<u64>(), broken.live_units());
    }
    assert_eq!(broken.chips(), 144 * (6_944 - 100));
}

#[test]
fn test_roles_equal_those_found_unit_by_unit() {
    let options =
        NetworkOptions { units_per_bottom_node: Some(3), bottom_per_middle_node: Some(2), ..NetworkOptions::default() };
    let mut cluster = cluster("trn2_instance", 23, options);
    for failed in [0, 1, 2, 7, 8, 18, 22] {
        cluster = cluster.fail(failed).expect("alive");
    }
    let mut expected: Vec<ClusterRole> = Vec::new();
    let is_live = |unit: &u64| !cluster.failed.contains(unit);
    for unit in (0..23).filter(is_live) {
        let around = |size: u64| {
            let first = unit / size * size;
            let all = first..(first + size).min(23);
            (all.end - all.start, all.filter(is_live).count() as u64)
        };
        let (bottom, middle) = (around(3), around(6));
        match expected.iter_mut().find(|role| role.bottom == bottom && role.middle == middle) {
            Some(role) => role.units += 1,
            None => expected.push(ClusterRole { units: 1, bottom, middle }),
        }
    }
    expected.sort_by_key(|role| (role.bottom, role.middle));
    assert_eq!(cluster.roles(), expected);
}

#[test]
fn test_million_chips_answer_like_few() {
    // What is stored does not grow: roles, and one unit's graph.
    let million = plain("trn3_gen2", 6_944);
    assert_eq!(million.chips(), 999_936);
    assert_eq!(million.unit().links().len(), plain("trn3_gen2", 2).unit().links().len());
    let bound = million.all_to_all().expect("bounded");
    assert_eq!(bound.binding, "efa");
    assert!((bound.per_chip - 25e9 * 999_935.0 / (999_936.0 - 144.0)).abs() < 1.0);
    let step = million
        .step(&[exchange(ExchangeOperation::AllReduce, 1e9), exchange(ExchangeOperation::AllToAll, 1e8)])
        .expect("step");
    assert!(step.seconds > 0.0 && step.exchanges.len() == 2);
    assert!(step.assumptions.iter().any(|text| text.contains("(choice)")));
}

#[test]
fn test_all_to_all_of_one_unit_is_the_fabrics() {
    let bound = plain("trn3_gen2", 1).all_to_all().expect("bounded");
    assert_eq!(bound.binding, "cross-rack");
    assert!((bound.per_chip - 128e9 * 143.0 / 72.0).abs() < 1.0);
}

#[test]
fn test_ring_between_units_equals_the_simulated_flows() {
    let facts = Facts::built_in("trn2_instance").expect("built in");
    let (units, chips, bytes) = (4u64, 16usize, 64e6);
    let fabric = Fabric::cluster(&facts, units as u32, LinkProfile::Docs).expect("small");
    let piece = bytes / chips as f64 / units as f64;
    let mut messages: Vec<FlowMessage> = Vec::new();
    for step in 0..2 * (units as usize - 1) {
        for unit in 0..units as usize {
            for chip in 0..chips {
                let next = (unit + 1) % units as usize;
                let mut message = FlowMessage::new(unit * chips + chip, next * chips + chip, piece);
                if step > 0 {
                    let before = (unit + units as usize - 1) % units as usize;
                    message.after = vec![(((step - 1) * units as usize + before) * chips + chip) as u32];
                }
                messages.push(message);
            }
        }
    }
    let (links, transfers) = over_fabric(&fabric, &messages).expect("connected");
    let simulated = flow::run(&links, &transfers).expect("runs").finish;
    let asked = ClusterExchange { algorithm: Between::Ring, ..exchange(ExchangeOperation::AllReduce, bytes) };
    let time = plain("trn2_instance", units).exchange(&asked).expect("valid");
    assert_eq!(time.phases[1].name, "all_reduce between (ring)");
    assert_eq!(time.phases[1].steps, 6);
    assert!((time.phases[1].seconds / simulated - 1.0).abs() < 1e-9, "{} {simulated}", time.phases[1].seconds);
}

#[test]
fn test_exchange_inside_a_unit_equals_the_simulated_flows() {
    let facts = Facts::built_in("trn3_gen2").expect("built in");
    let fabric = Fabric::from_facts(&facts, LinkProfile::Docs).expect("built in");
    let pairs = (0..144usize).flat_map(|a| (0..4).map(move |b| (a, a / 4 * 4 + b))).filter(|(a, b)| a != b);
    let messages: Vec<FlowMessage> = pairs.map(|(a, b)| FlowMessage::new(a, b, 1e6)).collect();
    let (links, transfers) = over_fabric(&fabric, &messages).expect("connected");
    let simulated = flow::run(&links, &transfers).expect("runs").finish;
    let asked = ClusterExchange { units: Some(1), chips: Some(4), ..exchange(ExchangeOperation::ReduceScatter, 4e6) };
    let time = plain("trn3_gen2", 2).exchange(&asked).expect("valid");
    assert_eq!(time.binding, "server");
    assert!((time.seconds / simulated - 1.0).abs() < 1e-9, "{} {simulated}", time.seconds);
}

#[test]
fn test_algorithms_move_the_bytes_of_their_closed_forms() {
    let cluster = plain("trn3_gen2", 64);
    let between = |operation, algorithm, units| {
        let asked = ClusterExchange { algorithm, units: Some(units), chips: Some(1), ..exchange(operation, 64e6) };
        cluster.exchange(&asked).expect("valid").phases.remove(0)
    };
    for units in [2, 8, 64] {
        let part = 64e6 * (units - 1) as f64 / units as f64;
        for algorithm in [Between::Ring, Between::Rdh] {
            assert!((between(ExchangeOperation::AllReduce, algorithm, units).bytes - 2.0 * part).abs() < 1e-3);
            assert!((between(ExchangeOperation::ReduceScatter, algorithm, units).bytes - part).abs() < 1e-3);
            assert!((between(ExchangeOperation::AllGather, algorithm, units).bytes - part).abs() < 1e-3);
        }
        assert_eq!(between(ExchangeOperation::AllReduce, Between::Rdh, units).steps, 2 * u64::from(units.ilog2()));
        assert_eq!(between(ExchangeOperation::AllReduce, Between::Ring, units).steps, 2 * (units - 1));
    }
    // Small buffers want few messages, large ones few bytes.
    let odd = ClusterExchange { units: Some(63), chips: Some(1), ..exchange(ExchangeOperation::AllReduce, 16e6) };
    assert!(cluster.exchange(&odd).expect("valid").phases[0].name.contains("(tree)"));
    let small = ClusterExchange { chips: Some(1), ..exchange(ExchangeOperation::AllReduce, 1e3) };
    assert!(cluster.exchange(&small).expect("valid").phases[0].name.contains("(rdh)"));
    assert!(between(ExchangeOperation::AllReduce, Between::Rdh, 63).steps == 12);
}

#[test]
fn test_oversubscription_binds_what_leaves_bottom_nodes() {
    let narrow = NetworkOptions { oversubscription: Some(4.0), ..NetworkOptions::default() };
    let (wide, narrow) = (plain("trn3_gen2", 64), cluster("trn3_gen2", 64, narrow));
    let bound = narrow.all_to_all().expect("bounded");
    assert_eq!(bound.binding, "bottom uplinks");
    assert!(bound.per_chip < wide.all_to_all().expect("bounded").per_chip);
    let far = exchange(ExchangeOperation::AllToAll, 1e9);
    assert!(seconds(&narrow, &far) > 2.0 * seconds(&wide, &far));
    // Sixteen units have one bottom node; a ring leaves it with one of sixteen.
    let near = ClusterExchange { units: Some(16), ..far };
    assert_eq!(seconds(&narrow, &near), seconds(&wide, &near));
    let ring = ClusterExchange { algorithm: Between::Ring, ..exchange(ExchangeOperation::AllReduce, 1e9) };
    assert_eq!(seconds(&narrow, &ring), seconds(&wide, &ring));
    let rdh = ClusterExchange { algorithm: Between::Rdh, ..ring };
    assert!(seconds(&narrow, &rdh) > seconds(&wide, &rdh));
}

#[test]
fn test_bound_and_exchange_agree_on_all_to_all() {
    let cluster = plain("trn3_gen2", 300);
    let chips = cluster.chips() as f64;
    let time = cluster.exchange(&exchange(ExchangeOperation::AllToAll, 1e9)).expect("valid");
    let bound = cluster.all_to_all().expect("bounded");
    assert_eq!(time.binding, bound.binding);
    let expected = cluster.network().latency + 1e9 * (chips - 1.0) / chips / bound.per_chip;
    assert!((time.seconds / expected - 1.0).abs() < 1e-9);
}

#[test]
fn test_failed_units_change_answers() {
    let whole = plain("trn3_gen2", 64);
    let broken = whole.fail(3).expect("alive").fail(40).expect("alive");
    assert_eq!((broken.live_units(), broken.chips()), (62, 62 * 144));
    assert_eq!(broken.failed().collect::<Vec<_>>(), [3, 40]);
    assert_ne!(broken.all_to_all().expect("bounded"), whole.all_to_all().expect("bounded"));
    let rdh = ClusterExchange { algorithm: Between::Rdh, ..exchange(ExchangeOperation::AllReduce, 1e9) };
    assert!(seconds(&broken, &rdh) > seconds(&whole, &rdh), "62 units are no power of two");
    let error = broken.route((0, 0), (3, 0)).expect_err("failed");
    assert!(matches!(error, Error::Unreachable(_)));
    assert!(error.to_string().contains("unit 3 has failed; the nearest that works is 2"), "{error}");
    assert!(broken.fail(3).is_err() && plain("trn3_gen2", 1).fail(0).is_err());
    let all = ClusterExchange { units: Some(64), ..exchange(ExchangeOperation::AllReduce, 1e9) };
    assert!(broken.exchange(&all).expect_err("too many").to_string().contains("allowed: 1 to 62"));
}

#[test]
fn test_routes_stay_inside_or_cross_the_layers() {
    let cluster = plain("trn3_gen2", 600);
    let inside = cluster.route((5, 0), (5, 1)).expect("route");
    assert_eq!(inside.inside.expect("fabric").links.len(), 2);
    for (to, nodes) in [
        (1, vec!["bottom 0"]),
        (16, vec!["bottom 0", "middle 0", "bottom 1"]),
        (599, vec!["bottom 0", "middle 0", "top", "middle 2", "bottom 37"]),
    ] {
        let route = cluster.route((0, 7), (to, 9)).expect("route");
        assert_eq!(route.nodes, nodes);
        assert_eq!(route.rate, 25e9);
        assert!((route.latency - 15e-6).abs() < 1e-18);
        assert!(route.inside.is_none());
    }
    assert!(cluster.route((0, 144), (1, 0)).is_err() && cluster.route((0, 0), (600, 0)).is_err());
}

#[test]
fn test_wrong_input_is_refused_by_name() {
    let unit = Facts::built_in("trn3_gen2").expect("built in");
    let make = |units, options: NetworkOptions| Cluster::new(&unit, units, LinkProfile::Docs, &options);
    let none = NetworkOptions::default();
    for (made, needle) in [
        (make(0, none.clone()), "units is 0"),
        (
            make(1, NetworkOptions { oversubscription: Some(0.5), ..none.clone() }),
            "oversubscription is 0.5; allowed: 1",
        ),
        (make(1, NetworkOptions { rate: Some(-1.0), ..none.clone() }), "rate is -1"),
        (make(1, NetworkOptions { latency: Some(f64::NAN), ..none.clone() }), "latency is NaN"),
        (make(1, NetworkOptions { units_per_bottom_node: Some(0), ..none.clone() }), "units_per_bottom_node is 0"),
    ] {
        let error = made.expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
    }
    assert!(make(7_000, none).expect("allowed").assumptions().iter().any(|text| text.contains("1008000 chips")));
    let rack =
        Cluster::new(&Facts::built_in("gb200_nvl72").expect("in"), 2, LinkProfile::Docs, &NetworkOptions::default());
    assert!(rack.is_ok() || rack.expect_err("no network").to_string().contains("network"));
    let cluster = plain("trn3_gen2", 8);
    let all_reduce = exchange(ExchangeOperation::AllReduce, 1.0);
    for (asked, needle) in [
        (ClusterExchange { bytes: -1.0, ..all_reduce.clone() }, "all_reduce: bytes is -1"),
        (ClusterExchange { count: 0, ..all_reduce.clone() }, "count is 0"),
        (ClusterExchange { units: Some(9), ..all_reduce.clone() }, "9 units; allowed: 1 to 8"),
        (ClusterExchange { chips: Some(100), ..all_reduce.clone() }, "must divide them: the nearest that does is 72"),
        (
            ClusterExchange { operation: ExchangeOperation::AllGather, algorithm: Between::Tree, ..all_reduce.clone() },
            "a tree does all_reduce only",
        ),
        (
            ClusterExchange { operation: ExchangeOperation::AllToAll, algorithm: Between::Ring, ..all_reduce.clone() },
            "allowed: auto",
        ),
        (
            ClusterExchange { operation: ExchangeOperation::SendReceive, units: Some(1), ..all_reduce.clone() },
            "one unit has no chips next",
        ),
    ] {
        let error = cluster.exchange(&asked).expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
    }
    assert!(cluster.step(&[]).is_err());
    assert!(ExchangeOperation::parse("allreduce").expect_err("typo").to_string().contains("\"all_reduce\""));
    assert!(Between::parse("mesh").is_err());
    assert_eq!(ExchangeOperation::parse("all_to_all").expect("known").name(), "all_to_all");
    assert_eq!(Between::parse("rdh").expect("known").name(), "rdh");
}

proptest! {
    #[test]
    fn test_time_is_monotone_in_bytes_and_rate(
        units in 1u64..700, bytes in 0.0..1e9f64, more in 1.0..4.0f64, divisor in 0usize..4,
        operation in prop::sample::select(vec!["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]),
        oversubscription in 1.0..8.0f64,
    ) {
        let options = NetworkOptions { oversubscription: Some(oversubscription), ..NetworkOptions::default() };
        let wide = NetworkOptions { rate: Some(25e9 * more), ..options.clone() };
        let chips = [1, 2, 4, 16][divisor];
        let operation = ExchangeOperation::parse(operation).expect("known");
        let asked = ClusterExchange { chips: Some(chips), ..exchange(operation, bytes) };
        let cluster_time = |options, asked: &ClusterExchange| seconds(&cluster("trn2_instance", units, options), asked);
        let time = cluster_time(options.clone(), &asked);
        prop_assert!(cluster_time(wide, &asked) <= time * (1.0 + 1e-12));
        let heavier = ClusterExchange { bytes: bytes * more, ..asked };
        prop_assert!(cluster_time(options, &heavier) >= time * (1.0 - 1e-12));
    }
}
