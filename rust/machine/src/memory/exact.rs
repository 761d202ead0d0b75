//! Values beside bytes: what elements would hold if their type rounded nothing.
//!
//! A memory of [`Precision::Float32`] or [`Precision::Float64`] keeps, beside the bytes that elements have in their
//! declared type, the value that was written. Reads of the same type get that value; what reads the bytes as another
//! type (a bit view) gets the value rounded to the type declared, and what writes bytes that way ends the value beside
//! them **(choice)**. Sizes and addresses are those of the declared types.

use super::resolve::Resolved;
use super::{Memory, hbm, lines};
use crate::dtype::DType;
use crate::error::Result;
use crate::site::SiteId;
use crate::storage::{Plane, Storage, Zeroed};
use crate::view::View;

use super::resolve::Operand;

/// What elements of floating-point types hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// What their type holds.
    #[default]
    Declared,
    /// Float32, whatever their type (`NKI_PRECISE_FP=0`). Packed types and block scales are as declared.
    Float32,
    /// Float64, float32 included: what a shadow run keeps.
    Float64,
}

/// No value beside this unit of bytes.
const NONE: u8 = 0;
/// The value that starts in a unit before.
const CONTINUED: u8 = u8::MAX;

fn tag(dtype: DType) -> u8 {
    dtype as u8 + 1
}

impl Plane {
    /// No values: [`NONE`] is 0.
    fn new(bytes: usize, unit: usize) -> hbm::Had<Self> {
        let slots = bytes.div_ceil(unit);
        Ok(Self { unit, values: Zeroed::new(slots)?, tags: Zeroed::new(slots)? })
    }

    /// The value of the element that starts at a byte, if it was written as this type.
    fn get(&self, at: usize, dtype: DType) -> Option<f64> {
        let (slot, units) = (at / self.unit, dtype.size().div_ceil(self.unit));
        let held = self.tags.get(slot..slot + units)?;
        let is_whole = at.is_multiple_of(self.unit)
            && held.first() == Some(&tag(dtype))
            && held[1..].iter().all(|tag| *tag == CONTINUED);
        is_whole.then(|| self.values[slot])
    }

    fn set(&mut self, at: usize, dtype: DType, value: f64) {
        self.clear(at..at + dtype.size());
        if at.is_multiple_of(self.unit) && dtype.size().is_multiple_of(self.unit) {
            let (slot, units) = (at / self.unit, dtype.size() / self.unit);
            if let Some(tags) = self.tags.get_mut(slot..slot + units) {
                tags.fill(CONTINUED);
                tags[0] = tag(dtype);
                self.values[slot] = value;
            }
        }
    }

    pub(super) fn clear(&mut self, bytes: std::ops::Range<usize>) {
        let (first, end) = (bytes.start / self.unit, bytes.end.div_ceil(self.unit));
        if let Some(tags) = self.tags.get_mut(first..end) {
            tags.fill(NONE);
        }
    }

    /// Rows of bytes get longer; what is beside them stays beside them.
    ///
    /// # Errors
    /// [`Shortage`]; nothing is changed then.
    pub(super) fn spread(&mut self, rows: usize, before: usize, now: usize) -> hbm::Had<()> {
        let mut longer = Self::new(rows * now, self.unit)?;
        let (before, now) = (before / self.unit, now / self.unit);
        for row in 0..rows {
            longer.values[row * now..][..before].copy_from_slice(&self.values[row * before..][..before]);
            longer.tags[row * now..][..before].copy_from_slice(&self.tags[row * before..][..before]);
        }
        *self = longer;
        Ok(())
    }

    /// Copies the values beside some bytes to others.
    pub(super) fn carry(&mut self, from: std::ops::Range<usize>, to: usize) {
        let (first, end) = (from.start / self.unit, from.end.div_ceil(self.unit));
        self.values.copy_within(first..end, to / self.unit);
        self.tags.copy_within(first..end, to / self.unit);
    }

    /// The values beside some bytes, which lie on their own from here on.
    ///
    /// # Errors
    /// [`Shortage`].
    pub(super) fn part(&self, bytes: std::ops::Range<usize>) -> hbm::Had<Self> {
        let (first, end) = (bytes.start / self.unit, bytes.end.div_ceil(self.unit));
        let mut part = Self::new((end - first) * self.unit, self.unit)?;
        part.values.copy_from_slice(&self.values[first..end]);
        part.tags.copy_from_slice(&self.tags[first..end]);
        Ok(part)
    }

    /// Puts values back beside some bytes, from a part that began at a byte.
    pub(super) fn put_back(&mut self, bytes: std::ops::Range<usize>, part: &Self, from: usize) {
        let (first, end, from) = (bytes.start / self.unit, bytes.end.div_ceil(self.unit), from / self.unit);
        self.values[first..end].copy_from_slice(&part.values[first - from..end - from]);
        self.tags[first..end].copy_from_slice(&part.tags[first - from..end - from]);
    }

    /// A copy for another layer, of the values beside these ranges of bytes: elsewhere there are none.
    ///
    /// # Errors
    /// [`Shortage`].
    pub(super) fn copied(&self, ranges: impl Iterator<Item = std::ops::Range<usize>> + Clone) -> hbm::Had<Self> {
        let slots = ranges.map(|range| range.start / self.unit..range.end.div_ceil(self.unit));
        Ok(Self { unit: self.unit, values: self.values.copied(slots.clone())?, tags: self.tags.copied(slots)? })
    }
}

/// An element on its way from view to view: its bits, and the value beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    bits: u32,
    value: Option<f64>,
}

impl Memory {
    /// Whether elements of a type hold more than their bytes say.
    pub fn keeps_exact(&self, dtype: DType) -> bool {
        match self.options.precision {
            Precision::Declared => false,
            Precision::Float32 => dtype.is_float() && dtype != DType::Float32,
            Precision::Float64 => dtype.is_float(),
        }
    }

    /// Runs on the plane of a storage's memory; None where there is none and none is to be made.
    fn with_plane<R>(
        &mut self,
        storage: &Storage,
        make: bool,
        work: impl FnOnce(&mut Plane) -> R,
    ) -> Result<Option<R>> {
        let layer = self.layer;
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => {
                if memory.exact.is_none() && make {
                    let plane = Plane::new(memory.partitions() * memory.pitch(), 1);
                    memory.exact = Some(plane.map_err(|shortage| hbm::short(storage, shortage))?);
                }
                Ok(memory.exact.as_mut().map(work))
            }
            None => {
                let mut contents = hbm::lock(storage, layer)?;
                if contents.exact.is_none() && make {
                    let plane = Plane::new(storage.byte_size(), storage.dtype.size());
                    contents.exact = Some(Box::new(plane.map_err(|shortage| hbm::short(storage, shortage))?));
                }
                Ok(contents.exact.as_mut().map(|plane| work(plane)))
            }
        }
    }

    /// Ends the values beside an operand's bytes, where the mask is true.
    pub(super) fn end_exact(&mut self, place: &Resolved, storage: &Storage, mask: Option<&[bool]>) -> Result<()> {
        if self.options.precision == Precision::Declared {
            return Ok(());
        }
        self.with_plane(storage, false, |plane| match mask {
            None => lines::each_run(place, |_, bytes| plane.clear(bytes)),
            Some(mask) => lines::each_element(place, |element, at| {
                if mask[element] {
                    plane.clear(at..at + place.item);
                }
            }),
        })?;
        Ok(())
    }

    /// Puts values beside the bytes that were just written, where `value` has one.
    pub(super) fn keep_exact(
        &mut self,
        place: &Resolved,
        view: &View,
        value: impl Fn(usize) -> Option<f64>,
    ) -> Result<()> {
        if !self.keeps_exact(view.dtype) {
            return Ok(());
        }
        self.with_plane(&view.storage, true, |plane| {
            lines::each_element(place, |element, at| {
                if let Some(value) = value(element) {
                    plane.set(at, view.dtype, value);
                }
            });
        })?;
        Ok(())
    }

    /// Calls `visit` with each element that has a value beside its bytes.
    pub(super) fn each_exact(
        &mut self,
        place: &Resolved,
        view: &View,
        mut visit: impl FnMut(usize, f64),
    ) -> Result<()> {
        if !self.keeps_exact(view.dtype) {
            return Ok(());
        }
        self.with_plane(&view.storage, false, |plane| {
            lines::each_element(place, |element, at| {
                if let Some(value) = plane.get(at, view.dtype) {
                    visit(element, value);
                }
            });
        })?;
        Ok(())
    }

    /// The values beside an operand's bytes; empty where there can be none.
    pub(super) fn exact_values(&mut self, place: &Resolved, view: &View) -> Result<Vec<Option<f64>>> {
        if !self.keeps_exact(view.dtype) {
            return Ok(Vec::new());
        }
        let mut values = vec![None; place.len()];
        self.each_exact(place, view, |element, value| values[element] = Some(value))?;
        Ok(values)
    }

    /// Reads a tile as float64: as [`Memory::read_f32`], with the values beside the bytes where there are any.
    ///
    /// # Errors
    /// As [`Memory::read_f32`].
    pub fn read_f64<'v>(&mut self, operand: impl Into<Operand<'v>>, out: &mut Vec<f64>, reader: SiteId) -> Result<()> {
        let operand = operand.into();
        let mut narrow = Vec::new();
        self.read_f32(operand, &mut narrow, reader)?;
        out.clear();
        out.extend(narrow.iter().map(|value| f64::from(*value)));
        let place = self.resolve(operand, reader)?;
        self.each_exact(&place, operand.view, |element, value| out[element] = value)
    }

    /// Writes a tile as [`Memory::write_f32`] does, and keeps the float64 values beside it where the memory does so.
    ///
    /// # Errors
    /// As [`Memory::write_f32`].
    pub fn write_f64<'v>(&mut self, operand: impl Into<Operand<'v>>, values: &[f64]) -> Result<()> {
        let operand = operand.into();
        let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        self.write_f32(operand, &narrow, Default::default())?;
        let place = self.resolve(operand, self.site)?;
        self.keep_exact(&place, operand.view, |element| values.get(element).copied())
    }

    /// Elements that an instruction moves without looking at them: bit patterns, or where elements hold more than their
    /// bytes, numbers that stand for them until the instruction ends. 0 is an element of zero bits.
    ///
    /// # Errors
    /// As [`Memory::read_bits`].
    pub fn read_words<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        out: &mut Vec<u32>,
        reader: SiteId,
    ) -> Result<()> {
        let operand = operand.into();
        self.read_bits(operand, out, reader)?;
        if !self.keeps_exact(operand.view.dtype) {
            return Ok(());
        }
        let place = self.resolve(operand, reader)?;
        let values = self.exact_values(&place, operand.view)?;
        for (word, value) in out.iter_mut().zip(values) {
            if (*word, value) != (0, None) {
                self.moved.push(Moved { bits: *word, value });
                *word = self.moved.len() as u32;
            }
        }
        Ok(())
    }

    /// Writes elements that [`Memory::read_words`] gave for a tile of type `from`, where the mask is true.
    ///
    /// # Errors
    /// As [`Memory::write_bits`].
    pub fn write_words<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        words: &[u32],
        from: DType,
        mask: Option<&[bool]>,
    ) -> Result<()> {
        let operand = operand.into();
        if !self.keeps_exact(from) {
            return match mask {
                None => self.write_bits(operand, words),
                Some(mask) => self.write_bits_where(operand, words, mask),
            };
        }
        let find = |word: &u32| match word.checked_sub(1) {
            Some(index) => self.moved.get(index as usize).copied().unwrap_or_default(),
            None => Moved { bits: 0, value: Some(0.0) },
        };
        let moved: Vec<Moved> = words.iter().map(find).collect();
        let bits: Vec<u32> = moved.iter().map(|moved| moved.bits).collect();
        match mask {
            None => self.write_bits(operand, &bits)?,
            Some(mask) => self.write_bits_where(operand, &bits, mask)?,
        }
        if operand.view.dtype == from {
            let place = self.resolve(operand, self.site)?;
            let is_written = |element: usize| mask.is_none_or(|mask| mask[element]);
            self.keep_exact(&place, operand.view, |element| moved[element].value.filter(|_| is_written(element)))?;
        }
        Ok(())
    }

    /// The elements of a tile with the values beside them, for another core.
    ///
    /// # Errors
    /// As [`Memory::read_bits`].
    pub fn export(&mut self, view: &View, reader: SiteId) -> Result<Vec<Moved>> {
        let mut bits = Vec::new();
        self.read_bits(view, &mut bits, reader)?;
        let place = self.resolve(view.into(), reader)?;
        let values = self.exact_values(&place, view)?;
        let value = |element: usize| values.get(element).copied().flatten();
        Ok(bits.iter().enumerate().map(|(element, &bits)| Moved { bits, value: value(element) }).collect())
    }

    /// Writes the elements that another core exported from a tile of the same type.
    ///
    /// # Errors
    /// As [`Memory::write_bits`].
    pub fn import(&mut self, view: &View, elements: &[Moved]) -> Result<()> {
        let bits: Vec<u32> = elements.iter().map(|moved| moved.bits).collect();
        self.write_bits(view, &bits)?;
        let place = self.resolve(view.into(), self.site)?;
        self.keep_exact(&place, view, |element| elements[element].value)
    }

    /// Takes over what another memory of the same machine holds in a view: its bytes, and which of them are written.
    ///
    /// # Errors
    /// As [`Memory::is_initialised`].
    pub(crate) fn mirror(&mut self, real: &mut Memory, view: &View) -> Result<()> {
        let place = real.resolve(view.into(), real.site)?;
        let is_set = real.is_set(&place, &view.storage)?;
        let mut codes = vec![0; place.len() * place.item];
        real.with_bytes(&view.storage, |bytes| lines::gather(bytes, &place, &mut codes))?;
        if is_set && place.performed().is_none() {
            return self.store(&place, &view.storage, &codes);
        }
        let mut mask = vec![false; place.len()];
        real.mask_written(&place, &view.storage, &mut mask)?;
        self.mark_initialised(&place, &view.storage, false)?;
        self.store_where(&place, &view.storage, &codes, &mask)
    }

    /// Which elements of an operand are written.
    fn mask_written(&self, place: &Resolved, storage: &Storage, mask: &mut [bool]) -> Result<()> {
        if let Some(memory) = self.on_chip(storage.buffer) {
            lines::each_element(place, |element, at| {
                let (partition, byte) = place.position(at);
                let bytes = byte..byte + place.item;
                mask[element] = memory.is_touched() && memory.initialised.range_is_set(partition, bytes);
            });
            return Ok(());
        }
        let contents = hbm::lock(storage, self.layer)?;
        lines::each_element(place, |element, at| mask[element] = hbm::is_set(&contents, at..at + place.item));
        Ok(())
    }

    /// Makes the contents of an HBM tensor exist in this layer.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn touch(&self, storage: &Storage) -> Result<()> {
        if !storage.buffer.is_on_chip() {
            drop(hbm::lock(storage, self.layer)?);
        }
        Ok(())
    }

    /// The values of a floating-point tile, with no note of the look; None where some are not written.
    pub(crate) fn peek_f64(&mut self, view: &View) -> Option<Vec<f64>> {
        if !view.dtype.is_float() {
            return None;
        }
        let place = self.resolve(view.into(), self.site).ok()?;
        if place.performed().is_some() || !self.is_set(&place, &view.storage).ok()? {
            return None;
        }
        let mut narrow = vec![0.0; place.len()];
        self.with_bytes(&view.storage, |bytes| super::convert::read(view.dtype, bytes, &place, &mut narrow)).ok()?;
        let mut values: Vec<f64> = narrow.into_iter().map(f64::from).collect();
        self.each_exact(&place, view, |element, value| values[element] = value).ok()?;
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPES: [DType; 4] = [DType::Float8E4M3, DType::BFloat16, DType::Float16, DType::Float32];

    proptest! {
        #[test]
        fn test_plane_keeps_what_no_later_write_touched(
            writes in proptest::collection::vec((0usize..24, 0usize..4, any::<bool>()), 1..40),
        ) {
            let mut plane = Plane::new(32, 1).expect("room");
            let mut written: Vec<(usize, DType, f64)> = Vec::new();
            for (number, (at, dtype, keeps)) in writes.into_iter().enumerate() {
                let dtype = TYPES[dtype];
                written.retain(|(start, held, _)| start + held.size() <= at || at + dtype.size() <= *start);
                if keeps {
                    plane.set(at, dtype, number as f64);
                    written.push((at, dtype, number as f64));
                } else {
                    plane.clear(at..at + dtype.size());
                }
            }
            for at in 0..24 {
                for dtype in TYPES {
                    let held = written.iter().find(|(start, held, _)| (*start, *held) == (at, dtype));
                    prop_assert_eq!(plane.get(at, dtype), held.map(|(_, _, value)| *value));
                }
            }
        }
    }
}
