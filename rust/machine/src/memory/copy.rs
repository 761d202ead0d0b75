//! Copies of bit patterns from operand to operand.

use std::ops::Range;

use trn3_numerics::CastOptions;

use super::resolve::{Operand, Resolved, Rows};
use super::tile::codes_of;
use super::{Memory, convert, hbm, lines};
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::Buffer;
use crate::view::View;

impl Memory {
    /// Copies elements of equal size, whatever their types, in C order; shapes may differ. All is read before anything
    /// is written. Rows left out of the source leave the destination as it is.
    ///
    /// # Errors
    /// [`Error::Value`] when sizes or numbers of elements differ; else as [`Memory::read_bits`].
    pub fn copy_bits<'d, 's>(
        &mut self,
        to: impl Into<Operand<'d>>,
        from: impl Into<Operand<'s>>,
        reader: SiteId,
    ) -> Result<()> {
        let (to, from) = (to.into(), from.into());
        let (target, source) = self.resolve_alike(to, from, reader)?;
        let missing = self.check_read(&source, from.view, reader)?;
        let is_whole = missing.is_empty() && source.performed().is_none();
        let is_alike = to.view.dtype == from.view.dtype;
        let exact = if is_alike { self.exact_values(&source, from.view)? } else { Vec::new() };
        if is_whole && self.copy_runs(&target, &source, to.view, from.view)? {
            return self.keep_exact(&target, to.view, |element| exact.get(element).copied().flatten());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let codes = codes_of(&mut scratch, source.len() * source.item);
        self.with_bytes(&from.view.storage, |bytes| lines::gather(bytes, &source, codes))?;
        missing.patch(codes, from.view);
        match source.performed() {
            None => self.store(&target, &to.view.storage, codes)?,
            Some(rows) => {
                let row = source.row_len();
                let mask: Vec<bool> = rows.into_iter().flat_map(|row_is| std::iter::repeat_n(row_is, row)).collect();
                self.store_where(&target, &to.view.storage, codes, &mask)?;
            }
        }
        self.scratch = scratch;
        self.keep_exact(&target, to.view, |element| exact.get(element).copied().flatten())
    }

    /// Copies elements as [`Memory::copy_bits`] where `keep` is true; elsewhere each row has its value of `otherwise`,
    /// rounded as by [`Memory::write_f32`].
    ///
    /// # Errors
    /// As [`Memory::copy_bits`] and [`Memory::write_f32`]; [`Error::Value`] for a mask of another length, or other than
    /// one value a row.
    pub fn select_bits<'d, 's>(
        &mut self,
        to: impl Into<Operand<'d>>,
        from: impl Into<Operand<'s>>,
        keep: &[bool],
        otherwise: &[f32],
        reader: SiteId,
    ) -> Result<()> {
        let (to, from) = (to.into(), from.into());
        let (dtype, item) = (to.view.dtype, to.view.dtype.size());
        let (target, source) = self.resolve_alike(to, from, reader)?;
        let row = target.row_len();
        if keep.len() != target.len() || otherwise.len() * row != target.len() {
            let (mask, rows, count) = (keep.len(), otherwise.len(), target.len());
            return Err(Error::Value(format!("mask of {mask}, values for {rows} rows: {count} elements need others")));
        }
        let mut fill = vec![0; otherwise.len() * item];
        convert::encode(dtype, otherwise, &mut fill, CastOptions::default())?;
        let missing = self.check_read(&source, from.view, reader)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let codes = codes_of(&mut scratch, source.len() * item);
        self.with_bytes(&from.view.storage, |bytes| lines::gather(bytes, &source, codes))?;
        missing.patch(codes, from.view);
        match item {
            1 => replace::<1>(codes, keep, &fill, row),
            2 => replace::<2>(codes, keep, &fill, row),
            _ => replace::<4>(codes, keep, &fill, row),
        }
        self.store(&target, &to.view.storage, codes)?;
        self.scratch = scratch;
        Ok(())
    }

    /// Two operands of as many elements of equal size.
    fn resolve_alike(&mut self, to: Operand<'_>, from: Operand<'_>, reader: SiteId) -> Result<(Resolved, Resolved)> {
        let target = self.resolve(to, reader)?;
        let source = self.resolve(from, reader)?;
        if (target.item, target.len()) != (source.item, source.len()) {
            return Err(Error::Value(format!(
                "copy of {} elements of {} bytes from `{}` to {} elements of {} bytes of `{}`; they must be alike",
                source.len(),
                source.item,
                from.view.storage.name,
                target.len(),
                target.item,
                to.view.storage.name
            )));
        }
        Ok((target, source))
    }

    /// Copies row by row where each row is one run on both sides and no bytes are both read and written.
    fn copy_runs(&mut self, target: &Resolved, source: &Resolved, to: &View, from: &View) -> Result<bool> {
        let (Some(target_runs), Some(source_runs)) = (target.runs(), source.runs()) else { return Ok(false) };
        let (to_first, to_count, to_stride, to_bytes) = target_runs;
        let (from_first, from_count, from_stride, from_bytes) = source_runs;
        // One run may face many rows: the shorter pieces are copied.
        let piece = to_bytes.min(from_bytes);
        if piece == 0 || to_bytes.max(from_bytes) % piece != 0 {
            return Ok(to_bytes == 0 && from_bytes == 0);
        }
        let is_split = |bytes: usize, count: usize| bytes == piece || count == 1;
        if !is_split(to_bytes, to_count) || !is_split(from_bytes, from_count) {
            return Ok(false);
        }
        let step = |bytes: usize, stride: isize| if bytes == piece { stride } else { piece as isize };
        let (to_step, from_step) = (step(to_bytes, to_stride), step(from_bytes, from_stride));
        let count = to_count * to_bytes / piece;
        let at = |first: usize, step: isize, index: usize| (first as isize + index as isize * step) as usize;
        let each = |index: usize| (at(to_first, to_step, index), at(from_first, from_step, index));
        let layer = self.layer;
        match (to.storage.buffer, from.storage.buffer) {
            (Buffer::Sbuf, Buffer::Psum) | (Buffer::Psum, Buffer::Sbuf) => {
                let (sbuf, psum) = (&mut self.sbuf, &mut self.psum);
                sbuf.touch()?;
                psum.touch()?;
                let (out, bytes) = match to.storage.buffer {
                    Buffer::Sbuf => (sbuf.bytes_mut(), psum.bytes()),
                    _ => (psum.bytes_mut(), sbuf.bytes()),
                };
                (0..count).map(each).for_each(|(to, from)| {
                    out[to..to + piece].copy_from_slice(&bytes[from..from + piece]);
                });
            }
            (to_buffer, from_buffer) if to_buffer == from_buffer && to_buffer.is_on_chip() => {
                if count > 1 && overlap(target, source, to_bytes, from_bytes) {
                    return Ok(false);
                }
                self.with_bytes_mut(&to.storage, target, |bytes| {
                    (0..count).map(each).for_each(|(to, from)| bytes.copy_within(from..from + piece, to));
                })?;
            }
            (to_buffer, from_buffer) if to_buffer.is_on_chip() != from_buffer.is_on_chip() => {
                let (chip, tensor) = if to_buffer.is_on_chip() { (to_buffer, from) } else { (from_buffer, to) };
                if chip == from_buffer {
                    self.claim(target, &to.storage, None)?;
                }
                let Some(memory) = self.on_chip_mut(chip) else { return Ok(false) };
                memory.touch()?;
                let mut contents = hbm::lock(&tensor.storage, layer)?;
                let size = tensor.storage.byte_size();
                let had = match to_buffer.is_on_chip() {
                    true => hbm::touch(&mut contents, size),
                    false => hbm::claim(&mut contents, target, size),
                };
                had.map_err(|shortage| hbm::short(&tensor.storage, shortage))?;
                (0..count).map(each).for_each(|(to, from)| match to_buffer.is_on_chip() {
                    true => memory.bytes_mut()[to..to + piece].copy_from_slice(&contents.bytes[from..from + piece]),
                    false => contents.bytes[to..to + piece].copy_from_slice(&memory.bytes()[from..from + piece]),
                });
            }
            _ => return Ok(false),
        }
        self.mark_initialised(target, &to.storage, true)?;
        Ok(true)
    }
}

/// Puts the row's code at each element that is not kept.
fn replace<const N: usize>(codes: &mut [u8], keep: &[bool], fill: &[u8], row: usize) {
    let rows = codes.as_chunks_mut::<N>().0.chunks_exact_mut(row.max(1)).zip(keep.chunks_exact(row.max(1)));
    for ((codes, keep), fill) in rows.zip(fill.as_chunks::<N>().0) {
        for (code, keep) in codes.iter_mut().zip(keep) {
            *code = if *keep { *code } else { *fill };
        }
    }
}

/// Whether the rectangles that two operands of one memory span have bytes in common.
fn overlap(one: &Resolved, other: &Resolved, one_bytes: usize, other_bytes: usize) -> bool {
    let rectangle = |place: &Resolved, bytes: usize| match place.rows {
        Rows::Regular { first, count, stride } => {
            let last = (first as isize + (count as isize - 1) * stride) as usize;
            let (low, high) = (first.min(last), first.max(last));
            (low / place.pitch..high / place.pitch + 1, first % place.pitch..first % place.pitch + bytes)
        }
        Rows::Listed(_) => (0..usize::MAX, 0..usize::MAX),
    };
    let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    let (one, other) = (rectangle(one, one_bytes), rectangle(other, other_bytes));
    meet(&one.0, &other.0) && meet(&one.1, &other.1)
}
