//! The rules that every engine has for its operands: memories, partitions, sizes.

use crate::arch::ArchSpec;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::isa::ScalarOperand;
use crate::storage::Buffer;
use crate::view::{Dynamic, View, tuple_text};

/// Checks operands of one instruction; every refusal names the instruction and the operand.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The hardware.
    pub arch: &'a ArchSpec,
    /// The instruction, as `nki.isa` spells it.
    pub instruction: &'static str,
}

/// SBUF or PSUM.
pub const ON_CHIP: &[Buffer] = &[Buffer::Sbuf, Buffer::Psum];
/// SBUF alone.
pub const SBUF: &[Buffer] = &[Buffer::Sbuf];
/// PSUM alone.
pub const PSUM: &[Buffer] = &[Buffer::Psum];
/// HBM or SBUF: what DMA reaches.
pub const DMA: &[Buffer] = &[Buffer::Sbuf, Buffer::PrivateHbm, Buffer::SharedHbm];

/// Column indices of an `.indirect()` view.
pub fn column_index(view: &View) -> Option<&View> {
    match view.dynamic.as_deref() {
        Some(Dynamic::Columns { index, .. }) => Some(index),
        _ => None,
    }
}

/// Elements of a partition that a view touches: what it repeats counts once.
fn touched(view: &View) -> usize {
    let axes = view.shape.iter().zip(&view.strides).skip(1);
    axes.filter(|(_, stride)| **stride != 0).map(|(length, _)| length).product()
}

impl Check<'_> {
    /// A refusal by this instruction.
    pub fn refuse(&self, operand: &'static str, got: impl ToString, allowed: impl ToString) -> Error {
        Error::validation(self.instruction, operand, got, allowed)
    }

    /// The operand lies in one of the memories.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn memory(&self, operand: &'static str, view: &View, allowed: &[Buffer]) -> Result<()> {
        let buffer = view.storage.buffer;
        if allowed.contains(&buffer) {
            return Ok(());
        }
        let names: Vec<String> = allowed.iter().map(|buffer| format!("'{buffer}'")).collect();
        Err(self.refuse(
            operand,
            format!("must be in [{}], got {buffer}", names.join(", ")),
            "see the engine's memories",
        ))
    }

    /// An operand of a compute engine: on chip in one of the memories, at most all partitions, one after the other,
    /// starting where its size allows, and no longer than one instruction reaches.
    ///
    /// # Errors
    /// [`Error::Validation`] names the rule that is broken.
    pub fn tile(&self, operand: &'static str, view: &View, allowed: &[Buffer]) -> Result<()> {
        self.memory(operand, view, allowed)?;
        self.partitions(operand, view)?;
        self.consecutive(operand, view)?;
        self.start_partition(operand, view)?;
        let (elements, limit) = match view.storage.buffer {
            // The limit is counted in float32 words of a whole partition of PSUM: those touched, however often.
            Buffer::Psum => ((touched(view) * view.dtype.size()).div_ceil(4), self.arch.psum_operand_elements),
            _ => (view.free_size(), self.arch.sbuf_operand_elements),
        };
        if elements as u64 > limit {
            let got = format!("has {} elements per partition", view.free_size());
            return Err(self.refuse(operand, got, format!("at most {limit} in {}", view.storage.buffer)));
        }
        Ok(())
    }

    fn partitions(&self, operand: &'static str, view: &View) -> Result<()> {
        let most = self.arch.partitions as usize;
        if view.partitions() > most {
            let got = format!("partition dimension {} exceeds maximum {most}", view.partitions());
            return Err(self.refuse(operand, got, "split the tile along its partitions"));
        }
        Ok(())
    }

    /// Engines reach partitions that follow one another; DMA alone steps over some.
    fn consecutive(&self, operand: &'static str, view: &View) -> Result<()> {
        if view.partitions() < 2 || view.partition_step() == 1 {
            return Ok(());
        }
        let got = format!("takes every {}th partition", view.partition_step());
        Err(self.refuse(operand, got, "consecutive partitions; dma_copy moves others together"))
    }

    /// The rule for where a tile of so many partitions may start: 0 for more than half of them, a multiple of half for
    /// more than a quarter, a multiple of a quarter otherwise.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn start_partition(&self, operand: &'static str, view: &View) -> Result<()> {
        let all = self.arch.partitions as usize;
        let quadrant = self.arch.quadrant_partitions as usize;
        let (start, count) = (view.start_partition(), view.partitions());
        let grain = if count > all / 2 {
            all
        } else if count > quadrant {
            all / 2
        } else {
            quadrant
        };
        if start % grain == 0 && start + count <= all {
            return Ok(());
        }
        let starts: Vec<String> = (0..all).step_by(grain).map(|start| start.to_string()).collect();
        let got = format!("starts at partition {start} with {count} partitions");
        Err(self.refuse(operand, got, format!("a tile of {count} partitions starts at {}", starts.join(", "))))
    }

    /// Two operands have the same number of partitions.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn same_partitions(&self, operand: &'static str, view: &View, other: &'static str, like: &View) -> Result<()> {
        if view.partitions() == like.partitions() {
            return Ok(());
        }
        let got = format!("has {} partitions, {other} has {}", view.partitions(), like.partitions());
        Err(self.refuse(operand, got, format!("both need the same number{}", of_a_row(view, like))))
    }

    /// Two operands have the same partitions and as many elements in each; their free axes may differ.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn same_tile(&self, operand: &'static str, view: &View, other: &'static str, like: &View) -> Result<()> {
        self.same_partitions(operand, view, other, like)?;
        if view.free_size() == like.free_size() {
            return Ok(());
        }
        let got = format!(
            "has {} elements per partition (shape {:?}), {other} has {} (shape {:?})",
            view.free_size(),
            &view.shape[..],
            like.free_size(),
            &like.shape[..]
        );
        Err(self.refuse(operand, got, "both need the same number"))
    }

    /// One value per partition: shape [P, 1] in SBUF or PSUM, P that of the tile.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn vector(&self, operand: &'static str, view: &View, tile: &View) -> Result<()> {
        self.tile(operand, view, ON_CHIP)?;
        if view.free_size() != 1 || view.partitions() != tile.partitions() {
            let got = format!("has shape {:?}", &view.shape[..]);
            let allowed = format!("a scalar or a tile of shape [{}, 1]{}", tile.partitions(), of_a_row(view, tile));
            return Err(self.refuse(operand, got, allowed));
        }
        Ok(())
    }

    /// Two inputs of one instruction may not both lie in PSUM.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn not_both_psum(&self, first: &'static str, one: &View, second: &'static str, two: &View) -> Result<()> {
        if one.storage.buffer == Buffer::Psum && two.storage.buffer == Buffer::Psum {
            return Err(self.refuse(
                first,
                format!("and {second} are both in PSUM"),
                "at most one of them; copy one to SBUF",
            ));
        }
        Ok(())
    }

    /// The element type is not a packed one, which arithmetic cannot read.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn unpacked(&self, operand: &'static str, view: &View) -> Result<()> {
        if view.dtype.is_packed() {
            return Err(self.refuse(operand, format!("has dtype {}", view.dtype), "an unpacked dtype"));
        }
        Ok(())
    }

    /// The generation has the instruction or form.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn generation(&self, operand: &'static str, least: u64) -> Result<()> {
        if self.arch.generation < least {
            let got = format!("on {} (gen{})", self.arch.name, self.arch.generation);
            return Err(self.refuse(operand, got, format!("available from gen{least} on")));
        }
        Ok(())
    }

    /// `.indirect()` views are for gen4 and for the operands that take them.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn no_columns(&self, operand: &'static str, view: &View) -> Result<()> {
        if column_index(view).is_some() {
            return Err(self.refuse(operand, "is an indirect view", "this operand takes no .indirect()"));
        }
        Ok(())
    }

    /// The element type is one that engines compute with: not packed, no block scale.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn arithmetic(&self, operand: &'static str, view: &View) -> Result<()> {
        self.unpacked(operand, view)?;
        if view.dtype == DType::Float8E8M0Fnu {
            return Err(self.refuse(
                operand,
                "has dtype float8_e8m0fnu, a block scale",
                "an integer or floating-point dtype",
            ));
        }
        Ok(())
    }

    /// The element type is one of these.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn dtype(&self, operand: &'static str, view: &View, allowed: &[DType]) -> Result<()> {
        if allowed.contains(&view.dtype) {
            return Ok(());
        }
        let names: Vec<&str> = allowed.iter().map(|dtype| dtype.name()).collect();
        Err(self.refuse(operand, format!("has dtype {}", view.dtype), format!("allowed: {}", names.join(", "))))
    }

    /// The element type is a floating-point one that engines compute with.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn float(&self, operand: &'static str, view: &View) -> Result<()> {
        if view.dtype.is_float() {
            return Ok(());
        }
        Err(self.refuse(operand, format!("has dtype {}", view.dtype), "a floating-point dtype"))
    }

    /// The element type is an integer one.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn integer(&self, operand: &'static str, view: &View) -> Result<()> {
        if view.dtype.is_integer() {
            return Ok(());
        }
        Err(self.refuse(operand, format!("has dtype {}", view.dtype), "an integer dtype: bit patterns are not cast"))
    }

    /// The element types of two operands are one.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn same_dtype(&self, operand: &'static str, view: &View, other: &'static str, like: &View) -> Result<()> {
        if view.dtype == like.dtype {
            return Ok(());
        }
        let got = format!("has dtype {}, {other} has {}", view.dtype, like.dtype);
        Err(self.refuse(operand, got, "both need the same"))
    }

    /// Nothing, a number, or one float32 value per partition of `tile`.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn float32_scalar(&self, operand: &'static str, scalar: &ScalarOperand, tile: &View) -> Result<()> {
        let Some(view) = scalar.view() else { return Ok(()) };
        self.vector(operand, view, tile)?;
        self.no_columns(operand, view)?;
        self.dtype(operand, view, &[DType::Float32])
    }

    /// So many elements in each partition.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn free_size(&self, operand: &'static str, view: &View, needed: usize) -> Result<()> {
        if view.free_size() == needed {
            return Ok(());
        }
        let got = format!("has {} elements per partition (shape {:?})", view.free_size(), &view.shape[..]);
        Err(self.refuse(operand, got, format!("{needed} elements per partition")))
    }

    /// An input that may be an `.indirect()` view: gen4, its indices on a quadrant's first partition, which is also its
    /// own.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn gathered(&self, operand: &'static str, view: &View) -> Result<()> {
        let Some(index) = self.index_start(operand, view)? else { return Ok(()) };
        if index != view.start_partition() {
            let got = format!("starts at partition {}, its index at {index}", view.start_partition());
            return Err(self.refuse(operand, got, "an indirect input starts on the same partition as its index"));
        }
        Ok(())
    }

    /// A result that may be an `.indirect()` view: gen4, its indices where `input` starts; where that is an indirect
    /// view of PSUM, where its indices start.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn scattered(&self, operand: &'static str, view: &View, input: &View) -> Result<()> {
        let Some(index) = self.index_start(operand, view)? else { return Ok(()) };
        let start = match column_index(input) {
            Some(input_index) if input.storage.buffer == Buffer::Psum => input_index.start_partition(),
            _ => input.start_partition(),
        };
        if index != start {
            let got = format!("has its index at partition {index}, the input starts at {start}");
            return Err(self.refuse(operand, got, "an indirect result's index starts on the input's partition"));
        }
        Ok(())
    }

    /// Where the column indices of an `.indirect()` view start.
    fn index_start(&self, operand: &'static str, view: &View) -> Result<Option<usize>> {
        let Some(index) = column_index(view) else { return Ok(None) };
        if self.arch.generation < 4 {
            let got = format!("is an indirect view on {} (gen{})", self.arch.name, self.arch.generation);
            return Err(self.refuse(operand, got, ".indirect() is available from gen4 on"));
        }
        let start = index.start_partition();
        if !start.is_multiple_of(self.arch.quadrant_partitions as usize) {
            let got = format!("has its index at partition {start}");
            let allowed = format!("indices start at a multiple of {}", self.arch.quadrant_partitions);
            return Err(self.refuse(operand, got, allowed));
        }
        Ok(Some(start))
    }

    /// ScalarE cannot scatter into PSUM.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn no_psum_scatter(&self, operand: &'static str, view: &View) -> Result<()> {
        if column_index(view).is_some() && view.storage.buffer == Buffer::Psum {
            return Err(self.refuse(operand, "is an indirect view in psum", "ScalarE scatters into sbuf alone"));
        }
        Ok(())
    }
}
/// What a kernel writes where a row is given and every partition needs one.
fn of_a_row(view: &View, tile: &View) -> String {
    if view.partitions() != 1 || tile.partitions() == 1 || view.free_size() != tile.free_size() {
        return String::new();
    }
    let shape = tuple_text(&tile.shape);
    match &view.storage.name[..] {
        "" => format!("; nl.broadcast_to(row, {shape}) repeats a row in every partition"),
        name => format!("; nl.broadcast_to({name}, {shape}) repeats the row in every partition"),
    }
}
