//! Faults: other ways, what is cut off, what it costs.

use super::super::*;
use super::{docs, level_names};
use crate::Error;

fn failed(fabric: &Fabric, names: &[&str]) -> Fabric {
    let faults: Vec<Fault> = names.iter().map(|name| Fault::parse(fabric, name).expect("a name")).collect();
    fabric.fail(&faults).expect("what is left")
}

#[test]
fn test_a_link_between_racks_that_fails_is_gone_around() {
    let whole = docs("trn3_gen2");
    let fabric = failed(&whole, &["0/3/1-1/3/1"]);
    let (from, to) = (fabric.index_of(&[0, 3, 1]).expect("a"), fabric.index_of(&[1, 3, 1]).expect("b"));
    let route = fabric.route(from, to).expect("a way");
    assert_eq!(route.legs.len(), 3);
    assert_eq!(level_names(&fabric, &route.links), ["cross-rack", "server"]);
    let slowdown = whole.slowdown(&fabric).expect("both bounds");
    assert!(slowdown.factor() > 1.0, "{}", slowdown.factor());
    assert!(fabric.cut_off().is_empty() && whole.faults().is_empty());
    assert_eq!(fabric.faults(), ["link 0/3/1-1/3/1 failed"]);
    assert!(whole.is_whole() && !fabric.is_whole());
}

#[test]
fn test_some_links_of_a_bundle_leave_the_others() {
    let whole = docs("trn3_gen2");
    let fabric = failed(&whole, &["rack/0:1"]);
    let rack: Vec<f64> = fabric
        .links()
        .iter()
        .filter(|link| fabric.levels()[link.level as usize].name == "rack")
        .map(|link| link.rate)
        .collect();
    assert_eq!(rack.iter().filter(|&&rate| rate == 256e9).count(), 144);
    assert_eq!(rack.iter().filter(|&&rate| rate == 320e9).count(), 144);
    let half = failed(&whole, &["0/0/0-1/0/0:1"]);
    let slowdown = whole.slowdown(&half).expect("both bounds");
    assert!((slowdown.factor() - 2.0).abs() < 1e-9, "{}", slowdown.factor());
}

#[test]
fn test_a_chip_that_fails_is_gone_and_the_others_keep_their_ids() {
    let whole = docs("trn2_instance");
    let fabric = failed(&whole, &["1/2"]);
    assert_eq!(fabric.chips(), 15);
    let error = fabric.index_of(&[1, 2]).expect_err("failed").to_string();
    assert!(error.contains("chip 1/2 of trn2_instance has failed"), "{error}");
    assert_eq!(fabric.chip_id(fabric.index_of(&[3, 3]).expect("a chip")), [3, 3]);
    let (from, to) = (fabric.index_of(&[1, 1]).expect("a"), fabric.index_of(&[1, 3]).expect("b"));
    let route = fabric.route(from, to).expect("a way");
    assert_eq!(route.relays.iter().map(|&chip| fabric.chip_id(chip).to_vec()).collect::<Vec<_>>(), [vec![1, 0]]);
    assert!(whole.slowdown(&fabric).expect("both bounds").factor() > 1.0);
}

#[test]
fn test_a_rack_plane_that_fails_leaves_ways_through_the_other_rack() {
    let whole = docs("trn3_gen2");
    let fabric = failed(&whole, &["rack/0"]);
    let route = fabric.route(0, 70).expect("a way");
    assert_eq!(level_names(&fabric, &route.links), ["cross-rack", "rack"]);
    assert_eq!(route.legs.len(), 3);
    assert!(whole.slowdown(&fabric).expect("both bounds").factor() > 1.5);
}

#[test]
fn test_what_is_cut_off_is_named() {
    let whole = docs("trn3_gen2");
    let fabric = failed(&whole, &["0/2/0-1/2/0", "0/2/0-rack/0", "0/2/0-server/0/2"]);
    let alone = fabric.index_of(&[0, 2, 0]).expect("a chip");
    assert_eq!(fabric.cut_off(), [vec![alone]]);
    let error = fabric.route(0, alone).expect_err("no way");
    assert!(matches!(&error, Error::Unreachable(text) if text.contains("0/2/0") && text.contains("failed")), "{error}");
    let error = whole.slowdown(&fabric).expect_err("no bound").to_string();
    assert!(error.contains("cut off from the other 143 chips: 0/2/0"), "{error}");
    assert!(bound::all_to_all(&fabric, None).is_err());
    let rack = fabric.select("1").expect("a rack");
    assert!(bound::all_to_all(&fabric, Some(&rack)).is_ok());
}

#[test]
fn test_no_single_fault_cuts_anything_off_or_speeds_anything_up() {
    for name in ["trn2_instance", "trn2_ultraserver", "trn3_gen1"] {
        let whole = docs(name);
        for link in whole.links().iter().take(whole.links().len()).step_by(7) {
            let fabric = whole.fail(&[Fault::Link(link.from as usize, link.to as usize, None)]).expect("rest");
            assert!(fabric.cut_off().is_empty());
            assert!(whole.slowdown(&fabric).expect("both bounds").factor() >= 1.0 - 1e-9);
        }
    }
}

#[test]
fn test_names_of_faults_are_read_and_wrong_ones_refused() {
    let fabric = docs("trn3_gen2");
    for (name, class) in [
        ("1/4/2", HealthClass::Hbm),
        ("server/0/3", HealthClass::LinkSwitch),
        ("rack/1", HealthClass::LinkSwitch),
        ("0/3/1-server/0/3", HealthClass::LinkIntraserver),
        ("0/3/1 -> rack/0", HealthClass::LinkInterserver),
        ("0/3/1-1/3/1:1", HealthClass::LinkInterserver),
    ] {
        let fault = Fault::parse(&fabric, name).expect(name);
        assert_eq!(fault.health_class(&fabric), class, "{name}");
        fabric.fail(&[fault]).expect(name);
    }
    for (name, needle) in [
        ("2/0/0", "nothing named \"2/0/0\"; allowed: a chip like 1/17/3, a switch like server/0/0"),
        ("0/0/0:1", "no meaning for a chip"),
        ("rack/0:0", "above 0"),
        ("rack/0:x", "above 0"),
    ] {
        let error = Fault::parse(&fabric, name).expect_err(name).to_string();
        assert!(error.contains(needle), "{error}");
    }
    for (name, needle) in [
        ("0/0/0-0/0/1", "no link joins 0/0/0 and 0/0/1; 0/0/0 has links to server/0/0, rack/0, 1/0/0"),
        ("rack/0:6", "the bundle has 5"),
        ("0/0/0-1/0/0:3", "the bundle has 2"),
    ] {
        let fault = Fault::parse(&fabric, name).expect(name);
        let error = fabric.fail(&[fault]).expect_err(name).to_string();
        assert!(error.contains(needle), "{error}");
    }
    let pair = docs("h100");
    let all: Vec<Fault> = (0..7).map(Fault::Chip).collect();
    assert!(pair.fail(&all).expect_err("one left").to_string().contains("at least 2"));
    for class in HealthClass::ALL {
        assert_eq!(HealthClass::parse(class.name()).expect("a word"), class);
        assert!(["chip", "link", "switch", "network"].contains(&class.loses()));
    }
    assert!(HealthClass::parse("hbn").expect_err("typo").to_string().contains("\"hbm\""));
}

#[test]
fn test_faults_add_up() {
    let whole = docs("trn3_gen2");
    let once = failed(&failed(&whole, &["0/0/0"]), &["1/17/3"]);
    let both = failed(&whole, &["0/0/0", "1/17/3"]);
    assert_eq!((once.chips(), once.links()), (both.chips(), both.links()));
    assert_eq!(once.faults(), both.faults());
    assert!(once.index_of(&[0, 0, 0]).expect_err("gone").to_string().contains("has failed"));
}
