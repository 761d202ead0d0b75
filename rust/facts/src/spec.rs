//! A system's figures, computed from its parts and set beside what is published.
//!
//! This is where it is decided which value of a figure is used: that of the formula where the parts are known (array x
//! clock for peaks), else the spec file's `default`; the reason stands in [`Quantity::why`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

use crate::check::is_rate;
use crate::error::{Error, Result, nearest};
use crate::expression::{Expression, with_numbers};
use crate::facts::{self, Facts};
use crate::formula::{Rule, Rules, in_order, rules_of};
use crate::quantity::{Quantity, Source, agree};
use crate::show::{rounded, shown};
use crate::unit::known_factor;
use crate::value::Value;

/// The roles of parts that formulas may name.
pub const ROLES: [&str; 5] = ["core", "chip", "server", "peer", "basis"];

/// A system's figures by the facts' own names.
///
/// ```
/// use trn3_facts::Spec;
///
/// let chip = Spec::built_in("trainium3")?;
/// let peak = chip.quantity("tflops_bf16")?;
/// assert_eq!(peak.number(), Some(629.1456));
/// assert_eq!(peak.published.as_ref().and_then(|value| value.number()), Some(671.0));
/// assert_eq!(chip.si("hbm_bandwidth")?, 4.9e12);
/// # Ok::<(), trn3_facts::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What is published about it.
    pub facts: Facts,
    /// The figures that computations use: published ones in the order of the file, then those that follow from them.
    pub quantities: IndexMap<String, Quantity>,
    /// The specs of what it is made of, by role.
    pub parts: IndexMap<String, Arc<Spec>>,
}

/// What a caller sets instead of a published figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Override {
    /// Another value, in the figure's unit.
    Value(Value),
    /// Another figure.
    Quantity(Quantity),
}

/// Overrides by name; with a role before it (`chip.hbm_bandwidth`) one holds for a part.
pub type Overrides = IndexMap<String, Override>;

impl Spec {
    /// The figures of a system of the crate; computed once.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn built_in(name: &str) -> Result<Arc<Self>> {
        static COMPUTED: Mutex<BTreeMap<String, Arc<Spec>>> = Mutex::new(BTreeMap::new());
        let computed = || COMPUTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spec) = computed().get(name) {
            return Ok(Arc::clone(spec));
        }
        // Parts lock for themselves.
        let spec = Arc::new(Self::compute(&Facts::built_in(name)?, Overrides::new())?);
        Ok(Arc::clone(computed().entry(name.to_owned()).or_insert(spec)))
    }

    /// The figures of a system, whoever described it.
    ///
    /// # Errors
    /// [`Error::Spec`] if a part or an overridden figure does not exist, or an override is not of the figure's type,
    /// negative, or a rate of zero.
    pub fn of(facts: &Facts, overrides: Overrides) -> Result<Arc<Self>> {
        // Parts of a file's systems may be of that file.
        let is_alone = facts.siblings.is_empty();
        if overrides.is_empty() && is_alone && Facts::built_in(&facts.name).is_ok_and(|known| known == *facts) {
            return Self::built_in(&facts.name);
        }
        Self::compute(facts, overrides).map(Arc::new)
    }

    /// A figure by name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the system has none of that name.
    pub fn quantity(&self, key: &str) -> Result<&Quantity> {
        facts::quantity(&self.facts.name, &self.quantities, key)
    }

    /// A figure in base units, as [`Facts::si`].
    ///
    /// # Errors
    /// As there.
    pub fn si(&self, key: &str) -> Result<f64> {
        facts::si(&self.facts.name, &self.quantities, key)
    }

    /// A figure in base units by its name or, with roles before it, that of a part: `core.clock_tensor`.
    pub fn known(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            None => self.quantities.get(name)?.si(),
            Some((role, key)) => self.parts.get(role)?.known(key),
        }
    }

    fn compute(facts: &Facts, overrides: Overrides) -> Result<Self> {
        let mut mine = Overrides::new();
        let mut of_parts: IndexMap<String, Overrides> = IndexMap::new();
        for (key, given) in overrides {
            match key.split_once('.') {
                Some((role, rest)) => {
                    of_parts.entry(role.to_owned()).or_default().insert(rest.to_owned(), given);
                }
                None => {
                    mine.insert(key, given);
                }
            }
        }
        let mut parts = IndexMap::new();
        for role in ROLES {
            if let Some(part) = facts.part(role)? {
                let overrides = of_parts.shift_remove(role).unwrap_or_default();
                parts.insert(role.to_owned(), Self::of(&part, overrides)?);
            }
        }
        if let Some(role) = of_parts.keys().next() {
            let known: Vec<&str> = parts.keys().map(String::as_str).collect();
            let nearest = nearest(role, &known, &[]);
            return Err(Error::Spec(format!("overrides: {} has no part '{role}'; {nearest}", facts.name)));
        }
        let mut rules = rules_of(&facts.kind)?;
        rules.retain(|key, _| !facts.is_set(key));
        let mut spec = Self { facts: facts.clone(), quantities: facts.quantities.clone(), parts };
        for (key, given) in mine {
            let quantity = overridden(facts, &key, given, &rules)?;
            rules.shift_remove(&key);
            spec.quantities.insert(key, quantity);
        }
        for rule in in_order(&rules) {
            let known = |formula: &Expression| formula.names().iter().all(|name| spec.known(name).is_some());
            let Some((text, formula)) = rule.formulas.iter().find(|(_, formula)| known(formula)) else { continue };
            if (rule.check || rule.published_only) && !spec.quantities.contains_key(&rule.key) {
                continue;
            }
            let quantity = spec.figure_of(rule, text, formula)?;
            spec.quantities.insert(rule.key.clone(), quantity);
        }
        Ok(spec)
    }

    fn figure_of(&self, rule: &Rule, text: &str, formula: &Expression) -> Result<Quantity> {
        let published = self.quantities.get(&rule.key);
        let unit = published.map_or(rule.unit.as_deref().unwrap_or_default(), |published| &published.unit);
        let value = rounded(formula.value(|name| self.known(name))? / known_factor(unit)?);
        let numbers = with_numbers(text, |name| self.as_text(name))?;
        let text = Some(format!("{text} = {numbers} = {}", measured(&Value::Number(value), unit, unit)));
        let Some((published, said)) = published.and_then(|published| Some((published, published.number()?))) else {
            let new = Quantity::new(Value::Number(value), unit);
            return Ok(Quantity { formula: text, why: Some(rule.why.clone()), ..new });
        };
        let agrees = agree(value, said);
        let why = [published.why.as_deref(), (!agrees).then_some(rule.why.as_str())];
        let why = why.into_iter().flatten().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ");
        Ok(Quantity {
            value: if rule.check { published.value.clone() } else { Value::Number(value) },
            formula: text,
            published: Some(published.value.clone()),
            agrees: Some(agrees),
            computed: rule.check.then_some(value),
            conflict: published.conflict || !agrees,
            why: Some(if why.is_empty() { rule.why.clone() } else { why }),
            ..published.clone()
        })
    }

    /// A figure as formulas show it: with the first word of its unit, where that says something.
    fn as_text(&self, name: &str) -> Option<String> {
        let (spec, key) = match name.split_once('.') {
            None => (self, name),
            Some((role, key)) => (&**self.parts.get(role)?, key),
        };
        let quantity = spec.quantities.get(key)?;
        let word = quantity.unit.split([' ', ',']).next().unwrap_or_default();
        Some(measured(&quantity.value, word, word))
    }
}

/// Arithmetic on figures of the crate's systems, as `trn1_32xlarge.price_ri_hour / trn1_32xlarge.chips`, in a unit.
///
/// # Errors
/// [`Error::Expression`] if it names what is not there, [`Error::Spec`] for an unknown unit.
///
/// ```
/// assert_eq!(trn3_facts::figure("trainium3.hbm_bandwidth / trainium3.cores", "GB/s")?, 612.5);
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn figure(text: &str, unit: &str) -> Result<f64> {
    let known = |name: &str| {
        let (system, key) = name.split_once('.')?;
        Spec::built_in(system).ok()?.known(key)
    };
    Ok(rounded(Expression::parse(text)?.value(known)? / known_factor(unit)?))
}

/// First words of units that say nothing beside a number.
const COUNTS: [&str; 8] = ["", "count", "x", "fraction", "bool", "multiply", "cores", "servers"];

fn measured(value: &Value, unit: &str, printed: &str) -> String {
    let word = unit.split([' ', ',', '/']).next().unwrap_or_default();
    if COUNTS.contains(&word) { shown(value) } else { format!("{} {printed}", shown(value)) }
}

fn overridden(facts: &Facts, key: &str, given: Override, rules: &Rules) -> Result<Quantity> {
    let refuse = |what: String| Err(Error::Spec(format!("overrides: {what}")));
    let value = match given {
        Override::Quantity(quantity) => return known_factor(&quantity.unit).map(|_| quantity),
        Override::Value(value) => value,
    };
    let (published, rule) = (facts.quantities.get(key), rules.get(key));
    let unit = match (published, rule) {
        (Some(published), _) => published.unit.as_str(),
        (None, Some(rule)) => rule.unit.as_deref().unwrap_or_default(),
        (None, None) => {
            let known: Vec<&str> = facts.quantities.keys().map(String::as_str).collect();
            return refuse(format!("{} has no {key}; {}", facts.name, nearest(key, &known, &[])));
        }
    };
    let numeric = published.is_none_or(|published| published.number().is_some());
    match value.number() {
        Some(number) if numeric => {
            if !number.is_finite() || number < 0.0 || (is_rate(unit) && number == 0.0) {
                let must = if is_rate(unit) { "positive" } else { "not negative" };
                return refuse(format!("{key} is {number} {unit}; must be finite and {must}"));
            }
        }
        None if !numeric => {}
        _ => {
            let given = match &value {
                Value::Text(text) => format!("'{text}'"),
                other => shown(other),
            };
            let must =
                if numeric { format!("a number of {unit}") } else { "a text or a list, as published".to_owned() };
            return refuse(format!("{key} is {given}; must be {must}"));
        }
    }
    let source = Source { value: value.clone(), unit: None, source: "override".to_owned() };
    let mut quantity = published.cloned().unwrap_or_else(|| Quantity::new(Value::Bool(false), unit));
    quantity.published = published.map(|published| published.value.clone());
    quantity.sources.push(source);
    Ok(Quantity { value, formula: None, why: Some("set by the caller".to_owned()), ..quantity })
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
