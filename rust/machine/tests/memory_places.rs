//! Where tensors go: never onto each other, and where memory was released longest ago.

use std::sync::Arc;

use proptest::prelude::*;
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::memory::{Level, Memory, MemoryOptions, OccupancyChange, Request};
use trn3_machine::site::SiteId;
use trn3_machine::storage::{Buffer, Storage};
use trn3_machine::view::View;
use trn3_machine::{Error, Result};
use trn3_numerics::CastOptions;

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
        let border = if is_psum { 16384 } else { 262_144 };
        // Of each tensor, its bytes now; behind the border lies the annex.
        let mut tensors: Vec<Arc<Storage>> = Vec::new();
        let mut automatic = 0;
        let mut in_annex = 0;
        let mut peak = 0;
        for (what, size, which) in steps {
            let scale = [300, 5000, 60_000][which as usize % 3];
            let bytes = 1 + size as usize % if is_psum { 5000 } else { scale };
            let extent = bytes.next_multiple_of(naive.unit);
            match what {
                0..5 => match allocate(&mut memory, bytes, buffer, None) {
                    Ok(storage) => {
                        let place = storage.place.expect("on chip");
                        match naive.find(bytes) {
                            Some(byte) => {
                                prop_assert_eq!(place.byte, byte);
                                naive.take(place.byte, bytes);
                            }
                            None => {
                                prop_assert!(place.byte >= border && automatic + extent <= naive.usable);
                                in_annex += extent;
                            }
                        }
                        prop_assert_eq!((place.partition, place.partitions, place.bytes), (0, 128, bytes));
                        automatic += extent;
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
                    let before: Vec<usize> =
                        tensors.iter().map(|storage| storage.current_place().expect("on chip").byte).collect();
                    let Ok(given) = allocate(&mut memory, bytes, buffer, Some((0, byte))) else {
                        // The annex is in pieces, too.
                        prop_assert!(in_annex > naive.usable / 2);
                        return Ok(());
                    };
                    let mut order: Vec<usize> = (0..tensors.len()).collect();
                    order.sort_by_key(|&index| tensors[index].id);
                    for index in order {
                        let (storage, old) = (&tensors[index], before[index]);
                        let held = storage.place.expect("on chip").bytes.next_multiple_of(naive.unit);
                        let gives_way = !storage.addressed && old < byte + bytes && byte < old + held;
                        let now = storage.current_place().expect("on chip").byte;
                        prop_assert_eq!(now >= border, gives_way || old >= border);
                        if gives_way {
                            naive.leave(old, storage.place.expect("on chip").bytes);
                            in_annex += held;
                        }
                    }
                    tensors.push(given);
                    naive.take(byte, bytes);
                }
                _ if !tensors.is_empty() => {
                    let gone = tensors.swap_remove(which as usize % tensors.len());
                    let place = gone.current_place().expect("on chip");
                    let held = place.bytes.next_multiple_of(naive.unit);
                    automatic -= if gone.addressed { 0 } else { held };
                    drop(gone);
                    if place.byte < border {
                        naive.leave(place.byte, place.bytes);
                    } else {
                        in_annex -= held;
                    }
                }
                _ => {}
            }
            let live = naive.live() + in_annex as u64;
            peak = peak.max(live);
            let occupancy = memory.live();
            let level = if is_psum { occupancy.psum } else { occupancy.sbuf };
            prop_assert_eq!((level.live, level.peak >= live), (live, true));
            prop_assert!(level.peak <= peak);
        }
        let changes = memory.take_changes();
        prop_assert_eq!(changes.last().map_or(0, |change| change.live), naive.live() + in_annex as u64);
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

/// A tensor of one byte value in every partition, written and so used.
fn filled(memory: &mut Memory, columns: usize, address: Option<(usize, usize)>, value: u8) -> View {
    let view = View::whole(allocate(memory, columns, Buffer::Sbuf, address).expect("room"));
    memory.write_f32(&view, &vec![f32::from(value); 128 * columns], CastOptions::default()).expect("fits");
    view
}

fn values(memory: &mut Memory, view: &View) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    memory.read_f32(view, &mut values, SiteId(2)).map(|()| values)
}

#[test]
fn test_tensors_without_an_address_give_way_to_those_with_one() {
    let (mut memory, _) = memory();
    let first = filled(&mut memory, 100_000, None, 1);
    let mut half = first.clone();
    half.shape[1] = 50_000;
    let fresh = View::whole(allocate(&mut memory, 70_000, Buffer::Sbuf, None).expect("room"));
    let given = filled(&mut memory, 245_760, Some((0, 0)), 2);
    let again = filled(&mut memory, 1000, Some((0, 99_900)), 3);
    assert_eq!(values(&mut memory, &first), Ok(vec![1.0; 128 * 100_000]));
    assert_eq!(values(&mut memory, &half), Ok(vec![1.0; 128 * 50_000]));
    assert_eq!(values(&mut memory, &again), Ok(vec![3.0; 128 * 1000]));
    assert_eq!(memory.is_initialised(&fresh), Ok(false));
    assert_eq!(memory.is_initialised(&given), Ok(true));
    // Bytes on other partitions are not wanted.
    drop((given, again, fresh, first, half));
    let shape = [32, 16];
    let request = |address: Option<(usize, usize)>| Request {
        name: "t",
        shape: &shape,
        dtype: DType::UInt8,
        buffer: Buffer::Sbuf,
        address,
        site: SiteId(1),
    };
    let low = memory.allocate(&request(None)).expect("room");
    let byte = low.place.expect("on chip").byte;
    let _high = memory.allocate(&request(Some((32, byte)))).expect("room");
    assert_eq!(low.current_place(), low.place);
    let _same = memory.allocate(&request(Some((0, byte)))).expect("room");
    assert_ne!(low.current_place(), low.place);
}

#[test]
fn test_tensors_used_longest_ago_give_way_and_are_not_used_again() {
    let (mut memory, _) = memory();
    let mut tiles: Vec<View> = (0..4).map(|value| filled(&mut memory, 61_440, None, value)).collect();
    values(&mut memory, &tiles[0]).expect("held");
    let fifth = filled(&mut memory, 61_440, None, 5);
    assert_eq!(values(&mut memory, &tiles[0]), Ok(vec![0.0; 128 * 61_440]));
    assert_eq!(values(&mut memory, &fifth), Ok(vec![5.0; 128 * 61_440]));
    let error = values(&mut memory, &tiles[1]).expect_err("its bytes are gone");
    assert!(matches!(&error, Error::SbufCapacity(text) if text.contains("is used again")), "{error}");
    tiles.clear();
    drop(fifth);
    assert_eq!(memory.live().sbuf, Level { live: 0, peak: 4 * 61_440 });
    // What was never used yet is still to be used.
    let _fresh: Vec<Arc<Storage>> =
        (0..4).map(|_| allocate(&mut memory, 61_440, Buffer::Sbuf, None).expect("room")).collect();
    assert!(matches!(allocate(&mut memory, 1, Buffer::Sbuf, None), Err(Error::SbufCapacity(_))));
}

#[test]
fn test_pieces_too_small_and_addresses_do_not_fill_a_memory() {
    let (mut memory, _) = memory();
    let mut tiles: Vec<Option<View>> = (0..8).map(|value| Some(filled(&mut memory, 30_720, None, value))).collect();
    for tile in tiles.iter_mut().step_by(2) {
        *tile = None;
    }
    let wide = filled(&mut memory, 61_440, None, 9);
    assert_eq!(values(&mut memory, tiles[1].as_ref().expect("held")), Ok(vec![1.0; 128 * 30_720]));
    assert_eq!(values(&mut memory, &wide), Ok(vec![9.0; 128 * 61_440]));
    drop((tiles, wide));
    let _banks: Vec<Arc<Storage>> =
        (0..8).map(|bank| allocate(&mut memory, 2048, Buffer::Psum, Some((0, bank * 2048))).expect("given")).collect();
    allocate(&mut memory, 2048, Buffer::Psum, None).expect("a compiler would find a time for it");
}
