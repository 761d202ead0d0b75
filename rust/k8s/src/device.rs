//! Devices of pools, as ResourceSlices offer them.

use std::fmt::{Display, Formatter};
use std::sync::OnceLock;

use cel::common::value::Val;
use serde_json::{Value, json};

use crate::names;
use crate::values::{AttributeValue, ResourceQuantity};

/// Domain and identifier of an attribute or a capacity.
pub type QualifiedName = (String, String);

/// A counter of its pool that a device uses: set, name and how much of it.
pub(crate) type CounterUse = (String, String, ResourceQuantity);

/// A mark that keeps claims away that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTaint {
    /// What is marked.
    pub key: String,
    /// More on it; may be empty.
    pub value: String,
    /// `None`, `NoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A device of a pool; its identity is driver, pool and name.
#[derive(Clone, Debug)]
pub struct PoolDevice {
    /// The driver that offers it.
    pub driver: String,
    /// Its pool.
    pub pool: String,
    /// The node where it is; of a device of several nodes its name and their number.
    pub node: String,
    /// The nodes that reach it together; none for a device of one node.
    pub nodes: Vec<String>,
    /// Its name in the pool.
    pub name: String,
    /// Its attributes, in the order of the slice.
    pub attributes: Vec<(QualifiedName, AttributeValue)>,
    /// Its capacities, in the order of the slice.
    pub capacity: Vec<(QualifiedName, ResourceQuantity)>,
    /// Its taints.
    pub taints: Vec<DeviceTaint>,
    /// What it uses of its pool's counters.
    pub(crate) uses: Vec<CounterUse>,
    /// What selectors see of it, made when the first of them looks.
    pub(crate) seen: OnceLock<Box<dyn Val>>,
}

impl PoolDevice {
    /// Driver, pool and name.
    pub fn key(&self) -> (&str, &str, &str) {
        (&self.driver, &self.pool, &self.name)
    }

    /// An attribute.
    pub fn attribute(&self, domain: &str, identifier: &str) -> Option<&AttributeValue> {
        find(&self.attributes, domain, identifier)
    }

    /// A capacity.
    pub fn capacity(&self, domain: &str, identifier: &str) -> Option<&ResourceQuantity> {
        find(&self.capacity, domain, identifier)
    }

    /// An attribute in the driver's own domain.
    pub fn of_driver(&self, identifier: &str) -> Option<&AttributeValue> {
        self.attribute(&self.driver, identifier)
    }

    /// An attribute in our own domain.
    pub fn own(&self, identifier: &str) -> Option<&AttributeValue> {
        self.attribute(names::OWN_DOMAIN, identifier)
    }

    /// Whether it stands for a whole node.
    pub fn is_node(&self) -> bool {
        self.of_driver("resourceType").and_then(AttributeValue::text) == Some(names::NODE)
    }

    /// Chips that it stands for and that are not devices of its node: those of the nodes that reach it.
    pub(crate) fn chips_elsewhere(&self) -> usize {
        let said = self.capacity(&self.driver, "neuronDevices").and_then(|amount| amount.to_string().parse().ok());
        if self.nodes.is_empty() { 0 } else { said.unwrap_or(self.nodes.len()) }
    }

    /// All that is known of it, as plain data; attributes and capacities as lists of domain, identifier and value.
    pub(crate) fn plain(&self) -> Value {
        let attributes: Vec<Value> =
            self.attributes.iter().map(|((domain, name), value)| json!([domain, name, value.plain()])).collect();
        let capacity: Vec<Value> =
            self.capacity.iter().map(|((domain, name), value)| json!([domain, name, value.to_string()])).collect();
        let taints: Vec<Value> =
            self.taints.iter().map(|taint| json!([taint.key, taint.value, taint.effect])).collect();
        json!({
            "driver": self.driver, "pool": self.pool, "node": self.node, "name": self.name,
            "attributes": attributes, "capacity": capacity, "taints": taints,
        })
    }
}

impl Display for PoolDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

fn find<'a, T>(entries: &'a [(QualifiedName, T)], domain: &str, identifier: &str) -> Option<&'a T> {
    // A device has 32 at most.
    let (_, value) = entries.iter().find(|((place, name), _)| name == identifier && place == domain)?;
    Some(value)
}
