//! The memories of one core: where tensors lie, what they hold, and which of their bytes were ever written.
//!
//! Storage is bytes. SBUF and PSUM are one array each, so that tensors with overlapping addresses share bytes as they
//! do on the hardware; an HBM tensor has its own. A [`View`](crate::view::View) says which bytes an operand
//! is; [`Memory`] evaluates what of that is dynamic, moves values between bytes and float32 or bit patterns, and notes
//! reads of what nothing wrote.
//!
//! Model choices, where the hardware is undocumented:
//! - reading uninitialised bytes gives NaN in floats, 4 in integers, 1 in bool **(choice)**;
//! - the low 13 bits of a tfloat32 are ignored where its value is read, and kept where its bits are **(choice)**;
//! - a tensor without an address takes its bytes in all partitions, from partition 0 on **(choice)**; in SBUF it starts
//!   on a multiple of 64 bytes, in PSUM it takes whole banks;
//! - tensors under a 64th of the usable bytes come from the far end of places of one age **(choice)**;
//! - a tensor without an address never shares bytes with one that has one; where none are free it gets those of tensors
//!   used longest ago, of which a further use is then the capacity error **(choice)**: a compiler counts a tensor from
//!   its first use to its last one, a simulator sees only when the kernel's last reference to it goes;
//! - HBM holds what the whole chip has, one core being able to reach all of it **(choice)**;
//! - of column indices, a last group with fewer partitions than others is as large as it is **(choice)**.
//!
//! ```
//! use std::sync::Arc;
//! use trn3_machine::arch::ArchSpec;
//! use trn3_machine::dtype::DType;
//! use trn3_machine::memory::{Memory, MemoryOptions, Request};
//! use trn3_machine::site::SiteId;
//! use trn3_machine::storage::Buffer;
//! use trn3_machine::view::View;
//! use trn3_numerics::CastOptions;
//!
//! let mut memory = Memory::new(&Arc::new(ArchSpec::load("trn3")?), MemoryOptions::default());
//! let (shape, site) = ([128, 2], SiteId::default());
//! let request =
//!     Request { name: "x", shape: &shape, dtype: DType::BFloat16, buffer: Buffer::Sbuf, address: None, site };
//! let tile = View::whole(memory.allocate(&request)?);
//! memory.write_f32(&tile, &[1.005; 256], CastOptions::default())?;
//! let mut values = Vec::new();
//! memory.read_f32(&tile, &mut values, site)?;
//! assert_eq!(values, [1.0078125; 256]);
//! # Ok::<(), trn3_machine::Error>(())
//! ```

mod allocate;
mod allocator;
mod bits;
mod bounds;
mod contest;
mod convert;
mod copy;
mod dynamic;
mod exact;
mod finding;
mod hbm;
mod host;
mod known;
mod lend;
mod lines;
mod missing;
mod nonfinite;
mod on_chip;
mod placer;
mod race;
mod resolve;
mod reuse;
mod rounding;
mod space;
mod tenancy;
mod tenants;
mod tile;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::mem::Discriminant;
use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::{Buffer, HostBudget, Placement, Storage};
pub use crate::storage::{Plane, Races, Strange};
pub(crate) use allocate::next_id;
use allocator::Released;
use bits::PartitionBits;
pub use bounds::OutOfBounds;
pub use exact::{Moved, Precision};
pub use finding::{Finding, Origin};
pub use known::Written;
pub use nonfinite::Trouble;
use on_chip::OnChip;
pub use placer::Placer;
pub use race::Sharing;
pub use resolve::{Addressing, Operand};
use resolve::{Geometry, Resolved, Start};
pub use space::{Contents, HbmSpace, Stretch};
pub use tenancy::Examined;
pub(crate) use tenants::TenantPlaces;
pub use tile::Scalar;

/// Automatic SBUF tensors start on multiples of this.
const SBUF_ALIGNMENT: usize = 64;

/// How a run treats values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Reading uninitialised memory is an error instead of a finding.
    pub strict: bool,
    /// Values are computed. If not, "initialised" says which values are known, and reading others is
    /// [`crate::Error::SkippedValue`].
    pub values: bool,
    /// What elements of floating-point types hold.
    pub precision: Precision,
    /// Tensors on chip without an address lie behind the bytes that an address can name, where there is always room.
    pub unlimited: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { strict: false, values: true, precision: Precision::Declared, unlimited: false }
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
    /// Number, unique in the process; registers know their launch by it.
    number: u64,
    options: MemoryOptions,
    sbuf: OnChip,
    psum: OnChip,
    /// Of each PSUM tensor that matmuls wrote to, which bytes. A tensor made at the address of another one is fresh,
    /// whether or not the kernel still holds that.
    matmuls: HashMap<u64, PartitionBits>,
    sbuf_places: tenancy::Places,
    psum_places: tenancy::Places,
    bank_bytes: usize,
    hbm_capacity: u64,
    hbm: hbm::SharedAccount,
    /// What HBM tensors may hold of the host's memory.
    budget: Arc<HostBudget>,
    released: Arc<Released>,
    changes: Vec<OccupancyChange>,
    /// Tensors on chip that are gone: all, and those without an address where places have no limit.
    gone: [Vec<u64>; 2],
    findings: Vec<Finding>,
    /// Tensor, line and kind of findings made.
    found: HashSet<(u64, SiteId, Discriminant<Finding>)>,
    names: SiteNames,
    /// Line of the instruction under way.
    site: SiteId,
    scratch: Vec<u32>,
    /// Operands met so far: what tensors' last uses are counted in.
    uses: u64,
    /// Which of several cores on one HBM this one is.
    sharing: Option<Sharing>,
    /// Number of the instruction under way.
    instruction: u32,
    /// Writes to tensors that others reach, by tensor, since the cores last met.
    writes: HashMap<u64, Vec<contest::SharedWrite>>,
    /// Tensors of which this core wrote bytes that another one had written.
    contested: Vec<Arc<Storage>>,
    /// Which contents of HBM tensors are meant.
    layer: hbm::Layer,
    /// Elements that the instruction under way moves.
    moved: Vec<Moved>,
    /// Where the last tensor was placed, if nothing lived there.
    last_fresh: Option<(Buffer, Placement)>,
    /// NaN and infinity: what the instruction under way wrote, and which tensors hold some.
    watch: nonfinite::Watch,
    reuse: reuse::Reuse,
    /// Elements that functions with a documented range took, by line, and the finding about them.
    ranges: BTreeMap<(SiteId, &'static str), (u64, Option<usize>)>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sbuf, psum) = (self.sbuf_places.live(), self.psum_places.live());
        write!(formatter, "Memory: {sbuf} bytes of SBUF and {psum} of PSUM live a partition")
    }
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
            number: allocate::next_id(),
            options,
            sbuf: OnChip::new(partitions, sbuf),
            psum: OnChip::new(partitions, psum),
            matmuls: HashMap::new(),
            sbuf_places: tenancy::Places::new(sbuf, size(arch.sbuf_usable_bytes()), SBUF_ALIGNMENT, options.unlimited),
            psum_places: tenancy::Places::new(psum, psum, bank_bytes, options.unlimited),
            bank_bytes,
            hbm_capacity: arch.hbm_bytes,
            hbm: hbm::SharedAccount::default(),
            budget: Arc::default(),
            sharing: None,
            instruction: 0,
            writes: HashMap::new(),
            contested: Vec::new(),
            released: Arc::default(),
            changes: Vec::new(),
            gone: Default::default(),
            findings: Vec::new(),
            found: HashSet::new(),
            names: Box::new(|site| format!("site {}", site.0)),
            site: SiteId::default(),
            scratch: Vec::new(),
            uses: 0,
            layer: hbm::Layer::Real,
            moved: Vec::new(),
            last_fresh: None,
            watch: nonfinite::Watch::default(),
            reuse: reuse::Reuse::default(),
            ranges: BTreeMap::new(),
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

    /// Makes this the memory of a core beside others: HBM is one, and unordered uses of the same bytes are findings.
    pub fn share(&mut self, sharing: Sharing, with: Option<&Memory>) {
        self.sharing = Some(sharing);
        if let Some(other) = with {
            self.hbm = other.hbm.clone();
            self.budget = Arc::clone(&other.budget);
        }
    }

    /// Counts the most HBM that another memory of the same chip ever held as taken; messages call it `who`.
    pub fn leave_hbm_to(&mut self, other: &Memory, who: &str) {
        let held = other.hbm.lock().peak;
        self.hbm.lock().others.push((who.to_owned(), held));
    }

    /// Most bytes of the host's memory that tensors made from here on may hold, and results beside them; None: a share of
    /// what is free.
    pub fn limit_host(&mut self, most: Option<u64>) {
        self.budget = Arc::new(HostBudget::new("max_host_bytes", most));
    }

    /// Notes no more uses; returns what [`Memory::share`] takes to go on.
    pub fn stop_sharing(&mut self) -> Option<Sharing> {
        self.sharing.take()
    }

    /// The cores of the logical core have met: what each did before comes before what any does from here on.
    pub fn synchronise(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.epoch += 1;
        }
        self.writes.clear();
        self.contested.clear();
    }

    /// Says which instruction it is that now writes.
    pub fn set_instruction(&mut self, id: u32) {
        self.instruction = id;
    }

    /// Says which line the instruction is from that now reads and writes; findings name it where no reader is given.
    pub fn set_site(&mut self, site: SiteId) {
        self.site = site;
        self.moved.clear();
    }

    /// What is live now, and the most that ever was.
    pub fn live(&mut self) -> Occupancy {
        self.settle();
        let mut account = self.hbm.lock();
        if account.settle() {
            self.changes.push(OccupancyChange { buffer: Buffer::PrivateHbm, live: account.live });
        }
        let hbm = Level { live: account.live, peak: account.peak };
        drop(account);
        let level = |places: &tenancy::Places| Level { live: places.live() as u64, peak: places.peak() as u64 };
        Occupancy { sbuf: level(&self.sbuf_places), psum: level(&self.psum_places), hbm }
    }

    /// Tensors that came and went since the last call, in program order. Call it before each instruction to learn
    /// between which two of them a tensor went.
    pub fn take_changes(&mut self) -> Vec<OccupancyChange> {
        self.settle();
        std::mem::take(&mut self.changes)
    }

    /// Notices tensors whose last reference is gone.
    fn settle(&mut self) {
        for (id, buffer, addressed) in self.released.take() {
            let places = self.places_mut(buffer);
            places.give_back(id, addressed);
            let live = places.live() as u64;
            self.matmuls.remove(&id);
            self.gone[0].push(id);
            if self.options.unlimited && !addressed {
                self.gone[1].push(id);
            }
            self.changes.push(OccupancyChange { buffer, live });
        }
    }

    /// Starts a new run on what is there: nothing found, nothing come or gone.
    pub fn restart(&mut self) {
        self.settle();
        self.changes.clear();
        self.findings.clear();
        self.found.clear();
        self.moved.clear();
        self.writes.clear();
        self.contested.clear();
        self.ranges.clear();
        self.watch = nonfinite::Watch::default();
        self.reuse.restart();
    }

    /// The memories of one of two runs beside this one: they keep more than types hold, and note no uses.
    pub(crate) fn shadow(arch: &Arc<ArchSpec>, second: bool, unlimited: bool) -> Self {
        let options = MemoryOptions { strict: false, values: true, precision: Precision::Float64, unlimited };
        let mut memory = Self::new(arch, options);
        memory.layer = hbm::Layer::Shadow(usize::from(second));
        memory
    }

    /// Forgets what is known of a place on chip: its bytes are a fresh tensor's.
    pub fn forget_place(&mut self, buffer: Buffer, place: Placement) {
        if let Some(memory) = self.on_chip_mut(buffer) {
            memory.forget(place);
        }
    }

    /// What the run found so far.
    pub fn findings(&mut self) -> &mut Vec<Finding> {
        &mut self.findings
    }

    /// Records a finding about a storage, once for each kind and line.
    fn note(&mut self, storage: &Storage, finding: Finding) {
        if self.found.insert((storage.id, finding.reader(), std::mem::discriminant(&finding))) {
            self.findings.push(finding);
        }
    }

    fn places(&self, buffer: Buffer) -> &tenancy::Places {
        if buffer == Buffer::Psum { &self.psum_places } else { &self.sbuf_places }
    }

    fn places_mut(&mut self, buffer: Buffer) -> &mut tenancy::Places {
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
    fn with_bytes<R>(&mut self, storage: &Storage, work: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let layer = self.layer;
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => {
                memory.touch()?;
                Ok(work(memory.bytes()))
            }
            None => {
                let mut contents = hbm::lock(storage, layer)?;
                hbm::touch(&mut contents, storage.byte_size()).map_err(|shortage| hbm::short(storage, shortage))?;
                Ok(work(&contents.bytes))
            }
        }
    }

    /// As [`Memory::with_bytes`] for a write of an operand, and of no bytes beside it.
    fn with_bytes_mut<R>(
        &mut self,
        storage: &Storage,
        place: &Resolved,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let layer = self.layer;
        match self.on_chip_mut(storage.buffer) {
            Some(memory) => {
                memory.touch()?;
                Ok(work(memory.bytes_mut()))
            }
            None => {
                let mut contents = hbm::lock(storage, layer)?;
                let claimed = hbm::claim(&mut contents, place, storage.byte_size());
                claimed.map_err(|shortage| hbm::short(storage, shortage))?;
                Ok(work(&mut contents.bytes))
            }
        }
    }

    /// Which rows of an indirect operand an instruction performs; None: all.
    ///
    /// # Errors
    /// [`crate::Error::OutOfBounds`]; those of reading the index.
    pub fn performed_rows<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<Option<Vec<bool>>> {
        let site = self.site;
        Ok(self.resolve(operand.into(), site)?.performed())
    }

    /// Which bytes an operand is.
    fn resolve(&mut self, operand: Operand<'_>, reader: SiteId) -> Result<Resolved> {
        let view = operand.view;
        let elements = view.shape.iter().try_fold(1usize, |all, &length| all.checked_mul(length));
        if elements.is_none_or(|all| all > isize::MAX as usize / size_of::<f32>()) {
            let (name, shape) = (&view.storage.name, &view.shape);
            return Err(Error::Value(format!("view of `{name}`: shape {shape:?} has more elements than can be held")));
        }
        self.note_tenant(&view.storage)?;
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
}
