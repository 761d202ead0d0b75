//! Operands lent to the arithmetic core as arrays, where they lie if that is possible.

use trn3_numerics::{ArrayView, Format};

use super::convert::TF32_BITS;
use super::resolve::{Columns, Operand, Rows};
use super::tile::codes_of;
use super::{Memory, hbm, lines};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::Shortage;
use crate::view::View;

impl Memory {
    /// Lends a tile as an array of the arithmetic core, of the view's shape, its bytes where they lie if all are
    /// initialised. Packed 8-bit types have one more axis of 4; so has float4, unpacked. Arrays of a
    /// [`Operand::transposed`] have their last two axes exchanged.
    ///
    /// # Errors
    /// [`Error::Type`] for integers; [`Error::Value`] for transposing fewer than two axes; else as
    /// [`Memory::read_f32`].
    pub fn with_array<'v, R>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        reader: SiteId,
        work: impl FnOnce(ArrayView<'_>) -> R,
    ) -> Result<R> {
        let operand = operand.into();
        let lent = self.lend(operand, true, reader)?;
        match (&lent.gathered, operand.view.storage.buffer.is_on_chip()) {
            (None, false) => {
                let contents = hbm::lock(&operand.view.storage, self.layer)?;
                Ok(work(lent.array(&contents.bytes)?))
            }
            _ => Ok(work(lent.array(self.on_chip_bytes(operand.view.storage.buffer))?)),
        }
    }

    /// As [`Memory::with_array`] for two tiles at once; those in HBM are gathered.
    ///
    /// # Errors
    /// As [`Memory::with_array`].
    pub fn with_arrays<'a, 'b, R>(
        &mut self,
        first: impl Into<Operand<'a>>,
        second: impl Into<Operand<'b>>,
        reader: SiteId,
        work: impl FnOnce(ArrayView<'_>, ArrayView<'_>) -> R,
    ) -> Result<R> {
        let (first, second) = (first.into(), second.into());
        let lent = (self.lend(first, false, reader)?, self.lend(second, false, reader)?);
        let bytes = |operand: Operand<'_>| self.on_chip_bytes(operand.view.storage.buffer);
        Ok(work(lent.0.array(bytes(first))?, lent.1.array(bytes(second))?))
    }

    /// The values beside the bytes, as float32.
    fn lend_exact(&mut self, operand: Operand<'_>, reader: SiteId) -> Result<Lent> {
        let mut values = Vec::new();
        self.read_f32(operand, &mut values, reader)?;
        let words = values.iter().map(|value| value.to_bits()).collect();
        let mut shape = operand.view.shape.to_vec();
        let mut strides = vec![size_of::<f32>() as isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as isize;
        }
        if operand.transposed {
            exchange(operand.view, &mut shape, &mut strides)?;
        }
        Ok(Lent { format: Format::F32, origin: 0, shape, strides, gathered: Some(words) })
    }

    fn lend(&mut self, operand: Operand<'_>, from_hbm: bool, reader: SiteId) -> Result<Lent> {
        let view = operand.view;
        let Some(format) = view.dtype.format() else {
            return Err(Error::Type(format!("dtype is {}; a floating-point type is needed", view.dtype)));
        };
        let place = self.resolve(operand, reader)?;
        if self.keeps_exact(view.dtype) {
            return self.lend_exact(operand, reader);
        }
        let missing = self.check_read(&place, view, reader)?;
        let mut shape = view.shape.to_vec();
        let item = place.item as isize;
        // Half bytes have no address, and low bits of a tfloat32 may hold anything.
        let is_plain = !matches!(view.dtype, DType::Float4E2M1FnX4 | DType::TFloat32);
        let origin = match (&place.rows, &place.columns) {
            (Rows::Regular { first, .. }, Columns::Regular(_)) => Some(*first),
            _ => None,
        };
        let mut lent = match origin {
            Some(origin) if missing.is_empty() && is_plain && (from_hbm || view.storage.buffer.is_on_chip()) => {
                let mut strides: Vec<isize> =
                    view.strides.iter().map(|&stride| (stride as isize).wrapping_mul(item)).collect();
                if let (Some(first), Rows::Regular { stride, .. }, true) =
                    (strides.first_mut(), &place.rows, view.storage.buffer.is_on_chip())
                {
                    *first = *stride;
                }
                Lent { format, origin, shape: Vec::new(), strides, gathered: None }
            }
            _ => {
                let count = (place.len() * place.item).div_ceil(size_of::<u32>());
                let words = bytemuck::allocation::try_zeroed_vec(count);
                let short = |()| hbm::short(&view.storage, Shortage::Host { bytes: 4 * count as u64 });
                let mut words: Vec<u32> = words.map_err(short)?;
                let codes = codes_of(&mut words, place.len() * place.item);
                self.with_bytes(&view.storage, |bytes| lines::gather(bytes, &place, codes))?;
                missing.patch(codes, view);
                if view.dtype == DType::TFloat32 {
                    words.iter_mut().for_each(|word| *word &= TF32_BITS);
                }
                let mut strides = vec![item; shape.len()];
                for axis in (1..shape.len()).rev() {
                    strides[axis - 1] = strides[axis] * shape[axis] as isize;
                }
                Lent { format, origin: 0, shape: Vec::new(), strides, gathered: Some(words) }
            }
        };
        if operand.transposed {
            exchange(view, &mut shape, &mut lent.strides)?;
        }
        if view.dtype == DType::Float4E2M1FnX4 {
            lent.unpack_nibbles();
        }
        if view.dtype.is_packed() {
            shape.push(4);
            lent.strides.push(1);
        }
        lent.shape = shape;
        Ok(lent)
    }
}

/// Exchanges the last two axes.
fn exchange(view: &View, shape: &mut [usize], strides: &mut [isize]) -> Result<()> {
    let rank = shape.len();
    if rank < 2 {
        let name = &view.storage.name;
        return Err(Error::Value(format!("a view of `{name}` has shape {shape:?}; two axes are exchanged")));
    }
    shape.swap(rank - 2, rank - 1);
    strides.swap(rank - 2, rank - 1);
    Ok(())
}

/// An array on its way to the arithmetic core.
struct Lent {
    format: Format,
    origin: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    /// Its codes, where they cannot be lent from the memory.
    gathered: Option<Vec<u32>>,
}

impl Lent {
    fn array<'a>(&'a self, memory: &'a [u8]) -> Result<ArrayView<'a>> {
        let bytes = self.gathered.as_deref().map_or(memory, bytemuck::cast_slice);
        Ok(ArrayView::strided(self.format, bytes, self.origin, &self.shape, &self.strides, false)?)
    }

    /// Gathered words of four half bytes become bytes.
    fn unpack_nibbles(&mut self) {
        if let Some(words) = &mut self.gathered {
            let packed: &[u8] = bytemuck::cast_slice(words);
            let nibbles: Vec<u8> = packed.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect();
            *words = nibbles.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            self.strides.iter_mut().for_each(|stride| *stride *= 2);
        }
    }
}
