//! Random numbers of VectorE and GpSimdE, and the state of their generators.
//!
//! Both are Xorwow, one generator for each lane, on VectorE of gen4 four of them; before gen4 VectorE's generator is
//! undocumented, Xorwow is this model's **(choice)**. A draw takes every lane ahead, those outside the tile too
//! **(choice)**.

use trn3_numerics::Xorwow;

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::generator::Generator;
use crate::isa::{Instruction, OperandRole, ScalarOperand};
use crate::state::State;
use crate::storage::Buffer;
use crate::timing::work::Work;
use crate::view::View;

/// Words of a generator's state.
const WORDS: usize = 6;

fn generator(state: &mut State, engine: Engine) -> &mut Generator {
    if engine == Engine::GpSimd { &mut state.gpsimd_random } else { &mut state.vector_random }
}

/// Whether a draw into `dst` is to be computed: in a run without values only integers may be needed, and only what follows
/// from a known generator and known inputs is known.
pub(super) fn draws_are_wanted<'v>(
    state: &mut State,
    engine: Engine,
    dst: &View,
    inputs: impl IntoIterator<Item = &'v View>,
) -> Result<bool> {
    if state.memory.options().values {
        return Ok(true);
    }
    if !dst.dtype.is_integer() || !generator(state, engine).is_known() {
        return Ok(false);
    }
    for input in inputs {
        if !state.memory.is_initialised(input)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the generator ahead by the draws of a tile whose values nobody needs.
pub(super) fn skip(state: &mut State, engine: Engine, dst: &View) -> Result<()> {
    generator(state, engine).skip(dst.free_size());
    state.memory.forget(dst)
}

/// Whether the words that a generator is set from are known.
fn is_known(state: &mut State, words: &View) -> Result<bool> {
    Ok(state.memory.options().values || state.memory.is_initialised(words)?)
}

/// Draws for a tile, in its C order: lanes are partitions.
fn draws(state: &mut State, engine: Engine, tile: &View) -> Result<Vec<u32>> {
    let free = tile.free_size();
    let first = tile.start_partition() * free;
    let generator = generator(state, engine);
    let mut all = vec![0; generator.lanes() * free];
    generator.uint32(free, &mut all)?;
    all.truncate(first + tile.len());
    Ok(all.split_off(first))
}

fn work(arch: &ArchSpec, engine: Engine, cycles: u64) -> Work {
    match engine {
        Engine::GpSimd => cost::gpsimd(arch, cycles),
        _ => cost::vector(arch, cycles as usize, 1.0, 0),
    }
}

fn check_engine(check: &Check<'_>, engine: Engine) -> Result<()> {
    match engine {
        Engine::Vector => Ok(()),
        Engine::GpSimd => check.generation("engine gpsimd", 3),
        other => Err(check.refuse("engine", format!("is {other}"), "vector or gpsimd")),
    }
}

/// `rng(dst, engine)`: 32 random bits an element, of which an 8- or 16-bit type keeps the low ones.
#[derive(Debug)]
pub struct Rng {
    /// An integer tile; in SBUF for GpSimdE.
    pub dst: View,
    /// VectorE, or GpSimdE from gen3 on.
    pub engine: Engine,
}

impl Instruction for Rng {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "rng"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_engine(&check, self.engine)?;
        check.tile("dst", &self.dst, if self.engine == Engine::GpSimd { SBUF } else { ON_CHIP })?;
        check.no_columns("dst", &self.dst)?;
        if !self.dst.dtype.is_integer() || self.dst.dtype == DType::Bool {
            return Err(check.refuse("dst", format!("has dtype {}", self.dst.dtype), "an integer of 8, 16 or 32 bits"));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        match self.engine {
            Engine::GpSimd => cost::gpsimd(arch, self.dst.free_size() as u64),
            _ => cost::vector(arch, self.dst.free_size(), arch.vector_rng_rate, 0),
        }
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if !draws_are_wanted(state, self.engine, &self.dst, None)? {
            return skip(state, self.engine, &self.dst);
        }
        let draws = draws(state, self.engine, &self.dst)?;
        state.memory.write_bits(&self.dst, &draws)
    }

    fn is_control(&self) -> bool {
        // In timing-only runs too every draw takes the generator ahead.
        true
    }
}

/// `rand2(dst, min, max)` (gen4): uniform float32 values from min to max, cast to the type of `dst`: `min + (max - min) *
/// ((draw >> 8) * 2^-24)`, each operation rounded to float32 **(choice)**.
#[derive(Debug)]
pub struct Rand2 {
    /// A float or integer tile in SBUF or PSUM.
    pub dst: View,
    /// Lower end, a number or [P, 1].
    pub min: ScalarOperand,
    /// Upper end, a number or [P, 1].
    pub max: ScalarOperand,
}

impl Instruction for Rand2 {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "rand2"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        for view in [self.min.view(), self.max.view()].into_iter().flatten() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 4)?;
        check.tile("dst", &self.dst, ON_CHIP)?;
        check.no_columns("dst", &self.dst)?;
        check.unpacked("dst", &self.dst)?;
        for (name, operand) in [("min", &self.min), ("max", &self.max)] {
            match operand {
                ScalarOperand::Vector(view) => check.vector(name, view, &self.dst)?,
                ScalarOperand::Constant(value) if value.is_finite() => {}
                ScalarOperand::Constant(value) => {
                    return Err(check.refuse(name, format!("is {value}"), "a finite number"));
                }
                ScalarOperand::None => return Err(check.refuse(name, "is None", "a number or a tile of shape [P, 1]")),
            }
        }
        match (&self.min, &self.max) {
            (ScalarOperand::Constant(min), ScalarOperand::Constant(max)) if min >= max => {
                Err(check.refuse("min", format!("is {min}, max {max}"), "min below max"))
            }
            _ => Ok(()),
        }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::vector(arch, self.dst.free_size(), arch.vector_rand2_rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let inputs = [self.min.view(), self.max.view()].into_iter().flatten();
        if !draws_are_wanted(state, Engine::Vector, &self.dst, inputs)? {
            return skip(state, Engine::Vector, &self.dst);
        }
        let arch = state.arch.clone();
        let check = Check { arch: &arch, instruction: self.name() };
        let (partitions, free) = (self.dst.partitions(), self.dst.free_size());
        let low = self.min.values(state, partitions, 0.0)?;
        let high = self.max.values(state, partitions, 0.0)?;
        if let Some(row) =
            (0..partitions).find(|&row| low[row].partial_cmp(&high[row]) != Some(std::cmp::Ordering::Less))
        {
            let got = format!("is {} on partition {row}, max {}", low[row], high[row]);
            return Err(check.refuse("min", got, "min below max"));
        }
        let draws = draws(state, Engine::Vector, &self.dst)?;
        let mut values = state.buffer(draws.len());
        values.clear();
        values.extend(draws.iter().enumerate().map(|(element, draw)| {
            let (low, high) = (low[element / free], high[element / free]);
            low + (high - low) * ((draw >> 8) as f32 / (1 << 24) as f32)
        }));
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn is_control(&self) -> bool {
        true
    }
}

/// `set_rng_seed(src_seeds)`: VectorE's generators from one 32-bit word, spread over the lanes as the arithmetic core's
/// seeds are **(choice)**.
#[derive(Debug)]
pub struct SetRngSeed {
    /// One 32-bit element in SBUF or PSUM.
    pub src_seeds: View,
}

impl Instruction for SetRngSeed {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "set_rng_seed"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src_seeds);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.tile("src_seeds", &self.src_seeds, ON_CHIP)?;
        check.no_columns("src_seeds", &self.src_seeds)?;
        if self.src_seeds.len() != 1 || self.src_seeds.dtype.size() != 4 {
            let got = format!("has shape {:?} of {}", &self.src_seeds.shape[..], self.src_seeds.dtype);
            return Err(check.refuse("src_seeds", got, "[1, 1] of 32 bits"));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, Engine::Vector, arch.random_state_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if !is_known(state, &self.src_seeds)? {
            state.vector_random.forget();
            return Ok(());
        }
        let seed = state.read_bits(&self.src_seeds)?[0];
        let (lanes, generators) = (state.vector_random.lanes(), state.vector_random.generators());
        state.vector_random.reseed(Xorwow::seed(u64::from(seed), lanes, generators)?);
        Ok(())
    }

    fn is_control(&self) -> bool {
        true
    }
}

/// Rules of moving a generator's state.
fn check_state(check: &Check<'_>, name: &'static str, tile: &View, engine: Engine, memories: &[Buffer]) -> Result<()> {
    check_engine(check, engine)?;
    let generators = if engine == Engine::Vector {
        check.generation("engine vector", 4)?;
        4
    } else {
        1
    };
    check.tile(name, tile, memories)?;
    check.no_columns(name, tile)?;
    let words = WORDS * generators;
    if tile.rank() != 2 || tile.shape[1] != words || tile.dtype != DType::UInt32 {
        let got = format!("has shape {:?} of {}", &tile.shape[..], tile.dtype);
        return Err(check.refuse(name, got, format!("[P, {words}] of uint32 on the {engine} engine")));
    }
    Ok(())
}

/// `rand_set_state(src_seeds, engine)`: the state of the tile's lanes; [P, 6] for GpSimdE, [P, 24] for VectorE.
#[derive(Debug)]
pub struct RandSetState {
    /// uint32 in SBUF.
    pub src_seeds: View,
    /// GpSimdE from gen3 on, VectorE on gen4.
    pub engine: Engine,
}

impl Instruction for RandSetState {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "rand_set_state"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src_seeds);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_state(&check, "src_seeds", &self.src_seeds, self.engine, SBUF)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, self.engine, arch.random_state_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if !is_known(state, &self.src_seeds)? {
            generator(state, self.engine).forget();
            return Ok(());
        }
        let words = state.read_bits(&self.src_seeds)?;
        let first = self.src_seeds.start_partition() * self.src_seeds.shape[1];
        let generator = generator(state, self.engine);
        let xorwow = generator.current()?;
        let mut all = xorwow.state().to_vec();
        all[first..first + words.len()].copy_from_slice(&words);
        xorwow.set_state(&all)?;
        if words.len() == all.len() {
            let whole = xorwow.clone();
            generator.reseed(whole);
        }
        Ok(())
    }

    fn is_control(&self) -> bool {
        true
    }
}

/// `rand_get_state(dst, engine)`: the state of the tile's lanes.
#[derive(Debug)]
pub struct RandGetState {
    /// uint32, [P, 6] in SBUF for GpSimdE, [P, 24] in SBUF or PSUM for VectorE.
    pub dst: View,
    /// GpSimdE from gen3 on, VectorE on gen4.
    pub engine: Engine,
}

impl Instruction for RandGetState {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "rand_get_state"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_state(&check, "dst", &self.dst, self.engine, if self.engine == Engine::Vector { ON_CHIP } else { SBUF })
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, self.engine, arch.random_state_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let first = self.dst.start_partition() * self.dst.shape[1];
        if !state.memory.options().values && !generator(state, self.engine).is_known() {
            return state.memory.forget(&self.dst);
        }
        let words = generator(state, self.engine).current()?.state()[first..first + self.dst.len()].to_vec();
        state.memory.write_bits(&self.dst, &words)
    }

    fn is_control(&self) -> bool {
        true
    }
}
