//! What pictures of a run need beside its figures: its tensors and their uses, texts of its files, the run as written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use trn3_machine::packed::PackedRows;
use trn3_machine::storage::Buffer;

use crate::cause::EDGES;
use crate::columns::{EdgeColumns, InstructionColumns, OccupancyColumns, TensorColumns, TransferColumns, UseColumns};
use crate::error::{Error, Result};
use crate::packed::{Packer, TableLayout, Unpacker};

/// Names of memories, by the number that stands for them in columns.
pub const MEMORIES: [&str; 4] =
    [Buffer::Sbuf.name(), Buffer::Psum.name(), Buffer::PrivateHbm.name(), Buffer::SharedHbm.name()];

/// What instructions do with tensors, by the number that stands for it in columns.
pub const USES: [&str; 4] = ["read", "stationary", "write", "update"];

/// When instructions of a run ran, where its tensors lay, and which instruction used which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenColumns {
    /// From the first start to the last result, in picoseconds.
    pub latency_ps: u64,
    /// Instructions.
    pub instructions: InstructionColumns,
    /// Transfers of DMA engines.
    pub transfers: TransferColumns,
    /// Memories in use.
    pub occupancy: OccupancyColumns,
    /// The instructions of the critical path, by rising start.
    pub critical: Vec<u32>,
    /// Tensors.
    pub tensors: TensorColumns,
    /// Their uses.
    pub uses: UseColumns,
    /// What comes after what.
    pub edges: EdgeColumns,
}

/// What pictures of a run need beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Names of tensors.
    pub names: Vec<String>,
    /// Shapes of tensors.
    pub shapes: Vec<Vec<u64>>,
    /// Element types of tensors; empty of those that a compiler made.
    pub dtypes: Vec<String>,
    /// Tensors.
    pub tensors: TensorColumns,
    /// Their uses.
    pub uses: UseColumns,
    /// What comes after what.
    pub edges: EdgeColumns,
    /// Lists of ranks that it had collectives with, each once.
    pub groups: Vec<Vec<u64>>,
    /// Of each collective in the order of the program, the place of its list.
    pub met: Vec<u32>,
    /// The run in the kernel's own order and places, where a compiler changed those.
    pub as_written: Option<Box<WrittenColumns>>,
    /// Texts of the files that lines are of.
    pub sources: BTreeMap<String, String>,
    /// The calls through which a site was first reached, where the kernel calls functions of its own, by its place in
    /// [`RunColumns::sites`](crate::RunColumns::sites): file, line and function, outermost first.
    pub callers: BTreeMap<u32, Vec<(String, u32, String)>>,
}

/// [`Recorded`] as documents have it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    names: Vec<String>,
    shapes: Vec<Vec<u64>>,
    dtypes: Vec<String>,
    sources: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    met: Vec<u32>,
    #[serde(default)]
    callers: BTreeMap<u32, Vec<(String, u32, String)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    as_written: Option<WrittenDocument>,
    tables: BTreeMap<String, TableLayout>,
    columns: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDocument {
    latency_ps: u64,
    sbuf_peak_bytes: u64,
    psum_peak_bytes: u64,
}

impl Recorded {
    /// Whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.uses.is_empty() && self.as_written.is_none() && self.sources.is_empty()
    }

    /// Refuses what contradicts itself, or a run of so many instructions and sites.
    pub(crate) fn check(&self, instructions: usize, sites: usize) -> Result<()> {
        self.check_tables(&self.tensors, &self.uses, instructions, sites)?;
        check_edges(&self.edges, instructions)?;
        if let Some(&place) = self.met.iter().find(|&&place| place as usize >= self.groups.len()) {
            return Err(Error::Value(format!("met holds {place}, but there are {} groups", self.groups.len())));
        }
        let Some(written) = &self.as_written else { return Ok(()) };
        crate::check_instructions(&written.instructions)?;
        crate::check_transfers(&written.transfers)?;
        crate::check_occupancy(&written.occupancy)?;
        let count = written.instructions.len();
        let below = |column: &[u32], limit: usize| column.iter().all(|&value| (value as usize) < limit);
        let is_inside = below(&written.transfers.instruction, count)
            && below(&written.critical, count)
            && below(&written.instructions.site, sites);
        if !is_inside {
            return Err(Error::Value("recorded.as_written names instructions or sites that there are not".to_owned()));
        }
        check_edges(&written.edges, count)?;
        self.check_tables(&written.tensors, &written.uses, count, sites)
    }

    fn check_tables(&self, tensors: &TensorColumns, uses: &UseColumns, count: usize, sites: usize) -> Result<()> {
        tensors.check_lengths()?;
        uses.check_lengths()?;
        let wide = |column: &PackedRows<u8>| column.iter().map(u32::from).collect::<PackedRows<u32>>();
        below("tensors.memory", &wide(&tensors.memory), MEMORIES.len())?;
        below("tensors.name", &tensors.name, self.names.len())?;
        below("tensors.shape", &tensors.shape, self.shapes.len())?;
        below("tensors.dtype", &wide(&tensors.dtype), self.dtypes.len())?;
        below("tensors.site", &tensors.site, sites)?;
        below("tensors.came", &tensors.came, count + 1)?;
        below("tensors.went", &tensors.went, count + 2)?;
        below("uses.instruction", &uses.instruction, count)?;
        below("uses.tensor", &uses.tensor, tensors.len())?;
        below("uses.usage", &wide(&uses.usage), USES.len())?;
        if uses.instruction.iter().is_sorted() {
            return Ok(());
        }
        Err(Error::Value("uses.instruction falls; it must rise".to_owned()))
    }
}

fn below(what: &str, column: &PackedRows<u32>, limit: usize) -> Result<()> {
    match column.iter().enumerate().find(|(_, value)| *value as usize >= limit) {
        None => Ok(()),
        Some((row, value)) => Err(Error::Value(format!("{what}[{row}] is {value}, but there are {limit}"))),
    }
}

fn check_edges(edges: &EdgeColumns, count: usize) -> Result<()> {
    edges.check_lengths()?;
    let is_later = |(consumer, producer): (u32, u32)| producer < consumer && (consumer as usize) < count;
    if !edges.consumer.iter().zip(&edges.producer).all(is_later) {
        return Err(Error::Value(format!("edges lead from later instructions, or to others than the {count}")));
    }
    if edges.kind.iter().any(|kind| usize::from(kind) >= EDGES.len()) {
        return Err(Error::Value(format!("edges.kind holds kinds beyond the {}", EDGES.len())));
    }
    if edges.consumer.iter().is_sorted() {
        return Ok(());
    }
    Err(Error::Value("edges.consumer falls; it must rise".to_owned()))
}

impl Serialize for Recorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (mut packer, mut tables) = (Packer::default(), BTreeMap::new());
        let mut put = |name: &str, layout: TableLayout| tables.insert(name.to_owned(), layout);
        put("tensors", self.tensors.pack(&mut packer));
        put("uses", self.uses.pack(&mut packer));
        put("edges", self.edges.pack(&mut packer));
        if let Some(written) = &self.as_written {
            put("as_written.instructions", written.instructions.pack(&mut packer));
            put("as_written.transfers", written.transfers.pack(&mut packer));
            put("as_written.tensors", written.tensors.pack(&mut packer));
            put("as_written.uses", written.uses.pack(&mut packer));
            put("as_written.edges", written.edges.pack(&mut packer));
            let mut occupancy = TableLayout::of(written.occupancy.time_ps.len());
            packer.put(&mut occupancy, "time_ps", written.occupancy.time_ps.iter().collect());
            packer.put(&mut occupancy, "sbuf_bytes", written.occupancy.sbuf_bytes.iter().collect());
            packer.put(&mut occupancy, "psum_bytes", written.occupancy.psum_bytes.iter().collect());
            put("as_written.occupancy", occupancy);
            let mut critical = TableLayout::of(written.critical.len());
            packer.put(&mut critical, "row", written.critical.iter().map(|&row| row.into()).collect());
            put("as_written.critical", critical);
        }
        let document = Document {
            names: self.names.clone(),
            shapes: self.shapes.clone(),
            dtypes: self.dtypes.clone(),
            sources: self.sources.clone(),
            groups: self.groups.clone(),
            met: self.met.clone(),
            callers: self.callers.clone(),
            as_written: self.as_written.as_ref().map(|written| WrittenDocument {
                latency_ps: written.latency_ps,
                sbuf_peak_bytes: written.occupancy.sbuf_peak_bytes,
                psum_peak_bytes: written.occupancy.psum_peak_bytes,
            }),
            tables,
            columns: packer.finish().map_err(serde::ser::Error::custom)?,
        };
        document.serialize(serializer)
    }
}

impl Document {
    fn taken(self) -> Result<Recorded> {
        let unpacker = Unpacker::of(&self.columns)?;
        let missing = |name: &str| Error::Value(format!("there is no table {name}"));
        let table = |name: &str| self.tables.get(name).ok_or_else(|| missing(name));
        // Older documents have none.
        let edges = |name: &str| match self.tables.get(name) {
            Some(table) => EdgeColumns::unpack(&unpacker, table),
            None => Ok(EdgeColumns::default()),
        };
        let packed = |name: &str| -> Result<PackedRows<u64>> {
            let column = unpacker.take::<u64>(table("as_written.occupancy")?, &format!("occupancy.{name}"))?;
            Ok(column.into_iter().collect())
        };
        let as_written = match &self.as_written {
            None => None,
            Some(written) => Some(Box::new(WrittenColumns {
                latency_ps: written.latency_ps,
                instructions: InstructionColumns::unpack(&unpacker, table("as_written.instructions")?)?,
                transfers: TransferColumns::unpack(&unpacker, table("as_written.transfers")?)?,
                occupancy: OccupancyColumns {
                    time_ps: packed("time_ps")?,
                    sbuf_bytes: packed("sbuf_bytes")?,
                    psum_bytes: packed("psum_bytes")?,
                    sbuf_peak_bytes: written.sbuf_peak_bytes,
                    psum_peak_bytes: written.psum_peak_bytes,
                },
                critical: unpacker.take(table("as_written.critical")?, "critical.row")?,
                tensors: TensorColumns::unpack(&unpacker, table("as_written.tensors")?)?,
                uses: UseColumns::unpack(&unpacker, table("as_written.uses")?)?,
                edges: edges("as_written.edges")?,
            })),
        };
        Ok(Recorded {
            tensors: TensorColumns::unpack(&unpacker, table("tensors")?)?,
            uses: UseColumns::unpack(&unpacker, table("uses")?)?,
            edges: edges("edges")?,
            as_written,
            names: self.names,
            shapes: self.shapes,
            dtypes: self.dtypes,
            sources: self.sources,
            groups: self.groups,
            met: self.met,
            callers: self.callers,
        })
    }
}

impl<'de> Deserialize<'de> for Recorded {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Document::deserialize(deserializer)?.taken().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_edges_that_contradict_are_refused() {
        let refused = |consumer: &[u32], producer: &[u32], kind: &[u8]| {
            let edges = EdgeColumns {
                consumer: consumer.iter().copied().collect(),
                producer: producer.iter().copied().collect(),
                kind: kind.iter().copied().collect(),
            };
            check_edges(&edges, 3).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&[1, 1, 2], &[0, 0, 1], &[0, 1, 4]), None);
        let later = Some("edges lead from later instructions, or to others than the 3".to_owned());
        assert_eq!(refused(&[1], &[1], &[0]), later);
        assert_eq!(refused(&[3], &[1], &[0]), later);
        assert_eq!(refused(&[1], &[0], &[5]), Some("edges.kind holds kinds beyond the 5".to_owned()));
        assert_eq!(refused(&[2, 1], &[0, 0], &[0, 0]), Some("edges.consumer falls; it must rise".to_owned()));
        let length = refused(&[1], &[0], &[]).expect("refused");
        assert_eq!(length, "edges.kind has 0 entries, edges.consumer has 1; they must be as many");
    }
}
