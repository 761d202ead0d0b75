//! The memories of one core: where tensors lie, what they hold, and which of their bytes were ever written.
//!
//! Storage is bytes. SBUF and PSUM are one array each, so that tensors with overlapping addresses share bytes as they do
//! on the hardware; an HBM tensor has its own. A [`View`] says which bytes an operand is; [`Memory`] evaluates what of
//! that is dynamic, moves values between bytes and float32 or bit patterns, and notes reads of what nothing wrote.
//!
//! Model choices, where the hardware is undocumented:
//! - reading uninitialised bytes gives NaN in floats, 4 in integers, 1 in bool **(choice)**;
//! - a tensor without an address takes its bytes in all partitions, from partition 0 on **(choice)**; in SBUF it starts
//!   on a multiple of 64 bytes, in PSUM it takes whole banks;
//! - tensors under a 64th of the usable bytes come from the far end of places of one age **(choice)**;
//! - HBM holds what the whole chip has, one core being able to reach all of it **(choice)**.

mod allocator;
mod bits;
mod convert;
mod finding;
mod hbm;
mod lines;
mod on_chip;
mod resolve;
mod tile;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::machine::arch::ArchSpec;
use crate::machine::dtype::DType;
use crate::machine::site::SiteId;
use crate::machine::storage::{Buffer, HbmBytes, Place, Shape, Storage};
use crate::machine::view::{Dynamic, ScalarIndex, View};
use allocator::{Allocator, Released};
pub use finding::Finding;
use on_chip::OnChip;
pub use resolve::{Addressing, Operand, OutOfBounds};
use resolve::{Geometry, Resolved, Start};
pub use tile::Written;

/// Automatic SBUF tensors start on multiples of this.
const SBUF_ALIGNMENT: usize = 64;
/// Live tensors that a capacity error lists.
const LISTED: usize = 24;

/// How a run treats values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Reading uninitialised memory is an error instead of a finding.
    pub strict: bool,
    /// Values are computed. If not, "initialised" says which values are known, and reading others is
    /// [`Error::SkippedValue`].
    pub values: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { strict: false, values: true }
    }
}

/// A tensor wanted.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its lengths; on chip the first one counts partitions.
    pub shape: &'a [usize],
    /// Its element type.
    pub dtype: DType,
    /// The memory it shall lie in.
    pub buffer: Buffer,
    /// First partition and first byte in each partition; None: the allocator finds a place.
    pub address: Option<(usize, usize)>,
    /// Line that makes it.
    pub site: SiteId,
}

/// The value of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Of an integer type, bool included.
    Int(i64),
    /// Of every other type.
    Float(f32),
}

/// How much of a memory is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Bytes now: of a partition on chip, in all in HBM.
    pub live: u64,
    /// The most there were.
    pub peak: u64,
}

/// How much of each memory is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// SBUF, bytes of a partition.
    pub sbuf: Level,
    /// PSUM, bytes of a partition.
    pub psum: Level,
    /// HBM, bytes.
    pub hbm: Level,
}

/// A tensor came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccupancyChange {
    /// The memory; both kinds of HBM are [`Buffer::PrivateHbm`].
    pub buffer: Buffer,
    /// What is live from here on, in the units of [`Level`].
    pub live: u64,
}

/// Words for a line of the kernel.
type SiteNames = Box<dyn Fn(SiteId) -> String + Send + Sync>;

/// SBUF, PSUM and HBM of one core.
pub struct Memory {
    options: MemoryOptions,
    sbuf: OnChip,
    psum: OnChip,
    sbuf_places: Allocator,
    psum_places: Allocator,
    bank_bytes: usize,
    hbm_capacity: u64,
    hbm: hbm::Account,
    released: Arc<Released>,
    changes: Vec<OccupancyChange>,
    findings: Vec<Finding>,
    /// Tensor and reading line of findings made.
    found: HashSet<(u64, SiteId)>,
    names: SiteNames,
    /// Line of the instruction under way.
    site: SiteId,
    scratch: Vec<u32>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sbuf, psum) = (self.sbuf_places.live(), self.psum_places.live());
        write!(formatter, "Memory: {sbuf} bytes of SBUF and {psum} of PSUM live a partition")
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn size(figure: u64) -> usize {
    usize::try_from(figure).unwrap_or(usize::MAX)
}

impl Memory {
    /// The memories of a core, empty. Nothing is allocated before the first write.
    pub fn new(arch: &Arc<ArchSpec>, options: MemoryOptions) -> Self {
        let partitions = size(arch.partitions);
        let (sbuf, psum) = (size(arch.sbuf_partition_bytes), size(arch.psum_partition_bytes()));
        let bank_bytes = size(arch.psum_bank_bytes);
        Self {
            options,
            sbuf: OnChip::new(partitions, sbuf),
            psum: OnChip::new(partitions, psum),
            sbuf_places: Allocator::new(sbuf, size(arch.sbuf_usable_bytes()), SBUF_ALIGNMENT),
            psum_places: Allocator::new(psum, psum, bank_bytes),
            bank_bytes,
            hbm_capacity: arch.hbm_bytes,
            hbm: hbm::Account::default(),
            released: Arc::default(),
            changes: Vec::new(),
            findings: Vec::new(),
            found: HashSet::new(),
            names: Box::new(|site| format!("site {}", site.0)),
            site: SiteId::default(),
            scratch: Vec::new(),
        }
    }

    /// How the run treats values.
    pub fn options(&self) -> MemoryOptions {
        self.options
    }

    /// Gives messages the words for a line: `file:line` instead of a number.
    pub fn name_sites(&mut self, names: impl Fn(SiteId) -> String + Send + Sync + 'static) {
        self.names = Box::new(names);
    }

    /// Says which line the instruction is from that now reads and writes; findings name it where no reader is given.
    pub fn set_site(&mut self, site: SiteId) {
        self.site = site;
    }

    /// Makes a tensor. Its bytes are uninitialised, unless a given address lies on bytes of a live tensor: those stay
    /// as they are.
    ///
    /// # Errors
    /// [`Error::Value`] for shapes that the memory cannot hold and for bad addresses; [`Error::SbufCapacity`],
    /// [`Error::PsumCapacity`] and [`Error::HbmCapacity`] with a table of the live tensors when it does not fit.
    pub fn allocate(&mut self, request: &Request<'_>) -> Result<Arc<Storage>> {
        let bytes = byte_size(request)?;
        if !request.buffer.is_on_chip() {
            if request.address.is_some() {
                let (name, buffer) = (request.name, request.buffer);
                return Err(Error::Value(format!("tensor `{name}`: address is given; {buffer} tensors have none")));
            }
            return self.place_in_hbm(request, bytes, HbmBytes::default());
        }
        self.settle();
        let shape = self.on_chip_shape(request)?;
        let partitions = shape[0];
        let row_bytes = bytes / partitions;
        let place = match request.address {
            Some(address) => self.given_place(request, address, partitions, row_bytes)?,
            None => match self.places(request.buffer).find(row_bytes) {
                Some(byte) => Place { partition: 0, byte, partitions, bytes: row_bytes },
                None => return Err(self.capacity_error(request, row_bytes)),
            },
        };
        let addressed = request.address.is_some();
        let storage = Arc::new(Storage {
            pitch: std::sync::OnceLock::new(),
            id: next_id(),
            name: request.name.to_owned(),
            buffer: request.buffer,
            dtype: request.dtype,
            shape,
            place: Some(place),
            addressed,
            site: request.site,
            hbm: Default::default(),
            release: Some(self.released.clone()),
        });
        let places = self.places(request.buffer);
        let end = place.byte + places.extent(row_bytes);
        let end = if addressed { place.byte + row_bytes } else { end };
        let is_shared = addressed && places.is_used(place.byte, end);
        if !is_shared && let Some(memory) = self.on_chip_mut(request.buffer) {
            memory.forget(place);
        }
        let places = self.places_mut(request.buffer);
        places.take(place.byte, end, &storage);
        let live = places.live() as u64;
        self.changes.push(OccupancyChange { buffer: request.buffer, live });
        Ok(storage)
    }

    /// Makes an HBM tensor of these bytes, in C order and little-endian. None, for timing-only runs: its values are
    /// unknown.
    ///
    /// # Errors
    /// [`Error::Value`] for a buffer on chip, a wrong number of bytes, and None where values are computed;
    /// [`Error::HbmCapacity`].
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
            Some(bytes) => HbmBytes { bytes, initialised: Vec::new(), complete: true, written: false },
            None if self.options.values => return refuse("no bytes came; a run with values needs them".to_owned()),
            None => HbmBytes::default(),
        };
        self.place_in_hbm(&request, needed, contents)
    }

    fn place_in_hbm(&mut self, request: &Request<'_>, bytes: usize, contents: HbmBytes) -> Result<Arc<Storage>> {
        if !self.hbm.fits(bytes as u64, self.hbm_capacity) {
            let Request { name, shape, dtype, .. } = request;
            let mut text = format!(
                "HBM cannot hold tensor `{name}` {shape:?} {dtype}: it needs {bytes} bytes, {} there are, {} are live \
                 (peak {})",
                self.hbm_capacity, self.hbm.live, self.hbm.peak
            );
            let live = self.hbm.largest();
            self.list(&mut text, &live, |storage| storage.byte_size());
            return Err(Error::HbmCapacity(text));
        }
        let storage = Arc::new(Storage {
            pitch: std::sync::OnceLock::new(),
            id: next_id(),
            name: request.name.to_owned(),
            buffer: request.buffer,
            dtype: request.dtype,
            shape: Shape::from_slice(request.shape),
            place: None,
            addressed: false,
            site: request.site,
            hbm: contents.into(),
            release: None,
        });
        self.hbm.add(&storage);
        self.changes.push(OccupancyChange { buffer: Buffer::PrivateHbm, live: self.hbm.live });
        Ok(storage)
    }

    /// The shape on chip: at least two axes, no more partitions than there are.
    fn on_chip_shape(&self, request: &Request<'_>) -> Result<Shape> {
        let (name, shape) = (request.name, request.shape);
        if shape.len() < 2 {
            if shape.iter().product::<usize>() != 1 {
                return Err(Error::Value(format!(
                    "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and free-dim); tensor `{name}` \
                     has shape {shape:?}, write [{}, 1]",
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

    fn given_place(
        &self,
        request: &Request<'_>,
        (partition, byte): (usize, usize),
        partitions: usize,
        bytes: usize,
    ) -> Result<Place> {
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
        if byte.checked_add(bytes).is_none_or(|end| end > memory.partition_bytes()) {
            let (end, capacity) = (byte.saturating_add(bytes), memory.partition_bytes());
            let text = refuse(format!("has bytes {byte} to {end} of a partition; there are {capacity}")).to_string();
            return Err(match buffer {
                Buffer::Psum => Error::PsumCapacity(text),
                _ => Error::SbufCapacity(text),
            });
        }
        Ok(Place { partition, byte, partitions, bytes })
    }

    fn capacity_error(&self, request: &Request<'_>, row_bytes: usize) -> Error {
        let Request { name, shape, dtype, buffer, .. } = request;
        let places = self.places(*buffer);
        let (needed, largest, free) = (places.extent(row_bytes), places.largest_free(), places.free());
        let memory = if *buffer == Buffer::Psum { "PSUM" } else { "SBUF" };
        let mut text = format!(
            "{memory} cannot hold tensor `{name}` {shape:?} {dtype}: it needs {needed} bytes per partition, {} are usable, \
             {} are live (peak {}), the largest free piece has {largest}",
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
            "\nhint: a tensor's bytes are free again when its last reference goes; reuse tensors, make them smaller, or \
             give addresses"
        });
        if *buffer == Buffer::Psum { Error::PsumCapacity(text) } else { Error::SbufCapacity(text) }
    }

    fn list(&self, text: &mut String, live: &[Arc<Storage>], bytes: impl Fn(&Storage) -> usize) {
        if live.is_empty() {
            return;
        }
        text.push_str("\nlive tensors, largest first (bytes");
        text.push_str(if live[0].buffer.is_on_chip() { " per partition" } else { "" });
        text.push_str(", name, line that made it):");
        for storage in live.iter().take(LISTED) {
            let line = format!("\n{:>12}  {}  {}", bytes(storage), storage.name, (self.names)(storage.site));
            text.push_str(line.trim_end());
        }
        if let Some(rest) = live.get(LISTED..).filter(|rest| !rest.is_empty()) {
            let sum: usize = rest.iter().map(|storage| bytes(storage)).sum();
            text.push_str(&format!("\n{sum:>12}  in {} more", rest.len()));
        }
    }

    /// What is live now, and the most that ever was.
    pub fn live(&mut self) -> Occupancy {
        self.settle();
        if self.hbm.settle() {
            self.changes.push(OccupancyChange { buffer: Buffer::PrivateHbm, live: self.hbm.live });
        }
        let level = |places: &Allocator| Level { live: places.live() as u64, peak: places.peak() as u64 };
        Occupancy {
            sbuf: level(&self.sbuf_places),
            psum: level(&self.psum_places),
            hbm: Level { live: self.hbm.live, peak: self.hbm.peak },
        }
    }

    /// Tensors that came and went since the last call, in program order. Call it before each instruction to learn
    /// between which two of them a tensor went.
    pub fn take_changes(&mut self) -> Vec<OccupancyChange> {
        self.settle();
        std::mem::take(&mut self.changes)
    }

    /// Notices tensors whose last reference is gone.
    fn settle(&mut self) {
        for (id, buffer) in self.released.take() {
            let places = self.places_mut(buffer);
            places.give_back(id);
            let live = places.live() as u64;
            self.changes.push(OccupancyChange { buffer, live });
        }
    }

    /// What the run found so far.
    pub fn findings(&mut self) -> &mut Vec<Finding> {
        &mut self.findings
    }

    fn places(&self, buffer: Buffer) -> &Allocator {
        if buffer == Buffer::Psum { &self.psum_places } else { &self.sbuf_places }
    }

    fn places_mut(&mut self, buffer: Buffer) -> &mut Allocator {
        if buffer == Buffer::Psum { &mut self.psum_places } else { &mut self.sbuf_places }
    }

    fn on_chip(&self, buffer: Buffer) -> Option<&OnChip> {
        match buffer {
            Buffer::Sbuf => Some(&self.sbuf),
            Buffer::Psum => Some(&self.psum),
            Buffer::PrivateHbm | Buffer::SharedHbm => None,
        }
    }

    fn on_chip_mut(&mut self, buffer: Buffer) -> Option<&mut OnChip> {
        match buffer {
            Buffer::Sbuf => Some(&mut self.sbuf),
            Buffer::Psum => Some(&mut self.psum),
            Buffer::PrivateHbm | Buffer::SharedHbm => None,
        }
    }

    fn on_chip_bytes(&self, buffer: Buffer) -> &[u8] {
        self.on_chip(buffer).map_or(&[], OnChip::bytes)
    }

    /// The bytes of the memory that a storage lies in.
    fn with_bytes<R>(&mut self, storage: &Storage, work: impl FnOnce(&[u8]) -> R) -> R {
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => {
                memory.touch();
                work(memory.bytes())
            }
            None => {
                let mut contents = hbm::lock(storage);
                hbm::touch(&mut contents, storage.byte_size());
                work(&contents.bytes)
            }
        }
    }

    fn with_bytes_mut<R>(&mut self, storage: &Storage, work: impl FnOnce(&mut [u8]) -> R) -> R {
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => {
                memory.touch();
                work(memory.bytes_mut())
            }
            None => {
                let mut contents = hbm::lock(storage);
                hbm::touch(&mut contents, storage.byte_size());
                work(&mut contents.bytes)
            }
        }
    }

    /// Which rows of an indirect operand an instruction performs; None: all.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; those of reading the index.
    pub fn performed_rows<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<Option<Vec<bool>>> {
        let site = self.site;
        Ok(self.resolve(operand.into(), site)?.performed())
    }

    /// Which bytes an operand is.
    fn resolve(&mut self, operand: Operand<'_>, reader: SiteId) -> Result<Resolved> {
        let view = operand.view;
        let geometry = self.on_chip(view.storage.buffer).map(|memory| Geometry {
            partitions: memory.partitions(),
            partition_bytes: memory.partition_bytes(),
            pitch: memory.pitch(),
        });
        let start = match view.dynamic.as_deref() {
            None => Start::Shift(0),
            Some(dynamic) => self.evaluate(operand, dynamic, reader)?,
        };
        resolve::locate(view, geometry, start)
    }

    fn evaluate(&mut self, operand: Operand<'_>, dynamic: &Dynamic, reader: SiteId) -> Result<Start> {
        let view = operand.view;
        let name = &view.storage.name;
        let outside = |what: &str, value: i64, bound: usize| {
            let text =
                format!("Out-of-bound access for tensor `{name}`: {what} {value} exceed dimension size of {bound}");
            Error::OutOfBounds(text)
        };
        let is_inside = |value: i64, bound: usize| usize::try_from(value).is_ok_and(|value| value < bound);
        match dynamic {
            Dynamic::Scalar { index, stride, bound } => {
                let value = self.index_value(name, index, reader)?;
                if !is_inside(value, *bound) {
                    return Err(outside("dynamic index", value, *bound));
                }
                Ok(Start::Shift(value.saturating_mul(*stride)))
            }
            Dynamic::Rows { index, stride, bound } => {
                let rows = view.shape.first().copied().unwrap_or(1);
                let indices = self.indices(name, index, reader)?;
                if indices.len() < rows {
                    let count = indices.len();
                    return Err(Error::Value(format!("view of `{name}`: {count} row indices for {rows} rows")));
                }
                // Indices lie partition after partition, then column after column.
                let (height, width) = (index.partitions(), index.free_size());
                let mut starts = Vec::with_capacity(rows);
                let mut skipped = None;
                for row in 0..rows {
                    let value = indices[(row % height) * width + row / height];
                    if is_inside(value, *bound) {
                        starts.push(Some(value.saturating_mul(*stride)));
                    } else if operand.addressing.out_of_bounds == OutOfBounds::Skip {
                        let (_, count) = skipped.get_or_insert((value, 0usize));
                        *count += 1;
                        starts.push(None);
                    } else {
                        return Err(outside("row index", value, *bound));
                    }
                }
                if let Some((index, count)) = skipped
                    && self.found.insert((view.storage.id, reader))
                {
                    let tensor = name.clone();
                    self.findings.push(Finding::OutOfBoundsSkipped { tensor, reader, index, count });
                }
                Ok(Start::Rows(starts))
            }
            Dynamic::Columns { index, .. } => {
                let (rows, columns) = (view.partitions(), view.free_size());
                let indices = self.indices(name, index, reader)?;
                let (height, width) = (index.partitions(), index.free_size());
                let group = operand.addressing.group.max(1);
                if height < rows {
                    let text = format!("view of `{name}`: column indices of {height} partitions for {rows} partitions");
                    return Err(Error::Value(text));
                }
                let list = |first: usize| {
                    let size = group.min(height - first);
                    if columns > size * width {
                        let text = format!("view of `{name}`: {} column indices for {columns} columns", size * width);
                        return Err(Error::Value(text));
                    }
                    Ok((0..columns).map(|column| indices[(first + column % group) * width + column / group]).collect())
                };
                Ok(Start::Columns { group, lists: (0..rows).step_by(group).map(list).collect::<Result<_>>()? })
            }
        }
    }

    fn index_value(&mut self, name: &str, index: &ScalarIndex, reader: SiteId) -> Result<i64> {
        match index {
            ScalarIndex::Register(register) => {
                let value = *register.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                value.ok_or_else(|| {
                    let text = format!("view of `{name}`: register {} was never written", register.id);
                    if self.options.values { Error::Value(text) } else { Error::SkippedValue(text) }
                })
            }
            ScalarIndex::Element(view) => match self.indices(name, view, reader)?.as_slice() {
                [value] => Ok(*value),
                values => Err(Error::Value(format!(
                    "view of `{name}`: dynamic index has {} elements; one is needed",
                    values.len()
                ))),
            },
        }
    }

    /// The values of an index tile, in C order.
    fn indices(&mut self, name: &str, index: &View, reader: SiteId) -> Result<Vec<i64>> {
        if !index.dtype.is_integer() {
            let text = format!("view of `{name}`: dynamic index has type {}; an integer is needed", index.dtype);
            return Err(Error::Type(text));
        }
        if index.dynamic.is_some() {
            let text = format!("view of `{name}`: its index is addressed dynamically itself; one such step is allowed");
            return Err(Error::Value(text));
        }
        let mut bits = Vec::new();
        self.read_bits(index, &mut bits, reader)?;
        Ok(bits.into_iter().map(|bits| convert::integer(index.dtype, bits)).collect())
    }

    /// A read of what nothing wrote: a finding, or an error.
    fn note_uninitialised(
        &mut self,
        view: &View,
        reader: SiteId,
        partition: usize,
        byte: usize,
        count: usize,
    ) -> Result<()> {
        let storage = &view.storage;
        let allocated = storage.site;
        let byte = byte - storage.place.map_or(0, |place| place.byte);
        let partition = partition - storage.place.map_or(0, |place| place.partition);
        let made = (self.names)(allocated);
        if !self.options.values {
            return Err(Error::SkippedValue(format!(
                "tensor `{}` (made at {made}): its values are needed and were not computed; addresses and control flow \
                 must not depend on data that a timing-only run skips",
                storage.name
            )));
        }
        if self.options.strict {
            let message = format!(
                "tensor `{}` (made at {made}): {count} uninitialised elements read, the first at partition {partition}, \
                 byte {byte}; every element must be written before it is read",
                storage.name
            );
            return Err(Error::Uninitialised { message, allocated });
        }
        if self.found.insert((storage.id, reader)) {
            let tensor = storage.name.clone();
            self.findings.push(Finding::UninitialisedRead { tensor, reader, allocated, partition, byte, count });
        }
        Ok(())
    }
}

/// Bytes of a tensor in all.
fn byte_size(request: &Request<'_>) -> Result<usize> {
    let Request { name, shape, dtype, .. } = request;
    if shape.contains(&0) {
        return Err(Error::Value(format!("tensor `{name}` has shape {shape:?}; every length must be at least 1")));
    }
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &length| bytes.checked_mul(length));
    bytes
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Error::Value(format!("tensor `{name}` {shape:?} {dtype} has more bytes than can be addressed")))
}
