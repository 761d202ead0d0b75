//! Values of operands, read and written. All tiles are C-order, the shape being the view's.

use std::sync::Arc;

use trn3_numerics::CastOptions;

use super::resolve::{Operand, Resolved};
use super::{Memory, bits, convert, hbm, lines};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::{Shortage, Storage};

/// The value of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Of an integer type, bool included.
    Int(i64),
    /// Of every other type.
    Float(f32),
}

impl Memory {
    /// Reads a tile as float32, in C order: integers above 2^24 are rounded to nearest even, bool is 0 or 1, a block
    /// scale is its power of two. Elements of rows left out are 0. `out` is replaced.
    ///
    /// # Errors
    /// [`Error::Type`] for packed types; [`Error::OutOfBounds`]; [`Error::Uninitialised`] in a strict run;
    /// [`Error::SkippedValue`] in a timing-only run whose tile is unknown.
    pub fn read_f32<'v>(&mut self, operand: impl Into<Operand<'v>>, out: &mut Vec<f32>, reader: SiteId) -> Result<()> {
        let operand = operand.into();
        let view = operand.view;
        convert::check_unpacked(view.dtype)?;
        let place = self.resolve(operand, reader)?;
        let missing = self.check_read(&place, view, reader)?;
        out.resize(place.len(), 0.0);
        if place.performed().is_some() {
            out.fill(0.0);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = self.with_bytes(&view.storage, |bytes| {
            if convert::decodes_in_bulk(view.dtype, out.len()) {
                let codes = codes_of(&mut scratch, out.len() * place.item);
                if place.performed().is_some() {
                    codes.fill(0);
                }
                lines::gather(bytes, &place, codes);
                return convert::decode(view.dtype, codes, out);
            }
            convert::read(view.dtype, bytes, &place, out);
            Ok(())
        });
        self.scratch = scratch;
        done??;
        self.each_exact(&place, view, |element, value| out[element] = value as f32)?;
        missing.fill(out, convert::unwritten_value(view));
        Ok(())
    }

    /// Reads a tile as bit patterns, zero-extended, in C order. Elements of rows left out are 0. `out` is replaced.
    ///
    /// # Errors
    /// As [`Memory::read_f32`], but for the type.
    pub fn read_bits<'v>(&mut self, operand: impl Into<Operand<'v>>, out: &mut Vec<u32>, reader: SiteId) -> Result<()> {
        let operand = operand.into();
        let view = operand.view;
        let place = self.resolve(operand, reader)?;
        let missing = self.check_read(&place, view, reader)?;
        out.resize(place.len(), 0);
        if place.performed().is_some() {
            out.fill(0);
        }
        self.with_bytes(&view.storage, |bytes| match place.item {
            1 => lines::read(bytes, &place, out, |[byte]: [u8; 1]| u32::from(byte)),
            2 => lines::read(bytes, &place, out, |code: [u8; 2]| u32::from(u16::from_le_bytes(code))),
            _ => lines::read(bytes, &place, out, u32::from_le_bytes),
        })?;
        missing.fill(out, convert::unwritten(view));
        Ok(())
    }

    /// The elements of a tensor in C order, as bytes of its type. Elements of rows left out are 0.
    ///
    /// # Errors
    /// As [`Memory::read_bits`].
    pub fn read_bytes<'v>(&mut self, operand: impl Into<Operand<'v>>, reader: SiteId) -> Result<Vec<u8>> {
        let operand = operand.into();
        let view = operand.view;
        let place = self.resolve(operand, reader)?;
        let missing = self.check_read(&place, view, reader)?;
        let needed = place.len() * place.item;
        self.check_host(&view.storage.name, &view.shape, view.dtype, needed)?;
        let codes = bytemuck::allocation::try_zeroed_vec(needed);
        let mut codes: Vec<u8> =
            codes.map_err(|()| hbm::short(&view.storage, Shortage::Host { bytes: needed as u64 }))?;
        self.with_bytes(&view.storage, |bytes| lines::gather(bytes, &place, &mut codes))?;
        missing.patch(&mut codes, view);
        Ok(codes)
    }

    /// Writes elements in C order from bytes of their type.
    ///
    /// # Errors
    /// [`Error::Value`] for another number of bytes; [`Error::OutOfBounds`].
    pub fn write_bytes<'v>(&mut self, operand: impl Into<Operand<'v>>, codes: &[u8]) -> Result<()> {
        let operand = operand.into();
        let view = operand.view;
        let place = self.resolve(operand, self.site)?;
        if codes.len() != place.len() * place.item {
            let (bytes, shape, dtype) = (codes.len(), &view.shape[..], view.dtype);
            return Err(Error::Value(format!("{bytes} bytes came for shape {shape:?} of {dtype}")));
        }
        self.store(&place, &view.storage, codes)
    }

    /// Reads one element: integers exactly, everything else as float32.
    ///
    /// # Errors
    /// [`Error::Value`] for views of more elements than one; else as [`Memory::read_f32`].
    pub fn scalar<'v>(&mut self, operand: impl Into<Operand<'v>>, reader: SiteId) -> Result<Scalar> {
        let operand = operand.into();
        let view = operand.view;
        convert::check_unpacked(view.dtype)?;
        if view.len() != 1 {
            let (name, shape) = (&view.storage.name, &view.shape);
            return Err(Error::Value(format!("a view of `{name}` has shape {shape:?}; one element is needed")));
        }
        let place = self.resolve(operand, reader)?;
        let missing = self.check_read(&place, view, reader)?;
        let (mut code, mut value) = ([0u8; 4], [0.0]);
        self.with_bytes(&view.storage, |bytes| match view.dtype.is_integer() {
            true => lines::gather(bytes, &place, &mut code[..place.item]),
            false => convert::read(view.dtype, bytes, &place, &mut value),
        })?;
        self.each_exact(&place, view, |_, exact| value = [exact as f32])?;
        if !missing.is_empty() {
            (code, value) = (convert::unwritten(view).to_le_bytes(), [convert::unwritten_value(view)]);
        }
        Ok(match view.dtype.is_integer() {
            true => Scalar::Int(convert::integer(view.dtype, u32::from_le_bytes(code))),
            false => Scalar::Float(value[0]),
        })
    }

    /// Writes a tile, each value rounded to the view's type: floats as the arithmetic core's cast does by these
    /// options, integers to nearest even and then to the type's range, NaN as 0; bool is whether it is not 0. NaN is
    /// written as the type's canonical one. Rows left out keep what they hold.
    ///
    /// # Errors
    /// [`Error::Type`] for packed types and block scales; [`Error::Value`] for another number of values;
    /// [`Error::OutOfBounds`]; [`Error::Numerics`] for stochastic rounding, which [`Memory::write_f32_stochastic`]
    /// does.
    pub fn write_f32<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[f32],
        options: CastOptions,
    ) -> Result<()> {
        let operand = operand.into();
        let (dtype, storage) = (operand.view.dtype, &operand.view.storage);
        convert::check_encodable(dtype)?;
        let place = self.resolve_write(operand, values.len(), None)?;
        self.inspect(operand.view, values, None);
        self.claim(&place, storage, None)?;
        if self.with_bytes_mut(storage, &place, |bytes| convert::write(dtype, values, options, bytes, &place))? {
            self.mark_initialised(&place, storage, true)?;
        } else {
            self.store_codes(&place, storage, None, |codes| convert::encode(dtype, values, codes, options))?;
        }
        self.keep_exact(&place, operand.view, |element| Some(f64::from(values[element])))
    }

    /// Adds to a float32 tile where it lies, in one pass. False, and nothing done, where that cannot be: another type, rows
    /// that are no runs, elements that nothing wrote, or another number of values.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; those of reading a dynamic index.
    pub fn add_f32<'v>(&mut self, operand: impl Into<Operand<'v>>, values: &[f32]) -> Result<bool> {
        let operand = operand.into();
        let storage = &operand.view.storage;
        let place = self.resolve(operand, self.site)?;
        let fits = operand.view.dtype == DType::Float32 && place.len() == values.len() && place.runs().is_some();
        if !fits || self.keeps_exact(DType::Float32) || !self.is_set(&place, storage)? {
            return Ok(false);
        }
        self.claim(&place, storage, None)?;
        self.note_write(&place, storage, None)?;
        self.inspect(operand.view, values, None);
        self.with_bytes_mut(storage, &place, |bytes| {
            lines::update(bytes, &place, values, |held, value: f32| {
                convert::canonical(f32::from_le_bytes(held) + value).to_le_bytes()
            });
        })?;
        Ok(true)
    }

    /// Writes bit patterns, of which the low bits are kept.
    ///
    /// # Errors
    /// [`Error::Value`] for another number of patterns; [`Error::OutOfBounds`].
    pub fn write_bits<'v>(&mut self, operand: impl Into<Operand<'v>>, values: &[u32]) -> Result<()> {
        let operand = operand.into();
        let item = operand.view.dtype.size();
        self.write_codes(operand, values.len(), None, |codes| {
            narrow(values, item, codes);
            Ok(())
        })
    }

    /// As [`Memory::write_f32`] where the mask is true; other elements keep their value, and whether they have one.
    ///
    /// # Errors
    /// As [`Memory::write_f32`]; [`Error::Value`] for a mask of another length.
    pub fn write_f32_where<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[f32],
        mask: &[bool],
        options: CastOptions,
    ) -> Result<()> {
        let operand = operand.into();
        let dtype = operand.view.dtype;
        self.inspect(operand.view, values, Some(mask));
        self.write_codes(operand, values.len(), Some(mask), |codes| convert::encode(dtype, values, codes, options))?;
        self.keep_written(operand, values, Some(mask))
    }

    /// As [`Memory::write_bits`] where the mask is true; other elements keep their value, and whether they have one.
    ///
    /// # Errors
    /// As [`Memory::write_bits`]; [`Error::Value`] for a mask of another length.
    pub fn write_bits_where<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[u32],
        mask: &[bool],
    ) -> Result<()> {
        let operand = operand.into();
        let item = operand.view.dtype.size();
        self.write_codes(operand, values.len(), Some(mask), |codes| {
            narrow(values, item, codes);
            Ok(())
        })
    }

    /// Keeps the values beside an operand just written, where the memory does so.
    pub(super) fn keep_written(&mut self, operand: Operand<'_>, values: &[f32], mask: Option<&[bool]>) -> Result<()> {
        if self.keeps_exact(operand.view.dtype) {
            let place = self.resolve(operand, self.site)?;
            let is_written = |element: usize| mask.is_none_or(|mask| mask[element]);
            self.keep_exact(&place, operand.view, |element| is_written(element).then(|| f64::from(values[element])))?;
        }
        Ok(())
    }

    /// Which bytes are written, if there are as many values as elements.
    pub(super) fn resolve_write(
        &mut self,
        operand: Operand<'_>,
        values: usize,
        mask: Option<usize>,
    ) -> Result<Resolved> {
        let place = self.resolve(operand, self.site)?;
        let counts = [("values", Some(values)), ("mask", mask)];
        match counts.into_iter().find(|(_, count)| count.is_some_and(|count| count != place.len())) {
            None => Ok(place),
            Some((argument, count)) => {
                let (name, needed) = (&operand.view.storage.name, place.len());
                let count = count.unwrap_or_default();
                Err(Error::Value(format!("{argument}: {count} elements for a view of `{name}` that has {needed}")))
            }
        }
    }

    fn write_codes(
        &mut self,
        operand: Operand<'_>,
        count: usize,
        mask: Option<&[bool]>,
        encode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let place = self.resolve_write(operand, count, mask.map(<[bool]>::len))?;
        self.store_codes(&place, &operand.view.storage, mask, encode)
    }

    /// Encodes into scratch, then stores.
    pub(super) fn store_codes(
        &mut self,
        place: &Resolved,
        storage: &Arc<Storage>,
        mask: Option<&[bool]>,
        encode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let codes = codes_of(&mut scratch, place.len() * place.item);
        let stored = encode(codes).and_then(|()| match mask {
            Some(mask) if mask.contains(&false) => self.store_where(place, storage, codes, mask),
            _ => self.store(place, storage, codes),
        });
        self.scratch = scratch;
        stored
    }

    /// Stores contiguous codes and notes that these bytes are initialised.
    pub(super) fn store(&mut self, place: &Resolved, storage: &Arc<Storage>, codes: &[u8]) -> Result<()> {
        self.claim(place, storage, None)?;
        self.with_bytes_mut(storage, place, |bytes| lines::scatter(bytes, place, codes))?;
        self.mark_initialised(place, storage, true)
    }

    pub(super) fn store_where(
        &mut self,
        place: &Resolved,
        storage: &Arc<Storage>,
        codes: &[u8],
        mask: &[bool],
    ) -> Result<()> {
        let item = place.item;
        self.claim(place, storage, Some(mask))?;
        self.end_exact(place, storage, Some(mask))?;
        if storage.addressed {
            // Which elements are written is not followed.
            self.reuse.touch(storage);
        }
        self.with_bytes_mut(storage, place, |bytes| lines::scatter_where(bytes, place, codes, mask))?;
        // To mark elements one by one takes longer than to store them; mostly all are marked already.
        let is_marked = storage.buffer.is_on_chip() && self.is_set(place, storage)?;
        match self.on_chip_mut(storage.buffer) {
            Some(_) if is_marked => {}
            Some(memory) => lines::each_element(place, |element, at| {
                if mask[element] {
                    let (partition, byte) = place.position(at);
                    memory.initialised.set_range(partition, byte..byte + item);
                }
            }),
            None => {
                self.note_write(place, storage, Some(mask))?;
                let mut contents = hbm::lock(storage, self.layer)?;
                contents.written = true;
                if !contents.complete {
                    lines::each_element(place, |element, at| {
                        if mask[element] {
                            bits::set(&mut contents.initialised, at..at + item);
                        }
                    });
                }
            }
        }
        Ok(())
    }
}

/// Aligned bytes of scratch.
pub(super) fn codes_of(scratch: &mut Vec<u32>, bytes: usize) -> &mut [u8] {
    let words = bytes.div_ceil(size_of::<u32>());
    if scratch.len() < words {
        scratch.resize(words, 0);
    }
    &mut bytemuck::cast_slice_mut(&mut scratch[..words])[..bytes]
}

fn narrow(values: &[u32], item: usize, codes: &mut [u8]) {
    match item {
        1 => values.iter().zip(codes).for_each(|(value, code)| *code = *value as u8),
        2 => {
            for (value, code) in values.iter().zip(codes.as_chunks_mut().0) {
                *code = (*value as u16).to_le_bytes();
            }
        }
        _ => codes.copy_from_slice(bytemuck::cast_slice(values)),
    }
}
