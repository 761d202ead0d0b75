//! Which claims a file asks for: its own, and those that its pods make from templates.
//!
//! Claims of one pod are placed together, on one node. Pods come from Pod, Deployment, ReplicaSet, StatefulSet, Job and
//! LeaderWorkerSet objects. A template that no pod of the file uses makes one claim, under its own name **(choice)**.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::attributes::token;
use crate::claims::{ResourceClaim, given, read_claim};
use crate::document::{Document, Object, RESOURCE_KINDS};
use crate::error::{Error, Result, guess};
use crate::shown::{shown, text_of};

/// Kinds that make pods of one template, and the field that says how many.
const REPLICATED: [(&str, &str); 4] =
    [("Deployment", "replicas"), ("ReplicaSet", "replicas"), ("StatefulSet", "replicas"), ("Job", "parallelism")];
const CLAIM: &str = "ResourceClaim";
const TEMPLATE: &str = "ResourceClaimTemplate";
const MAX_PODS: u64 = 4096;

/// Kubernetes ends generated names with five random characters; ours depend on the names alone.
const SUFFIX: usize = 5;

/// Claims that go to one node.
#[derive(Clone, Debug)]
pub(crate) struct ClaimUnit {
    pub(crate) claims: Vec<ResourceClaim>,
    /// Whose they are; empty if they are nobody's.
    pub(crate) pod: String,
}

/// What a file asks for, in its order, and the objects in it that have no say.
#[derive(Clone, Debug)]
pub(crate) struct ClaimWorkload {
    pub(crate) units: Vec<ClaimUnit>,
    pub(crate) ignored: Vec<String>,
}

/// Documents of one kind by namespace and name, with their places in the file.
type Named = BTreeMap<(String, String), usize>;

/// Name and spec of a pod.
type Pod<'a> = (String, &'a Object);

impl ClaimWorkload {
    /// Reads the claims of a file.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a claim is malformed, a pod refers to one that the file does not have, or there is none.
    pub(crate) fn read(documents: &[Document]) -> Result<Self> {
        let own = unique(documents, CLAIM)?;
        let templates = unique(documents, TEMPLATE)?;
        let mut units: Vec<(usize, ClaimUnit)> = Vec::new();
        let mut ignored = Vec::new();
        let mut shared: HashSet<String> = HashSet::new();
        let mut in_pods: HashSet<usize> = HashSet::new();
        for (index, document) in documents.iter().enumerate() {
            if RESOURCE_KINDS.contains(&document.kind()) {
                continue;
            }
            let pods = pods(document)?;
            if pods.is_empty() {
                ignored.push(format!("{} {}", document.kind(), document.name()));
            }
            for (pod, spec) in pods {
                let mut claims = Vec::new();
                for reference in references(document, spec)? {
                    let (place, claim) = resolve(documents, document, &pod, reference, &own, &templates)?;
                    // Pods that share a claim share its devices.
                    if claim.document.kind() == CLAIM && !shared.insert(claim.label.clone()) {
                        continue;
                    }
                    in_pods.insert(place);
                    claims.push(claim);
                }
                if !claims.is_empty() {
                    units.push((index, ClaimUnit { claims, pod }));
                }
            }
        }
        for (index, document) in documents.iter().enumerate() {
            if [CLAIM, TEMPLATE].contains(&document.kind()) && !in_pods.contains(&index) {
                let claims = vec![read_claim(document, None, "")?];
                units.push((index, ClaimUnit { claims, pod: String::new() }));
            }
        }
        if units.is_empty() {
            let mut sources: Vec<&str> = Vec::new();
            documents.iter().for_each(|document| {
                if !sources.contains(&&*document.source) {
                    sources.push(&document.source);
                }
            });
            let sources = sources.join(", ");
            return Err(Error::Malformed(format!("{sources}: holds no {CLAIM} or {TEMPLATE}")));
        }
        // The pods of one object keep their order.
        units.sort_by_key(|(index, _)| *index);
        Ok(Self { units: units.into_iter().map(|(_, unit)| unit).collect(), ignored })
    }
}

fn unique(documents: &[Document], kind: &str) -> Result<Named> {
    let mut named = Named::new();
    for (index, document) in documents.iter().enumerate().filter(|(_, document)| document.kind() == kind) {
        if named.insert((document.namespace(), document.name()), index).is_some() {
            let text = format!("{document}: stands twice in namespace {}", document.namespace());
            return Err(Error::Malformed(text));
        }
    }
    Ok(named)
}

fn mapping<'a>(document: &Document, value: Option<&'a Value>, path: &str) -> Result<&'a Object> {
    value.and_then(Value::as_object).ok_or_else(|| document.fail(path, "must be a mapping"))
}

fn number(document: &Document, value: Option<&Value>, path: &str) -> Result<u64> {
    match value {
        None | Some(Value::Null) => Ok(1),
        Some(value) => value.as_u64().filter(|number| *number <= MAX_PODS).ok_or_else(|| {
            document.fail(path, format!("must be a whole number from 0 to {MAX_PODS}; it is {}", shown(value)))
        }),
    }
}

fn template<'a>(document: &Document, value: Option<&'a Value>, path: &str) -> Result<&'a Object> {
    mapping(document, mapping(document, value, path)?.get("spec"), &format!("{path}.spec"))
}

/// The pods that an object makes.
fn pods(document: &Document) -> Result<Vec<Pod<'_>>> {
    let name = document.name();
    let spec = || mapping(document, document.body.get("spec"), "spec");
    if document.kind() == "Pod" {
        return Ok(vec![(name, spec()?)]);
    }
    if let Some((_, key)) = REPLICATED.iter().find(|(kind, _)| *kind == document.kind()) {
        let spec = spec()?;
        let template = template(document, spec.get("template"), "spec.template")?;
        let count = number(document, spec.get(*key), &format!("spec.{key}"))?;
        return Ok((0..count).map(|index| (format!("{name}-{index}"), template)).collect());
    }
    if document.kind() == "LeaderWorkerSet" { groups(document, &name, spec()?) } else { Ok(Vec::new()) }
}

/// The pods of groups that have a leader each.
fn groups<'a>(document: &Document, name: &str, spec: &'a Object) -> Result<Vec<Pod<'a>>> {
    let path = "spec.leaderWorkerTemplate";
    let groups = mapping(document, spec.get("leaderWorkerTemplate"), path)?;
    let worker = template(document, groups.get("workerTemplate"), &format!("{path}.workerTemplate"))?;
    let leader = match groups.get("leaderTemplate").filter(|value| !value.is_null()) {
        None => worker,
        given => template(document, given, &format!("{path}.leaderTemplate"))?,
    };
    let size = number(document, groups.get("size"), &format!("{path}.size"))?;
    let mut pods = Vec::new();
    for group in 0..number(document, spec.get("replicas"), "spec.replicas")? {
        pods.push((format!("{name}-{group}"), leader));
        pods.extend((1..size).map(|index| (format!("{name}-{group}-{index}"), worker)));
    }
    Ok(pods)
}

/// The claims that a pod has, each of which its containers may use.
fn references<'a>(document: &Document, spec: &'a Object) -> Result<Vec<&'a Object>> {
    let entries = match given(spec, "resourceClaims") {
        None => &[],
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(_) => return Err(Error::Malformed(format!("{document}: resourceClaims must be a list"))),
    };
    let found: Vec<&Object> =
        entries.iter().map(|each| mapping(document, Some(each), "resourceClaims")).collect::<Result<_>>()?;
    let word = |owner: &Value| text_of(owner.get("name").unwrap_or(&Value::Null));
    let known: Vec<String> = entries.iter().map(word).collect();
    let containers = ["initContainers", "containers"].into_iter().filter_map(|key| spec.get(key)?.as_array()).flatten();
    for container in containers {
        let claims = container.get("resources").and_then(|resources| resources.get("claims")?.as_array());
        if let Some(name) = claims.into_iter().flatten().map(word).find(|name| !known.contains(name)) {
            let has = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Error::Malformed(format!(
                "{document}: container {} uses claim {name}, which the pod does not have under resourceClaims (it has \
                 {has}){}",
                word(container),
                guess(&name, known.iter().map(String::as_str))
            )));
        }
    }
    Ok(found)
}

/// The claim to which a pod refers, and the place of its object in the file.
fn resolve(
    documents: &[Document],
    document: &Document,
    pod: &str,
    reference: &Object,
    own: &Named,
    templates: &Named,
) -> Result<(usize, ResourceClaim)> {
    let name = text_of(reference.get("name").unwrap_or(&Value::Null));
    let there = |key: &str| reference.get(key).filter(|value| !value.is_null()).map(text_of);
    let fail = |reason: String| Error::Malformed(format!("{document}: resourceClaims {name}: {reason}"));
    let (wanted, kind, named) = match (there("resourceClaimName"), there("resourceClaimTemplateName")) {
        (Some(wanted), None) => (wanted, CLAIM, own),
        (None, Some(wanted)) => (wanted, TEMPLATE, templates),
        _ => return Err(fail("must have one of resourceClaimName and resourceClaimTemplateName".to_owned())),
    };
    let namespace = document.namespace();
    let Some(&place) = named.get(&(namespace.clone(), wanted.clone())) else {
        let others: BTreeSet<&str> =
            named.keys().filter(|(space, _)| *space == namespace).map(|(_, name)| name.as_str()).collect();
        let others: Vec<&str> = others.into_iter().collect();
        let list = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        let verb = if others.len() > 1 { "are" } else { "is" };
        let hint = guess(&wanted, others.iter().copied());
        return Err(fail(format!("there is no {kind} {wanted} in namespace {namespace} (there {verb} {list}){hint}")));
    };
    let claim = if kind == CLAIM {
        read_claim(&documents[place], None, pod)?
    } else {
        let suffix = token(&format!("{namespace}/{pod}/{name}"), SUFFIX);
        read_claim(&documents[place], Some(format!("{pod}-{name}-{suffix}")), pod)?
    };
    Ok((place, claim))
}
