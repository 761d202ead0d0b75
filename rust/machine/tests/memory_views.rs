//! Random views, operations and element types against one byte at a time.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use smallvec::SmallVec;
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::memory::{Memory, MemoryOptions, Request, Written};
use trn3_machine::site::SiteId;
use trn3_machine::storage::{Buffer, Storage};
use trn3_machine::view::View;
use trn3_numerics::CastOptions;

/// Steele, Lea and Flood's splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A byte: of SBUF, of PSUM or of an HBM tensor; partition; position.
type Key = (u64, usize, usize);

fn key_of(storage: &Storage, item: usize, position: i64, byte: usize) -> Key {
    let position = position as usize;
    match storage.current_place() {
        Some(place) => {
            let free = place.bytes / item;
            let space = if storage.buffer == Buffer::Psum { u64::MAX } else { u64::MAX - 1 };
            (space, place.partition + position / free, place.byte + position % free * item + byte)
        }
        None => (storage.id, 0, position * item + byte),
    }
}

/// Positions of a view's elements in C order.
fn positions(view: &View) -> Vec<i64> {
    let mut all = vec![view.offset];
    for (&count, &stride) in view.shape.iter().zip(&view.strides) {
        all = all.iter().flat_map(|base| (0..count as i64).map(move |index| base + index * stride)).collect();
    }
    all
}

#[derive(Default)]
struct Naive(HashMap<Key, u8>);

impl Naive {
    fn element(&self, view: &View, position: i64) -> Option<u32> {
        let item = view.dtype.size();
        let byte = |byte: usize| self.0.get(&key_of(&view.storage, item, position, byte)).copied();
        (0..item)
            .map(byte)
            .try_fold((0, 0), |(sum, shift), byte| Some((sum | u32::from(byte?) << shift, shift + 8)))
            .map(|(sum, _)| sum)
    }

    fn read(&self, view: &View) -> Vec<Option<u32>> {
        positions(view).into_iter().map(|position| self.element(view, position)).collect()
    }

    fn write(&mut self, view: &View, position: i64, bits: Option<u32>) {
        let item = view.dtype.size();
        for byte in 0..item {
            let key = key_of(&view.storage, item, position, byte);
            match bits {
                Some(bits) => self.0.insert(key, bits.to_le_bytes()[byte]),
                None => self.0.remove(&key),
            };
        }
    }
}

/// What reading uninitialised elements gives.
fn sentinel(dtype: DType) -> u32 {
    match dtype {
        DType::Bool => 1,
        DType::Float32 | DType::TFloat32 => 0x7fc0_0000,
        DType::BFloat16 => 0x7fc0,
        DType::Float16 => 0x7e00,
        DType::Float8E4M3 => 0x7c,
        DType::Float8E4M3Fn => 0x7f,
        DType::Float8E5M2 => 0x7e,
        DType::Float8E8M0Fnu => 0xff,
        DType::Float8E4M3FnX4 => 0x7f7f_7f7f,
        DType::Float8E5M2X4 => 0x7e7e_7e7e,
        DType::Float4E2M1FnX4 => 0x4444,
        _ => 4,
    }
}

fn random_view(random: &mut Random, storages: &[Arc<Storage>], item: Option<usize>) -> View {
    let storage = random.pick(storages).clone();
    let row_bytes = storage.place.map_or(storage.byte_size(), |place| place.bytes);
    let fits: Vec<DType> = DType::ALL
        .into_iter()
        .filter(|dtype| row_bytes.is_multiple_of(dtype.size()) && item.is_none_or(|item| dtype.size() == item))
        .collect();
    let dtype = *random.pick(&fits);
    let free = (row_bytes / dtype.size()) as i64;
    let (mut shape, mut strides) = (SmallVec::new(), SmallVec::new());
    let mut offset = 0;
    if let Some(place) = storage.place {
        let rows = 1 + random.below(place.partitions);
        let step = if rows > 1 { random.below((place.partitions - 1) / (rows - 1) + 1) as i64 } else { 1 };
        let reach = (rows as i64 - 1) * step;
        let step = if random.chance(10) { -step } else { step };
        let first = random.below((place.partitions as i64 - reach) as usize) as i64;
        offset += (if step < 0 { first + reach } else { first }) * free;
        shape.push(rows);
        strides.push(step * free);
    }
    let mut room = free - 1;
    let mut inner = 1;
    let axes = random.below(4) + usize::from(storage.place.is_none());
    for _ in 0..axes {
        // Contiguous and strided axes, and any stride at all.
        let stride = match random.below(4) {
            0 | 1 => inner,
            2 => random.below(room as usize + 1) as i64,
            _ => inner * (1 + random.below(3) as i64),
        };
        let most = if stride == 0 { 5 } else { room / stride + 1 };
        let count = if random.chance(20) { 1 } else { 1 + random.below(most.min(40) as usize) as i64 };
        room -= (count - 1) * stride;
        inner = stride * count;
        let back = random.chance(5);
        if back {
            offset += (count - 1) * stride;
        }
        let at = usize::from(storage.place.is_some());
        shape.insert(at, count as usize);
        strides.insert(at, if back { -stride } else { stride });
    }
    offset += random.below(room as usize + 1) as i64;
    View { storage, dtype, shape, strides, offset, dynamic: None }
}

fn storages(random: &mut Random, memory: &mut Memory) -> Vec<Arc<Storage>> {
    (0..5)
        .map(|index| {
            let buffer = *random.pick(&[Buffer::Sbuf, Buffer::Sbuf, Buffer::Psum, Buffer::PrivateHbm]);
            let dtype = *random.pick(&DType::ALL);
            let columns = 4 * (1 + random.below(40));
            let partitions = 1 + random.below(20);
            let address = match buffer {
                // Close together: some overlap.
                Buffer::Sbuf if random.chance(60) => Some((random.below(10), 1000 + random.below(100))),
                Buffer::Psum if random.chance(60) => Some((random.below(10), 0)),
                _ => None,
            };
            let name = format!("t{index}");
            let shape = [partitions, columns];
            memory
                .allocate(&Request { name: &name, shape: &shape, dtype, buffer, address, site: SiteId(1) })
                .expect("fits")
        })
        .collect()
}

fn check(memory: &mut Memory, naive: &Naive, view: &View) {
    let expected = naive.read(view);
    let mut bits = Vec::new();
    memory.read_bits(view, &mut bits, SiteId(9)).expect("inside");
    let with_sentinels: Vec<u32> = expected.iter().map(|bits| bits.unwrap_or(sentinel(view.dtype))).collect();
    assert_eq!(bits, with_sentinels, "{view:?}");
    assert_eq!(memory.is_initialised(view), Ok(expected.iter().all(Option::is_some)), "{view:?}");
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let arch = Arc::new(ArchSpec::load("trn3").expect("built in"));
    let mut memory = Memory::new(&arch, MemoryOptions::default());
    let mut naive = Naive::default();
    let storages = storages(&mut random, &mut memory);
    let mut marked: HashMap<(u64, Key), ()> = HashMap::new();
    if random.chance(70) {
        for storage in &storages {
            let view = View::whole(storage.clone());
            let bits: Vec<u32> = (0..view.len()).map(|_| random.next() as u32).collect();
            memory.write_bits(&view, &bits).expect("inside");
            positions(&view)
                .into_iter()
                .zip(bits)
                .for_each(|(position, bits)| naive.write(&view, position, Some(bits)));
        }
    }
    for _ in 0..30 {
        let view = random_view(&mut random, &storages, None);
        let all = positions(&view);
        match random.below(7) {
            0 | 1 => {
                let bits: Vec<u32> = all.iter().map(|_| random.next() as u32).collect();
                memory.write_bits(&view, &bits).expect("inside");
                all.iter().zip(&bits).for_each(|(position, bits)| naive.write(&view, *position, Some(*bits)));
            }
            2 => {
                let bits: Vec<u32> = all.iter().map(|_| random.next() as u32).collect();
                let mask: Vec<bool> = all.iter().map(|_| random.chance(50)).collect();
                memory.write_bits_where(&view, &bits, &mask).expect("inside");
                for ((position, bits), _) in all.iter().zip(&bits).zip(&mask).filter(|(_, mask)| **mask) {
                    naive.write(&view, *position, Some(*bits));
                }
            }
            3 => {
                // A source of as many elements of the same size, cut out of another view.
                let mut source = random_view(&mut random, &storages, Some(view.dtype.size()));
                let mut target = view.clone();
                if random.chance(60) {
                    // The same elements a little further on: both overlap, often in a part of their rows.
                    let free = view.storage.place.map_or(0, |place| place.bytes / view.dtype.size()) as i64;
                    let shifts = [1, -1, 2, -2, 5, free, -free, free + 1];
                    source = View { offset: view.offset + random.pick(&shifts), ..view.clone() };
                    if memory.read_bits(&source, &mut Vec::new(), SiteId(9)).is_err() {
                        continue;
                    }
                }
                if source.len() != target.len() {
                    for view in [&mut source, &mut target] {
                        view.shape.iter_mut().skip(1).for_each(|count| *count = 1);
                        if view.shape.len() == 1 && !view.storage.buffer.is_on_chip() {
                            view.shape[0] = 1;
                        }
                    }
                    let rows = |view: &View| view.shape.first().copied().unwrap_or(1);
                    let count = rows(&source).min(rows(&target));
                    for view in [&mut source, &mut target] {
                        if let Some(first) = view.shape.first_mut() {
                            *first = count;
                        }
                    }
                    if source.len() != target.len() {
                        continue;
                    }
                }
                let values: Vec<u32> =
                    naive.read(&source).into_iter().map(|bits| bits.unwrap_or(sentinel(source.dtype))).collect();
                memory.copy_bits(&target, &source, SiteId(9)).expect("alike");
                for (position, bits) in positions(&target).into_iter().zip(values) {
                    naive.write(&target, position, Some(bits));
                }
                check(&mut memory, &naive, &target);
            }
            4 => {
                memory.forget(&view).expect("inside");
                all.iter().for_each(|position| naive.write(&view, *position, None));
            }
            5 if view.dtype.size() == 4 && !view.dtype.is_packed() && view.dtype != DType::TFloat32 => {
                let values: Vec<f32> = all.iter().map(|_| (random.below(1 << 20) as f32) / 2.0).collect();
                memory.write_f32(&view, &values, CastOptions::default()).expect("inside");
                for (position, value) in all.iter().zip(&values) {
                    let is_float = view.dtype == DType::Float32;
                    let bits = if is_float { value.to_bits() } else { value.round_ties_even() as u32 };
                    naive.write(&view, *position, Some(bits));
                }
            }
            _ if view.storage.buffer == Buffer::Psum => {
                let keys = |position: &i64| {
                    (0..view.dtype.size())
                        .map(|byte| (view.storage.id, key_of(&view.storage, view.dtype.size(), *position, byte)))
                        .collect::<Vec<(u64, Key)>>()
                };
                if random.chance(50) {
                    memory.mark_psum_matmul(&view).expect("in psum");
                    marked.extend(all.iter().flat_map(keys).map(|key| (key, ())));
                }
                let expected: Vec<bool> =
                    all.iter().map(|position| keys(position).iter().all(|key| marked.contains_key(key))).collect();
                let any_byte = all.iter().flat_map(keys).any(|key| marked.contains_key(&key));
                let written = memory.psum_matmul_written(&view).expect("in psum");
                match written {
                    Written::All => assert!(expected.iter().all(|written| *written)),
                    Written::None => assert!(!any_byte),
                    Written::Some(written) => assert_eq!(written, expected),
                }
            }
            _ => {}
        }
        check(&mut memory, &naive, &view);
        check(&mut memory, &naive, &random_view(&mut random, &storages, None));
        lend(&mut memory, &naive, &random_view(&mut random, &storages, None), &mut random);
    }
}

/// A lent array holds the same elements, whole or with its last two axes exchanged.
fn lend(memory: &mut Memory, naive: &Naive, view: &View, random: &mut Random) {
    use trn3_machine::memory::Operand;
    use trn3_numerics::{ArrayMut, Draws, cast};
    let (Some(format), false) = (view.dtype.format(), view.dtype.is_packed()) else {
        assert!(view.dtype.is_packed() || memory.with_array(view, SiteId(9), |_| ()).is_err());
        return;
    };
    let expected: Vec<f32> = naive
        .read(view)
        .into_iter()
        .map(|bits| {
            let bits = bits.unwrap_or(sentinel(view.dtype));
            let bits = if view.dtype == DType::TFloat32 { bits & !0x1fff } else { bits };
            if view.dtype.size() == 4 { f32::from_bits(bits) } else { format.decode_code(bits) }
        })
        .collect();
    let is_transposed = view.shape.len() > 1 && random.chance(50);
    let operand = if is_transposed { Operand::from(view).transposed() } else { view.into() };
    let (shape, values) = memory
        .with_array(operand, SiteId(9), |array| {
            let mut values = vec![0.0f32; array.len()];
            let shape = array.shape().to_vec();
            let out = ArrayMut::new(&mut values, &shape).expect("as many");
            cast(&array.into(), out, CastOptions::default(), Draws::None).expect("a plain cast");
            (shape, values)
        })
        .expect("a float");
    let mut wanted = view.shape.to_vec();
    let rank = wanted.len();
    let mut reordered = expected.clone();
    if is_transposed {
        let (rows, columns) = (wanted[rank - 2], wanted[rank - 1]);
        for (index, value) in expected.iter().enumerate() {
            let (matrix, row, column) = (index / (rows * columns), index / columns % rows, index % columns);
            reordered[matrix * rows * columns + column * rows + row] = *value;
        }
        wanted.swap(rank - 2, rank - 1);
    }
    assert_eq!(shape, wanted);
    for (value, expected) in values.iter().zip(&reordered) {
        assert!(value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(), "{view:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn test_random_operations_agree_with_one_byte_at_a_time(seed in any::<u64>()) {
        run(seed);
    }

    #[test]
    fn test_views_of_anything_are_refused_or_inside(
        shape in proptest::collection::vec(prop_oneof![0usize..4, 0usize..300], 0..4),
        strides in proptest::collection::vec(prop_oneof![-70000i64..70000, any::<i64>(), Just(48), Just(1)], 0..4),
        offset in prop_oneof![-10i64..20000, any::<i64>()],
        on_chip in any::<bool>(),
        dtype in 0usize..18,
    ) {
        let arch = Arc::new(ArchSpec::load("trn3").expect("built in"));
        let mut memory = Memory::new(&arch, MemoryOptions::default());
        let buffer = if on_chip { Buffer::Sbuf } else { Buffer::SharedHbm };
        let (lengths, site) = ([128, 48], SiteId(1));
        let request = Request { name: "t", shape: &lengths, dtype: DType::Int32, buffer, address: None, site };
        let storage = memory.allocate(&request).expect("fits");
        let view = View {
            storage,
            dtype: DType::ALL[dtype],
            shape: SmallVec::from_vec(shape),
            strides: SmallVec::from_vec(strides),
            offset,
            dynamic: None,
        };
        prop_assume!(view.len() < 1 << 20);
        let count = view.len();
        let mut bits = Vec::new();
        if memory.read_bits(&view, &mut bits, SiteId(1)).is_ok() {
            prop_assert_eq!(bits.len(), count);
            memory.write_bits(&view, &bits).expect("inside");
            memory.copy_bits(&view, &view, SiteId(1)).expect("inside");
            prop_assert_eq!(memory.is_initialised(&view), Ok(true));
        }
    }
}
