//! How long transfers take that share links, switch ports, DMA engines and memories: a flow-level simulation.
//!
//! A transfer is a stream of bytes through all of its resources at once. At any moment the streams in motion share them
//! by weighted max-min fairness, within strict classes: class 0 is filled as if alone, class 1 gets what is left, and so
//! on to class 3. Rates change only when a transfer begins or ends to move, so time goes from event to event.
//!
//! *Max-min*: all rates of a class rise together, in proportion to [`FlowTransfer::share`], until a resource is full; the
//! streams through it keep that rate, the others rise on. So each stream has a *bottleneck*: a full resource on which
//! none has a higher rate per share.
//!
//! *Weights*: a transfer takes `weight` bytes of a resource for each of its own, such as 3 of a memory that it reads
//! twice and writes once, or 1/2 of each of two links it is spread over.
//!
//! *Ties*: moments, and rates at which resources fill, that lie within [`TIE`] of each other (relative) are one. So equal
//! transfers end at bit-equal times, and no result depends on the order in which transfers are listed.
//!
//! *What is monotone.* Adding bandwidth cannot lower the smallest rate of a class at a given moment. It can delay a
//! finish, without any dependency: let A cross a narrow link and a shared one, B the shared one and a private one. A
//! wider narrow link speeds up A at the cost of B, which its private link keeps from catching up later. What cannot slow
//! anything, for transfers that begin together and do not wait for each other: widening the one resource that they all
//! share, where each has at most private resources besides; and widening all resources by the same factor. The same two
//! hold for taking bytes away. The [lower bound](bound), which no schedule can beat, is monotone always.
//!
//! ```
//! use trn3_system::flow::{Resource, FlowTransfer, run};
//!
//! // Two transfers on a link of 100 bytes a second; the shorter one ends, then the longer has the link alone.
//! let link = [Resource::new("link", 100.0)];
//! let outcome = run(&link, &[FlowTransfer::over(100.0, [0]), FlowTransfer::over(200.0, [0])]).unwrap();
//! assert_eq!(outcome.spans, [(0.0, 2.0), (0.0, 3.0)]);
//! assert_eq!(outcome.carried, [300.0]);
//! assert_eq!(outcome.binding, [0]);
//! ```

mod check;
mod critical;
mod engine;
mod messages;
mod network;
mod paths;
pub mod reference;
mod refill;

pub use messages::{FlowMessage, over_fabric};

use crate::error::Result;

/// Moments and fill levels that differ by less than this part of themselves are the same.
pub const TIE: f64 = 1e-12;

/// The lowest class of priority; 0 is the highest.
pub const LOWEST_PRIORITY: u8 = 3;

/// Something that bytes pass through: a link, a switch port, a DMA engine, a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name in messages and results.
    pub name: String,
    /// Bytes a second, in the one direction that it stands for. Zero is a broken resource, which nothing may use.
    pub rate: f64,
}

impl Resource {
    /// A resource of that name and rate, in bytes a second.
    pub fn new(name: impl Into<String>, rate: f64) -> Self {
        Self { name: name.into(), rate }
    }
}

/// Bytes that move together.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowTransfer {
    /// How many bytes.
    pub bytes: f64,
    /// The resources it takes, by index, and how many bytes of each for each byte of its own. One that is listed twice
    /// counts as the sum. A transfer with none ends after its latency.
    pub uses: Vec<(u32, f64)>,
    /// Seconds from when it may begin to when its bytes move; they hold no resource.
    pub latency: f64,
    /// Class, from 0 (served first) to [`LOWEST_PRIORITY`].
    pub priority: u8,
    /// Its part of a resource beside others of its class, in proportion; for DMA queues their packet size. Positive.
    pub share: f64,
    /// Transfers that must end before it begins, by index.
    pub after: Vec<u32>,
    /// It does not begin before this moment, in seconds.
    pub start: f64,
    /// The caller's own number; unused here.
    pub tag: u32,
}

impl Default for FlowTransfer {
    fn default() -> Self {
        Self {
            bytes: 0.0,
            uses: Vec::new(),
            latency: 0.0,
            priority: 0,
            share: 1.0,
            after: Vec::new(),
            start: 0.0,
            tag: 0,
        }
    }
}

impl FlowTransfer {
    /// Bytes through some resources, each with weight 1.
    pub fn over(bytes: f64, resources: impl IntoIterator<Item = u32>) -> Self {
        Self { bytes, uses: resources.into_iter().map(|resource| (resource, 1.0)).collect(), ..Self::default() }
    }
}

/// What came of it. Lists are in the order of the transfers, or of the resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Begin and end of each transfer, in seconds. It begins when it may, so latency and waiting for a resource lie
    /// between the two.
    pub spans: Vec<(f64, f64)>,
    /// When the last one ends.
    pub finish: f64,
    /// Bytes that each resource carried, weights included.
    pub carried: Vec<f64>,
    /// Seconds in which each resource carried any.
    pub busy: Vec<f64>,
    /// The resource that held each transfer back longest, the first of several; none for one without bytes to move.
    pub bottleneck: Vec<Option<u32>>,
    /// Resources that bind the critical path: all that were the bottleneck of a transfer on a longest chain to the
    /// finish, the one that bound it for the longest time first.
    pub binding: Vec<u32>,
    /// Of [`run_queued`]: what kept the queue of each transfer busy after it was ready and until it began. Empty
    /// without queues.
    pub behind: Vec<Option<u32>>,
}

/// Simulates the transfers.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a number is negative or not finite, a share is not positive, a priority is
/// above [`LOWEST_PRIORITY`], an index names nothing, a resource of rate 0 has traffic, or transfers wait for each other.
pub fn run(resources: &[Resource], transfers: &[FlowTransfer]) -> Result<Outcome> {
    check::check(resources, transfers)?;
    engine::Engine::new(resources, transfers, &[]).run()
}

/// As [`run`], with queues: transfers of one queue run one at a time, in the order in which they become ready, and of
/// several that become ready at one moment in the order of the list. A queue never waits while something in it could
/// run, so queues cannot add a deadlock.
///
/// # Errors
/// As [`run`]; also if there is not one entry of `queues` for each transfer, or one that is in a queue has a
/// [`start`](FlowTransfer::start).
///
/// ```
/// use trn3_system::flow::{FlowTransfer, run_queued};
///
/// // Two pieces of work of a second each, without bytes, for one engine.
/// let work = || FlowTransfer { latency: 1.0, ..FlowTransfer::default() };
/// let outcome = run_queued(&[], &[work(), work()], &[Some(0), Some(0)]).unwrap();
/// assert_eq!(outcome.spans, [(0.0, 1.0), (1.0, 2.0)]);
/// assert_eq!(outcome.behind, [None, Some(0)]);
/// ```
pub fn run_queued(resources: &[Resource], transfers: &[FlowTransfer], queues: &[Option<u32>]) -> Result<Outcome> {
    check::check(resources, transfers)?;
    check::queues(transfers, queues)?;
    engine::Engine::new(resources, transfers, queues).run()
}

/// Seconds that no schedule of these transfers can beat, dependencies and latencies aside, and the resources that say
/// so: the most bytes to carry for their rate. Empty if there is nothing to carry.
///
/// # Errors
/// As [`run`], cycles excepted.
///
/// ```
/// use trn3_system::flow::{Resource, FlowTransfer, bound};
///
/// let links = [Resource::new("a", 100.0), Resource::new("b", 50.0)];
/// let (seconds, binding) = bound(&links, &[FlowTransfer::over(100.0, [0, 1]), FlowTransfer::over(300.0, [0])]).unwrap();
/// assert_eq!((seconds, binding), (4.0, vec![0]));
/// ```
pub fn bound(resources: &[Resource], transfers: &[FlowTransfer]) -> Result<(f64, Vec<u32>)> {
    check::check(resources, transfers)?;
    let mut load = vec![0.0; resources.len()];
    for transfer in transfers {
        for &(resource, weight) in &transfer.uses {
            load[resource as usize] += transfer.bytes * weight;
        }
    }
    let seconds: Vec<f64> = load
        .iter()
        .zip(resources)
        .map(|(&load, resource)| if load > 0.0 { load / resource.rate } else { 0.0 })
        .collect();
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let binding = (0u32..).zip(&seconds).filter(|&(_, &s)| most > 0.0 && s >= most * (1.0 - 1e-12)).map(|(i, _)| i);
    Ok((most, binding.collect()))
}
