//! Memories of a device by address, with the time that moving bytes adds.

use std::sync::PoisonError;

use trn3_machine::memory::Contents;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;

use super::Device;
use crate::command::MemorySpace;
use crate::error::{Error, Result};

/// HBM bytes whose place in the host's memory stays.
#[derive(Clone, Debug)]
pub struct Direct {
    contents: Contents,
    offset: usize,
    length: usize,
}

impl Direct {
    /// Lets the host at the bytes.
    ///
    /// ```
    /// use trn3_embed::{Device, DeviceSpec, MemorySpace};
    ///
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// let direct = device.memory_direct(4096, 16)?;
    /// direct.with(|bytes| bytes.fill(7));
    /// let mut byte = [0];
    /// device.read(MemorySpace::Hbm, 0, 4100, &mut byte)?;
    /// assert_eq!(byte, [7]);
    /// device.release_direct(4096, 16)?;
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn with<R>(&self, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        // A stretch that was let go and cut may be shorter by now; its bytes are then nobody's.
        let bytes = contents.bytes.get_mut(self.offset..self.offset + self.length).unwrap_or_default();
        work(bytes)
    }
}

/// A memory of a device as a host's transport calls use it.
pub struct MemoryPort<'a> {
    device: &'a mut Device,
    space: MemorySpace,
    core: u32,
}

impl crate::host::AddressedMemory for MemoryPort<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> trn3_machine::Result<Picos> {
        Ok(self.device.read(self.space, self.core, address, out)?)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> trn3_machine::Result<Picos> {
        Ok(self.device.write(self.space, self.core, address, bytes)?)
    }

    fn len(&self) -> u64 {
        self.device.size_of(self.space)
    }
}

pub(crate) fn buffer(space: MemorySpace) -> Buffer {
    match space {
        MemorySpace::Sbuf => Buffer::Sbuf,
        MemorySpace::Psum => Buffer::Psum,
        MemorySpace::Hbm => Buffer::PrivateHbm,
    }
}

impl Device {
    /// Reads bytes, as they are now; says how long it takes: a read's latency and the bytes at the memory's rate. What
    /// nothing wrote is 0.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] beyond the memory, and for a core that there is not.
    pub fn read(&mut self, space: MemorySpace, core: u32, address: u64, out: &mut [u8]) -> Result<Picos> {
        let index = self.core_index(core)?;
        match space {
            MemorySpace::Hbm => self.hbm.read(address, out)?,
            _ => self.cores[index].machine.state.memory.read_on_chip(buffer(space), address, out)?,
        }
        self.stats.host_read_bytes += out.len() as u64;
        Ok(self.delay(space, out.len() as u64))
    }

    /// Writes bytes now; says how long it takes.
    ///
    /// # Errors
    /// As [`Device::read`]; [`crate::ErrorKind::Capacity`] when the host may keep no more of HBM.
    pub fn write(&mut self, space: MemorySpace, core: u32, address: u64, bytes: &[u8]) -> Result<Picos> {
        let index = self.core_index(core)?;
        match space {
            MemorySpace::Hbm => self.hbm.write(address, bytes)?,
            _ => self.cores[index].machine.state.memory.write_on_chip(buffer(space), address, bytes)?,
        }
        self.stats.host_write_bytes += bytes.len() as u64;
        Ok(self.delay(space, bytes.len() as u64))
    }

    /// A memory of a core as an object.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] for a core that there is not.
    ///
    /// ```
    /// use trn3_embed::AddressedMemory;
    /// use trn3_embed::{Device, DeviceSpec, MemorySpace};
    ///
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// let mut psum: Box<dyn AddressedMemory + '_> = Box::new(device.memory(MemorySpace::Psum, 0)?);
    /// assert_eq!(psum.len(), 128 * 16 * 1024);
    /// assert!(psum.write(0, &[1, 2, 3])? > trn3_machine::time::Picos(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(&mut self, space: MemorySpace, core: u32) -> Result<MemoryPort<'_>> {
        self.core_index(core)?;
        Ok(MemoryPort { device: self, space, core })
    }

    /// Bytes of a memory.
    pub fn size_of(&self, space: MemorySpace) -> u64 {
        match space {
            MemorySpace::Hbm => self.hbm.capacity(),
            MemorySpace::Sbuf => self.arch.partitions * self.arch.sbuf_partition_bytes,
            MemorySpace::Psum => self.arch.partitions * self.arch.psum_partition_bytes(),
        }
    }

    /// HBM bytes whose place in the host's memory stays until [`Device::release_direct`] or [`Device::reset`]; they count as
    /// initialised. SBUF and PSUM have no such places: their partitions are not one run of bytes.
    ///
    /// # Errors
    /// As [`Device::write`]; [`crate::ErrorKind::Value`] for bytes of several stretches of which one is held already.
    pub fn memory_direct(&mut self, address: u64, length: u64) -> Result<Direct> {
        if length == 0 {
            return Err(Error::value("length is 0; a place of at least one byte is needed"));
        }
        let (contents, offset, _) = self.hbm.pin(address, length)?;
        Ok(Direct { contents, offset: offset as usize, length: length as usize })
    }

    /// Lets bytes move again that [`Device::memory_direct`] held.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] beyond the memory.
    pub fn release_direct(&mut self, address: u64, length: u64) -> Result<()> {
        Ok(self.hbm.unpin(address, length)?)
    }

    /// What an access of the host costs **(choice)**: a sequencer's read latency, and the bytes at the rate of HBM or of all
    /// DMA engines.
    pub fn delay(&self, space: MemorySpace, bytes: u64) -> Picos {
        let arch = &*self.arch;
        let engines = arch.dma_engine_bytes_per_ns * arch.dma_engines as f64;
        let (latency, rate) = match space {
            // Gigabytes a second are bytes a nanosecond.
            MemorySpace::Hbm => (arch.register_load_hbm_ns, arch.hbm_gbps),
            MemorySpace::Sbuf | MemorySpace::Psum => (arch.register_load_sbuf_ns, engines),
        };
        Picos::from_nanoseconds(latency + bytes as f64 / rate)
    }
}
