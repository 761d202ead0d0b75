//! dma_transpose: the first and the last axis exchanged on the way into SBUF.

use super::Options;
use crate::arch::ArchSpec;
use crate::check::{Check, DMA, SBUF};
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::turn::turn;
use crate::isa::{Instruction, OperandRole};
use crate::memory::OutOfBounds;
use crate::state::State;
use crate::timing::work::{DescriptorMode, Work};
use crate::view::View;

/// Rows that the engines turn together.
const BLOCK_ROWS: usize = 16;

/// `dma_transpose(dst, src, axes, ...)`: 2-D (1, 0), 3-D (2, 1, 0), 4-D (3, 1, 2, 0).
///
/// With rows picked by an index tile the transpose of the gathered rows; indices of several columns are taken column by
/// column. Rows skipped leave what they would have written.
#[derive(Debug)]
pub struct DmaTranspose {
    /// In SBUF, of the permuted shape.
    pub dst: View,
    /// In HBM or SBUF.
    pub src: View,
    /// The permutation; None: the one of its rank.
    pub axes: Option<Vec<usize>>,
    /// Class of service, descriptors, bounds.
    pub options: Options,
}

fn permutation(rank: usize) -> Option<&'static [usize]> {
    match rank {
        2 => Some(&[1, 0]),
        3 => Some(&[2, 1, 0]),
        4 => Some(&[3, 1, 2, 0]),
        _ => None,
    }
}

impl DmaTranspose {
    fn check_form(&self, check: &Check<'_>) -> Result<()> {
        let src = &self.src;
        let shape = || format!("has shape {:?}", &src.shape[..]);
        let (first, last) = (src.shape[0], src.shape[src.rank() - 1]);
        let size = src.dtype.size();
        let indirect = super::picks_rows(src);
        if indirect {
            check.generation("src vector_offset", 3)?;
        }
        let generated = indirect || self.options.mode == Some(DescriptorMode::Hardware);
        let form = if indirect { "with vector_offset" } else { "with dge_mode hwdge" };
        if !generated {
            if size != 2 && size != 4 {
                return Err(check.refuse("src", format!("has dtype {}", src.dtype), "a dtype of 2 or 4 bytes"));
            }
            return Ok(());
        }
        if size != 2 {
            return Err(check.refuse("src", format!("has dtype {}", src.dtype), format!("a dtype of 2 bytes {form}")));
        }
        if last > check.arch.partitions as usize {
            let allowed = format!("at most {} in the last axis {form}", check.arch.partitions);
            return Err(check.refuse("src", shape(), allowed));
        }
        if indirect {
            return self.check_indices(check, first);
        }
        let allowed = match src.rank() {
            2 if first == BLOCK_ROWS => return Ok(()),
            2 => format!("{BLOCK_ROWS} rows {form}"),
            rank => {
                let before_last = src.shape[rank - 2];
                if first <= BLOCK_ROWS && first.is_power_of_two() && (first * before_last).is_multiple_of(BLOCK_ROWS) {
                    return Ok(());
                }
                format!("shape[0] 1, 2, 4, 8 or 16 and shape[0] * shape[-2] a multiple of {BLOCK_ROWS} {form}")
            }
        };
        Err(check.refuse("src", shape(), allowed))
    }

    fn check_indices(&self, check: &Check<'_>, rows: usize) -> Result<()> {
        let src = &self.src;
        if src.rank() == 4 && src.shape[1] != 1 && src.shape[2] != 1 {
            let got = format!("has shape {:?}", &src.shape[..]);
            return Err(check.refuse("src", got, "shape[1] or shape[2] of 1 with vector_offset"));
        }
        if !rows.is_multiple_of(BLOCK_ROWS) {
            let got = format!("has {rows} rows");
            return Err(check.refuse("src", got, format!("a multiple of {BLOCK_ROWS} with vector_offset")));
        }
        let Some(index) = src.index_view() else { return Ok(()) };
        let (partitions, columns) = (index.partitions(), index.free_size());
        let all = check.arch.partitions as usize;
        let fits = (BLOCK_ROWS..=all).contains(&partitions) && partitions.is_multiple_of(BLOCK_ROWS);
        if index.rank() != 2 || !fits || (columns > 1 && partitions != all) {
            let got = format!("has shape {:?}", &index.shape[..]);
            let allowed =
                format!("2-D, {BLOCK_ROWS} to {all} partitions in steps of {BLOCK_ROWS}, {all} for several columns");
            return Err(check.refuse("vector_offset", got, allowed));
        }
        if index.len() < rows {
            let got = format!("has {} indices", index.len());
            return Err(check.refuse("vector_offset", got, format!("at least the {rows} rows of src")));
        }
        Ok(())
    }
}

impl Instruction for DmaTranspose {
    fn name(&self) -> &'static str {
        "dma_transpose"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Dma
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        super::check_memories(&check, &self.dst, &self.src)?;
        check.memory("dst", &self.dst, SBUF)?;
        check.memory("src", &self.src, DMA)?;
        let Some(axes) = permutation(self.src.rank()) else {
            let got = format!("has shape {:?}", &self.src.shape[..]);
            return Err(check.refuse("src", got, "2, 3 or 4 axes"));
        };
        if let Some(came) = self.axes.as_ref().filter(|came| came.as_slice() != axes) {
            return Err(check.refuse("axes", format!("is {came:?}"), format!("{axes:?} for {} axes", axes.len())));
        }
        if self.dst.dtype != self.src.dtype {
            let got = format!("has dtype {}", self.dst.dtype);
            return Err(check.refuse("dst", got, format!("that of src, {}", self.src.dtype)));
        }
        let wanted: Vec<usize> = axes.iter().map(|&axis| self.src.shape[axis]).collect();
        if self.dst.shape[..] != wanted[..] {
            let got = format!("has shape {:?}", &self.dst.shape[..]);
            return Err(check.refuse("dst", got, format!("{wanted:?}, src's permuted")));
        }
        super::check_partitions(&check, "dst", &self.dst)?;
        super::check_partitions(&check, "src", &self.src)?;
        self.options.check(&check, &[("dst", &self.dst), ("src", &self.src)])?;
        if self.dst.is_indirect() && super::picks_rows(&self.dst) {
            return Err(check.refuse("dst", "has a vector_offset", "src alone may have one"));
        }
        if self.options.out_of_bounds == OutOfBounds::Skip && !self.src.is_indirect() {
            return Err(check.refuse("oob_mode", "is skip with static addresses of src", "error, or a dynamic src"));
        }
        self.check_form(&check)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let share = if super::is_sbuf(&self.src) { arch.dma_transpose_share_sbuf } else { arch.dma_transpose_share };
        // Elements are turned inside the engines: descriptors follow the pieces of the destination **(choice)**.
        let pieces = super::run(&self.dst);
        Work::Dma(super::transfer(arch, &self.options, &self.dst, &[&self.src], pieces, share))
    }

    fn out_of_bounds(&self) -> OutOfBounds {
        self.options.out_of_bounds
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if self.options.is_skipped(state, &self.src)? {
            return Ok(());
        }
        let src = self.options.operand(&self.src);
        let mut bits = Vec::new();
        state.memory.read_words(src, &mut bits, state.site)?;
        let shape = &self.src.shape;
        let (first, last) = (shape[0], shape[shape.len() - 1]);
        let middle = bits.len() / (first * last).max(1);
        let mut turned = Vec::new();
        turn(&bits, [first, middle, last], &mut turned)?;
        match state.memory.performed_rows(src)? {
            None => state.memory.write_words(&self.dst, &turned, self.src.dtype, None),
            Some(rows) => {
                let mask: Vec<bool> = (0..turned.len()).map(|element| rows[element % first]).collect();
                state.memory.write_words(&self.dst, &turned, self.src.dtype, Some(&mask))
            }
        }
    }
}
