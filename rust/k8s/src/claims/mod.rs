//! ResourceClaims, ResourceClaimTemplates and DeviceClasses, read strictly.
//!
//! A field that v1 does not have is refused, as `kubectl apply --validate=strict` does: a claim that asks for something
//! else than its author thinks is the worst outcome of all.

mod read;
mod reader;
mod request;

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use serde_json::Value;

use crate::device::{DeviceTaint, PoolDevice, QualifiedName};
use crate::document::{Document, Object};
use crate::selector::Selector;
use crate::shown::is_nothing;
use crate::values::ResourceQuantity;

pub(crate) use read::{read_claim, read_class};

/// A taint that a request can live with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) exists: bool,
    pub(crate) value: String,
    pub(crate) effect: String,
    /// As it came.
    pub(crate) body: Object,
}

impl Toleration {
    /// Whether it covers the taint.
    pub(crate) fn tolerates(&self, taint: &DeviceTaint) -> bool {
        (self.key.is_empty() || self.key == taint.key)
            && (self.effect.is_empty() || self.effect == taint.effect)
            && (self.exists || self.value == taint.value)
    }
}

/// What decides which devices match a request, taints aside: class, expressions, amounts.
pub(crate) type AskKey = (String, Vec<String>, Vec<(Option<String>, String, ResourceQuantity)>);

/// What decides which devices a request may have: the same, and what its tolerations cover.
pub(crate) type CandidateKey = (Arc<AskKey>, Vec<(bool, [String; 3])>);

/// What a request, or one of its alternatives, asks for.
#[derive(Clone, Debug)]
pub(crate) struct ClaimAsk {
    /// The request's name, and that of the alternative after a slash.
    pub(crate) name: String,
    pub(crate) class_name: String,
    pub(crate) selectors: Vec<Selector>,
    /// `None` for all devices that match.
    pub(crate) count: Option<usize>,
    pub(crate) admin: bool,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) capacity: Vec<(Option<String>, String, ResourceQuantity)>,
    pub(crate) key: Arc<AskKey>,
    pub(crate) candidates: Arc<CandidateKey>,
}

impl ClaimAsk {
    /// The name of the request, of which this may be an alternative.
    pub(crate) fn main(&self) -> &str {
        main_of(&self.name)
    }

    /// Whether it can live with the taints of a device.
    pub(crate) fn tolerates(&self, device: &PoolDevice) -> bool {
        device.taints.iter().all(|taint| {
            !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                || self.tolerations.iter().any(|each| each.tolerates(taint))
        })
    }

    /// Whether a device has the capacities.
    pub(crate) fn fits(&self, device: &PoolDevice) -> bool {
        self.capacity.iter().all(|(domain, identifier, amount)| {
            let domain = domain.as_ref().unwrap_or(&device.driver);
            device.capacity(domain, identifier).is_some_and(|there| there >= amount)
        })
    }

    /// The same for another number of devices.
    pub(crate) fn with_count(&self, count: usize) -> Self {
        Self { count: Some(count), ..self.clone() }
    }
}

/// The request of a name that may have that of an alternative after it.
pub(crate) fn main_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(main, _)| main)
}

/// A request and its alternatives in order of preference; plain ones have one.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    pub(crate) name: String,
    pub(crate) alternatives: Vec<Arc<ClaimAsk>>,
}

/// Devices of `requests` have the same, or all different, values of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimConstraint {
    pub(crate) requests: Vec<String>,
    pub(crate) attribute: QualifiedName,
    pub(crate) distinct: bool,
}

impl ClaimConstraint {
    /// Whether it holds for a request; none named means all.
    pub(crate) fn covers(&self, ask: &ClaimAsk) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| name == ask.main() || *name == ask.name)
    }
}

impl Display for ClaimConstraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let kind = if self.distinct { "distinctAttribute" } else { "matchAttribute" };
        write!(f, "{kind} {}/{}", self.attribute.0, self.attribute.1)
    }
}

/// Selectors and configuration under a name.
#[derive(Clone, Debug)]
pub(crate) struct DeviceClass {
    pub(crate) selectors: Vec<Selector>,
    pub(crate) config: Vec<Object>,
}

/// A claim: its object as it came, and what it asks for.
#[derive(Clone, Debug)]
pub struct ResourceClaim {
    /// The object; a template where `name` is not the object's.
    pub document: Document,
    /// Its name.
    pub name: String,
    /// Namespace and name.
    pub label: String,
    /// The pod for which a template is used; empty if there is none.
    pub origin: String,
    pub(crate) requests: Vec<ClaimRequest>,
    pub(crate) constraints: Vec<ClaimConstraint>,
    pub(crate) config: Vec<Object>,
}

impl ResourceClaim {
    /// What the claim holds already.
    pub(crate) fn allocation(&self) -> Option<&Object> {
        self.document.body.get("status")?.get("allocation")?.as_object()
    }

    /// The requests that a configuration names; none means all.
    pub(crate) fn named(entry: &Object) -> Vec<&str> {
        let names = entry.get("requests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(Value::as_str).collect()
    }
}

/// An entry, unless it counts as nothing.
pub(crate) fn given<'a>(owner: &'a Object, key: &str) -> Option<&'a Value> {
    owner.get(key).filter(|value| !is_nothing(value))
}
