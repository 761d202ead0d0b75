//! Structured sparsity against group-by-group oracles: every pattern, format, axis and layout.

use proptest::prelude::*;
use trn3_numerics::{
    ArrayMut, ArrayView, Error, Format, SparseView, SparsityPattern, compress, from_tags, prune, set_num_threads,
};

/// Codes of any format in C order, one to a word.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    format: Format,
    shape: Vec<usize>,
    codes: Vec<u32>,
}

impl Array {
    fn bytes(&self) -> Vec<u8> {
        let item = self.format.item_size();
        self.codes.iter().flat_map(|code| code.to_le_bytes()[..item].to_vec()).collect()
    }

    fn value(&self, at: usize) -> f32 {
        match self.format {
            Format::F32 | Format::Tf32 => f32::from_bits(self.codes[at]),
            format => format.decode_code(self.codes[at]),
        }
    }

    /// Calls `work` with the element numbers of each group, groups in C order of the array of groups.
    fn for_each_group(&self, axis: usize, group: usize, mut work: impl FnMut(&[usize])) {
        let inner: usize = self.shape[axis + 1..].iter().product();
        let outer: usize = self.shape[..axis].iter().product();
        for line in 0..outer {
            for along in 0..self.shape[axis] / group {
                for column in 0..inner {
                    let row = line * self.shape[axis] + along * group;
                    work(&(0..group).map(|step| (row + step) * inner + column).collect::<Vec<_>>());
                }
            }
        }
    }
}

/// Bytes aligned as any allocator would give them.
fn with_out<R>(format: Format, shape: &[usize], work: impl FnOnce(ArrayMut<'_>) -> R) -> (R, Array) {
    let count: usize = shape.iter().product();
    let mut words = vec![0xdead_beefu32; count + 1];
    let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..count * format.item_size()];
    let result = work(ArrayMut::from_codes(format, bytes, shape).expect("aligned"));
    let codes = bytes
        .chunks(format.item_size())
        .map(|code| code.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte)))
        .collect();
    (result, Array { format, shape: shape.to_vec(), codes })
}

/// Runs `work` with views of the array in several layouts.
fn for_each_layout(array: &Array, mut work: impl FnMut(&ArrayView<'_>)) {
    let item = array.format.item_size();
    let rank = array.shape.len();
    let words: Vec<u64> = {
        let mut words = vec![0u64; array.bytes().len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..array.bytes().len()].copy_from_slice(&array.bytes());
        words
    };
    let bytes = &bytemuck::cast_slice::<u64, u8>(&words)[..array.bytes().len()];
    work(&ArrayView::from_codes(array.format, bytes, &array.shape).expect("whole"));

    // Axes stored in the other order, an odd byte in front, gaps between elements, the first axis backwards.
    let gap = item + 1;
    let mut strides = vec![0isize; rank];
    let mut step = gap as isize;
    for (axis, stride) in strides.iter_mut().enumerate() {
        *stride = step;
        step *= array.shape[axis].max(1) as isize;
    }
    let mut origin = 1isize;
    if array.shape[0] > 0 {
        origin += (array.shape[0] as isize - 1) * strides[0];
        strides[0] = -strides[0];
    }
    let mut store = vec![0x5a; step as usize + 8];
    for (at, code) in array.bytes().chunks(item).enumerate() {
        let (mut rest, mut place) = (at, origin);
        for axis in (0..rank).rev() {
            place += (rest % array.shape[axis]) as isize * strides[axis];
            rest /= array.shape[axis];
        }
        let mut code = code.to_vec();
        code.reverse();
        store[place as usize..place as usize + item].copy_from_slice(&code);
    }
    let origin = origin as usize;
    work(&ArrayView::strided(array.format, &store, origin, &array.shape, &strides, true).expect("inside"));
}

fn nonzero(array: &Array, at: usize) -> bool {
    array.value(at) != 0.0
}

fn prune_oracle(w: &Array, pattern: SparsityPattern, axis: usize) -> Array {
    let mut pruned = Array { codes: vec![0; w.codes.len()], ..w.clone() };
    w.for_each_group(axis, pattern.group(), |places| {
        let mut order = places.to_vec();
        // Stable: equal magnitudes stay in ascending order, and NaN comes before everything.
        order.sort_by(|&a, &b| {
            let key = |at: usize| if w.value(at).is_nan() { f32::INFINITY } else { w.value(at).abs() };
            let nan = |at: usize| w.value(at).is_nan();
            nan(b).cmp(&nan(a)).then(key(b).total_cmp(&key(a)))
        });
        for &at in &order[..pattern.keep()] {
            pruned.codes[at] = w.codes[at];
        }
    });
    pruned
}

/// Values, indices and the nonzeros of the first group that has too many.
fn compress_oracle(w: &Array, pattern: SparsityPattern, axis: usize) -> (Array, Vec<u8>, Option<usize>) {
    let shape = pattern.compressed_shape(&w.shape, axis).expect("whole groups");
    let count = shape.iter().product();
    let mut values = Array { format: w.format, shape, codes: vec![0; count] };
    let mut indices = vec![0; count];
    let mut slots = Vec::new();
    values.for_each_group(axis, pattern.keep(), |places| slots.push(places.to_vec()));
    let (mut lane, mut first_bad) = (0, None);
    w.for_each_group(axis, pattern.group(), |places| {
        let used: Vec<usize> = (0..pattern.group()).filter(|&p| nonzero(w, places[p])).collect();
        if used.len() > pattern.keep() {
            first_bad = first_bad.or(Some(used.len()));
        } else {
            let free = (0..pattern.group()).filter(|p| !used.contains(p)).take(pattern.keep() - used.len());
            let mut chosen: Vec<usize> = used.iter().copied().chain(free).collect();
            chosen.sort_unstable();
            for (&slot, &position) in slots[lane].iter().zip(&chosen) {
                indices[slot] = position as u8;
                if used.contains(&position) {
                    values.codes[slot] = w.codes[places[position]];
                }
            }
        }
        lane += 1;
    });
    (values, indices, first_bad)
}

const FORMATS: [Format; 9] = [
    Format::F32,
    Format::Tf32,
    Format::F16,
    Format::Bf16,
    Format::F8E4M3Fn,
    Format::F8E5M2,
    Format::F8E4M3,
    Format::F8E3M4,
    Format::F4E2M1Fn,
];

/// Codes of every kind, with many equal magnitudes, zeros of both signs, infinities and NaN of several payloads.
fn array(format: Format, shape: Vec<usize>, seed: u32, zeros: u32) -> Array {
    let spec = format.spec();
    let shift = if format == Format::Tf32 { 13 } else { 0 };
    let sign = 1u32 << (spec.bits - 1);
    let largest = sign - 1;
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let count = shape.iter().product();
    let codes = (0..count).map(|_| {
        let (kind, magnitude) = (next() % 100, next() >> 8);
        let magnitude = match kind {
            _ if kind < zeros => 0,
            _ if kind % 8 == 0 => largest - magnitude % 3,
            _ if kind % 8 < 4 => spec.max_code / 2 + magnitude % 4,
            _ => magnitude & largest,
        };
        (next() & sign | magnitude) << shift
    });
    Array { format, shape, codes: codes.collect() }
}

fn check(w: &Array, pattern: SparsityPattern, axis: usize) {
    let note = format!("{} {:?} {pattern} axis {axis}", w.format, w.shape);
    let expected = prune_oracle(w, pattern, axis);
    for_each_layout(w, |view| {
        let (result, pruned) = with_out(w.format, &w.shape, |out| prune(view, pattern, axis, out));
        result.expect("valid call");
        assert!(pruned == expected, "prune {note}");
    });
    for dense in [w, &expected] {
        let (values, indices, bad) = compress_oracle(dense, pattern, axis);
        for_each_layout(dense, |view| {
            let mut got = vec![0xff; indices.len()];
            let (result, got_values) =
                with_out(w.format, &values.shape, |out| compress(view, pattern, axis, out, &mut got));
            match (&result, bad) {
                (Ok(()), None) => assert!((&got_values, &got) == (&values, &indices), "compress {note}"),
                (Err(error), Some(count)) => {
                    assert!(error.to_string().contains(&format!("holds {count} nonzeros")), "{note}: {error}");
                }
                _ => panic!("compress {note}: {result:?}, oracle {bad:?}"),
            }
        });
        if bad.is_none() {
            check_back(dense, &values, &indices, pattern, axis, &note);
        }
    }
}

fn check_back(dense: &Array, values: &Array, indices: &[u8], pattern: SparsityPattern, axis: usize, note: &str) {
    // What is not a nonzero comes back as +0.
    let mut expected = dense.clone();
    for at in 0..expected.codes.len() {
        if !nonzero(dense, at) {
            expected.codes[at] = 0;
        }
    }
    for_each_layout(values, |view| {
        let sparse = SparseView::new(view.clone(), indices, pattern, axis).expect("sound indices");
        assert_eq!(sparse.dense_shape(), dense.shape, "{note}");
        let (result, got) = with_out(dense.format, &dense.shape, |out| sparse.to_dense(out));
        result.expect("valid call");
        assert!(got == expected, "to_dense {note}");

        let tags_shape = pattern.tags_shape(&values.shape, axis).expect("whole groups");
        let mut tags = vec![0xffff; tags_shape.iter().product()];
        sparse.to_tags(&mut tags).expect("one word a tag");
        let tagged = Array { format: Format::F32, shape: tags_shape, codes: tags.iter().map(|&t| t.into()).collect() };
        let mut lines = Vec::new();
        values.for_each_group(axis, values.shape[axis].max(1), |places| lines.push(places.to_vec()));
        let mut line = 0;
        tagged.for_each_group(axis, tagged.shape[axis].max(1), |words| {
            for (slot, &place) in lines[line].iter().enumerate() {
                assert_eq!(tags[words[slot / 4]] >> (4 * (slot % 4)) & 15, indices[place].into(), "tags {note}");
            }
            let rest = lines[line].len() % 4;
            if let (Some(&last), true) = (words.last(), rest > 0) {
                assert_eq!(tags[last] >> (4 * rest), 0, "padding {note}");
            }
            line += 1;
        });

        let mut back = vec![0xff; indices.len()];
        let (result, got) =
            with_out(values.format, &values.shape, |out| from_tags(view, &tags, pattern, axis, out, &mut back));
        result.expect("sound tags");
        assert!((&got, &back[..]) == (values, indices), "from_tags {note}");
    });
}

#[test]
fn test_every_pattern_format_and_axis() {
    for pattern in SparsityPattern::ALL {
        for (index, format) in FORMATS.into_iter().enumerate() {
            let length = 3 * pattern.group();
            for (axis, shape) in
                [(0, vec![length]), (0, vec![length, 7]), (1, vec![5, length]), (1, vec![2, length, 3])]
            {
                check(&array(format, shape, 7 + index as u32, 20), pattern, axis);
            }
        }
    }
}

#[test]
fn test_arrays_of_several_pieces() {
    let pattern: SparsityPattern = "4:16".parse().expect("a pattern");
    for (axis, shape) in [(0, vec![32, 4100]), (1, vec![700, 80]), (0, vec![16, 3, 1500]), (1, vec![3, 32, 2049])] {
        let w = array(Format::Bf16, shape, 3, 30);
        for threads in [1, 2, 3] {
            set_num_threads(threads).expect("some threads");
            check(&w, pattern, axis);
        }
    }
}

#[test]
fn test_empty_arrays() {
    for shape in [vec![0, 5], vec![16, 0], vec![0, 0], vec![2, 0, 3]] {
        let axis = shape.len() - 2;
        let w = Array { format: Format::Bf16, shape, codes: Vec::new() };
        check(&w, "4:16".parse().expect("a pattern"), axis);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn test_any_array(
        pattern in prop::sample::select(SparsityPattern::ALL.to_vec()),
        format in prop::sample::select(FORMATS.to_vec()),
        outer in prop::collection::vec(0usize..4, 0..3),
        groups in 0usize..6,
        inner in prop::collection::vec(0usize..6, 0..3),
        seed: u32,
        zeros in 0u32..100,
    ) {
        let axis = outer.len();
        let shape = [outer, vec![groups * pattern.group()], inner].concat();
        check(&array(format, shape, seed, zeros), pattern, axis);
    }

    #[test]
    fn test_tags_in_any_order(
        pattern in prop::sample::select(SparsityPattern::ALL.to_vec()),
        groups in 1usize..5,
        columns in 1usize..4,
        seed: u32,
    ) {
        // Slots shuffled group by group, unused ones naming any position.
        let dense = array(Format::F16, vec![groups * pattern.group(), columns], seed, 60);
        let dense = prune_oracle(&dense, pattern, 0);
        let (values, indices, _) = compress_oracle(&dense, pattern, 0);
        let (mut stored, mut positions) = (values.clone(), indices.clone());
        let mut state = seed | 1;
        values.for_each_group(0, pattern.keep(), |places| {
            for &place in places {
                if !nonzero(&stored, place) {
                    positions[place] = (state >> 7) as u8 % pattern.group() as u8;
                }
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let other = places[state as usize / 65536 % places.len()];
                stored.codes.swap(place, other);
                positions.swap(place, other);
            }
        });
        let mut tags = vec![0u16; (groups * pattern.keep()).div_ceil(4) * columns];
        for (place, &position) in positions.iter().enumerate() {
            let slot = place / columns;
            tags[slot / 4 * columns + place % columns] |= u16::from(position) << (4 * (slot % 4));
        }
        for_each_layout(&stored, |view| {
            let mut got = vec![0xff; indices.len()];
            let (result, sorted) =
                with_out(values.format, &values.shape, |out| from_tags(view, &tags, pattern, 0, out, &mut got));
            result.expect("sound tags");
            let bytes = sorted.bytes();
            let words: Vec<u16> = bytes.chunks(2).map(|code| u16::from_le_bytes([code[0], code[1]])).collect();
            let sorted_view =
                ArrayView::from_codes(Format::F16, bytemuck::cast_slice(&words), &values.shape).expect("whole");
            // The view's own check: ascending, distinct, below N.
            let sparse = SparseView::new(sorted_view, &got, pattern, 0).expect("sound indices");
            let (result, back) = with_out(dense.format, &dense.shape, |out| sparse.to_dense(out));
            result.expect("valid call");
            let mut expected = dense.clone();
            for at in 0..expected.codes.len() {
                if !nonzero(&dense, at) {
                    expected.codes[at] = 0;
                }
            }
            assert!(back == expected);
        });
    }
}

fn message(result: Result<(), Error>) -> String {
    result.expect_err("a refused call").to_string()
}

#[test]
fn test_the_first_offending_group_is_named() {
    let mut w = vec![0.0f32; 128 * 7];
    for (group, column) in [(7, 1), (3, 5), (4, 2), (3, 6)] {
        for place in 0..5 {
            w[(group * 16 + 3 * place) * 7 + column] = 1.0;
        }
    }
    let (mut values, mut indices) = (vec![0.0f32; 32 * 7], vec![0; 32 * 7]);
    let view = ArrayView::new(&w, &[128, 7]).expect("whole");
    let out = ArrayMut::new(&mut values, &[32, 7]).expect("whole");
    assert_eq!(
        message(compress(&view, "4:16".parse().expect("a pattern"), 0, out, &mut indices)),
        "w is not 4:16 sparse: group [3, 5] along axis 0 holds 5 nonzeros; at most 4 are allowed, and prune() leaves no \
         more"
    );
}

#[test]
fn test_wrong_tags_are_named() {
    let pattern: SparsityPattern = "4:8".parse().expect("a pattern");
    let values = [0.0f32, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let view = ArrayView::new(&values, &[8]).expect("whole");
    let refuse = |tags: [u16; 2]| {
        let (mut sorted, mut indices) = ([0.0f32; 8], [0; 8]);
        message(from_tags(&view, &tags, pattern, 0, ArrayMut::new(&mut sorted, &[8]).expect("whole"), &mut indices))
    };
    assert_eq!(
        refuse([0x3210, 0x3810]),
        "tags is position 8 in group [1] along axis 0; positions of pattern 4:8 are below 8"
    );
    assert_eq!(
        refuse([0x0220, 0x9999]),
        "tags is position 2 twice in group [0] along axis 0; nonzero values need a position each"
    );
}

#[test]
fn test_wrong_indices_are_named() {
    let values = [1.0f32; 8];
    let refuse = |indices: [u8; 8], pattern: &str| {
        let view = ArrayView::new(&values, &[4, 2]).expect("whole");
        message(SparseView::new(view, &indices, pattern.parse().expect("a pattern"), 0).map(|_| ()))
    };
    assert_eq!(
        refuse([0, 0, 1, 1, 0, 2, 1, 2], "2:4"),
        "indices is [2, 2] in group [1, 1] along axis 0; they must ascend and be below 4 with pattern 2:4"
    );
    assert_eq!(
        refuse([0, 1, 2, 3, 4, 5, 6, 12], "4:12"),
        "indices is [1, 3, 5, 12] in group [0, 1] along axis 0; they must ascend and be below 12 with pattern 4:12"
    );
}

#[test]
fn test_wrong_arguments_are_named() {
    let (w, mut out, mut indices) = ([0.0f32; 60], [0.0f32; 60], [0u8; 15]);
    let pattern: SparsityPattern = "4:16".parse().expect("a pattern");
    let view = ArrayView::new(&w, &[20, 3]).expect("whole");
    let mut pruned =
        |pattern, axis| message(prune(&view, pattern, axis, ArrayMut::new(&mut out, &[20, 3]).expect("whole")));
    assert_eq!(
        pruned(pattern, 0),
        "w has shape [20, 3]; with pattern 4:16 its axis 0 of length 20 must be a multiple of 16 long"
    );
    assert_eq!(pruned(pattern, 2), "axis is 2; w has 2 axes");
    let pattern: SparsityPattern = "1:4".parse().expect("a pattern");
    let mut compressed = |values: &[usize], indices: &mut [u8]| {
        let count = values.iter().product();
        message(compress(&view, pattern, 0, ArrayMut::new(&mut out[..count], values).expect("whole"), indices))
    };
    assert_eq!(compressed(&[4, 3], &mut indices), "values has shape [4, 3]; it must have shape [5, 3]");
    assert_eq!(compressed(&[5, 3], &mut indices[..14]), "indices is 14 bytes; one a value is needed: 15");
    let scales = ArrayView::from_codes(Format::F8E8M0Fnu, &[0; 16], &[16]).expect("whole");
    let mut out = [0; 16];
    let out = ArrayMut::from_codes(Format::F8E8M0Fnu, &mut out, &[16]).expect("whole");
    assert!(message(prune(&scales, pattern, 0, out)).starts_with("w has dtype float8_e8m0fnu; allowed: float32, "));
    let view = ArrayView::new(&w[..18], &[6, 3]).expect("whole");
    assert_eq!(
        message(SparseView::new(view, &[0; 18], "4:16".parse().expect("a pattern"), 0).map(|_| ())),
        "values has shape [6, 3]; with pattern 4:16 its axis 0 of length 6 must be a multiple of 4 long"
    );
}

#[test]
fn test_shapes_that_fit_in_no_memory_are_refused() {
    let most = isize::MAX as usize / 16 * 16;
    for pattern in SparsityPattern::ALL {
        for compressed in [vec![most, 0], vec![0, most], vec![most / 8, 3]] {
            assert!(pattern.dense_shape(&compressed, 0).is_err(), "{pattern} {compressed:?}");
        }
        assert!(pattern.compressed_shape(&[0, most], 0).is_err());
        let values = ArrayView::from_codes(Format::F8E5M2, &[], &[most, 0]).expect("no elements");
        assert!(SparseView::new(values, &[], pattern, 0).is_err());
        let values = ArrayView::from_codes(Format::F8E5M2, &[], &[0, most / 64]).expect("no elements");
        assert!(SparseView::new(values, &[], pattern, 0).is_ok());
    }
}

#[test]
fn test_pattern_names() {
    let names = ["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"];
    assert_eq!(SparsityPattern::ALL.map(|pattern| pattern.to_string()), names);
    assert_eq!(SparsityPattern::ALL.map(SparsityPattern::index_bits), [4, 4, 3, 3, 2, 2, 1]);
    for pattern in SparsityPattern::ALL {
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
    for name in ["4:15", "4/16", "", "4:16 ", "16:4"] {
        assert_eq!(
            name.parse::<SparsityPattern>().expect_err("no pattern").to_string(),
            format!("pattern is {name:?}; allowed: 4:16, 4:12, 4:8, 2:8, 2:4, 1:4, 1:2")
        );
    }
}
