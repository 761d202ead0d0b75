//! Claims and classes as wholes.

use serde_json::Value;

use super::reader::Reader;
use super::{ClaimConstraint, DeviceClass, ResourceClaim, given};
use crate::document::{Document, Object};
use crate::error::Result;
use crate::names;
use crate::shown::{quoted, shown};

/// A DeviceClass.
pub(crate) fn read_class(document: &Document) -> Result<DeviceClass> {
    let reader = Reader { document };
    if document.name().is_empty() {
        return Err(reader.fail("metadata.name", "is missing"));
    }
    let nothing = Value::Object(Object::new());
    let spec = given(&document.body, "spec").unwrap_or(&nothing);
    let spec = reader.fields(Some(spec), "spec", &["selectors", "config", "extendedResourceName"])?;
    Ok(DeviceClass {
        selectors: reader.selectors(spec.get("selectors"), "spec.selectors")?,
        config: reader.config(spec.get("config"), "spec.config", None)?,
    })
}

/// A ResourceClaim, or the claim that a ResourceClaimTemplate describes; `name` is for a claim whose object does not give
/// it, `origin` the pod for which a template is used.
pub(crate) fn read_claim(document: &Document, name: Option<String>, origin: &str) -> Result<ResourceClaim> {
    let reader = Reader { document };
    let mut spec = document.body.get("spec");
    let mut path = "spec";
    if document.kind() == "ResourceClaimTemplate" {
        spec = reader.fields(spec, path, &["metadata", "spec"])?.get("spec");
        path = "spec.spec";
    }
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| document.name());
    if name.is_empty() {
        return Err(reader.fail("metadata.name", "is missing"));
    }
    if !names::SUBDOMAIN.fits(&name) {
        let reason = format!("{} must be a DNS subdomain: lower-case letters, digits, - and .", quoted(&name));
        return Err(reader.fail("metadata.name", reason));
    }
    let nothing = Value::Object(Object::new());
    let devices = given(reader.fields(spec, path, &["devices"])?, "devices").unwrap_or(&nothing);
    let path = format!("{path}.devices");
    let devices = reader.fields(Some(devices), &path, &["requests", "constraints", "config"])?;
    let place = format!("{path}.requests");
    let mut requests = Vec::new();
    for (place, entry) in reader.items(devices.get("requests"), &place, names::MAX_REQUESTS)? {
        requests.push(reader.request(entry, &place)?);
    }
    if requests.is_empty() {
        return Err(reader.fail(&place, "asks for nothing; give at least one request"));
    }
    reader.check_unique(requests.iter().map(|request| request.name.as_str()), &place)?;
    let mut known: Vec<String> = Vec::new();
    for request in &requests {
        let alternatives = request.alternatives.iter().map(|ask| &ask.name).filter(|name| **name != request.name);
        known.push(request.name.clone());
        known.extend(alternatives.cloned());
    }
    let mut constraints = Vec::new();
    for (place, entry) in
        reader.items(devices.get("constraints"), &format!("{path}.constraints"), names::MAX_CONSTRAINTS)?
    {
        constraints.push(constraint(&reader, entry, &place, &known)?);
    }
    let config = reader.config(devices.get("config"), &format!("{path}.config"), Some(&known))?;
    let label = format!("{}/{name}", document.namespace());
    Ok(ResourceClaim {
        document: document.clone(),
        name,
        label,
        origin: origin.to_owned(),
        requests,
        constraints,
        config,
    })
}

fn constraint(reader: &Reader<'_>, entry: &Value, path: &str, known: &[String]) -> Result<ClaimConstraint> {
    let body = reader.fields(Some(entry), path, &["requests", "matchAttribute", "distinctAttribute"])?;
    let there = |key: &str| body.get(key).filter(|value| !value.is_null());
    let (key, attribute) = match (there("matchAttribute"), there("distinctAttribute")) {
        (Some(value), None) => ("matchAttribute", value),
        (None, Some(value)) => ("distinctAttribute", value),
        _ => return Err(reader.fail(path, "must have one of matchAttribute and distinctAttribute")),
    };
    let place = format!("{path}.{key}");
    let Some(name) = attribute.as_str().filter(|name| name.contains('/')) else {
        let bare = crate::shown::text_of(attribute);
        let reason = format!("{} needs its domain before it, such as neuron.aws.com/{bare}", shown(attribute));
        return Err(reader.fail(&place, reason));
    };
    let attribute = names::split_attribute(name, "").map_err(|error| reader.fail(&place, error))?;
    let requests = reader.references(body.get("requests"), &format!("{path}.requests"), known)?;
    Ok(ClaimConstraint { requests, attribute, distinct: key == "distinctAttribute" })
}
