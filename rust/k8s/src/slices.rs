//! ResourceSlice and DeviceClass objects of simulated systems.
//!
//! One pool a node. Devices are called `neuron-device-N`; nodes of UltraServers have a `neuron-node-0` beside them,
//! which stands for the whole node: whoever is given it holds the devices of its pool too **(choice; slices have no word
//! for it but counters)**. With `counters` they say so themselves, in a slice of each pool of its own, as Kubernetes 1.35
//! and later want it; with `ultraserver_devices` a pool is an UltraServer, and a device stands for all of it.

use serde_json::{Map, Value, json};

use crate::attributes::Publisher;
use crate::document::API_VERSION;
use crate::error::{Error, Result};
use crate::names;
use crate::options::{SliceOptions, TaintWords};
use crate::sharing::{SharedPool, node_pool, ultraserver_pool};
use crate::shown::{is_nothing, quoted};
use crate::topology::NodeSystem;

/// The ResourceSlices of a system: `trn1`, `trn2`, `trn2_ultraserver`, `gen1`, `gen2` or the name of a spec.
///
/// # Errors
/// [`Error::Malformed`] if something does not exist in the system or breaks a limit of Kubernetes.
///
/// ```
/// use trn3_k8s::{SliceOptions, resource_slices};
///
/// let slices = resource_slices("gen2", &SliceOptions::default())?;
/// let devices = slices.iter().map(|slice| slice["spec"]["devices"].as_array().unwrap().len());
/// assert_eq!((slices.len(), devices.sum::<usize>()), (36, 180));
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
pub fn resource_slices(system: &str, options: &SliceOptions) -> Result<Vec<Value>> {
    names::check_driver(&options.driver)?;
    let shape = NodeSystem::named(system)?;
    if let Some(lnc) = options.lnc.filter(|lnc| !shape.lnc_modes.contains(lnc)) {
        let allowed: Vec<String> = shape.lnc_modes.iter().map(i64::to_string).collect();
        return Err(Error::Malformed(format!(
            "--lnc {lnc}: a logical core of {} has {} physical cores",
            shape.chip,
            allowed.join(" or ")
        )));
    }
    if options.neuron_driver_version.chars().count() > names::MAX_STRING {
        return Err(Error::Malformed(format!(
            "neuron driver version {}: at most {} characters",
            quoted(&options.neuron_driver_version),
            names::MAX_STRING
        )));
    }
    if options.ultraserver_devices && !shape.is_ultraserver() {
        let reason = "is no UltraServer; those are gen1, gen2 and trn2_ultraserver";
        return Err(Error::Malformed(format!("--ultraserver-devices: {} {reason}", shape.name)));
    }
    let publisher = Publisher::new(&shape, options);
    let mut pending = options.taints.clone();
    let mut slices = Vec::new();
    let nodes = shape.nodes(options.nodes)?;
    let per_pool = if options.ultraserver_devices { shape.servers } else { 1 };
    for group in nodes.chunks(per_pool) {
        let node = publisher.pool(&group[0]);
        let (pool, place, mut found) = if options.ultraserver_devices {
            let pool = publisher.pool_of_ultraserver(group[0].ultraserver.unwrap_or_default());
            let found = ultraserver_pool(&publisher, group, [shape.devices, shape.servers]);
            (pool, json!({"perDeviceNodeSelection": true}), found)
        } else if options.counters {
            let found = node_pool(publisher.devices(&group[0]), shape.devices);
            (node.clone(), json!({"nodeName": node}), found)
        } else {
            let found = SharedPool { devices: publisher.devices(&group[0]), sets: Vec::new() };
            (node.clone(), json!({"nodeName": node}), found)
        };
        for device in &mut found.devices {
            let name = device["name"].as_str().unwrap_or_default();
            let marks = pending.shift_remove(&format!("{pool}/{name}")).unwrap_or_default();
            if !marks.is_empty() {
                device["taints"] = marks.iter().map(taint).collect::<Result<Vec<_>>>()?.into();
            }
        }
        slices.extend(shared_slices(&pool, found, &options.driver, &place, options.generation)?);
    }
    if pending.is_empty() {
        return Ok(slices);
    }
    let mut missing: Vec<&str> = pending.keys().map(String::as_str).collect();
    missing.sort_unstable();
    Err(Error::Malformed(format!(
        "--taint {}: there is no such device; a device is called {}/neuron-device-0",
        missing.join(", "),
        slices[0]["spec"]["pool"]["name"].as_str().unwrap_or_default()
    )))
}

/// The devices of a pool over as few slices as Kubernetes allows: 128 fit into one, 64 if one of them has taints or uses
/// counters.
///
/// # Errors
/// [`Error::Malformed`] if the pool's name cannot be one.
pub fn pool_slices(pool: &str, devices: Vec<Value>, driver: &str, node: &str, generation: i64) -> Result<Vec<Value>> {
    let found = SharedPool { devices, sets: Vec::new() };
    shared_slices(pool, found, driver, &json!({"nodeName": node}), generation)
}

/// The slices of a pool, of which the first has the counters, if there are any; `place` says where its devices are.
fn shared_slices(
    pool: &str,
    SharedPool { devices, sets }: SharedPool,
    driver: &str,
    place: &Value,
    generation: i64,
) -> Result<Vec<Value>> {
    if !names::SUBDOMAIN.fits(pool) || pool.len() > names::MAX_POOL_NAME {
        return Err(Error::Malformed(format!(
            "pool {}: must be a DNS subdomain of at most {} characters",
            quoted(pool),
            names::MAX_POOL_NAME
        )));
    }
    let has = |device: &Value, key: &str| device.get(key).is_some_and(|value| !is_nothing(value));
    let special = devices.iter().any(|device| has(device, "taints") || has(device, "consumesCounters"));
    let size = if special { names::MAX_DEVICES_WITH_TAINTS } else { names::MAX_DEVICES };
    let mut parts: Vec<(&str, Vec<Value>)> = Vec::new();
    if !sets.is_empty() {
        parts.push(("sharedCounters", sets));
    }
    for device in devices {
        if parts.last().is_none_or(|(key, part)| *key != "devices" || part.len() == size) {
            parts.push(("devices", Vec::with_capacity(size)));
        }
        if let Some((_, part)) = parts.last_mut() {
            part.push(device);
        }
    }
    parts.extend(parts.is_empty().then(|| ("devices", Vec::new())));
    let count = parts.len();
    let slice = |(index, (key, part)): (usize, (&str, Vec<Value>))| {
        let mut spec = Map::new();
        spec.insert("driver".to_owned(), driver.into());
        spec.extend(place.as_object().cloned().unwrap_or_default());
        spec.insert("pool".to_owned(), json!({"name": pool, "generation": generation, "resourceSliceCount": count}));
        spec.insert(key.to_owned(), part.into());
        json!({
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": format!("{pool}-{driver}-{index}")},
            "spec": spec,
        })
    };
    Ok(parts.into_iter().enumerate().map(slice).collect())
}

/// The DeviceClass of a driver's devices; its name is the driver's unless told otherwise.
///
/// # Errors
/// [`Error::Malformed`] if a name cannot be one.
///
/// ```
/// let class = trn3_k8s::device_class("neuron.aws.com", None)?;
/// let expression = &class["spec"]["selectors"][0]["cel"]["expression"];
/// assert_eq!(expression, "device.driver == 'neuron.aws.com'");
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
pub fn device_class(name: &str, driver: Option<&str>) -> Result<Value> {
    let driver = driver.filter(|driver| !driver.is_empty()).unwrap_or(name);
    names::check_driver(driver)?;
    if !names::SUBDOMAIN.fits(name) {
        return Err(Error::Malformed(format!("DeviceClass {}: must be a DNS subdomain", quoted(name))));
    }
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]},
    }))
}

/// A taint, if Kubernetes would take it.
fn taint(words: &TaintWords) -> Result<Value> {
    let word = |key: &str| words.get(key).map_or("", String::as_str);
    let (key, value, effect) = (word("key"), word("value"), word("effect"));
    let refused = |what: String| Err(Error::Malformed(what));
    if !names::QUALIFIED_LABEL.fits(key) {
        return refused(format!("taint key {}: must be a label name, such as trn3.internal/unhealthy", quoted(key)));
    }
    if !names::LABEL_VALUE.fits(value) {
        return refused(format!("taint value {}: must be a label value of at most 63 characters", quoted(value)));
    }
    if !names::EFFECTS.contains(&effect) {
        return refused(format!("taint effect {}: must be one of {}", quoted(effect), names::EFFECTS.join(", ")));
    }
    Ok(if value.is_empty() {
        json!({"key": key, "effect": effect})
    } else {
        json!({"key": key, "value": value, "effect": effect})
    })
}
