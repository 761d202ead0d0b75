//! Making tensors: what is refused, where they go, and what is said when they do not fit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::{Memory, OccupancyChange, Request};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::{Buffer, HbmBytes, Held, Placement, Shape, Storage};

/// Live tensors that a capacity error lists.
const LISTED: usize = 24;

/// The number of a storage that is not there yet.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Memory {
    /// Makes a tensor. Its bytes are uninitialised, unless a given address lies on bytes of a live tensor: those stay
    /// as they are.
    ///
    /// # Errors
    /// [`Error::Value`] for shapes that the memory cannot hold and for bad addresses; [`Error::SbufCapacity`],
    /// [`Error::PsumCapacity`] and [`Error::HbmCapacity`] with a table of the live tensors when it does not fit;
    /// [`Error::HostMemory`].
    pub fn allocate(&mut self, request: &Request<'_>) -> Result<Arc<Storage>> {
        self.last_fresh = None;
        let bytes = byte_size(request)?;
        if !request.buffer.is_on_chip() {
            if request.address.is_some() {
                let (name, buffer) = (request.name, request.buffer);
                return Err(Error::Value(format!("tensor `{name}`: address is given; {buffer} tensors have none")));
            }
            return self.place_in_hbm(request, bytes, self.nothing());
        }
        self.settle();
        let shape = self.on_chip_shape(request)?;
        let partitions = shape[0];
        let row_bytes = bytes / partitions;
        let place = match request.address {
            Some(address) => self.given_place(request, address, partitions, row_bytes)?,
            None => match self.room(request, row_bytes)? {
                Some(byte) => Placement { partition: 0, byte, partitions, bytes: row_bytes },
                None => return Err(self.capacity_error(request, row_bytes)),
            },
        };
        if request.address.is_some() {
            self.clear_for(request, place)?;
        }
        let addressed = request.address.is_some();
        let storage = Arc::new(Storage {
            pitch: OnceLock::new(),
            id: next_id(),
            name: request.name.to_owned(),
            buffer: request.buffer,
            dtype: request.dtype,
            shape,
            place: Some(place),
            tenancy: Default::default(),
            addressed,
            site: request.site,
            hbm: Default::default(),
            shadows: Default::default(),
            release: Some(self.released.clone()),
        });
        let places = self.places(request.buffer);
        let end = place.byte + places.extent(row_bytes);
        let end = if addressed { place.byte + row_bytes } else { end };
        let is_shared = addressed && places.is_used(place.byte, end);
        if !is_shared {
            self.forget_place(request.buffer, place);
        }
        self.last_fresh = (!is_shared).then_some((request.buffer, place));
        if is_shared {
            self.reuse.overlap(&storage);
        }
        let places = self.places_mut(request.buffer);
        places.take(place.byte, end, &storage);
        let live = places.live() as u64;
        self.changes.push(OccupancyChange { buffer: request.buffer, live });
        Ok(storage)
    }

    /// Where the last tensor was placed, if nothing lived there.
    pub fn last_fresh(&self) -> Option<(Buffer, Placement)> {
        self.last_fresh
    }

    /// Makes an HBM tensor of these bytes, in C order and little-endian. None, for timing-only runs: its values are
    /// unknown.
    ///
    /// # Errors
    /// [`Error::Value`] for a buffer on chip, a wrong number of bytes, and None where values are computed;
    /// [`Error::HbmCapacity`]; [`Error::HostMemory`].
    pub fn hbm_from_bytes(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        buffer: Buffer,
        bytes: Option<Vec<u8>>,
        site: SiteId,
    ) -> Result<Arc<Storage>> {
        let request = Request { name, shape, dtype, buffer, address: None, site };
        let refuse = |text: String| Err(Error::Value(format!("tensor `{name}`: {text}")));
        if buffer.is_on_chip() {
            return refuse(format!("buffer is {buffer}; hbm is needed for a tensor with contents"));
        }
        let needed = byte_size(&request)?;
        let contents = match bytes {
            Some(bytes) if bytes.len() != needed => {
                return refuse(format!("{} bytes came; {shape:?} of {dtype} has {needed}", bytes.len()));
            }
            Some(bytes) => {
                let mut held = Held::charged_to(Arc::clone(&self.budget));
                let label = || format!("tensor {} of {needed} bytes in {buffer}", label(name, shape, dtype));
                held.claim(0..needed, needed).map_err(|shortage| shortage.of(label()))?;
                HbmBytes { bytes: bytes.into(), complete: true, held, ..HbmBytes::default() }
            }
            None if self.options.values => return refuse("no bytes came; a run with values needs them".to_owned()),
            None => self.nothing(),
        };
        self.place_in_hbm(&request, needed, contents)
    }

    /// Contents of which nothing is written, at the charge of this memory.
    fn nothing(&self) -> HbmBytes {
        HbmBytes { held: Held::charged_to(Arc::clone(&self.budget)), ..HbmBytes::default() }
    }

    /// Whether the host may hold so many bytes of a tensor more: for what is made of it, or to make it of.
    ///
    /// # Errors
    /// [`Error::HostMemory`] names it where it may not.
    pub fn check_host(&self, name: &str, shape: &[usize], dtype: DType, bytes: usize) -> Result<()> {
        let label = || format!("{} as {bytes} bytes of the host's", label(name, shape, dtype));
        self.budget.check(bytes as u64).map_err(|shortage| shortage.of(format_args!("tensor {}", label())))
    }

    fn place_in_hbm(&mut self, request: &Request<'_>, bytes: usize, contents: HbmBytes) -> Result<Arc<Storage>> {
        self.check_hbm(&label(request.name, request.shape, request.dtype), bytes)?;
        let storage = Arc::new(Storage {
            pitch: OnceLock::new(),
            id: next_id(),
            name: request.name.to_owned(),
            buffer: request.buffer,
            dtype: request.dtype,
            shape: Shape::from_slice(request.shape),
            place: None,
            tenancy: Default::default(),
            addressed: false,
            site: request.site,
            hbm: Arc::new(contents.into()),
            shadows: Default::default(),
            release: None,
        });
        self.count(&storage);
        Ok(storage)
    }

    /// Counts an HBM tensor that was laid over bytes of its own.
    pub(crate) fn count_hbm(&mut self, storage: &Arc<Storage>) -> Result<()> {
        self.check_hbm(&label(&storage.name, &storage.shape, storage.dtype), storage.byte_size())?;
        self.count(storage);
        Ok(())
    }

    fn count(&mut self, storage: &Arc<Storage>) {
        let mut account = self.hbm.lock();
        account.add(storage);
        let live = account.live;
        drop(account);
        self.changes.push(OccupancyChange { buffer: Buffer::PrivateHbm, live });
    }

    fn check_hbm(&self, label: &str, bytes: usize) -> Result<()> {
        let mut account = self.hbm.lock();
        if account.fits(bytes as u64, self.hbm_capacity) {
            return Ok(());
        }
        let (all, live, peak) = (self.hbm_capacity, account.live, account.peak);
        let mut text = format!(
            "HBM cannot hold tensor {label}: it needs {bytes} bytes, {all} there are, {live} are live (peak {peak})"
        );
        for (who, held) in &account.others {
            text.push_str(&format!("; {who} takes {held} bytes of the same HBM"));
        }
        let live = account.largest();
        self.list(&mut text, &live, |storage| storage.byte_size());
        Err(Error::HbmCapacity(text))
    }

    /// The shape on chip: at least two axes, no more partitions than there are.
    pub(super) fn on_chip_shape(&self, request: &Request<'_>) -> Result<Shape> {
        let (name, shape) = (request.name, request.shape);
        if shape.len() < 2 {
            if shape.iter().product::<usize>() != 1 {
                return Err(Error::Value(format!(
                    "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and free-dim); tensor \
                     `{name}` has shape {shape:?}, write [{}, 1]",
                    shape[0]
                )));
            }
            return Ok(SmallVec::from_elem(1, 2));
        }
        let maximum = self.sbuf.partitions();
        if shape[0] > maximum {
            let count = shape[0];
            let text = format!("tensor `{name}` {shape:?}: partition dimension {count} exceeds maximum {maximum}");
            return Err(Error::Value(text));
        }
        Ok(Shape::from_slice(shape))
    }

    pub(super) fn given_place(
        &self,
        request: &Request<'_>,
        (partition, byte): (usize, usize),
        partitions: usize,
        bytes: usize,
    ) -> Result<Placement> {
        let Request { name, shape, dtype, buffer, .. } = request;
        let refuse =
            |got: String| Error::Value(format!("tensor `{name}` {shape:?} {dtype} in {buffer}: address {got}"));
        let Some(memory) = self.on_chip(*buffer) else { return Err(refuse("is given for HBM".to_owned())) };
        if partition.checked_add(partitions).is_none_or(|end| end > memory.partitions()) {
            let (last, maximum) = (partition.saturating_add(partitions), memory.partitions());
            return Err(refuse(format!("has partitions {partition} to {last}; there are {maximum}")));
        }
        if *buffer == Buffer::Psum && !byte.is_multiple_of(self.bank_bytes) {
            let bank = self.bank_bytes;
            return Err(refuse(format!("has byte {byte}; PSUM tensors start on a bank, a multiple of {bank}")));
        }
        if byte.checked_add(bytes).is_none_or(|end| end > memory.addressable()) {
            let (end, capacity) = (byte.saturating_add(bytes), memory.addressable());
            let text = refuse(format!("has bytes {byte} to {end} of a partition; there are {capacity}")).to_string();
            return Err(match buffer {
                Buffer::Psum => Error::PsumCapacity(text),
                _ => Error::SbufCapacity(text),
            });
        }
        Ok(Placement { partition, byte, partitions, bytes })
    }

    pub(super) fn capacity_error(&self, request: &Request<'_>, row_bytes: usize) -> Error {
        let Request { name, shape, dtype, buffer, .. } = request;
        let places = self.places(*buffer);
        let (needed, largest, free) = (places.extent(row_bytes), places.largest_free(), places.free());
        let memory = if *buffer == Buffer::Psum { "PSUM" } else { "SBUF" };
        let mut text = format!(
            "{memory} cannot hold tensor {}: it needs {needed} bytes per partition, {} are usable, {} are live (peak {}), \
             the largest free piece has {largest}",
            label(name, shape, *dtype),
            places.usable(),
            places.live(),
            places.peak(),
        );
        self.list(&mut text, &places.largest(), |storage| storage.place.map_or(0, |place| place.bytes));
        text.push_str(if needed > places.usable() {
            "\nhint: it is larger than the whole memory; split it into tiles"
        } else if needed <= free {
            "\nhint: enough bytes are free, but in pieces; make long-lived tensors first, or give addresses"
        } else {
            "\nhint: a tensor's bytes are free again when its last reference goes; reuse tensors, make them smaller, \
             or give addresses"
        });
        if *buffer == Buffer::Psum { Error::PsumCapacity(text) } else { Error::SbufCapacity(text) }
    }

    fn list(&self, text: &mut String, live: &[Arc<Storage>], bytes: impl Fn(&Storage) -> usize) {
        if live.is_empty() {
            return;
        }
        text.push_str("\nlive tensors, largest first (bytes");
        text.push_str(if live[0].buffer.is_on_chip() { " per partition" } else { "" });
        text.push_str(", tensor, line that made it):");
        for storage in live.iter().take(LISTED) {
            let label = label(&storage.name, &storage.shape, storage.dtype);
            let line = format!("\n{:>12}  {label}  {}", bytes(storage), (self.names)(storage.site));
            text.push_str(line.trim_end());
        }
        if let Some(rest) = live.get(LISTED..).filter(|rest| !rest.is_empty()) {
            let sum: usize = rest.iter().map(|storage| bytes(storage)).sum();
            text.push_str(&format!("\n{sum:>12}  in {} more", rest.len()));
        }
    }
}

/// A tensor in a message; most have no name.
pub(super) fn label(name: &str, shape: &[usize], dtype: DType) -> String {
    if name.is_empty() { format!("{shape:?} {dtype}") } else { format!("`{name}` {shape:?} {dtype}") }
}

/// Bytes of a tensor in all.
pub(super) fn byte_size(request: &Request<'_>) -> Result<usize> {
    let Request { name, shape, dtype, .. } = request;
    if shape.contains(&0) {
        return Err(Error::Value(format!("tensor `{name}` has shape {shape:?}; every length must be at least 1")));
    }
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &length| bytes.checked_mul(length));
    bytes
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Error::Value(format!("tensor `{name}` {shape:?} {dtype} has more bytes than can be addressed")))
}
