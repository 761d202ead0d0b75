//! What a generation of the hardware is: every capacity, width, clock and latency, each with a unit and a source: a view of
//! `trn3_facts::machine`. No figure of the hardware stands in code.

mod entries;
mod read;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use toml::{Table, Value};
use trn3_facts::files::why_no_toml;
use trn3_facts::machine::{MACHINES, machine, machine_name, resolve};
use trn3_facts::{Evidence, aliases, array_peak, taken_apart};

pub use entries::ArchSpec;

use crate::error::{Error, Result};
use crate::time::{Clock, Picos};

/// One entry of a spec file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where the value comes from.
    pub source: String,
}

impl Entry {
    /// What its source says that it rests on.
    pub fn evidence(&self) -> Evidence {
        Evidence::of_source(&self.source)
    }

    /// Its value where the hardware takes longer, if the entry says how long something takes: spans and passes grow,
    /// rates shrink, a whole number by one step at least. Clocks are left out: they are documented, and what a rate is
    /// counted by.
    fn slowed(&self) -> Option<f64> {
        let whole = |value: f64| value.round().max(self.value + 1.0);
        match self.unit.as_str() {
            "ns" => Some(self.value * (1.0 + SLOWED)),
            "cycles" | "passes" => Some(whole(self.value * (1.0 + SLOWED))),
            "elements/cycle" | "bytes/ns" | "GB/s" | "ratio" => Some(self.value / (1.0 + SLOWED)),
            "columns/cycle" if self.value > 1.0 => Some((self.value / (1.0 + SLOWED)).round().min(self.value - 1.0)),
            "bytes" if self.key == "dma_row_floor_bytes" => Some(self.value * (1.0 + SLOWED)),
            _ => None,
        }
        .filter(|slowed| *slowed != self.value)
    }
}

/// By how much a figure is changed to see what rests on it: enough that whole cycles show it, too little to make another
/// bound the binding one **(choice)**.
const SLOWED: f64 = 1.0 / 16.0;

impl ArchSpec {
    /// A built-in spec by name, the spec file at a path ending in `.toml`, or one of the tables of such a file:
    /// `mine.toml:wide`.
    ///
    /// # Errors
    /// [`Error::Arch`] names the file and the key that is missing, of the wrong type or unit, or out of range.
    pub fn load(arch: &str) -> Result<Self> {
        let (place, entry, _) = taken_apart(arch).unwrap_or((arch, None, None));
        if Path::new(place).extension().is_some_and(|extension| extension == "toml") {
            let text = trn3_facts::files::read_text(place.as_ref())
                .map_err(|error| Error::Arch(format!("arch {arch}: {error}")))?;
            let stem = Path::new(place).file_stem().map_or(place.into(), |stem| stem.to_string_lossy());
            return match entry {
                None => Self::parse(&stem, &text),
                Some(entry) => Self::named(&stem, &text, entry),
            };
        }
        let Some(name) = machine_name(arch) else {
            let known = MACHINES.iter().map(|(name, _)| *name);
            let known = known.chain(aliases("machines").keys().map(String::as_str));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(Error::Arch(format!("arch is {arch}; allowed: {known}, or the path of a .toml file")));
        };
        Self::read(name, machine(name).map_err(unresolved)?)
    }

    /// As [`ArchSpec::load`]; a built-in spec is read once and shared, for a launch has no time to parse.
    ///
    /// # Errors
    /// As [`ArchSpec::load`].
    pub fn shared(arch: &str) -> Result<Arc<Self>> {
        static READ: [OnceLock<Arc<ArchSpec>>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];
        let known = machine_name(arch).and_then(|name| MACHINES.iter().position(|(known, _)| *known == name));
        let Some(index) = known else { return Self::load(arch).map(Arc::new) };
        if let Some(spec) = READ[index].get() {
            return Ok(Arc::clone(spec));
        }
        let spec = Self::load(arch)?;
        Ok(Arc::clone(READ[index].get_or_init(|| Arc::new(spec))))
    }

    /// A spec from the text of its file.
    ///
    /// # Errors
    /// As [`ArchSpec::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::read(name, resolve(name, table_of(name, text)?).map_err(unresolved)?)
    }

    /// The spec of a name among the tables of a file's text.
    fn named(file: &str, text: &str, name: &str) -> Result<Self> {
        let mut all = table_of(file, text)?;
        let Some(Value::Table(table)) = all.remove(name) else {
            let known = all.iter().filter(|(_, entry)| entry.is_table()).map(|(known, _)| known.as_str());
            return Err(Error::Arch(format!("arch {file}: {}", trn3_facts::Error::unknown("core", name, known))));
        };
        Self::read(name, resolve(name, table).map_err(unresolved)?)
    }

    /// The same machine with other values of some entries.
    ///
    /// # Errors
    /// [`Error::Arch`] names an entry that no machine has, or a value out of range.
    ///
    /// ```
    /// use trn3_machine::arch::ArchSpec;
    ///
    /// let slow = ArchSpec::load("trn3")?.with_values([("hbm_gbps", 100.0)])?;
    /// assert_eq!(slow.hbm_gbps, 100.0);
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    pub fn with_values<'a>(&self, values: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self> {
        let mut table = Table::new();
        let mut put = |key: &str, value: f64, unit: &str, source: &str| {
            let words = [("unit", unit), ("source", source)].map(|(name, text)| (name.to_owned(), text.into()));
            let entry = [("value".to_owned(), Value::Float(value))].into_iter().chain(words).collect();
            table.insert(key.to_owned(), Value::Table(entry));
        };
        for Entry { key, value, unit, source } in self.entries.iter() {
            put(key, *value, unit, source);
        }
        for (key, value) in values {
            let Some(known) = self.entries.iter().find(|entry| entry.key == key) else {
                return Err(Error::Arch(format!("arch {}: entry {key} is none that a machine has", self.name)));
            };
            put(key, value, &known.unit, "given by the host in place of the spec's value");
        }
        Self::read(&self.name, table)
    }

    /// Every entry with its unit and source, in the order of the fields.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The machine with each figure of time in turn a little slower: the entry's place, by how large a part it changed,
    /// and the machine. Made once for a run; what is no time is not asked.
    pub(crate) fn slowed(&self) -> impl Iterator<Item = (usize, f64, ArchSpec)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| {
            let value = entry.slowed()?;
            let change = if value > entry.value { value / entry.value } else { entry.value / value } - 1.0;
            let mut arch = self.clone();
            arch.set(&entry.key, value);
            (change.is_finite() && change > 0.0).then_some((place, change, arch))
        })
    }

    /// PSUM bytes of one partition.
    pub fn psum_partition_bytes(&self) -> u64 {
        self.psum_banks * self.psum_bank_bytes
    }

    /// SBUF bytes of one partition that a kernel may use.
    pub fn sbuf_usable_bytes(&self) -> u64 {
        self.sbuf_partition_bytes.saturating_sub(self.sbuf_reserved_bytes)
    }

    /// Operations a second of one core's array in a format: `bf16`, `fp16`, `tf32`, `fp32`, `fp8`, `mxfp8`, `mxfp4`; `None`
    /// where it does not multiply it. The derivation is that of the facts.
    ///
    /// # Errors
    /// [`Error::Type`] for another format.
    ///
    /// ```
    /// use trn3_machine::arch::ArchSpec;
    ///
    /// let trn3 = ArchSpec::load("trn3")?;
    /// assert_eq!(trn3.peak_flops("mxfp8")?, Some(512.0 * 128.0 * 2.0 * 2.4e9));
    /// assert_eq!(ArchSpec::load("trn2")?.peak_flops("mxfp8")?, None);
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    pub fn peak_flops(&self, format: &str) -> Result<Option<f64>> {
        let mode = |products: u64| (products > 0).then_some(products as f64);
        array_peak(format, |name| match name {
            "pe_rows" | "pe_cols" => Some(self.partitions as f64),
            "clock_tensor" => Some(self.tensor_clock_mhz as f64 * 1e6),
            "fp32_passes" => Some(self.float32_passes as f64),
            "fp8_k_per_pe" => mode(self.double_row_elements),
            "mx_k_per_pe" => mode(self.mx_elements),
            _ => None,
        })
        .map_err(|error| Error::Type(error.to_string()))
    }

    /// TensorE's clock.
    pub fn tensor_clock(&self) -> Clock {
        Clock { megahertz: self.tensor_clock_mhz }
    }

    /// VectorE's clock.
    pub fn vector_clock(&self) -> Clock {
        Clock { megahertz: self.vector_clock_mhz }
    }

    /// ScalarE's clock.
    pub fn scalar_clock(&self) -> Clock {
        Clock { megahertz: self.scalar_clock_mhz }
    }

    /// GpSimdE's clock.
    pub fn gpsimd_clock(&self) -> Clock {
        Clock { megahertz: self.gpsimd_clock_mhz }
    }

    /// The sequencers' clock.
    pub fn sync_clock(&self) -> Clock {
        Clock { megahertz: self.sync_clock_mhz }
    }

    /// A figure in nanoseconds as simulated time.
    pub fn nanoseconds(&self, figure: f64) -> Picos {
        Picos::from_nanoseconds(figure)
    }
}

fn table_of(name: &str, text: &str) -> Result<Table> {
    text.parse().map_err(|error| Error::Arch(format!("arch {name} is no TOML: {}", why_no_toml(&error, text))))
}

/// What a description refers to is not there.
fn unresolved(error: trn3_facts::Error) -> Error {
    Error::Arch(format!("arch {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_built_in_spec_loads_and_has_a_source_for_each_entry() {
        for (name, _) in MACHINES {
            let spec = ArchSpec::load(name).expect(name);
            assert!(spec.entries().iter().all(|entry| !entry.source.is_empty()));
        }
        assert_eq!(ArchSpec::load("gen4").expect("alias"), ArchSpec::load("trn3").expect("name"));
    }

    #[test]
    fn test_a_shared_spec_is_the_loaded_one() {
        let aliases = aliases("machines").keys().map(String::as_str);
        for name in MACHINES.map(|(name, _)| name).into_iter().chain(aliases) {
            assert_eq!(*ArchSpec::shared(name).expect(name), ArchSpec::load(name).expect(name));
        }
        let [one, other] = ["gen4", "trn3"].map(|name| ArchSpec::shared(name).expect(name));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(ArchSpec::shared("gen9").is_err() && ArchSpec::shared("missing.toml").is_err());
    }

    /// A description as users wrote them before entries could refer to figures: a line of values each.
    fn old_form(spec: &ArchSpec) -> String {
        let line = |entry: &Entry| {
            let Entry { key, value, unit, source } = entry;
            format!("{key} = {{ value = {value}, unit = {unit:?}, source = {source:?} }}\n")
        };
        spec.entries().iter().map(line).collect()
    }

    #[test]
    fn test_descriptions_of_values_alone_load_as_they_are() {
        for (name, _) in MACHINES {
            let spec = ArchSpec::load(name).expect(name);
            assert_eq!(ArchSpec::parse(name, &old_form(&spec)).expect(name), spec);
        }
    }

    #[test]
    fn test_a_description_may_say_what_differs_and_refer_to_figures() {
        let text = "_base = \"trn3\"\nhbm_gbps = { from = \"trainium3.hbm_bandwidth * 1.5\", unit = \"GB/s\", source = \"a guess\" }";
        let mine = ArchSpec::parse("mine", text).expect("loads");
        assert_eq!((mine.hbm_gbps, mine.cores), (7350.0, 8));
        let error = ArchSpec::parse("mine", &text.replace("trainium3", "trainium9")).expect_err("refused").to_string();
        assert!(error.contains("arch mine: entry hbm_gbps") && error.contains("trainium9.hbm_bandwidth"), "{error}");
    }

    #[test]
    fn test_a_missing_or_absurd_entry_is_named() {
        let text = &old_form(&ArchSpec::load("trn3").expect("built in"));
        let without: String =
            text.lines().filter(|line| !line.starts_with("psum_banks")).map(|line| format!("{line}\n")).collect();
        let error = ArchSpec::parse("mine", &without).expect_err("an entry is missing").to_string();
        assert!(error.contains("mine") && error.contains("psum_banks is missing"), "{error}");
        let absurd = text.replace("psum_banks = { value = 8,", "psum_banks = { value = -8,");
        let error = ArchSpec::parse("mine", &absurd).expect_err("an entry is absurd").to_string();
        assert!(error.contains("psum_banks is -8 banks; allowed: 1 to 64"), "{error}");
    }
}
