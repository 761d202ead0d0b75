//! How figures follow from others: the rules of `formulas.toml`, read.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::expression::Expression;

/// How one figure follows from others.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The figure's name.
    pub key: String,
    /// Tried in their order: the first whose names all exist is used.
    pub formulas: Vec<(String, Expression)>,
    /// Why it follows, for readers.
    pub why: String,
    /// The figure's unit where nobody publishes it.
    pub unit: Option<String>,
    /// Whether the published value is used, and the formula only says whether the parts explain it.
    pub check: bool,
    /// Whether it holds only where something is published.
    pub published_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    formulas: Vec<String>,
    why: String,
    unit: Option<String>,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    published: bool,
}

/// The rules for one kind of system, by figure.
pub type Rules = IndexMap<String, Rule>;

/// The tables of rules that a kind of system reads.
const TABLES: [(&str, &[&str]); 7] = [
    ("core", &["core"]),
    ("chip", &["chip"]),
    ("chip and pod", &["chip", "pod"]),
    ("server", &["system"]),
    ("ultraserver", &["system"]),
    ("rack", &["system"]),
    ("pod", &["system"]),
];

fn parse(text: &str) -> Result<IndexMap<String, Rules>> {
    let tables: IndexMap<String, IndexMap<String, Entry>> =
        toml::from_str(text).map_err(|error| Error::Spec(format!("formulas.toml: {error}")))?;
    let rule = |(key, entry): (String, Entry)| {
        let read = |text: String| Expression::parse(&text).map(|expression| (text, expression));
        let formulas = entry.formulas.into_iter().map(read).collect::<Result<_>>()?;
        let Entry { why, unit, check, published: published_only, .. } = entry;
        Ok((key.clone(), Rule { key, formulas, why, unit, check, published_only }))
    };
    let rules = |table: IndexMap<String, Entry>| table.into_iter().map(rule).collect::<Result<Rules>>();
    tables.into_iter().map(|(name, table)| Ok((name, rules(table)?))).collect()
}

/// All rules by table and figure.
///
/// # Errors
/// None in practice: the file is part of the crate and tested.
pub fn formulas() -> Result<&'static IndexMap<String, Rules>> {
    static READ: LazyLock<Result<IndexMap<String, Rules>>> =
        LazyLock::new(|| parse(include_str!("../specs/formulas.toml")));
    READ.as_ref().map_err(Clone::clone)
}

/// The rules for a kind of system; none for a kind that no formula is about.
pub(crate) fn rules_of(kind: &str) -> Result<Rules> {
    let tables = TABLES.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, tables)| *tables);
    let mut rules = Rules::new();
    for table in tables {
        rules.extend(formulas()?.get(*table).cloned().unwrap_or_default());
    }
    Ok(rules)
}

/// Rules after those whose figures they read.
pub(crate) fn in_order(rules: &Rules) -> Vec<&Rule> {
    fn give<'a>(key: &str, rules: &'a Rules, given: &mut BTreeSet<String>, out: &mut Vec<&'a Rule>) {
        let Some(rule) = rules.get(key) else { return };
        if !given.insert(key.to_owned()) {
            return;
        }
        for (_, formula) in &rule.formulas {
            formula.names().into_iter().for_each(|name| give(name, rules, given, out));
        }
        out.push(rule);
    }
    let (mut given, mut out) = (BTreeSet::new(), Vec::with_capacity(rules.len()));
    rules.keys().for_each(|key| give(key, rules, &mut given, &mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BUILT_IN, Facts};

    #[test]
    fn test_formulas_read_figures_that_exist() {
        let tables = formulas().expect("reads");
        let mut known: Vec<String> = tables.values().flat_map(|rules| rules.keys().cloned()).collect();
        for (name, _) in BUILT_IN {
            known.extend(Facts::built_in(name).expect("loads").quantities.into_keys());
        }
        for rule in tables.values().flat_map(|rules| rules.values()) {
            for name in rule.formulas.iter().flat_map(|(_, formula)| formula.names()) {
                let key = name.rsplit('.').next().unwrap_or(name);
                assert!(known.iter().any(|known| known == key), "{}: {name}", rule.key);
            }
        }
    }

    #[test]
    fn test_rules_come_after_what_they_read() {
        let rules = rules_of("core").expect("reads");
        let order: Vec<&str> = in_order(&rules).iter().map(|rule| rule.key.as_str()).collect();
        let at = |key| order.iter().position(|known| *known == key).expect("there");
        assert!(at("tflops_sparse_bf16") > at("tflops_mxfp8"));
        assert_eq!(order.len(), rules.len());
        assert!(rules_of("results").expect("none").is_empty());
    }
}
