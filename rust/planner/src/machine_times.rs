//! Times of matrix products on the simulated core, for plans whose `times` are `machine`.
//!
//! Products in BF16, FP16 and FP32, those of experts too, are timed by giving a core the instructions of a tiled kernel,
//! without arithmetic. Shapes larger than a few tiles are timed on those and on half of them, and what the second half took
//! is what all further tiles take **(choice)**; a logical core of two gives each physical core half of the columns
//! **(choice)**. Attention, norms and products in FP8 and MX formats keep the roofline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use trn3_facts::Facts;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::Instruction;
use trn3_machine::isa::copy::TensorCopy;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::memory::Request as TensorRequest;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::view::View;
use trn3_system::{Error, Result};

use super::dtype::DataType;
use super::hardware::Chip;
use super::roofline::{Kind, LayerOperation};

/// Rows of a tile of either operand.
const PARTITIONS: u64 = 128;
/// Columns of a tile of results.
const BANK: u64 = 512;
/// Columns that are loaded at a time: 4 KiB a partition in BF16, where DMA reaches its full rate.
const BLOCK: u64 = 4 * BANK;
/// Shapes `[m, k, n]` up to these are timed whole.
const MOST: [u64; 3] = [4 * PARTITIONS, 8 * PARTITIONS, 2 * BLOCK];

/// The element type on the core of a format whose products are timed.
fn element(dtype: DataType) -> Option<DType> {
    match dtype {
        DataType::Bf16 => Some(DType::BFloat16),
        DataType::Fp16 => Some(DType::Float16),
        DataType::Fp32 => Some(DType::Float32),
        DataType::Fp8 | DataType::MxFp8 | DataType::MxFp4 | DataType::Int8 => None,
    }
}

fn refused(error: trn3_machine::Error) -> Error {
    Error::Value(error.to_string())
}

/// How long one physical core takes for `[m, k] x [k, n]`, in seconds; sizes are rounded up to tiles.
///
/// ```
/// use trn3_machine::arch::ArchSpec;
/// use trn3_planner::DataType;
/// use trn3_planner::machine_times::time_product;
///
/// let arch = ArchSpec::shared("trn3")?;
/// let seconds = time_product([128, 1024, 2048], DataType::Bf16, &arch).unwrap();
/// assert!(seconds > 2.0 * 128.0 * 1024.0 * 2048.0 / 78.6e12);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
///
/// # Errors
/// [`Error::Value`] for a size of 0 and formats that are not timed.
pub fn time_product(shape: [u64; 3], dtype: DataType, arch: &Arc<ArchSpec>) -> Result<f64> {
    if let Some((name, size)) = ["m", "k", "n"].into_iter().zip(shape).find(|(_, size)| *size == 0) {
        return Err(Error::Value(format!("{name} is {size}; needed: at least 1")));
    }
    scaled(shape, |timed| seconds_of(timed, dtype, arch))
}

/// Seconds of a run of exactly this shape.
fn seconds_of(shape: [u64; 3], dtype: DataType, arch: &Arc<ArchSpec>) -> Result<f64> {
    let Some(element) = element(dtype) else {
        return Err(Error::Value(format!("dtype is '{}'; timed are bf16, fp16, fp32", dtype.name())));
    };
    run(shape, element, arch).map(|time| time.microseconds() * 1e-6).map_err(refused)
}

/// Seconds of a shape, from runs of a few of its tiles.
fn scaled(shape: [u64; 3], seconds: impl Fn([u64; 3]) -> Result<f64>) -> Result<f64> {
    let tiled = |size: u64, tile: u64| if size <= tile { size } else { size.next_multiple_of(tile) };
    let [m, k, n] = shape;
    let wanted = [tiled(m, PARTITIONS), k.next_multiple_of(PARTITIONS), tiled(n, BANK)];
    let timed = [0, 1, 2].map(|axis| MOST[axis].min(wanted[axis]));
    let whole = seconds(timed)?;
    if timed == wanted {
        return Ok(whole);
    }
    // Starting and draining happen once, however many tiles there are.
    let half = half(timed);
    let multiplies = |shape: [u64; 3]| shape.into_iter().map(|size| size as f64).product::<f64>();
    let rate = (whole - seconds(half)?) / (multiplies(timed) - multiplies(half));
    Ok(whole + rate * (multiplies(wanted) - multiplies(timed)))
}

fn half([m, k, n]: [u64; 3]) -> [u64; 3] {
    let halved = |size: u64, tile: u64| size / (2 * tile) * tile;
    match () {
        () if n >= 2 * BANK => [m, k, halved(n, BANK)],
        () if k >= 2 * PARTITIONS => [m, halved(k, PARTITIONS), n],
        () => [halved(m, PARTITIONS), k, n],
    }
}

/// A core that is given the instructions of one kernel.
struct Kernel {
    core: NeuronCore,
    dtype: DType,
}

impl Kernel {
    fn tensor(&mut self, shape: [u64; 2], dtype: DType, buffer: Buffer) -> trn3_machine::Result<View> {
        let shape = shape.map(|size| size as usize);
        let site = SiteId::default();
        let request = TensorRequest { name: "tile", shape: &shape, dtype, buffer, address: None, site };
        self.core.allocate(&request).map(View::whole)
    }

    fn tiles(&mut self, count: u64, columns: u64) -> trn3_machine::Result<Vec<View>> {
        (0..count).map(|_| self.tensor([PARTITIONS, columns], self.dtype, Buffer::Sbuf)).collect()
    }

    fn issue(&mut self, instruction: &dyn Instruction) -> trn3_machine::Result<()> {
        self.core.issue(instruction, At::default()).map(|_| ())
    }

    fn copy(&mut self, dst: View, src: View) -> trn3_machine::Result<()> {
        self.issue(&DmaCopy { dst, src, options: Default::default(), engine: None })
    }
}

/// Rows and columns of a matrix, from a first one on.
fn part(matrix: &View, [row, rows]: [u64; 2], [column, columns]: [u64; 2]) -> trn3_machine::Result<View> {
    let rows = matrix.slice(0, row as i64, (row + rows) as i64, 1)?;
    rows.slice(1, column as i64, (column + columns) as i64, 1)
}

/// How long a core takes to multiply activations `[m, k]` with weights `[k, n]`; weights are read once.
///
/// `m` is at most 128 or a multiple of it, `k` a multiple of 128, `n` at most 512 or a multiple of it.
fn run([m, k, n]: [u64; 3], dtype: DType, arch: &Arc<ArchSpec>) -> trn3_machine::Result<Picos> {
    let options = CoreOptions { values: false, ..CoreOptions::default() };
    let mut kernel = Kernel { core: NeuronCore::new(Arc::clone(arch), options)?, dtype };
    let lhs_t = kernel.tensor([k, m], dtype, Buffer::PrivateHbm)?;
    let rhs = kernel.tensor([k, n], dtype, Buffer::PrivateHbm)?;
    let out = kernel.tensor([m, n], dtype, Buffer::PrivateHbm)?;
    let steps = k / PARTITIONS;
    let (tile_m, tile_n) = (m.min(PARTITIONS), n.min(BANK));
    let stationary = kernel.tiles(steps, m)?;
    for (step, tile) in (0..).zip(&stationary) {
        kernel.copy(tile.clone(), part(&lhs_t, [step * PARTITIONS, PARTITIONS], [0, m])?)?;
    }
    // Tiles go when the next ones are there: with room for both, loads do not wait for products.
    let (mut moving, mut result, mut total);
    for start in (0..n).step_by(BLOCK as usize) {
        let width = BLOCK.min(n - start);
        moving = kernel.tiles(steps, width)?;
        for (step, tile) in (0..).zip(&moving) {
            kernel.copy(tile.clone(), part(&rhs, [step * PARTITIONS, PARTITIONS], [start, width])?)?;
        }
        for row in (0..m).step_by(PARTITIONS as usize) {
            result = kernel.tensor([tile_m, width], dtype, Buffer::Sbuf)?;
            for column in (0..width).step_by(BANK as usize) {
                total = kernel.tensor([tile_m, tile_n], DType::Float32, Buffer::Psum)?;
                for (step, (left, right)) in stationary.iter().zip(&moving).enumerate() {
                    kernel.issue(&NcMatmul {
                        dst: total.clone(),
                        stationary: part(left, [0, PARTITIONS], [row, tile_m])?,
                        moving: part(right, [0, PARTITIONS], [column, tile_n])?,
                        is_stationary_onezero: false,
                        is_moving_onezero: false,
                        is_transpose: false,
                        accumulate: Some(step > 0),
                        tile: None,
                        double_row: false,
                    })?;
                }
                let dst = part(&result, [0, tile_m], [column, tile_n])?;
                kernel.issue(&TensorCopy { dst, src: total.clone(), engine: Some(Engine::Vector) })?;
            }
            kernel.copy(part(&out, [row, tile_m], [start, width])?, result.clone())?;
        }
    }
    Ok(kernel.core.makespan())
}

/// A run of the simulated core: sizes and format of a product.
type Timed = ([u64; 3], DataType);

/// Times of the products of one kind of logical core, each shape run once; what a search judges layouts by.
#[derive(Debug)]
pub(super) struct MachineTimes {
    arch: Arc<ArchSpec>,
    name: String,
    /// What a chip of one's own has of another core's times.
    likeness: Option<String>,
    lnc: u32,
    /// Runs of a few tiles by their shape: layouts differ in how often they repeat them.
    runs: Mutex<BTreeMap<Timed, Arc<OnceLock<Result<f64>>>>>,
    failure: OnceLock<Error>,
}

impl MachineTimes {
    /// Times on logical cores of `lnc` cores of a chip, which share the columns of a product.
    ///
    /// # Errors
    /// [`Error::Value`] for a chip whose core is not simulated.
    pub(super) fn new(chip: &Chip, lnc: u32) -> Result<Self> {
        let Some(name) = chip.core() else {
            let text = format!("times='machine' needs a Trainium; {} is none, times='roofline' would work", chip.name);
            return Err(Error::Value(text));
        };
        let differs = Facts::built_in(chip.like()).is_ok_and(|known| known.quantities != chip.facts.quantities);
        let (like, title) = (chip.like(), &chip.title);
        let likeness =
            differs.then(|| format!("products are timed on the core of {like}, whatever {title} changes of it"));
        let arch = ArchSpec::shared(name).map_err(refused)?;
        Ok(Self { arch, name: name.to_owned(), likeness, lnc, runs: Mutex::default(), failure: OnceLock::new() })
    }

    /// Seconds of one of an operation's `count`, if it is a product that is timed.
    pub(super) fn time(&self, operation: &LayerOperation) -> Option<f64> {
        let (shape, groups) = self.product(operation)?;
        match scaled(shape, |timed| self.run(timed, operation.dtype)) {
            Ok(seconds) => Some(groups * seconds),
            Err(error) => {
                // A search goes on over other threads; whoever asked for it looks here behind it.
                let _ = self.failure.set(error);
                None
            }
        }
    }

    /// The first run that failed, behind a plan or a search.
    ///
    /// # Errors
    /// What it was refused with.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// What a plan of these operations rests on, as sentences.
    pub(super) fn said<'a>(&self, operations: impl IntoIterator<Item = &'a LayerOperation>) -> Vec<String> {
        let (mut keys, mut kept, mut some_scaled) = (BTreeSet::new(), BTreeSet::new(), false);
        for operation in operations {
            match self.product(operation) {
                Some((shape, _)) => {
                    some_scaled |= shape.iter().zip(MOST).any(|(size, most)| *size > most);
                    keys.insert(operation.key());
                }
                None if is_timed(operation) => {}
                None => {
                    kept.insert(operation.name);
                }
            }
        }
        let Self { name, lnc, .. } = self;
        let halves = if *lnc > 1 { format!(", half of the columns on each of {lnc} cores") } else { String::new() };
        let tiles = if some_scaled { "; large shapes are scaled from a few of their tiles" } else { "" };
        let count = keys.len();
        let mut said =
            vec![format!("times of {count} products: our own kernel on the simulated {name} core{halves}{tiles}")];
        if !kept.is_empty() {
            let names = kept.into_iter().collect::<Vec<_>>().join(", ");
            said.push(format!("roofline for {names}: no kernel is timed for them"));
        }
        said.extend(self.likeness.clone());
        said
    }

    /// Shape and number of an operation's products on each physical core; none where nothing is multiplied.
    fn product(&self, operation: &LayerOperation) -> Option<([u64; 3], f64)> {
        let groups = if operation.kind == Kind::GroupedMatmul { operation.groups.ceil() } else { 1.0 };
        let [m, k, n] = [operation.m, operation.k, operation.n].map(|size| size.ceil() as u64);
        let some = is_timed(operation) && groups > 0.0 && ![m, k, n].contains(&0);
        some.then(|| ([m, k, n.div_ceil(u64::from(self.lnc))], groups))
    }

    fn run(&self, shape: [u64; 3], dtype: DataType) -> Result<f64> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let once = Arc::clone(runs.entry((shape, dtype)).or_default());
        drop(runs);
        once.get_or_init(|| seconds_of(shape, dtype, &self.arch)).clone()
    }
}

/// Whether products of an operation are timed.
fn is_timed(operation: &LayerOperation) -> bool {
    element(operation.dtype).is_some() && matches!(operation.kind, Kind::Matmul | Kind::GroupedMatmul)
}
