//! Bounds, cuts and rings against closed forms.

use std::collections::BTreeSet;
use std::time::Instant;

use proptest::prelude::*;

use super::super::*;
use super::{docs, level_names};
use trn3_facts::Facts;

fn close(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 1e-9, "{got} is not {expected}");
}

#[test]
fn test_all_to_all_on_gen2_is_bound_by_the_racks() {
    let fabric = docs("trn3_gen2");
    let all = bound::all_to_all(&fabric, None).expect("a bound");
    close(all.per_chip, 128e9 * 143.0 / 72.0);
    assert_eq!(format!("{:.1}", all.per_chip / 1e9), "254.2");
    assert_eq!(all.binding.len(), 144);
    assert_eq!(level_names(&fabric, &all.binding), ["cross-rack"]);
    // The planes alone would allow 320 over the 68 direct and the 68 relayed of 143 destinations.
    let rack = all.levels.iter().find(|(level, _)| fabric.levels()[*level as usize].name == "rack");
    close(rack.expect("used").1, 320e9 * 143.0 / 136.0);
    assert!(all.is_by_cut());
    assert_eq!(all.cut.name, "rack 0 | rack 1");
    let (from, to) = all.slowest.expect("a pair");
    close(fabric.route(from, to).expect("a way").latency, 3.5e-6);
}

#[test]
fn test_all_to_all_in_a_rack_and_a_sled() {
    let fabric = docs("trn3_gen2");
    let rack = bound::all_to_all(&fabric, Some(&fabric.select("0").expect("a rack"))).expect("a bound");
    close(rack.per_chip, 320e9 * 71.0 / 68.0);
    assert_eq!(format!("{:.1}", rack.per_chip / 1e9), "334.1");
    assert_eq!(level_names(&fabric, &rack.binding), ["rack"]);
    assert_eq!(rack.binding.len(), 144);
    let sled = bound::all_to_all(&fabric, Some(&fabric.select("1/5").expect("a sled"))).expect("a bound");
    close(sled.per_chip, 256e9);
    assert_eq!(level_names(&fabric, &sled.binding), ["server"]);
}

#[test]
fn test_all_to_all_on_tori() {
    let instance = docs("trn2_instance");
    let bound = bound::all_to_all(&instance, None).expect("a bound");
    close(bound.per_chip, 4.0 * 128e9 / (32.0 / 15.0));
    assert_eq!(bound.binding.len(), instance.links().len());
    assert!(bound.is_by_cut());
    let ultraserver = docs("trn2_ultraserver");
    let bound = bound::all_to_all(&ultraserver, None).expect("a bound");
    close(bound.per_chip, 126e9);
    assert_eq!(level_names(&ultraserver, &bound.binding), ["z"]);
    assert_eq!(bound.binding.len(), 128);
    assert!(bound.is_by_cut());
    let plane = bound.levels.iter().find(|(level, _)| ultraserver.levels()[*level as usize].name == "plane");
    close(plane.expect("used").1, 252e9);
}

#[test]
fn test_all_to_all_on_nvl72_is_the_port() {
    let bound = bound::all_to_all(&docs("gb300_nvl72"), None).expect("a bound");
    close(bound.per_chip, 900e9);
    assert!(bound.is_by_cut());
}

#[test]
fn test_shifted_loads_equal_the_sum_over_all_chips() {
    for name in ["trn2_ultraserver", "trn3_gen1", "trn3_gen2", "trn1_32xlarge"] {
        let fabric = docs(name);
        let quick = bound::all_to_all(&fabric, None).expect("a bound");
        let n = fabric.chips();
        let ones = vec![1.0 / (n - 1) as f64; n * n];
        let slow = bound::traffic(&fabric, &ones).expect("a bound");
        close(slow.per_chip, quick.per_chip);
        close(slow.time, quick.time);
        close(slow.per_chip_by_cut, quick.per_chip_by_cut);
        assert_eq!(slow.binding, quick.binding);
        for (left, right) in slow.loads.iter().zip(&quick.loads) {
            assert!((left - right).abs() < 1e-9);
        }
    }
}

#[test]
fn test_loads_are_bytes_times_links_of_the_ways() {
    let fabric = docs("trn3_gen2");
    let n = fabric.chips();
    let mut bytes = vec![0.0; n * n];
    bytes[3 * n + 100] = 1e9;
    bytes[100 * n + 3] = 2e9;
    let bound = bound::traffic(&fabric, &bytes).expect("a bound");
    let links: f64 = [(3, 100, 1e9), (100, 3, 2e9)]
        .iter()
        .map(|&(from, to, bytes)| fabric.route(from, to).expect("a way").links.len() as f64 * bytes)
        .sum();
    close(bound.loads.iter().sum(), links);
    // Two relays share the bytes, so a link between the racks carries half.
    close(bound.time, 1e9 / 128e9);
    close(bound.per_chip, 1.5e9 / (1e9 / 128e9));
}

#[test]
fn test_bisections() {
    let gen2 = docs("trn3_gen2");
    let cuts = bound::bisection(&gen2, None).expect("cuts");
    assert_eq!((cuts[0].name.as_str(), cuts[0].links.len()), ("rack 0 | rack 1", 72));
    close(cuts[0].rate, 72.0 * 128e9);
    let rack = bound::bisection(&gen2, Some(&gen2.select("1").expect("a rack"))).expect("cuts");
    close(rack[0].rate, 36.0 * 320e9);
    assert_eq!(rack[0].name, "server 0-8 | server 9-17");
    close(bound::bisection(&docs("trn2_instance"), None).expect("cuts")[0].rate, 8.0 * 128e9);
    close(bound::bisection(&docs("trn2_ultraserver"), None).expect("cuts")[0].rate, 32.0 * 64e9);
    close(bound::bisection(&docs("gb300_nvl72"), None).expect("cuts")[0].rate, 36.0 * 900e9);
}

#[test]
fn test_rings_of_tori_visit_every_chip_and_share_no_link() {
    for (name, expected) in [("trn1_32xlarge", 2), ("trn2_instance", 2), ("trn2_ultraserver", 3)] {
        let fabric = docs(name);
        let edges: BTreeSet<(u32, u32)> = fabric.links().iter().map(|link| (link.from, link.to)).collect();
        let cycles = fabric.hamiltonian_cycles().expect("rings");
        assert_eq!(cycles.len(), expected);
        let mut used = BTreeSet::new();
        for cycle in &cycles {
            assert_eq!(cycle.iter().copied().collect::<BTreeSet<_>>(), (0..fabric.chips()).collect());
            assert_eq!(cycle.len(), fabric.chips());
            for (at, &from) in cycle.iter().enumerate() {
                let to = cycle[(at + 1) % cycle.len()];
                for edge in [(from as u32, to as u32), (to as u32, from as u32)] {
                    assert!(edges.contains(&edge), "{name}: {edge:?}");
                    assert!(used.insert(edge), "{name}: {edge:?} twice");
                }
            }
        }
        assert_eq!(used.len(), edges.len());
    }
    assert!(docs("trn3_gen2").hamiltonian_cycles().expect_err("no torus").to_string().contains("trn2_instance"));
}

#[test]
fn test_wrong_traffic_is_refused() {
    let fabric = docs("trn2_instance");
    for (bytes, needle) in [
        (vec![1.0; 16], "16 entries"),
        (vec![0.0; 256], "nothing"),
        (vec![-1.0; 256], "traffic[0, 0] is -1"),
        (vec![f64::NAN; 256], "NaN"),
    ] {
        let error = bound::traffic(&fabric, &bytes).expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
    }
    for (group, needle) in [(vec![1], "at least 2"), (vec![1, 1], "twice"), (vec![1, 16], "16 chips, 0 to 15")] {
        let error = bound::all_to_all(&fabric, Some(&group)).expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
    }
    let error = fabric.select("4").expect_err("none").to_string();
    assert!(error.contains("last one is 3/3"), "{error}");
    assert!(fabric.select("a/b").is_err() && fabric.select("").is_err() && fabric.select("3-1").is_err());
}

#[test]
fn test_bounds_and_all_routes_are_quick() {
    let start = Instant::now();
    let fabric = docs("trn3_gen2");
    let bound = bound::all_to_all(&fabric, None).expect("a bound");
    assert!(bound.per_chip > 0.0);
    for from in 0..fabric.chips() {
        for to in 0..fabric.chips() {
            assert!(!fabric.link_shares(from, to).expect("shares").is_empty() || from == to);
        }
    }
    // Milliseconds when optimised; this only catches another order of growth.
    assert!(start.elapsed().as_secs() < 20);
}

const SHAPE: &str = r#"
[mine]
[mine._fabric]
axes = [
  { name = "rack", size = { value = RACKS, unit = "count", source = "me" } },
  { name = "chip", size = { value = CHIPS, unit = "count", source = "me" } },
]
[[mine._fabric.levels]]
name = "near"
kind = "KIND"
over = ["chip"]
links = { value = 4, unit = "count", source = "me" }
rate = { value = NEAR, unit = "GB/s/dir", source = "me" }
latency = { value = 1, unit = "us", source = "me" }
[[mine._fabric.levels]]
name = "far"
kind = "direct"
over = ["rack"]
links = { value = 2, unit = "count", source = "me" }
rate = { value = FAR, unit = "GB/s/dir", source = "me" }
latency = { value = 1, unit = "us", source = "me" }
"#;

fn shaped(kind: &str, racks: u32, chips: u32, near: u32, far: u32) -> Fabric {
    let text = SHAPE
        .replace("RACKS", &racks.to_string())
        .replace("CHIPS", &chips.to_string())
        .replace("KIND", kind)
        .replace("NEAR", &near.to_string())
        .replace("FAR", &far.to_string());
    Fabric::from_facts(&Facts::parse("mine.toml", &text).expect("a spec")[0], LinkProfile::Docs).expect("a fabric")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn test_bandwidth_never_slows_and_no_bound_beats_its_cut(
        kind in prop::sample::select(vec!["switch", "ring", "direct"]),
        racks in 1u32..4,
        chips in 2u32..7,
        (near, far) in (1u32..100, 1u32..100),
        (more_near, more_far) in (0u32..100, 0u32..100),
        seed in any::<u64>(),
    ) {
        let before = shaped(kind, racks, chips, near, far);
        let after = shaped(kind, racks, chips, near + more_near, far + more_far);
        let n = before.chips();
        let mut state = seed;
        let bytes: Vec<f64> = (0..n * n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f64
            })
            .collect();
        for traffic in [Some(bytes.as_slice()), None] {
            let bound = |fabric: &Fabric| match traffic {
                Some(bytes) => bound::traffic(fabric, bytes).expect("a bound"),
                None => bound::all_to_all(fabric, None).expect("a bound"),
            };
            let (slow, fast) = (bound(&before), bound(&after));
            prop_assert!(fast.time <= slow.time * (1.0 + 1e-12));
            prop_assert!(slow.per_chip <= slow.per_chip_by_cut * (1.0 + 1e-9));
            prop_assert!(!slow.binding.is_empty());
            if more_near > 0 && more_far > 0 {
                prop_assert!(fast.time < slow.time);
            }
        }
    }

    #[test]
    fn test_another_topology_changes_the_answer(chips in 5u32..9, near in 1u32..50) {
        // 4 links each: a port, a port for each peer, and two shared by ways of n/4 hops and a bit.
        let rate = 4e9 * f64::from(near);
        let n = f64::from(chips);
        let mean = (1..chips).map(|at| f64::from(at.min(chips - at))).sum::<f64>() / (n - 1.0);
        for (kind, expected) in [("switch", rate), ("direct", rate * (n - 1.0)), ("ring", 2.0 * rate / mean)] {
            let got = bound::all_to_all(&shaped(kind, 1, chips, near, 1), None).expect("a bound").per_chip;
            prop_assert!((got / expected - 1.0).abs() < 1e-9, "{kind}: {got} is not {expected}");
        }
    }
}
