//! Kubernetes objects and where they came from: one or many, in a List or not.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, Result, guess};
use crate::shown::{is_nothing, text_of, type_of};

/// A Kubernetes object as plain data.
pub type Object = Map<String, Value>;

const API_GROUP: &str = "resource.k8s.io";
pub(crate) const API_VERSION: &str = "resource.k8s.io/v1";
/// The kinds that are known here.
pub(crate) const RESOURCE_KINDS: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];

/// One object and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The file, or another word for where it came from, for messages.
    pub source: Arc<str>,
    /// The object; it has a kind.
    pub body: Object,
}

impl Document {
    /// The objects of a value: itself, or the items of a List; `source` is named in errors.
    ///
    /// # Errors
    /// [`Error::Malformed`] if something is not a Kubernetes object, or a `resource.k8s.io` object is of a version
    /// other than v1.
    ///
    /// ```
    /// use serde_json::json;
    /// use trn3_k8s::Document;
    ///
    /// let list = json!({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod"}]});
    /// assert_eq!(Document::read("file", list)?[0].kind(), "Pod");
    /// assert!(Document::read("file", json!([])).unwrap_err().to_string().contains("this is a list"));
    /// # Ok::<(), trn3_k8s::Error>(())
    /// ```
    pub fn read(source: impl Into<Arc<str>>, body: Value) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        collect(&source.into(), body, &mut found)?;
        Ok(found)
    }

    /// The kind of the object.
    pub fn kind(&self) -> &str {
        self.body.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// The name of the object; empty if it has none.
    pub fn name(&self) -> String {
        self.metadata("name").map(text_of).unwrap_or_default()
    }

    /// The namespace of the object, `default` if it names none.
    pub fn namespace(&self) -> String {
        self.metadata("namespace").map_or_else(|| "default".to_owned(), text_of)
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.body.get("metadata")?.get(key).filter(|value| !is_nothing(value))
    }

    /// An entry of the object, if it is there and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.body.get(key).filter(|value| !value.is_null())
    }

    /// An error about a place in the object.
    pub(crate) fn fail(&self, path: &str, reason: impl Display) -> Error {
        Error::Malformed(format!("{self}: {path}: {reason}"))
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let name = self.name();
        let name = if name.is_empty() { "(without a name)" } else { &name };
        write!(f, "{}: {} {name}", self.source, self.kind())
    }
}

fn collect(source: &Arc<str>, body: Value, found: &mut Vec<Document>) -> Result<()> {
    let Value::Object(body) = body else {
        let text = format!("{source}: an object has apiVersion, kind and metadata; this is a {}", type_of(&body));
        return Err(Error::Malformed(text));
    };
    let word = |key: &str| match body.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(Error::Malformed(format!("{source}: an object without {key}: {}", keys(&body)))),
    };
    let (kind, version) = (word("kind")?, word("apiVersion")?);
    if kind == "List" || (kind.ends_with("List") && body.contains_key("items")) {
        let Some(Value::Array(items)) = body.get("items") else {
            return Err(Error::Malformed(format!("{source}: {kind}: items must be a list")));
        };
        for item in items {
            collect(source, filled(item, &kind, &version), found)?;
        }
        return Ok(());
    }
    let document = Document { source: source.clone(), body };
    check_version(&document, &kind, &version)?;
    if document.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
        return Err(Error::Malformed(format!("{source}: {kind}: metadata must be a mapping")));
    }
    found.push(document);
    Ok(())
}

/// An item of a list; those of a typed list need not repeat what they are.
fn filled(item: &Value, kind: &str, version: &str) -> Value {
    let Value::Object(entries) = item else { return item.clone() };
    if kind == "List" {
        return item.clone();
    }
    let mut whole = Object::new();
    whole.insert("apiVersion".to_owned(), version.into());
    whole.insert("kind".to_owned(), kind.strip_suffix("List").unwrap_or(kind).into());
    whole.extend(entries.clone());
    whole.into()
}

fn check_version(document: &Document, kind: &str, version: &str) -> Result<()> {
    let known = RESOURCE_KINDS.contains(&kind);
    if known && version != API_VERSION {
        let beta = if version.starts_with(&format!("{API_GROUP}/v1beta1")) {
            "; in v1 deviceClassName, count, selectors, ... of a request stand under exactly: and a device's attributes \
             are not under basic:"
        } else {
            ""
        };
        return Err(Error::Malformed(format!(
            "{document}: apiVersion {version} is not supported, {API_VERSION} is (Kubernetes 1.34 and later){beta}"
        )));
    }
    if version.starts_with(&format!("{API_GROUP}/")) && !known {
        return Err(Error::Malformed(format!(
            "{document}: {API_GROUP} has no such kind here; known: {}{}",
            RESOURCE_KINDS.join(", "),
            guess(kind, RESOURCE_KINDS)
        )));
    }
    Ok(())
}

fn keys(body: &Object) -> String {
    let mut keys: Vec<&str> = body.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys.truncate(6);
    if keys.is_empty() { "it is empty".to_owned() } else { keys.join(", ") }
}

/// The documents of a kind, in order.
pub(crate) fn of_kind<'a>(documents: &'a [Document], kind: &str) -> impl Iterator<Item = &'a Document> {
    documents.iter().filter(move |document| document.kind() == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn test_items_of_typed_lists_are_filled() {
        let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]});
        let found = Document::read("f", list).expect("a list");
        assert_eq!(found[0].to_string(), "f: Pod a");
        assert_eq!((found[0].namespace(), found[0].kind()), ("default".to_owned(), "Pod"));
    }

    #[test]
    fn test_what_is_no_object_is_refused() {
        for (body, text) in [
            (json!(42), "this is a int"),
            (json!({}), "f: an object without kind: it is empty"),
            (json!({"kind": "Pod", "b": 1}), "an object without apiVersion: b, kind"),
            (json!({"apiVersion": "v1", "kind": "List", "items": 3}), "items must be a list"),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": "x"}), "metadata must be a mapping"),
            (json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim"}), "stand under exactly:"),
            (json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClam"}), "did you mean ResourceClaim?"),
        ] {
            let error = Document::read("f", body).expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
