//! A random generator inside an engine.

use trn3_numerics::Xorwow;

use crate::error::Result;

/// An engine's generator, one lane a partition. Runs without values do not draw what no control flow needs: they note how
/// far the generator is behind, and whether its state is known at all.
#[derive(Clone, Debug)]
pub struct Generator {
    xorwow: Xorwow,
    behind: u64,
    is_known: bool,
}

impl Generator {
    /// Generators of these states.
    pub fn new(xorwow: Xorwow) -> Self {
        Self { xorwow, behind: 0, is_known: true }
    }

    /// Partitions that have a generator.
    pub fn lanes(&self) -> usize {
        self.xorwow.lanes()
    }

    /// Generators of each partition.
    pub fn generators(&self) -> usize {
        self.xorwow.generators()
    }

    /// Whether the state is known; false after a seed that a run without values did not compute.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Takes every lane so many draws ahead, later.
    pub fn skip(&mut self, draws: usize) {
        self.behind += draws as u64;
    }

    /// The state is one that nobody computed.
    pub fn forget(&mut self) {
        self.is_known = false;
    }

    /// The generators, as far ahead as they should be.
    ///
    /// # Errors
    /// [`crate::Error::Numerics`] when interrupted.
    pub fn current(&mut self) -> Result<&mut Xorwow> {
        if self.behind > 0 {
            self.xorwow.jump(self.behind)?;
            self.behind = 0;
        }
        Ok(&mut self.xorwow)
    }
}
