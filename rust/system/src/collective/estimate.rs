//! Costs of collectives on a system, and the choice of the fastest algorithm.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::build::Extra;
use super::group::RankGroup;
use super::model::CollectiveModel;
use super::name::{Algorithm, Operation};
use super::profile::{Binding, ScheduleDemand, Ways};
use super::schedule::Schedule;
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// What a collective costs.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveEstimate {
    /// Seconds.
    pub time: f64,
    /// Steps.
    pub steps: u32,
    /// The schedule's algorithm.
    pub algorithm: Algorithm,
    /// What binds: the steps' latency, or what carries the bytes.
    pub binding: String,
    /// The counts that the time is made of.
    pub profile: Arc<ScheduleDemand>,
}

type Key = (Operation, RankGroup, Extra, Option<Algorithm>);
type Known = Arc<Vec<(Algorithm, Arc<ScheduleDemand>)>>;

/// A system whose collectives are estimated: keeps what it has counted, so that an estimate of a known group takes about
/// a microsecond.
#[derive(Debug)]
pub struct Estimator {
    fabric: Arc<Fabric>,
    model: CollectiveModel,
    pub(super) ways: Ways,
    // Looked up, never iterated: the order of keys has no effect.
    known: Mutex<HashMap<Key, Known>>,
}

impl Estimator {
    /// An estimator of a system.
    ///
    /// # Errors
    /// [`Error::Spec`] if the chip's rates are missing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_system::collective::{Algorithm, Estimator, RankGroup, Operation};
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let fabric = Arc::new(Fabric::built_in("trn2_instance", LinkProfile::Docs)?);
    /// let group = RankGroup::new((0..64).collect(), 4, fabric.chips())?;
    /// let estimator = Estimator::new(fabric)?;
    /// let best = |bytes| estimator.estimate(Operation::AllReduce, &group, bytes, None).map(|found| found.algorithm);
    /// assert_eq!(best(1.0e6)?, Algorithm::Mesh);
    /// assert_eq!(best(10e6)?, Algorithm::Rdh);
    /// assert_eq!(best(100e6)?, Algorithm::KangaRing);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn new(fabric: Arc<Fabric>) -> Result<Self> {
        let model = CollectiveModel::of(&fabric)?;
        Ok(Self { fabric, model, ways: Ways::default(), known: Mutex::default() })
    }

    /// The system.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The system, for others to keep.
    pub fn shared_fabric(&self) -> Arc<Fabric> {
        Arc::clone(&self.fabric)
    }

    /// The constants.
    pub fn model(&self) -> &CollectiveModel {
        &self.model
    }

    /// The cost of an operation of `bytes` bytes (see [`Operation`] for what is counted) with an algorithm, or the
    /// fastest one.
    ///
    /// # Errors
    /// [`Error::Value`] if the algorithm cannot do it on this group or the size is no number of bytes;
    /// [`Error::Unreachable`] if chips of the group cannot reach each other.
    pub fn estimate(
        &self,
        operation: Operation,
        group: &RankGroup,
        bytes: f64,
        algorithm: Option<Algorithm>,
    ) -> Result<CollectiveEstimate> {
        self.estimate_with(operation, group, bytes, algorithm, &Extra::default())
    }

    /// As [`Estimator::estimate`], of an operation with a root or pairs.
    ///
    /// # Errors
    /// As there.
    pub fn estimate_with(
        &self,
        operation: Operation,
        group: &RankGroup,
        bytes: f64,
        algorithm: Option<Algorithm>,
        extra: &Extra,
    ) -> Result<CollectiveEstimate> {
        if !(bytes.is_finite() && bytes >= 0.0) {
            return Err(Error::Value(format!("bytes is {bytes}; allowed: a finite number of bytes, 0 or more")));
        }
        let candidates = self.candidates(operation, group, algorithm, extra)?;
        let fastest = candidates.iter().map(|found| (found.1.time(bytes), found));
        let Some((time, (algorithm, profile))) = fastest.reduce(|best, next| if next.0 < best.0 { next } else { best })
        else {
            return Err(Error::Value(format!("{operation} has no algorithm for this group")));
        };
        let binding = self.binding_of(profile, bytes);
        Ok(CollectiveEstimate { time, steps: profile.steps, algorithm: *algorithm, binding, profile: profile.clone() })
    }

    /// The algorithms that can do an operation on a group, with their costs.
    ///
    /// # Errors
    /// As [`Estimator::estimate`].
    pub fn candidates(
        &self,
        operation: Operation,
        group: &RankGroup,
        algorithm: Option<Algorithm>,
        extra: &Extra,
    ) -> Result<Known> {
        let poisoned = |_| Error::Value("an earlier estimate of this system failed while it was made".to_owned());
        let key = (operation, group.clone(), extra.clone(), algorithm);
        if let Some(known) = self.known.lock().map_err(poisoned)?.get(&key) {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        let forms = algorithm.map_or(Algorithm::of(operation), Algorithm::forms);
        let crossing = self.crossing(group);
        let is_restricted = algorithm.is_none() && forms.iter().any(|form| crossing.contains(form));
        let mut refusal = None;
        for &form in forms.iter().filter(|form| !is_restricted || crossing.contains(form)) {
            // Nothing says that the switched systems have it.
            if algorithm.is_none() && form == Algorithm::KangaRing && !self.model.is_torus {
                continue;
            }
            // A permutation that happens to be a ring has the same schedule either way.
            if algorithm.is_none() && (operation, form) == (Operation::Permute, Algorithm::Ring) {
                continue;
            }
            match Schedule::new(&self.fabric, group, operation, form, extra) {
                Ok(schedule) => found.push((form, Arc::new(self.profile(group, &schedule)?))),
                Err(error) => refusal = Some(error),
            }
        }
        if let (true, Some(refusal)) = (found.is_empty(), refusal) {
            return Err(refusal);
        }
        let found = Arc::new(found);
        self.known.lock().map_err(poisoned)?.insert(key, found.clone());
        Ok(found)
    }

    /// The algorithms by which this group crosses the network, where its description says so.
    fn crossing(&self, group: &RankGroup) -> &[Algorithm] {
        if self.model.crossing.is_empty() || group.systems(&self.fabric).len() < 2 { &[] } else { &self.model.crossing }
    }

    /// Seconds that the host takes to start a task on all its groups before it begins as a call in a program does; nothing
    /// on chips without NeuronCores.
    pub fn host_start(&self, groups: &[RankGroup]) -> f64 {
        let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
        for group in groups {
            group
                .systems(&self.fabric)
                .into_iter()
                .for_each(|(system, count)| *ranks.entry(system).or_insert(0) += count);
        }
        let most = ranks.values().copied().max().unwrap_or(0);
        self.host_start_of(most as f64, ranks.len() > 1)
    }

    pub(super) fn host_start_of(&self, ranks: f64, crosses: bool) -> f64 {
        let starts = self.model.starts;
        starts.host + ranks * starts.host_rank + if crosses { starts.host_network } else { 0.0 }
    }

    /// Counts a schedule of equal pieces.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if chips cannot reach each other.
    pub fn profile(&self, group: &RankGroup, schedule: &Schedule) -> Result<ScheduleDemand> {
        ScheduleDemand::count(&self.fabric, &self.model, &self.ways, group, schedule, None)
    }

    /// Counts a schedule of pieces of given sizes in bytes; its quantities "a byte" are then bytes and seconds.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if chips cannot reach each other.
    pub fn profile_of(
        &self,
        group: &RankGroup,
        schedule: &Schedule,
        size_of: &dyn Fn(u32) -> f64,
    ) -> Result<ScheduleDemand> {
        ScheduleDemand::count(&self.fabric, &self.model, &self.ways, group, schedule, Some(size_of))
    }

    /// What binds, in words.
    pub fn binding_of(&self, profile: &ScheduleDemand, bytes: f64) -> String {
        if profile.start + profile.latency >= bytes * profile.slope() {
            return format!("latency of {} steps", profile.steps);
        }
        match profile.binding {
            Binding::Nothing => "nothing".to_owned(),
            Binding::Links(level) => format!("{} links", self.fabric.levels()[level as usize].name),
            Binding::Memory => "memory of the chips".to_owned(),
            Binding::Channels => "channels of a rank".to_owned(),
            Binding::Engines => "DMA engines of the chips".to_owned(),
        }
    }
}

/// What closed forms say of a collective on `chips` chips of `per_chip` ranks each, for each byte of its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedForm {
    /// Steps.
    pub steps: u32,
    /// Bytes from chip to chip, in all.
    pub remote: f64,
    /// Bytes read from and written to memory, in all.
    pub accesses: f64,
}

/// The closed form of an algorithm, where it has one that the system does not enter: not the hierarchical ones.
pub fn closed_form(operation: Operation, algorithm: Algorithm, chips: u32, per_chip: u32) -> Option<ClosedForm> {
    let (n, r) = (f64::from(chips), f64::from(per_chip));
    let ranks = chips * per_chip;
    let count = f64::from(ranks);
    let pairs = (count / 2.0).max(1.0);
    let pair_steps = if ranks > 1 { (ranks / 2 - 1).max(1) } else { 0 };
    let two_stages = u32::from(chips > 1) + u32::from(per_chip > 1);
    let rounds = chips.next_power_of_two().ilog2();
    // Of gathering: steps, bytes between chips, accesses when copying, accesses when reducing.
    let (steps, remote, copied, reduced) = match algorithm {
        Algorithm::Ring => {
            let remote = if chips > 1 { n * (count - 1.0) / count } else { 0.0 };
            (ranks - 1, remote, 2.0 * (count - 1.0), 3.0 * (count - 1.0))
        }
        Algorithm::KangaRing => (pair_steps, n - 1.0, 3.0 * (pairs - 1.0) + 2.0, 4.0 * (pairs - 1.0) + 3.0),
        Algorithm::Mesh => (two_stages, n - 1.0, 2.0 * (count - 1.0), 3.0 * (count - 1.0)),
        Algorithm::Rdh => (rounds + u32::from(per_chip > 1), n - 1.0, 2.0 * (count - 1.0), 3.0 * (count - 1.0)),
        Algorithm::SingleStepMesh if operation == Operation::AllReduce => {
            let others = count * (count - 1.0);
            let steps = u32::from(ranks > 1);
            return Some(ClosedForm { steps, remote: others - count * (r - 1.0), accesses: 3.0 * others });
        }
        Algorithm::Direct | Algorithm::Pairwise if operation == Operation::AllToAll => {
            let steps = if algorithm == Algorithm::Direct { u32::from(ranks > 1) } else { ranks - 1 };
            let remote = count - r;
            return Some(ClosedForm { steps, remote, accesses: 2.0 * (count - 1.0) });
        }
        _ => return None,
    };
    match operation {
        Operation::AllGather => Some(ClosedForm { steps, remote, accesses: copied }),
        Operation::ReduceScatter => Some(ClosedForm { steps, remote, accesses: reduced }),
        Operation::AllReduce => Some(ClosedForm { steps: 2 * steps, remote: 2.0 * remote, accesses: copied + reduced }),
        _ => None,
    }
}
