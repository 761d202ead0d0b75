//! What a generation of the hardware is: every capacity, width, clock and latency, read from a spec file in which each
//! entry has a value, a unit and a source. No figure of the hardware stands in code.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::time::{Clock, Picos};

/// The spec files that come with the crate.
const BUILT_IN: [(&str, &str); 3] = [
    ("trn1", include_str!("../specs/trn1.toml")),
    ("trn2", include_str!("../specs/trn2.toml")),
    ("trn3", include_str!("../specs/trn3.toml")),
];

/// Other names of the built-in specs, as the vendor's tools accept them.
const ALIASES: [(&str, &str); 6] = [
    ("inf2", "trn1"),
    ("gen2", "trn1"),
    ("gen3", "trn2"),
    ("gen4", "trn3"),
    ("trainium2", "trn2"),
    ("trainium3", "trn3"),
];

macro_rules! arch_spec {
    (counts { $($(#[doc = $count_doc:literal])+ $count:ident: $count_unit:literal, $count_low:literal ..= $count_high:literal;)* }
     figures { $($(#[doc = $figure_doc:literal])+ $figure:ident: $figure_unit:literal, $figure_low:literal ..= $figure_high:literal;)* }) => {
        /// One NeuronCore's hardware, as its spec file says.
        #[derive(Clone, Debug, PartialEq)]
        pub struct ArchSpec {
            /// Short name: `trn3`.
            pub name: String,
            /// Generation of the core: 2, 3 or 4.
            pub generation: u64,
            $($(#[doc = $count_doc])+ pub $count: u64,)*
            $($(#[doc = $figure_doc])+ pub $figure: f64,)*
            entries: Vec<Entry>,
        }

        impl ArchSpec {
            fn read(name: &str, mut table: Table) -> Result<Self> {
                let mut entries = Vec::new();
                let generation = take(&mut table, &mut entries, name, "generation", "generation", 2.0..=4.0)?;
                let spec = Self {
                    name: name.to_owned(),
                    generation: whole(name, "generation", generation)?,
                    $($count: whole(name, stringify!($count), take(&mut table, &mut entries, name, stringify!($count),
                        $count_unit, ($count_low as f64)..=($count_high as f64))?)?,)*
                    $($figure: take(&mut table, &mut entries, name, stringify!($figure), $figure_unit,
                        ($figure_low as f64)..=($figure_high as f64))?,)*
                    entries,
                };
                if let Some(key) = table.keys().next() {
                    return Err(Error::Arch(format!("arch {name}: entry {key} is none that a machine has")));
                }
                Ok(spec)
            }
        }
    };
}

arch_spec! {
    counts {
        /// Partitions of SBUF and PSUM, and rows and columns of the TensorE array.
        partitions: "partitions", 32 ..= 1024;
        /// SBUF bytes of one partition.
        sbuf_partition_bytes: "bytes", 1024 ..= 16777216;
        /// SBUF bytes of one partition that the compiler keeps for itself.
        sbuf_reserved_bytes: "bytes", 0 ..= 1048576;
        /// PSUM banks of a partition.
        psum_banks: "banks", 1 ..= 64;
        /// Bytes of one PSUM bank in one partition.
        psum_bank_bytes: "bytes", 256 ..= 1048576;
        /// HBM bytes of the whole chip.
        hbm_bytes: "bytes", 1048576 ..= 17592186044416u64;
        /// NeuronCores of a chip.
        cores: "cores", 1 ..= 1024;
        /// Most NeuronCores of a logical core.
        max_lnc: "cores", 1 ..= 2;
        /// Most elements per partition that a sendrecv by GpSimdE's own DMA moves.
        gpsimd_dma_elements: "elements", 1 ..= 65536;
        /// Partitions of a quadrant, the unit in which engines address partitions.
        quadrant_partitions: "partitions", 8 ..= 128;
        /// Most elements per partition of an SBUF operand.
        sbuf_operand_elements: "elements", 512 ..= 1048576;
        /// Most float32 elements per partition of a PSUM operand.
        psum_operand_elements: "elements", 512 ..= 65536;
        /// Most columns of a stationary operand.
        stationary_columns: "columns", 32 ..= 1024;
        /// Most columns of a moving operand with a float32 result.
        moving_columns: "columns", 32 ..= 65536;
        /// Most columns of a moving operand with a bfloat16 result; 0 where PSUM holds float32 only.
        moving_columns_bf16: "columns", 0 ..= 65536;
        /// Most elements per partition of bn_stats.
        bn_stats_elements: "elements", 32 ..= 65536;
        /// Most elements per partition that max8 and its likes search.
        search_elements: "elements", 8 ..= 65536;
        /// TensorE clock.
        tensor_clock_mhz: "MHz", 1 ..= 100000;
        /// VectorE clock.
        vector_clock_mhz: "MHz", 1 ..= 100000;
        /// ScalarE clock.
        scalar_clock_mhz: "MHz", 1 ..= 100000;
        /// GpSimdE clock.
        gpsimd_clock_mhz: "MHz", 1 ..= 100000;
        /// Sequencer clock.
        sync_clock_mhz: "MHz", 1 ..= 100000;
        /// Least initiation interval of a VectorE or ScalarE instruction.
        minimum_interval_cycles: "cycles", 0 ..= 100000;
        /// Least initiation interval of an instruction with a dynamic address.
        dynamic_interval_cycles: "cycles", 0 ..= 100000;
        /// Reading an accumulator register.
        accumulator_read_cycles: "cycles", 0 ..= 100000;
        /// Start of a GpSimdE instruction.
        gpsimd_start_cycles: "cycles", 0 ..= 100000;
        /// Least cycles of a matmul's moving pass.
        matmul_minimum_cycles: "cycles", 0 ..= 100000;
        /// Stationary columns loaded in a cycle.
        stationary_columns_per_cycle: "columns/cycle", 1 ..= 128;
        /// Passes of a float32 matmul.
        float32_passes: "passes", 1 ..= 16;
        /// Passes of a float32 matmul one of whose operands holds zeros and ones alone.
        float32_onezero_passes: "passes", 1 ..= 16;
        /// Passes of a float32 transpose.
        float32_transpose_passes: "passes", 1 ..= 16;
        /// Contraction rows that a processing element takes of fp8 operands at once (double_row); 1 where there is no such
        /// mode.
        double_row_elements: "elements", 1 ..= 16;
        /// Contraction rows that a processing element takes of MX operands at once; 0 where there are none.
        mx_elements: "elements", 0 ..= 16;
        /// Dense contraction rows that a processing element covers at once with a compressed stationary operand; 0 where
        /// it takes none.
        sparse_elements: "elements", 0 ..= 16;
        /// Gap between issues of matmuls on different tiles of the array.
        tile_issue_cycles: "cycles", 0 ..= 10000;
        /// Innermost stride from which a port delivers half.
        slow_stride_bytes: "bytes", 1 ..= 1024;
        /// Partitions of one of GpSimdE's processors.
        gpsimd_partitions: "partitions", 1 ..= 128;
        /// GpSimdE: cycles that a local gather adds to each index's elements.
        gather_overhead_cycles: "cycles", 0 ..= 10000;
        /// GpSimdE: cycles of one gathered element.
        gather_element_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: most elements of one instruction that a free-axis gather is cut into.
        free_gather_elements: "elements", 1 ..= 65536;
        /// GpSimdE: cycles of one element of a free-axis gather.
        free_gather_element_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one element of a reduction over partitions.
        partition_reduce_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one element of sequence_bounds.
        sequence_bounds_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one candidate of topk.
        topk_candidate_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: bytes of a lane's port in a cycle.
        gpsimd_lane_bytes: "bytes", 1 ..= 64;
        /// GpSimdE: most indices of a processor in one local gather.
        gather_indices: "indices", 1 ..= 65536;
        /// GpSimdE: fewest elements that topk chooses from.
        topk_least_elements: "elements", 1 ..= 65536;
        /// GpSimdE: most elements that topk chooses from.
        topk_elements: "elements", 1 ..= 16777216;
        /// GpSimdE: most elements that topk gives.
        topk_results: "elements", 1 ..= 16777216;
        /// Moving the state of a random generator.
        random_state_cycles: "cycles", 0 ..= 10000;
        /// DMA engines of the core.
        dma_engines: "engines", 1 ..= 1024;
        /// Queues of a DMA engine.
        dma_queues: "queues", 1 ..= 1024;
        /// DMA descriptor generators in hardware; 0 where there are none.
        hardware_dge: "generators", 0 ..= 64;
    }
    figures {
        /// Share of its time that a transpose holds the array when another pass runs beside it.
        background_transpose_share: "ratio", 0.01 ..= 1;
        /// HBM bandwidth of the chip.
        hbm_gbps: "GB/s", 1 ..= 1000000;
        /// VectorE elements a cycle a lane: copies and tensor_scalar, 16-bit, contiguous, SBUF to SBUF.
        vector_copy_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// The same with one side in PSUM, or strided.
        vector_copy_rate_16bit_psum: "elements/cycle", 0.01 ..= 64;
        /// The same for 8-bit floats, SBUF to SBUF.
        vector_copy_rate_8bit: "elements/cycle", 0.01 ..= 64;
        /// The same for 32-bit types and integers, SBUF to SBUF.
        vector_copy_rate_32bit: "elements/cycle", 0.01 ..= 64;
        /// The same for 32-bit types with one side in PSUM.
        vector_copy_rate_32bit_psum: "elements/cycle", 0.01 ..= 64;
        /// Writing zeros to a 16-bit tile.
        vector_zero_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor, both operands in SBUF, 16-bit.
        vector_pair_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor, both operands in SBUF, otherwise.
        vector_pair_rate: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor with one operand in PSUM.
        vector_pair_rate_psum: "elements/cycle", 0.01 ..= 64;
        /// Scans over two operands.
        vector_scan_rate: "elements/cycle", 0.01 ..= 64;
        /// tensor_reduce, bfloat16 in and out, add or maximum.
        vector_reduce_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// Everything else with one operand.
        vector_rate: "elements/cycle", 0.01 ..= 64;
        /// reciprocal.
        vector_reciprocal_rate: "elements/cycle", 0.001 ..= 64;
        /// bn_aggr, elements of its triples.
        vector_bn_aggr_rate: "elements/cycle", 0.001 ..= 64;
        /// exponential, at most 16 bits.
        vector_exponential_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// exponential, 32 bits.
        vector_exponential_rate_32bit: "elements/cycle", 0.01 ..= 64;
        /// quantize_mx, source elements.
        vector_quantize_rate: "elements/cycle", 0.01 ..= 64;
        /// rand2.
        vector_rand2_rate: "elements/cycle", 0.01 ..= 64;
        /// rng on VectorE.
        vector_rng_rate: "elements/cycle", 0.01 ..= 64;
        /// ScalarE elements a cycle a lane: activations.
        scalar_rate: "elements/cycle", 0.01 ..= 64;
        /// ScalarE copies and tensor_scalar of at most 16 bits.
        scalar_copy_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// GpSimdE elements a cycle a lane.
        gpsimd_rate: "elements/cycle", 0.001 ..= 64;
        /// The same where every operand has at most 16 bits.
        gpsimd_rate_16bit: "elements/cycle", 0.001 ..= 64;
        /// GpSimdE reciprocal square roots a cycle a lane.
        gpsimd_rsqrt_rate: "elements/cycle", 0.001 ..= 64;
        /// Latency beyond the stream of a VectorE instruction.
        vector_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a ScalarE instruction.
        scalar_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a GpSimdE instruction.
        gpsimd_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a matmul.
        matmul_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency of loading a stationary operand beyond its stream.
        stationary_fixed_ns: "ns", 0 ..= 1000000;
        /// Loading a function table into ScalarE.
        activation_table_load_ns: "ns", 0 ..= 1000000;
        /// From a result to the next engine's start.
        semaphore_ns: "ns", 0 ..= 1000000;
        /// From a result to a dependent instruction's start on the same engine.
        same_engine_ns: "ns", 0 ..= 1000000;
        /// From a finished DMA to a dependent instruction's start.
        dma_semaphore_ns: "ns", 0 ..= 1000000;
        /// Issue slot of an instruction that triggers a DMA.
        dma_trigger_ns: "ns", 0 ..= 1000000;
        /// The same for GpSimdE.
        dma_trigger_gpsimd_ns: "ns", 0 ..= 1000000;
        /// From the trigger to the first byte: descriptors in memory.
        dma_start_static_ns: "ns", 0 ..= 1000000;
        /// From the trigger to the first byte: descriptors generated.
        dma_start_generated_ns: "ns", 0 ..= 1000000;
        /// Service of one DMA instruction by a hardware descriptor generator.
        dma_hardware_dge_ns: "ns", 0 ..= 1000000;
        /// Bytes that each row of a DMA costs at least.
        dma_row_floor_bytes: "bytes", 0 ..= 1000000;
        /// Time on top of the bytes of one engine's share.
        dma_share_fixed_ns: "ns", 0 ..= 1000000;
        /// From one DMA engine's start to the next one's.
        dma_engine_stagger_ns: "ns", 0 ..= 1000000;
        /// Each descriptor.
        dma_descriptor_ns: "ns", 0 ..= 1000000;
        /// Least time of a DMA descriptor, however few its bytes.
        dma_descriptor_floor_ns: "ns", 0 ..= 1000000;
        /// Bytes a nanosecond of one DMA engine.
        dma_engine_bytes_per_ns: "bytes/ns", 0.001 ..= 100000;
        /// Share of the rate that dma_transpose reaches, HBM to SBUF.
        dma_transpose_share: "ratio", 0.0001 ..= 1;
        /// The same, SBUF to SBUF.
        dma_transpose_share_sbuf: "ratio", 0.0001 ..= 1;
        /// Share of the rate that dma_compute reaches.
        dma_compute_share: "ratio", 0.0001 ..= 1;
        /// A register operation on a sequencer.
        register_ns: "ns", 0 ..= 1000000;
        /// Loading a register from SBUF.
        register_load_sbuf_ns: "ns", 0 ..= 1000000;
        /// Loading a register from HBM.
        register_load_hbm_ns: "ns", 0 ..= 1000000;
        /// A barrier of two cores, from when the later one is there.
        core_barrier_ns: "ns", 0 ..= 1000000000;
        /// Bytes a nanosecond of GpSimdE's own DMA, each way.
        gpsimd_dma_bytes_per_ns: "bytes/ns", 0.001 ..= 100000;
        /// Start and end of a kernel, together.
        kernel_overhead_ns: "ns", 0 ..= 1000000000;
        /// Utilisation that TensorE may start with under the current-step limit.
        throttle_start: "ratio", 0.01 ..= 1;
        /// Span over which the current-step limit ramps to full rate.
        throttle_ramp_ns: "ns", 0 ..= 1000000000;
    }
}

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

impl ArchSpec {
    /// A built-in spec by name, or the spec file at a path ending in `.toml`.
    ///
    /// # Errors
    /// [`Error::Arch`] names the file and the key that is missing, of the wrong type or unit, or out of range.
    pub fn load(arch: &str) -> Result<Self> {
        if Path::new(arch).extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(arch).map_err(|error| Error::Arch(format!("arch {arch}: {error}")))?;
            let name = Path::new(arch).file_stem().map_or(arch.into(), |stem| stem.to_string_lossy().into_owned());
            return Self::parse(&name, &text);
        }
        match built_in(arch) {
            Some(index) => Self::parse(BUILT_IN[index].0, BUILT_IN[index].1),
            None => {
                let known: Vec<&str> =
                    BUILT_IN.iter().map(|(name, _)| *name).chain(ALIASES.map(|(name, _)| name)).collect();
                let known = known.join(", ");
                Err(Error::Arch(format!("arch is {arch}; allowed: {known}, or the path of a .toml file")))
            }
        }
    }

    /// As [`ArchSpec::load`]; a built-in spec is read once and shared, for a launch has no time to parse.
    ///
    /// # Errors
    /// As [`ArchSpec::load`].
    pub fn shared(arch: &str) -> Result<Arc<Self>> {
        static READ: [OnceLock<Arc<ArchSpec>>; BUILT_IN.len()] = [const { OnceLock::new() }; BUILT_IN.len()];
        let Some(index) = built_in(arch) else { return Self::load(arch).map(Arc::new) };
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
        let table: Table = text.parse().map_err(|error| Error::Arch(format!("arch {name} is no TOML: {error}")))?;
        Self::read(name, table)
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
        for Entry { key, value, unit, source } in &self.entries {
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

    /// PSUM bytes of one partition.
    pub fn psum_partition_bytes(&self) -> u64 {
        self.psum_banks * self.psum_bank_bytes
    }

    /// SBUF bytes of one partition that a kernel may use.
    pub fn sbuf_usable_bytes(&self) -> u64 {
        self.sbuf_partition_bytes.saturating_sub(self.sbuf_reserved_bytes)
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

/// Which built-in spec a name or alias means.
fn built_in(arch: &str) -> Option<usize> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == arch).map_or(arch, |(_, name)| name);
    BUILT_IN.iter().position(|(known, _)| *known == name)
}

fn take(
    table: &mut Table,
    entries: &mut Vec<Entry>,
    name: &str,
    key: &str,
    unit: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<f64> {
    let fail = |text: String| Error::Arch(format!("arch {name}: entry {key} {text}"));
    let Some(entry) = table.remove(key) else {
        return Err(fail(format!("is missing; it needs value, unit = \"{unit}\" and source")));
    };
    let Value::Table(entry) = entry else {
        return Err(fail("is no table; write { value = ..., unit = ..., source = ... }".to_owned()));
    };
    let value = match entry.get("value") {
        Some(Value::Integer(value)) => *value as f64,
        Some(Value::Float(value)) => *value,
        other => return Err(fail(format!("has value {other:?}; a number is needed"))),
    };
    let text = |field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
    if text("unit").as_deref() != Some(unit) {
        return Err(fail(format!("has unit {:?}; allowed: \"{unit}\"", text("unit").unwrap_or_default())));
    }
    let Some(source) = text("source").filter(|source| !source.is_empty()) else {
        return Err(fail("has no source; say where the value comes from".to_owned()));
    };
    if !range.contains(&value) {
        return Err(fail(format!("is {value} {unit}; allowed: {} to {}", range.start(), range.end())));
    }
    entries.push(Entry { key: key.to_owned(), value, unit: unit.to_owned(), source });
    Ok(value)
}

fn whole(name: &str, key: &str, value: f64) -> Result<u64> {
    if value.fract() != 0.0 {
        return Err(Error::Arch(format!("arch {name}: entry {key} is {value}; a whole number is needed")));
    }
    Ok(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_built_in_spec_loads_and_has_a_source_for_each_entry() {
        for (name, _) in BUILT_IN {
            let spec = ArchSpec::load(name).expect(name);
            assert!(spec.entries().iter().all(|entry| !entry.source.is_empty()));
        }
        assert_eq!(ArchSpec::load("gen4").expect("alias"), ArchSpec::load("trn3").expect("name"));
    }

    #[test]
    fn test_a_shared_spec_is_the_loaded_one() {
        for name in BUILT_IN.map(|(name, _)| name).into_iter().chain(ALIASES.map(|(alias, _)| alias)) {
            assert_eq!(*ArchSpec::shared(name).expect(name), ArchSpec::load(name).expect(name));
        }
        let [one, other] = ["gen4", "trn3"].map(|name| ArchSpec::shared(name).expect(name));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(ArchSpec::shared("gen9").is_err() && ArchSpec::shared("missing.toml").is_err());
    }

    #[test]
    fn test_a_missing_or_absurd_entry_is_named() {
        let text = BUILT_IN[2].1;
        let without: String =
            text.lines().filter(|line| !line.starts_with("psum_banks")).map(|line| format!("{line}\n")).collect();
        let error = ArchSpec::parse("mine", &without).expect_err("an entry is missing").to_string();
        assert!(error.contains("mine") && error.contains("psum_banks is missing"), "{error}");
        let absurd = text.replace("psum_banks = { value = 8,", "psum_banks = { value = -8,");
        let error = ArchSpec::parse("mine", &absurd).expect_err("an entry is absurd").to_string();
        assert!(error.contains("psum_banks is -8 banks; allowed: 1 to 64"), "{error}");
    }
}
