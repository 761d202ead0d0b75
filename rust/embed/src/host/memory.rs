//! Memories by address, and state that can be saved.

use trn3_machine::error::Result;
use trn3_machine::time::Picos;

/// Bytes by address, with the time that moving them adds: what a transport call of a host needs.
///
/// ```
/// use trn3_machine::time::Picos;
/// use trn3_embed::AddressedMemory;
/// use trn3_machine::{Error, Result};
///
/// /// A host's own memory: one nanosecond a byte.
/// struct Plain(Vec<u8>);
///
/// impl AddressedMemory for Plain {
///     fn read(&mut self, address: u64, out: &mut [u8]) -> Result<Picos> {
///         let held = self.0.get(address as usize..).and_then(|held| held.get(..out.len()));
///         out.copy_from_slice(held.ok_or_else(|| Error::OutOfBounds(format!("address {address}")))?);
///         Ok(Picos(1000 * out.len() as u64))
///     }
///     fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Picos> {
///         let held = self.0.get_mut(address as usize..).and_then(|held| held.get_mut(..bytes.len()));
///         held.ok_or_else(|| Error::OutOfBounds(format!("address {address}")))?.copy_from_slice(bytes);
///         Ok(Picos(1000 * bytes.len() as u64))
///     }
///     fn len(&self) -> u64 {
///         self.0.len() as u64
///     }
/// }
///
/// let mut memory: Box<dyn AddressedMemory> = Box::new(Plain(vec![0; 64]));
/// assert_eq!(memory.write(60, &[1, 2])?, Picos(2000));
/// assert!(memory.read(63, &mut [0; 2]).is_err());
/// # Ok::<(), Error>(())
/// ```
pub trait AddressedMemory {
    /// Reads bytes; says how long it takes.
    ///
    /// # Errors
    /// [`trn3_machine::Error::OutOfBounds`] beyond the end.
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<Picos>;

    /// Writes bytes; says how long it takes.
    ///
    /// # Errors
    /// As [`AddressedMemory::read`].
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Picos>;

    /// Bytes there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// State that can be saved whole and gone on from: bit for bit, picosecond for picosecond.
///
/// ```
/// use trn3_embed::Snapshot;
/// use trn3_machine::{Error, Result};
///
/// struct Counter(u64);
///
/// impl Snapshot for Counter {
///     fn version(&self) -> u32 {
///         1
///     }
///     fn save(&mut self) -> Result<Vec<u8>> {
///         Ok(self.0.to_le_bytes().to_vec())
///     }
///     fn load(&mut self, saved: &[u8]) -> Result<()> {
///         let saved = saved.try_into().map_err(|_| Error::Value(format!("{} bytes; needed: 8", saved.len())))?;
///         self.0 = u64::from_le_bytes(saved);
///         Ok(())
///     }
/// }
///
/// let saved = Counter(7).save()?;
/// let mut counter: Box<dyn Snapshot> = Box::new(Counter(0));
/// counter.load(&saved)?;
/// assert_eq!(counter.save()?, saved);
/// # Ok::<(), Error>(())
/// ```
pub trait Snapshot {
    /// Version of the format that [`Snapshot::save`] writes.
    fn version(&self) -> u32;

    /// The whole state.
    ///
    /// # Errors
    /// When part of the state cannot be saved.
    fn save(&mut self) -> Result<Vec<u8>>;

    /// Goes on from a saved state. When it is refused, the state is as it was.
    ///
    /// # Errors
    /// For another version, another configuration, or damage.
    fn load(&mut self, saved: &[u8]) -> Result<()>;
}
