//! What a device is: a JSON text of few entries, all of which may be left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trn3_machine::arch::ArchSpec;

use crate::error::{Error, Result};

/// What a device is made of.
///
/// ```
/// use trn3_embed::DeviceSpec;
///
/// let spec = DeviceSpec::from_json(r#"{"arch": "trn3", "cores": 2, "overrides": {"hbm_gbps": 3000}}"#)?;
/// assert_eq!((spec.cores, spec.queue_depth), (2, 64));
/// assert!(DeviceSpec::from_json(r#"{"core": 2}"#).is_err());
/// # Ok::<(), trn3_embed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceSpec {
    /// Name of a machine: `trn1`, `trn2`, `trn3`.
    pub arch: String,
    /// A machine's description in its place: the text of a TOML file, whose name `arch` then is.
    pub arch_toml: Option<String>,
    /// Other values of entries of the machine's description.
    pub overrides: BTreeMap<String, f64>,
    /// NeuronCores; HBM is one for all of them.
    pub cores: u32,
    /// Whether values are computed.
    pub values: bool,
    /// Whether time is kept; without, every command takes none.
    pub timing: bool,
    /// Whether transfers of its cores share the bandwidth of HBM; without, each core's are timed as if it were alone.
    pub share_hbm_bandwidth: bool,
    /// Whether reading memory that nothing wrote is an error.
    pub strict: bool,
    /// Whether TensorE's current-step limit is modelled.
    pub throttle: bool,
    /// Seed of the engines' random generators; 0 is how a kernel's run starts.
    pub seed: u64,
    /// Most instructions of a run.
    pub max_instructions: Option<u64>,
    /// Most commands that wait or run on a core.
    pub queue_depth: u32,
    /// Most bytes of HBM that the host keeps in its own memory.
    pub host_memory_bytes: u64,
    /// Rank of core 0 in collectives; the others follow.
    pub rank: u32,
    /// System whose links carry collectives and whose figures estimates use; None: the largest of the machine's own.
    pub system: Option<String>,
    /// Thermal design power that energies assume, watts; None: what is published.
    pub tdp: Option<f64>,
}

impl Default for DeviceSpec {
    fn default() -> Self {
        Self {
            arch: "trn3".to_owned(),
            arch_toml: None,
            overrides: BTreeMap::new(),
            cores: 1,
            values: true,
            timing: true,
            share_hbm_bandwidth: true,
            strict: false,
            throttle: false,
            seed: 0,
            max_instructions: None,
            queue_depth: 64,
            host_memory_bytes: 8 << 30,
            rank: 0,
            system: None,
            tdp: None,
        }
    }
}

/// Bytes of JSON that a spec may have.
const MOST_BYTES: usize = 1 << 20;

impl DeviceSpec {
    /// The spec that a JSON text is; an empty text is the default.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] for entries that there are not, and values of other types.
    pub fn from_json(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MOST_BYTES {
            return Err(Error::value(format!("the device's spec has {} bytes; at most {MOST_BYTES}", text.len())));
        }
        serde_json::from_str(text).map_err(|error| Error::value(format!("the device's spec: {error}")))
    }

    /// The machine. No file is read for it.
    pub(crate) fn machine(&self) -> Result<Arc<ArchSpec>> {
        let spec = match &self.arch_toml {
            Some(text) => ArchSpec::parse(&self.arch, text)?,
            None if self.arch.ends_with(".toml") => {
                let arch = &self.arch;
                return Err(Error::value(format!(
                    "arch is {arch}; a device reads no files, give its text as arch_toml"
                )));
            }
            None => ArchSpec::load(&self.arch)?,
        };
        let spec = spec.with_values(self.overrides.iter().map(|(key, value)| (key.as_str(), *value)))?;
        if self.cores == 0 || u64::from(self.cores) > spec.cores {
            return Err(Error::value(format!("cores is {}; {} has 1 to {}", self.cores, spec.name, spec.cores)));
        }
        if self.queue_depth == 0 || self.queue_depth > 1 << 20 {
            return Err(Error::value(format!("queue_depth is {}; allowed: 1 to {}", self.queue_depth, 1 << 20)));
        }
        if self.rank.checked_add(self.cores).is_none() {
            return Err(Error::value(format!("rank is {}; there are not so many", self.rank)));
        }
        Ok(Arc::new(spec))
    }

    /// Name of the system around the device.
    pub(crate) fn system(&self, arch: &ArchSpec) -> &str {
        match (&self.system, arch.generation) {
            (Some(system), _) => system,
            (None, 2) => "trn1_32xlarge",
            (None, 3) => "trn2_ultraserver",
            (None, _) => "trn3_gen2",
        }
    }
}
