//! The search against trying every choice there is.

use proptest::prelude::*;

use super::*;
use crate::device::PoolDevice;
use crate::layout::NodeLayout;
use crate::values::AttributeValue;
use std::sync::OnceLock;

/// A node of chips without a torus.
fn node(count: usize) -> NodeLayout {
    let device = |number: usize| PoolDevice {
        driver: "d.internal".to_owned(),
        pool: "p".to_owned(),
        node: "n".to_owned(),
        nodes: Vec::new(),
        name: format!("c-{number}"),
        attributes: vec![(
            ("d.internal".to_owned(), "devicegroup4_id".to_owned()),
            AttributeValue::Int(number as i64 / 4),
        )],
        capacity: Vec::new(),
        taints: Vec::new(),
        uses: Vec::new(),
        seen: OnceLock::new(),
    };
    let devices: Vec<PoolDevice> = (0..count).map(device).collect();
    NodeLayout::new("n".to_owned(), (0..count).collect(), &devices)
}

fn rule() -> impl Strategy<Value = (Vec<usize>, Vec<Option<u32>>, bool)> {
    let wants = prop_oneof![Just(vec![0]), Just(vec![1]), Just(vec![0, 1])];
    (wants, proptest::collection::vec(proptest::option::of(0u32..3), 6), any::<bool>())
}

/// Whether an assignment keeps all that was asked.
fn holds(sets: &[Vec<usize>], rules: &[SearchRule]) -> bool {
    let all: Vec<usize> = sets.concat();
    let apart = all.iter().enumerate().all(|(at, position)| !all[..at].contains(position));
    apart
        && rules.iter().all(|rule| {
            let values: Vec<_> = rule.wants.iter().flat_map(|want| &sets[*want]).map(|p| rule.values[*p]).collect();
            let distinct: BTreeSet<_> = values.iter().collect();
            !values.contains(&None) && distinct.len() == if rule.distinct { values.len() } else { values.len().min(1) }
        })
}

proptest! {
    #[test]
    fn test_devices_are_found_whenever_there_are_some(
        allowed in proptest::collection::vec(proptest::collection::btree_set(0usize..6, 1..6), 2),
        counts in proptest::collection::vec(1usize..4, 2),
        rules in proptest::collection::vec(rule(), 0..3),
        free in proptest::collection::btree_set(0usize..6, 0..7),
    ) {
        let layout = node(6);
        let free_bits = Bits::of(6, |position| free.contains(&position));
        let wants: Vec<Want> = allowed.iter().zip(&counts).map(|(allowed, count)| Want {
            count: Some(*count), candidates: allowed.iter().copied().collect(), admin: false,
        }).collect();
        let rules: Vec<SearchRule> = rules.into_iter().map(|(wants, values, distinct)| SearchRule {
            wants, values: values.into(), distinct,
        }).collect();
        let found = search(&layout.shape, &free_bits, &NodeCounters::default(), &wants, &rules, &[]).expect("few ways");
        let choices = |want: &Want| -> Vec<Vec<usize>> {
            let all = 0u32..1 << 6;
            let set = |mask: u32| (0..6).filter(|p| mask >> p & 1 == 1).collect::<Vec<usize>>();
            all.map(set).filter(|set| Some(set.len()) == want.count).collect()
        };
        let fits = |set: &Vec<usize>, want: &Want| set.iter().all(|p| want.candidates.contains(p) && free.contains(p));
        let mut feasible = false;
        for first in choices(&wants[0]).into_iter().filter(|set| fits(set, &wants[0])) {
            for second in choices(&wants[1]).into_iter().filter(|set| fits(set, &wants[1])) {
                feasible |= holds(&[first.clone(), second], &rules);
            }
        }
        prop_assert_eq!(found.is_some(), feasible);
        if let Some(found) = found {
            prop_assert!(holds(&found.sets, &rules));
            prop_assert!(found.sets.iter().zip(&wants).all(|(set, want)| fits(set, want)));
        }
    }

    #[test]
    fn test_one_request_gets_the_best_set(free in proptest::collection::btree_set(0usize..12, 3..12), count in 1usize..4) {
        let layout = node(12);
        let free_bits = Bits::of(12, |position| free.contains(&position));
        let want = Want { count: Some(count), candidates: (0..12).collect(), admin: false };
        let found = search(&layout.shape, &free_bits, &NodeCounters::default(), &[want], &[], &[]).expect("few ways").expect("room");
        let listed: Vec<usize> = free.into_iter().collect();
        let every = sets::sets(&layout.shape, &free_bits, &listed, count, &[]);
        let best = every.map(|set| (layout.shape.score(&set, &free_bits, &[]), set)).min().expect("one");
        prop_assert_eq!((found.score, &found.sets[0]), (best.0, &best.1));
    }
}

#[test]
fn test_sets_are_counted_and_given_in_order() {
    assert_eq!((sets::choices(16, 8), sets::choices(4, 5), sets::choices(3, 0)), (12_870, 0, 1));
    assert_eq!(sets::choices(600, 300), u128::MAX);
    let layout = node(4);
    let free = layout.all();
    let values = SearchRule { wants: vec![0], values: [Some(0), Some(0), Some(1), None].into(), distinct: true };
    let given: Vec<_> = sets::sets(&layout.shape, &free, &[0, 1, 2, 3], 2, &[&values]).collect();
    assert_eq!(given, [[0, 2], [1, 2]]);
    let all: Vec<_> = sets::sets(&layout.shape, &free, &[0, 1, 2, 3], 3, &[]).collect();
    assert_eq!(all, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]);
    assert_eq!(ways(&[vec![1, 2], vec![3, 4]]).collect::<Vec<_>>(), [[1, 3], [1, 4], [2, 3], [2, 4]]);
    assert_eq!((ways::<u8>(&[]).count(), ways(&[vec![1], vec![]]).count()), (1, 0));
}

#[test]
fn test_a_search_that_takes_too_long_gives_up() {
    let layout = node(40);
    let wants: Vec<Want> =
        (0..4).map(|_| Want { count: Some(8), candidates: (0..40).collect(), admin: false }).collect();
    // Three values for 32 devices that must all differ.
    let values: Arc<[Option<u32>]> = (0..40).map(|number| Some(number % 31)).collect();
    let rule = SearchRule { wants: vec![0, 1, 2, 3], values, distinct: true };
    assert_eq!(
        search(&layout.shape, &layout.all(), &NodeCounters::default(), &wants, &[rule], &[]),
        Err(Error::SearchLimit)
    );
}

#[test]
fn test_a_search_stops_when_it_is_told_to() {
    let layout = node(40);
    let wants = [Want { count: Some(8), candidates: (0..40).collect(), admin: false }];
    let values: Arc<[Option<u32>]> = (0..40).map(|number| Some(number % 7)).collect();
    let rule = SearchRule { wants: vec![0], values, distinct: true };
    // Every set of eight has a value twice, and there are many to try.
    let many = [wants[0].clone(), Want { count: Some(30), ..wants[0].clone() }];
    let stopped = trn3_numerics::with_interrupt_check(
        || true,
        || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            search(&layout.shape, &layout.all(), &NodeCounters::default(), &many, &[], &[])
        },
    );
    assert_eq!(stopped, Err(Error::Interrupted));
    assert_eq!(search(&layout.shape, &layout.all(), &NodeCounters::default(), &wants, &[rule], &[]), Ok(None));
}
