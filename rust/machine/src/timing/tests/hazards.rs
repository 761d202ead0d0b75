//! The hazard structure against a map of single bytes.

use std::collections::HashMap;

use proptest::prelude::*;
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::timing::hazard::{Access, Hazards, Waits};
use crate::timing::region::{Rect, Region, Space};

#[derive(Clone, Debug)]
enum Use {
    Read,
    Write,
    /// A write of TensorE that does not wait for TensorE.
    Accumulate,
    Forget,
}

#[derive(Clone, Debug)]
struct Step {
    what: Use,
    engine: Engine,
    region: Region,
    duration: u64,
}

/// Every access of a byte that something may still wait for.
#[derive(Clone, Debug, Default)]
struct Byte {
    writers: Vec<Access>,
    readers: Vec<Access>,
}

fn bytes(region: &Region) -> Vec<(Space, u64, u64)> {
    let mut bytes = Vec::new();
    for rect in &region.rects {
        for row in rect.rows.clone() {
            bytes.extend(rect.columns.clone().map(|column| (region.space, row, column)));
        }
    }
    bytes
}

fn latest(accesses: impl Iterator<Item = Access>) -> Vec<(Engine, u64, u32)> {
    let mut latest: HashMap<Engine, (u64, u32)> = HashMap::new();
    for access in accesses {
        let last = latest.entry(access.engine).or_insert((access.end, access.id));
        *last = (*last).max((access.end, access.id));
    }
    let mut list: Vec<_> = latest.into_iter().map(|(engine, (end, id))| (engine, end, id)).collect();
    list.sort();
    list
}

fn spaces() -> impl Strategy<Value = Space> {
    prop_oneof![
        4 => Just(Space::Sbuf),
        2 => Just(Space::Psum),
        1 => Just(Space::Hbm(7)),
        1 => Just(Space::Register(3)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let rect = (0u64..12, 0u64..6, 0u64..24, 0u64..12)
        .prop_map(|(row, rows, column, columns)| Rect { rows: row..row + rows, columns: column..column + columns });
    // Few distinct tiles besides arbitrary ones: kernels come back to the same places.
    let tile = (0u64..2, 0u64..4)
        .prop_map(|(row, column)| Rect { rows: row * 8..row * 8 + 8, columns: column * 8..column * 8 + 8 });
    let rects = prop::collection::vec(prop_oneof![rect, tile], 1..4);
    let what = prop_oneof![
        8 => Just(Use::Read),
        6 => Just(Use::Write),
        4 => Just(Use::Accumulate),
        1 => Just(Use::Forget),
    ];
    (what, prop::sample::select(Engine::ALL.to_vec()), spaces(), rects, 0u64..50).prop_map(
        |(what, engine, space, rects, duration)| Step {
            engine: if matches!(what, Use::Accumulate) { Engine::Tensor } else { engine },
            what,
            region: Region { space, rects: SmallVec::from_vec(rects) },
            duration,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn test_hazards_are_those_of_single_bytes(steps in prop::collection::vec(steps(), 1..40)) {
        let mut hazards = Hazards::default();
        let mut memory: HashMap<(Space, u64, u64), Byte> = HashMap::new();
        for (id, step) in steps.into_iter().enumerate() {
            let own = matches!(step.what, Use::Accumulate).then_some(Engine::Tensor);
            let mut waits = Waits::default();
            let mut expected = Vec::new();
            for byte in bytes(&step.region) {
                if let Some(byte) = memory.get(&byte) {
                    expected.extend(byte.writers.iter().filter(|access| own != Some(access.engine)));
                    if !matches!(step.what, Use::Read) {
                        expected.extend(byte.readers.iter().filter(|access| own != Some(access.engine)));
                    }
                }
            }
            match step.what {
                Use::Read => hazards.before_read(&step.region, own, &mut waits),
                Use::Write | Use::Accumulate => hazards.before_write(&step.region, own, &mut waits),
                Use::Forget => {
                    hazards.forget(step.region.space);
                    memory.retain(|byte, _| byte.0 != step.region.space);
                    continue;
                }
            }
            prop_assert_eq!(latest(waits.accesses()), latest(expected.iter().copied()), "step {}", id);
            // As the timeline has it: nothing ends before what it waited for.
            let end = expected.iter().map(|access| access.end).max().unwrap_or(0) + step.duration;
            let access = Access { end, id: id as u32, engine: step.engine };
            match step.what {
                Use::Read => hazards.read(&step.region, access),
                _ => hazards.write(&step.region, access, own.is_some()),
            }
            for byte in bytes(&step.region) {
                let byte = memory.entry(byte).or_default();
                match step.what {
                    Use::Read => byte.readers.push(access),
                    Use::Write => *byte = Byte { writers: vec![access], readers: Vec::new() },
                    _ => {
                        byte.writers.retain(|access| access.engine == Engine::Tensor);
                        byte.readers.retain(|access| access.engine == Engine::Tensor);
                        byte.writers.push(access);
                    }
                }
            }
        }
    }
}

#[test]
fn test_a_write_merges_what_it_covers() {
    let mut hazards = Hazards::default();
    let region = |rows: std::ops::Range<u64>, columns: std::ops::Range<u64>| Region {
        space: Space::Sbuf,
        rects: SmallVec::from_vec(vec![Rect { rows, columns }]),
    };
    for column in 0..1000 {
        let access = Access { end: column, id: column as u32, engine: Engine::Vector };
        hazards.write(&region(0..128, column * 4..column * 4 + 2), access, false);
    }
    assert_eq!(hazards.segments(Space::Sbuf), 1000);
    hazards.write(&region(0..128, 0..4000), Access { end: 2000, id: 1000, engine: Engine::Scalar }, false);
    assert_eq!(hazards.segments(Space::Sbuf), 1);
}

#[test]
fn test_an_access_of_huge_extent_is_no_work() {
    let mut hazards = Hazards::default();
    let all = Region {
        space: Space::Hbm(1),
        rects: SmallVec::from_vec(vec![Rect { rows: 0..u64::MAX, columns: 0..u64::MAX }]),
    };
    hazards.write(&all, Access { end: 5, id: 0, engine: Engine::Dma }, false);
    hazards.read(&all, Access { end: 6, id: 1, engine: Engine::Dma });
    let mut waits = Waits::default();
    hazards.before_write(&all, None, &mut waits);
    assert_eq!(waits.accesses().map(|access| access.id).collect::<Vec<_>>(), vec![1]);
}
