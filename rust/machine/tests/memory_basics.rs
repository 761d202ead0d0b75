//! The memories: what is refused, what is found, what capacity errors say.

use std::sync::Arc;

use smallvec::SmallVec;
use trn3_machine::Error;
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::memory::{Finding, Memory, MemoryOptions, Operand, OutOfBounds, Request, Scalar, Written};
use trn3_machine::site::SiteId;
use trn3_machine::storage::{Buffer, Storage};
use trn3_machine::view::{Dynamic, Register, ScalarIndex, View};
use trn3_numerics::CastOptions;

const READER: SiteId = SiteId(7);

fn memory(strict: bool, values: bool) -> Memory {
    Memory::new(
        &Arc::new(ArchSpec::load("trn3").expect("built in")),
        MemoryOptions { strict, values, ..Default::default() },
    )
}

fn request<'a>(shape: &'a [usize], dtype: DType, buffer: Buffer) -> Request<'a> {
    Request { name: "t", shape, dtype, buffer, address: None, site: SiteId(3) }
}

fn tensor(memory: &mut Memory, shape: &[usize], dtype: DType, buffer: Buffer) -> View {
    View::whole(memory.allocate(&request(shape, dtype, buffer)).expect("fits"))
}

fn read(memory: &mut Memory, view: &View) -> Vec<f32> {
    let mut out = Vec::new();
    memory.read_f32(view, &mut out, READER).expect("readable");
    out
}

#[test]
fn test_what_is_written_is_read() {
    let mut memory = memory(true, true);
    for buffer in [Buffer::Sbuf, Buffer::Psum, Buffer::PrivateHbm, Buffer::SharedHbm] {
        let view = tensor(&mut memory, &[128, 33], DType::Float32, buffer);
        let values: Vec<f32> = (0..view.len()).map(|index| index as f32).collect();
        memory.write_f32(&view, &values, CastOptions::default()).expect("fits");
        assert_eq!(read(&mut memory, &view), values, "{buffer}");
    }
}

#[test]
fn test_uninitialised_reads_give_sentinels_and_one_finding_a_line() {
    let mut memory = memory(false, true);
    let view = tensor(&mut memory, &[128, 4], DType::Float32, Buffer::Sbuf);
    let mut column = view.clone();
    (column.shape[1], column.offset) = (1, 2);
    memory.write_f32(&column, &[1.5; 128], CastOptions::default()).expect("fits");
    for _ in 0..2 {
        let values = read(&mut memory, &view);
        for (index, value) in values.iter().enumerate() {
            assert!(if index % 4 == 2 { *value == 1.5 } else { value.is_nan() }, "{index}: {value}");
        }
    }
    let found = Finding::UninitialisedRead {
        tensor: "t".to_owned(),
        reader: READER,
        allocated: SiteId(3),
        partition: 0,
        byte: 0,
        count: 384,
    };
    assert_eq!(*memory.findings(), [found]);
    let integers = tensor(&mut memory, &[2, 2], DType::Int16, Buffer::Psum);
    assert_eq!(read(&mut memory, &integers), [4.0; 4]);
    assert_eq!(memory.findings().len(), 2);
}

#[test]
fn test_strict_runs_refuse_uninitialised_reads() {
    let mut memory = memory(true, true);
    memory.name_sites(|site| format!("kernel.py:{}", site.0));
    let view = tensor(&mut memory, &[2, 2], DType::BFloat16, Buffer::Sbuf);
    let error = memory.read_f32(&view, &mut Vec::new(), READER).expect_err("nothing was written");
    let text = error.to_string();
    assert!(matches!(error, Error::Uninitialised { allocated: SiteId(3), .. }), "{text}");
    assert!(text.contains("tensor `t` (made at kernel.py:3): 4 uninitialised elements read"), "{text}");
}

#[test]
fn test_timing_only_runs_know_what_was_written_and_refuse_the_rest() {
    let mut memory = memory(false, false);
    let view = tensor(&mut memory, &[128, 64], DType::Int32, Buffer::Sbuf);
    assert_eq!(memory.is_initialised(&view), Ok(false));
    let error = memory.read_f32(&view, &mut Vec::new(), READER).expect_err("unknown");
    assert!(matches!(error, Error::SkippedValue(_)), "{error}");
    memory.write_f32(&view, &vec![3.0; 128 * 64], CastOptions::default()).expect("fits");
    assert_eq!(memory.is_initialised(&view), Ok(true));
    memory.forget(&view).expect("a view of it");
    assert_eq!(memory.is_initialised(&view), Ok(false));
    let unknown = memory.hbm_from_bytes("x", &[4], DType::Int8, Buffer::PrivateHbm, None, SiteId(1)).expect("fits");
    let error = memory.scalar(&View { shape: SmallVec::from_slice(&[1]), ..View::whole(unknown) }, READER);
    assert!(matches!(error, Err(Error::SkippedValue(_))), "{error:?}");
    let known = memory.hbm_from_bytes("x", &[1], DType::Int8, Buffer::PrivateHbm, Some(vec![255]), SiteId(1));
    let known = View::whole(known.expect("fits"));
    assert_eq!(memory.scalar(&known, READER), Ok(Scalar::Int(-1)));
    memory.forget(&known).expect("a view of it");
    assert_eq!(memory.is_initialised(&known), Ok(false));
    assert!(memory.findings().is_empty());
}

#[test]
fn test_rows_that_an_unknown_tile_names_make_the_whole_tensor_unknown() {
    let mut memory = memory(false, false);
    let table = memory.hbm_from_bytes("t", &[8, 4], DType::Int8, Buffer::PrivateHbm, Some(vec![1; 32]), SiteId(1));
    let table = View::whole(table.expect("fits"));
    let other = memory.hbm_from_bytes("u", &[4], DType::Int8, Buffer::PrivateHbm, Some(vec![1; 4]), SiteId(1));
    let other = View::whole(other.expect("fits"));
    let index = tensor(&mut memory, &[3, 1], DType::Int32, Buffer::Sbuf);
    let rows = table.vector_select(0, index.clone()).expect("rows");
    assert_eq!(memory.is_initialised(&rows), Ok(false));
    assert_eq!(memory.is_initialised(&table), Ok(true));
    memory.forget(&rows).expect("any of its rows");
    for row in 0..8 {
        let row = table.slice(0, row, row + 1, 1).expect("a row");
        assert_eq!(memory.is_initialised(&row), Ok(false));
    }
    assert_eq!(memory.is_initialised(&other), Ok(true));
    // Rows that are known are forgotten alone.
    memory.write_f32(&table, &[2.0; 32], CastOptions::default()).expect("fits");
    memory.write_f32(&index, &[6.0, 1.0, 1.0], CastOptions::default()).expect("fits");
    memory.forget(&rows).expect("two of its rows");
    assert_eq!(memory.is_initialised(&table.slice(0, 2, 6, 1).expect("rows")), Ok(true));
    assert_eq!(memory.is_initialised(&table.slice(0, 1, 2, 1).expect("rows")), Ok(false));
    // What a register says that nobody wrote may decide anything.
    let register = Arc::new(Register { id: 1, frozen: false, value: Default::default(), owner: Default::default() });
    let place = table.select_dynamic(0, ScalarIndex::Register(register)).expect("a row");
    assert!(matches!(memory.forget(&place), Err(Error::SkippedValue(_))));
}

#[test]
fn test_shapes_the_memory_cannot_hold_are_refused() {
    let mut memory = memory(false, true);
    let mut refuse = |shape: &[usize], buffer: Buffer, address: Option<(usize, usize)>, text: &str| {
        let error = memory.allocate(&Request { address, ..request(shape, DType::Float32, buffer) });
        let error = error.expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    };
    refuse(&[256, 4], Buffer::Sbuf, None, "partition dimension 256 exceeds maximum 128");
    refuse(
        &[128],
        Buffer::Psum,
        None,
        "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and free-dim)",
    );
    refuse(&[128, 0], Buffer::Sbuf, None, "every length must be at least 1");
    refuse(&[0], Buffer::SharedHbm, None, "every length must be at least 1");
    refuse(&[usize::MAX, 4], Buffer::SharedHbm, None, "more bytes than can be addressed");
    refuse(&[1 << 20, 1 << 20], Buffer::SharedHbm, None, "HBM cannot hold tensor `t`");
    refuse(&[64, 4], Buffer::Sbuf, Some((96, 0)), "has partitions 96 to 160; there are 128");
    refuse(&[64, 4], Buffer::Psum, Some((0, 1024)), "PSUM tensors start on a bank, a multiple of 2048");
    refuse(&[64, 4], Buffer::Sbuf, Some((0, 262_140)), "has bytes 262140 to 262156 of a partition; there are 262144");
    refuse(&[64, 4], Buffer::Sbuf, Some((usize::MAX, usize::MAX)), "there are 128");
    refuse(&[64, 4], Buffer::PrivateHbm, Some((0, 0)), "address is given");
    let one = memory.allocate(&request(&[1], DType::Float32, Buffer::Sbuf)).expect("one element is enough");
    assert_eq!(one.shape.as_slice(), [1, 1]);
}

#[test]
fn test_a_full_memory_names_its_tenants() {
    let mut memory = memory(false, true);
    memory.name_sites(|site| format!("kernel.py:{}", site.0));
    let keep = |memory: &mut Memory, name: &str, columns: usize, line: u32| -> Arc<Storage> {
        let shape = [128, columns];
        let request = Request { name, site: SiteId(line), ..request(&shape, DType::Float32, Buffer::Sbuf) };
        memory.allocate(&request).expect("fits")
    };
    let tenants = [keep(&mut memory, "small", 100, 10), keep(&mut memory, "large", 40_000, 20)];
    drop(keep(&mut memory, "gone", 10_000, 30));
    let error = memory.allocate(&request(&[128, 30_000], DType::Float32, Buffer::Sbuf)).expect_err("full").to_string();
    assert!(matches!(tenants[0].place, Some(place) if place.partition == 0));
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines[0],
        "SBUF cannot hold tensor `t` [128, 30000] float32: it needs 120000 bytes per partition, 245760 are usable, \
         160448 are live (peak 200448), the largest free piece has 85312"
    );
    assert_eq!(lines[2], "      160000  `large` [128, 40000] float32  kernel.py:20");
    assert_eq!(lines[3], "         400  `small` [128, 100] float32  kernel.py:10");
    assert!(lines[4].starts_with("hint: "), "{error}");
    let unnamed = Request { name: "", ..request(&[128, 30_000], DType::Float32, Buffer::Sbuf) };
    let error = memory.allocate(&unnamed).expect_err("full").to_string();
    assert!(error.starts_with("SBUF cannot hold tensor [128, 30000] float32: "), "{error}");
    let banks: Vec<View> = (0..8).map(|_| tensor(&mut memory, &[128, 512], DType::Float32, Buffer::Psum)).collect();
    let error = memory.allocate(&request(&[1, 1], DType::Float32, Buffer::Psum)).expect_err("full");
    assert!(matches!(error, Error::PsumCapacity(_)), "{error}");
    drop(banks);
    tensor(&mut memory, &[128, 4096], DType::Float32, Buffer::Psum);
}

#[test]
fn test_matmul_bits_follow_allocation() {
    let mut memory = memory(false, true);
    let view = tensor(&mut memory, &[128, 512], DType::Float32, Buffer::Psum);
    assert_eq!(memory.psum_matmul_written(&view), Ok(Written::None));
    let mut half = view.clone();
    half.shape[1] = 256;
    memory.mark_psum_matmul(&half).expect("in psum");
    assert_eq!(memory.psum_matmul_written(&half), Ok(Written::All));
    memory.check_accumulation(&half, READER).expect("no error");
    assert!(memory.findings().is_empty());
    for _ in 0..2 {
        memory.check_accumulation(&view, READER).expect("a finding");
    }
    let found = Finding::UnwrittenAccumulation { tensor: "t".to_owned(), reader: READER, allocated: SiteId(3) };
    assert_eq!(*memory.findings(), [found]);
    let mask: Vec<bool> = (0..128 * 512).map(|index| index % 512 < 256).collect();
    assert_eq!(memory.psum_matmul_written(&view), Ok(Written::Some(mask)));
    let place = view.storage.place.expect("on chip");
    drop((view, half));
    let address = Some((0, place.byte));
    let fresh = memory.allocate(&Request { address, ..request(&[128, 512], DType::Float32, Buffer::Psum) });
    let fresh = View::whole(fresh.expect("fits"));
    assert_eq!(memory.psum_matmul_written(&fresh), Ok(Written::None));
    memory.mark_psum_matmul(&fresh).expect("in psum");
    let alias = memory.allocate(&Request { address, ..request(&[128, 16], DType::Int32, Buffer::Psum) });
    let alias = View::whole(alias.expect("fits"));
    assert_eq!(memory.psum_matmul_written(&alias), Ok(Written::None));
    memory.mark_psum_matmul(&alias).expect("in psum");
    assert_eq!(memory.psum_matmul_written(&alias), Ok(Written::All));
    // Made again at the same address, while the kernel still holds it: a fresh tensor.
    let again = memory.allocate(&Request { address, ..request(&[128, 512], DType::Float32, Buffer::Psum) });
    assert_eq!(memory.psum_matmul_written(&View::whole(again.expect("fits"))), Ok(Written::None));
    assert_eq!(memory.psum_matmul_written(&fresh), Ok(Written::All));
    let elsewhere = tensor(&mut memory, &[1, 1], DType::Float32, Buffer::Sbuf);
    assert!(memory.psum_matmul_written(&elsewhere).is_err());
}

#[test]
fn test_given_addresses_share_bytes() {
    let mut memory = memory(true, true);
    let at = |memory: &mut Memory, partition: usize, byte: usize, dtype: DType, shape: &[usize]| {
        let request = Request { address: Some((partition, byte)), ..request(shape, dtype, Buffer::Sbuf) };
        View::whole(memory.allocate(&request).expect("fits"))
    };
    let words = at(&mut memory, 32, 250_001, DType::UInt32, &[32, 4]);
    memory.write_bits(&words, &(0..128).map(|index| 0x0101_0101 * index).collect::<Vec<u32>>()).expect("fits");
    let bytes = at(&mut memory, 33, 250_005, DType::UInt8, &[2, 4]);
    assert_eq!(read(&mut memory, &bytes), [5., 5., 5., 5., 9., 9., 9., 9.]);
}

#[test]
fn test_dynamic_indices_are_read_when_the_operand_is() {
    let mut memory = memory(true, true);
    let hbm = tensor(&mut memory, &[8, 4], DType::Float32, Buffer::PrivateHbm);
    memory
        .write_f32(&hbm, &(0..32).map(|index| index as f32).collect::<Vec<f32>>(), CastOptions::default())
        .expect("ok");
    let register = Arc::new(Register { id: 1, frozen: false, value: Default::default(), owner: Default::default() });
    let dynamic = Dynamic::Scalar { index: ScalarIndex::Register(register.clone()), stride: 4, bound: 8 };
    let mut row = View { dynamic: Some(Arc::new(dynamic)), shape: SmallVec::from_slice(&[2]), ..hbm.clone() };
    row.strides = SmallVec::from_slice(&[2]);
    assert!(memory.read_f32(&row, &mut Vec::new(), READER).is_err());
    *register.value.lock().expect("not poisoned") = Some(7);
    assert_eq!(read(&mut memory, &row), [28.0, 30.0]);
    *register.value.lock().expect("not poisoned") = Some(8);
    let error = memory.read_f32(&row, &mut Vec::new(), READER).expect_err("outside");
    assert!(matches!(&error, Error::OutOfBounds(text) if text.contains("dynamic index 8")), "{error}");

    let index = tensor(&mut memory, &[3, 1], DType::Int32, Buffer::Sbuf);
    memory.write_f32(&index, &[6.0, -1.0, 1.0], CastOptions::default()).expect("fits");
    let dynamic = Dynamic::Rows { index: index.clone(), stride: 4, bound: 8 };
    let rows = View {
        dynamic: Some(Arc::new(dynamic)),
        shape: SmallVec::from_slice(&[3, 2]),
        strides: SmallVec::from_slice(&[1, 1]),
        offset: 1,
        ..hbm.clone()
    };
    assert!(memory.read_f32(&rows, &mut Vec::new(), READER).is_err());
    let skipping = Operand::from(&rows).out_of_bounds(OutOfBounds::Skip);
    let target = tensor(&mut memory, &[3, 2], DType::Float32, Buffer::Sbuf);
    memory.write_f32(&target, &[-1.0; 6], CastOptions::default()).expect("fits");
    memory.copy_bits(&target, skipping, READER).expect("fits");
    assert_eq!(read(&mut memory, &target), [25.0, 26.0, -1.0, -1.0, 5.0, 6.0]);
    assert_eq!(memory.performed_rows(skipping), Ok(Some(vec![true, false, true])));
    assert!(matches!(memory.findings()[0], Finding::OutOfBoundsSkipped { index: -1, count: 1, .. }));
    memory.write_f32(skipping, &[0.5; 6], CastOptions::default()).expect("fits");
    assert_eq!(read(&mut memory, &hbm)[4..8], [4.0, 0.5, 0.5, 7.0]);
}

#[test]
fn test_columns_are_gathered_in_groups() {
    let mut memory = memory(true, true);
    let data = tensor(&mut memory, &[64, 8], DType::Float32, Buffer::Sbuf);
    memory
        .write_f32(&data, &(0..512).map(|index| index as f32).collect::<Vec<f32>>(), CastOptions::default())
        .expect("ok");
    let index = tensor(&mut memory, &[64, 2], DType::UInt16, Buffer::Sbuf);
    let columns: Vec<f32> = (0..128).map(|index| ((index * 5 + index / 32) % 8) as f32).collect();
    memory.write_f32(&index, &columns, CastOptions::default()).expect("ok");
    for (rows, group) in [(64, 16), (64, 32), (40, 16), (8, 32)] {
        let size = |partition: usize| group.min(rows - partition / group * group);
        let count = size(rows - 1) + 3;
        let mut index = index.clone();
        index.shape[0] = rows;
        let view = View {
            shape: SmallVec::from_slice(&[rows, count]),
            dynamic: Some(Arc::new(Dynamic::Columns { index, bound: 8 })),
            ..data.clone()
        };
        let operand = Operand::from(&view).in_groups(group);
        let mut out = Vec::new();
        memory.read_f32(operand, &mut out, READER).expect("inside");
        for partition in 0..rows {
            for column in 0..count {
                let row = partition / group * group + column % size(partition);
                let expected = 8.0 * partition as f32 + columns[row * 2 + column / size(partition)];
                assert_eq!(out[partition * count + column], expected);
            }
        }
    }
    let mut wide = data.clone();
    wide.shape[1] = 33;
    wide.dynamic = Some(Arc::new(Dynamic::Columns { index: index.clone(), bound: 8 }));
    let error = memory.read_f32(&wide, &mut Vec::new(), READER).expect_err("too few indices").to_string();
    assert!(error.contains("32 column indices for 33 columns"), "{error}");
    // A slice of four columns may not be left, though its partition goes on.
    let mut narrow = data.clone();
    narrow.shape[1] = 16;
    narrow.dynamic = Some(Arc::new(Dynamic::Columns { index: index.clone(), bound: 4 }));
    let error = memory.read_f32(&narrow, &mut Vec::new(), READER).expect_err("outside the slice").to_string();
    assert!(error.contains("column index"), "{error}");
    // Scattered: what is written there is what the gather then reads.
    let mut target = tensor(&mut memory, &[64, 8], DType::Float32, Buffer::Sbuf);
    memory.write_f32(&target, &[0.0; 512], CastOptions::default()).expect("fits");
    target.shape[1] = 4;
    target.dynamic = Some(Arc::new(Dynamic::Columns { index, bound: 8 }));
    memory.write_f32(&target, &vec![2.0; 256], CastOptions::default()).expect("inside");
    assert_eq!(read(&mut memory, &target), vec![2.0; 256]);
    target.dynamic = None;
    target.shape[1] = 8;
    let sum: f32 = read(&mut memory, &target).iter().sum();
    let different = |group: usize| {
        (0..4).map(|row| columns[(group * 16 + row) * 2] as u32).collect::<std::collections::HashSet<u32>>().len()
    };
    assert_eq!(sum, (0..4).map(|group| 2.0 * 16.0 * different(group) as f32).sum::<f32>());
}

#[test]
fn test_views_without_elements_are_read_and_written_as_such() {
    let mut memory = memory(true, true);
    for buffer in [Buffer::Sbuf, Buffer::Psum, Buffer::SharedHbm] {
        let whole = tensor(&mut memory, &[128, 48], DType::Float32, buffer);
        for (shape, strides) in [([2, 0], [6145, 1]), ([0, 5], [i64::MAX, i64::MIN]), ([0, 0], [1, 1])] {
            let (shape, strides) = (SmallVec::from_slice(&shape), SmallVec::from_slice(&strides));
            let view = View { shape, strides, offset: -7, ..whole.clone() };
            assert!(read(&mut memory, &view).is_empty());
            memory.write_f32(&view, &[], CastOptions::default()).expect("nothing to write");
            memory.copy_bits(&view, &view, READER).expect("nothing to copy");
            assert_eq!(memory.is_initialised(&view), Ok(true));
            assert_eq!(memory.with_array(&view, READER, |array| array.len()), Ok(0));
        }
        let shape = SmallVec::from_slice(&[usize::MAX, 2]);
        let endless = View { shape, strides: SmallVec::from_slice(&[0, 0]), ..whole };
        let error = memory.read_f32(&endless, &mut Vec::new(), READER).expect_err("too many").to_string();
        assert!(error.contains("more elements than can be held"), "{error}");
    }
}
