//! Names and limits of the `resource.k8s.io` API and of the attributes that are published.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use crate::error::{Error, Result};
use crate::shown::quoted;

/// Our own driver name **(choice)**: `.internal` is reserved for private use, so it is nobody's.
pub const DEFAULT_DRIVER: &str = "trn3.internal";

/// Domain of the attributes that are ours whatever the driver is called.
pub const OWN_DOMAIN: &str = "trn3.internal";

pub(crate) const GROUP_DOMAIN: &str = "resource.aws.com";
pub(crate) const NUMA_ATTRIBUTE: &str = "resource.kubernetes.io/numaNode";
pub(crate) const GROUP_SIZES: [usize; 4] = [1, 4, 8, 16];

pub(crate) const DEVICE: &str = "neuron_device";
pub(crate) const NODE: &str = "neuron_node";
pub(crate) const ULTRASERVER: &str = "neuron_ultraserver";
/// The label by which a device of several nodes says which.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

// Limits of resource.k8s.io/v1, as its reference states them.
pub(crate) const MAX_DEVICES: usize = 128;
pub(crate) const MAX_DEVICES_WITH_TAINTS: usize = 64;
// Of counters, as Kubernetes 1.35 and later have them.
pub(crate) const MAX_COUNTER_SETS: usize = 8;
pub(crate) const MAX_COUNTERS: usize = 32;
pub(crate) const MAX_CONSUMPTIONS: usize = 2;
pub(crate) const MAX_ATTRIBUTES: usize = 32;
pub(crate) const MAX_STRING: usize = 64;
const MAX_IDENTIFIER: usize = 32;
const MAX_DOMAIN: usize = 63;
pub(crate) const MAX_POOL_NAME: usize = 253;
/// Nodes that are written at once: twice of what Kubernetes supports in a cluster **(choice)**.
pub(crate) const MAX_NODES: i64 = 10_000;
pub(crate) const MAX_REQUESTS: usize = 32;
pub(crate) const MAX_SUBREQUESTS: usize = 8;
pub(crate) const MAX_SELECTORS: usize = 32;
pub(crate) const MAX_CONSTRAINTS: usize = 32;
pub(crate) const MAX_CONFIGS: usize = 32;
pub(crate) const MAX_TOLERATIONS: usize = 16;
pub(crate) const MAX_RESULTS: usize = 32;
pub(crate) const MAX_EXPRESSION: usize = 10 * 1024;

pub(crate) const EFFECTS: [&str; 3] = ["None", "NoSchedule", "NoExecute"];

/// A pattern that a whole text must have.
pub(crate) struct Form(LazyLock<Regex>);

impl Form {
    /// Whether all of the text has it.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

macro_rules! form {
    ($(#[$doc:meta])* $name:ident, $pattern:expr) => {
        $(#[$doc])*
        pub(crate) static $name: Form =
            Form(LazyLock::new(|| Regex::new(concat!("^(?:", $pattern, r")\z")).expect("a pattern of ours")));
    };
}

form!(LABEL, "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?");
form!(SUBDOMAIN, r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
form!(IDENTIFIER, "[A-Za-z_][A-Za-z0-9_]*");
form!(QUALIFIED_LABEL, "([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?");
form!(LABEL_VALUE, "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?");

/// Refuses a driver's name that cannot be one: it is a lower-case DNS subdomain of at most 63 characters.
pub(crate) fn check_driver(name: &str) -> Result<()> {
    if SUBDOMAIN.fits(name) && name.len() <= MAX_DOMAIN {
        return Ok(());
    }
    Err(Error::Malformed(format!(
        "--driver {name}: a driver's name is a lower-case DNS subdomain of at most {MAX_DOMAIN} characters, such as \
         {DEFAULT_DRIVER} or neuron.aws.com"
    )))
}

/// Domain and identifier of an attribute as it stands in a slice; without a domain it is the driver's.
pub(crate) fn split_attribute(name: &str, driver: &str) -> Result<(String, String)> {
    let (domain, identifier) = name.rsplit_once('/').unwrap_or((driver, name));
    let fits = IDENTIFIER.fits(identifier)
        && identifier.len() <= MAX_IDENTIFIER
        && SUBDOMAIN.fits(domain)
        && domain.len() <= MAX_DOMAIN;
    if fits {
        return Ok((domain.to_owned(), identifier.to_owned()));
    }
    Err(Error::Malformed(format!(
        "attribute {}: must be an identifier of at most {MAX_IDENTIFIER} characters, with or without a DNS domain of at \
         most {MAX_DOMAIN} characters and / before it",
        quoted(name)
    )))
}

/// A name in parts, so that numbers in it are ordered as numbers, before all else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamePart {
    Number(Digits),
    Text(String),
}

/// A whole number of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digits(String);

impl Ord for Digits {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A key that sorts numbers in names as numbers.
pub(crate) fn natural(name: &str) -> Vec<NamePart> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let number = first.is_ascii_digit();
        let end = rest.find(|letter: char| letter.is_ascii_digit() != number).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push(if number {
            NamePart::Number(Digits(part.trim_start_matches('0').to_owned()))
        } else {
            NamePart::Text(part.to_owned())
        });
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_numbers_in_names_are_numbers() {
        let mut nodes = vec!["node-10", "node-9", "node-9-b", "9", "node"];
        nodes.sort_by_key(|name| natural(name));
        assert_eq!(nodes, ["9", "node", "node-9", "node-9-b", "node-10"]);
        assert_eq!(natural("a01"), natural("a1"));
    }

    #[test]
    fn test_attributes_have_a_domain() {
        assert_eq!(split_attribute("x", "d.internal"), Ok(("d.internal".into(), "x".into())));
        assert_eq!(split_attribute("a.b/x", "d.internal"), Ok(("a.b".into(), "x".into())));
        for wrong in ["a.b/", "1x", "a b/x", &"x".repeat(33), "A/x", "x\n"] {
            assert!(split_attribute(wrong, "d.internal").is_err(), "{wrong}");
        }
    }

    #[test]
    fn test_drivers_are_subdomains() {
        assert_eq!(check_driver("neuron.aws.com"), Ok(()));
        assert!(check_driver("Neuron").is_err() && check_driver(&"x".repeat(64)).is_err());
    }
}
