//! What instructions compute with: memories, random generators and engine registers.

use std::sync::Arc;

use trn3_numerics::CastOptions;

use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::error::Result;
use crate::generator::Generator;
use crate::memory::{Memory, Operand};
use crate::site::SiteId;
use crate::stochastic::StochasticRounding;
use crate::view::View;

/// What instructions compute with: memories and the registers inside engines.
pub struct State {
    /// The hardware.
    pub arch: Arc<ArchSpec>,
    /// SBUF, PSUM and HBM.
    pub memory: Memory,
    /// ScalarE's running sums, one a partition.
    pub scalar_reduce: Vec<f32>,
    /// VectorE's accumulators, one a partition.
    pub vector_accumulator: Vec<f32>,
    /// VectorE's generator.
    pub vector_random: Generator,
    /// GpSimdE's generator.
    pub gpsimd_random: Generator,
    /// Generators of stochastic rounding; None: results are rounded to nearest.
    pub stochastic_rounding: Option<StochasticRounding>,
    /// Line of the instruction at work.
    pub site: SiteId,
    scratch: Vec<Vec<f32>>,
}

impl State {
    /// Whether the elements of a view are computed: timing-only runs know integers alone, and those that were written.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn knows(&mut self, view: &View) -> Result<bool> {
        Ok(self.memory.options().values || (view.dtype.is_integer() && self.memory.is_initialised(view)?))
    }

    /// Engine registers and generators as they are at power-on, beside these memories.
    pub(crate) fn new(arch: &Arc<ArchSpec>, memory: Memory) -> Self {
        let lanes = arch.partitions as usize;
        let vector_generators = if arch.generation >= 4 { 4 } else { 1 };
        State {
            memory,
            scalar_reduce: vec![0.0; lanes],
            vector_accumulator: vec![0.0; lanes],
            vector_random: Generator::seeded(0, lanes, vector_generators),
            gpsimd_random: Generator::seeded(1, lanes, 1),
            stochastic_rounding: None,
            site: SiteId::default(),
            scratch: Vec::new(),
            arch: arch.clone(),
        }
    }

    /// A buffer of so many float32 elements of any values; give it back with [`State::keep`]. What one gets longer by is
    /// cleared first, for nothing: of those there are the shortest that is as long is best.
    pub fn buffer(&mut self, elements: usize) -> Vec<f32> {
        let fits = |place: &usize| {
            let length = self.scratch[*place].len();
            (length < elements, length.abs_diff(elements))
        };
        let best = (0..self.scratch.len()).min_by_key(fits);
        let mut buffer = best.map(|place| self.scratch.swap_remove(place)).unwrap_or_default();
        buffer.resize(elements, 0.0);
        buffer
    }

    /// As [`State::buffer`], for words; give it back with [`State::keep_words`].
    pub(crate) fn words_for(&mut self, elements: usize) -> Vec<u32> {
        bytemuck::allocation::cast_vec(self.buffer(elements))
    }

    /// Takes a buffer of words back for the next instruction.
    pub(crate) fn keep_words(&mut self, words: Vec<u32>) {
        self.keep(bytemuck::allocation::cast_vec(words));
    }

    /// Takes a buffer back for the next instruction.
    pub fn keep(&mut self, buffer: Vec<f32>) {
        if self.scratch.len() < 8 {
            self.scratch.push(buffer);
        }
    }

    /// The tile as float32, in C order of [partitions, elements per partition].
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read(&mut self, view: &View) -> Result<Vec<f32>> {
        let mut values = self.buffer(view.len());
        self.memory.read_f32(view, &mut values, self.site)?;
        Ok(values)
    }

    /// The elements of a tile that are moved and not looked at: [`Memory::read_words`].
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_words(&mut self, view: &View) -> Result<Vec<u32>> {
        let mut words = self.words_for(view.len());
        self.memory.read_words(view, &mut words, self.site)?;
        Ok(words)
    }

    /// Bit patterns of the tile, zero-extended.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_bits(&mut self, view: &View) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        self.memory.read_bits(view, &mut bits, self.site)?;
        Ok(bits)
    }

    /// The elements of any tensor in C order, as bytes of its type.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_bytes(&mut self, view: &View) -> Result<Vec<u8>> {
        self.memory.read_bytes(view, self.site)
    }

    /// As [`State::read_bytes`] for the host, who looks at what the cores hold: no use that could be a race.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn peek_bytes(&mut self, view: &View) -> Result<Vec<u8>> {
        let sharing = self.memory.stop_sharing();
        let bytes = self.read_bytes(view);
        if let Some(sharing) = sharing {
            self.memory.share(sharing, None);
        }
        bytes
    }

    /// Sets the elements of any tensor, in C order, from bytes of its type.
    ///
    /// # Errors
    /// [`crate::Error::Value`] for another number of bytes; those of the memories.
    pub fn write_bytes(&mut self, view: &View, bytes: &[u8]) -> Result<()> {
        self.memory.write_bytes(view, bytes)
    }

    /// An instruction of this engine comes, which rounds by the engine's own draws where the core is set so.
    pub fn start(&mut self, engine: Engine) {
        if let Some(rounding) = &mut self.stochastic_rounding {
            rounding.start(engine);
        }
    }

    /// Writes an engine's float32 results, rounded to the tile's type: to nearest even, or stochastically where the core
    /// is set so (16-bit and 8-bit floats).
    ///
    /// # Errors
    /// Those of the memories.
    pub fn write<'v>(&mut self, operand: impl Into<Operand<'v>>, values: &[f32]) -> Result<()> {
        match self.stochastic_rounding.as_mut().and_then(StochasticRounding::draws) {
            Some(draws) => self.memory.write_f32_stochastic(operand, values, draws),
            None => self.memory.write_f32(operand, values, CastOptions::default()),
        }
    }

    /// `src` through float32 into `dst`.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn convert(&mut self, dst: &View, src: &View) -> Result<()> {
        let values = self.read(src)?;
        self.write(dst, &values)?;
        self.keep(values);
        Ok(())
    }
}
