//! Graphs, ids and routes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::*;
use super::docs;
use trn3_facts::Facts;

/// Hops from chip 0 to every chip of a graph without switches, breadth first.
fn hops_from_zero(fabric: &Fabric) -> Vec<usize> {
    let mut hops = vec![usize::MAX; fabric.chips()];
    hops[0] = 0;
    let mut queue = VecDeque::from([0]);
    while let Some(node) = queue.pop_front() {
        for link in fabric.links().iter().filter(|link| link.from as usize == node) {
            if hops[link.to as usize] == usize::MAX {
                hops[link.to as usize] = hops[node] + 1;
                queue.push_back(link.to as usize);
            }
        }
    }
    hops
}

#[test]
fn test_tori_are_cubes() {
    // A ring of four is the square: coordinates in Gray code are the corners of a cube.
    for (name, bits) in [("trn2_instance", 4u32), ("trn1_32xlarge", 4), ("trn2_ultraserver", 6)] {
        let fabric = docs(name);
        let gray = |chip: u32| {
            fabric.nodes()[chip as usize].coordinates.iter().fold(0, |code, &c| (code << 2) | (c ^ (c >> 1)))
        };
        let edges: BTreeSet<(u32, u32)> = fabric.links().iter().map(|link| (gray(link.from), gray(link.to))).collect();
        let cube: BTreeSet<(u32, u32)> =
            (0..1u32 << bits).flat_map(|corner| (0..bits).map(move |bit| (corner, corner ^ (1 << bit)))).collect();
        assert_eq!(edges, cube, "{name}");
        assert_eq!(fabric.links().len(), cube.len(), "{name}");
    }
}

#[test]
fn test_distances_of_tori() {
    for (name, diameter, sum) in [("trn2_instance", 4, 32), ("trn2_ultraserver", 6, 192)] {
        let fabric = docs(name);
        let hops = hops_from_zero(&fabric);
        assert_eq!(hops.iter().max(), Some(&diameter));
        assert_eq!(hops.iter().sum::<usize>(), sum);
        for (chip, &expected) in hops.iter().enumerate() {
            assert_eq!(fabric.hops(0, chip).expect("a way"), expected);
        }
    }
}

#[test]
fn test_trn2_chip_zero_has_the_documented_neighbours() {
    let fabric = docs("trn2_instance");
    let neighbours: BTreeSet<u32> = fabric.links_from(0).iter().map(|&link| fabric.links()[link as usize].to).collect();
    assert_eq!(neighbours, BTreeSet::from([12, 3, 4, 1]));
    assert!(fabric.links().iter().all(|link| link.rate == 128e9));
    let ultraserver = docs("trn2_ultraserver");
    for link in ultraserver.links() {
        let is_z = ultraserver.nodes()[link.from as usize].id[0] != ultraserver.nodes()[link.to as usize].id[0];
        assert_eq!(link.rate, if is_z { 64e9 } else { 128e9 });
    }
}

#[test]
fn test_gen2_links_of_a_chip_and_ids() {
    let fabric = docs("trn3_gen2");
    let mut ids = Vec::new();
    for rack in 0..2 {
        for server in 0..18 {
            ids.extend((0..4).map(|chip| vec![rack, server, chip]));
        }
    }
    assert_eq!(ids.len(), fabric.chips());
    for (index, id) in ids.iter().enumerate() {
        assert_eq!(fabric.chip_id(index), id);
        assert_eq!(fabric.index_of(id).expect("a chip"), index);
        for side in [fabric.links_from(index), fabric.links_to(index)] {
            let links: BTreeMap<&str, (u32, f64)> = side
                .iter()
                .map(|&link| &fabric.links()[link as usize])
                .map(|link| (fabric.levels()[link.level as usize].name.as_str(), (link.links, link.rate)))
                .collect();
            let expected = [("server", (4, 256e9)), ("rack", (5, 320e9)), ("cross-rack", (2, 128e9))];
            assert_eq!(links, BTreeMap::from(expected));
        }
    }
    assert!(fabric.index_of(&[0, 18, 0]).expect_err("none").to_string().contains("server 0 to 17"));
    for link in fabric.links() {
        let (from, to) = (&fabric.nodes()[link.from as usize], &fabric.nodes()[link.to as usize]);
        if from.kind == NodeKind::Chip && to.kind == NodeKind::Chip {
            assert_ne!(from.id[0], to.id[0]);
            assert_eq!(from.id[1..], to.id[1..], "joins different positions");
        }
    }
    assert_eq!(fabric.nodes().len(), 144 + 36 + 2);
}

#[test]
fn test_gen2_routes_are_legal_and_short() {
    let fabric = docs("trn3_gen2");
    for from in 0..144 {
        for to in 0..144 {
            let route = fabric.route(from, to).expect("a way");
            let (a, b) = (fabric.chip_id(from), fabric.chip_id(to));
            let levels: Vec<&str> =
                route.legs.iter().map(|leg| fabric.levels()[leg.level as usize].name.as_str()).collect();
            let within = if a[1] == b[1] { "server" } else { "rack" };
            let expected: Vec<&str> = match (a[0] == b[0], a[1..] == b[1..]) {
                (true, true) => vec![],
                (true, false) => vec![within],
                (false, true) => vec!["cross-rack"],
                (false, false) => vec![within, "cross-rack"],
            };
            assert_eq!(levels, expected, "{a:?} {b:?}");
            assert!(route.relays.len() <= 1);
            assert!(route.latency < if a[0] == b[0] { 5e-6 } else { 10e-6 });
            let mut at = from;
            for &link in &route.links {
                assert_eq!(fabric.links()[link as usize].from as usize, at);
                at = fabric.links()[link as usize].to as usize;
            }
            assert_eq!(at, to);
            let paths = fabric.paths(from, to).expect("ways");
            assert_eq!(paths.len(), if levels.len() == 2 { 2 } else { 1 });
            assert!(paths.iter().any(|path| path.links == route.links));
        }
    }
    let relayed = fabric.route(fabric.index_of(&[0, 3, 1]).expect("a"), fabric.index_of(&[1, 9, 2]).expect("b"));
    let relayed = relayed.expect("a way");
    assert_eq!((relayed.rate, relayed.latency), (128e9, 3.5e-6));
    let none = fabric.route(5, 5).expect("nothing to do");
    assert!(none.legs.is_empty() && none.latency == 0.0 && none.rate.is_infinite());
}

#[test]
fn test_link_shares_are_the_sum_of_paths() {
    for name in ["trn2_ultraserver", "trn3_gen1", "trn3_gen2"] {
        let fabric = docs(name);
        for (from, to) in [(0, fabric.chips() - 1), (3, 42), (17, 60), (1, 2)] {
            let mut summed: BTreeMap<u32, f64> = BTreeMap::new();
            let paths = fabric.paths(from, to).expect("ways");
            for path in &paths {
                for &link in &path.links {
                    *summed.entry(link).or_default() += path.share;
                }
            }
            assert!((paths.iter().map(|path| path.share).sum::<f64>() - 1.0).abs() < 1e-12);
            let shares = fabric.link_shares(from, to).expect("shares");
            assert_eq!(shares.len(), summed.len());
            for (link, share) in shares {
                assert!((summed[&link] - share).abs() < 1e-12, "{name} {from} {to}");
            }
        }
    }
}

#[test]
fn test_paths_across_the_six_cube_number_six_factorial() {
    let fabric = docs("trn2_ultraserver");
    let hops = hops_from_zero(&fabric);
    let far = hops.iter().position(|&hops| hops == 6).expect("a far corner");
    assert_eq!(fabric.paths(0, far).expect("ways").len(), 720);
}

#[test]
fn test_headline_rates_add_up_to_the_headline() {
    for (name, one_way) in
        [("trn3_gen2", 1280e9), ("trn3_gen1", 1280e9), ("trn2_ultraserver", 640e9), ("trn1_32xlarge", 192e9)]
    {
        let fabric = Fabric::built_in(name, LinkProfile::Headline).expect("a fabric");
        let total: f64 = fabric.links_from(0).iter().map(|&link| fabric.links()[link as usize].rate).sum();
        assert!((total / one_way - 1.0).abs() < 1e-12, "{name}: {total}");
        let levels: f64 = fabric.levels().iter().map(|level| level.chip_rate).sum();
        assert!((total / levels - 1.0).abs() < 1e-12, "{name}: {total} {levels}");
    }
    let docs: f64 = docs("trn3_gen2").levels().iter().map(|level| level.chip_rate).sum();
    assert_eq!(docs, 704e9);
}

#[test]
fn test_specs_agree_with_the_figures_of_their_chips() {
    let chip = Facts::built_in("trainium3").expect("facts");
    for name in ["trn3_gen1", "trn3_gen2"] {
        for level in docs(name).levels() {
            assert_eq!(level.rate / f64::from(level.links), chip.si("pcie_gen6_x8").expect("a rate"));
        }
    }
    let chip = Facts::built_in("trainium2").expect("facts");
    let trn2 = docs("trn2_ultraserver");
    assert_eq!(trn2.levels()[0].rate, chip.si("neuronlink_plane_link").expect("a rate"));
    assert_eq!(trn2.levels()[1].rate, chip.si("neuronlink_z_link").expect("a rate"));
    for (rack, gpu) in [("gb200_nvl72", "b200"), ("gb300_nvl72", "b300"), ("b200", "b200"), ("h100", "h100")] {
        let half = Facts::built_in(gpu).expect("facts").si("nvlink").expect("a rate") / 2.0;
        assert_eq!(docs(rack).levels()[0].rate, half, "{rack}");
    }
}

#[test]
fn test_every_fabric_of_the_crate_is_built() {
    let chips: BTreeMap<&str, usize> = trn3_facts::BUILT_IN
        .iter()
        .filter(|(name, _)| Facts::built_in(name).expect("facts").parts.contains_key("fabric"))
        .map(|(name, _)| (*name, docs(name).chips()))
        .collect();
    let expected = [
        ("b200", 8),
        ("b300", 8),
        ("gb200_nvl72", 72),
        ("gb300_nvl72", 72),
        ("h100", 8),
        ("h200", 8),
        ("inf2_48xlarge", 12),
        ("tpu_v7", 9216),
        ("trainium4", 72),
        ("trainium4_whatif", 72),
        ("trn1_32xlarge", 16),
        ("trn2_instance", 16),
        ("trn2_ultraserver", 64),
        ("trn3_gen1", 64),
        ("trn3_gen2", 144),
    ];
    assert_eq!(chips, BTreeMap::from(expected));
}

#[test]
fn test_numa_nodes_are_those_of_rows() {
    let fabric = docs("trn2_ultraserver");
    for chip in 0..fabric.chips() {
        assert_eq!(fabric.numa(chip), Some(u32::from([0, 3].contains(&fabric.chip_id(chip)[1]))));
    }
    assert_eq!(docs("trn3_gen2").numa(0), None);
    let wrong = MINE.replace("_fabric]\n[[", "_fabric]\nnuma = { axis = \"chip\", nodes = [0], source = \"me\" }\n[[");
    assert!(mine(&wrong).expect_err("too few").to_string().contains("numa gives nodes of 1 values"));
}

#[test]
fn test_chips_of_systems_are_known() {
    for (name, chip) in [("trn3_gen2", "trainium3"), ("gb300_nvl72", "b300"), ("h100", "h100"), ("tpu_v7", "tpu_v7")] {
        assert_eq!(docs(name).chip(), Some(chip));
        assert!(Facts::built_in(chip).is_ok());
    }
    assert_eq!(mine(MINE).expect("a ring").chip(), None);
}

#[test]
fn test_clusters_add_one_network() {
    let facts = Facts::built_in("trn3_gen2").expect("facts");
    let pair = Fabric::cluster(&facts, 2, LinkProfile::Docs).expect("a cluster");
    assert_eq!(pair.chips(), 288);
    let route = pair.route(0, 200).expect("a way");
    assert_eq!((route.legs.len(), route.rate), (1, 25e9));
    assert!((route.latency - 15e-6).abs() < 1e-15);
    assert_eq!(pair.route(0, 143).expect("a way").legs.len(), 2);
    assert!(Fabric::cluster(&facts, 0, LinkProfile::Docs).is_err());
    let alone = Facts::built_in("tpu_v7").expect("facts");
    assert!(Fabric::cluster(&alone, 2, LinkProfile::Docs).expect_err("no network").to_string().contains("network"));
}

const MINE: &str = r#"
[mine]
[mine.chips]
default = 6
unit = "count"
sources = [{ value = 6, source = "me" }]
[mine._fabric]
[[mine._fabric.axes]]
name = "chip"
size = { value = 6, unit = "count", source = "me" }
[[mine._fabric.levels]]
name = "loop"
kind = "ring"
over = ["chip"]
links = { value = 1, unit = "count", source = "me" }
rate = { value = 10, unit = "GB/s/dir", source = "me" }
latency = { value = 1, unit = "us", source = "me" }
"#;

fn mine(text: &str) -> crate::Result<Fabric> {
    Fabric::from_facts(&Facts::parse("mine.toml", text)?[0], LinkProfile::Docs)
}

#[test]
fn test_a_system_of_ones_own_and_what_is_refused_in_it() {
    let fabric = mine(MINE).expect("a ring");
    assert_eq!((fabric.chips(), fabric.links().len(), fabric.hops(0, 3).expect("a way")), (6, 12, 3));
    for (from, to, needle) in [
        ("value = 10, unit", "value = -10, unit", "levels.loop.rate is -10 GB/s/dir"),
        ("value = 10, unit", "value = 0, unit", "positive rate"),
        ("rate = { value = 10, unit = \"GB/s/dir\", source = \"me\" }\n", "", "missing field `rate`"),
        ("\"GB/s/dir\"", "\"GB\"", "levels.loop.rate is 10 GB"),
        ("\"ring\"", "\"star\"", "star"),
        ("over = [\"chip\"]", "over = [\"ship\"]", "the nearest is \"chip\""),
        ("over = [\"chip\"]", "over = []", "over is empty"),
        ("size = { value = 6", "size = { value = 5", "axes of 5 make 5 chips; mine.chips is 6"),
        ("size = { value = 6", "size = { value = 5.5", "whole number"),
        ("value = 1, unit = \"us\"", "value = -1, unit = \"us\"", "latency is -1 us"),
        ("value = 1, unit = \"us\"", "value = 1, unit = \"GB\"", "latency is 1 GB"),
        ("name = \"loop\"", "name = \"loop\"\nspeed = 3", "speed"),
        ("_fabric", "_fabrik", "no fabric"),
    ] {
        assert!(MINE.contains(from), "{from}");
        let error = mine(&MINE.replace(from, to)).expect_err(needle).to_string();
        assert!(error.contains(needle) && error.contains("mine"), "{needle}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let facts = Facts::parse("mine.toml", MINE).expect("facts");
    let error = Fabric::from_facts(&facts[0], LinkProfile::Headline).expect_err("no headline").to_string();
    assert!(error.contains("links=\"docs\""), "{error}");
}

#[test]
fn test_zero_latency_and_parts_that_are_no_links_do_not_confuse_routes() {
    let fabric = mine(&MINE.replace("value = 1, unit = \"us\"", "value = 0, unit = \"us\"")).expect("a ring");
    assert_eq!(fabric.hops(0, 3).expect("a way"), 3);
    assert_eq!(fabric.paths(0, 3).expect("ways").len(), 2);
}
