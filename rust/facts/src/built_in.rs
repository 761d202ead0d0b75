//! The spec files of the crate: systems, and what else is figures.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use crate::error::{Error, Result, nearest};
use crate::facts::Facts;
use crate::variation::varied;

macro_rules! specs {
    ($($name:literal),* $(,)?) => {
        /// The systems whose spec files are part of the crate, with the text of each, in alphabetical order.
        pub const BUILT_IN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../specs/", $name, ".toml")))),*];
    };
}

specs![
    "b200",
    "b300",
    "collectives",
    "gb200_nvl72",
    "gb300_nvl72",
    "h100",
    "h200",
    "inf2_48xlarge",
    "inferentia2",
    "measured",
    "neuroncore_v2",
    "neuroncore_v3",
    "neuroncore_v4",
    "tpu_v7",
    "trainium1",
    "trainium2",
    "trainium3",
    "trainium4",
    "trainium4_whatif",
    "trn1_32xlarge",
    "trn2_instance",
    "trn2_ultraserver",
    "trn3_gen1",
    "trn3_gen2",
    "ultracluster3",
];

/// The files of constants that models take for granted, in the form of spec files; none is a system.
const PARAMETERS: [(&str, &str); 11] = [
    ("compiler", include_str!("../specs/models/compiler.toml")),
    ("energy", include_str!("../specs/models/energy.toml")),
    ("latency", include_str!("../specs/models/latency.toml")),
    ("load", include_str!("../specs/models/load.toml")),
    ("reliability", include_str!("../specs/models/reliability.toml")),
    ("serving", include_str!("../specs/models/serving.toml")),
    ("serving_gpu", include_str!("../specs/models/serving_gpu.toml")),
    ("serving_trainium1", include_str!("../specs/models/serving_trainium1.toml")),
    ("serving_trainium2", include_str!("../specs/models/serving_trainium2.toml")),
    ("serving_trainium3", include_str!("../specs/models/serving_trainium3.toml")),
    ("training", include_str!("../specs/models/training.toml")),
];

/// Prices that someone has named in public, as `trn3_system::energy::cost` reads them.
pub const PRICES: &str = include_str!("../specs/prices.toml");

/// Example outputs of `nccom-test` that the vendor's documentation prints.
pub const NCCOM_TABLES: &str = include_str!("../specs/nccom_tables.toml");

/// Files of the crate by name, each read when it is first asked for: one may refer to figures of another.
type Read = BTreeMap<&'static str, (&'static str, OnceLock<Result<Facts>>)>;

fn unread(files: &[(&'static str, &'static str)]) -> Read {
    files.iter().map(|(name, text)| (*name, (*text, OnceLock::new()))).collect()
}

fn read(name: &str, (text, held): &(&'static str, OnceLock<Result<Facts>>)) -> Result<Facts> {
    let one = || {
        let file = format!("{name}.toml");
        let mut facts = Facts::parse(&file, text)?.pop().ok_or_else(|| Error::Spec(format!("{file} is empty")))?;
        // A file of the crate holds one system.
        facts.siblings = Vec::new().into();
        Ok(facts)
    };
    held.get_or_init(one).clone()
}

/// The facts of a system of the crate.
pub(crate) fn facts(name: &str) -> Result<Facts> {
    static SYSTEMS: LazyLock<Read> = LazyLock::new(|| unread(BUILT_IN));
    let known = BUILT_IN.iter().map(|(known, _)| *known);
    let found = read(name, SYSTEMS.get(name).ok_or_else(|| Error::unknown("system", name, known))?);
    // Of what is no system: constants of models stand there too.
    if name == "collectives" { found.map(varied) } else { found }
}

/// The text of a spec file of the crate; empty for a name that [`canonical`] does not give.
pub(crate) fn text_of(name: &str) -> &'static str {
    BUILT_IN.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

/// The constants of a model: `compiler`, `energy`, `latency`, `reliability`, `serving` or `training`; `serving_NAME` for the serving stack of a generation.
///
/// # Errors
/// [`Error::Unknown`] if there are none of that name.
pub fn parameters(model: &str) -> Result<Facts> {
    static MODELS: LazyLock<Read> = LazyLock::new(|| unread(&PARAMETERS));
    let known = PARAMETERS.map(|(known, _)| known);
    let found = read(model, MODELS.get(model).ok_or_else(|| Error::unknown("model", model, known))?);
    // Of plans alone: energy and latency have bounds of their own.
    if matches!(model, "serving" | "training") { found.map(varied) } else { found }
}

/// Names of systems and machines that users type, by kind of thing: what another name stands for.
static NAMES: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    let table: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        toml::from_str(include_str!("../specs/names.toml")).unwrap_or_default();
    let turned = |names: BTreeMap<String, Vec<String>>| {
        let pairs = |(name, others): (String, Vec<String>)| others.into_iter().map(move |other| (other, name.clone()));
        names.into_iter().flat_map(pairs).collect()
    };
    table.into_iter().map(|(kind, names)| (kind, turned(names))).collect()
});

/// Other names of things of a kind, and what they stand for: `systems` as published, `plans` to run on, `machines`.
pub fn aliases(kind: &str) -> &'static BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    NAMES.get(kind).unwrap_or(&NONE)
}

/// The name of a system of the crate, given it or another name of it, in whatever letters.
///
/// # Errors
/// [`Error::Spec`] if there is none; the text has the nearest.
///
/// ```
/// use trn3_facts::canonical;
///
/// assert_eq!(canonical("Trn3-Gen2")?, "trn3_gen2");
/// assert_eq!(canonical("trn2.48xlarge")?, "trn2_instance");
/// assert!(canonical("trainum3").unwrap_err().to_string().contains("'trainium3'"));
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn canonical(name: &str) -> Result<&'static str> {
    let mut plain = String::new();
    for letter in name.trim().to_lowercase().chars() {
        match letter {
            '-' | '.' | ' ' if plain.ends_with('_') => {}
            '-' | '.' | ' ' => plain.push('_'),
            other => plain.push(other),
        }
    }
    let known: Vec<&'static str> = BUILT_IN.iter().map(|(known, _)| *known).collect();
    let others = aliases("systems");
    let meant = others.get(&plain).unwrap_or(&plain);
    known.iter().copied().find(|name| *name == meant.as_str()).ok_or_else(|| {
        let others: Vec<&str> = others.keys().map(String::as_str).collect();
        Error::Spec(format!("system '{name}' is unknown; {}", nearest(&plain, &known, &others)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_another_name_stands_for_one_thing() {
        for (other, name) in aliases("systems") {
            assert!(facts(name).is_ok() && facts(other).is_err(), "{other}: {name}");
            assert_eq!(canonical(other).expect("known"), name);
        }
        for (other, name) in aliases("plans") {
            assert!(facts(name).is_ok(), "{other}: {name}");
        }
    }

    #[test]
    fn test_constants_of_models_are_no_systems() {
        for (name, _) in PARAMETERS {
            assert!(!parameters(name).expect(name).quantities.is_empty());
            assert!(facts(name).is_err());
        }
        assert!(parameters("weather").is_err());
    }
}
