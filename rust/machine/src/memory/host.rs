//! The memories of a core as a host sees them: plain bytes at addresses, and tensors laid over what is there.

use std::sync::{Arc, Mutex, OnceLock};

use super::allocate::{byte_size, next_id};
use super::bits::PartitionBits;
use super::{Memory, OnChip, Request};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::{Buffer, HbmBytes, Placement, Shape, Storage, Zeroed};

impl Memory {
    /// Bytes of SBUF or PSUM, all partitions together; 0 for HBM, which is no core's own.
    pub fn on_chip_size(&self, buffer: Buffer) -> u64 {
        self.on_chip(buffer).map_or(0, |memory| (memory.partitions() * memory.addressable()) as u64)
    }

    /// Reads bytes of SBUF or PSUM: address `partition * bytes of a partition + byte`. What nothing wrote reads as it lies,
    /// 0 at first, and is no finding.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] beyond the memory, [`Error::Value`] for HBM.
    pub fn read_on_chip(&self, buffer: Buffer, address: u64, out: &mut [u8]) -> Result<()> {
        let memory = self.checked_on_chip(buffer, address, out.len())?;
        if !memory.is_touched() {
            out.fill(0);
            return Ok(());
        }
        let (bytes, pitch, partition_bytes) = (memory.bytes(), memory.pitch(), memory.addressable());
        let mut rest = out;
        for (partition, byte, length) in pieces(address as usize, rest.len(), partition_bytes) {
            let (piece, later) = rest.split_at_mut(length);
            piece.copy_from_slice(&bytes[partition * pitch + byte..][..length]);
            rest = later;
        }
        Ok(())
    }

    /// Writes bytes of SBUF or PSUM, addressed as by [`Memory::read_on_chip`]; they are then initialised.
    ///
    /// # Errors
    /// As [`Memory::read_on_chip`].
    pub fn write_on_chip(&mut self, buffer: Buffer, address: u64, bytes: &[u8]) -> Result<()> {
        self.checked_on_chip(buffer, address, bytes.len())?;
        let Some(memory) = self.on_chip_mut(buffer) else { return Ok(()) };
        if bytes.is_empty() {
            return Ok(());
        }
        memory.touch()?;
        let (pitch, partition_bytes) = (memory.pitch(), memory.addressable());
        let mut rest = bytes;
        for (partition, byte, length) in pieces(address as usize, bytes.len(), partition_bytes) {
            let (piece, later) = rest.split_at(length);
            memory.bytes_mut()[partition * pitch + byte..][..length].copy_from_slice(piece);
            memory.initialised.set_range(partition, byte..byte + length);
            rest = later;
        }
        Ok(())
    }

    /// A tensor over SBUF or PSUM at a place of the host's or a program's choice. The allocator knows nothing of it, and
    /// what is there stays.
    ///
    /// # Errors
    /// As [`Memory::allocate`] with an address.
    pub fn lay_on_chip(&self, request: &Request<'_>, address: (usize, usize)) -> Result<Arc<Storage>> {
        let (mut storage, bytes) = self.shaped(request)?;
        let place = self.given_place(request, address, storage.shape[0], bytes)?;
        (storage.place, storage.addressed) = (Some(place), true);
        Ok(Arc::new(storage))
    }

    /// As [`Memory::lay_on_chip`], of a tensor without an address, for which somebody found a place; where places have no
    /// limit, it may lie behind the bytes that addresses can name.
    ///
    /// # Errors
    /// As [`Memory::lay_on_chip`].
    pub fn lay_placed(&self, request: &Request<'_>, (partition, byte): (usize, usize)) -> Result<Arc<Storage>> {
        let (mut storage, bytes) = self.shaped(request)?;
        let partitions = storage.shape[0];
        let is_behind = self.options.unlimited && partition == 0 && byte.checked_add(bytes).is_some();
        let place = match self.given_place(request, (partition, byte), partitions, bytes) {
            Err(Error::SbufCapacity(_) | Error::PsumCapacity(_)) if is_behind => {
                Placement { partition, byte, partitions, bytes }
            }
            place => place?,
        };
        storage.place = Some(place);
        Ok(Arc::new(storage))
    }

    /// Bytes of a partition that a tensor on chip takes.
    ///
    /// # Errors
    /// [`Error::Value`] for shapes that the memory cannot hold.
    pub(crate) fn row_bytes(&self, request: &Request<'_>) -> Result<usize> {
        self.shaped(request).map(|(_, bytes)| bytes)
    }

    /// A storage without a place, and its bytes in each partition.
    fn shaped(&self, request: &Request<'_>) -> Result<(Storage, usize)> {
        let bytes = byte_size(request)?;
        let shape = self.on_chip_shape(request)?;
        let row_bytes = bytes / shape[0];
        Ok((bare(request, shape), row_bytes))
    }

    /// A tensor over bytes of HBM that an [`HbmSpace`](super::HbmSpace) holds.
    ///
    /// # Errors
    /// [`Error::Value`] for a shape without elements or too large, or a buffer on chip.
    pub fn lay_in_hbm(request: &Request<'_>, contents: Arc<Mutex<HbmBytes>>) -> Result<Arc<Storage>> {
        byte_size(request)?;
        if request.buffer.is_on_chip() {
            let (name, buffer) = (request.name, request.buffer);
            return Err(Error::Value(format!("tensor `{name}`: buffer is {buffer}; HBM is needed")));
        }
        let mut storage = bare(request, Shape::from_slice(request.shape));
        storage.hbm = contents;
        Ok(Arc::new(storage))
    }

    /// Makes a tensor's bytes uninitialised, as they are when a program makes it.
    pub fn renew(&mut self, storage: &Storage) {
        self.forget_products(storage);
        match storage.place {
            Some(place) => {
                if let Some(memory) = self.on_chip_mut(storage.buffer) {
                    memory.forget(place);
                }
            }
            None => {
                // A run beside that cannot have contents has none to renew.
                let Ok(mut contents) = super::hbm::lock(storage, self.layer) else { return };
                (contents.complete, contents.written) = (false, false);
                contents.initialised = Zeroed::default();
            }
        }
    }

    /// No matmul has written to a tensor, whatever did before.
    pub fn forget_products(&mut self, storage: &Storage) {
        self.matmuls.remove(&storage.id);
    }

    /// Which bytes of a PSUM tensor matmuls wrote, as words to save; None: no matmul wrote to it.
    pub fn products(&self, storage: &Storage) -> Option<Vec<u64>> {
        self.matmuls.get(&storage.id).map(PartitionBits::words)
    }

    /// Goes on from what [`Memory::products`] gave of a tensor of this shape and type.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is not in PSUM, or other numbers of words than it has.
    pub fn set_products(&mut self, storage: &Storage, words: &[u64]) -> Result<()> {
        let place = storage.current_place().filter(|_| storage.buffer == Buffer::Psum);
        let place = place.ok_or_else(|| Error::Value(format!("tensor `{}` is not in psum", storage.name)))?;
        let mut bits = PartitionBits::of(place);
        let needed = bits.words().len();
        if words.len() != needed {
            let (name, came) = (&storage.name, words.len());
            return Err(Error::Value(format!("{came} words came for tensor `{name}`; it has {needed}")));
        }
        bits.set_words(words);
        self.matmuls.insert(storage.id, bits);
        Ok(())
    }

    /// Whether the tensor allocated last got bytes of its own, which are uninitialised, or lies over others' on purpose.
    pub fn allocated_afresh(&self) -> bool {
        self.last_fresh.is_some()
    }

    /// All there is to save of SBUF or PSUM: bytes, and which of them are initialised. Empty if untouched.
    pub fn on_chip_words(&self, buffer: Buffer) -> [Vec<u64>; 2] {
        match self.on_chip(buffer).filter(|memory| memory.is_touched()) {
            Some(memory) => memory.words(),
            None => Default::default(),
        }
    }

    /// Goes on from what [`Memory::on_chip_words`] gave.
    ///
    /// # Errors
    /// [`Error::Value`] for other numbers of words than the memory has.
    pub fn set_on_chip_words(&mut self, buffer: Buffer, words: [Vec<u64>; 2]) -> Result<()> {
        let Some(memory) = self.on_chip_mut(buffer) else {
            return Err(Error::Value(format!("{buffer} is no memory on chip")));
        };
        if words.iter().all(Vec::is_empty) {
            *memory = OnChip::new(memory.partitions(), memory.addressable());
            return Ok(());
        }
        memory.touch()?;
        let (come, needed) = (words.each_ref().map(Vec::len), memory.words().map(|words| words.len()));
        if come != needed {
            return Err(Error::Value(format!("{come:?} words came for {buffer}; it has {needed:?}")));
        }
        memory.set_words(words);
        Ok(())
    }

    fn checked_on_chip(&self, buffer: Buffer, address: u64, length: usize) -> Result<&OnChip> {
        let memory =
            self.on_chip(buffer).ok_or_else(|| Error::Value(format!("{buffer} is no memory of a core's own")))?;
        let size = self.on_chip_size(buffer);
        if address.checked_add(length as u64).is_none_or(|end| end > size) {
            let end = address.saturating_add(length as u64);
            return Err(Error::OutOfBounds(format!("bytes {address} to {end} of {buffer}; it has {size}")));
        }
        Ok(memory)
    }
}

/// A storage of which only the declaration is known.
fn bare(request: &Request<'_>, shape: Shape) -> Storage {
    Storage {
        pitch: OnceLock::new(),
        tenancy: Default::default(),
        id: next_id(),
        name: request.name.to_owned(),
        buffer: request.buffer,
        dtype: request.dtype,
        shape,
        place: None,
        addressed: false,
        site: request.site,
        hbm: Arc::default(),
        shadows: Default::default(),
        release: None,
    }
}

/// Partition, byte and length of each partition's share of a range.
fn pieces(mut at: usize, mut left: usize, partition_bytes: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let (partition, byte) = (at / partition_bytes, at % partition_bytes);
        let length = left.min(partition_bytes - byte);
        (at, left) = (at + length, left - length);
        Some((partition, byte, length))
    })
}

impl<'a> Request<'a> {
    /// A tensor that no line of a kernel made.
    pub fn unsited(name: &'a str, shape: &'a [usize], dtype: DType, buffer: Buffer) -> Self {
        Self { name, shape, dtype, buffer, address: None, site: Default::default() }
    }
}
