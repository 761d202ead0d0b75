//! Where tensors go: never onto each other, and where memory was released longest ago.

use std::sync::Arc;

use proptest::prelude::*;
use trn3::machine::arch::ArchSpec;
use trn3::machine::dtype::DType;
use trn3::machine::memory::{Level, Memory, MemoryOptions, OccupancyChange, Request};
use trn3::machine::site::SiteId;
use trn3::machine::storage::{Buffer, Storage};
use trn3::machine::view::View;
use trn3::numerics::CastOptions;
use trn3::{Error, Result};

fn memory() -> (Memory, ArchSpec) {
    let arch = ArchSpec::load("trn3").expect("built in");
    (Memory::new(&Arc::new(arch.clone()), MemoryOptions::default()), arch)
}

fn allocate(
    memory: &mut Memory,
    columns: usize,
    buffer: Buffer,
    address: Option<(usize, usize)>,
) -> Result<Arc<Storage>> {
    let shape = [128, columns];
    memory.allocate(&Request { name: "t", shape: &shape, dtype: DType::UInt8, buffer, address, site: SiteId(1) })
}

/// Who holds each unit of a partition, and when the last one left.
struct Naive {
    unit: usize,
    usable: usize,
    holders: Vec<u32>,
    left: Vec<u64>,
    clock: u64,
}

impl Naive {
    fn new(bytes: usize, usable: usize, unit: usize) -> Self {
        Self { unit, usable, holders: vec![0; bytes / unit], left: vec![0; bytes / unit], clock: 0 }
    }

    fn units(&self, byte: usize, bytes: usize) -> std::ops::Range<usize> {
        byte / self.unit..(byte + bytes).div_ceil(self.unit)
    }

    /// The place released longest ago: lowest of those, for small tensors highest.
    fn find(&self, bytes: usize) -> Option<usize> {
        let count = bytes.div_ceil(self.unit);
        let age = |start: usize| {
            let range = start..start + count;
            self.holders[range.clone()].iter().all(|count| *count == 0).then(|| self.left[range].iter().max().copied())
        };
        let places = 0..(self.usable / self.unit + 1).saturating_sub(count);
        let ages: Vec<(u64, usize)> = places.filter_map(|start| Some((age(start)??, start))).collect();
        let oldest = ages.iter().map(|(age, _)| *age).min()?;
        let mut starts = ages.into_iter().filter(|(age, _)| *age == oldest).map(|(_, start)| start * self.unit);
        if count * self.unit < self.usable / 64 { starts.next_back() } else { starts.next() }
    }

    fn take(&mut self, byte: usize, bytes: usize) {
        let range = self.units(byte, bytes);
        self.holders[range].iter_mut().for_each(|count| *count += 1);
    }

    fn leave(&mut self, byte: usize, bytes: usize) {
        self.clock += 1;
        for unit in self.units(byte, bytes) {
            self.holders[unit] -= 1;
            self.left[unit] = self.clock;
        }
    }

    fn live(&self) -> u64 {
        (self.holders.iter().filter(|count| **count > 0).count() * self.unit) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn test_places_are_those_released_longest_ago(
        steps in proptest::collection::vec((0usize..10, any::<u32>(), any::<u32>()), 1..60),
        is_psum in any::<bool>(),
    ) {
        let (mut memory, arch) = memory();
        let buffer = if is_psum { Buffer::Psum } else { Buffer::Sbuf };
        let mut naive = match buffer {
            Buffer::Psum => Naive::new(16384, 16384, 2048),
            _ => Naive::new(262_144, arch.sbuf_usable_bytes() as usize, 64),
        };
        let mut tensors: Vec<Arc<Storage>> = Vec::new();
        let mut peak = 0;
        for (what, size, which) in steps {
            let scale = [300, 5000, 60_000][which as usize % 3];
            let bytes = 1 + size as usize % if is_psum { 5000 } else { scale };
            match what {
                0..5 => match allocate(&mut memory, bytes, buffer, None) {
                    Ok(storage) => {
                        let place = storage.place.expect("on chip");
                        prop_assert_eq!(Some(place.byte), naive.find(bytes));
                        prop_assert_eq!((place.partition, place.partitions, place.bytes), (0, 128, bytes));
                        naive.take(place.byte, bytes);
                        tensors.push(storage);
                    }
                    Err(error) => {
                        prop_assert!(matches!(error, Error::SbufCapacity(_) | Error::PsumCapacity(_)));
                        prop_assert_eq!(naive.find(bytes), None);
                    }
                },
                // An address on whole units, so that the naive count stays exact.
                5 | 6 => {
                    let units = naive.holders.len();
                    let first = which as usize % units;
                    let count = (1 + size as usize % 40).min(units - first);
                    let (byte, bytes) = (first * naive.unit, count * naive.unit);
                    tensors.push(allocate(&mut memory, bytes, buffer, Some((0, byte))).expect("given"));
                    naive.take(byte, bytes);
                }
                _ if !tensors.is_empty() => {
                    let gone = tensors.swap_remove(which as usize % tensors.len());
                    let place = gone.place.expect("on chip");
                    drop(gone);
                    naive.leave(place.byte, place.bytes);
                }
                _ => {}
            }
            peak = peak.max(naive.live());
            let occupancy = memory.live();
            let level = if is_psum { occupancy.psum } else { occupancy.sbuf };
            prop_assert_eq!(level, Level { live: naive.live(), peak });
        }
        let changes = memory.take_changes();
        prop_assert_eq!(changes.last().map_or(0, |change| change.live), naive.live());
        drop(tensors);
        prop_assert_eq!(memory.live().sbuf.live + memory.live().psum.live, 0);
        // All is in one piece again.
        let whole = if is_psum { 16384 } else { arch.sbuf_usable_bytes() as usize };
        prop_assert!(allocate(&mut memory, whole, buffer, None).is_ok());
    }
}

#[test]
fn test_reuse_goes_round_the_places() {
    let (mut memory, _) = memory();
    let place = |storage: &Arc<Storage>| storage.place.expect("on chip").byte;
    let first: Vec<Arc<Storage>> =
        (0..8).map(|_| allocate(&mut memory, 2048, Buffer::Psum, None).expect("a bank")).collect();
    let order = [5, 2, 7, 0];
    let mut first: Vec<Option<Arc<Storage>>> = first.into_iter().map(Some).collect();
    for bank in order {
        first[bank] = None;
        memory.live();
    }
    let second: Vec<Arc<Storage>> =
        order.iter().map(|_| allocate(&mut memory, 1, Buffer::Psum, None).expect("a bank")).collect();
    assert_eq!(second.iter().map(place).collect::<Vec<usize>>(), order.map(|bank| bank * 2048));
}

#[test]
fn test_changes_come_in_program_order() {
    let (mut memory, _) = memory();
    let one = allocate(&mut memory, 64, Buffer::Sbuf, None).expect("fits");
    let two = allocate(&mut memory, 128, Buffer::Sbuf, None).expect("fits");
    drop(one);
    let three = allocate(&mut memory, 5, Buffer::Psum, None).expect("fits");
    drop(two);
    let change = |buffer: Buffer, live: u64| OccupancyChange { buffer, live };
    let expected = [
        change(Buffer::Sbuf, 64),
        change(Buffer::Sbuf, 192),
        change(Buffer::Sbuf, 128),
        change(Buffer::Psum, 2048),
        change(Buffer::Sbuf, 0),
    ];
    assert_eq!(memory.take_changes(), expected);
    assert!(memory.take_changes().is_empty());
    drop(three);
    let hbm = memory.hbm_from_bytes("x", &[100], DType::Int8, Buffer::SharedHbm, Some(vec![0; 100]), SiteId(1));
    assert_eq!(memory.live().hbm, Level { live: 100, peak: 100 });
    drop(hbm);
    assert_eq!(memory.live().hbm, Level { live: 0, peak: 100 });
    let expected = [change(Buffer::PrivateHbm, 100), change(Buffer::Psum, 0), change(Buffer::PrivateHbm, 0)];
    assert_eq!(memory.take_changes(), expected);
}

#[test]
fn test_a_fresh_tensor_is_uninitialised_unless_it_shares_bytes() {
    let (mut memory, _) = memory();
    let zeros = vec![0.0; 128 * 64];
    let old = View::whole(allocate(&mut memory, 64, Buffer::Sbuf, Some((0, 640))).expect("given"));
    memory.write_f32(&old, &zeros, CastOptions::default()).expect("fits");
    let alias = View::whole(allocate(&mut memory, 16, Buffer::Sbuf, Some((0, 650))).expect("given"));
    assert_eq!(memory.is_initialised(&alias), Ok(true));
    drop((old, alias));
    let fresh = View::whole(allocate(&mut memory, 64, Buffer::Sbuf, Some((0, 640))).expect("given"));
    assert_eq!(memory.is_initialised(&fresh), Ok(false));
    memory.write_f32(&fresh, &zeros, CastOptions::default()).expect("fits");
    drop(fresh);
    let usable = 245_760;
    let whole = View::whole(allocate(&mut memory, usable, Buffer::Sbuf, None).expect("all of it"));
    let mut column = View { offset: 640, ..whole };
    column.shape[1] = 1;
    assert_eq!(memory.is_initialised(&column), Ok(false));
}

#[test]
fn test_tensors_may_go_on_any_thread() {
    let (mut memory, _) = memory();
    for _ in 0..50 {
        let tensors: Vec<Arc<Storage>> =
            (0..8).map(|_| allocate(&mut memory, 30_000, Buffer::Sbuf, None).expect("all were given back")).collect();
        assert!(matches!(allocate(&mut memory, 30_000, Buffer::Sbuf, None), Err(Error::SbufCapacity(_))));
        std::thread::scope(|scope| {
            for tensor in tensors {
                scope.spawn(move || drop(tensor));
            }
        });
    }
    assert_eq!(memory.live().sbuf.live, 0);
}
