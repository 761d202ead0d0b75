//! The flow simulation against its definition, the textbook version and the laws it must keep.

use proptest::prelude::*;
use trn3_system::fabric::{Fabric, LinkProfile};
use trn3_system::flow::{FlowMessage, FlowTransfer, Outcome, Resource, bound, over_fabric, reference, run, run_queued};

/// Agreement asked of the fast and the textbook version, relative to the finish.
const CLOSE: f64 = 1e-9;

fn links(rates: &[f64]) -> Vec<Resource> {
    rates.iter().enumerate().map(|(i, &rate)| Resource::new(format!("link {i}"), rate)).collect()
}

fn done(resources: &[Resource], transfers: &[FlowTransfer]) -> Outcome {
    run(resources, transfers).expect("runs")
}

prop_compose! {
    /// A network of a few links, and transfers of few kinds over it, so that ties and equal paths are common.
    fn some_transfers(most: usize)(
        rates in prop::collection::vec(prop::sample::select(vec![1.0, 2.0, 3.0, 10.0, 0.7]), 1..6),
        kinds in prop::collection::vec((
            prop::collection::vec((0usize..6, prop::sample::select(vec![1.0, 0.5, 3.0, 1.0 / 3.0])), 0..4),
            prop::sample::select(vec![0.0, 1.0, 2.0, 5.0, 0.1]),
            prop::sample::select(vec![0.0, 0.5, 1.5]),
            prop::sample::select(vec![0u8, 0, 1, 3]),
            prop::sample::select(vec![1.0, 1.0, 16.0]),
        ), 1..5),
        picks in prop::collection::vec((0usize..5, prop::collection::vec(0usize..40, 0..3), 0usize..3), 1..most),
    ) -> (Vec<Resource>, Vec<FlowTransfer>) {
        let transfers = picks.iter().enumerate().map(|(index, (kind, after, start))| {
            let (uses, bytes, latency, priority, share) = &kinds[kind % kinds.len()];
            FlowTransfer {
                bytes: *bytes,
                uses: uses.iter().map(|&(r, weight)| ((r % rates.len()) as u32, weight)).collect(),
                latency: *latency,
                priority: *priority,
                share: *share,
                after: after.iter().filter(|&&before| before < index).map(|&before| before as u32).collect(),
                start: *start as f64,
                tag: 0,
            }
        }).collect();
        (links(&rates), transfers)
    }
}

proptest! {
    #[test]
    fn test_run_equals_the_textbook((resources, transfers) in some_transfers(30)) {
        let fast = done(&resources, &transfers);
        let slow = reference::spans(&resources, &transfers).expect("runs");
        for (index, (a, b)) in fast.spans.iter().zip(&slow).enumerate() {
            prop_assert!((a.0 - b.0).abs() <= CLOSE * fast.finish, "transfer {index} begins at {} or {}", a.0, b.0);
            prop_assert!((a.1 - b.1).abs() <= CLOSE * fast.finish, "transfer {index} ends at {} or {}", a.1, b.1);
        }
    }

    #[test]
    fn test_run_does_not_depend_on_the_order_of_transfers(
        (resources, transfers) in some_transfers(30), seed in any::<u64>()
    ) {
        let mut order: Vec<usize> = (0..transfers.len()).collect();
        order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(seed | 1));
        let mut place = vec![0u32; order.len()];
        for (now, &was) in order.iter().enumerate() {
            place[was] = now as u32;
        }
        let shuffled: Vec<FlowTransfer> = order.iter().map(|&was| {
            let transfer = transfers[was].clone();
            FlowTransfer { after: transfer.after.iter().map(|&before| place[before as usize]).collect(), ..transfer }
        }).collect();
        let (one, other) = (done(&resources, &transfers), done(&resources, &shuffled));
        for (was, &now) in place.iter().enumerate() {
            prop_assert_eq!(one.spans[was], other.spans[now as usize]);
            prop_assert_eq!(one.bottleneck[was], other.bottleneck[now as usize]);
        }
        prop_assert_eq!(one.busy, other.busy);
        prop_assert_eq!(one.binding, other.binding);
    }

    #[test]
    fn test_run_conserves_bytes_within_what_resources_can_carry((resources, transfers) in some_transfers(40)) {
        let outcome = done(&resources, &transfers);
        for (index, resource) in resources.iter().enumerate() {
            let sent: f64 = transfers.iter().map(|transfer| {
                let uses = transfer.uses.iter().filter(|(r, _)| *r as usize == index);
                transfer.bytes * uses.map(|(_, weight)| weight).sum::<f64>()
            }).sum();
            prop_assert!((outcome.carried[index] - sent).abs() <= CLOSE * sent);
            prop_assert!(sent <= resource.rate * outcome.busy[index] * (1.0 + CLOSE), "more than it can carry");
            prop_assert!(outcome.busy[index] <= outcome.finish * (1.0 + CLOSE));
        }
        let (least, _) = bound(&resources, &transfers).expect("bounded");
        prop_assert!(outcome.finish >= least * (1.0 - CLOSE));
    }

    #[test]
    fn test_equal_transfers_end_together((resources, transfers) in some_transfers(20), copies in 2usize..5) {
        // Copies that wait for the same and nobody waits for.
        let many: Vec<FlowTransfer> = transfers.iter().cloned()
            .chain((0..copies).map(|_| transfers[0].clone())).collect();
        let outcome = done(&resources, &many);
        for copy in transfers.len()..many.len() {
            prop_assert_eq!(outcome.spans[copy], outcome.spans[0]);
        }
    }

    #[test]
    fn test_lower_classes_never_delay_higher_ones((resources, transfers) in some_transfers(30)) {
        let independent: Vec<FlowTransfer> =
            transfers.into_iter().map(|transfer| FlowTransfer { after: Vec::new(), ..transfer }).collect();
        let all = done(&resources, &independent);
        for lowest in 0..3u8 {
            let high: Vec<usize> = (0..independent.len()).filter(|&i| independent[i].priority <= lowest).collect();
            let alone: Vec<FlowTransfer> = high.iter().map(|&i| independent[i].clone()).collect();
            let alone = done(&resources, &alone);
            for (place, &index) in high.iter().enumerate() {
                prop_assert!((alone.spans[place].1 - all.spans[index].1).abs() <= CLOSE * all.finish);
            }
        }
    }

    #[test]
    fn test_scaling_bytes_or_rates_scales_time((resources, transfers) in some_transfers(30), factor in 1.0..8.0f64) {
        let begin = |transfer: &FlowTransfer| FlowTransfer { start: 0.0, latency: 0.0, ..transfer.clone() };
        let plain: Vec<FlowTransfer> = transfers.iter().map(begin).collect();
        let more: Vec<FlowTransfer> =
            plain.iter().map(|transfer| FlowTransfer { bytes: transfer.bytes * factor, ..transfer.clone() }).collect();
        let wide: Vec<Resource> =
            resources.iter().map(|link| Resource::new(link.name.clone(), link.rate * factor)).collect();
        let time = done(&resources, &plain).finish;
        prop_assert!((done(&resources, &more).finish - time * factor).abs() <= CLOSE * time * factor);
        prop_assert!((done(&wide, &plain).finish * factor - time).abs() <= CLOSE * time);
    }

    #[test]
    fn test_one_shared_resource_is_monotone_in_rate_and_bytes(
        private in prop::collection::vec((0.1..4.0f64, 0.1..9.0f64, 0u8..4), 1..12),
        shared in 0.5..9.0f64, more in 1.0..4.0f64, which in 0usize..12,
    ) {
        let mut resources = links(&private.iter().map(|(rate, ..)| *rate).collect::<Vec<_>>());
        let hub = resources.len() as u32;
        resources.push(Resource::new("shared", shared));
        let mut transfers: Vec<FlowTransfer> = private.iter().enumerate().map(|(index, &(_, bytes, priority))| {
            FlowTransfer { priority, ..FlowTransfer::over(bytes, [index as u32, hub]) }
        }).collect();
        let before = done(&resources, &transfers);
        resources[hub as usize].rate *= more;
        let wider = done(&resources, &transfers);
        let which = which % transfers.len();
        transfers[which].bytes *= more;
        let heavier = done(&resources, &transfers);
        for index in 0..transfers.len() {
            prop_assert!(wider.spans[index].1 <= before.spans[index].1 * (1.0 + CLOSE), "wider is slower");
            prop_assert!(heavier.spans[index].1 >= wider.spans[index].1 * (1.0 - CLOSE), "heavier is faster");
        }
    }

    #[test]
    fn test_bound_is_monotone_in_rates_and_bytes(
        (resources, transfers) in some_transfers(30), more in 1.0..4.0f64, which in 0usize..30
    ) {
        let least = bound(&resources, &transfers).expect("bounded").0;
        let (mut wider, mut heavier) = (resources.clone(), transfers.clone());
        wider[which % resources.len()].rate *= more;
        heavier[which % transfers.len()].bytes *= more;
        prop_assert!(bound(&wider, &transfers).expect("bounded").0 <= least);
        prop_assert!(bound(&resources, &heavier).expect("bounded").0 >= least);
    }

    #[test]
    fn test_rates_have_a_bottleneck_each((resources, transfers) in some_transfers(12)) {
        // The definition of max-min fairness, on the first instant of the textbook version.
        let streams: Vec<FlowTransfer> = transfers.into_iter()
            .filter(|transfer| !transfer.uses.is_empty() && transfer.bytes > 0.0)
            .map(|transfer| FlowTransfer { priority: 0, ..transfer }).collect();
        let moving: Vec<usize> = (0..streams.len()).collect();
        let rates = reference::rates(&resources, &streams, &moving);
        let level = |i: usize| rates[i] / streams[i].share;
        let weight = |i: usize, r: usize| -> f64 {
            streams[i].uses.iter().filter(|(used, _)| *used as usize == r).map(|(_, weight)| weight).sum()
        };
        let load: Vec<f64> =
            (0..resources.len()).map(|r| moving.iter().map(|&i| rates[i] * weight(i, r)).sum()).collect();
        for r in 0..resources.len() {
            prop_assert!(load[r] <= resources[r].rate * (1.0 + CLOSE), "overfull");
        }
        for i in 0..streams.len() {
            let held = (0..resources.len()).filter(|&r| weight(i, r) > 0.0).any(|r| {
                load[r] >= resources[r].rate * (1.0 - CLOSE)
                    && moving.iter().filter(|&&j| weight(j, r) > 0.0).all(|&j| level(j) <= level(i) * (1.0 + CLOSE))
            });
            prop_assert!(held, "stream {i} could be faster");
        }
    }
}

#[test]
fn test_a_wider_link_may_delay_another_transfer() {
    // The counterexample that the module's text describes, so that nobody asserts the opposite.
    let transfers = [FlowTransfer::over(0.11, [0, 1]), FlowTransfer::over(1.0, [1, 2])];
    let narrow = done(&links(&[0.1, 1.0, 0.9]), &transfers);
    let wide = done(&links(&[1.0, 1.0, 0.9]), &transfers);
    assert!(wide.spans[0].1 < narrow.spans[0].1);
    assert!(wide.finish > narrow.finish + 0.09, "{} {}", wide.finish, narrow.finish);
}

#[test]
fn test_more_bytes_of_one_may_speed_up_another() {
    // The A share a link with B, and B one with C: while they last, B leaves more to C.
    let with = |bytes: f64| {
        [
            FlowTransfer::over(bytes, [0]),
            FlowTransfer::over(bytes, [0]),
            FlowTransfer::over(3.0, [0, 1]),
            FlowTransfer::over(1.0, [1]),
        ]
    };
    let (short, long) = (done(&links(&[1.0, 1.0]), &with(0.0)), done(&links(&[1.0, 1.0]), &with(9.0)));
    assert_eq!(short.spans[3].1, 2.0);
    assert!((long.spans[3].1 - 1.5).abs() < CLOSE);
    assert!(long.spans[2].1 > short.spans[2].1);
}

#[test]
fn test_overlapping_collectives_take_between_the_longer_and_the_sum() {
    let dma = links(&[100.0]);
    let one: Vec<FlowTransfer> = (0..8).map(|_| FlowTransfer::over(50.0, [0])).collect();
    let two: Vec<FlowTransfer> = (0..8).map(|_| FlowTransfer::over(25.0, [0])).collect();
    let (alone_one, alone_two) = (done(&dma, &one).finish, done(&dma, &two).finish);
    for priority in 0..4 {
        let second = two.iter().map(|transfer| FlowTransfer { priority, ..transfer.clone() });
        let both = done(&dma, &one.iter().cloned().chain(second).collect::<Vec<_>>());
        assert!(both.finish >= alone_one.max(alone_two) && both.finish <= (alone_one + alone_two) * (1.0 + CLOSE));
        assert!((both.carried[0] - 600.0).abs() < 1e-9);
        if priority > 0 {
            assert!((both.spans[0].1 - alone_one).abs() < CLOSE, "the critical one keeps its time");
        } else {
            assert!(both.spans[0].1 > alone_one);
        }
    }
}

#[test]
fn test_packets_share_an_engine_in_proportion() {
    // 64 KiB packets of a collective beside 4 KiB packets of compute: sixteen to one.
    let dma = links(&[17.0]);
    let outcome =
        done(&dma, &[FlowTransfer { share: 16.0, ..FlowTransfer::over(160.0, [0]) }, FlowTransfer::over(10.0, [0])]);
    assert_eq!(outcome.spans, [(0.0, 10.0), (0.0, 10.0)]);
}

#[test]
fn test_memory_touched_thrice_weighs_thrice() {
    let outcome =
        done(&links(&[10.0, 12.0]), &[FlowTransfer { uses: vec![(0, 1.0), (1, 3.0)], ..FlowTransfer::over(8.0, [0]) }]);
    assert_eq!(outcome.finish, 2.0);
    assert_eq!(outcome.carried, [8.0, 24.0]);
    assert_eq!(outcome.bottleneck, [Some(1)]);
}

#[test]
fn test_chains_pay_latency_at_each_step_and_name_what_binds() {
    let step = |index: u32, link: u32, bytes: f64| FlowTransfer {
        latency: 0.5,
        after: index.checked_sub(1).into_iter().collect(),
        ..FlowTransfer::over(bytes, [link])
    };
    let mut transfers = vec![step(0, 0, 1.0), step(1, 1, 4.0), step(2, 0, 1.0)];
    transfers.push(FlowTransfer::over(1.0, [2]));
    let outcome = done(&links(&[1.0, 1.0, 1.0]), &transfers);
    assert_eq!(outcome.spans, [(0.0, 1.5), (1.5, 6.0), (6.0, 7.5), (0.0, 1.0)]);
    assert_eq!(outcome.binding, [1, 0]);
    assert_eq!(outcome.busy, [2.0, 4.0, 1.0]);
}

#[test]
fn test_nothing_to_move_takes_latency_alone() {
    let empty = FlowTransfer { latency: 2.0, start: 1.0, ..FlowTransfer::default() };
    let next = FlowTransfer { after: vec![0], ..FlowTransfer::over(0.0, [0]) };
    let outcome = done(&links(&[0.0]), &[empty, next]);
    assert_eq!(outcome.spans, [(1.0, 3.0), (3.0, 3.0)]);
    assert_eq!(done(&[], &[]), Outcome::default());
}

#[test]
fn test_wrong_input_is_refused_by_name() {
    let one = |change: fn(&mut FlowTransfer)| {
        let mut transfer = FlowTransfer::over(1.0, [0]);
        change(&mut transfer);
        run(&links(&[1.0]), &[transfer]).expect_err("refused").to_string()
    };
    assert!(one(|t| t.bytes = -1.0).contains("transfer 0: bytes is -1"));
    assert!(one(|t| t.bytes = f64::NAN).contains("bytes is NaN"));
    assert!(one(|t| t.latency = f64::INFINITY).contains("latency is inf"));
    assert!(one(|t| t.start = -2.0).contains("start is -2"));
    assert!(one(|t| t.share = 0.0).contains("share is 0"));
    assert!(one(|t| t.priority = 4).contains("priority is 4; allowed: 0 (highest) to 3"));
    assert!(one(|t| t.uses = vec![(7, 1.0)]).contains("uses resource 7, which there is not; allowed: 0 to 0"));
    assert!(one(|t| t.uses = vec![(0, -1.0)]).contains("weight on \"link 0\" is -1"));
    assert!(one(|t| t.after = vec![3]).contains("after transfer 3"));
    assert!(one(|t| t.after = vec![0]).contains("circle (1 of them): 0 after 0"));
    let broken = run(&links(&[0.0]), &[FlowTransfer::over(5.0, [0])]).expect_err("no way").to_string();
    assert!(broken.contains("\"link 0\": rate is 0 B/s, but transfer 0 sends 5 bytes"), "{broken}");
    assert!(run(&links(&[-1.0]), &[]).is_err() && run(&links(&[f64::NAN]), &[]).is_err());
    let late = run(&links(&[1e-300]), &[FlowTransfer::over(1e300, [0])]).expect_err("never").to_string();
    assert!(late.contains("later than any number"), "{late}");
}

#[test]
fn test_circles_are_named_whatever_leads_into_them() {
    let after = |before: &[u32]| FlowTransfer { after: before.to_vec(), ..FlowTransfer::over(1.0, [0]) };
    let transfers = [after(&[]), after(&[0, 3]), after(&[1]), after(&[2]), after(&[3])];
    let error = run(&links(&[1.0]), &transfers).expect_err("a circle").to_string();
    assert!(error.contains("circle (3 of them): 1 after 3 after 2 after 1"), "{error}");
}

#[test]
fn test_exchange_of_144_chips_is_bound_by_every_direct_link_between_the_racks() {
    let fabric = Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("built in");
    let chips = 0..fabric.chips();
    let pairs = chips.clone().flat_map(|a| chips.clone().filter(move |&b| a != b).map(move |b| (a, b)));
    let messages: Vec<FlowMessage> = pairs.map(|(a, b)| FlowMessage::new(a, b, 1e6)).collect();
    let (resources, transfers) = over_fabric(&fabric, &messages).expect("connected");
    let outcome = done(&resources, &transfers);
    // Each direct link carries 72 of a chip's 143 messages; the first byte needs 1.5 us.
    assert!((outcome.finish - 1.5e-6 - 72e6 / 128e9).abs() < 1e-12, "{}", outcome.finish);
    let names: Vec<&str> = outcome.binding.iter().map(|&l| resources[l as usize].name.as_str()).collect();
    assert_eq!(names.len(), 144, "{names:?}");
    assert!(outcome.binding.iter().all(|&link| resources[link as usize].name.ends_with("(cross-rack)")));
    // By symmetry, which rounding must not break: messages within a sled and within a rack, direct ones, and those that
    // a chip of the same sled or of another one relays.
    let mut ends: Vec<u64> = outcome.spans.iter().map(|span| span.1.to_bits()).collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 5, "{ends:?}");
}

#[test]
fn test_messages_name_what_is_wrong_with_them() {
    let fabric = Fabric::built_in("trn2_instance", LinkProfile::Docs).expect("built in");
    let error =
        over_fabric(&fabric, &[FlowMessage::new(0, 1, 1.0), FlowMessage::new(0, 16, 1.0)]).expect_err("no such chip");
    assert!(error.to_string().contains("message 1") && error.to_string().contains("chip number 16"), "{error}");
    let (links, transfers) = over_fabric(&fabric, &[FlowMessage::new(3, 3, 1e9)]).expect("to itself");
    assert_eq!(done(&links, &transfers).finish, 0.0);
}

#[test]
fn test_queue_runs_one_at_a_time_in_the_order_of_readiness() {
    let work = |seconds: f64, after: Vec<u32>| FlowTransfer { latency: seconds, after, ..FlowTransfer::default() };
    // The second is ready only after the third, which another queue runs; the fourth is ready at once.
    let transfers = [work(2.0, vec![]), work(1.0, vec![2]), work(3.0, vec![]), work(4.0, vec![])];
    let outcome = run_queued(&[], &transfers, &[Some(0), Some(0), Some(1), Some(0)]).expect("runs");
    assert_eq!(outcome.spans, [(0.0, 2.0), (6.0, 7.0), (0.0, 3.0), (2.0, 6.0)]);
    assert_eq!(outcome.behind, [None, Some(3), None, Some(0)]);
    assert_eq!(outcome.finish, 7.0);
}

#[test]
fn test_queue_of_transfers_of_no_time_ends_at_once() {
    let nothing = |after: Vec<u32>| FlowTransfer { after, ..FlowTransfer::default() };
    let transfers = [nothing(vec![]), nothing(vec![0]), nothing(vec![]), nothing(vec![2])];
    let outcome = run_queued(&[], &transfers, &[Some(0); 4]).expect("runs");
    assert!(outcome.spans.iter().all(|span| *span == (0.0, 0.0)));
}

#[test]
fn test_queue_holds_streams_apart_on_a_link() {
    let link = [Resource::new("link", 100.0)];
    let transfers = [FlowTransfer::over(100.0, [0]), FlowTransfer::over(100.0, [0])];
    assert_eq!(run(&link, &transfers).expect("runs").spans, [(0.0, 2.0), (0.0, 2.0)]);
    let queued = run_queued(&link, &transfers, &[Some(0), Some(0)]).expect("runs");
    assert_eq!(queued.spans, [(0.0, 1.0), (1.0, 2.0)]);
    assert_eq!(queued.binding, [0]);
}

#[test]
fn test_wrong_queues_are_refused() {
    let late = [FlowTransfer { start: 1.0, ..FlowTransfer::default() }];
    let text = run_queued(&[], &late, &[Some(0)]).expect_err("refused").to_string();
    assert!(text.contains("is in a queue and has a start"), "{text}");
    let text = run_queued(&[], &late, &[]).expect_err("refused").to_string();
    assert!(text.contains("0 came for 1 transfers"), "{text}");
}
