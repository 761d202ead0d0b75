//! What crosses between Python and the facts: objects with the fields of `trn3.facts` come, dictionaries of fields go.

use indexmap::IndexMap;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use trn3_facts::{Cell, Facts, Override, Quantity, Siblings, Source, Spec, Value};

/// A figure's value: a bool, a number (an int where it is whole), a text, a tuple of them.
#[derive(Clone)]
pub(super) struct Figure(pub(super) Value);

impl Figure {
    pub(super) fn number(value: f64) -> Self {
        Self(Value::Number(value))
    }
}

impl<'py> FromPyObject<'_, 'py> for Figure {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(if object.is_instance_of::<PyBool>() {
            Value::Bool(object.extract()?)
        } else if object.is_instance_of::<PyString>() {
            Value::Text(object.extract()?)
        } else if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            let values: Vec<Self> = object.extract()?;
            Value::List(values.into_iter().map(|value| value.0).collect())
        } else {
            Value::Number(object.extract::<f64>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "a figure is of type {}; allowed: a number, a bool, a text, a tuple of them",
                    object.get_type()
                ))
            })?)
        }))
    }
}

impl<'py> IntoPyObject<'py> for Figure {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        Ok(match self.0 {
            Value::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
            Value::Text(text) => PyString::new(py, &text).into_any(),
            Value::List(values) => PyTuple::new(py, values.into_iter().map(Self))?.into_any(),
            Value::Number(value) if value.fract() == 0.0 && value.abs() < 1e18 => {
                PyInt::new(py, value as i64).into_any()
            }
            Value::Number(value) => PyFloat::new(py, value).into_any(),
        })
    }
}

#[derive(Clone, FromPyObject, IntoPyObject)]
pub(super) struct SourceView {
    value: Figure,
    source: String,
    unit: Option<String>,
}

impl From<Source> for SourceView {
    fn from(Source { value, source, unit }: Source) -> Self {
        Self { value: Figure(value), source, unit }
    }
}

#[derive(Clone, FromPyObject, IntoPyObject)]
pub(super) struct QuantityView {
    value: Figure,
    unit: String,
    formula: Option<String>,
    sources: Vec<SourceView>,
    conflict: bool,
    why: Option<String>,
    note: Option<String>,
    published: Option<Figure>,
    agrees: Option<bool>,
    computed: Option<Figure>,
}

impl From<Quantity> for QuantityView {
    fn from(from: Quantity) -> Self {
        let Quantity { value, unit, conflict, why, note, sources, formula, published, agrees, computed } = from;
        let sources = sources.into_iter().map(SourceView::from).collect();
        let (published, computed) = (published.map(Figure), computed.map(Figure::number));
        Self { value: Figure(value), unit, formula, sources, conflict, why, note, published, agrees, computed }
    }
}

impl From<QuantityView> for Quantity {
    fn from(from: QuantityView) -> Self {
        let QuantityView { value, unit, formula, sources, conflict, why, note, published, agrees, computed } = from;
        let source = |SourceView { value, source, unit }| Source { value: value.0, source, unit };
        let sources = sources.into_iter().map(source).collect();
        let computed = computed.and_then(|value| value.0.number());
        let (value, published) = (value.0, published.map(|value| value.0));
        Self { value, unit, conflict, why, note, sources, formula, published, agrees, computed }
    }
}

/// What a caller sets instead of a figure: another one, or its value alone.
pub(super) fn overridden(object: &Bound<'_, PyAny>) -> PyResult<Override> {
    if object.hasattr("sources")? {
        return Ok(Override::Quantity(object.extract::<QuantityView>()?.into()));
    }
    Ok(Override::Value(object.extract::<Figure>()?.0))
}

/// What stands under a key that begins with `_`.
#[derive(Clone)]
pub(super) struct Part(toml::Value);

impl<'py> FromPyObject<'_, 'py> for Part {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(if object.is_instance_of::<PyBool>() {
            toml::Value::Boolean(object.extract()?)
        } else if let Ok(text) = object.extract::<String>() {
            toml::Value::String(text)
        } else if let Ok(number) = object.extract::<i64>() {
            toml::Value::Integer(number)
        } else if let Ok(number) = object.extract::<f64>() {
            toml::Value::Float(number)
        } else if let Ok(table) = object.cast::<PyDict>() {
            let mut entries = toml::Table::new();
            for (key, entry) in table.iter() {
                entries.insert(key.extract()?, entry.extract::<Self>()?.0);
            }
            toml::Value::Table(entries)
        } else {
            let entries: Vec<Self> = object.extract()?;
            toml::Value::Array(entries.into_iter().map(|entry| entry.0).collect())
        }))
    }
}

impl<'py> IntoPyObject<'py> for Part {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        Ok(match self.0 {
            toml::Value::String(text) => PyString::new(py, &text).into_any(),
            toml::Value::Integer(number) => PyInt::new(py, number).into_any(),
            toml::Value::Float(number) => PyFloat::new(py, number).into_any(),
            toml::Value::Boolean(value) => PyBool::new(py, value).to_owned().into_any(),
            toml::Value::Datetime(time) => PyString::new(py, &time.to_string()).into_any(),
            toml::Value::Array(entries) => PyList::new(py, entries.into_iter().map(Self))?.into_any(),
            toml::Value::Table(table) => {
                let dict = PyDict::new(py);
                for (key, entry) in table {
                    dict.set_item(key, Self(entry))?;
                }
                dict.into_any()
            }
        })
    }
}

#[derive(Clone, FromPyObject, IntoPyObject)]
pub(super) struct FactsView {
    name: String,
    title: String,
    kind: String,
    parent: Option<String>,
    parts: Items<Part>,
    file: String,
    quantities: Items<QuantityView>,
}

impl FactsView {
    /// The facts, among the other systems of their file.
    pub(super) fn among(self, siblings: Vec<Self>) -> Facts {
        let mut facts = Facts::from(self);
        facts.siblings = Siblings::from(siblings.into_iter().map(Facts::from).collect::<Vec<_>>());
        facts
    }
}

impl From<Facts> for FactsView {
    fn from(from: Facts) -> Self {
        let Facts { name, title, kind, parent, parts, file, quantities, .. } = from;
        let parts = Items(parts.into_iter().map(|(key, part)| (key, Part(part))).collect());
        let quantities = Items(quantities.into_iter().map(|(key, quantity)| (key, quantity.into())).collect());
        Self { name, title, kind, parent, parts, file, quantities }
    }
}

impl From<FactsView> for Facts {
    fn from(from: FactsView) -> Self {
        let FactsView { name, title, kind, parent, parts, file, quantities } = from;
        let parts = parts.0.into_iter().map(|(key, part)| (key, part.0)).collect();
        let quantities = quantities.0.into_iter().map(|(key, quantity)| (key, quantity.into())).collect();
        Self { name, title, kind, parent, parts, file, quantities, siblings: Siblings::default() }
    }
}

/// The entries of a mapping, in its order.
#[derive(Clone)]
pub(super) struct Items<T>(IndexMap<String, T>);

impl<'py, T> FromPyObject<'_, 'py> for Items<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut items = IndexMap::new();
        for pair in object.call_method0("items")?.try_iter()? {
            let (key, value): (String, Bound<'py, PyAny>) = pair?.extract()?;
            items.insert(key, value.extract::<T>()?);
        }
        Ok(Self(items))
    }
}

impl<'py, T: IntoPyObject<'py>> IntoPyObject<'py> for Items<T> {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let dict = PyDict::new(py);
        for (key, value) in self.0 {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }
}

#[derive(IntoPyObject)]
pub(super) struct SpecView {
    facts: FactsView,
    quantities: Items<QuantityView>,
    parts: Items<SpecView>,
}

impl From<&Spec> for SpecView {
    fn from(spec: &Spec) -> Self {
        let figure = |(key, quantity): (&String, &Quantity)| (key.clone(), quantity.clone().into());
        let part = |(role, part): (&String, &std::sync::Arc<Spec>)| (role.clone(), Self::from(&**part));
        Self {
            facts: spec.facts.clone().into(),
            quantities: Items(spec.quantities.iter().map(figure).collect()),
            parts: Items(spec.parts.iter().map(part).collect()),
        }
    }
}

#[derive(IntoPyObject)]
pub(super) struct CellView {
    key: Option<String>,
    value: Option<Figure>,
    text: String,
    status: Option<&'static str>,
    spread: Option<(Figure, Figure)>,
    quantity: Option<QuantityView>,
}

impl From<Cell> for CellView {
    fn from(Cell { key, value, text, status, spread, quantity }: Cell) -> Self {
        let spread = spread.map(|(least, most)| (Figure::number(least), Figure::number(most)));
        let (value, status) = (value.map(Figure::number), status.map(trn3_facts::Status::name));
        Self { key, value, text, status, spread, quantity: quantity.map(QuantityView::from) }
    }
}
