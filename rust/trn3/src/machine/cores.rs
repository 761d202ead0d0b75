//! Several cores on one HBM: where they meet in the program, their values and their timelines meet too.
//!
//! Each core has its own SBUF, PSUM, engines and timeline; all timelines count from one start. A front end issues to
//! each core in that core's program order, and hands the parts of an instruction that cores run together to this module
//! once every core has come to it. Which core is issued to first in between changes neither values nor times of programs
//! without races; races are findings.
//!
//! - **(choice)** A barrier holds the named engine of each core for `core_barrier_ns` from the moment the last one could
//!   start it. Uses of `data` before it come first, uses after it wait for it; other instructions go on.
//! - **(choice)** A sendrecv starts a semaphore's hop after both cores have their tiles ready; the DMA engines of each core
//!   move its own outgoing tile, and both cores see the result when both halves are done.
//! - **(choice)** A meeting orders all of HBM that the cores share: what one did to a tensor before, the other waits for
//!   where it uses the same bytes after.
//! - **(choice)** HBM bandwidth is each core's own: two cores cannot draw what their bank gives.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::machine::core::{At, NeuronCore};
use crate::machine::isa::cores::{CoreBarrier, SendRecv};
use crate::machine::time::Picos;

/// One core's part of an instruction that cores run together.
pub struct Part<'a, I> {
    /// The core.
    pub core: &'a mut NeuronCore,
    /// Its operands.
    pub instruction: &'a I,
    /// Where its kernel stands.
    pub at: At<'a>,
}

/// Runs a barrier of cores; returns each core's number for it.
///
/// # Errors
/// As [`NeuronCore::issue`].
pub fn core_barrier(parts: &mut [Part<'_, CoreBarrier>]) -> Result<Vec<u32>> {
    let mut ids = Vec::with_capacity(parts.len());
    for part in parts.iter_mut() {
        ids.push(part.core.join(part.instruction, part.at)?);
    }
    meet(parts, Picos::ZERO);
    Ok(ids)
}

/// Exchanges the tiles of two cores; returns each core's number for it. Every `src` is read before any `dst` is written.
///
/// # Errors
/// As [`NeuronCore::issue`]; [`Error::Validation`] if the tiles of the cores do not fit each other.
pub fn sendrecv(parts: &mut [Part<'_, SendRecv>; 2]) -> Result<Vec<u32>> {
    let [one, other] = parts;
    let arch = Arc::clone(&one.core.state.arch);
    one.instruction.check_peer(&arch, other.instruction)?;
    other.instruction.check_peer(&arch, one.instruction)?;
    let mut ids = Vec::with_capacity(2);
    let mut sent = Vec::with_capacity(2);
    for part in [&mut *one, &mut *other] {
        ids.push(part.core.join(part.instruction, part.at)?);
        let state = &mut part.core.state;
        let src = &part.instruction.src;
        // Timing-only: addresses may come from integers alone, and from those that are known.
        let known = state.memory.options().values || (src.dtype.is_integer() && state.memory.is_initialised(src)?);
        sent.push(if known { Some(state.read_bits(src)?) } else { None });
    }
    sent.swap(0, 1);
    for (part, bits) in [&mut *one, &mut *other].into_iter().zip(sent) {
        let memory = &mut part.core.state.memory;
        match bits {
            Some(bits) => memory.write_bits(&part.instruction.dst, &bits)?,
            None => memory.forget(&part.instruction.dst)?,
        }
    }
    let hop = Picos::from_nanoseconds(arch.semaphore_ns);
    meet(parts, hop);
    Ok(ids)
}

/// Joins the timelines, and makes what each core did before come before what any does after.
fn meet<I: crate::machine::isa::Instruction>(parts: &mut [Part<'_, I>], hop: Picos) {
    let cores: Vec<_> =
        parts.iter_mut().map(|part| (&mut *part.core, part.instruction as &dyn crate::machine::isa::Instruction, part.at)).collect();
    NeuronCore::meet(cores, hop);
    for part in parts {
        part.core.state.memory.synchronise();
    }
}

/// Makes what each core did before come before what any does from here on, without an instruction: the end of a run, or
/// the host's hand.
pub fn synchronise(cores: &mut [&mut NeuronCore]) {
    for core in cores {
        core.state.memory.synchronise();
    }
}

/// Refuses more cores than a logical core of the machine has.
///
/// # Errors
/// [`Error::Value`] names the limit.
pub fn check_count(core: &NeuronCore, count: usize) -> Result<()> {
    let arch = core.arch();
    if count as u64 > arch.max_lnc {
        let (name, most) = (&arch.name, arch.max_lnc);
        return Err(Error::Value(format!("{count} cores as one on {name}; allowed: at most {most}")));
    }
    Ok(())
}
