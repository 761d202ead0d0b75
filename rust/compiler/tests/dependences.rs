//! The order that dependences demand is that of the bytes, the author and the fences, and no more.

mod support;

use proptest::prelude::*;
use smallvec::smallvec;
use support::{Plan, bank, compute, matmul, plans, tile, trace};
use trn3_compiler::dependences::{Dependence, DependenceKind, Dependences};
use trn3_machine::engine::Engine;
use trn3_machine::timing::region::Region;
use trn3_machine::trace::{Home, Trace, Use};

/// The bytes of each operand; those of tensors without a place are of memories of their own.
fn regions(trace: &Trace, step: usize, placed: bool) -> Vec<(Option<u32>, Region, bool)> {
    let operands = trace.steps[step].operands.iter();
    let bytes = operands.map(|operand| {
        let home = trace.tensors[operand.tensor as usize].home;
        let alone = (matches!(home, Home::Open(_)) && !placed).then_some(operand.tensor);
        (alone, trace.region(operand), operand.usage == Use::Write)
    });
    bytes.collect()
}

fn conflict(trace: &Trace, one: usize, other: usize, placed: bool) -> bool {
    let overlap =
        |one: &std::ops::Range<u64>, other: &std::ops::Range<u64>| one.start < other.end && other.start < one.end;
    let (ours, theirs) = (regions(trace, one, placed), regions(trace, other, placed));
    let meets = |one: &Region, other: &Region| {
        let meet = |rect: &trn3_machine::timing::region::Rect| {
            other.rects.iter().any(|rival| overlap(&rect.rows, &rival.rows) && overlap(&rect.columns, &rival.columns))
        };
        one.space == other.space && one.rects.iter().any(meet)
    };
    ours.iter().any(|(alone, one, writes)| {
        theirs.iter().any(|(other_alone, other, also)| (*writes || *also) && alone == other_alone && meets(one, other))
    })
}

/// Which steps come before which, by edges and by what edges imply.
fn closure(steps: usize, before: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let mut reached = vec![vec![false; steps]; steps];
    for later in 0..steps {
        for earlier in (0..later).rev() {
            if before(earlier, later) {
                reached[later][earlier] = true;
                for further in 0..earlier {
                    reached[later][further] |= reached[earlier][further];
                }
            }
        }
    }
    reached
}

fn check(plans: &[Plan], draws: bool) -> Result<(), TestCaseError> {
    let mut trace = trace(plans);
    trace.draws = draws;
    for placed in [false, true] {
        let found = if placed { Dependences::placed(&trace) } else { Dependences::of(&trace) };
        let steps = trace.steps.len();
        let demanded = closure(steps, |one, other| {
            let (first, second) = (&trace.steps[one], &trace.steps[other]);
            conflict(&trace, one, other, placed)
                || second.after.contains(&(one as u32))
                || (first.marks.is_ordered && second.marks.is_ordered)
                || (first.marks.draws && second.marks.draws)
                || draws
                || first.marks.is_fence
                || second.marks.is_fence
        });
        let kept = closure(steps, |one, other| {
            found.before(other).iter().any(|edge| edge.step as usize == one)
                || found.segment(one) < found.segment(other)
        });
        prop_assert_eq!(demanded, kept);
        let followers = found.followers();
        for step in 0..steps {
            let mut edges: Vec<Dependence> = found.before(step).to_vec();
            edges.sort_unstable_by_key(|edge| edge.step);
            prop_assert!(edges.windows(2).all(|pair| pair[0].step < pair[1].step), "an edge is twice there");
            for edge in edges {
                let back = Dependence { step: step as u32, kind: edge.kind };
                prop_assert!(followers.after(edge.step as usize).contains(&back));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn test_steps_keep_the_order_that_bytes_and_authors_demand(plans in plans(1..40), draws in prop::bool::weighted(0.1)) {
        check(&plans, draws)?;
    }
}

#[test]
fn test_edges_say_why() {
    let mut trace = support::empty();
    trace.steps.push(support::load(0, tile(4, 0, Use::Write)));
    let inputs = || vec![tile(4, 0, Use::Stationary), tile(4, 0, Use::Read), bank(0, Use::Write)];
    trace.steps.push(matmul(100, false, inputs()));
    trace.steps.push(matmul(100, true, [inputs(), vec![bank(0, Use::Read)]].concat()));
    trace.steps.push(compute(Engine::Vector, 100, vec![bank(0, Use::Read), tile(5, 0, Use::Write)]));
    trace.steps.push(compute(Engine::GpSimd, 100, vec![tile(4, 0, Use::Write)]));
    trace.steps.push(compute(Engine::GpSimd, 100, vec![tile(4, 1, Use::Write)]));
    trace.steps[5].after = smallvec![3];
    let found = Dependences::of(&trace);
    let edges = |step: usize| {
        let mut edges: Vec<_> = found.before(step).iter().map(|edge| (edge.step, edge.kind)).collect();
        edges.sort_unstable();
        edges
    };
    assert_eq!(edges(0), []);
    assert_eq!(edges(1), [(0, DependenceKind::True)]);
    assert_eq!(edges(2), [(0, DependenceKind::True), (1, DependenceKind::Accumulate)]);
    assert_eq!(edges(3), [(2, DependenceKind::True)]);
    assert_eq!(edges(4), [(0, DependenceKind::Output), (1, DependenceKind::Anti), (2, DependenceKind::Anti)]);
    assert_eq!(edges(5), [(3, DependenceKind::Order), (4, DependenceKind::Output)]);
}

#[test]
fn test_a_tile_that_many_read_in_parts_keeps_each_reader_once() {
    let mut trace = support::empty();
    trace.steps.push(compute(Engine::GpSimd, 100, vec![tile(4, 0, Use::Write)]));
    for number in 0..50 {
        trace.steps.push(compute(Engine::Vector, 100, vec![tile(4, number % 4, Use::Read)]));
    }
    trace.steps.push(compute(Engine::GpSimd, 100, vec![tile(4, 0, Use::Write)]));
    trace.steps.push(compute(Engine::GpSimd, 100, vec![tile(4, 0, Use::Write)]));
    let found = Dependences::of(&trace);
    assert_eq!(found.before(51).len(), 51);
    assert_eq!(found.before(52), [Dependence { step: 51, kind: DependenceKind::Output }]);
}
