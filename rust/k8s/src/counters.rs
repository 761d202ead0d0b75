//! Counters that devices of a pool share: whoever takes a device takes its part of them, and a device of which a counter
//! has too little left cannot be taken. Of them and of nothing else a scheduler knows that a whole node is its chips.
//!
//! The rules are those of Kubernetes 1.35 and later (partitionable devices): names of sets are unique in a pool, and sets
//! stand in slices of their own; that a slice has devices beside them, as in 1.34, is read too.

use std::collections::{BTreeMap, HashMap};

use num_rational::{BigRational, Ratio};
use serde_json::Value;

use crate::device::{CounterUse, PoolDevice};
use crate::document::{Document, Object};
use crate::error::Result;
use crate::names;
use crate::shown::{is_nothing, quoted};
use crate::values::ResourceQuantity;

/// Driver, pool, set and name of a counter.
type CounterKey = [String; 4];

/// What there is of each counter of an inventory.
pub(crate) type CounterAmounts = BTreeMap<CounterKey, ResourceQuantity>;

/// Reads the counter sets of a slice.
pub(crate) fn read_sets(document: &Document, [driver, pool]: [&str; 2], amounts: &mut CounterAmounts) -> Result<()> {
    let path = "spec.sharedCounters";
    let sets = list(document, path, document.body["spec"].get("sharedCounters"), names::MAX_COUNTER_SETS)?;
    for (index, set) in sets.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let name = set.get("name").and_then(Value::as_str).filter(|name| names::LABEL.fits(name));
        let Some(name) = name else { return Err(document.fail(&format!("{place}.name"), "must be a DNS label")) };
        for (counter, amount) in counters(document, &place, set)? {
            let key = [driver, pool, name, &counter].map(str::to_owned);
            if amounts.insert(key, amount).is_some() {
                let reason = format!("counter {counter} of set {name} exists twice in pool {pool}");
                return Err(document.fail(&place, reason));
            }
        }
    }
    Ok(())
}

/// Reads what a device uses of counters.
pub(crate) fn read_uses(document: &Document, path: &str, device: &Object) -> Result<Vec<CounterUse>> {
    let path = format!("{path}.consumesCounters");
    let entries = list(document, &path, device.get("consumesCounters"), names::MAX_CONSUMPTIONS)?;
    let mut uses = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let Some(set) = entry.get("counterSet").and_then(Value::as_str) else {
            return Err(document.fail(&path, "is not modelled without counterSet, the name of a set of the pool"));
        };
        if entry.get("compatibilityGroups").is_some_and(|value| !is_nothing(value)) {
            return Err(document.fail(&format!("{place}.compatibilityGroups"), "is not modelled"));
        }
        if uses.iter().any(|(known, _, _): &CounterUse| known == set) {
            return Err(document.fail(&place, format!("set {} comes twice", quoted(set))));
        }
        uses.extend(counters(document, &place, entry)?.into_iter().map(|(name, much)| (set.to_owned(), name, much)));
    }
    Ok(uses)
}

fn zero() -> BigRational {
    Ratio::from_integer(0.into())
}

fn list<'a>(document: &Document, path: &str, given: Option<&'a Value>, most: usize) -> Result<&'a [Value]> {
    match given.filter(|value| !is_nothing(value)) {
        None => Ok(&[]),
        Some(Value::Array(entries)) if entries.len() <= most => Ok(entries),
        Some(Value::Array(entries)) => Err(document.fail(path, format!("{} entries; at most {most}", entries.len()))),
        Some(_) => Err(document.fail(path, "must be a list")),
    }
}

fn counters(document: &Document, path: &str, owner: &Value) -> Result<Vec<(String, ResourceQuantity)>> {
    let path = format!("{path}.counters");
    let Some(Value::Object(entries)) = owner.get("counters") else {
        return Err(document.fail(&path, "must be a mapping of names to values"));
    };
    if entries.is_empty() || entries.len() > names::MAX_COUNTERS {
        return Err(document.fail(&path, format!("{} counters; from 1 to {}", entries.len(), names::MAX_COUNTERS)));
    }
    let mut found = Vec::with_capacity(entries.len());
    for (name, body) in entries {
        let place = format!("{path}[{name}]");
        if !names::LABEL.fits(name) {
            return Err(document.fail(&place, "the name must be a DNS label"));
        }
        let value = body.get("value").unwrap_or(&Value::Null);
        let amount = ResourceQuantity::read(value).map_err(|error| document.fail(&place, error))?;
        if *amount.number() < zero() {
            return Err(document.fail(&place, "is negative"));
        }
        found.push((name.clone(), amount));
    }
    Ok(found)
}

/// Refuses a device that uses a counter which its pool does not have.
pub(crate) fn check_uses(document: &Document, device: &PoolDevice, amounts: &CounterAmounts) -> Result<()> {
    for (set, counter, _) in &device.uses {
        let key = [&device.driver, &device.pool, set, counter].map(String::clone);
        if !amounts.contains_key(&key) {
            let reason = format!("device {device} uses counter {counter} of set {set}, which its pool does not have");
            return Err(document.fail("spec.devices", reason));
        }
    }
    Ok(())
}

/// The counters of an inventory: what is left of each, and who uses it.
pub(crate) struct PoolCounters {
    full: Vec<BigRational>,
    left: Vec<BigRational>,
    /// Of every device the counters that it uses, and how much.
    uses: Vec<Vec<(usize, BigRational)>>,
    /// Of every counter the devices that use it.
    users: Vec<Vec<usize>>,
}

impl PoolCounters {
    pub(crate) fn new(devices: &[PoolDevice], amounts: &CounterAmounts) -> Self {
        let places: HashMap<&CounterKey, usize> = amounts.keys().enumerate().map(|(place, key)| (key, place)).collect();
        let full: Vec<BigRational> = amounts.values().map(|amount| amount.number().clone()).collect();
        let mut users = vec![Vec::new(); full.len()];
        let uses: Vec<Vec<_>> = devices
            .iter()
            .map(|device| {
                let of = |(set, counter, amount): &CounterUse| {
                    let key = [&device.driver, &device.pool, set, counter].map(String::clone);
                    Some((*places.get(&key)?, amount.number().clone()))
                };
                device.uses.iter().filter_map(of).collect()
            })
            .collect();
        for (device, counters) in uses.iter().enumerate() {
            counters.iter().for_each(|(counter, _): &(usize, BigRational)| users[*counter].push(device));
        }
        Self { left: full.clone(), full, uses, users }
    }

    /// Takes a device's part; the devices, others' too, for which too little is left now.
    pub(crate) fn take(&mut self, device: usize) -> Vec<usize> {
        for (counter, amount) in &self.uses[device] {
            self.left[*counter] -= amount;
        }
        let users = self.uses[device].iter().flat_map(|(counter, _)| &self.users[*counter]);
        let lacks = |other: &usize| self.uses[*other].iter().any(|(counter, amount)| self.left[*counter] < *amount);
        let mut found: Vec<usize> = users.copied().filter(lacks).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The counters of one node's devices; as if nothing were taken if `empty`.
    pub(crate) fn of_node(&self, devices: &[usize], empty: bool) -> NodeCounters {
        if self.full.is_empty() {
            return NodeCounters::default();
        }
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let uses: Vec<Vec<_>> = devices
            .iter()
            .map(|device| {
                let place = |(counter, amount): &(usize, BigRational)| {
                    let next = places.len();
                    (*places.entry(*counter).or_insert(next), amount.clone())
                };
                self.uses[*device].iter().map(place).collect()
            })
            .collect();
        let mut left = vec![zero(); places.len()];
        for (counter, place) in places {
            left[place] = if empty { self.full[counter].clone() } else { self.left[counter].clone() };
        }
        if left.is_empty() { NodeCounters::default() } else { NodeCounters { left, uses } }
    }
}

/// The counters that the devices of one node use, by their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeCounters {
    left: Vec<BigRational>,
    uses: Vec<Vec<(usize, BigRational)>>,
}

impl NodeCounters {
    /// Whether there is enough for all of some devices together.
    pub(crate) fn allow(&self, positions: impl Iterator<Item = usize>) -> bool {
        if self.left.is_empty() {
            return true;
        }
        let mut left = self.left.clone();
        for position in positions {
            for (counter, amount) in &self.uses[position] {
                left[*counter] -= amount;
                if left[*counter] < zero() {
                    return false;
                }
            }
        }
        true
    }
}
