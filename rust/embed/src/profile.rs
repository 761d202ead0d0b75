//! What a device's cores did last, as profiles.

use trn3_profile::{Profile, RunColumns};

use crate::device::Device;
use crate::error::{Error, Result};

impl Device {
    /// What the last command that a core began cost, and why: figures, tables, the text of `profile.json`, a Perfetto trace.
    /// Times are from that command's own start; of a command under way on one of several cores, as they are if no other core
    /// begins anything. A copy is a kernel of one instruction; collectives leave no profile.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] for a core that there is not, or that has run nothing since the device was made, reset or
    /// went on from a snapshot.
    ///
    /// # Examples
    /// ```
    /// use trn3_embed::{Address, Command, Device, DeviceSpec, MemorySpace};
    ///
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// assert!(device.profile(0).is_err());
    /// let at = |space, address| Address { space, address };
    /// let (dst, src) = (at(MemorySpace::Sbuf, 0), at(MemorySpace::Hbm, 0));
    /// device.submit(Command::Copy { core: 0, dst, src, rows: 128, row_bytes: 4096 }, 1)?;
    /// let profile = device.profile(0)?;
    /// assert_eq!(profile.figure("hbm_read_bytes"), Some(128.0 * 4096.0));
    /// assert!(profile.to_json().is_ok_and(|text| text.starts_with("{\"format\":\"trn3-profile\"")));
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn profile(&mut self, core: u32) -> Result<Profile> {
        let index = self.core_index(core)?;
        self.show_run(index);
        let held = &mut self.cores[index];
        let nothing = || Error::value(format!("core {core} has run nothing that a profile could be of"));
        let name = held.ran.as_ref().ok_or_else(nothing)?;
        Ok(Profile::of_run(RunColumns::of(&mut held.machine, name)))
    }
}
