//! A device: cores, memories, queues and time.

mod collective;
mod compile;
mod estimate;
mod meets;
mod memory;
mod programs;
mod run;
mod shared_hbm;
mod snapshot;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::host::{BitSource, Clocked, CostModel, Network, TraceSink};
use trn3_machine::arch::ArchSpec;
use trn3_machine::chip::ChipRuns;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::generator::Generator;
use trn3_machine::memory::HbmSpace;
use trn3_machine::time::Picos;

use self::collective::Exchange;
use self::estimate::Estimates;
use self::meets::{DeviceRooms, PausedRun};
use self::programs::{Functions, Program};
use self::shared_hbm::shares_hbm;
use crate::command::{Command, Completion};
use crate::error::{Error, ErrorKind, Result};
use crate::links::Links;
use crate::spec::DeviceSpec;
use crate::stats::Stats;

pub use compile::DeviceCompilation;
pub use estimate::{Estimate, Kernel};
pub use memory::{Direct, MemoryPort};
pub use programs::{OutputBytes, Placed};

/// A command that waits.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Waiting {
    pub(crate) tag: u64,
    pub(crate) sequence: u64,
    pub(crate) command: Command,
}

/// A command under way.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Active {
    pub(crate) tag: u64,
    pub(crate) sequence: u64,
    pub(crate) start: u64,
    pub(crate) state: State,
}

/// How far a command under way is.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum State {
    /// Its end is known, and how it ends.
    Ends { at: u64, status: std::result::Result<(), Error> },
    /// It is done but for its end, which is known as far as what other cores are given lets it be: what it is called, and
    /// how it ends.
    Runs { name: String, status: std::result::Result<(), Error> },
    /// It waits for messages, or for the time at which all have come.
    Exchanges(Exchange),
    /// It is a run that waits for other ranks at a collective of its program.
    Meets(PausedRun),
}

pub(crate) struct Core {
    pub(crate) machine: NeuronCore,
    /// Name of what its timeline is of; None before anything ran.
    pub(crate) ran: Option<String>,
    pub(crate) queue: VecDeque<Waiting>,
    pub(crate) active: Option<Active>,
}

/// Some NeuronCores on one HBM, with queues of commands and a time that the host moves.
///
/// A command starts when its core has done the ones before it. Memories are as after a command from its start on
/// **(choice)**; its end is when the host hears of it. A host that reads results before then reads ahead.
///
/// Transfers of its cores share the bandwidth of HBM ([`DeviceSpec::share_hbm_bandwidth`]): a command that a core begins
/// while others are under way may make these end later, so that [`Device::next_event`] is to be asked again after it.
pub struct Device {
    pub(crate) spec: DeviceSpec,
    pub(crate) arch: Arc<ArchSpec>,
    pub(crate) cores: Vec<Core>,
    pub(crate) hbm: HbmSpace,
    pub(crate) programs: BTreeMap<u64, Program>,
    pub(crate) next_program: u64,
    pub(crate) now: Picos,
    pub(crate) sequence: u64,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) network: Option<Box<dyn Network>>,
    pub(crate) links: Option<Links>,
    rooms: DeviceRooms,
    /// What cores run, where they share the bandwidth of HBM.
    runs: Option<ChipRuns>,
    pub(crate) trace: Option<Box<dyn TraceSink>>,
    pub(crate) stats: Stats,
    pub(crate) estimates: Option<Estimates>,
    functions: Functions,
}

impl Device {
    /// A device with empty memories, at time 0.
    ///
    /// # Errors
    /// What the spec has wrong.
    pub fn new(spec: DeviceSpec) -> Result<Self> {
        let arch = spec.machine()?;
        let cores = (0..spec.cores).map(|_| core(&spec, &arch)).collect::<Result<Vec<_>>>()?;
        let runs = shares_hbm(&spec).then(|| ChipRuns::new(arch.hbm_gbps));
        Ok(Self {
            runs,
            hbm: HbmSpace::new(arch.hbm_bytes, spec.host_memory_bytes),
            spec,
            arch,
            cores,
            programs: BTreeMap::new(),
            next_program: 1,
            now: Picos::ZERO,
            sequence: 0,
            completions: VecDeque::new(),
            network: None,
            links: None,
            rooms: DeviceRooms::default(),
            trace: None,
            stats: Stats::default(),
            estimates: None,
            functions: Functions::new(),
        })
    }

    /// A device from the JSON text of its spec.
    ///
    /// # Errors
    /// As [`DeviceSpec::from_json`] and [`Device::new`].
    pub fn from_json(spec: &str) -> Result<Self> {
        Self::new(DeviceSpec::from_json(spec)?)
    }

    /// Makes the device what it was when it was made: no programs, no contents, time 0. What the host put in its parts'
    /// places (network, trace, functions) stays, except cost models and bit sources, which were the cores' own.
    ///
    /// # Errors
    /// None that [`Device::new`] did not have.
    pub fn reset(&mut self) -> Result<()> {
        let fresh = Self::new(self.spec.clone())?;
        let (network, trace) = (self.network.take(), self.trace.take());
        let functions = std::mem::take(&mut self.functions);
        *self = Self { network, trace, functions, ..fresh };
        Ok(())
    }

    /// What it is made of.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The machine.
    pub fn arch(&self) -> &ArchSpec {
        &self.arch
    }

    /// The time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Whether a core's queue has room.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a core that there is not.
    pub fn can_submit(&self, core: u32) -> Result<bool> {
        let core = &self.cores[self.core_index(core)?];
        Ok(core.queue.len() + usize::from(core.active.is_some()) < self.spec.queue_depth as usize)
    }

    /// Gives a core a command; it starts now if the core is idle. `tag` comes back with its completion.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when the queue is full, [`ErrorKind::Value`] for cores, programs and steps that there are not.
    /// What goes wrong later is the completion's status.
    pub fn submit(&mut self, command: Command, tag: u64) -> Result<()> {
        let index = self.core_index(command.core())?;
        if !self.can_submit(command.core())? {
            let depth = self.spec.queue_depth;
            let text = format!("core {index} has {depth} commands (queue_depth); advance until one is done");
            return Err(Error::new(ErrorKind::Busy, text));
        }
        self.check_command(&command)?;
        if let Some(trace) = &mut self.trace {
            trace.instant(&format!("core {index}"), command.name(), self.now);
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.stats.commands_submitted += 1;
        self.cores[index].queue.push_back(Waiting { tag, sequence, command });
        self.pump(self.now);
        Ok(())
    }

    /// When a command ends next, or a message that is known to come is there; None: never, unless the host does something.
    /// The answer holds until the host does something or that moment: a command that begins on another core may move an
    /// end to later, where both transfer to or from HBM, and never to before [`Device::now`].
    pub fn next_event(&self) -> Option<Picos> {
        (0..self.cores.len()).filter_map(|index| self.next_of(index)).min().map(Picos)
    }

    /// Moves time on, past every command that ends until then and then.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a time that is past.
    pub fn advance(&mut self, until: Picos) -> Result<()> {
        if until < self.now {
            let now = self.now.0;
            return Err(Error::value(format!("until is {} ps; it is {now} ps already", until.0)));
        }
        self.pump(until);
        Ok(())
    }

    /// Takes the completion of the command that ended longest ago; of those that ended together, of the one submitted
    /// first.
    pub fn poll(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Whether nothing waits, runs or is to be polled.
    pub fn is_idle(&self) -> bool {
        self.completions.is_empty() && self.cores.iter().all(|core| core.active.is_none() && core.queue.is_empty())
    }

    /// What was counted. Busy times of a core that shares HBM with others are counted when a command has ended, of one alone
    /// when it begins, as all other counts are.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts from zero again.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
    }

    /// Shows what happens to a host's sink from here on, or to none. A command of a core that shares HBM with others is
    /// shown when it has ended, of one alone when it begins.
    pub fn set_trace(&mut self, trace: Option<Box<dyn TraceSink>>) {
        self.trace = trace;
    }

    /// Carries messages of collectives over a host's network from here on, or over links of the device's own.
    pub fn set_network(&mut self, network: Option<Box<dyn Network>>) {
        self.network = network;
    }

    /// Takes what instructions of a core cost from a host's model from here on.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a core that there is not.
    pub fn set_cost_model(&mut self, core: u32, cost: Box<dyn CostModel>) -> Result<()> {
        let index = self.core_index(core)?;
        self.cores[index].machine.use_cost_model(cost);
        Ok(())
    }

    /// Takes the draws of a core's random instructions from a host's source from here on, or from the engine's own
    /// generator. `gpsimd`: of GpSimdE, else of VectorE.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a core that there is not.
    pub fn set_bit_source(&mut self, core: u32, gpsimd: bool, source: Option<Box<dyn BitSource>>) -> Result<()> {
        let index = self.core_index(core)?;
        let state = &mut self.cores[index].machine.state;
        if gpsimd { &mut state.gpsimd_random } else { &mut state.vector_random }.use_source(source);
        Ok(())
    }

    pub(crate) fn core_index(&self, core: u32) -> Result<usize> {
        let index = core as usize;
        if index >= self.cores.len() {
            return Err(Error::value(format!("core is {core}; the device has {} (from 0)", self.cores.len())));
        }
        Ok(index)
    }
}

impl Clocked for Device {
    fn next_event(&self) -> Option<Picos> {
        Device::next_event(self)
    }

    fn advance(&mut self, until: Picos) -> trn3_machine::Result<()> {
        Ok(Device::advance(self, until)?)
    }
}

/// A core of a device.
pub(crate) fn core(spec: &DeviceSpec, arch: &Arc<ArchSpec>) -> Result<Core> {
    let options = CoreOptions {
        values: spec.values,
        timing: spec.timing,
        strict: spec.strict,
        max_instructions: spec.max_instructions,
        throttle: spec.throttle,
        ..CoreOptions::default()
    };
    let mut machine = NeuronCore::new(Arc::clone(arch), options)?;
    let state = &mut machine.state;
    // Seed 0 is how every kernel starts.
    for (generator, seed) in [(&mut state.vector_random, 0), (&mut state.gpsimd_random, 1)] {
        let seed = spec.seed.wrapping_mul(2).wrapping_add(seed);
        *generator = Generator::seeded(seed, generator.lanes(), generator.generators());
    }
    if shares_hbm(spec) {
        machine.keep_timed();
    }
    Ok(Core { machine, ran: None, queue: VecDeque::new(), active: None })
}
