//! Small tensors, read by hand: T is SBUF (4, 12) of 100 p + f, A is HBM (4, 3, 5) and H is HBM (8, 4) of flat indexes.

use trn3_machine::dtype::DType;
use trn3_machine::view::{Dynamic, Index, ScalarIndex, View};

use super::{hbm, positions, positions_with, range, register, sbuf};

fn t() -> View {
    sbuf(&[4, 12], DType::Float32)
}

fn a() -> View {
    hbm(&[4, 3, 5], DType::Float32)
}

fn values_of_t(view: &View) -> Vec<i64> {
    positions(view).into_iter().map(|position| position / 12 * 100 + position % 12).collect()
}

fn layout(view: &View) -> (Vec<usize>, i64, Vec<i64>) {
    (view.shape.to_vec(), view.offset, view.strides.to_vec())
}

#[test]
fn test_index_of_sbuf_keeps_two_dimensions() {
    let s = sbuf(&[64, 64, 64], DType::BFloat16);
    let at = Index::At;
    let shape = |keys: &[Index]| s.index(keys).expect("valid").shape.to_vec();
    assert_eq!(shape(&[at(0), at(0), at(10)]), [1, 1]);
    assert_eq!(shape(&[Index::All, at(0)]), [64, 64]);
    assert_eq!(shape(&[Index::All, at(0), at(10)]), [64, 1]);
    assert_eq!(shape(&[range(0, 64, 1), at(0), range(0, 64, 1)]), [64, 64]);
    assert_eq!(shape(&[Index::All, Index::All, range(0, 64, 2)]), [64, 64, 32]);
    assert_eq!(shape(&[at(5)]), [1, 64, 64]);
    assert_eq!(shape(&[Index::Ellipsis, at(5)]), [64, 64]);
    let cell = s.index(&[at(2), at(3), at(10)]).expect("valid");
    assert_eq!(layout(&cell), (vec![1, 1], 2 * 4096 + 3 * 64 + 10, vec![4096, 1]));
}

#[test]
fn test_index_reads_the_stated_elements() {
    let view = t().index(&[Index::All, range(2, 10, 3)]).expect("valid");
    assert_eq!(layout(&view), (vec![4, 3], 2, vec![12, 3]));
    assert_eq!(values_of_t(&view)[3..6], [102, 105, 108]);
    assert_eq!(layout(&t().index(&[range(1, 3, 1)]).expect("valid")), (vec![2, 12], 12, vec![12, 1]));
    assert_eq!(layout(&t().index(&[Index::At(-1)]).expect("valid")), (vec![1, 12], 36, vec![12, 1]));
    assert_eq!(layout(&a().index(&[Index::At(2)]).expect("valid")), (vec![3, 5], 30, vec![5, 1]));
    let view = a().index(&[Index::All, Index::At(1), Index::Range { start: None, stop: None, step: Some(2) }]);
    let view = view.expect("valid");
    assert_eq!(layout(&view), (vec![4, 3], 5, vec![15, 2]));
    assert_eq!(positions(&view)[6..9], [35, 37, 39]);
    let one = a().index(&[Index::At(1), Index::At(2), Index::At(3)]).expect("valid");
    assert_eq!((one.shape.to_vec(), positions(&one)), (vec![1], vec![28]));
    let ends = t().index(&[range(-3, -1, 1), Index::Range { start: Some(-2), stop: None, step: None }]).expect("valid");
    assert_eq!(values_of_t(&ends), [110, 111, 210, 211]);
}

#[test]
fn test_transforms_read_the_stated_elements() {
    let moved = t().reshape(&[4, 3, 4]).and_then(|view| view.permute(&[0, 2, 1])).expect("valid");
    let view = moved.index(&[Index::All, range(1, 3, 1), Index::All]).expect("valid");
    assert_eq!(layout(&view), (vec![4, 2, 3], 1, vec![12, 1, 4]));
    assert_eq!(values_of_t(&view)[6..12], [101, 105, 109, 102, 106, 110]);
    assert_eq!(t().reshape_dim(1, &[3, 4]).expect("valid").shape.to_vec(), [4, 3, 4]);
    assert_eq!(t().reshape_dim(1, &[-1, 4]).expect("valid").shape.to_vec(), [4, 3, 4]);
    let view = t().slice(1, 4, 6, 1).and_then(|view| view.expand_dim(1)).and_then(|view| view.broadcast(1, 3));
    let view = view.expect("valid");
    assert_eq!(view.shape.to_vec(), [4, 3, 2]);
    assert_eq!(values_of_t(&view)[6..12], [104, 105, 104, 105, 104, 105]);
    let named = t().rearrange(&[&["p"], &["h", "w"]], &[&["p"], &["w"], &["h"]], &[("h", 3)]).expect("valid");
    assert_eq!(layout(&named), layout(&moved));
    let back = named.rearrange(&[&["p"], &["w"], &["h"]], &[&["p"], &["h", "w"]], &[]).expect("valid");
    assert_eq!(layout(&back), layout(&t()));
    assert_eq!(layout(&a().flatten_dims(0, 2).expect("valid")), (vec![60], 0, vec![1]));
}

#[test]
fn test_reinterpret_rescales_the_last_dimension() {
    let words = sbuf(&[1, 2], DType::Float32).reinterpret(DType::UInt16).expect("valid");
    assert_eq!(layout(&words), (vec![1, 4], 0, vec![4, 1]));
    let bytes = sbuf(&[128, 256], DType::UInt8);
    let packed = bytes.reinterpret(DType::Float8E4M3FnX4).expect("valid");
    assert_eq!(layout(&packed), (vec![128, 64], 0, vec![64, 1]));
    let packed = bytes.reinterpret(DType::Float4E2M1FnX4).expect("valid");
    assert_eq!(layout(&packed), (vec![128, 128], 0, vec![128, 1]));
    let part = bytes.slice(1, 8, 16, 1).and_then(|view| view.reinterpret(DType::Int32)).expect("valid");
    assert_eq!(layout(&part), (vec![128, 2], 2, vec![64, 1]));
}

#[test]
fn test_ap_reads_the_stated_elements() {
    let ap = |pattern: &[(i64, i64)], offset| t().ap(pattern, Some(offset), None, None, 0, None).expect("valid");
    assert_eq!(values_of_t(&ap(&[(12, 4), (3, 4)], 1))[..8], [1, 4, 7, 10, 101, 104, 107, 110]);
    let view = ap(&[(12, 2), (1, 3), (3, 4)], 12);
    assert_eq!(view.start_partition(), 1);
    assert_eq!(values_of_t(&view)[..12], [100, 103, 106, 109, 101, 104, 107, 110, 102, 105, 108, 111]);
    assert_eq!(values_of_t(&view)[12], 200);
    let view = ap(&[(12, 4), (0, 3), (1, 2)], 4);
    assert_eq!(values_of_t(&view)[6..12], [104, 105, 104, 105, 104, 105]);
    assert_eq!(view.get_pattern().to_vec(), [(12, 4), (0, 3), (1, 2)]);
    // Any stride will do for one partition; the offset adds to the receiver's own.
    assert_eq!(values_of_t(&ap(&[(1, 1), (1, 1)], 27)), [203]);
    let view = t().slice(1, 3, 9, 1).and_then(|view| view.ap(&[(12, 4), (1, 2)], Some(2), None, None, 0, None));
    assert_eq!(values_of_t(&view.expect("valid"))[2..4], [105, 106]);
    let view =
        t().slice(0, 1, 3, 1).and_then(|view| view.ap(&[(48, 3), (1, 48)], None, None, None, 0, Some(DType::Int8)));
    assert_eq!(view.expect("valid").offset, 48);
}

/// Positions of a view whose register holds `value`.
fn positions_at(view: &View, value: usize) -> Vec<i64> {
    match view.dynamic.as_deref() {
        Some(&Dynamic::Scalar { stride, bound, .. }) if value < bound => {
            positions(view).into_iter().map(|position| position + value as i64 * stride).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn test_ap_scales_a_scalar_offset_by_the_receivers_stride() {
    let view = a().ap(&[(5, 3), (1, 5)], None, Some(register()), None, 0, None).expect("valid");
    assert_eq!(positions_at(&view, 2), (30..45).collect::<Vec<_>>());
    assert_eq!(positions_at(&view, 4), Vec::<i64>::new());
    let view = a().ap(&[(15, 4), (1, 2)], Some(3), Some(register()), None, 1, None).expect("valid");
    assert_eq!(positions_at(&view, 2), [13, 14, 28, 29, 43, 44, 58, 59]);
    assert_eq!(positions_at(&view, 3), Vec::<i64>::new());
    let view = t().ap(&[(12, 4), (1, 5)], None, Some(register()), None, 1, None).expect("valid");
    assert_eq!((positions_at(&view, 7)[4], positions_at(&view, 8)), (11, vec![]));
    let halves = a().ap(&[(1, 2)], None, Some(register()), None, 1, Some(DType::Int16)).expect("valid");
    assert_eq!(positions_at(&halves, 1), [10, 11]);
}

/// Positions of a view whose rows are picked by `indexes`.
fn positions_of(view: &View, indexes: &[i64]) -> Vec<i64> {
    match view.dynamic.as_deref() {
        Some(&Dynamic::Rows { stride, .. }) => positions_with(view, |row| indexes[row] * stride),
        _ => Vec::new(),
    }
}

#[test]
fn test_vector_offset_ignores_the_leading_stride() {
    let index = sbuf(&[3, 1], DType::Int32);
    let h = hbm(&[8, 4], DType::Float32);
    for leading in [4, 1, 0] {
        let view = h.ap(&[(leading, 3), (1, 2)], Some(1), None, Some(index.clone()), 0, None).expect("valid");
        assert_eq!(positions_of(&view, &[6, 1, 1]), [25, 26, 5, 6, 5, 6]);
        assert_eq!(view.get_pattern().to_vec(), [(leading, 3), (1, 2)]);
    }
    let flat = h.reshape(&[32]).expect("valid");
    let view = flat.ap(&[(4, 3), (1, 2)], Some(1), None, Some(index.clone()), 0, None).expect("valid");
    assert_eq!(positions_of(&view, &[6, 1, 1]), [7, 8, 2, 3, 2, 3]);
    let picked = h.slice(1, 1, 3, 1).and_then(|view| view.vector_select(0, index)).expect("valid");
    assert_eq!(positions_of(&picked, &[6, 1, 1]), [25, 26, 5, 6, 5, 6]);
    assert!(picked.is_indirect());
    let narrower = picked.index(&[Index::All, Index::At(1)]).expect("other dimensions stay free");
    assert_eq!(positions_of(&narrower, &[6, 1, 1]), [26, 6, 6]);
}

#[test]
fn test_rows_that_would_end_outside_are_out_of_bound() {
    let index = sbuf(&[2, 1], DType::Int32);
    let bound = |offset| {
        let pattern = [(4, 2), (1, 4)];
        let view = hbm(&[8, 4], DType::Float32).ap(&pattern, Some(offset), None, Some(index.clone()), 0, None);
        match view.expect("valid").dynamic.as_deref() {
            Some(&Dynamic::Rows { bound, .. }) => bound,
            _ => 0,
        }
    };
    assert_eq!((bound(0), bound(1), bound(8)), (8, 7, 6));
}

#[test]
fn test_dynamic_index_adds_value_times_stride() {
    let column = a().select_dynamic(1, register()).expect("valid");
    assert_eq!((column.shape.to_vec(), positions_at(&column, 2)[5]), (vec![4, 5], 25));
    assert_eq!(positions_at(&column, 3), Vec::<i64>::new());
    let part = a().index(&[Index::Dynamic { index: register(), size: 3 }, Index::At(1)]).expect("valid");
    assert_eq!((part.shape.to_vec(), positions_at(&part, 1)[0], positions_at(&part, 2)), (vec![3, 5], 20, vec![]));
    let tile = sbuf(&[4, 12], DType::Int32).index(&[Index::At(1), Index::At(2)]).expect("valid");
    let kept = t().index(&[Index::All, Index::DynamicAt(ScalarIndex::Element(tile.clone()))]).expect("valid");
    assert_eq!((kept.shape.to_vec(), positions_at(&kept, 11)), (vec![4, 1], vec![11, 23, 35, 47]));
    assert_eq!(kept.index_view().map(|view| view.offset), Some(tile.offset));
    let narrower = part.slice(1, 2, 4, 1).expect("other dimensions stay free");
    assert_eq!(positions_at(&narrower, 0)[..2], [7, 8]);
}

#[test]
fn test_indirect_counts_the_offsets_of_a_group() {
    let index = sbuf(&[128, 3], DType::UInt16);
    let data = sbuf(&[128, 40], DType::BFloat16);
    let view = data.indirect(index.clone(), None, 16).expect("valid");
    assert_eq!(layout(&view), (vec![128, 48], 0, vec![40, 1]));
    assert!(matches!(view.dynamic.as_deref(), Some(Dynamic::Columns { bound: 40, .. })));
    let even = data.index(&[Index::All, range(0, 40, 2)]).and_then(|view| view.indirect(index, Some(5), 16));
    let even = even.expect("valid");
    assert_eq!(layout(&even), (vec![128, 5], 0, vec![40, 2]));
    assert!(matches!(even.dynamic.as_deref(), Some(Dynamic::Columns { bound: 20, .. })));
}

#[test]
fn test_queries_count_on_the_chip() {
    let tile = super::tensor_at(trn3_machine::storage::Buffer::Psum, &[64, 4, 8], DType::Float32, (32, 2048));
    assert!(tile.is_contiguous() && tile.free_is_contiguous());
    let part = tile.index(&[range(8, 40, 1), range(1, 3, 1), range(2, 8, 2)]).expect("valid");
    assert_eq!((part.start_partition(), part.partition_range(), part.partition_step()), (40, 40..72, 1));
    assert_eq!(part.free_byte_range(), 2048 + 40..2048 + 40 + 32 + 16 + 4);
    assert_eq!((part.innermost_stride_bytes(), part.byte_strides().to_vec()), (8, vec![128, 32, 8]));
    assert!(!part.is_contiguous());
    assert_eq!(tile.index(&[range(1, 64, 4)]).expect("valid").partition_range(), 33..94);
    assert!(tile.index(&[range(1, 3, 1)]).expect("valid").is_contiguous());
    let rows = hbm(&[8, 4], DType::Float32).slice(1, 0, 2, 1).expect("valid");
    assert!(rows.free_is_contiguous() && !rows.is_contiguous());
}

#[test]
fn test_text_states_the_layout() {
    let view = t().slice(1, 4, 6, 1).expect("valid");
    let text = "name='x', shape=(4, 2), dtype=float32, buffer=sbuf, strides=(12, 1), offset=4";
    assert_eq!(view.to_string(), text);
    let row = a().select_dynamic(0, register()).and_then(|view| view.select(0, 1)).expect("valid");
    let text = "name='x', shape=(5,), dtype=float32, buffer=private_hbm, strides=(1,), offset=5, plus 15 * register 3";
    assert_eq!(row.to_string(), text);
}
