//! DMA: data moved between HBM and SBUF, cast, transposed and summed on the way.

pub mod compute;
pub mod copy;
pub mod transpose;

#[cfg(test)]
mod tests;

use crate::arch::ArchSpec;
use crate::check::Check;
use crate::error::{Error, Result};
use crate::memory::{Finding, Operand, OutOfBounds, Scalar};
use crate::state::State;
use crate::storage::Buffer;
use crate::timing::work::{DescriptorMode, Route, Transfer};
use crate::view::{Dynamic, ScalarIndex, View};

/// What all transfers may be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Class of service, 0 first (gen4); None: default.
    pub priority: Option<u8>,
    /// How descriptors come about; None: by GpSimdE for rows picked by an index tile, in hardware for other dynamic
    /// addresses where there is a generator and types are equal, ahead of the kernel otherwise **(choice)**.
    pub mode: Option<DescriptorMode>,
    /// What becomes of dynamic indices outside the tensor.
    pub out_of_bounds: OutOfBounds,
    /// Which ring of its queue's kind it goes through: a compiler's to say, 0 as written.
    pub ring: u8,
}

/// Whether rows of the view are picked by an index tile.
fn picks_rows(view: &View) -> bool {
    matches!(view.dynamic.as_deref(), Some(Dynamic::Rows { .. }))
}

impl Options {
    /// Rules that all transfers share; `views` are the operands, dst first.
    fn check(&self, check: &Check<'_>, views: &[(&'static str, &View)]) -> Result<()> {
        if let Some(priority) = self.priority {
            check.generation("priority", 4)?;
            if priority > 3 {
                return Err(check.refuse("priority", format!("is {priority}"), "0 to 3"));
            }
        }
        let hardware = self.mode == Some(DescriptorMode::Hardware);
        if hardware && check.arch.hardware_dge == 0 {
            check.generation("dge_mode hwdge", 3)?;
        }
        for (name, view) in views {
            check.no_columns(name, view)?;
            let mode = match self.mode {
                Some(DescriptorMode::Hardware) => "hwdge",
                Some(DescriptorMode::Static) => "none",
                _ => continue,
            };
            if picks_rows(view) {
                let got = format!("is {mode} where {name} has a vector_offset");
                return Err(check.refuse("dge_mode", got, "unknown or swdge"));
            }
        }
        Ok(())
    }

    fn operand<'v>(&self, view: &'v View) -> Operand<'v> {
        Operand::from(view).out_of_bounds(self.out_of_bounds)
    }

    /// Whether a single dynamic offset lies outside its tensor and the transfer is therefore left out.
    fn is_skipped(&self, state: &mut State, view: &View) -> Result<bool> {
        let Some(Dynamic::Scalar { index, bound, .. }) = view.dynamic.as_deref() else { return Ok(false) };
        if self.out_of_bounds != OutOfBounds::Skip {
            return Ok(false);
        }
        let value = match index {
            ScalarIndex::Element(element) => match state.memory.scalar(element, state.site)? {
                Scalar::Int(value) => value,
                // Reported by the access itself.
                Scalar::Float(_) => return Ok(false),
            },
            ScalarIndex::Register(register) => match register.value.lock().map_or(None, |value| *value) {
                Some(value) => value,
                None => return Ok(false),
            },
        };
        if usize::try_from(value).is_ok_and(|value| value < *bound) {
            return Ok(false);
        }
        let tensor = view.storage.name.clone();
        let finding = Finding::OutOfBoundsSkipped { tensor, reader: state.site, index: value, count: 1 };
        let findings = state.memory.findings();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
        Ok(true)
    }

    fn mode(&self, arch: &ArchSpec, dst: &View, sources: &[&View]) -> DescriptorMode {
        let mut views = sources.iter().copied().chain([dst]);
        let equal = sources.iter().all(|source| source.dtype == dst.dtype);
        match self.mode {
            Some(mode) => mode,
            None if views.clone().any(picks_rows) => DescriptorMode::Software,
            None if !views.any(View::is_indirect) => DescriptorMode::Static,
            None if arch.hardware_dge > 0 && equal => DescriptorMode::Hardware,
            None => DescriptorMode::Software,
        }
    }
}

/// Every operand in HBM or SBUF; the message names the first two, as the vendor's does.
fn check_memories(check: &Check<'_>, dst: &View, source: &View) -> Result<()> {
    let (from, to) = (source.storage.buffer, dst.storage.buffer);
    if from == Buffer::Psum || to == Buffer::Psum {
        let got = format!("requires HBM or SBUF tensors, got src=MemoryRegion.{from}, dst=MemoryRegion.{to}");
        return Err(check.refuse("", got, "copy PSUM through a compute engine"));
    }
    Ok(())
}

fn check_counts(check: &Check<'_>, dst: &View, source: &View) -> Result<()> {
    if dst.len() == source.len() {
        return Ok(());
    }
    let got = "requires src and dst to have the same number of elements";
    let shapes = format!("src has shape {:?}, dst {:?}", &source.shape[..], &dst.shape[..]);
    Err(check.refuse("", got, shapes))
}

pub(super) fn check_partitions(check: &Check<'_>, name: &'static str, view: &View) -> Result<()> {
    let most = check.arch.partitions as usize;
    if view.is_on_chip() && view.partitions() > most {
        let got = format!("partition dimension {} exceeds maximum {most}", view.partitions());
        return Err(check.refuse(name, got, "split the tile along its partitions"));
    }
    Ok(())
}

/// Elements that follow one another without a gap, from the innermost axis on; a run ends with its partition and with a
/// picked row.
pub(super) fn run(view: &View) -> usize {
    let outer = usize::from(view.is_on_chip() || picks_rows(view));
    let mut run = 1;
    for axis in (outer..view.rank()).rev() {
        match view.shape[axis] {
            1 => {}
            length if view.strides[axis] == run as i64 => run *= length,
            _ => break,
        }
    }
    run
}

fn is_sbuf(view: &View) -> bool {
    view.storage.buffer == Buffer::Sbuf
}

/// The work of moving every source into `dst`. Rows are the partitions of the SBUF side; between HBM addresses one part
/// for each DMA engine **(choice)**. `pieces` are the contiguous pieces that descriptors follow.
pub(super) fn transfer(
    arch: &ArchSpec,
    options: &Options,
    dst: &View,
    sources: &[&View],
    pieces: usize,
    share: f64,
) -> Transfer {
    let from_hbm = sources.iter().any(|source| !is_sbuf(source));
    let (route, side) = match (from_hbm, is_sbuf(dst)) {
        (true, true) => (Route::Load, Some(dst)),
        (true, false) => (Route::Hbm, None),
        (false, true) => (Route::Sbuf, Some(dst)),
        (false, false) => (Route::Store, sources.iter().copied().find(|source| is_sbuf(source))),
    };
    // Equal parts of what may be smaller than the parts are many.
    let rows = side.map_or(arch.dma_engines as usize, View::partitions).min(dst.len()).max(1);
    let row_elements = dst.len().div_ceil(rows);
    let widest = sources.iter().map(|source| source.dtype.size()).chain([dst.dtype.size()]).max().unwrap_or(1);
    let bytes = |view: &View| (view.len() * view.dtype.size()) as u64;
    Transfer {
        trigger: None,
        mode: options.mode(arch, dst, sources),
        route,
        first_row: side.map_or(0, View::start_partition) as u64,
        rows: rows as u64,
        row_bytes: (row_elements * widest * sources.len().max(1)) as u64,
        row_descriptors: (row_elements.div_ceil(pieces.clamp(1, row_elements.max(1))) * sources.len().max(1)) as u64,
        rate_share: share,
        hbm_read: sources.iter().filter(|source| !is_sbuf(source)).map(|source| bytes(source)).sum(),
        hbm_write: if is_sbuf(dst) { 0 } else { bytes(dst) },
        priority: options.priority,
        ring: options.ring,
    }
}

/// True where a row of axis 0 is performed, for each element in C order.
fn element_mask(performed: &[bool], elements: usize) -> Vec<bool> {
    let row = elements / performed.len().max(1);
    performed.iter().flat_map(|performed| std::iter::repeat_n(*performed, row)).collect()
}

fn packed_mix(check: &Check<'_>, dst: &View, source: &View) -> Option<Error> {
    let mixed = (dst.dtype.is_packed() || source.dtype.is_packed()) && dst.dtype != source.dtype;
    mixed.then(|| {
        let got = format!("has dtype {} where src has {}", dst.dtype, source.dtype);
        check.refuse(
            "dst",
            got,
            "packed types are copied to themselves, or as words: uint32, for four of 4 bits uint16",
        )
    })
}
