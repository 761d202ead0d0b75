//! Loops as the older compilers see them: those that are written out are none.

use trn3_machine::trace::{LoopKind, NO_SCOPE, Scopes};

/// The iterations of loops that are not written out.
pub(super) struct Loops {
    /// Of each scope the innermost such iteration that it is part of, itself included.
    within: Vec<u32>,
    /// Of each scope how many such loops it is in.
    depth: Vec<u32>,
    /// Of each iteration the one around its loop.
    around: Vec<u32>,
    /// Of each iteration its run of a loop and which one of that it is.
    of_run: Vec<(u32, u32)>,
    /// Iterations of each run.
    trips: Vec<u32>,
}

impl Loops {
    pub(super) fn of(scopes: &Scopes) -> Self {
        let kernel = (u32::MAX, 0);
        let mut found = Self {
            within: vec![NO_SCOPE],
            depth: vec![0],
            around: vec![NO_SCOPE],
            of_run: vec![kernel],
            trips: vec![],
        };
        for number in 1u32.. {
            let Some(scope) = scopes.get(number) else { break };
            let parent = scope.parent as usize;
            let (around, depth) = (found.within[parent], found.depth[parent]);
            // What comes between the head of a loop and its first iteration is outside of it.
            let has_begun = scope.iteration != u32::MAX;
            let is_loop = has_begun && scopes.run(scope.run).is_some_and(|run| run.kind != LoopKind::Static);
            found.within.push(if is_loop { number } else { around });
            found.depth.push(depth + u32::from(is_loop));
            found.around.push(around);
            found.of_run.push((scope.run, scope.iteration));
            if has_begun {
                let run = scope.run as usize;
                found.trips.resize(found.trips.len().max(run + 1), 0);
                found.trips[run] = found.trips[run].max(scope.iteration + 1);
            }
        }
        found
    }

    /// The innermost iteration that a scope is part of; [`NO_SCOPE`] outside of all loops.
    pub(super) fn within(&self, scope: u32) -> u32 {
        self.within[scope as usize]
    }

    /// How many loops an iteration is in.
    pub(super) fn depth(&self, iteration: u32) -> u32 {
        self.depth[iteration as usize]
    }

    /// The iteration around the loop that one is of.
    pub(super) fn around(&self, iteration: u32) -> u32 {
        self.around[iteration as usize]
    }

    /// The run of a loop that an iteration is of, and which one it is.
    pub(super) fn of_run(&self, iteration: u32) -> (u32, u32) {
        self.of_run[iteration as usize]
    }

    /// How many iterations a run had.
    pub(super) fn trips(&self, run: u32) -> u32 {
        self.trips.get(run as usize).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use trn3_machine::site::SiteId;

    use super::*;

    #[test]
    fn test_loops_that_are_written_out_are_none() {
        let mut scopes = Scopes::default();
        scopes.begin(LoopKind::Affine, Some(1), SiteId(1));
        scopes.next_iteration();
        let outer = scopes.now();
        scopes.begin(LoopKind::Static, Some(2), SiteId(2));
        scopes.next_iteration();
        scopes.next_iteration();
        let written_out = scopes.now();
        scopes.begin(LoopKind::Sequential, Some(3), SiteId(3));
        let head = scopes.now();
        (0..3).for_each(|_| scopes.next_iteration());
        let inner = scopes.now();
        let loops = Loops::of(&scopes);
        assert_eq!([outer, written_out, head, inner].map(|scope| loops.within(scope)), [outer, outer, outer, inner]);
        assert_eq!((loops.depth(inner), loops.around(inner), loops.of_run(inner)), (2, outer, (2, 2)));
        assert_eq!((loops.depth(outer), loops.around(outer), loops.trips(2)), (1, NO_SCOPE, 3));
    }
}
