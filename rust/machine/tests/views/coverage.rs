//! Regions: which bytes a view covers, byte by byte.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trn3_machine::dtype::DType;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::{Region, Space};
use trn3_machine::view::{Dynamic, Index, View};

use super::{hbm, positions, positions_with, range, register, sbuf, tensor_at};

const CORNER: (usize, usize) = (32, 100);

/// Row and column of every byte the view can reach, from its elements one by one.
fn reached(view: &View) -> BTreeSet<(u64, u64)> {
    let starts: Vec<i64> = match view.dynamic.as_deref() {
        None => positions(view),
        Some(&Dynamic::Scalar { stride, bound, .. }) => {
            let starts = positions(view);
            (0..bound as i64).flat_map(|value| starts.iter().map(move |start| start + value * stride)).collect()
        }
        Some(&Dynamic::Rows { stride, bound, .. }) => {
            (0..bound as i64).flat_map(|row| positions_with(view, |_| row * stride)).collect()
        }
        Some(Dynamic::Columns { .. }) => {
            let mut whole = View::whole(view.storage.clone());
            whole.shape[0] = view.shape[0];
            whole.offset = view.offset / whole.strides[0] * whole.strides[0];
            positions(&whole)
        }
    };
    let size = view.dtype.size() as i64;
    let bytes = starts.iter().flat_map(|start| start * size..(start + 1) * size).map(|byte| byte as u64);
    match view.is_on_chip() {
        true => {
            let row = view.storage.free_bytes() as u64;
            bytes.map(|byte| (byte / row + CORNER.0 as u64, byte % row + CORNER.1 as u64)).collect()
        }
        false => {
            let pitch = *view.storage.pitch.get().expect("set by the first view");
            bytes.map(|byte| (byte / pitch, byte % pitch)).collect()
        }
    }
}

/// Row and column of every byte of the region, which may hold none twice.
fn covered(region: &Region) -> BTreeSet<(u64, u64)> {
    let mut bytes = BTreeSet::new();
    for rect in &region.rects {
        for row in rect.rows.clone() {
            for column in rect.columns.clone() {
                assert!(bytes.insert((row, column)), "{row}, {column} twice in {region:?}");
            }
        }
    }
    bytes
}

/// Runs of bytes without a gap, in each row and over the rows' ends.
fn runs(bytes: &BTreeSet<(u64, u64)>, row_bytes: u64) -> usize {
    let flat: BTreeSet<u64> = bytes.iter().map(|(row, column)| row * row_bytes + column).collect();
    flat.iter().filter(|&&byte| byte == 0 || !flat.contains(&(byte - 1))).count()
}

#[track_caller]
fn assert_exact(view: &View, rects: usize) {
    let region = view.regions();
    assert_eq!(covered(&region), reached(view), "{view}");
    assert_eq!(region.rects.len(), rects, "{region:?}");
}

fn chip(shape: &[usize], dtype: DType) -> View {
    tensor_at(Buffer::Sbuf, shape, dtype, CORNER)
}

#[test]
fn test_tiles_on_chip_are_rectangles() {
    let tile = chip(&[64, 4, 16], DType::BFloat16);
    assert_exact(&tile, 1);
    assert_eq!(tile.regions().space, Space::Sbuf);
    assert_eq!(tile.regions().rects[0].rows, 32..96);
    assert_eq!(tile.regions().rects[0].columns, 100..228);
    assert_exact(&tile.index(&[range(8, 24, 1), range(1, 3, 1)]).expect("valid"), 1);
    assert_exact(&tile.index(&[Index::All, Index::All, range(3, 9, 1)]).expect("valid"), 4);
    assert_exact(&tile.index(&[range(0, 64, 16), Index::All, range(3, 9, 1)]).expect("valid"), 16);
    assert_exact(&tile.permute(&[0, 2, 1]).and_then(|view| view.slice(2, 1, 3, 1)).expect("valid"), 1);
    let repeated = tile.slice(2, 5, 6, 1).and_then(|view| view.broadcast(2, 9)).expect("valid");
    assert_exact(&repeated, 4);
    // Overlapping windows, as of a convolution, are one run.
    assert_exact(&tile.ap(&[(64, 64), (1, 5), (1, 3)], Some(7), None, None, 0, None).expect("valid"), 1);
    assert_eq!(tensor_at(Buffer::Psum, &[4, 4], DType::Float32, (0, 0)).regions().space, Space::Psum);
}

#[test]
fn test_past_the_limit_the_narrowest_gaps_count_as_covered() {
    let tile = chip(&[8, 4, 40], DType::Float32);
    let region = tile.slice(2, 0, 40, 4).expect("valid").regions();
    assert_eq!(region.rects.len(), 1, "evenly spaced over the second axis: one span");
    let pieces = tile.index(&[Index::All, Index::All, range(0, 30, 3)]).expect("valid").regions();
    assert_eq!(pieces.rects.len(), 4, "the wide gaps stay");
    assert_eq!(pieces.rects[1].columns, 260..372);
    let rows = chip(&[96, 40], DType::Float32).index(&[range(0, 96, 2), range(0, 8, 4)]).expect("valid").regions();
    assert_eq!(rows.rects.len(), 2, "rows have the more gaps");
}

#[test]
fn test_heads_of_a_batch_major_tensor_are_apart() {
    let whole = hbm(&[2, 100, 8, 16], DType::BFloat16);
    let head = |batch, from, to, head| {
        whole.index(&[Index::At(batch), range(from, to, 1), Index::At(head), Index::All]).expect("valid")
    };
    assert_exact(&head(1, 30, 90, 3), 1);
    assert_exact(&head(0, 0, 100, 4), 1);
    assert_exact(&whole.index(&[Index::At(1), range(5, 60, 1), range(2, 4, 1)]).expect("valid"), 1);
    assert_eq!(whole.storage.pitch.get(), Some(&256));
    assert_exact(&whole, 1);
    assert_eq!(whole.regions().space, Space::Hbm(7));
}

#[test]
fn test_tiles_of_a_matrix_are_apart() {
    let tile = |view: &View| view.index(&[range(64, 192, 1), range(30, 60, 1)]).expect("valid");
    for first in 0..5 {
        let matrix = hbm(&[256, 90], DType::Float32);
        match first {
            0 => assert_exact(&tile(&matrix), 1),
            1 => assert_exact(&matrix, 1),
            2 => assert_exact(&matrix.slice(0, 3, 200, 2).expect("valid").slice(0, 0, 9, 1).expect("valid"), 9),
            3 => assert_exact(&matrix.permute(&[1, 0]).expect("valid").slice(0, 3, 7, 1).expect("valid"), 1),
            _ => {
                // Blocks of rows on partitions.
                let blocks = [(90, 128), (128 * 90, 2), (1, 30)];
                assert_exact(&matrix.ap(&blocks, Some(30), None, None, 0, None).expect("valid"), 1);
            }
        }
        assert_eq!(matrix.storage.pitch.get(), Some(&360), "first view {first}");
        assert_exact(&tile(&matrix), 1);
        // Neither starts nor ends with a row.
        assert_exact(&matrix.ap(&[(1, 1000)], Some(100), None, None, 0, None).expect("valid"), 3);
    }
}

#[test]
fn test_flat_tensors_take_the_rows_of_their_first_view() {
    let flat = hbm(&[4096], DType::Float32);
    let rows = flat.reshape(&[64, 64]).expect("valid");
    assert_exact(&rows.slice(1, 8, 24, 1).expect("valid"), 1);
    assert_exact(&rows.slice(1, 24, 40, 1).expect("valid"), 1);
    let other = hbm(&[4096], DType::Float32);
    assert_exact(&other, 1);
    assert_eq!(other.storage.pitch.get(), Some(&16384));
}

#[test]
fn test_dynamic_views_cover_all_they_may_reach() {
    let whole = hbm(&[16, 6, 10], DType::Float32);
    let index = sbuf(&[4, 1], DType::Int32);
    assert_exact(&whole.index(&[Index::All, Index::DynamicAt(register()), range(2, 4, 1)]).expect("valid"), 1);
    assert_exact(&whole.index(&[Index::Dynamic { index: register(), size: 3 }, Index::At(1)]).expect("valid"), 16);
    assert_exact(&whole.vector_select(0, index.clone()).and_then(|view| view.select(1, 2)).expect("valid"), 16);
    let rows = whole.reshape(&[96, 10]).expect("valid");
    let pattern = [(10, 4), (1, 3)];
    assert_exact(&rows.ap(&pattern, Some(5), None, Some(index.clone()), 0, None).expect("valid"), 1);
    let tile = chip(&[4, 5, 8], DType::Float32);
    assert_exact(&tile.select_dynamic(1, register()).expect("valid"), 1);
    assert_exact(&tile.select_dynamic(1, register()).and_then(|view| view.slice(1, 2, 4, 1)).expect("valid"), 5);
    let gathered = tile.slice(1, 1, 3, 1).and_then(|view| view.indirect(index, None, 16)).expect("valid");
    assert_exact(&gathered, 1);
    assert_eq!(gathered.regions().rects[0].columns, 100..260);
    let lower = tile.slice(0, 2, 4, 1).and_then(|view| view.indirect(sbuf(&[2, 1], DType::UInt8), None, 16));
    assert_exact(&lower.expect("valid"), 1);
}

fn draw_key(length: usize, draw: usize) -> Index {
    let start = draw / 5 % length;
    let stop = start + 1 + draw / 35 % (length - start);
    match draw % 5 {
        0 => Index::All,
        1 => Index::At(start as i64),
        2 => Index::Dynamic { index: register(), size: stop - start },
        _ => range(start as i64, stop as i64, 1 + (draw / 700 % 4) as i64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn test_regions_cover_each_byte_and_few_runs_exactly(
        on_chip in any::<bool>(),
        shape in prop::collection::vec(1usize..9, 2..5),
        draws in prop::collection::vec(prop::array::uniform4(0usize..100_000), 1..4),
        wide in any::<bool>(),
    ) {
        let dtype = if wide { DType::Float32 } else { DType::Float8E4M3 };
        let whole = tensor_at(if on_chip { Buffer::Sbuf } else { Buffer::PrivateHbm }, &shape, dtype, CORNER);
        // Several views of one storage: only the first has a say in how it is cut.
        for keys in draws {
            let keys: Vec<Index> = shape.iter().zip(keys).map(|(&length, draw)| draw_key(length, draw)).collect();
            let Ok(view) = whole.index(&keys) else { continue };
            let region = view.regions();
            let (covered, reached) = (covered(&region), reached(&view));
            prop_assert!(covered.is_superset(&reached), "{} covers {:?}", view, region);
            prop_assert!(region.rects.len() <= 32);
            // Rows of the chip are told apart by more bytes than one holds.
            let row = if on_chip { 1 << 20 } else { *view.storage.pitch.get().expect("set") };
            let is_static = view.dynamic.is_none();
            if is_static && runs(&reached, row) <= 10 {
                prop_assert_eq!(covered, reached, "{} covers {:?}", view, region);
            }
        }
    }

    #[test]
    fn test_regions_of_raw_patterns_cover_each_byte(
        on_chip in any::<bool>(),
        pattern in prop::collection::vec((0i64..20, 1i64..6), 1..4),
        offset in 0i64..60,
        other in prop::collection::vec((0i64..200, 1i64..5), 1..4),
        dynamic in any::<bool>(),
    ) {
        let whole = tensor_at(if on_chip { Buffer::Psum } else { Buffer::PrivateHbm }, &[6, 50], DType::Int16, CORNER);
        for mut pattern in [pattern, other] {
            if on_chip {
                pattern.insert(0, (50, 3));
            }
            let scalar = dynamic.then(register);
            let Ok(view) = whole.ap(&pattern, Some(offset), scalar, None, usize::from(on_chip), None) else { continue };
            let region = view.regions();
            prop_assert!(covered(&region).is_superset(&reached(&view)), "{} covers {:?}", view, region);
            prop_assert!(region.rects.len() <= 32);
        }
    }
}
