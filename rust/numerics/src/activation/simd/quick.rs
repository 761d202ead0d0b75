//! Functions that levels with tables compute in float32, but for what that leaves in doubt.
//!
//! What is in doubt is computed anew by [`super::activate`], many arguments of many vectors together: a vector of its own
//! for each would cost as much as ten that are not in doubt.

use super::circular::{Arctan, Sin};
use super::exponential::Tanh;
use super::logarithm::Log;
use super::quick_function::Quick;
use super::tail::Gelu;
use crate::activation::ActivationFunction;
use crate::activation::doubtful::{Doubtful, GROUP};
use crate::simd::{LANES, READ_AHEAD, Tables, WRITE_AHEAD, prefetch};

type Group = [[f32; LANES]; GROUP];

/// See [`crate::activation::doubtful::activate`].
#[inline(always)]
pub(crate) fn activate<L: Tables>(
    l: L,
    function: ActivationFunction,
    source: &[f32],
    values: &mut [f32],
    doubtful: &mut Doubtful,
) {
    match function {
        ActivationFunction::Tanh => each::<L, Tanh>(l, source, values, doubtful),
        ActivationFunction::Log => each::<L, Log>(l, source, values, doubtful),
        ActivationFunction::Sin => each::<L, Sin>(l, source, values, doubtful),
        ActivationFunction::Gelu => each::<L, Gelu>(l, source, values, doubtful),
        _ => each::<L, Arctan>(l, source, values, doubtful),
    }
}

/// Whatever is not done yet, as long as what is in doubt has a place.
#[inline(always)]
fn each<L: Tables, Q: Quick<L>>(l: L, source: &[f32], values: &mut [f32], doubtful: &mut Doubtful) {
    let start = doubtful.done;
    let sources: &[Group] = source[start..].as_chunks().0.as_chunks().0;
    let groups: &mut [Group] = values[start..].as_chunks_mut().0.as_chunks_mut().0;
    let count = sources.len().min(groups.len());
    let (sources, groups) = (&sources[..count], &mut groups[..count]);
    if let Some(first) = sources.first() {
        let mut x = l.load_f(&first[0]);
        let mut started = Q::start(l, x);
        for place in 0..count {
            let (from, to) = (&sources[place], &mut groups[place]);
            let following = sources.get(place + 1).unwrap_or(from);
            let mut taken = [x; GROUP];
            let mut in_doubt = [l.is_nan(x); GROUP];
            let mut any = in_doubt[0];
            for vector in 0..GROUP {
                let next = l.load_f(if vector + 1 < GROUP { &from[vector + 1] } else { &following[0] });
                let next_started = Q::start(l, next);
                let (value, is_in_doubt) = Q::finish(l, x, started);
                (taken[vector], in_doubt[vector]) = (x, is_in_doubt);
                any = if vector == 0 { is_in_doubt } else { l.either(any, is_in_doubt) };
                prefetch(&from[vector], READ_AHEAD);
                prefetch(&to[vector], WRITE_AHEAD);
                l.store_f(value, &mut to[vector]);
                (x, started) = (next, next_started);
            }
            if l.any(any) {
                let first = start + place * LANES * GROUP;
                for vector in 0..GROUP {
                    doubtful.add(l, in_doubt[vector], taken[vector], first + vector * LANES);
                }
                if doubtful.is_full() {
                    doubtful.done = first + LANES * GROUP;
                    return;
                }
            }
        }
    }
    let done = start + count * LANES * GROUP;
    for (vector, to) in values[done..].chunks_mut(LANES).enumerate() {
        let first = done + vector * LANES;
        let mut values = [0.0; LANES];
        values[..to.len()].copy_from_slice(&source[first..first + to.len()]);
        let x = l.load_f(&values);
        let (value, in_doubt) = Q::finish(l, x, Q::start(l, x));
        l.store_f(value, &mut values);
        to.copy_from_slice(&values[..to.len()]);
        if l.any(in_doubt) {
            doubtful.add(l, in_doubt, x, first);
        }
    }
    doubtful.done = values.len();
}
