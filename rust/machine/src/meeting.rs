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
//! - Of bytes that several cores wrote since they last met, the write that ended last stays.
//! - **(choice)** Random generators of all cores start alike.
//! - **(choice)** HBM bandwidth is each core's own: two cores cannot draw what the chip gives. Cores that
//!   [`crate::chip`] times again share it.

use std::ops::Range;
use std::sync::Arc;

use crate::core::{At, NeuronCore};
use crate::error::{Error, Result};
use crate::isa::Instruction;
use crate::isa::collective::Collective;
use crate::isa::exchange::{CoreBarrier, SendRecv};
use crate::memory::Memory;
use crate::time::Picos;
use crate::timing::record::Cause;

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
    settle(&mut parts.iter_mut().map(|part| &mut *part.core).collect::<Vec<_>>())?;
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
    settle(&mut [&mut *one.core, &mut *other.core])?;
    let mut ids = Vec::with_capacity(2);
    let mut sent = Vec::with_capacity(2);
    for part in [&mut *one, &mut *other] {
        ids.push(part.core.join(part.instruction, part.at)?);
        let src = &part.instruction.src;
        // Timing-only: addresses may come from integers alone, and from those that are known.
        let known = part.core.state.knows(src)?;
        let shadow = if known { part.core.export_shadow(src)? } else { None };
        let state = &mut part.core.state;
        sent.push(if known { Some((state.memory.export(src, state.site)?, shadow)) } else { None });
    }
    sent.swap(0, 1);
    for (part, elements) in [&mut *one, &mut *other].into_iter().zip(sent) {
        let memory = &mut part.core.state.memory;
        match elements {
            Some((elements, shadow)) => {
                memory.import(&part.instruction.dst, &elements)?;
                part.core.import_shadow(&part.instruction.dst, shadow.as_deref())?;
            }
            None => memory.forget(&part.instruction.dst)?,
        }
    }
    let hop = Picos::from_nanoseconds(arch.semaphore_ns);
    meet(parts, hop);
    Ok(ids)
}

/// Gives the parts of a collective their time: the duration starts when the last core could. Cores at the places of each
/// range of `sharing` are one rank's, whose HBM it orders; ranks share none. Returns each core's number for it.
///
/// # Errors
/// As [`NeuronCore::issue`].
pub fn collective(parts: &mut [Part<'_, Collective>], sharing: &[Range<usize>]) -> Result<Vec<u32>> {
    let mut ids = Vec::with_capacity(parts.len());
    for part in parts.iter_mut() {
        ids.push(part.core.join(part.instruction, part.at)?);
    }
    let cores = parts.iter_mut().map(|part| (&mut *part.core, part.instruction as &dyn Instruction, part.at)).collect();
    NeuronCore::meet(cores, Picos::ZERO, sharing, Cause::Rank);
    for part in sharing.iter().cloned().flatten() {
        if let Some(part) = parts.get_mut(part) {
            part.core.state.memory.synchronise();
        }
    }
    Ok(ids)
}

/// Joins the timelines, and makes what each core did before come before what any does after.
fn meet<I: Instruction>(parts: &mut [Part<'_, I>], hop: Picos) {
    let cores: Vec<_> =
        parts.iter_mut().map(|part| (&mut *part.core, part.instruction as &dyn Instruction, part.at)).collect();
    let all = 0..cores.len();
    NeuronCore::meet(cores, hop, &[all], Cause::Core);
    for part in parts {
        part.core.state.memory.synchronise();
    }
}

/// Makes what each core did before come before what any does from here on, without an instruction: the end of a run, or
/// the host's hand.
///
/// # Errors
/// [`Error::HostMemory`] where the host has no room to compare what they wrote.
pub fn synchronise(cores: &mut [&mut NeuronCore]) -> Result<()> {
    settle(cores)?;
    for core in cores {
        core.state.memory.synchronise();
    }
    Ok(())
}

/// Of bytes that several cores wrote since they last met, lets the write that ended last stay.
fn settle(cores: &mut [&mut NeuronCore]) -> Result<()> {
    let mut contested: Vec<_> = cores.iter_mut().flat_map(|core| core.state.memory.take_contested()).collect();
    if contested.is_empty() {
        return Ok(());
    }
    contested.sort_by_key(|storage| storage.id);
    contested.dedup_by_key(|storage| storage.id);
    for core in cores.iter_mut() {
        core.settle(0);
    }
    let ends: Vec<_> = cores.iter().map(|core| |id| core.ended(id)).collect();
    let memories: Vec<(&Memory, &dyn Fn(u32) -> Picos)> =
        cores.iter().zip(&ends).map(|(core, end)| (&core.state.memory, end as _)).collect();
    for storage in contested {
        Memory::settle_contest(&storage, &memories)?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arch::ArchSpec;
    use crate::core::CoreOptions;
    use crate::dtype::DType;
    use crate::engine::Engine;
    use crate::isa::dma::Options;
    use crate::isa::dma::copy::DmaCopy;
    use crate::memory::{Finding, Request};
    use crate::site::SiteId;
    use crate::storage::Buffer;
    use crate::view::View;

    fn pair() -> [NeuronCore; 2] {
        let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
        let mut first = NeuronCore::new(arch, CoreOptions::default()).expect("a core");
        let second = NeuronCore::beside(&mut first, 1).expect("a core");
        [first, second]
    }

    fn tensor(core: &mut NeuronCore, buffer: Buffer, columns: usize) -> View {
        let (shape, site) = ([128, columns], SiteId::default());
        let request = Request { name: "t", shape: &shape, dtype: DType::UInt8, buffer, address: None, site };
        View::whole(core.allocate(&request).expect("room"))
    }

    fn fill(core: &mut NeuronCore, view: &View, value: u32) {
        core.state.memory.write_bits(view, &vec![value; view.len()]).expect("values");
    }

    fn bits(core: &mut NeuronCore, view: &View) -> Vec<u32> {
        core.state.read_bits(view).expect("values")
    }

    fn copy(core: &mut NeuronCore, dst: &View, src: &View) {
        let copy = DmaCopy { dst: dst.clone(), src: src.clone(), options: Options::default(), engine: None };
        core.issue(&copy, At::default()).expect("a copy");
    }

    fn barrier(cores: &mut [NeuronCore; 2], data: &View) {
        let instruction = CoreBarrier { data: data.clone(), engine: Engine::GpSimd };
        let mut parts: Vec<_> =
            cores.iter_mut().map(|core| Part { core, instruction: &instruction, at: At::default() }).collect();
        core_barrier(&mut parts).expect("a barrier");
    }

    fn exchange(cores: &mut [NeuronCore; 2], tiles: [(&View, &View); 2]) -> Result<Vec<u32>> {
        let [one, other] = tiles.map(|(src, dst)| SendRecv { src: src.clone(), dst: dst.clone(), by_gpsimd: false });
        let [first, second] = cores;
        let part = |core, instruction| Part { core, instruction, at: At::default() };
        sendrecv(&mut [part(first, &one), part(second, &other)])
    }

    fn races(core: &mut NeuronCore) -> usize {
        core.state.memory.findings().iter().filter(|finding| matches!(finding, Finding::Race { .. })).count()
    }

    #[test]
    fn test_an_exchange_reads_both_tiles_before_it_writes() {
        let mut cores = pair();
        let tiles = [0, 1].map(|number| tensor(&mut cores[number], Buffer::Sbuf, 64));
        for number in 0..2 {
            let value = number as u32 + 5;
            fill(&mut cores[number], &tiles[number], value);
        }
        exchange(&mut cores, [(&tiles[0], &tiles[0]), (&tiles[1], &tiles[1])]).expect("an exchange");
        for number in 0..2 {
            assert!(bits(&mut cores[number], &tiles[number]).iter().all(|&bits| bits == 6 - number as u32));
        }
        let ends = cores.each_mut().map(|core| core.makespan());
        assert_eq!(ends[0], ends[1]);
        assert!(ends[0] > Picos::ZERO);
    }

    #[test]
    fn test_tiles_that_do_not_fit_leave_no_trace() {
        let mut cores = pair();
        let tiles = [0, 1].map(|number| tensor(&mut cores[number], Buffer::Sbuf, 64 + number));
        let error = exchange(&mut cores, [(&tiles[0], &tiles[0]), (&tiles[1], &tiles[1])]);
        assert!(matches!(error, Err(Error::Validation { operand: "src", .. })));
        assert_eq!(cores.each_mut().map(|core| (core.issued(), core.makespan())), [(0, Picos::ZERO); 2]);
    }

    #[test]
    fn test_a_meeting_orders_what_was_written_and_its_absence_is_a_race() {
        for meets in [false, true] {
            let mut cores = pair();
            let shared = tensor(&mut cores[0], Buffer::SharedHbm, 512);
            let tiles = [0, 1].map(|number| tensor(&mut cores[number], Buffer::Sbuf, 512));
            fill(&mut cores[0], &tiles[0], 9);
            copy(&mut cores[0], &shared, &tiles[0]);
            if meets {
                barrier(&mut cores, &shared);
            }
            copy(&mut cores[1], &tiles[1], &shared);
            assert!(bits(&mut cores[1], &tiles[1]).iter().all(|&bits| bits == 9));
            assert_eq!(cores.each_mut().map(races), [0, usize::from(!meets)]);
            let written = cores[0].timeline.records().first().map_or(Picos::ZERO, |record| record.end);
            cores[1].makespan();
            let read = cores[1].timeline.records().last().map_or(Picos::ZERO, |record| record.start);
            assert_eq!(read > written && written > Picos::ZERO, meets);
        }
    }

    #[test]
    fn test_hbm_is_one_for_both_cores() {
        let mut cores = pair();
        let capacity = cores[0].arch().hbm_bytes as usize;
        let (shape, site) = ([128, capacity / 128 / 2 + 1], SiteId::default());
        let request =
            Request { name: "t", shape: &shape, dtype: DType::UInt8, buffer: Buffer::PrivateHbm, address: None, site };
        let _held = cores[0].allocate(&request).expect("room");
        assert!(matches!(cores[1].allocate(&request), Err(Error::HbmCapacity(_))));
    }

    #[test]
    fn test_more_cores_than_there_are_is_refused() {
        let [first, _] = pair();
        assert!(check_count(&first, 2).is_ok());
        assert!(check_count(&first, 3).is_err());
    }

    proptest! {
        #[test]
        fn test_more_work_before_a_barrier_never_makes_anything_earlier(
            counts in prop::array::uniform2(0usize..6), more in 0usize..4, which in 0usize..2,
        ) {
            let ends = |counts: [usize; 2]| {
                let mut cores = pair();
                let shared = tensor(&mut cores[0], Buffer::SharedHbm, 512);
                let tiles = [0, 1].map(|number| tensor(&mut cores[number], Buffer::Sbuf, 512));
                for number in 0..2 {
                    fill(&mut cores[number], &tiles[number], 1);
                    for _ in 0..counts[number] {
                        copy(&mut cores[number], &shared, &tiles[number]);
                    }
                }
                barrier(&mut cores, &shared);
                let barrier = cores.each_ref().map(|core| core.timeline.records().last().map(|record| record.end));
                for number in 0..2 {
                    copy(&mut cores[number], &tiles[number], &shared);
                }
                (barrier, cores.each_mut().map(|core| core.makespan()))
            };
            let (met, before) = ends(counts);
            prop_assert_eq!(met[0], met[1]);
            let mut longer = counts;
            longer[which] += more;
            let (_, after) = ends(longer);
            prop_assert!(after[0] >= before[0] && after[1] >= before[1]);
        }
    }
}
