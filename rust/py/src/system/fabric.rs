//! The class `Fabric`: chips by index, results as plain tuples; `trn3.system` gives them names.

use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use trn3_facts::Facts;
use trn3_system::Error;
use trn3_system::exports::{ExportFormat, export};
use trn3_system::fabric::{
    Cut, Drawing, Fabric, FabricRoute, Fault, HealthClass, LinkProfile, Node, NodeKind, TrafficBound as Limit, bound,
    described_system,
};

use super::error::exception;
use crate::door;
use crate::value::to_python;

/// Adds the class and the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFabric>()?;
    module.add_function(wrap_pyfunction!(health_classes, module)?)
}

/// Health classes of the driver, each with what is lost.
#[pyfunction]
fn health_classes() -> Vec<(&'static str, &'static str)> {
    HealthClass::ALL.map(|class| (class.name(), class.loses())).to_vec()
}

type Leg = (usize, usize, String, Option<String>, f64, f64, Vec<u32>);
type RouteParts = (Vec<Leg>, Vec<u32>, f64, f64, Vec<usize>);
type CutParts = (String, f64, Vec<u32>);
type LinkParts = (usize, usize, f64, f64, String, u32);
type LevelParts = (String, &'static str, u32, f64, f64, f64);
type Limits = (f64, f64, Vec<u32>, Vec<(String, f64)>, Option<(usize, usize)>, CutParts, f64, bool);

type DrawnNode = (String, f64, f64, bool, &'static str);
type DrawnLink = ((usize, usize), (f64, f64), &'static str);
type DrawingParts = (String, Vec<(String, &'static str)>, Vec<DrawnNode>, Vec<DrawnLink>);

/// A graph of chips and switches.
#[pyclass(frozen, name = "Fabric", module = "trn3._trn3.system")]
pub(crate) struct PyFabric {
    /// What it wraps, for the bindings of other files.
    pub(crate) fabric: Arc<Fabric>,
}

impl PyFabric {
    fn wrap(fabric: Fabric) -> Self {
        Self::of(Arc::new(fabric))
    }

    /// One that others have too.
    pub(crate) fn of(fabric: Arc<Fabric>) -> Self {
        Self { fabric }
    }

    fn cut(cut: Cut) -> CutParts {
        (cut.name, cut.rate, cut.links)
    }

    fn limits(&self, limit: &Limit) -> Limits {
        let level = |level: u32| self.fabric.levels()[level as usize].name.clone();
        (
            limit.per_chip,
            limit.time,
            limit.binding.clone(),
            limit.levels.iter().map(|&(of, rate)| (level(of), rate)).collect(),
            limit.slowest,
            Self::cut(limit.cut.clone()),
            limit.per_chip_by_cut,
            limit.is_by_cut(),
        )
    }

    fn route_parts(&self, route: FabricRoute) -> RouteParts {
        let legs = route.legs.into_iter().map(|leg| {
            let level = self.fabric.levels()[leg.level as usize].name.clone();
            let switch = leg.switch.map(|node| self.fabric.nodes()[node].name.clone());
            (leg.from, leg.to, level, switch, leg.rate, leg.latency, leg.links)
        });
        (legs.collect(), route.links, route.rate, route.latency, route.relays)
    }
}

#[pymethods]
impl PyFabric {
    /// The fabric of a system of the core.
    #[staticmethod]
    #[pyo3(signature = (name, links, /))]
    fn built_in(py: Python<'_>, name: &str, links: &str) -> PyResult<Self> {
        let profile = LinkProfile::parse(links).map_err(exception)?;
        door::run(py, || Fabric::built_in(name, profile)).map(Self::wrap)
    }

    /// The fabric of a system that a spec file's text describes: the one named, or the only one with a fabric.
    #[staticmethod]
    #[pyo3(signature = (file, text, name, links, /))]
    fn parse(py: Python<'_>, file: &str, text: &str, name: Option<&str>, links: &str) -> PyResult<Self> {
        let profile = LinkProfile::parse(links).map_err(exception)?;
        door::run(py, || Fabric::from_facts(&described_system(file, text, name)?, profile)).map(Self::wrap)
    }

    /// Several of a system on its network, as one graph; `text` is that of a spec file, or `None` for the core's own.
    /// `narrowing` is how oversubscribed the network is, and how many systems hang under one of its nodes.
    #[staticmethod]
    #[pyo3(signature = (name, file, text, count, links, narrowing, /))]
    fn cluster(
        py: Python<'_>,
        name: &str,
        file: &str,
        text: Option<&str>,
        count: u32,
        links: &str,
        narrowing: Option<(f64, u32)>,
    ) -> PyResult<Self> {
        let profile = LinkProfile::parse(links).map_err(exception)?;
        let build = || {
            let facts = match text {
                None => Facts::built_in(name)?,
                Some(text) => described_system(file, text, Some(name))?,
            };
            match narrowing {
                None => Fabric::cluster(&facts, count, profile),
                Some((oversubscription, under)) => {
                    Fabric::oversubscribed(&facts, count, profile, oversubscription, under)
                }
            }
        };
        door::run(py, build).map(Self::wrap)
    }

    #[getter]
    fn name(&self) -> &str {
        self.fabric.name()
    }

    #[getter]
    fn title(&self) -> &str {
        self.fabric.title()
    }

    #[getter]
    fn chip(&self) -> Option<&str> {
        self.fabric.chip()
    }

    #[getter]
    fn chips(&self) -> usize {
        self.fabric.chips()
    }

    #[getter]
    fn id_parts(&self) -> Vec<String> {
        self.fabric.id_parts().to_vec()
    }

    #[getter]
    fn faults(&self) -> Vec<String> {
        self.fabric.faults().to_vec()
    }

    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.fabric.assumptions().to_vec()
    }

    #[getter]
    fn is_whole(&self) -> bool {
        self.fabric.is_whole()
    }

    /// Ids of the chips, in order.
    fn chip_ids<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        (0..self.fabric.chips()).map(|chip| PyTuple::new(py, self.fabric.chip_id(chip))).collect()
    }

    /// Name and size of each axis of the coordinates.
    fn axes(&self) -> Vec<(String, u32)> {
        self.fabric.axes().iter().map(|axis| (axis.name.clone(), axis.size)).collect()
    }

    /// Coordinates of the chips, in order, one for each axis.
    fn coordinates(&self) -> Vec<Vec<u32>> {
        self.fabric.nodes()[..self.fabric.chips()].iter().map(|node| node.coordinates.clone()).collect()
    }

    /// The host memory node of each chip, where that is published.
    fn numa(&self) -> Vec<Option<u32>> {
        (0..self.fabric.chips()).map(|chip| self.fabric.numa(chip)).collect()
    }

    /// Names of the switches, which follow the chips in the numbering of nodes.
    fn switches(&self) -> Vec<String> {
        let is_switch = |node: &&Node| node.kind == NodeKind::Switch;
        self.fabric.nodes().iter().filter(is_switch).map(|node| node.name.clone()).collect()
    }

    /// From, to, rate, latency, level and number of links of each bundle.
    fn links(&self) -> Vec<LinkParts> {
        let level = |level: u32| self.fabric.levels()[level as usize].name.clone();
        let parts = |link: &trn3_system::fabric::Link| {
            (link.from as usize, link.to as usize, link.rate, link.latency, level(link.level), link.links)
        };
        self.fabric.links().iter().map(parts).collect()
    }

    /// Name, kind, links, rate, latency and a chip's whole rate of each level.
    fn levels(&self) -> Vec<LevelParts> {
        let levels = self.fabric.levels().iter();
        levels.map(|of| (of.name.clone(), of.kind.name(), of.links, of.rate, of.latency, of.chip_rate)).collect()
    }

    /// Title, levels, nodes and links of a drawing.
    fn drawing(&self) -> PyResult<DrawingParts> {
        let Drawing { title, levels, nodes, links } = self.fabric.drawing().map_err(exception)?;
        let nodes = nodes.into_iter().map(|node| (node.name, node.x, node.y, node.is_switch, node.colour)).collect();
        Ok((title, levels, nodes, links.into_iter().map(|link| (link.ends, link.control, link.colour)).collect()))
    }

    /// A drawing as the text of an SVG file.
    fn svg(&self) -> PyResult<String> {
        Ok(self.fabric.drawing().map_err(exception)?.svg())
    }

    /// What another simulator reads of it, and notes; `text` is that of its spec file, or `None` for the core's own.
    #[pyo3(signature = (format, file, text, /))]
    fn export<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        file: &str,
        text: Option<&str>,
    ) -> PyResult<(Bound<'py, PyAny>, Vec<String>)> {
        let name = self.fabric.name();
        let work = || {
            let facts = match text {
                None => Facts::built_in(name)?,
                Some(text) => described_system(file, text, Some(name))?,
            };
            export(&self.fabric, &facts, ExportFormat::parse(format)?)
        };
        let made = door::run(py, work)?;
        Ok((to_python(py, &made.content)?, made.notes))
    }

    /// The chip of an id.
    #[pyo3(signature = (chip, /))]
    #[allow(clippy::needless_pass_by_value)]
    fn index_of(&self, chip: Vec<u32>) -> PyResult<usize> {
        self.fabric.index_of(&chip).map_err(exception)
    }

    /// The chips that patterns match.
    #[pyo3(signature = (patterns, /))]
    fn select(&self, patterns: &str) -> PyResult<Vec<usize>> {
        self.fabric.select(patterns).map_err(exception)
    }

    /// Legs, links, rate, latency and relays.
    #[pyo3(signature = (source, target, /))]
    fn route(&self, source: usize, target: usize) -> PyResult<RouteParts> {
        Ok(self.route_parts(self.fabric.route(source, target).map_err(exception)?))
    }

    /// Share and links of all equal ways.
    #[pyo3(signature = (source, target, /))]
    fn paths(&self, source: usize, target: usize) -> PyResult<Vec<(f64, Vec<u32>)>> {
        let paths = self.fabric.paths(source, target).map_err(exception)?;
        Ok(paths.into_iter().map(|path| (path.share, path.links)).collect())
    }

    /// Links that carry anything from one chip to another, with their fractions of the bytes.
    #[pyo3(signature = (source, target, /))]
    fn link_shares(&self, source: usize, target: usize) -> PyResult<Vec<(u32, f64)>> {
        self.fabric.link_shares(source, target).map_err(exception)
    }

    /// The bound of uniform all-to-all over all chips or a group, and the load of each link.
    #[pyo3(signature = (group, /))]
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        group: Option<Vec<usize>>,
    ) -> PyResult<(Limits, Bound<'py, PyArray1<f64>>)> {
        let limit = door::run(py, || bound::all_to_all(&self.fabric, group.as_deref()))?;
        Ok((self.limits(&limit), PyArray1::from_vec(py, limit.loads)))
    }

    /// The bound of a matrix of bytes, and the load of each link.
    #[pyo3(signature = (matrix, /))]
    #[allow(clippy::needless_pass_by_value)]
    fn traffic<'py>(
        &self,
        py: Python<'py>,
        matrix: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<(Limits, Bound<'py, PyArray1<f64>>)> {
        let view = matrix.as_array();
        let chips = self.fabric.chips();
        if view.shape() != [chips, chips] {
            return Err(PyValueError::new_err(format!(
                "the traffic matrix has shape {:?}; {} has {chips} chips and needs ({chips}, {chips})",
                view.shape(),
                self.fabric.name()
            )));
        }
        let bytes: Vec<f64> = view.iter().copied().collect();
        let limit = door::run(py, || bound::traffic(&self.fabric, &bytes))?;
        Ok((self.limits(&limit), PyArray1::from_vec(py, limit.loads)))
    }

    /// Halves along each axis, the narrowest first.
    #[pyo3(signature = (group, /))]
    #[allow(clippy::needless_pass_by_value)]
    fn bisection(&self, group: Option<Vec<usize>>) -> PyResult<Vec<CutParts>> {
        let cuts = bound::bisection(&self.fabric, group.as_deref()).map_err(exception)?;
        Ok(cuts.into_iter().map(Self::cut).collect())
    }

    /// The fabric without what is named.
    #[pyo3(signature = (faults, /))]
    #[allow(clippy::needless_pass_by_value)]
    fn fail(&self, faults: Vec<String>) -> PyResult<Self> {
        let faults: Result<Vec<Fault>, Error> = faults.iter().map(|name| Fault::parse(&self.fabric, name)).collect();
        self.fabric.fail(&faults.map_err(exception)?).map(Self::wrap).map_err(exception)
    }

    /// The health class that the driver would report for what is named.
    #[pyo3(signature = (fault, /))]
    fn health_class(&self, fault: &str) -> PyResult<&'static str> {
        let fault = Fault::parse(&self.fabric, fault).map_err(exception)?;
        Ok(fault.health_class(&self.fabric).name())
    }

    /// Chips that the largest part of the graph does not reach, part by part.
    fn cut_off(&self) -> Vec<Vec<usize>> {
        self.fabric.cut_off()
    }

    /// Bounds of uniform all-to-all among the chips left: with this fabric, and with `after`, which came of it.
    #[pyo3(signature = (after, /))]
    fn slowdown(&self, py: Python<'_>, after: &Self) -> PyResult<(Limits, Limits)> {
        let slowdown = door::run(py, || self.fabric.slowdown(&after.fabric))?;
        Ok((self.limits(&slowdown.before), after.limits(&slowdown.after)))
    }

    /// Rings through all chips that share no link.
    fn hamiltonian_cycles(&self, py: Python<'_>) -> PyResult<Vec<Vec<usize>>> {
        door::run(py, || self.fabric.hamiltonian_cycles())
    }
}
