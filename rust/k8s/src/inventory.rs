//! The devices that ResourceSlices offer, checked as an API server would check them.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use serde_json::Value;

use crate::counters::{CounterAmounts, check_uses, read_sets, read_uses};
use crate::device::{DeviceTaint, PoolDevice, QualifiedName};
use crate::document::{Document, Object, of_kind};
use crate::error::{Error, Result};
use crate::names;
use crate::shown::{is_nothing, shown, text_of};
use crate::values::{AttributeValue, ResourceQuantity, SemanticVersion};

const VALUE_KEYS: [&str; 4] = ["bool", "int", "string", "version"];

/// The devices of the newest generation of every pool, in the order of nodes, pools and names, numbers as numbers.
///
/// # Errors
/// [`Error::Malformed`] if a slice is malformed, a pool misses a slice, or a device exists twice or is of a kind that
/// the allocator does not model (several allocations at once, devices of nodes that are not named), or uses a counter
/// that its pool does not have.
///
/// ```
/// use serde_json::Value;
/// use trn3_k8s::{Document, SliceOptions, devices, resource_slices};
///
/// let slices = resource_slices("trn2", &SliceOptions::default())?;
/// let documents: Vec<_> = slices.into_iter().flat_map(|body| Document::read("slices", body).unwrap()).collect();
/// assert_eq!(devices(&documents)?.len(), 16);
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
pub fn devices(documents: &[Document]) -> Result<Vec<PoolDevice>> {
    read(documents).map(|(devices, _)| devices)
}

/// The devices, and the counters that they share.
pub(crate) fn read(documents: &[Document]) -> Result<(Vec<PoolDevice>, CounterAmounts)> {
    let mut pools: Vec<((String, String), Vec<&Document>)> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for document in of_kind(documents, "ResourceSlice") {
        let spec = mapping(document.body.get("spec"), document, "spec")?;
        let pool = mapping(spec.get("pool"), document, "spec.pool")?;
        let key = (text(spec, "driver", document, "spec")?, text(pool, "name", document, "spec.pool")?);
        let place = *places.entry(key.clone()).or_insert(pools.len());
        if place == pools.len() {
            pools.push((key, Vec::new()));
        }
        pools[place].1.push(document);
    }
    if pools.is_empty() {
        let sources: BTreeSet<&str> = documents.iter().map(|document| &*document.source).collect();
        let sources: Vec<&str> = sources.into_iter().collect();
        let sources = if sources.is_empty() { "the inventory".to_owned() } else { sources.join(", ") };
        return Err(Error::Malformed(format!("{sources}: holds no ResourceSlice; trn3 k8s slices writes them")));
    }
    let mut found: Vec<PoolDevice> = Vec::new();
    let mut amounts = CounterAmounts::new();
    for ((driver, pool), slices) in &pools {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let current = newest(driver, pool, slices)?;
        for document in &current {
            read_sets(document, [driver, pool], &mut amounts)?;
        }
        for document in current {
            for device in devices_of(document, driver, pool)? {
                if !names.insert(device.name.clone()) {
                    return Err(Error::Malformed(format!("{document}: device {device} exists twice")));
                }
                check_uses(document, &device, &amounts)?;
                found.push(device);
            }
        }
    }
    found.sort_by_cached_key(|device| {
        let (node, pool, name) =
            (names::natural(&device.node), names::natural(&device.pool), names::natural(&device.name));
        (node, device.driver.clone(), pool, device.is_node(), name)
    });
    Ok((found, amounts))
}

/// The slices of a pool that count, all of which must be there.
fn newest<'a>(driver: &str, pool: &str, slices: &[&'a Document]) -> Result<Vec<&'a Document>> {
    let mut generations = Vec::new();
    for document in slices {
        generations.push((number(document, "generation", 0)?, *document));
    }
    let last = generations.iter().map(|(generation, _)| *generation).max().unwrap_or(0);
    generations.retain(|(generation, _)| *generation == last);
    let mut expected = BTreeSet::new();
    for (_, document) in &generations {
        expected.insert(number(document, "resourceSliceCount", 1)?);
    }
    let current: Vec<&Document> = generations.into_iter().map(|(_, document)| document).collect();
    let there = current.len() as u64;
    if expected.iter().ne([&there]) {
        let said: Vec<String> = expected.iter().map(u64::to_string).collect();
        return Err(Error::Malformed(format!(
            "{}: pool {pool} of {driver}: has {there} slices of generation {last}, and says it has {}",
            current[0].source,
            said.join(", ")
        )));
    }
    Ok(current)
}

fn mapping<'a>(value: Option<&'a Value>, document: &Document, path: &str) -> Result<&'a Object> {
    match value {
        Some(Value::Object(entries)) => Ok(entries),
        None | Some(Value::Null) => Err(document.fail(path, "is missing")),
        Some(_) => Err(document.fail(path, "must be a mapping")),
    }
}

/// A mapping that need not be there.
fn entries<'a>(owner: &'a Object, key: &str, document: &Document, path: &str) -> Result<Vec<(&'a String, &'a Value)>> {
    match owner.get(key).filter(|value| !is_nothing(value)) {
        None => Ok(Vec::new()),
        given => Ok(mapping(given, document, path)?.iter().collect()),
    }
}

fn text(owner: &Object, key: &str, document: &Document, path: &str) -> Result<String> {
    match owner.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        other => {
            let came = shown(other.unwrap_or(&Value::Null));
            Err(document.fail(&format!("{path}.{key}"), format!("must be a text; it is {came}")))
        }
    }
}

fn number(document: &Document, key: &str, least: u64) -> Result<u64> {
    let value = document.body["spec"]["pool"].get(key).unwrap_or(&Value::Null);
    value.as_u64().filter(|number| *number >= least).ok_or_else(|| {
        let reason = format!("must be a number from {least} on; it is {}", shown(value));
        document.fail(&format!("spec.pool.{key}"), reason)
    })
}

fn devices_of(document: &Document, driver: &str, pool: &str) -> Result<Vec<PoolDevice>> {
    let spec = mapping(document.body.get("spec"), document, "spec")?;
    let node = node_name(spec);
    let each = spec.get("perDeviceNodeSelection") == Some(&Value::Bool(true));
    if node.is_none() && !each {
        let reason = "is missing; pools of several nodes (nodeSelector, allNodes) are not modelled, but for those whose \
                      devices each say their nodes (perDeviceNodeSelection)";
        return Err(document.fail("spec.nodeName", reason));
    }
    let bodies = match spec.get("devices").filter(|value| !is_nothing(value)) {
        None => &[],
        Some(Value::Array(bodies)) => bodies.as_slice(),
        Some(_) => return Err(document.fail("spec.devices", "must be a list")),
    };
    let has = |body: &Value, key: &str| body.get(key).is_some_and(|value| !is_nothing(value));
    let special = bodies.iter().any(|body| has(body, "taints") || has(body, "consumesCounters"));
    let limit = if special { names::MAX_DEVICES_WITH_TAINTS } else { names::MAX_DEVICES };
    if bodies.len() > limit {
        let reason = format!("{} devices; a slice like this holds at most {limit}", bodies.len());
        return Err(document.fail("spec.devices", reason));
    }
    let mut devices = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        devices.push(device(document, &format!("spec.devices[{index}]"), body, [driver, pool], node)?);
    }
    Ok(devices)
}

fn node_name(owner: &Object) -> Option<&str> {
    owner.get("nodeName").and_then(Value::as_str).filter(|node| !node.is_empty())
}

/// The nodes of a selector that names them: one term, by their names or their label.
fn selected_nodes(selector: &Value) -> Option<Vec<String>> {
    let [term] = selector.get("nodeSelectorTerms")?.as_array()?.as_slice() else { return None };
    let needs = |key: &str| term.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [need] = [needs("matchFields"), needs("matchExpressions")].concat().try_into().ok()?;
    let need: Value = need;
    let is_name = matches!(need.get("key")?.as_str()?, "metadata.name" | names::HOSTNAME);
    let nodes = need.get("values")?.as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
    let nodes: Vec<String> = nodes.collect::<Option<_>>()?;
    (is_name && need.get("operator")?.as_str()? == "In" && !nodes.is_empty()).then_some(nodes)
}

/// The nodes that reach a device: what its slice says of all, or what it says itself.
fn nodes_of(document: &Document, path: &str, fields: &Object, of_slice: Option<&str>) -> Result<Vec<String>> {
    let own = node_name(fields);
    let selector = fields.get("nodeSelector").filter(|value| !is_nothing(value));
    if let Some(node) = of_slice {
        let nothing = own.is_none() && selector.is_none();
        return if nothing { Ok(vec![node.to_owned()]) } else { Err(document.fail(path, "its slice says its node")) };
    }
    match (own, selector) {
        (Some(node), None) => Ok(vec![node.to_owned()]),
        (None, Some(selector)) => selected_nodes(selector).ok_or_else(|| {
            document.fail(
                &format!("{path}.nodeSelector"),
                format!(
                    "must be one term that names nodes by metadata.name or {}; others are not modelled",
                    names::HOSTNAME
                ),
            )
        }),
        _ => Err(document.fail(path, "must have one of nodeName and nodeSelector; allNodes is not modelled")),
    }
}

fn device(
    document: &Document,
    path: &str,
    body: &Value,
    [driver, pool]: [&str; 2],
    node: Option<&str>,
) -> Result<PoolDevice> {
    let fields = mapping(Some(body), document, path)?;
    let name = text(fields, "name", document, path)?;
    for key in ["allowMultipleAllocations", "basic"] {
        if fields.get(key).is_some_and(|value| !is_nothing(value)) {
            let hint = if key == "basic" { "; basic belongs to v1beta1" } else { "" };
            return Err(document.fail(&format!("{path}.{key}"), format!("is not modelled{hint}")));
        }
    }
    let mut attributes: Vec<(QualifiedName, AttributeValue)> = Vec::new();
    for (key, value) in entries(fields, "attributes", document, &format!("{path}.attributes"))? {
        let name = names::split_attribute(key, driver)?;
        put(&mut attributes, name, attribute(value, document, &format!("{path}.attributes[{key}]"))?);
    }
    let mut capacity: Vec<(QualifiedName, ResourceQuantity)> = Vec::new();
    for (key, value) in entries(fields, "capacity", document, &format!("{path}.capacity"))? {
        let name = names::split_attribute(key, driver)?;
        let place = format!("{path}.capacity[{key}]");
        let amount = mapping(Some(value), document, &place)?.get("value").unwrap_or(&Value::Null);
        put(&mut capacity, name, ResourceQuantity::read(amount).map_err(|error| document.fail(&place, error))?);
    }
    if attributes.len() + capacity.len() > names::MAX_ATTRIBUTES {
        let reason = format!("more than {} attributes and capacities", names::MAX_ATTRIBUTES);
        return Err(document.fail(path, reason));
    }
    let taints = taints(document, &format!("{path}.taints"), fields.get("taints"))?;
    let uses = read_uses(document, path, fields)?;
    let mut nodes = nodes_of(document, path, fields, node)?;
    let node = match nodes.len() {
        1 => nodes.remove(0),
        count => format!("{pool}/{name} ({count} nodes)"),
    };
    let [driver, pool] = [driver, pool].map(str::to_owned);
    Ok(PoolDevice { driver, pool, node, nodes, name, attributes, capacity, taints, uses, seen: OnceLock::new() })
}

/// Sets an entry; with and without the domain before it, a name may stand twice, and the later counts.
fn put<T>(entries: &mut Vec<(QualifiedName, T)>, name: QualifiedName, value: T) {
    match entries.iter_mut().find(|(known, _)| *known == name) {
        Some((_, there)) => *there = value,
        None => entries.push((name, value)),
    }
}

fn taints(document: &Document, path: &str, given: Option<&Value>) -> Result<Vec<DeviceTaint>> {
    let marks = match given.filter(|value| !is_nothing(value)) {
        None => return Ok(Vec::new()),
        Some(Value::Array(marks)) => marks,
        Some(_) => return Err(document.fail(path, "must be a list")),
    };
    let mut taints = Vec::with_capacity(marks.len());
    for mark in marks {
        let fields = mapping(Some(mark), document, path)?;
        taints.push(DeviceTaint {
            key: text(fields, "key", document, path)?,
            value: fields.get("value").filter(|value| !is_nothing(value)).map(text_of).unwrap_or_default(),
            effect: text(fields, "effect", document, path)?,
        });
    }
    Ok(taints)
}

fn attribute(body: &Value, document: &Document, path: &str) -> Result<AttributeValue> {
    let given: Vec<_> = mapping(Some(body), document, path)?.iter().filter(|(_, value)| !value.is_null()).collect();
    let (key, value) = match given[..] {
        [(key, value)] if VALUE_KEYS.contains(&key.as_str()) => (key.as_str(), value),
        _ => {
            let keys: Vec<&str> = given.iter().map(|(key, _)| key.as_str()).collect();
            let has = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
            return Err(document.fail(path, format!("must have one of {}; it has {has}", VALUE_KEYS.join(", "))));
        }
    };
    match (key, value) {
        ("version", _) => {
            SemanticVersion::read(value).map(AttributeValue::Version).map_err(|error| document.fail(path, error))
        }
        ("bool", Value::Bool(flag)) => Ok(AttributeValue::Bool(*flag)),
        ("string", Value::String(text)) => {
            let length = text.chars().count();
            if length > names::MAX_STRING {
                let reason = format!("a text has at most {} characters, this has {length}", names::MAX_STRING);
                return Err(document.fail(path, reason));
            }
            Ok(AttributeValue::Text(text.clone()))
        }
        ("int", Value::Number(number)) if number.is_i64() => Ok(AttributeValue::Int(number.as_i64().unwrap_or(0))),
        _ => Err(document.fail(path, format!("{key} is {}", shown(value)))),
    }
}

/// The devices by node, in the order in which nodes come first: names, and the places of devices.
pub(crate) fn by_node(devices: &[PoolDevice]) -> Vec<(String, Vec<usize>)> {
    let mut nodes: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (index, device) in devices.iter().enumerate() {
        let place = *places.entry(&device.node).or_insert(nodes.len());
        if place == nodes.len() {
            nodes.push((device.node.clone(), Vec::new()));
        }
        nodes[place].1.push(index);
    }
    nodes
}
