//! The figures of the machine that a run's own figures are measured against.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use trn3_machine::arch::ArchSpec;

use crate::error::{Error, Result};

/// The machine of a run: its name, and figures by the names of the machine descriptions.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFigures {
    /// Every entry, as it came.
    entries: Map<String, Value>,
    /// Short name: `trn3`.
    pub name: String,
    /// TensorE's clock, in megahertz.
    pub tensor_clock_mhz: f64,
    /// Partitions of SBUF and PSUM, and rows and columns of the TensorE array.
    pub partitions: f64,
    /// HBM bandwidth that the core may draw on, in 10^9 bytes a second.
    pub hbm_gbps: f64,
    /// DMA engines of the core.
    pub dma_engines: f64,
    /// Bytes a nanosecond of one DMA engine.
    pub dma_engine_bytes_per_ns: f64,
    /// SBUF bytes of a partition.
    pub sbuf_partition_bytes: f64,
    /// PSUM bytes of a partition.
    pub psum_partition_bytes: f64,
    /// Bytes that each row of a DMA costs at least, where it is known.
    pub dma_row_floor_bytes: Option<f64>,
}

impl MachineFigures {
    /// The figures of a machine description.
    pub fn of(arch: &ArchSpec) -> Self {
        let mut entries: Map<String, Value> =
            arch.entries().iter().map(|entry| (entry.key.clone(), entry.value.into())).collect();
        entries.insert("name".to_owned(), arch.name.clone().into());
        entries.insert("generation".to_owned(), arch.generation.into());
        entries.insert("psum_partition_bytes".to_owned(), (arch.psum_partition_bytes() as f64).into());
        Self {
            entries,
            name: arch.name.clone(),
            tensor_clock_mhz: arch.tensor_clock_mhz as f64,
            partitions: arch.partitions as f64,
            hbm_gbps: arch.hbm_gbps,
            dma_engines: arch.dma_engines as f64,
            dma_engine_bytes_per_ns: arch.dma_engine_bytes_per_ns,
            sbuf_partition_bytes: arch.sbuf_partition_bytes as f64,
            psum_partition_bytes: arch.psum_partition_bytes() as f64,
            dma_row_floor_bytes: Some(arch.dma_row_floor_bytes),
        }
    }

    /// The figures that someone wrote down; entries beside the needed ones are kept as they are.
    ///
    /// # Errors
    /// An entry that is missing, of another kind, or not more than 0.
    pub fn from_entries(entries: Map<String, Value>) -> Result<Self> {
        let figure = |name: &str| -> Result<f64> {
            let came = entries.get(name);
            let Some(value) = came.and_then(Value::as_f64) else {
                return Err(Error::Type(format!("arch.{name} is {}, must be a number", shown(came))));
            };
            if value > 0.0 && value.is_finite() {
                return Ok(value);
            }
            Err(Error::Value(format!("arch.{name} is {}, must be more than 0", shown(came))))
        };
        let Some(name) = entries.get("name").and_then(Value::as_str) else {
            let came = shown(entries.get("name"));
            return Err(Error::Type(format!("arch has the name {came}, must be a string")));
        };
        figure("generation")?;
        Ok(Self {
            name: name.to_owned(),
            tensor_clock_mhz: figure("tensor_clock_mhz")?,
            partitions: figure("partitions")?,
            hbm_gbps: figure("hbm_gbps")?,
            dma_engines: figure("dma_engines")?,
            dma_engine_bytes_per_ns: figure("dma_engine_bytes_per_ns")?,
            sbuf_partition_bytes: figure("sbuf_partition_bytes")?,
            psum_partition_bytes: figure("psum_partition_bytes")?,
            dma_row_floor_bytes: entries.get("dma_row_floor_bytes").and_then(Value::as_f64),
            entries,
        })
    }

    /// Every entry, by name.
    pub fn entries(&self) -> &Map<String, Value> {
        &self.entries
    }
}

impl Serialize for MachineFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.entries.serialize(serializer)
    }
}

/// A value as the front end shows it.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "None".to_owned(),
        Some(Value::Bool(true)) => "True".to_owned(),
        Some(Value::Bool(false)) => "False".to_owned(),
        Some(Value::String(text)) => format!("'{text}'"),
        Some(other) => other.to_string(),
    }
}
