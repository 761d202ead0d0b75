//! The class `Cluster`: units and chips by index, results as plain tuples; `trn3.system` gives them names.

use pyo3::prelude::*;
use trn3_facts::Facts;
use trn3_system::cluster::{Between, Cluster, ClusterExchange, ExchangeOperation, NetworkOptions};
use trn3_system::fabric::{LinkProfile, described_system};

use super::error::exception;
use crate::door;

/// Adds the class.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCluster>()
}

/// From, to, level, switch, rate, latency and links of each step within a unit.
type Leg = (usize, usize, String, Option<String>, f64, f64, Vec<u32>);
type RouteParts = (Option<Vec<Leg>>, Vec<String>, f64, f64);
/// Operation, bytes, units, chips, count, algorithm.
type ExchangeParts = (String, f64, Option<u64>, Option<usize>, u64, String);
/// Name, seconds, steps, bytes, binding.
type PhaseParts = (String, f64, u64, f64, String);
/// Seconds, units, chips, phases, binding.
type TimeParts = (f64, u64, usize, Vec<PhaseParts>, String);
/// Rate, latency, oversubscription, units under a bottom node, bottom nodes under a middle one.
type NetworkParts = (Option<f64>, Option<f64>, Option<f64>, Option<u64>, Option<u64>);

/// Equal units on one network, by roles.
#[pyclass(frozen, name = "Cluster", module = "trn3._trn3.system")]
pub(crate) struct PyCluster {
    pub(super) cluster: Cluster,
}

fn exchange(parts: ExchangeParts) -> trn3_system::Result<ClusterExchange> {
    let (operation, bytes, units, chips, count, algorithm) = parts;
    let (operation, algorithm) = (ExchangeOperation::parse(&operation)?, Between::parse(&algorithm)?);
    Ok(ClusterExchange { operation, bytes, units, chips, count, algorithm })
}

#[pymethods]
impl PyCluster {
    /// `units` of a system, which is the core's own or described by the text of a spec file.
    #[new]
    #[pyo3(signature = (name, file, text, units, links, network, /))]
    fn new(
        py: Python<'_>,
        name: &str,
        file: &str,
        text: Option<&str>,
        units: u64,
        links: &str,
        network: NetworkParts,
    ) -> PyResult<Self> {
        let profile = LinkProfile::parse(links).map_err(exception)?;
        let (rate, latency, oversubscription, units_per_bottom_node, bottom_per_middle_node) = network;
        let options = NetworkOptions { rate, latency, oversubscription, units_per_bottom_node, bottom_per_middle_node };
        let build = || {
            let facts = match text {
                None => Facts::built_in(name)?,
                Some(text) => described_system(file, text, Some(name))?,
            };
            Cluster::new(&facts, units, profile, &options)
        };
        Ok(Self { cluster: door::run(py, build)? })
    }

    #[getter]
    fn units(&self) -> u64 {
        self.cluster.units()
    }

    #[getter]
    fn live_units(&self) -> u64 {
        self.cluster.live_units()
    }

    #[getter]
    fn chips(&self) -> u64 {
        self.cluster.chips()
    }

    #[getter]
    fn failed(&self) -> Vec<u64> {
        self.cluster.failed().collect()
    }

    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.cluster.assumptions().to_vec()
    }

    /// Name, rate, latency, oversubscription, units under a bottom node, bottom nodes under a middle one.
    #[getter]
    fn network(&self) -> (String, f64, f64, f64, u64, u64) {
        let of = self.cluster.network();
        let name = of.name.clone();
        (name, of.rate, of.latency, of.oversubscription, of.units_per_bottom_node, of.bottom_per_middle_node)
    }

    /// Units, then places and live units under the bottom and the middle node, of each role.
    fn roles(&self) -> Vec<(u64, (u64, u64), (u64, u64))> {
        self.cluster.roles().iter().map(|role| (role.units, role.bottom, role.middle)).collect()
    }

    /// Legs within a unit or `None`, network nodes, rate and latency.
    #[pyo3(signature = (source, target, /))]
    fn route(&self, source: (u64, usize), target: (u64, usize)) -> PyResult<RouteParts> {
        let route = self.cluster.route(source, target).map_err(exception)?;
        let unit = self.cluster.unit();
        let inside = route.inside.map(|inside| {
            let legs = inside.legs.into_iter().map(|leg| {
                let level = unit.levels()[leg.level as usize].name.clone();
                let switch = leg.switch.map(|node| unit.nodes()[node].name.clone());
                (leg.from, leg.to, level, switch, leg.rate, leg.latency, leg.links)
            });
            legs.collect()
        });
        Ok((inside, route.nodes, route.rate, route.latency))
    }

    /// Bytes a second of each chip, what binds, and each bound alone.
    fn all_to_all(&self, py: Python<'_>) -> PyResult<(f64, String, Vec<(String, f64)>)> {
        let bound = door::run(py, || self.cluster.all_to_all())?;
        Ok((bound.per_chip, bound.binding, bound.levels))
    }

    /// The cluster without one more unit.
    #[pyo3(signature = (unit, /))]
    fn fail(&self, unit: u64) -> PyResult<Self> {
        Ok(Self { cluster: self.cluster.fail(unit).map_err(exception)? })
    }

    /// Seconds, exchanges, what binds, and assumptions of the exchanges of a step.
    #[pyo3(signature = (exchanges, /))]
    fn step(
        &self,
        py: Python<'_>,
        exchanges: Vec<ExchangeParts>,
    ) -> PyResult<(f64, Vec<TimeParts>, String, Vec<String>)> {
        let run = || {
            let exchanges = exchanges.into_iter().map(exchange).collect::<trn3_system::Result<Vec<_>>>()?;
            self.cluster.step(&exchanges)
        };
        let step = door::run(py, run)?;
        let times = step.exchanges.into_iter().map(|time| {
            let phases = time.phases.into_iter();
            let phases = phases.map(|phase| (phase.name, phase.seconds, phase.steps, phase.bytes, phase.binding));
            let (units, chips) = (time.exchange.units.unwrap_or(0), time.exchange.chips.unwrap_or(0));
            (time.seconds, units, chips, phases.collect(), time.binding)
        });
        Ok((step.seconds, times.collect(), step.binding, step.assumptions))
    }
}
