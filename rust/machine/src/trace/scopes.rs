//! Which iterations of which loops steps belong to.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::site::SiteId;

/// The number of what is in no loop.
pub const NO_SCOPE: u32 = 0;

/// What the author says of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// Its iterations do not depend on one another.
    Affine,
    /// Its iterations are in order.
    Sequential,
    /// It is written out.
    Static,
    /// The hardware runs it: its index is in a register.
    Dynamic,
}

impl LoopKind {
    /// Every kind.
    pub const ALL: [LoopKind; 4] = [LoopKind::Affine, LoopKind::Sequential, LoopKind::Static, LoopKind::Dynamic];

    /// Name, as `nki.language` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            LoopKind::Affine => "affine_range",
            LoopKind::Sequential => "sequential_range",
            LoopKind::Static => "static_range",
            LoopKind::Dynamic => "dynamic_range",
        }
    }
}

impl fmt::Display for LoopKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for LoopKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = LoopKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            Error::Value(format!("loop kind is {name:?}; allowed: {}", LoopKind::ALL.map(LoopKind::name).join(", ")))
        })
    }
}

/// One iteration of a run of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopScope {
    /// The iteration around the loop.
    pub parent: u32,
    /// Which run of a loop it is part of: a loop inside of another one runs once an iteration of that.
    pub run: u32,
    /// Which iteration, from 0.
    pub iteration: u32,
}

/// A run of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopRun {
    /// What the author says of it.
    pub kind: LoopKind,
    /// Iterations that it announced; None: not known before.
    pub trip: Option<u32>,
    /// Line of its head.
    pub site: SiteId,
}

/// The iterations that steps belong to; number 0 is the kernel itself.
#[derive(Clone, Debug)]
pub struct Scopes {
    scopes: Vec<LoopScope>,
    runs: Vec<LoopRun>,
    now: u32,
    /// Loops that have begun and not ended.
    open: Vec<u32>,
}

impl Default for Scopes {
    fn default() -> Self {
        let kernel = LoopScope { parent: NO_SCOPE, run: u32::MAX, iteration: 0 };
        Self { scopes: vec![kernel], runs: Vec::new(), now: NO_SCOPE, open: Vec::new() }
    }
}

impl Scopes {
    /// The iteration that the kernel is in.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Says which iteration what follows is part of; one that there is not is passed over.
    pub fn set_now(&mut self, scope: u32) {
        if (scope as usize) < self.scopes.len() {
            self.now = scope;
        }
    }

    /// A loop begins; its first iteration does with [`Scopes::next_iteration`].
    pub fn begin(&mut self, kind: LoopKind, trip: Option<u32>, site: SiteId) {
        self.open.push(self.runs.len() as u32);
        self.runs.push(LoopRun { kind, trip, site });
        let run = self.runs.len() as u32 - 1;
        self.scopes.push(LoopScope { parent: self.now, run, iteration: u32::MAX });
        self.now = self.scopes.len() as u32 - 1;
    }

    /// The next iteration of the innermost loop begins.
    pub fn next_iteration(&mut self) {
        let Some(&run) = self.open.last() else { return };
        let scope = self.within(run);
        let LoopScope { parent, iteration, .. } = self.scopes[scope as usize];
        let iteration = iteration.wrapping_add(1);
        self.scopes.push(LoopScope { parent, run, iteration });
        self.now = self.scopes.len() as u32 - 1;
    }

    /// The innermost loop has ended.
    pub fn end(&mut self) {
        let Some(run) = self.open.pop() else { return };
        let scope = self.within(run);
        self.now = self.scopes[scope as usize].parent;
    }

    /// The iteration of a run that the present one is in.
    fn within(&self, run: u32) -> u32 {
        let mut scope = self.now;
        while scope != NO_SCOPE && self.scopes[scope as usize].run != run {
            scope = self.scopes[scope as usize].parent;
        }
        scope
    }

    /// An iteration, by its number.
    pub fn get(&self, scope: u32) -> Option<LoopScope> {
        (scope != NO_SCOPE).then(|| self.scopes.get(scope as usize).copied()).flatten()
    }

    /// A run of a loop, by its number.
    pub fn run(&self, run: u32) -> Option<&LoopRun> {
        self.runs.get(run as usize)
    }

    /// The iterations that one is in, itself included, from the innermost outwards.
    pub fn chain(&self, scope: u32) -> impl Iterator<Item = LoopScope> + '_ {
        std::iter::successors(self.get(scope), |inner| self.get(inner.parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_iterations_nest_and_end() {
        let mut scopes = Scopes::default();
        scopes.begin(LoopKind::Affine, Some(2), SiteId(1));
        scopes.next_iteration();
        let outer = scopes.now();
        scopes.begin(LoopKind::Static, None, SiteId(2));
        for _ in 0..3 {
            scopes.next_iteration();
        }
        let chain: Vec<_> = scopes.chain(scopes.now()).map(|scope| (scope.run, scope.iteration)).collect();
        assert_eq!(chain, [(1, 2), (0, 0)]);
        scopes.end();
        assert_eq!(scopes.now(), outer);
        scopes.next_iteration();
        assert_eq!(scopes.get(scopes.now()).map(|scope| scope.iteration), Some(1));
        scopes.end();
        assert_eq!(scopes.now(), NO_SCOPE);
        scopes.end();
        scopes.next_iteration();
        assert_eq!(scopes.now(), NO_SCOPE);
        assert_eq!(scopes.run(0).map(|run| run.kind), Some(LoopKind::Affine));
    }
}
