//! What views refuse, and what they say.

use trn3_machine::Error;
use trn3_machine::dtype::DType;
use trn3_machine::view::{Index, ScalarIndex, View};

use super::{hbm, range, register, sbuf};

fn text(result: trn3_machine::Result<View>) -> String {
    result.expect_err("must be refused").to_string()
}

#[track_caller]
fn assert_says(result: trn3_machine::Result<View>, part: &str) {
    let said = text(result);
    assert!(said.contains(part), "said {said:?}");
    assert!(!said.contains("  "), "said {said:?}");
}

fn t() -> View {
    sbuf(&[4, 12], DType::Float32)
}

fn a() -> View {
    hbm(&[4, 3, 5], DType::Float32)
}

#[test]
fn test_index_never_clamps() {
    let said = text(t().index(&[Index::All, range(4, 13, 1)]));
    let wanted = "Out-of-bound access for tensor `x` on dimension 1: index range [4, 12] exceed dimension size of 12";
    assert_eq!(said, wanted);
    assert_says(t().index(&[Index::At(4)]), "on dimension 0: index 4 exceed dimension size of 4");
    assert_says(t().index(&[Index::At(-5)]), "index -5 exceed dimension size of 4");
    assert_says(t().index(&[range(-5, 4, 1)]), "exceed dimension size of 4");
    assert!(matches!(t().index(&[Index::At(4)]), Err(Error::OutOfBounds(_))));
    assert_says(t().index(&[Index::All, range(8, 2, 1)]), "slice 8:2 on dimension 1 ends before it begins");
    assert_eq!(t().index(&[Index::All, range(5, 5, 1)]).expect("none").shape.to_vec(), [4, 0]);
    assert_says(t().index(&[Index::All, range(0, 5, -1)]), "step of the slice on dimension 1 is -1");
    assert_says(t().index(&[Index::At(0), Index::At(0), Index::At(0)]), "3 indexes for 2 dimensions");
    assert_says(t().index(&[Index::Ellipsis, Index::Ellipsis]), "2 ellipses");
    for extreme in [i64::MIN, i64::MAX] {
        assert!(t().index(&[Index::At(extreme)]).is_err());
        assert!(t().index(&[range(extreme, 4, 1)]).is_err());
        assert!(t().index(&[range(0, extreme, 1)]).is_err());
        assert!(t().slice(0, extreme, extreme, extreme).is_err());
    }
    assert_eq!(t().index(&[range(0, 4, i64::MAX)]).expect("one row").shape.to_vec(), [1, 12]);
}

#[test]
fn test_slice_wants_ordered_bounds() {
    for (start, end) in [(-1, 3), (4, 3), (0, 13)] {
        let result = t().slice(1, start, end, 1);
        assert!(matches!(result, Err(Error::OutOfBounds(_))));
        assert_says(result, "must be 0 <= start <= end <= 12");
    }
    assert_says(t().slice(1, 0, 4, 0), "step of the slice on dimension 1 is 0");
    assert_says(t().slice(2, 0, 4, 1), "dim is 2, must be in [0, 2)");
}

#[test]
fn test_partitions_stay() {
    assert_says(t().permute(&[1, 0]), "dims[0] is 1, must be 0");
    assert_says(t().slice(0, 0, 1, 1).and_then(|view| view.broadcast(0, 4)), "broadcast: dim is 0, the partitions");
    assert_says(t().expand_dim(0), "expand_dim: dim is 0, the partitions");
    assert_says(t().slice(0, 0, 1, 1).and_then(|view| view.squeeze_dim(0)), "squeeze_dim: dim is 0, the partitions");
    assert_says(t().reshape_dim(0, &[2, 2]), "reshape_dim: dim is 0, the partitions");
    assert_eq!(t().reshape_dim(0, &[4]).expect("one part").shape.to_vec(), [4, 12]);
    assert_says(t().flatten_dims(0, 1), "flatten_dims: dim is 0, the partitions");
    assert_says(t().reshape(&[3, 16]), "Partition dim size must be preserved, got 4 -> 3");
    assert_says(t().slice(0, 0, 1, 1).and_then(|view| view.reshape(&[12])), "at least 2 dimensions");
    assert_says(t().slice(1, 0, 1, 1).and_then(|view| view.squeeze_dim(1)), "at least 2 dimensions");
    assert_says(t().select_dynamic(0, register()), "dimension 0, the partitions");
}

#[test]
fn test_transforms_refuse_what_strides_cannot_say() {
    assert_says(a().permute(&[0, 1, 1]), "must be a permutation of 0..3");
    assert_says(a().permute(&[0, 1]), "must be a permutation of 0..3");
    assert_says(a().broadcast(1, 4), "dimension 1 of length 3 to 4");
    assert_says(a().squeeze_dim(2), "dimension 2 has length 5, must be 1");
    assert_says(a().reshape_dim(2, &[2, 2]), "must have 5 elements");
    assert_says(a().reshape_dim(2, &[-1, -1]), "at most one -1");
    assert_says(a().reshape(&[4, 16]), "must have 60 elements");
    assert_says(a().reshape(&[0, -1]), "must have 60 elements");
    assert_says(a().reshape(&[]), "must have 60 elements");
    let moved = a().permute(&[1, 0, 2]).expect("valid");
    assert_says(moved.reshape(&[60]), "needs a copy");
    assert_says(moved.flatten_dims(0, 1), "are not evenly spaced");
    assert_says(a().flatten_dims(2, 1), "first is 2, last is 1");
    assert_says(a().rearrange(&[&["a"], &["b"]], &[&["a"], &["b"]], &[]), "source has 2 groups, must have 3");
    let (one, two, three): (&[&str], &[&str], &[&str]) = (&["a"], &["b"], &["c", "d"]);
    assert_says(a().rearrange(&[one, two, three], &[one, two, three], &[]), "more than one length of (c, d)");
    assert_says(a().rearrange(&[one, two, &["c"]], &[one, two], &[]), "must be the same, each once");
    assert_says(a().rearrange(&[one, two, &["c"]], &[one, two, &["c"]], &[("e", 2)]), "sizes names e");
}

#[test]
fn test_reinterpret_wants_whole_elements() {
    let bytes = hbm(&[4, 10], DType::UInt8);
    assert_says(bytes.reinterpret(DType::Int32), "length of the last dimension is 10 elements of 1 bytes");
    let part = |from, to| bytes.slice(1, from, to, 1).expect("valid");
    assert_says(part(1, 9).reinterpret(DType::Int16), "offset is 1 elements");
    assert_says(part(0, 8).reinterpret(DType::Int32), "stride is 10 elements");
    assert_says(
        a().permute(&[0, 2, 1]).and_then(|view| view.reinterpret(DType::Int8)),
        "stride of the last dimension is 5",
    );
    let dynamic = a().select_dynamic(1, register()).expect("valid");
    assert_says(dynamic.reinterpret(DType::Int16), "after a dynamic index");
    assert!(dynamic.reinterpret(DType::Int32).is_ok());
}

#[test]
fn test_ap_keeps_to_hardware_patterns() {
    let ap = |pattern: &[(i64, i64)]| t().ap(pattern, None, None, None, 0, None);
    let said = text(ap(&[(64, 4), (1, 4)]));
    assert!(
        said.contains(
            "ap() pattern has invalid partition stride. Partition step 64 must equal tensor free dimension 12"
        )
    );
    assert!(matches!(ap(&[(64, 4), (1, 4)]), Err(Error::Validation { instruction: "ap", operand: "pattern", .. })));
    assert_says(t().ap(&[(12, 4), (1, 4)], None, None, None, 0, Some(DType::Int16)), "free dimension 24");
    assert_says(ap(&[(12, 4)]), "at least 2 dimensions");
    assert_says(ap(&[(12, 4), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]), "6 pairs");
    assert_says(ap(&[(12, 4), (-1, 2)]), "stride -1");
    assert_says(ap(&[(12, 4), (1, 0)]), "must be at least 1");
    assert_says(ap(&[(12, 4), (0, i64::MAX)]), "must be at least 1 and countable");
    assert_says(ap(&[(12, 4), (i64::MAX, 2)]), "exceed dimension size of 12");
    assert_says(ap(&[(12, 4), (1, 13)]), "on dimension 1: index range [0, 12] exceed dimension size of 12");
    assert_says(ap(&[(12, 5), (1, 12)]), "on dimension 0: index range [0, 4] exceed dimension size of 4");
    assert_says(t().ap(&[(12, 1), (1, 2)], Some(11), None, None, 0, None), "index range [11, 12]");
    assert_says(t().ap(&[(12, 1), (1, 2)], Some(-1), None, None, 0, None), "offset -1 from 0 is before its start");
    assert_says(t().ap(&[(12, 1), (1, 1)], Some(48), None, None, 0, None), "exceed dimension size of 4");
    assert!(t().ap(&[(12, 1), (1, 1)], Some(i64::MAX), None, None, 0, None).is_err());
    assert_says(a().ap(&[(1, 61)], None, None, None, 0, None), "index range [0, 60] exceed size of 60");
    assert_says(a().ap(&[], None, None, None, 0, None), "no pairs");
    let odd = hbm(&[4, 5], DType::Int8).select(1, 1).expect("valid");
    let words = odd.ap(&[(1, 2)], None, None, None, 0, Some(DType::Int32));
    assert_says(words, "offset is 1 of 1 bytes, which int32 of 4 bytes does not divide");
    let huge = a().ap(&[(i64::MAX, 1), (1, 4)], None, None, None, 0, None).expect("one row: any stride");
    assert_eq!(huge.byte_strides()[0], i64::MAX);
    assert!(huge.expand_dim(0).is_ok() && huge.reinterpret(DType::Int8).is_ok());
    assert_eq!(huge.regions().rects.len(), 1);
}

#[test]
fn test_one_dynamic_index_at_most() {
    let index = sbuf(&[3, 1], DType::Int32);
    let both = a().ap(&[(1, 3)], None, Some(register()), Some(index.clone()), 0, None);
    assert_says(both, "scalar_offset and vector_offset are both given");
    let dynamic = a().select_dynamic(0, register()).expect("valid");
    assert_says(dynamic.select_dynamic(0, register()), "at most one dynamic index");
    assert_says(dynamic.vector_select(0, index.clone()), "at most one dynamic index");
    assert_says(dynamic.ap(&[(1, 3)], None, None, None, 0, None), "at a dynamic address already");
    assert_says(a().index(&[Index::DynamicAt(register()), Index::DynamicAt(register())]), "at most one dynamic index");
    let (first, size) = (register(), 2);
    let twice = [Index::Dynamic { index: first, size }, Index::DynamicAt(register())];
    assert_says(a().index(&twice), "at most one dynamic index");
    let picked = a().vector_select(0, index).expect("valid");
    for result in [
        picked.slice(0, 0, 2, 1),
        picked.select(0, 0),
        picked.expand_dim(0),
        picked.permute(&[1, 0, 2]),
        picked.flatten_dims(0, 1),
        picked.reshape(&[45]),
        picked.reshape_dim(0, &[3, 1]),
    ] {
        assert_says(result, "whose positions an index tensor picks");
    }
    assert_says(picked.select_dynamic(1, register()), "at most one dynamic index");
    assert!(picked.permute(&[0, 2, 1]).is_ok() && picked.reshape(&[3, 15]).is_ok() && picked.expand_dim(1).is_ok());
    let broadcast = a().expand_dim(1).and_then(|view| view.broadcast(1, 2)).expect("valid");
    assert_says(broadcast.select_dynamic(1, register()), "which is broadcast");
    assert_says(broadcast.ap(&[(1, 2)], None, Some(register()), None, 1, None), "is broadcast");
    assert_says(a().index(&[Index::Dynamic { index: register(), size: 5 }]), "must be in [0, 4]");
}

#[test]
fn test_index_tensors_are_integers_in_sbuf() {
    let element = |dtype| ScalarIndex::Element(sbuf(&[1, 1], dtype));
    assert!(matches!(a().select_dynamic(0, element(DType::Float32)), Err(Error::Type(_))));
    assert_says(a().select_dynamic(0, element(DType::Int8)), "`x` is int8; allowed: int32, uint32");
    let in_hbm = ScalarIndex::Element(hbm(&[1, 1], DType::Int32));
    assert_says(a().select_dynamic(0, in_hbm), "is in private_hbm, must be in sbuf");
    let wide = ScalarIndex::Element(sbuf(&[1, 2], DType::Int32));
    assert_says(a().ap(&[(1, 1)], None, Some(wide), None, 0, None), "must have one element");
    assert_says(a().ap(&[(1, 1)], None, Some(register()), None, 3, None), "dim is 3, must be in [0, 3)");
    let index = |rows| sbuf(&[rows, 1], DType::Int32);
    assert_says(a().ap(&[(1, 4)], None, None, Some(index(3)), 0, None), "is 4, must be the 3 indexes");
    assert_says(a().ap(&[(1, 3)], None, None, Some(index(3)), 1, None), "must be indirect_dim 0 in HBM");
    assert_says(t().ap(&[(12, 3), (1, 1)], None, None, Some(index(3)), 0, None), "must be indirect_dim 0 in HBM");
    assert_says(a().vector_select(1, index(3)), "dim is 1, must be 0");
    assert_says(t().vector_select(0, index(3)), "tensor is in sbuf, must be in HBM");
    assert_says(a().vector_select(0, sbuf(&[3, 2], DType::Int32)), "must be (P, 1)");
    let moved = a().permute(&[1, 0, 2]).expect("valid");
    assert_says(moved.vector_select(0, index(3)), "dimension 0 must have the largest stride");
    assert_says(a().indirect(index(4), None, 16), "must be in sbuf or psum");
    assert_says(t().indirect(index(3), None, 16), "index has 3 partitions, must have 4");
    assert_says(t().indirect(index(4), Some(5), 16), "num_elem is 5, must be in [1, 4]");
    assert!(matches!(t().indirect(t(), None, 16), Err(Error::Type(_))));
    let gathered = t().indirect(index(4), None, 16).expect("valid");
    assert_says(gathered.slice(1, 0, 2, 1), "whose positions an index tensor picks");
    assert_says(gathered.reshape(&[4, 2, 2]), "whose positions an index tensor picks");
}
