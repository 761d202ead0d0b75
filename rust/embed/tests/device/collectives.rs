//! Collectives over links of ours and networks of the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use trn3_embed::{CollectiveReduction, Command, Device, DeviceCollective, ErrorKind, Links, MemorySpace, Operation};
use trn3_embed::{Delivery, Message, Network};
use trn3_machine::time::Picos;
use trn3_system::collective::{
    self as engine, Algorithm, Arithmetic, CollectiveTask, Estimator, Extra, Order, RankGroup, Schedule,
};
use trn3_system::collective::{execute, output_length};
use trn3_system::fabric::{Fabric, LinkProfile};

use crate::support::{device_of, floats, settle};

fn part(operation: Operation, ranks: u32, count: u64) -> DeviceCollective {
    DeviceCollective {
        operation,
        reduction: CollectiveReduction::Add,
        group: (0..ranks).collect(),
        key: 5,
        src: 0,
        dst: 1 << 20,
        count,
        dtype: "float32".to_owned(),
    }
}

fn result(device: &mut Device, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    device.read(MemorySpace::Hbm, 0, 1 << 20, &mut bytes).expect("bytes");
    bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// What element `i` of rank `rank` is.
fn value(rank: u32, i: usize) -> f32 {
    (rank * 100) as f32 + i as f32
}

/// Devices, one rank each, that move together until nothing happens.
fn together(devices: &mut [Device]) -> Vec<Picos> {
    let mut ends = vec![Picos(0); devices.len()];
    loop {
        let Some(next) = devices.iter().filter_map(Device::next_event).min() else { return ends };
        for (device, end) in devices.iter_mut().zip(&mut ends) {
            device.advance(next).expect("later");
            while let Some(done) = device.poll() {
                assert_eq!(done.status, Ok(()));
                *end = done.end;
            }
        }
    }
}

fn joined(operation: Operation, ranks: u32, count: usize) -> (Vec<Device>, Vec<Picos>) {
    let links = Links::uniform(Picos(1_000_000), 100.0).expect("links");
    let mut devices: Vec<Device> = (0..ranks)
        .map(|rank| {
            let mut device = device_of(&json!({"rank": rank}));
            device.set_network(Some(Box::new(links.clone())));
            device.write(MemorySpace::Hbm, 0, 0, &floats((0..count).map(|i| value(rank, i)))).expect("room");
            device
        })
        .collect();
    for device in &mut devices {
        device.submit(Command::Collective { core: 0, part: part(operation, ranks, count as u64) }, 1).expect("room");
    }
    // Those that came first learn of later messages when they are moved.
    for device in &mut devices {
        device.advance(Picos(0)).expect("now");
    }
    let ends = together(&mut devices);
    (devices, ends)
}

#[test]
fn test_all_reduce_sums_every_rank_in_order() {
    for (ranks, count) in [(1, 7), (2, 64), (3, 100), (5, 4)] {
        let (mut devices, ends) = joined(Operation::AllReduce, ranks, count);
        let expected: Vec<f32> = (0..count).map(|i| (0..ranks).map(|rank| value(rank, i)).sum()).collect();
        for device in &mut devices {
            assert_eq!(result(device, count), expected);
        }
        assert!(ranks == 1 || ends.iter().all(|end| *end >= Picos(2_000_000)), "{ends:?}");
    }
}

#[test]
fn test_the_other_operations_move_what_they_say() {
    let (mut devices, _) = joined(Operation::AllGather, 3, 4);
    let expected: Vec<f32> = (0..3).flat_map(|rank| (0..4).map(move |i| value(rank, i))).collect();
    assert!(devices.iter_mut().all(|device| result(device, 12) == expected));
    let (mut devices, _) = joined(Operation::ReduceScatter, 3, 6);
    for (rank, device) in devices.iter_mut().enumerate() {
        let expected: Vec<f32> = (2 * rank..2 * rank + 2).map(|i| (0..3).map(|from| value(from, i)).sum()).collect();
        assert_eq!(result(device, 2), expected);
    }
    let (mut devices, ends) = joined(Operation::AllToAll, 3, 6);
    for (rank, device) in devices.iter_mut().enumerate() {
        let expected: Vec<f32> =
            (0..3).flat_map(|from| (2 * rank..2 * rank + 2).map(move |i| value(from, i))).collect();
        assert_eq!(result(device, 6), expected);
    }
    // A microsecond, and eight bytes at a hundred a nanosecond.
    assert!(ends.iter().all(|end| *end == Picos(1_000_080)), "{ends:?}");
}

#[test]
fn test_cores_of_one_device_are_ranks_over_its_own_links() {
    let mut device = device_of(&json!({"cores": 2}));
    device.write(MemorySpace::Hbm, 0, 0, &floats([1.0, 2.0])).expect("room");
    for core in 0..2 {
        let part = DeviceCollective { dst: (1 << 20) + u64::from(core) * 64, ..part(Operation::AllReduce, 2, 2) };
        device.submit(Command::Collective { core, part }, 1).expect("room");
    }
    let done = settle(&mut device);
    assert!(done.iter().all(|done| done.status == Ok(())) && done.len() == 2);
    assert_eq!(result(&mut device, 2), [2.0, 4.0]);
    // Everything at once to the other one, in one step.
    assert_eq!((device.stats().messages_sent, device.stats().message_bytes_sent), (2, 16));
}

/// A host's network, on which nothing arrives until the host says so.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: u64,
    sent: HashMap<(u32, u32, u64), Vec<u8>>,
    delivers: bool,
}

impl Network for Held {
    fn send(&mut self, message: &Message<'_>) -> trn3_machine::Result<()> {
        let mut state = self.0.lock().expect("one thread");
        state.sent.insert((message.from, message.to, message.key), message.bytes.to_vec());
        Ok(())
    }
    fn recv(&mut self, from: u32, to: u32, key: u64) -> trn3_machine::Result<Option<Delivery>> {
        let mut state = self.0.lock().expect("one thread");
        let (at, delivers) = (Picos(state.now), state.delivers);
        Ok(if delivers { state.sent.remove(&(from, to, key)).map(|bytes| Delivery { at, bytes }) } else { None })
    }
    fn schedule(&mut self, _at: Picos) -> trn3_machine::Result<()> {
        Ok(())
    }
    fn now(&self) -> Picos {
        Picos(self.0.lock().expect("one thread").now)
    }
}

#[test]
fn test_a_network_of_the_host_carries_when_the_host_says() {
    let network = Held::default();
    let mut device = device_of(&json!({"cores": 2}));
    device.set_network(Some(Box::new(network.clone())));
    for core in 0..2 {
        device.submit(Command::Collective { core, part: part(Operation::AllGather, 2, 3) }, 1).expect("room");
    }
    assert_eq!(device.next_event(), None);
    device.advance(Picos(700)).expect("later");
    assert!(device.poll().is_none());
    {
        let mut state = network.0.lock().expect("one thread");
        (state.now, state.delivers) = (900, true);
    }
    device.advance(Picos(1000)).expect("later");
    assert_eq!(device.poll().map(|done| done.end), Some(Picos(900)));
}

#[test]
fn test_times_of_commands_add_up_to_no_more_than_there_is() {
    let network = Held::default();
    let mut device = device_of(&json!({"cores": 2}));
    device.set_network(Some(Box::new(network.clone())));
    for core in 0..2 {
        device.submit(Command::Collective { core, part: part(Operation::AllGather, 2, 3) }, 1).expect("room");
    }
    {
        let mut state = network.0.lock().expect("one thread");
        (state.now, state.delivers) = (u64::MAX - 1, true);
    }
    device.advance(Picos(u64::MAX - 1)).expect("later");
    assert_eq!((device.stats().commands_completed, device.stats().command_ps), (2, u64::MAX));
}

#[test]
fn test_wrong_parts_are_refused_at_once() {
    let mut device = device_of(&json!({}));
    let good = part(Operation::ReduceScatter, 2, 4);
    let wrong = [
        (DeviceCollective { group: vec![1, 2], ..good.clone() }, ErrorKind::Value),
        (DeviceCollective { group: vec![0, 0], ..good.clone() }, ErrorKind::Value),
        (DeviceCollective { dtype: "uint8".to_owned(), ..good.clone() }, ErrorKind::Type),
        (DeviceCollective { count: 3, ..good.clone() }, ErrorKind::Shape),
        (DeviceCollective { src: u64::MAX - 4, ..good.clone() }, ErrorKind::Value),
        (DeviceCollective { count: 1 << 40, ..good.clone() }, ErrorKind::Value),
    ];
    for (part, kind) in wrong {
        assert_eq!(device.submit(Command::Collective { core: 0, part }, 1).expect_err("wrong").kind, kind);
    }
}

/// What a device's ranks get over links of its own, and when.
fn on_a_device(operation: Operation, dtype: &str, size: usize, inputs: &[Vec<u8>]) -> (Vec<Vec<u8>>, Picos) {
    let (ranks, count) = (inputs.len(), inputs[0].len() / size);
    let got = match operation {
        Operation::AllGather => count * ranks,
        Operation::ReduceScatter => count / ranks,
        _ => count,
    };
    let mut device = device_of(&json!({"cores": ranks}));
    let place = |core: u32| (u64::from(core) << 24, 1 << 30 | u64::from(core) << 24);
    for (core, input) in (0..).zip(inputs) {
        let (src, dst) = place(core);
        device.write(MemorySpace::Hbm, 0, src, input).expect("room");
        let part =
            DeviceCollective { src, dst, dtype: dtype.to_owned(), ..part(operation, ranks as u32, count as u64) };
        device.submit(Command::Collective { core, part }, 1).expect("room");
    }
    let done = settle(&mut device);
    assert!(done.len() == ranks && done.iter().all(|one| one.status == Ok(()) && one.end == done[0].end), "{done:?}");
    let outputs = (0..ranks as u32).map(|core| {
        let mut bytes = vec![0; got * size];
        device.read(MemorySpace::Hbm, 0, place(core).1, &mut bytes).expect("there");
        bytes
    });
    (outputs.collect(), done[0].end)
}

#[test]
fn test_ranks_of_a_device_get_what_the_engine_of_systems_says() {
    let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("builds"));
    let estimator = Estimator::new(Arc::clone(&fabric)).expect("builds");
    let mut seed = 1u32;
    let mut code = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Finite and infinite, of both signs, and NaN.
        (seed >> 16) as u16
    };
    for ranks in [1, 2, 5, 8] {
        for (operation, same) in [
            (Operation::AllReduce, engine::Operation::AllReduce),
            (Operation::AllGather, engine::Operation::AllGather),
            (Operation::ReduceScatter, engine::Operation::ReduceScatter),
            (Operation::AllToAll, engine::Operation::AllToAll),
        ] {
            let count = 40 * 1024;
            let inputs: Vec<Vec<u8>> =
                (0..ranks).map(|_| (0..count).flat_map(|_| code().to_le_bytes()).collect()).collect();
            let group = RankGroup::new((0..ranks).collect(), 8, fabric.chips()).expect("there");
            let task =
                CollectiveTask { operation: same, algorithm: None, groups: vec![group], extra: Extra::default() };
            let bytes = if operation == Operation::AllGather { 2 * count * ranks } else { 2 * count };
            let cost = estimator.cost(&task, f64::from(bytes), true).expect("known");
            let form: Algorithm = cost.form.parse().expect("one of them");
            let schedule = Schedule::new(&fabric, &task.groups[0], same, form, &task.extra).expect("builds");
            let element = if matches!(operation, Operation::AllReduce | Operation::ReduceScatter) {
                "bfloat16"
            } else {
                "uint16"
            };
            let arithmetic = Arithmetic { order: Order::Index, ..Arithmetic::new(element.parse().expect("known")) };
            let mut expected = vec![vec![0; 2 * output_length(&schedule, count as usize)]; ranks as usize];
            let given: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let mut places: Vec<&mut [u8]> = expected.iter_mut().map(Vec::as_mut_slice).collect();
            execute(&schedule, &arithmetic, &given, &mut places, None).expect("runs");
            let (outputs, end) = on_a_device(operation, "bfloat16", 2, &inputs);
            assert!(outputs == expected, "{operation:?} of {ranks}");
            assert_eq!(end, Picos::from_nanoseconds(cost.time * 1e9), "{operation:?} of {ranks}");
        }
    }
}

#[test]
fn test_devices_that_share_a_systems_links_meet_on_it() {
    let arch = device_of(&json!({})).arch().clone();
    let links = Links::of_system("trn3_gen2", &arch).expect("links");
    let mut devices: Vec<Device> = [0, 8]
        .map(|rank| {
            let mut device = device_of(&json!({"rank": rank}));
            device.set_network(Some(Box::new(links.clone())));
            device.write(MemorySpace::Hbm, 0, 0, &floats([rank as f32, 1.0])).expect("room");
            device
        })
        .into();
    let meeting = DeviceCollective { group: vec![0, 8], ..part(Operation::AllReduce, 2, 2) };
    // The second comes a microsecond later.
    for (device, at) in devices.iter_mut().zip([0, 1_000_000]) {
        device.advance(Picos(at)).expect("later");
        device.submit(Command::Collective { core: 0, part: meeting.clone() }, 1).expect("room");
    }
    devices[0].advance(Picos(1_000_000)).expect("later");
    let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("builds"));
    let group = RankGroup::new(vec![0, 8], 8, fabric.chips()).expect("there");
    let task = CollectiveTask {
        operation: engine::Operation::AllReduce,
        algorithm: None,
        groups: vec![group],
        extra: Extra::default(),
    };
    let cost = Estimator::new(fabric).and_then(|estimator| estimator.cost(&task, 8.0, true)).expect("known");
    let ends = together(&mut devices);
    assert_eq!(ends, [Picos(1_000_000) + Picos::from_nanoseconds(cost.time * 1e9); 2]);
    assert!(devices.iter_mut().all(|device| result(device, 2) == [8.0, 2.0]));
}

#[test]
fn test_ranks_that_bring_different_things_all_hear_of_it() {
    let mut device = device_of(&json!({"cores": 2}));
    for core in 0..2 {
        let part = DeviceCollective {
            dst: (1 << 20) + u64::from(core) * 64,
            ..part(Operation::AllReduce, 2, 2 + u64::from(core))
        };
        device.submit(Command::Collective { core, part }, 1).expect("room");
    }
    let done = settle(&mut device);
    assert_eq!(done.len(), 2);
    for one in done {
        let error = one.status.expect_err("they differ");
        assert_eq!(error.kind, ErrorKind::Value);
        assert!(error.message.contains("rank 1 brings all_reduce of 3 float32 by add and rank 0"), "{error}");
    }
    let part = DeviceCollective { group: vec![0, 9000], ..part(Operation::AllReduce, 2, 2) };
    device.submit(Command::Collective { core: 0, part }, 1).expect("room");
    let done = settle(&mut device);
    assert!(done[0].status.as_ref().expect_err("no such rank").message.contains("rank 9000"), "{done:?}");
}
