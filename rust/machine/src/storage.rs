//! The memory of one tensor: where it lies, what it was declared as, and which line made it.

mod beside;
mod budget;
mod zeroed;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::site::SiteId;
pub(crate) use beside::{Contest, Covered, Use, Uses};
pub use beside::{Plane, Races, Strange};
pub use budget::{Held, HostBudget, Shortage};
pub use zeroed::{Zeroed, try_copy, try_zeros};

/// Lengths along each axis.
pub type Shape = SmallVec<[usize; 6]>;

/// Which memory a tensor lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// On chip, 128 partitions, every engine reads and writes it.
    Sbuf,
    /// On chip, matmul results: 8 banks a partition.
    Psum,
    /// HBM of one core (`nl.hbm`).
    PrivateHbm,
    /// HBM that the cores of a logical core share; kernel results lie here.
    SharedHbm,
}

impl Buffer {
    /// Whether the memory is SBUF or PSUM.
    pub const fn is_on_chip(self) -> bool {
        matches!(self, Buffer::Sbuf | Buffer::Psum)
    }

    /// Name as `nki.language` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Buffer::Sbuf => "sbuf",
            Buffer::Psum => "psum",
            Buffer::PrivateHbm => "private_hbm",
            Buffer::SharedHbm => "shared_hbm",
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The name of 0.1.0.
#[deprecated(note = "it is `Placement`")]
pub type Place = Placement;

/// Where an on-chip tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// First partition.
    pub partition: usize,
    /// First byte within each partition.
    pub byte: usize,
    /// Number of partitions.
    pub partitions: usize,
    /// Bytes in each partition.
    pub bytes: usize,
}

/// Bytes of an HBM tensor, and which of them were ever written.
#[derive(Debug, Default)]
pub struct HbmBytes {
    /// The bytes; empty until first touched, and in timing-only runs.
    pub bytes: Zeroed<u8>,
    /// One bit a byte; empty: all written (an input) if `complete`.
    pub initialised: Zeroed<u64>,
    /// Which of the bytes the host really holds.
    pub held: Held,
    /// Every byte is written: the bits need no look.
    pub complete: bool,
    /// Whether an instruction wrote to it.
    pub written: bool,
    /// Values beside the bytes, in memories that keep more than types hold.
    pub exact: Option<Box<Plane>>,
    /// Kinds of values that no number is, of a tensor that no instruction made; None until looked at.
    pub strange: Option<Strange>,
    /// Uses by the cores of a logical core since they last met; None until one of several uses it.
    pub races: Option<Box<Races>>,
}

/// What became of an on-chip tensor after it was placed.
#[derive(Debug, Default)]
pub struct Tenancy {
    /// Its first byte within each partition, where it had to give way to a tensor with an address; 0: it did not.
    pub moved: AtomicUsize,
    /// When it was last used, counted in operands; 0: never.
    pub used: AtomicU64,
    /// Who got its bytes, where it gave way to another tensor for good.
    pub evicted: OnceLock<String>,
    /// When something was first written to it, in writes to tensors with addresses; 0: never, or it has none.
    pub written: AtomicU64,
    /// Whether block scales were written to it, a few rows of each quadrant.
    pub scaled: AtomicBool,
}

/// The memory of one tensor. Views share it; when the last one goes, its place is free again.
pub struct Storage {
    /// Number, unique in the process.
    pub id: u64,
    /// Name that the kernel gave, or one made for it.
    pub name: String,
    /// Which memory.
    pub buffer: Buffer,
    /// Element type it was made with.
    pub dtype: DType,
    /// Shape it was made with.
    pub shape: Shape,
    /// Where on chip it was made; None in HBM. Time is kept by this place, wherever its bytes went since **(choice)**.
    pub place: Option<Placement>,
    /// What became of it since.
    pub tenancy: Tenancy,
    /// Whether the kernel gave the address (the place is then shared on purpose).
    pub addressed: bool,
    /// Line that made it.
    pub site: SiteId,
    /// Contents, in HBM. Tensors of several programs may be laid over the same bytes, one program at a time.
    pub hbm: Arc<Mutex<HbmBytes>>,
    /// Contents in HBM of the runs beside this one that keep more than types hold; made when those first look.
    pub shadows: [OnceLock<Box<Mutex<HbmBytes>>>; 2],
    /// Bytes of a row in the regions of an HBM tensor: set by the first view asked for its
    /// [`regions`](crate::view::View::regions), empty until then.
    pub pitch: OnceLock<u64>,
    /// Told when the storage goes.
    pub release: Option<Arc<dyn Release>>,
}

impl Storage {
    /// What says where its elements are, without them: for views that nobody reads.
    pub(crate) fn outline(&self) -> Self {
        Self {
            name: String::new(),
            shape: self.shape.clone(),
            tenancy: Tenancy::default(),
            hbm: Arc::default(),
            shadows: Default::default(),
            pitch: self.pitch.clone(),
            release: None,
            ..*self
        }
    }
}

/// Whoever placed a storage, told when its last view is gone.
pub trait Release: Send + Sync {
    /// The storage of this number is gone; `addressed` says whether the kernel had placed it.
    fn release(&self, id: u64, buffer: Buffer, addressed: bool);
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(release) = &self.release {
            release.release(self.id, self.buffer, self.addressed);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {:?} in {} at {:?}", self.name, self.dtype, self.shape, self.buffer, self.place)
    }
}

impl Storage {
    /// Where its bytes lie now; None in HBM.
    pub fn current_place(&self) -> Option<Placement> {
        let moved = self.tenancy.moved.load(Ordering::Relaxed);
        self.place.map(|place| if moved == 0 { place } else { Placement { byte: moved, ..place } })
    }

    /// Elements of the declared shape.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Elements per partition on chip (in elements of the declared type); all elements in HBM.
    pub fn free_elements(&self) -> usize {
        if self.buffer.is_on_chip() { self.shape.iter().skip(1).product() } else { self.elements() }
    }

    /// Bytes per partition on chip; all bytes in HBM.
    pub fn free_bytes(&self) -> usize {
        self.free_elements() * self.dtype.size()
    }

    /// Bytes in all.
    pub fn byte_size(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}
