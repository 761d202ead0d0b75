//! A random generator inside an engine.

use std::fmt;

use trn3_numerics::Xorwow;

use crate::bit_source::BitSource;
use crate::error::{Error, Result};

/// An engine's generator, one lane a partition. Runs without values do not draw what no control flow needs: they note how
/// far the generator is behind, and whether its state is known at all.
///
/// A host may put a source of its own in its place, draws recorded on hardware for example.
pub struct Generator {
    /// None until somebody asks for them: few kernels draw, and a launch has no time to make them for the others.
    xorwow: Option<Xorwow>,
    seed: u64,
    lanes: usize,
    generators: usize,
    behind: u64,
    is_known: bool,
    host: Option<Box<dyn BitSource>>,
}

impl fmt::Debug for Generator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} lanes of {} generators", self.lanes(), self.generators())
    }
}

impl Generator {
    /// Generators of these states.
    pub fn new(xorwow: Xorwow) -> Self {
        let mut made = Self::seeded(0, xorwow.lanes(), xorwow.generators());
        made.xorwow = Some(xorwow);
        made
    }

    /// The generators of [`Xorwow::seed`], which are made when they are first asked for.
    ///
    /// ```
    /// use trn3_machine::generator::Generator;
    /// use trn3_numerics::Xorwow;
    ///
    /// let [mut late, mut now] = [Generator::seeded(3, 128, 4), Generator::new(Xorwow::seed(3, 128, 4)?)];
    /// let [mut drawn, mut other] = [[0; 256]; 2];
    /// late.uint32(2, &mut drawn)?;
    /// now.uint32(2, &mut other)?;
    /// assert_eq!(drawn, other);
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    pub fn seeded(seed: u64, lanes: usize, generators: usize) -> Self {
        Self { xorwow: None, seed, lanes, generators, behind: 0, is_known: true, host: None }
    }

    /// Partitions that have a generator.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Generators of each partition.
    pub fn generators(&self) -> usize {
        self.generators
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

    /// Starts anew from these states. A host's source, which has none, stays and goes on.
    pub fn reseed(&mut self, xorwow: Xorwow) {
        *self = Self { host: self.host.take(), ..Self::new(xorwow) };
    }

    /// Takes draws from a host's source from here on, or from the generators again.
    pub fn use_source(&mut self, host: Option<Box<dyn BitSource>>) {
        self.host = host;
    }

    /// The next `n` draws of each lane, `[lanes, n]` in C order.
    ///
    /// # Errors
    /// As [`Generator::current`]; those of a host's source.
    pub fn uint32(&mut self, n: usize, out: &mut [u32]) -> Result<()> {
        match &mut self.host {
            Some(host) => host.fill(out),
            None => Ok(self.current()?.uint32(n, out)?),
        }
    }

    /// States of all lanes with the draws that are still to be skipped, and whether they are known.
    ///
    /// # Errors
    /// As [`Generator::current`].
    pub fn save(&mut self) -> Result<(Vec<u32>, usize, bool)> {
        let is_known = self.is_known;
        let xorwow = self.jumped()?;
        Ok((xorwow.state().to_vec(), xorwow.phase(), is_known))
    }

    /// Goes on from what [`Generator::save`] gave.
    ///
    /// # Errors
    /// [`crate::Error::Numerics`] for states that are none of these generators.
    pub fn load(&mut self, state: &[u32], phase: usize, is_known: bool) -> Result<()> {
        let mut xorwow = self.made()?.clone();
        xorwow.set_state(state)?;
        xorwow.set_phase(phase)?;
        (self.xorwow, self.behind, self.is_known) = (Some(xorwow), 0, is_known);
        Ok(())
    }

    /// The generators, as far ahead as they should be.
    ///
    /// # Errors
    /// [`crate::Error::Numerics`] when interrupted, or from a seed without lanes; [`Error::NotModelled`] where a host's source
    /// has taken their place, which has no state of theirs.
    pub fn current(&mut self) -> Result<&mut Xorwow> {
        if self.host.is_some() {
            let text = "the state of a generator whose draws come from the host's source is not there to read or write";
            return Err(Error::NotModelled(text.to_owned()));
        }
        self.jumped()
    }

    fn jumped(&mut self) -> Result<&mut Xorwow> {
        let behind = self.behind;
        let xorwow = self.made()?;
        if behind > 0 {
            xorwow.jump(behind)?;
        }
        self.behind = 0;
        self.made()
    }

    fn made(&mut self) -> Result<&mut Xorwow> {
        let made = match self.xorwow.take() {
            Some(made) => made,
            None => Xorwow::seed(self.seed, self.lanes, self.generators)?,
        };
        Ok(self.xorwow.insert(made))
    }
}
