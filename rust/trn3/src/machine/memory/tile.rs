//! Values of operands: read, written, copied, borrowed. All tiles are C-order, the shape being the view's.

use trn3_numerics::{ArrayView, CastOptions, Format, Xorwow};

use super::bits;
use super::convert::{self, TF32_BITS};
use super::resolve::{Columns, Operand, Resolved, Rows};
use super::{Memory, Scalar, hbm, lines};
use crate::error::{Error, Result};
use crate::machine::dtype::DType;
use crate::machine::site::SiteId;
use crate::machine::storage::{Buffer, Storage};
use crate::machine::view::View;

/// Which elements of a PSUM operand matmuls have written since its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Every one.
    All,
    /// None.
    None,
    /// Those that are true, in C order.
    Some(Vec<bool>),
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
        done?;
        for element in missing {
            out[element] = convert::sentinel_value(view.dtype);
        }
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
        });
        for element in missing {
            out[element] = convert::sentinel(view.dtype);
        }
        Ok(())
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
        });
        if !missing.is_empty() {
            (code, value) = (convert::sentinel(view.dtype).to_le_bytes(), [convert::sentinel_value(view.dtype)]);
        }
        Ok(match view.dtype.is_integer() {
            true => Scalar::Int(convert::integer(view.dtype, u32::from_le_bytes(code))),
            false => Scalar::Float(value[0]),
        })
    }

    /// Writes a tile, each value rounded to the view's type: floats as the arithmetic core's cast does by these options,
    /// integers to nearest even and then to the type's range, NaN as 0; bool is whether it is not 0. NaN is written as
    /// the type's canonical one. Rows left out keep what they hold.
    ///
    /// # Errors
    /// [`Error::Type`] for packed types and block scales; [`Error::Value`] for another number of values;
    /// [`Error::OutOfBounds`]; [`Error::Numerics`] for stochastic rounding, which [`Memory::write_f32_stochastic`] does.
    pub fn write_f32<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[f32],
        options: CastOptions,
    ) -> Result<()> {
        let operand = operand.into();
        let dtype = operand.view.dtype;
        self.write_codes(operand, values.len(), None, |codes| convert::encode(dtype, values, codes, options))
    }

    /// As [`Memory::write_f32`], rounded by draws of a generator. Float32 and integers need no draws and take none.
    ///
    /// # Errors
    /// As [`Memory::write_f32`].
    pub fn write_f32_stochastic<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[f32],
        generator: &mut Xorwow,
    ) -> Result<()> {
        let operand = operand.into();
        let dtype = operand.view.dtype;
        self.write_codes(operand, values.len(), None, |codes| {
            convert::encode_stochastic(dtype, values, codes, generator)
        })
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
        self.write_codes(operand, values.len(), Some(mask), |codes| convert::encode(dtype, values, codes, options))
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

    /// Encodes into scratch, then stores.
    fn write_codes(
        &mut self,
        operand: Operand<'_>,
        count: usize,
        mask: Option<&[bool]>,
        encode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let place = self.resolve(operand, self.site)?;
        let name = &operand.view.storage.name;
        let counts = [("values", Some(count)), ("mask", mask.map(<[bool]>::len))];
        for (argument, len) in counts {
            if let Some(len) = len.filter(|len| *len != place.len()) {
                let text = format!("{argument}: {len} elements for a view of `{name}` that has {}", place.len());
                return Err(Error::Value(text));
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let codes = codes_of(&mut scratch, count * place.item);
        let encoded = encode(codes);
        if encoded.is_ok() {
            match mask {
                Some(mask) if mask.contains(&false) => self.store_where(&place, &operand.view.storage, codes, mask),
                _ => self.store(&place, &operand.view.storage, codes),
            }
        }
        self.scratch = scratch;
        encoded
    }

    /// Stores contiguous codes and notes that these bytes are initialised.
    fn store(&mut self, place: &Resolved, storage: &Storage, codes: &[u8]) {
        self.with_bytes_mut(storage, |bytes| lines::scatter(bytes, place, codes));
        self.mark_initialised(place, storage, true);
    }

    fn store_where(&mut self, place: &Resolved, storage: &Storage, codes: &[u8], mask: &[bool]) {
        let item = place.item;
        self.with_bytes_mut(storage, |bytes| {
            lines::each_element(place, |element, at| {
                if mask[element] {
                    bytes[at..at + item].copy_from_slice(&codes[element * item..][..item]);
                }
            });
        });
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => lines::each_element(place, |element, at| {
                if mask[element] {
                    let byte = at % place.pitch;
                    memory.initialised.set_range(at / place.pitch, byte..byte + item);
                }
            }),
            None => {
                let mut contents = hbm::lock(storage);
                let complete = contents.complete;
                contents.written = true;
                lines::each_element(place, |element, at| {
                    if mask[element] && !complete {
                        bits::set(&mut contents.initialised, at..at + item);
                    }
                });
            }
        }
    }

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
        let missing = self.check_read(&source, from.view, reader)?;
        let is_whole = missing.is_empty() && source.performed().is_none();
        if is_whole && self.copy_runs(&target, &source, to.view, from.view) {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let codes = codes_of(&mut scratch, source.len() * source.item);
        self.with_bytes(&from.view.storage, |bytes| lines::gather(bytes, &source, codes));
        patch(codes, &missing, from.view.dtype);
        match source.performed() {
            None => self.store(&target, &to.view.storage, codes),
            Some(rows) => {
                let row = source.row_len();
                let mask: Vec<bool> = rows.into_iter().flat_map(|row_is| std::iter::repeat_n(row_is, row)).collect();
                self.store_where(&target, &to.view.storage, codes, &mask);
            }
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Copies row by row where each row is one run on both sides and no bytes are both read and written.
    fn copy_runs(&mut self, target: &Resolved, source: &Resolved, to: &View, from: &View) -> bool {
        let (Some(target_runs), Some(source_runs)) = (target.runs(), source.runs()) else { return false };
        let (to_first, to_count, to_stride, to_bytes) = target_runs;
        let (from_first, from_count, from_stride, from_bytes) = source_runs;
        // One run may face many rows: the shorter pieces are copied.
        let piece = to_bytes.min(from_bytes);
        if piece == 0 || to_bytes.max(from_bytes) % piece != 0 {
            return to_bytes == 0 && from_bytes == 0;
        }
        let is_split = |bytes: usize, count: usize| bytes == piece || count == 1;
        if !is_split(to_bytes, to_count) || !is_split(from_bytes, from_count) {
            return false;
        }
        let step = |bytes: usize, stride: isize| if bytes == piece { stride } else { piece as isize };
        let (to_step, from_step) = (step(to_bytes, to_stride), step(from_bytes, from_stride));
        let count = to_count * to_bytes / piece;
        let at = |first: usize, step: isize, index: usize| (first as isize + index as isize * step) as usize;
        let each = |index: usize| (at(to_first, to_step, index), at(from_first, from_step, index));
        match (to.storage.buffer, from.storage.buffer) {
            (Buffer::Sbuf, Buffer::Psum) | (Buffer::Psum, Buffer::Sbuf) => {
                let (sbuf, psum) = (&mut self.sbuf, &mut self.psum);
                sbuf.touch();
                psum.touch();
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
                    return false;
                }
                self.with_bytes_mut(&to.storage, |bytes| {
                    (0..count).map(each).for_each(|(to, from)| bytes.copy_within(from..from + piece, to));
                });
            }
            (to_buffer, from_buffer) if to_buffer.is_on_chip() != from_buffer.is_on_chip() => {
                let (chip, tensor) = if to_buffer.is_on_chip() { (to_buffer, from) } else { (from_buffer, to) };
                let Some(memory) = self.on_chip_mut(chip) else { return false };
                memory.touch();
                let mut contents = hbm::lock(&tensor.storage);
                hbm::touch(&mut contents, tensor.storage.byte_size());
                (0..count).map(each).for_each(|(to, from)| match to_buffer.is_on_chip() {
                    true => memory.bytes_mut()[to..to + piece].copy_from_slice(&contents.bytes[from..from + piece]),
                    false => contents.bytes[to..to + piece].copy_from_slice(&memory.bytes()[from..from + piece]),
                });
            }
            _ => return false,
        }
        self.mark_initialised(target, &to.storage, true);
        true
    }

    /// Lends a tile as an array of the arithmetic core, of the view's shape, its bytes where they lie if all are
    /// initialised. Packed 8-bit types have one more axis of 4; so has float4, unpacked. Arrays of a
    /// [`Operand::transposed`] have their last two axes exchanged.
    ///
    /// # Errors
    /// [`Error::Type`] for integers; [`Error::Value`] for transposing fewer than two axes; else as [`Memory::read_f32`].
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
                let contents = hbm::lock(&operand.view.storage);
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

    fn lend(&mut self, operand: Operand<'_>, from_hbm: bool, reader: SiteId) -> Result<Lent> {
        let view = operand.view;
        let Some(format) = view.dtype.format() else {
            return Err(Error::Type(format!("dtype is {}; a floating-point type is needed", view.dtype)));
        };
        let place = self.resolve(operand, reader)?;
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
                let mut strides: Vec<isize> = view.strides.iter().map(|&stride| stride as isize * item).collect();
                if let (Some(first), Rows::Regular { stride, .. }, true) =
                    (strides.first_mut(), &place.rows, view.storage.buffer.is_on_chip())
                {
                    *first = *stride;
                }
                Lent { format, origin, shape: Vec::new(), strides, gathered: None }
            }
            _ => {
                let mut words = vec![0u32; (place.len() * place.item).div_ceil(size_of::<u32>())];
                let codes = codes_of(&mut words, place.len() * place.item);
                self.with_bytes(&view.storage, |bytes| lines::gather(bytes, &place, codes));
                patch(codes, &missing, view.dtype);
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
            let rank = shape.len();
            if rank < 2 {
                let name = &view.storage.name;
                return Err(Error::Value(format!("a view of `{name}` has shape {shape:?}; two axes are exchanged")));
            }
            shape.swap(rank - 2, rank - 1);
            lent.strides.swap(rank - 2, rank - 1);
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

    /// Whether every byte of the operand is initialised; in a timing-only run: whether its values are known.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; those of reading a dynamic index.
    pub fn is_initialised<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<bool> {
        let operand = operand.into();
        let place = self.resolve(operand, self.site)?;
        Ok(self.is_set(&place, &operand.view.storage))
    }

    /// Makes the operand unknown, as an instruction without values does to its destination in a timing-only run.
    ///
    /// # Errors
    /// As [`Memory::is_initialised`].
    pub fn forget<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<()> {
        let operand = operand.into();
        let place = self.resolve(operand, self.site)?;
        self.mark_initialised(&place, &operand.view.storage, false);
        Ok(())
    }

    /// Which elements of a PSUM operand matmuls have written since it was allocated.
    ///
    /// # Errors
    /// [`Error::Value`] when the operand is not in PSUM; else as [`Memory::is_initialised`].
    pub fn psum_matmul_written<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<Written> {
        let operand = operand.into();
        let place = self.resolve_psum(operand)?;
        let memory = &self.psum;
        if !memory.is_touched() {
            return Ok(Written::None);
        }
        if place.each_footprint(|at, mask| memory.matmul.all_set(at, mask)) {
            return Ok(Written::All);
        }
        if place.each_footprint(|at, mask| !memory.matmul.any_set(at, mask)) {
            return Ok(Written::None);
        }
        let mut written = vec![false; place.len()];
        lines::each_element(&place, |element, at| {
            let byte = at % place.pitch;
            written[element] = memory.matmul.range_is_set(at / place.pitch, byte..byte + place.item);
        });
        Ok(Written::Some(written))
    }

    /// Notes that a matmul wrote the operand.
    ///
    /// # Errors
    /// As [`Memory::psum_matmul_written`].
    pub fn mark_psum_matmul<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<()> {
        let place = self.resolve_psum(operand.into())?;
        self.psum.touch();
        let memory = &mut self.psum;
        place.each_footprint(|at, mask| {
            memory.matmul.put(at, mask, true);
            true
        });
        Ok(())
    }

    fn resolve_psum(&mut self, operand: Operand<'_>) -> Result<Resolved> {
        let storage = &operand.view.storage;
        if storage.buffer != Buffer::Psum {
            let (name, buffer) = (&storage.name, storage.buffer);
            return Err(Error::Value(format!("`{name}` is in {buffer}; matmuls write to psum")));
        }
        self.resolve(operand, self.site)
    }

    fn is_set(&self, place: &Resolved, storage: &Storage) -> bool {
        let Some(memory) = self.on_chip(storage.buffer) else {
            let contents = hbm::lock(storage);
            let mut is_set = true;
            if !contents.complete {
                lines::each_run(place, |_, range| is_set &= hbm::is_set(&contents, range));
            }
            return is_set;
        };
        place.len() == 0
            || (memory.is_touched() && place.each_footprint(|at, mask| memory.initialised.all_set(at, mask)))
    }

    fn mark_initialised(&mut self, place: &Resolved, storage: &Storage, value: bool) {
        if let Some(memory) = self.on_chip_mut(storage.buffer) {
            if memory.is_touched() {
                place.each_footprint(|at, mask| {
                    memory.initialised.put(at, mask, value);
                    true
                });
            }
            return;
        }
        let mut contents = hbm::lock(storage);
        if value {
            contents.written = true;
            if !contents.complete {
                lines::each_run(place, |_, range| bits::set(&mut contents.initialised, range));
            }
        } else {
            if std::mem::take(&mut contents.complete) {
                contents.initialised = vec![u64::MAX; storage.byte_size().div_ceil(u64::BITS as usize)];
            }
            if !contents.initialised.is_empty() {
                lines::each_run(place, |_, range| bits::clear(&mut contents.initialised, range));
            }
        }
    }

    /// Elements read before anything wrote them, noted as a finding.
    fn check_read(&mut self, place: &Resolved, view: &View, reader: SiteId) -> Result<Vec<usize>> {
        if self.is_set(place, &view.storage) {
            return Ok(Vec::new());
        }
        let mut missing = Vec::new();
        let mut first = None;
        let memory = self.on_chip(view.storage.buffer);
        let contents = memory.is_none().then(|| hbm::lock(&view.storage));
        lines::each_element(place, |element, at| {
            let is_set = match (memory, &contents) {
                (Some(memory), _) => {
                    let (partition, byte) = (at / place.pitch, at % place.pitch);
                    memory.is_touched() && memory.initialised.range_is_set(partition, byte..byte + place.item)
                }
                (None, Some(contents)) => hbm::is_set(contents, at..at + place.item),
                (None, None) => true,
            };
            if !is_set {
                first.get_or_insert(at);
                missing.push(element);
            }
        });
        drop(contents);
        if let Some(at) = first {
            let (partition, byte) = if place.pitch == 0 { (0, at) } else { (at / place.pitch, at % place.pitch) };
            self.note_uninitialised(view, reader, partition, byte, missing.len())?;
        }
        Ok(missing)
    }
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
    let meet = |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| a.start < b.end && b.start < a.end;
    let (one, other) = (rectangle(one, one_bytes), rectangle(other, other_bytes));
    meet(&one.0, &other.0) && meet(&one.1, &other.1)
}

/// Aligned bytes of scratch.
fn codes_of(scratch: &mut Vec<u32>, bytes: usize) -> &mut [u8] {
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

/// Uninitialised elements hold what reading them gives.
fn patch(codes: &mut [u8], missing: &[usize], dtype: DType) {
    let (item, code) = (dtype.size(), convert::sentinel(dtype).to_le_bytes());
    for element in missing {
        codes[element * item..][..item].copy_from_slice(&code[..item]);
    }
}
