//! The opaque configurations of the Neuron driver, which Kubernetes itself does not look into.
//!
//! `NeuronConfig` sets the size of a logical core, `UltraServerConfig` how many nodes of an UltraServer a job takes. A
//! driver finds a mistake in them when the pod starts; here it is found when the claim is read.

use serde_json::{Value, json};

use crate::claims::{ResourceClaim, main_of};
use crate::device::PoolDevice;
use crate::document::Object;
use crate::error::{Error, Result, guess};
use crate::shown::{shown, text_of};
use crate::topology;
use crate::values::AttributeValue;

/// A kind of configuration, its field, and the values that the field may have.
const KINDS: [(&str, &str, &[i64]); 2] =
    [("NeuronConfig", "logicalNeuronCore", &[1, 2]), ("UltraServerConfig", "ultraserverMode", &[1, 2, 4])];

/// What the configurations of a claim set, by request; an empty name stands for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimSettings {
    logical_core: Vec<(String, i64)>,
    pub(crate) mode: Option<usize>,
}

impl ClaimSettings {
    /// Reads the configurations of the drivers in the inventory; those of others pass through.
    pub(crate) fn read(claim: &ResourceClaim, drivers: &[String]) -> Result<Self> {
        let mut settings = Self::default();
        for entry in &claim.config {
            let opaque = &entry["opaque"];
            let driver = text_of(&opaque["driver"]);
            if drivers.contains(&driver) {
                settings.add(claim, entry, &driver, &opaque["parameters"])?;
            }
        }
        Ok(settings)
    }

    fn add(&mut self, claim: &ResourceClaim, entry: &Object, driver: &str, parameters: &Value) -> Result<()> {
        let mut requests = ResourceClaim::named(entry);
        if requests.is_empty() {
            requests.push("");
        }
        let refused = |request: &str, reason: String| {
            Error::unmet(&claim.label, request, format!("config of driver {driver}: {reason}"))
        };
        let (kind, key, value) = parameter(driver, parameters).map_err(|reason| refused(requests[0], reason))?;
        if kind == "UltraServerConfig" {
            let value = value as usize;
            if let Some(mode) = self.mode.filter(|mode| *mode != value) {
                let reason = format!("{key} {value} contradicts {key} {mode} in the same claim");
                return Err(refused(requests[0], reason));
            }
            self.mode = Some(value);
            return Ok(());
        }
        for request in requests {
            if !self.logical_core.iter().any(|(name, _)| name == request) {
                self.logical_core.push((request.to_owned(), value));
            }
            let meets = |name: &str| name.is_empty() || request.is_empty() || name == request;
            let other = self.logical_core.iter().find(|(name, size)| *size != value && meets(name));
            if let Some((_, size)) = other {
                let reason = format!(
                    "{key} {value} does not match {key} {size}, which the same claim sets for the same devices; a device \
                     has one"
                );
                return Err(refused(request, reason));
            }
        }
        Ok(())
    }

    /// Refuses a size of logical core that the devices do not have.
    pub(crate) fn check(&self, claim: &ResourceClaim, request: &str, devices: &[&PoolDevice]) -> Result<()> {
        let set = |name: &str| self.logical_core.iter().find(|(each, _)| each == name).map(|(_, size)| *size);
        let Some(size) = set(request).or_else(|| set(main_of(request))).or_else(|| set("")) else { return Ok(()) };
        for device in devices {
            let instance = device.of_driver("instanceType").map(AttributeValue::to_string).unwrap_or_default();
            let chip = device.own("chip").map(AttributeValue::to_string).or_else(|| topology::chip_of(&instance));
            let Some(chip) = chip else { continue };
            let modes = topology::lnc_modes(&chip)?;
            if !modes.contains(&size) {
                let allowed: Vec<String> = modes.iter().map(i64::to_string).collect();
                let reason = format!(
                    "logicalNeuronCore {size} does not match {device}: a logical core of {chip} has {} physical cores",
                    allowed.join(" or ")
                );
                return Err(Error::unmet(&claim.label, request, reason));
            }
        }
        Ok(())
    }
}

/// Kind, field and value of a configuration, or what is wrong with it.
fn parameter(driver: &str, parameters: &Value) -> std::result::Result<(&'static str, &'static str, i64), String> {
    let given = |key: &str| parameters.get(key).unwrap_or(&Value::Null);
    let kind = given("kind");
    let Some((kind, key, allowed)) = KINDS.iter().find(|(name, ..)| kind == name).copied() else {
        let known = KINDS.map(|(name, ..)| name);
        let hint = guess(&text_of(kind), known);
        return Err(format!("kind {} is not known; known: {}{hint}", shown(kind), known.join(", ")));
    };
    let version = format!("{driver}/v1");
    if *given("apiVersion") != version {
        return Err(format!("{kind} has apiVersion {version}; it is {}", shown(given("apiVersion"))));
    }
    let keys = parameters.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if let Some(extra) = keys.filter(|name| !["apiVersion", "kind", key].contains(name)).min() {
        return Err(format!("{kind} has no field {extra}{}", guess(extra, [key])));
    }
    match given(key).as_i64().filter(|value| allowed.contains(value)) {
        Some(value) => Ok((kind, key, value)),
        None => {
            let choices: Vec<String> = allowed.iter().map(i64::to_string).collect();
            Err(format!("{key} must be one of {}; it is {}", choices.join(", "), shown(given(key))))
        }
    }
}

/// The configurations of a class for a request of it.
pub(crate) fn from_class(config: &[Object], request: &str) -> Vec<Value> {
    let entry = |entry: &Object| {
        let mut whole = Object::new();
        whole.insert("source".to_owned(), "FromClass".into());
        whole.insert("requests".to_owned(), json!([request]));
        whole.extend(entry.clone());
        Value::Object(whole)
    };
    config.iter().map(entry).collect()
}

/// The configurations of a claim, without those of alternatives that were not taken.
pub(crate) fn from_claim(claim: &ResourceClaim, used: &[&str]) -> Vec<Value> {
    let mut entries = Vec::new();
    for entry in &claim.config {
        let all = ResourceClaim::named(entry);
        let is_used = |name: &&str| used.iter().any(|each| each == name || main_of(each) == *name);
        let named: Vec<&str> = all.iter().copied().filter(|name| is_used(name)).collect();
        let mut whole = Object::new();
        whole.insert("source".to_owned(), "FromClaim".into());
        if !named.is_empty() {
            whole.insert("requests".to_owned(), json!(named));
        } else if !all.is_empty() {
            continue;
        }
        whole.insert("opaque".to_owned(), entry["opaque"].clone());
        entries.push(Value::Object(whole));
    }
    entries
}
