//! Cores that write the same bytes of HBM between two meetings: what stays, whatever order the host runs them in.

use std::sync::Arc;

use proptest::prelude::*;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::meeting;
use trn3_machine::memory::{Finding, Request};
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;

const ROWS: usize = 16;
const COLUMNS: usize = 24;
/// What bytes hold that nothing wrote.
const UNWRITTEN: u8 = 4;

/// Rows and columns that a core writes: first, end, step.
type Write = ([usize; 3], [usize; 3]);

fn tensor(core: &mut NeuronCore, name: &str, shape: &[usize], buffer: Buffer) -> View {
    View::whole(core.allocate(&Request::unsited(name, shape, DType::UInt8, buffer)).expect("room"))
}

/// A tensor that cores share. How exactly hazards tell its bytes apart hangs on the first view that is asked for its
/// regions: here the whole of it, whichever core comes first.
fn shared_tensor(core: &mut NeuronCore) -> View {
    let shared = tensor(core, "shared", &[ROWS, COLUMNS], Buffer::SharedHbm);
    shared.regions();
    shared
}

fn part(view: &View, (rows, columns): Write) -> View {
    let cut = |view: View, axis: usize, [first, end, step]: [usize; 3]| {
        view.slice(axis, first as i64, end as i64, step as i64).expect("inside")
    };
    cut(cut(view.clone(), 0, rows), 1, columns)
}

/// What both cores leave, with the number of races; `order` says whose turn it is on the host. Cores meet after so many
/// writes of each.
fn run(writes: &[Vec<Write>; 2], order: &[bool], timing: bool, meets: usize) -> (Vec<u8>, usize) {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
    let mut first = NeuronCore::new(arch, CoreOptions { timing, ..CoreOptions::default() }).expect("a core");
    let second = NeuronCore::beside(&mut first, 1).expect("a core");
    let mut cores = [first, second];
    let shared = shared_tensor(&mut cores[0]);
    let mut next = [0; 2];
    let mut tiles: [Vec<View>; 2] = [Vec::new(), Vec::new()];
    for number in 0..2 {
        for index in 0..writes[number].len() {
            let tile = tensor(&mut cores[number], "tile", &[ROWS, COLUMNS], Buffer::Sbuf);
            let value = (11 + number + 2 * index) as u8;
            cores[number].state.memory.write_bits(&tile, &[u32::from(value); ROWS * COLUMNS]).expect("values");
            tiles[number].push(tile);
        }
    }
    for stop in [meets, usize::MAX] {
        let mut turns = order.iter().map(|turn| usize::from(*turn)).chain([0, 1].repeat(ROWS * COLUMNS));
        let left = |next: &[usize; 2], number: usize| next[number] < writes[number].len().min(stop);
        while left(&next, 0) || left(&next, 1) {
            let number = turns.next().expect("as many turns as writes");
            if !left(&next, number) {
                continue;
            }
            let index = next[number];
            let (dst, src) = (part(&shared, writes[number][index]), part(&tiles[number][index], writes[number][index]));
            let copy = DmaCopy { dst, src, options: Options::default(), engine: None };
            cores[number].issue(&copy, At::default()).expect("a copy");
            next[number] += 1;
        }
        let [one, other] = &mut cores;
        meeting::synchronise(&mut [one, other]).expect("room");
    }
    let found = cores.iter_mut().flat_map(|core| core.state.memory.findings().clone());
    let races = found.filter(|finding| matches!(finding, Finding::Race { .. })).count();
    (cores[0].state.peek_bytes(&shared).expect("bytes"), races)
}

/// What the writes leave if each has ended when its core's timeline, run alone, says so.
fn model(writes: &[Vec<Write>; 2], ends: &[Vec<u64>; 2], meets: usize) -> Vec<u8> {
    let mut bytes = vec![UNWRITTEN; ROWS * COLUMNS];
    let numbered = |number: usize| {
        let both = writes[number].iter().zip(&ends[number]).enumerate();
        both.map(move |(index, (write, end))| (index >= meets, *end, number, index, *write)).collect::<Vec<_>>()
    };
    let mut all = [numbered(0), numbered(1)].concat();
    all.sort_by_key(|&(late, end, number, index, _)| (late, end, number, index));
    for (_, _, number, index, (rows, columns)) in all {
        for row in (rows[0]..rows[1]).step_by(rows[2]) {
            for column in (columns[0]..columns[1]).step_by(columns[2]) {
                bytes[row * COLUMNS + column] = (11 + number + 2 * index) as u8;
            }
        }
    }
    bytes
}

fn ends(writes: &[Write]) -> Vec<u64> {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
    let mut core = NeuronCore::new(arch, CoreOptions::default()).expect("a core");
    let shared = shared_tensor(&mut core);
    // Each write has a tile of its own: at the place of one that is gone it would wait for that one's use.
    let mut tiles = Vec::new();
    for write in writes {
        let tile = tensor(&mut core, "tile", &[ROWS, COLUMNS], Buffer::Sbuf);
        core.state.memory.write_bits(&tile, &[1; ROWS * COLUMNS]).expect("values");
        let copy =
            DmaCopy { dst: part(&shared, *write), src: part(&tile, *write), options: Options::default(), engine: None };
        core.issue(&copy, At::default()).expect("a copy");
        tiles.push(tile);
    }
    core.settle(0);
    core.timeline.records().iter().map(|record| record.end.0).collect()
}

fn stretch(length: usize) -> impl Strategy<Value = [usize; 3]> {
    (0..length, 1..=length, 1..4usize).prop_map(move |(first, count, step)| [first, (first + count).min(length), step])
}

fn program() -> impl Strategy<Value = Vec<Write>> {
    prop::collection::vec((stretch(ROWS), stretch(COLUMNS)), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn test_the_last_write_in_time_stays_in_any_host_order(
        one in program(), other in program(), order in prop::collection::vec(any::<bool>(), 12), meets in 0..6usize,
    ) {
        let writes = [one, other];
        let expected = model(&writes, &[ends(&writes[0]), ends(&writes[1])], meets);
        for order in [vec![false; 12], vec![true; 12], order] {
            for timing in [true, false] {
                prop_assert_eq!(&run(&writes, &order, timing, meets).0, &expected);
            }
        }
    }

    #[test]
    fn test_writes_race_where_they_meet_and_only_there(
        one in (stretch(ROWS), stretch(COLUMNS)), other in (stretch(ROWS), stretch(COLUMNS)),
    ) {
        let bytes = |(rows, columns): Write| {
            (rows[0]..rows[1]).step_by(rows[2]).flat_map(move |row| {
                (columns[0]..columns[1]).step_by(columns[2]).map(move |column| row * COLUMNS + column)
            })
        };
        let meet = bytes(one).any(|byte| bytes(other).any(|found| found == byte));
        prop_assert_eq!(run(&[vec![one], vec![other]], &[], true, 9).1, usize::from(meet));
    }
}
