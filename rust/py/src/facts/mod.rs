//! Bindings of facts: what is published, what follows from it, comparisons. Values cross as they are, typed.

mod fields;

use std::collections::BTreeMap;

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};
use trn3_facts::{BUILT_IN, Error, Expression, Facts, Overrides, Peaks, Rules, Spec, SystemText};

use fields::{CellView, FactsView, Figure, QuantityView, SourceView, SpecView};

create_exception!(trn3, ExpressionError, PyValueError, "A text is no arithmetic, or has no finite value.");

/// Adds the submodule `facts`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "facts")?;
    module.add("ExpressionError", py.get_type::<ExpressionError>())?;
    module.add_function(wrap_pyfunction!(names, &module)?)?;
    module.add_function(wrap_pyfunction!(aliases, &module)?)?;
    module.add_function(wrap_pyfunction!(canonical, &module)?)?;
    module.add_function(wrap_pyfunction!(find, &module)?)?;
    module.add_function(wrap_pyfunction!(what_if, &module)?)?;
    module.add_function(wrap_pyfunction!(changed, &module)?)?;
    module.add_function(wrap_pyfunction!(built_in, &module)?)?;
    module.add_function(wrap_pyfunction!(parse, &module)?)?;
    module.add_function(wrap_pyfunction!(whole_of, &module)?)?;
    module.add_function(wrap_pyfunction!(derived, &module)?)?;
    module.add_function(wrap_pyfunction!(spec, &module)?)?;
    module.add_function(wrap_pyfunction!(formulas, &module)?)?;
    module.add_function(wrap_pyfunction!(peak, &module)?)?;
    module.add_function(wrap_pyfunction!(compare, &module)?)?;
    module.add_function(wrap_pyfunction!(status_of, &module)?)?;
    module.add_function(wrap_pyfunction!(range_of, &module)?)?;
    module.add_function(wrap_pyfunction!(factor, &module)?)?;
    module.add_function(wrap_pyfunction!(agree, &module)?)?;
    module.add_function(wrap_pyfunction!(shown, &module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, &module)?)?;
    module.add_function(wrap_pyfunction!(names_in, &module)?)?;
    module.add_function(wrap_pyfunction!(nccom_tables, &module)?)?;
    module.add_function(wrap_pyfunction!(systems_page, &module)?)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.facts", &module)
}

/// The exception of an error; the only place where classes are chosen.
fn exception(error: Error) -> PyErr {
    match error {
        Error::Expression(text) => ExpressionError::new_err(text),
        Error::File { file, why, number: Some(number) } => PyOSError::new_err((number, why, file)),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Names of the systems that the core knows.
#[pyfunction]
fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// Other names of things of a kind, and what they stand for.
#[pyfunction]
#[pyo3(signature = (kind, /))]
fn aliases(kind: &str) -> BTreeMap<String, String> {
    trn3_facts::aliases(kind).clone()
}

/// The name of a system of the core, given it or another name of it.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn canonical(name: &str) -> PyResult<&'static str> {
    trn3_facts::canonical(name).map_err(exception)
}

/// The system that a text names among other names of some kind: its name, and file and text of its spec file, if it is one's own.
#[pyfunction]
#[pyo3(signature = (text, kind, /))]
fn find(text: &str, kind: &str) -> PyResult<(String, Option<(String, String)>)> {
    SystemText::find(text, kind).map(|found| (found.name, found.file)).map_err(exception)
}

/// What a text with changes changes, and the changes; none for a text without.
#[pyfunction]
#[pyo3(signature = (text, /))]
fn what_if(text: &str) -> PyResult<(String, Vec<(String, String)>)> {
    let (base, changes) = trn3_facts::base_and_changes(text).map_err(exception)?;
    Ok((base.to_owned(), changes))
}

/// A figure's new value, from a number or a change such as +20%; None for anything else.
#[pyfunction]
#[pyo3(signature = (old, wanted, /))]
fn changed(old: f64, wanted: &str) -> Option<f64> {
    trn3_facts::change::changed(old, wanted)
}

/// The facts of a system of the core.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn built_in(name: &str) -> PyResult<FactsView> {
    Facts::built_in(name).map(FactsView::from).map_err(exception)
}

/// The facts of all systems that a spec file's text describes; the first argument names the file.
#[pyfunction]
#[pyo3(signature = (file, text, /))]
fn parse(file: &str, text: &str) -> PyResult<Vec<FactsView>> {
    let systems = Facts::parse(file, text).map_err(exception)?;
    Ok(systems.into_iter().map(FactsView::from).collect())
}

/// Of the systems of a file, the name of the one that is part of no other.
#[pyfunction]
#[pyo3(signature = (systems, file, /))]
fn whole_of(systems: Vec<FactsView>, file: &str) -> PyResult<String> {
    let systems: Vec<Facts> = systems.into_iter().map(Facts::from).collect();
    Facts::whole_of(&systems, file).map(|facts| facts.name).map_err(exception)
}

/// The figures that sources derive from others: name, source and what its arithmetic gives.
#[pyfunction]
#[pyo3(signature = (facts, siblings, /))]
fn derived(facts: FactsView, siblings: Vec<FactsView>) -> PyResult<Vec<(String, SourceView, f64)>> {
    let facts = facts.among(siblings);
    let found = facts.derived().map_err(exception)?;
    Ok(found.into_iter().map(|(key, source, value)| (key.to_owned(), source.clone().into(), value)).collect())
}

/// A system's figures as computations use them, and those of its parts.
#[pyfunction]
#[pyo3(signature = (facts, siblings, overrides, /))]
fn spec(facts: FactsView, siblings: Vec<FactsView>, overrides: &Bound<'_, PyDict>) -> PyResult<SpecView> {
    let mut given = Overrides::new();
    for (key, value) in overrides {
        given.insert(key.extract()?, fields::overridden(&value)?);
    }
    Spec::of(&facts.among(siblings), given).map(|spec| SpecView::from(&*spec)).map_err(exception)
}

type RuleView = (Vec<String>, String, Option<String>, bool, bool);

/// The rules by table and figure: formulas, why, unit, whether they check, whether only what is published.
#[pyfunction]
fn formulas() -> PyResult<Vec<(String, Vec<(String, RuleView)>)>> {
    let rules = |rules: &Rules| {
        let view = |rule: &trn3_facts::Rule| {
            let texts = rule.formulas.iter().map(|(text, _)| text.clone()).collect();
            (rule.key.clone(), (texts, rule.why.clone(), rule.unit.clone(), rule.check, rule.published_only))
        };
        rules.values().map(view).collect()
    };
    let tables = trn3_facts::formulas().map_err(exception)?;
    Ok(tables.iter().map(|(name, table)| (name.clone(), rules(table))).collect())
}

/// Operations a second of a chip or a core in a format; None where it has no such rate.
#[pyfunction]
#[pyo3(signature = (facts, siblings, format, /))]
fn peak(facts: FactsView, siblings: Vec<FactsView>, format: &str) -> PyResult<Option<f64>> {
    let spec = Spec::of(&facts.among(siblings), Overrides::new()).map_err(exception)?;
    trn3_facts::peak(&spec, format).map_err(exception)
}

type RowView = (String, String, String, Vec<CellView>, Vec<Option<Figure>>);

/// Systems beside each other: of each row its id, title, unit, cells and ratios.
#[pyfunction]
#[pyo3(signature = (systems, published, /))]
fn compare(systems: Vec<(FactsView, Vec<FactsView>)>, published: bool) -> PyResult<Vec<RowView>> {
    let systems: Vec<Facts> = systems.into_iter().map(|(facts, siblings)| facts.among(siblings)).collect();
    let peaks = if published { Peaks::Published } else { Peaks::Array };
    let table = trn3_facts::compare(&systems, peaks).map_err(exception)?;
    let row = |row: trn3_facts::ComparisonRow| {
        let cells = row.cells.into_iter().map(CellView::from).collect();
        let ratios = row.ratios.into_iter().map(|ratio| ratio.map(Figure::number)).collect();
        (row.id, row.title, row.unit, cells, ratios)
    };
    Ok(table.rows.into_iter().map(row).collect())
}

/// What the page on systems shows, as Markdown.
#[pyfunction]
fn systems_page() -> PyResult<String> {
    trn3_facts::systems_page().map_err(exception)
}

/// How far those who say something about a figure agree.
#[pyfunction]
#[pyo3(signature = (quantity, /))]
fn status_of(quantity: QuantityView) -> &'static str {
    trn3_facts::Quantity::from(quantity).status().name()
}

/// The least and the largest number that a source of a figure gives; None without two.
#[pyfunction]
#[pyo3(signature = (quantity, /))]
fn range_of(quantity: QuantityView) -> Option<(f64, f64)> {
    trn3_facts::Quantity::from(quantity).range()
}

/// Return what one of a unit is in base units.
///
/// Raises
/// ------
/// ValueError
///     If spec files do not know it.
///
/// Examples
/// --------
/// >>> from trn3.facts import factor
/// >>> factor("TB/s"), factor("Gbit/s"), factor("GiB")
/// (1000000000000.0, 125000000.0, 1073741824.0)
#[pyfunction]
fn factor(unit: &str) -> PyResult<f64> {
    trn3_facts::known_factor(unit).map_err(exception)
}

/// Return whether two figures are within 0.6 %, or one is the other, rounded.
///
/// Examples
/// --------
/// >>> from trn3.facts import agree
/// >>> agree(19.66, 20), agree(705.6, 700), agree(629.1, 671), agree(0.544, 1)
/// (True, True, False, False)
#[pyfunction]
fn agree(value: f64, published: f64) -> bool {
    trn3_facts::agree(value, published)
}

/// Return a value as text: numbers with separators and at most five digits after the point.
///
/// Examples
/// --------
/// >>> from trn3.facts import shown
/// >>> shown(2516.5824), shown(1000000), shown(0.5), shown(("4:16", "1:2")), shown(True)
/// ('2,516.6', '1,000,000', '0.5', '4:16, 1:2', 'yes')
#[pyfunction]
fn shown(value: Figure) -> String {
    trn3_facts::shown(&value.0)
}

/// Return the value of an expression.
///
/// Parameters
/// ----------
/// text
///     The expression. A name may have dots: ``core.clock_tensor``.
/// names
///     What the names stand for.
///
/// Raises
/// ------
/// ExpressionError
///     If the text is something else, names what is not there, or has no finite value.
///
/// Examples
/// --------
/// >>> from trn3.facts.expressions import evaluate
/// >>> evaluate("512*128*2*2.4e9*8/1e12")
/// 2516.5824
/// >>> evaluate("chips * chip.hbm_bandwidth", {"chips": 144, "chip.hbm_bandwidth": 4.9e12})
/// 705600000000000.0
#[pyfunction]
#[pyo3(signature = (text, names=None))]
fn evaluate(text: &str, names: Option<&Bound<'_, PyMapping>>) -> PyResult<f64> {
    let items = names.map(|names| names.items()?.extract::<Vec<(String, f64)>>()).transpose()?;
    let names: BTreeMap<String, f64> = items.unwrap_or_default().into_iter().collect();
    Expression::parse(text).and_then(|found| found.value(|name| names.get(name).copied())).map_err(exception)
}

/// Return the names that an expression reads, sorted.
///
/// Examples
/// --------
/// >>> from trn3.facts.expressions import names_in
/// >>> names_in("cores * core.pe_rows * max(2, cores)")
/// ('core.pe_rows', 'cores')
#[pyfunction]
fn names_in<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyTuple>> {
    let found = Expression::parse(text).map_err(exception)?;
    PyTuple::new(py, found.names())
}

/// Published outputs of nccom-test, as TOML.
#[pyfunction]
fn nccom_tables() -> &'static str {
    trn3_facts::NCCOM_TABLES
}
