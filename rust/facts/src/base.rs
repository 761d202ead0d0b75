//! Systems that say only how they differ from another one, and figures in the short form that cores have.
//!
//! With `_base`, the name of a system of the same file or of the crate, a table holds what differs from that system; what
//! it says itself is not computed from parts again. A figure may stand as `{ value, unit, source }` or, as arithmetic on
//! figures of systems, as `{ from, unit, source }`, beside the long form with `default` and `sources`.

use toml::{Table, Value as Toml};

use crate::built_in::{canonical, text_of};
use crate::error::{Error, Result, allowed};
use crate::expression::Expression;
use crate::facts::{LIKE, SET};
use crate::show::rounded;
use crate::spec::Spec;
use crate::unit::known_factor;

/// The system that a table differs from.
pub(crate) const BASE: &str = "_base";
/// Figures of a base that do not hold of what differs from it.
const WITHOUT: &str = "_without";
/// Bases of bases end somewhere.
const DEEPEST: usize = 8;
/// Tables of a graph that are exchanged as a whole, while the rest stays the base's.
const FABRIC: &str = "_fabric";

/// The tables of a file, each with what its base gives, and figures in the long form.
///
/// # Errors
/// [`Error::Spec`] names the table and the key.
pub(crate) fn expand(file: &str, tables: &mut Table) -> Result<()> {
    let raw = tables.clone();
    for (name, entry) in tables.iter_mut() {
        if let Toml::Table(table) = entry {
            *table = whole(file, name, &raw, 0)?;
        }
    }
    Ok(())
}

/// A table of a file with what its base gives.
fn whole(file: &str, name: &str, raw: &Table, depth: usize) -> Result<Table> {
    let wrong = |what: String| Error::Spec(format!("{file}: {name}.{what}"));
    let mut own = raw.get(name).and_then(Toml::as_table).cloned().unwrap_or_default();
    let base = match own.remove(BASE) {
        None => None,
        Some(Toml::String(_)) if depth > DEEPEST => return Err(wrong(format!("{BASE} leads back to itself"))),
        Some(Toml::String(base)) if base != name && raw.get(&base).is_some_and(Toml::is_table) => {
            Some(whole(file, &base, raw, depth + 1)?)
        }
        Some(Toml::String(base)) => Some(of_the_crate(&base).map_err(|error| wrong(format!("{BASE}: {error}")))?),
        Some(other) => return Err(wrong(format!("{BASE} is {other}; must be the name of a system"))),
    };
    let known = |figure: &str| value_of(figure, &own, base.as_ref(), raw);
    let mut long = Table::new();
    for (key, entry) in &own {
        let before = base.as_ref().and_then(|base| base.get(key)).and_then(Toml::as_table);
        let entry = match entry.as_table().filter(|_| !key.starts_with('_')) {
            Some(short) => {
                if let (Some(base), None, None) = (&base, before, short.get("unit")) {
                    let figures = base.keys().filter(|key| !key.starts_with('_')).map(String::as_str);
                    return Err(wrong(format!(
                        "{key}: its base has no such figure; {}; or give a unit",
                        allowed(key, figures)
                    )));
                }
                spelled_out(short, before, &known).map_err(|error| wrong(format!("{key}: {error}")))?
            }
            None => entry.clone(),
        };
        long.insert(key.clone(), entry);
    }
    Ok(match base {
        None => long,
        Some(base) => merged(base, long),
    })
}

/// The table of a system of the crate.
fn of_the_crate(name: &str) -> Result<Table> {
    let name = canonical(name)?;
    let mut tables: Table = text_of(name)
        .parse()
        .map_err(|error: toml::de::Error| Error::Spec(format!("{name}.toml is not TOML: {}", error.message())))?;
    expand(name, &mut tables)?;
    let Some(Toml::Table(mut table)) = tables.remove(name) else {
        return Err(Error::Spec(format!("{name}.toml holds no [{name}]")));
    };
    table.entry(LIKE).or_insert_with(|| Toml::String(name.to_owned()));
    Ok(table)
}

fn merged(mut base: Table, own: Table) -> Table {
    // A table that says itself which figures it sets has others that follow from changed parts.
    let figures = own.keys().filter(|key| !key.starts_with('_') && !own.contains_key(SET));
    let mut set: Vec<Toml> = base.get(SET).and_then(Toml::as_array).cloned().unwrap_or_default();
    set.extend(figures.map(|key| Toml::String(key.clone())));
    set.extend(own.get(SET).and_then(Toml::as_array).cloned().unwrap_or_default());
    for (key, entry) in own {
        match (base.get_mut(&key), entry) {
            (Some(Toml::Table(before)), Toml::Table(entry)) if key == FABRIC => before.extend(entry),
            (_, entry) => {
                base.insert(key, entry);
            }
        }
    }
    base.insert(SET.to_owned(), Toml::Array(set));
    for key in base.remove(WITHOUT).as_ref().and_then(Toml::as_array).into_iter().flatten().filter_map(Toml::as_str) {
        base.remove(key);
    }
    base
}

/// A figure in the long form; `before` is what the base says of it.
fn spelled_out(short: &Table, before: Option<&Table>, known: &dyn Fn(&str) -> Option<f64>) -> Result<Toml> {
    let refuse = |what: String| Err(Error::Spec(what));
    if !short.contains_key("value") && !short.contains_key("from") {
        return Ok(Toml::Table(short.clone()));
    }
    const KEYS: [&str; 6] = ["value", "from", "unit", "source", "why", "note"];
    if let Some(key) = short.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return refuse(format!("it has a key {key}; {}", allowed(key, KEYS)));
    }
    let Some(Toml::String(source)) = short.get("source") else {
        return refuse("it lacks source; a figure is { value, unit, source } or { from, unit, source }".to_owned());
    };
    let unit =
        short.get("unit").or_else(|| before?.get("unit")).cloned().unwrap_or_else(|| Toml::String(String::new()));
    let value = match (short.get("value"), short.get("from")) {
        (Some(value), None) => value.clone(),
        (None, Some(Toml::String(text))) => {
            let scale = known_factor(unit.as_str().unwrap_or_default())?;
            Toml::Float(rounded(Expression::parse(text)?.value(known)? / scale))
        }
        (Some(_), Some(_)) => return refuse("it has value and from; one of them is needed".to_owned()),
        (_, other) => {
            return refuse(format!("from is {}; must be a text", other.map_or("absent".into(), Toml::to_string)));
        }
    };
    let said =
        Table::from_iter([("value".to_owned(), value.clone()), ("source".to_owned(), Toml::from(source.as_str()))]);
    let mut long = Table::from_iter([("default".to_owned(), value), ("unit".to_owned(), unit)]);
    long.extend(["why", "note"].into_iter().filter_map(|key| Some((key.to_owned(), short.get(key)?.clone()))));
    long.insert("sources".to_owned(), Toml::Array(vec![Toml::Table(said)]));
    Ok(Toml::Table(long))
}

/// What a name in a figure's arithmetic stands for, in base units: a figure of the table or of its base, else with a name
/// before it that of a system of the file or of the crate.
fn value_of(name: &str, own: &Table, base: Option<&Table>, raw: &Table) -> Option<f64> {
    let plain = |entry: &Toml| {
        let entry = entry.as_table()?;
        let value = entry.get("value").or_else(|| entry.get("default"))?;
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))?;
        Some(number * known_factor(entry.get("unit").and_then(Toml::as_str).unwrap_or_default()).ok()?)
    };
    match name.split_once('.') {
        None => plain(own.get(name).or_else(|| base?.get(name))?),
        Some((system, figure)) => match raw.get(system).and_then(|table| table.get(figure)) {
            Some(entry) => plain(entry),
            None => Spec::built_in(canonical(system).ok()?).ok()?.known(figure),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::{Facts, Overrides, Spec};

    fn parsed(text: &str) -> crate::Result<Vec<Facts>> {
        Facts::parse("mine.toml", text)
    }

    #[test]
    fn test_a_base_gives_what_is_not_said() {
        let systems = parsed(
            "[faster]\n_base = \"trainium3\"\n_title = \"Faster\"\n\
             hbm_bandwidth = { from = \"2 * trainium3.hbm_bandwidth\", source = \"a rumour\" }\n\
             tflops_bf16 = { value = 1200, unit = \"TFLOPS\", source = \"a rumour\" }\n\
             [again]\n_base = \"faster\"\ntdp = { value = 700, source = \"a rumour\" }",
        )
        .expect("loads");
        let [faster, again] = systems.as_slice() else { panic!("{systems:?}") };
        assert_eq!((faster.title.as_str(), faster.like(), again.like()), ("Faster", "trainium3", "trainium3"));
        let spec = Spec::of(again, Overrides::new()).expect("computes");
        let number = |key: &str| spec.quantity(key).expect(key).number();
        assert_eq!(number("hbm_bandwidth"), Some(9.8));
        assert_eq!(
            (number("tflops_bf16"), number("tflops_fp32"), number("tdp")),
            (Some(1200.0), Some(157.2864), Some(700.0))
        );
        assert_eq!(crate::peak(&spec, "bf16").expect("has it"), Some(1.2e15));
        assert_eq!(crate::peak(&spec, "mxfp8").expect("has it"), Some(2_516_582_400_000_000.0));
    }

    #[test]
    fn test_a_system_that_repeats_its_base_has_its_figures() {
        for (name, _) in crate::BUILT_IN {
            let system = &parsed(&format!("[copy]\n_base = \"{name}\"")).expect(name)[0];
            let known = Facts::built_in(name).expect(name);
            assert_eq!(system.quantities, known.quantities, "{name}");
            let (spec, of_crate) = (Spec::of(system, Overrides::new()), Spec::built_in(name));
            assert_eq!(spec.expect(name).quantities, of_crate.expect(name).quantities, "{name}");
        }
    }

    #[test]
    fn test_wrong_bases_and_figures_are_refused_by_name() {
        for (text, needle) in [
            ("[a]\n_base = \"trainium9\"", "a._base: system 'trainium9' is unknown; the nearest is 'trainium"),
            ("[a]\n_base = 3", "a._base is 3"),
            ("[a]\n_base = \"b\"\n[b]\n_base = \"a\"", "leads back to itself"),
            ("[a]\nb = { value = 1, unit = \"W\" }", "a.b: it lacks source"),
            (
                "[a]\n_base = \"h100\"\ntpd = { value = 1, source = \"x\" }",
                "a.tpd: its base has no such figure; the nearest is \"tdp\"",
            ),
            ("[a]\nb = { value = 1, uint = \"W\", source = \"x\" }", "has a key uint; the nearest is \"unit\""),
            ("[a]\nb = { from = \"trainium9.tdp\", unit = \"W\", source = \"x\" }", "trainium9.tdp is not known"),
            ("[a]\nb = { from = 3, unit = \"W\", source = \"x\" }", "from is 3"),
            ("[a]\nb = { value = 1, from = \"2\", source = \"x\" }", "value and from"),
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(error.starts_with("mine.toml: ") && error.contains(needle), "{text}: {error}");
        }
    }
}
