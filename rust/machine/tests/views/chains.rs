//! Chains of random transforms against arrays of byte positions that are moved about one by one.

use proptest::prelude::*;
use trn3_machine::dtype::DType;
use trn3_machine::storage::Buffer;
use trn3_machine::view::{Index, View};

use super::{positions, tensor_at};

/// An array of where each element starts, in bytes.
#[derive(Clone, Debug, PartialEq)]
struct Oracle {
    shape: Vec<usize>,
    starts: Vec<i64>,
}

impl Oracle {
    fn of(view: &View) -> Self {
        let size = view.dtype.size() as i64;
        Self { shape: view.shape.to_vec(), starts: positions(view).iter().map(|position| position * size).collect() }
    }

    /// The element at each place of a new shape, by the old coordinates `source` gives for the new ones.
    fn gather(&self, shape: Vec<usize>, source: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count: usize = shape.iter().product();
        let starts = (0..count).map(|place| {
            let mut rest = place;
            let mut at = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                (rest, at[axis]) = (rest / shape[axis], rest % shape[axis]);
            }
            let old = source(&at);
            let flat = old.iter().zip(&self.shape).fold(0, |flat, (&at, &length)| flat * length + at);
            self.starts[flat]
        });
        Self { starts: starts.collect(), shape }
    }

    fn reshaped(&self, shape: Vec<usize>) -> Self {
        Self { shape, starts: self.starts.clone() }
    }

    fn permuted(&self, order: &[usize]) -> Self {
        let shape = order.iter().map(|&axis| self.shape[axis]).collect();
        self.gather(shape, |at| {
            let mut old = vec![0; at.len()];
            for (&axis, &at) in order.iter().zip(at) {
                old[axis] = at;
            }
            old
        })
    }

    /// Whether strides can describe it: the distance along each axis is the same everywhere.
    fn is_strided(&self) -> bool {
        let mut inner = 1;
        for axis in (0..self.shape.len()).rev() {
            let length = self.shape[axis];
            let mut steps = (0..self.starts.len())
                .filter(|place| place / inner % length + 1 < length)
                .map(|place| self.starts[place + inner] - self.starts[place]);
            let first = steps.next();
            if !steps.all(|step| Some(step) == first) {
                return false;
            }
            inner *= length;
        }
        true
    }
}

/// Numbers a step draws its arguments from.
type Draws = [usize; 6];

/// Lengths whose product is `count`.
fn factors(mut count: usize, draws: &Draws) -> Vec<usize> {
    let mut lengths = Vec::new();
    for draw in &draws[..3] {
        let divisors: Vec<usize> = (1..=count).filter(|&divisor| count.is_multiple_of(divisor)).collect();
        let length = divisors[draw % divisors.len()];
        lengths.push(length);
        count /= length;
    }
    lengths.push(count);
    lengths
}

fn signed(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|&length| length as i64).collect()
}

fn shuffled(rank: usize, draws: &Draws) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    for (at, draw) in draws.iter().enumerate().take(rank) {
        order.swap(at, at + draw % (rank - at));
    }
    order
}

/// One random step on both: what the view says, what the array says, and whether the step is to be accepted.
fn step(
    view: &View,
    oracle: &Oracle,
    kind: usize,
    draws: &Draws,
) -> Option<(trn3_machine::Result<View>, Oracle, bool)> {
    let rank = oracle.shape.len();
    let on_chip = view.is_on_chip();
    let axis = draws[0] % rank;
    let length = oracle.shape[axis];
    Some(match kind {
        0 => indexed(view, oracle, draws),
        1 => {
            let order = shuffled(rank, draws);
            (view.permute(&order), oracle.permuted(&order), !on_chip || order[0] == 0)
        }
        2 => {
            let at = draws[0] % (rank + 1);
            let mut shape = oracle.shape.clone();
            shape.insert(at, 1);
            (view.expand_dim(at), oracle.reshaped(shape), !on_chip || at > 0)
        }
        3 => {
            let count = 1 + draws[1] % 3;
            let mut shape = oracle.shape.clone();
            shape[axis] = count;
            let valid = length == 1 && (!on_chip || axis > 0);
            let repeated = if length == 1 {
                let one = |at: &[usize]| at.iter().enumerate().map(|(a, &at)| if a == axis { 0 } else { at }).collect();
                oracle.gather(shape, one)
            } else {
                oracle.clone()
            };
            (view.broadcast(axis, count), repeated, valid)
        }
        4 => {
            let mut shape = oracle.shape.clone();
            shape.remove(axis);
            let valid = length == 1 && if on_chip { axis > 0 && rank > 2 } else { rank > 1 };
            (view.squeeze_dim(axis), oracle.reshaped(shape), valid)
        }
        5 => {
            let count: usize = oracle.shape.iter().product();
            let mut shape = factors(count, draws);
            if on_chip && draws[4] > 2500 {
                shape = factors(count / oracle.shape[0], draws);
                shape.insert(0, oracle.shape[0]);
            }
            let other = oracle.reshaped(shape.clone());
            let valid = other.is_strided() && (!on_chip || shape[0] == oracle.shape[0]);
            let mut wanted = signed(&shape);
            if draws[5] > 5000 {
                let at = draws[4] % wanted.len();
                wanted[at] = -1;
            }
            (view.reshape(&wanted), other, valid)
        }
        6 => {
            let last = axis + draws[1] % (rank - axis);
            let mut shape = oracle.shape.clone();
            let merged = shape.drain(axis..=last).product();
            shape.insert(axis, merged);
            let other = oracle.reshaped(shape.clone());
            let kept = !on_chip || axis > 0 || last == 0;
            let valid = kept && other.is_strided() && (!on_chip || shape.len() > 1);
            (view.flatten_dims(axis, last), other, valid)
        }
        7 => {
            let parts = factors(length, draws);
            let mut shape = oracle.shape.clone();
            shape.splice(axis..=axis, parts.iter().copied());
            (view.reshape_dim(axis, &signed(&parts)), oracle.reshaped(shape), !on_chip || axis > 0)
        }
        8 => {
            let names = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"]];
            if rank > names.len() {
                return None;
            }
            let halves: Vec<usize> = oracle.shape.iter().map(|length| if length % 2 == 0 { 2 } else { 1 }).collect();
            let whole = usize::from(on_chip);
            let mut source: Vec<&[&str]> = names[..rank].iter().map(|pair| &pair[..]).collect();
            let mut split: Vec<usize> =
                oracle.shape.iter().zip(&halves).flat_map(|(length, half)| [*half, length / half]).collect();
            let mut flat: Vec<&str> = names[..rank].iter().flatten().copied().collect();
            if on_chip {
                source[0] = &names[0][1..];
                split.splice(0..2, [oracle.shape[0]]);
                flat.remove(0);
            }
            let mut order: Vec<usize> = (0..flat.len()).collect();
            for at in whole..flat.len() {
                order.swap(at, at + draws[at % 6] % (flat.len() - at));
            }
            let sizes: Vec<(&str, usize)> =
                names.iter().zip(&halves).skip(whole).map(|(pair, &half)| (pair[0], half)).collect();
            let target: Vec<[&str; 1]> = order.iter().map(|&at| [flat[at]]).collect();
            let target: Vec<&[&str]> = target.iter().map(|group| &group[..]).collect();
            let moved = oracle.reshaped(split).permuted(&order);
            (view.rearrange(&source, &target, &sizes), moved, true)
        }
        _ => return None,
    })
}

/// Keys in range: whole axes, ranges and integers.
fn indexed(view: &View, oracle: &Oracle, draws: &Draws) -> (trn3_machine::Result<View>, Oracle, bool) {
    let rank = oracle.shape.len();
    let mut keys = Vec::new();
    let mut taken: Vec<(Vec<usize>, bool)> = Vec::new();
    for (axis, &length) in oracle.shape.iter().enumerate() {
        let draw = draws[axis % 6] / (1 + axis / 6);
        let start = draw / 3 % length;
        let stop = start + 1 + draw / 7 % (length - start);
        let step = 1 + draw / 11 % 3;
        let back = if draw.is_multiple_of(2) { 0 } else { length as i64 };
        let (key, places, dropped) = match draw % 3 {
            0 => (Index::All, (0..length).collect(), false),
            1 => (Index::At(start as i64 - back), vec![start], true),
            _ => {
                let start_key = Some(start as i64 - back);
                let stop_key = (stop < length).then(|| stop as i64 - back);
                let key = Index::Range { start: start_key, stop: stop_key, step: Some(step as i64) };
                (key, (start..stop).step_by(step).collect(), false)
            }
        };
        keys.push(key);
        taken.push((places, dropped));
    }
    // Trailing whole axes may go unsaid, leading ones may be an ellipsis.
    while draws[5].is_multiple_of(2) && matches!(keys.last(), Some(Index::All)) {
        keys.pop();
    }
    let leading = keys.iter().take_while(|key| matches!(key, Index::All)).count();
    if keys.len() == rank && draws[4].is_multiple_of(2) {
        keys.splice(..leading, [Index::Ellipsis]);
    }
    let shape: Vec<usize> = taken.iter().map(|(places, _)| places.len()).collect();
    let whole = oracle.gather(shape.clone(), |at| at.iter().zip(&taken).map(|(&at, (places, _))| places[at]).collect());
    let mut kept: Vec<usize> = Vec::new();
    for (axis, (places, dropped)) in taken.iter().enumerate() {
        if !dropped || (axis == 0 && view.is_on_chip()) {
            kept.push(places.len());
        }
    }
    while kept.len() < if view.is_on_chip() { 2 } else { 1 } {
        kept.push(1);
    }
    (view.index(&keys), whole.reshaped(kept), true)
}

/// Every byte of the view, element by element.
fn bytes(view: &View) -> Vec<i64> {
    Oracle::of(view).starts.iter().flat_map(|&start| start..start + view.dtype.size() as i64).collect()
}

fn check_queries(view: &View) -> Result<(), TestCaseError> {
    let (size, row) = (view.dtype.size() as i64, view.storage.free_bytes() as i64);
    let starts = Oracle::of(view).starts;
    let (least, most) =
        (|values: &[i64]| *values.iter().min().expect("some"), |values: &[i64]| *values.iter().max().expect("some"));
    if view.is_on_chip() {
        let rows: Vec<i64> = starts.iter().map(|start| start / row + 32).collect();
        let columns: Vec<i64> = starts.iter().map(|start| start % row + 64).collect();
        prop_assert_eq!(view.partition_range(), least(&rows) as usize..most(&rows) as usize + 1);
        prop_assert_eq!(view.free_byte_range(), least(&columns) as usize..(most(&columns) + size) as usize);
    } else {
        prop_assert_eq!(view.free_byte_range(), least(&starts) as usize..(most(&starts) + size) as usize);
        let consecutive = starts.windows(2).all(|pair| pair[1] - pair[0] == size);
        prop_assert_eq!(view.is_contiguous(), consecutive);
    }
    let patterned = view.rank() <= 5 && (view.shape[0] == 1 || view.strides[0] * size == row);
    if patterned || !view.is_on_chip() {
        let again = view.ap(&view.get_pattern(), None, None, None, 0, None).expect("the view's own pattern");
        prop_assert_eq!(Oracle::of(&again), Oracle::of(view));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn test_chains_of_transforms_move_elements_as_arrays_do(
        on_chip in any::<bool>(),
        shape in prop::collection::vec(1usize..7, 2..5),
        steps in prop::collection::vec((0usize..9, prop::array::uniform6(0usize..10_000)), 1..7),
    ) {
        let buffer = if on_chip { Buffer::Sbuf } else { Buffer::PrivateHbm };
        let mut view = tensor_at(buffer, &shape, DType::Int16, (32, 64));
        let mut oracle = Oracle::of(&view);
        for (kind, draws) in steps {
            if let Some((result, moved, valid)) = step(&view, &oracle, kind, &draws) {
                prop_assert_eq!(result.is_ok(), valid, "step {} with {:?} of {}: {:?}", kind, draws, view, result);
                if let Ok(next) = result {
                    view = next;
                    oracle = moved;
                    prop_assert_eq!(&Oracle::of(&view), &oracle, "step {} with {:?} to {}", kind, draws, view);
                    check_queries(&view)?;
                }
            }
            if oracle.starts.len() > 2000 {
                break;
            }
        }
    }

    #[test]
    fn test_reinterpret_keeps_every_byte(
        shape in prop::collection::vec(1usize..9, 2..4),
        from in prop::sample::select(DType::ALL.to_vec()),
        to in prop::sample::select(DType::ALL.to_vec()),
        draws in prop::array::uniform6(0usize..10_000),
        on_chip in any::<bool>(),
    ) {
        let buffer = if on_chip { Buffer::Sbuf } else { Buffer::SharedHbm };
        let whole = tensor_at(buffer, &shape, from, (0, 0));
        let view = indexed(&whole, &Oracle::of(&whole), &draws).0.expect("keys in range");
        match view.reinterpret(to) {
            Ok(other) => {
                prop_assert_eq!(bytes(&other), bytes(&view));
                prop_assert_eq!(&other.shape[..other.rank() - 1], &view.shape[..view.rank() - 1]);
            }
            // A type no larger than the old one divides whatever is compact.
            Err(_) => prop_assert!(to.size() > from.size() || view.strides.last() != Some(&1)),
        }
    }
}
