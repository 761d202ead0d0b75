//! Changes of a system, written into the tables of a spec file.

use toml::{Table, Value as Toml};

use crate::base::BASE;
use crate::change::{changed, listed};
use crate::check::is_rate;
use crate::error::{Error, Result, allowed};
use crate::facts::{Facts, SET};
use crate::show::general;
use crate::spec::{Overrides, Spec};

/// What a system's number of chips may be called.
pub const COUNTS: [&str; 3] = ["chips", "gpus", "pod_chips"];

/// Figures of a level of links, and of the network, that can be changed.
const OF_LINKS: [&str; 3] = ["rate", "latency", "links"];

/// Writes a list of changes of a system into the tables of its file; systems that the file lacks are added to it.
///
/// A figure of the chip changes there, for a system's follow from its chips'; `chip.` and `core.` before a name say
/// which. `chips` and `axes.NAME` change the graph's size, `levels.NAME.rate` and `network.rate` its links.
///
/// # Errors
/// [`Error::Spec`] names what is unknown, or what a figure cannot be.
pub(crate) fn apply(tables: &mut Table, facts: &Facts, changes: &str) -> Result<()> {
    let mut graph = Graph::of(facts);
    let mut figures: Vec<(Facts, String, f64)> = Vec::new();
    for (key, wanted) in listed(changes)? {
        let in_graph = match &mut graph {
            Some(graph) => graph.change(facts, &key, &wanted)?,
            None => false,
        };
        if !in_graph {
            let (owner, figure) = owner_of(facts, &key)?;
            // What a figure is already changes nothing: not what is published of it either.
            if let Some(value) = changed_figure(&owner, &figure, &key, &wanted)? {
                figures.push((owner, figure, value));
            }
        }
    }
    if let Some(graph) = graph {
        graph.write(tables, facts)?;
    }
    for (owner, figure, value) in figures {
        write(tables, &owner, &figure, value)?;
    }
    link(tables, facts)?;
    let title = Toml::String(format!("{}: {changes}", facts.title));
    table_of(tables, &facts.name).insert("_title".to_owned(), title);
    Ok(())
}

/// Puts what follows from a system's changed parts in the place of what is published of it.
///
/// # Errors
/// [`Error::Spec`] if one of the two cannot be true.
pub(crate) fn refresh(tables: &mut Table, before: &Facts, after: &Facts) -> Result<()> {
    for role in PARTS {
        if let (Some(before), Some(after)) = (before.part(role)?, after.part(role)?)
            && tables.contains_key(&after.name)
        {
            refresh(tables, &before, &after)?;
        }
    }
    let (old, new) = (Spec::of(before, Overrides::new())?, Spec::of(after, Overrides::new())?);
    for key in before.quantities.keys() {
        let Some(quantity) = new.quantities.get(key).filter(|quantity| quantity.formula.is_some()) else { continue };
        if let Some(value) = quantity.number().filter(|_| quantity.value != old.quantities[key].value) {
            let source = "what-if: follows from its parts as they are changed".to_owned();
            let table = table_of(tables, &after.name);
            mark(table, None);
            table.insert(key.clone(), figure_entry(value, &quantity.unit, source));
        }
    }
    Ok(())
}

/// Marks a figure of a table as one that no formula computes, as those are that the table sets over its base.
fn mark(table: &mut Table, figure: Option<&str>) {
    if !table.contains_key(SET) {
        let figures = table.keys().filter(|key| table.contains_key(BASE) && !key.starts_with('_'));
        let set: Vec<Toml> = figures.map(|key| Toml::from(key.as_str())).collect();
        table.insert(SET.to_owned(), Toml::Array(set));
    }
    if let Some(set) = table.get_mut(SET).and_then(Toml::as_array_mut) {
        set.extend(figure.map(Toml::from));
    }
}

fn figure_entry(value: f64, unit: &str, source: String) -> Toml {
    let said =
        Table::from_iter([("value".to_owned(), Toml::Float(value)), ("source".to_owned(), Toml::String(source))]);
    Toml::Table(Table::from_iter([
        ("default".to_owned(), Toml::Float(value)),
        ("unit".to_owned(), Toml::from(unit)),
        ("sources".to_owned(), Toml::Array(vec![Toml::Table(said)])),
    ]))
}

/// The table of a system in a file, added as a copy of the crate's where it lacks.
fn table_of<'a>(tables: &'a mut Table, name: &str) -> &'a mut Table {
    let new = Table::from_iter([(BASE.to_owned(), Toml::from(name))]);
    let entry = tables.entry(name).or_insert_with(|| Toml::Table(new.clone()));
    if !entry.is_table() {
        *entry = Toml::Table(new);
    }
    match entry {
        Toml::Table(table) => table,
        _ => unreachable!("a table was put there"),
    }
}

/// Roles of parts that a system is made of.
const PARTS: [&str; 3] = ["chip", "core", "server"];

/// Makes the systems between one of a file and a part that changed systems of the file too, so that they have the part
/// as it is there; whether there is such a part.
fn link(tables: &mut Table, facts: &Facts) -> Result<bool> {
    let mut has_any = false;
    for role in PARTS {
        let Some(part) = facts.part(role)? else { continue };
        if link(tables, &part)? || tables.contains_key(&part.name) {
            table_of(tables, &facts.name).insert(format!("_{role}"), Toml::String(part.name));
            has_any = true;
        }
    }
    Ok(has_any)
}

/// The system of a figure: the chip, where it has one, else the system itself, else the core.
fn owner_of(facts: &Facts, key: &str) -> Result<(Facts, String)> {
    if let Some((role, figure)) = key.split_once('.') {
        return match facts.part(role)? {
            Some(part) if figure.contains('.') => owner_of(&part, figure),
            Some(part) => Ok((part, figure.to_owned())),
            // The core of a system's chips.
            None => match facts.part("chip")? {
                Some(chip) if role == "core" => owner_of(&chip, key),
                _ => Err(Error::Spec(unknown(facts, key)?)),
            },
        };
    }
    let chip = facts.part("chip")?;
    let core = chip.as_ref().unwrap_or(facts).part("core")?;
    for owner in [chip, Some(facts.clone()), core].into_iter().flatten() {
        let known = owner.quantities.contains_key(key);
        if known || Spec::of(&owner, Overrides::new())?.quantities.contains_key(key) {
            return Ok((owner, key.to_owned()));
        }
    }
    Err(Error::Spec(unknown(facts, key)?))
}

fn unknown(facts: &Facts, key: &str) -> Result<String> {
    let mut known: Vec<String> = facts.quantities.keys().cloned().collect();
    let chip = facts.part("chip")?;
    known.extend(chip.iter().flat_map(|chip| chip.quantities.keys().cloned()));
    for part in [chip.as_ref().unwrap_or(facts).part("core")?].into_iter().flatten() {
        known.extend(part.quantities.keys().map(|key| format!("core.{key}")));
    }
    if let Some(graph) = Graph::of(facts) {
        known.extend(graph.keys());
    }
    known.sort();
    known.dedup();
    Ok(format!("{} has no figure {key}; {}", facts.name, allowed(key, known.iter().map(String::as_str))))
}

/// A figure's new value, in its unit; `None` for what it is.
fn changed_figure(owner: &Facts, figure: &str, key: &str, wanted: &str) -> Result<Option<f64>> {
    let spec = Spec::of(owner, Overrides::new())?;
    let Some(quantity) = spec.quantities.get(figure) else { return Err(Error::Spec(unknown(owner, figure)?)) };
    let unit = &quantity.unit;
    let refuse = |must: &str| Err(Error::Spec(format!("{key} is {wanted:?}; must be {must}")));
    let Some(old) = quantity.number() else { return refuse("left as it is: it is no number") };
    match changed(old, wanted) {
        None => refuse(&format!("a number of {unit}, or a change such as +20%")),
        Some(value) if value < 0.0 => refuse("not negative"),
        Some(0.0) if is_rate(unit) => refuse(&format!("positive, in {unit}")),
        Some(value) => Ok((value != old).then_some(value)),
    }
}

/// Writes a figure that no formula computes any more.
fn write(tables: &mut Table, owner: &Facts, figure: &str, value: f64) -> Result<()> {
    let spec = Spec::of(owner, Overrides::new())?;
    let quantity = spec.quantity(figure)?;
    let source = format!("what-if: {} {} changed to {}", shown(quantity.number()), quantity.unit, shown(Some(value)));
    let table = table_of(tables, &owner.name);
    mark(table, Some(figure));
    table.insert(figure.to_owned(), figure_entry(value, &quantity.unit, source));
    Ok(())
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| general(value, 12))
}

/// A system's graph, as its spec file describes it.
struct Graph {
    fabric: Table,
    before: Vec<(String, f64)>,
    is_changed: bool,
    is_resized: bool,
}

impl Graph {
    fn of(facts: &Facts) -> Option<Self> {
        let fabric = facts.parts.get("fabric")?.as_table()?.clone();
        let before = sizes(&fabric);
        Some(Self { fabric, before, is_changed: false, is_resized: false })
    }

    /// What of it can be changed.
    fn keys(&self) -> Vec<String> {
        let of = |list: &str| names(&self.fabric, list);
        let mut keys: Vec<String> = of("axes").iter().map(|axis| format!("axes.{axis}")).collect();
        keys.extend(of("levels").iter().flat_map(|level| OF_LINKS.map(|figure| format!("levels.{level}.{figure}"))));
        if self.fabric.contains_key("network") {
            keys.extend(OF_LINKS[..2].iter().map(|figure| format!("network.{figure}")));
        }
        keys.extend(self.fabric.contains_key("headline").then(|| "headline".to_owned()));
        keys.push("chips".to_owned());
        keys
    }

    /// Changes what a key names; whether it is the graph's at all.
    fn change(&mut self, facts: &Facts, key: &str, wanted: &str) -> Result<bool> {
        if COUNTS.contains(&key) && !self.before.is_empty() {
            let chips: f64 = self.before.iter().map(|(_, size)| size).product();
            let Some(wanted) = changed(chips, wanted).filter(|chips| chips.fract() == 0.0 && *chips >= 1.0) else {
                return Err(Error::Spec(format!("{key} is {wanted:?}; must be a whole number of chips, from 1")));
            };
            self.resize(facts, key, wanted)?;
            return Ok(true);
        }
        let words: Vec<&str> = key.split('.').collect();
        let (list, name, figure) = match words.as_slice() {
            ["axes", name] => ("axes", *name, "size"),
            ["levels", name, figure] if OF_LINKS.contains(figure) => ("levels", *name, *figure),
            ["network", figure] if OF_LINKS[..2].contains(figure) => ("network", "", *figure),
            ["headline"] => ("headline", "", ""),
            _ => return Ok(false),
        };
        let Some(entry) = found(&mut self.fabric, list, name, figure) else {
            return Err(Error::Spec(unknown(facts, key)?));
        };
        let (value, unit) = (number(entry), entry.get("unit").and_then(Toml::as_str).unwrap_or_default().to_owned());
        let new = value.and_then(|old| Some((old, changed(old, wanted)?)));
        let Some((old, new)) = new.filter(|(_, new)| *new >= 0.0) else {
            return Err(Error::Spec(format!(
                "{key} is {wanted:?}; must be a number of {unit}, or a change such as +20%"
            )));
        };
        if list == "axes" && (new.fract() != 0.0 || new < 1.0) {
            return Err(Error::Spec(format!("{key} is {wanted:?}; must be a whole number, from 1")));
        }
        set(entry, old, new);
        self.is_changed = true;
        self.is_resized |= list == "axes";
        Ok(true)
    }

    /// Other sizes of the axes: those of a published slice, else the inner ones as they are as far as they divide.
    fn resize(&mut self, facts: &Facts, key: &str, chips: f64) -> Result<()> {
        let old: Vec<f64> = self.before.iter().map(|(_, size)| *size).collect();
        if old.iter().product::<f64>() == chips {
            return Ok(());
        }
        let new = match slices(facts) {
            Some(slices) => {
                slices.iter().find(|slice| slice.iter().product::<f64>() == chips).cloned().ok_or_else(|| {
                    let known: Vec<String> =
                        slices.iter().map(|slice| slice.iter().product::<f64>().to_string()).collect();
                    format!("{key} is {chips}; allowed, as slices of {}: {}", facts.name, known.join(", "))
                })
            }
            None => divided(&old, chips).ok_or_else(|| {
                let axes: Vec<String> = self.before.iter().map(|(name, size)| format!("{name} {size}")).collect();
                format!(
                    "{key} is {chips}, which the axes of {} ({}) do not divide; give axes.NAME",
                    facts.name,
                    axes.join(" x ")
                )
            }),
        };
        let new = new.map_err(Error::Spec)?;
        for ((name, old), new) in self.before.iter().zip(new) {
            if let Some(entry) = found(&mut self.fabric, "axes", name, "size")
                && *old != new
            {
                set(entry, *old, new);
            }
        }
        (self.is_changed, self.is_resized) = (true, true);
        Ok(())
    }

    /// Writes the graph, and the counts that go with its size.
    fn write(mut self, tables: &mut Table, facts: &Facts) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        if self.is_resized {
            let now = sizes(&self.fabric);
            let product = |sizes: &[(String, f64)]| sizes.iter().map(|(_, size)| size).product::<f64>();
            let count = COUNTS.iter().find(|key| facts.quantities.contains_key(**key));
            let mut counts: Vec<(String, f64)> =
                count.map(|key| ((*key).to_owned(), product(&now))).into_iter().collect();
            for position in 0..now.len() {
                let (key, old) = (format!("{}s", now[position].0), product(&self.before[..=position]));
                let is_count = facts.quantities.get(&key).and_then(crate::Quantity::number) == Some(old);
                if is_count && !COUNTS.contains(&key.as_str()) {
                    counts.push((key, product(&now[..=position])));
                }
            }
            for (key, value) in counts {
                write(tables, facts, &key, value)?;
            }
            self.keep_numa(&now);
        }
        let table = table_of(tables, &facts.name);
        table.insert("_fabric".to_owned(), Toml::Table(self.fabric));
        Ok(())
    }

    /// Host memory nodes are known for the axis as it was, and its first values.
    fn keep_numa(&mut self, now: &[(String, f64)]) {
        let Some(numa) = self.fabric.get_mut("numa").and_then(Toml::as_table_mut) else { return };
        let axis = numa.get("axis").and_then(Toml::as_str).and_then(|axis| now.iter().find(|(name, _)| name == axis));
        let size = axis.map_or(0, |(_, size)| *size as usize);
        match numa.get_mut("nodes").and_then(Toml::as_array_mut) {
            Some(nodes) if nodes.len() >= size => nodes.truncate(size),
            _ => {
                self.fabric.remove("numa");
            }
        }
    }
}

/// Sizes of published slices, along the axes in their order.
fn slices(facts: &Facts) -> Option<Vec<Vec<f64>>> {
    let listed = facts.parts.get("slices")?.get("sizes")?.as_array()?;
    let sizes = |slice: &Toml| slice.as_array()?.iter().map(|size| Some(size.as_integer()? as f64)).collect();
    listed.iter().map(sizes).collect()
}

/// Sizes of axes for a number of chips: inner axes stay whole, the outermost one grows, and what is too many goes from
/// the outside in.
fn divided(old: &[f64], chips: f64) -> Option<Vec<f64>> {
    let mut rest = chips;
    let mut new: Vec<f64> = Vec::with_capacity(old.len());
    for (position, size) in old.iter().enumerate().rev() {
        let is_outermost = position == 0;
        let kept = if is_outermost || rest <= *size { rest } else { *size };
        if rest % kept != 0.0 {
            return None;
        }
        new.push(kept);
        rest /= kept;
    }
    new.reverse();
    Some(new)
}

fn number(entry: &Table) -> Option<f64> {
    let value = entry.get("value")?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn names(fabric: &Table, list: &str) -> Vec<String> {
    let entries = fabric.get(list).and_then(Toml::as_array).map_or(&[][..], Vec::as_slice);
    entries.iter().filter_map(|entry| Some(entry.get("name")?.as_str()?.to_owned())).collect()
}

fn sizes(fabric: &Table) -> Vec<(String, f64)> {
    let entries = fabric.get("axes").and_then(Toml::as_array).map_or(&[][..], Vec::as_slice);
    let size = |entry: &Toml| Some((entry.get("name")?.as_str()?.to_owned(), number(entry.get("size")?.as_table()?)?));
    entries.iter().filter_map(size).collect()
}

/// A figure of the graph: of the entry of a list, of a table, or itself one.
fn found<'a>(fabric: &'a mut Table, list: &str, name: &str, figure: &str) -> Option<&'a mut Table> {
    let entry = match fabric.get_mut(list)? {
        Toml::Array(entries) => {
            entries.iter_mut().find(|entry| entry.get("name").and_then(Toml::as_str) == Some(name))?
        }
        table => table,
    };
    if figure.is_empty() { entry.as_table_mut() } else { entry.get_mut(figure)?.as_table_mut() }
}

fn set(entry: &mut Table, old: f64, new: f64) {
    let unit = entry.get("unit").and_then(Toml::as_str).unwrap_or_default();
    let source = format!("what-if: {} {unit} changed to {}", general(old, 12), general(new, 12));
    entry.insert("value".to_owned(), Toml::Float(new));
    entry.insert("source".to_owned(), Toml::String(source));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{BUILT_IN, SystemText};

    fn spec(text: &str) -> Arc<Spec> {
        let facts = SystemText::find(text, "plans").and_then(|found| found.facts()).expect(text);
        Spec::of(&facts, Overrides::new()).expect(text)
    }

    #[test]
    fn test_a_change_of_the_chip_is_the_systems() {
        let faster = spec("gen2:hbm_bandwidth=+100%,tflops_bf16=1000,core.clock_tensor=+50%");
        assert_eq!(faster.known("hbm_bandwidth"), Some(2.0 * 705.6e12));
        assert_eq!((faster.known("chip.tflops_bf16"), faster.known("pflops_bf16")), (Some(1e15), Some(144e15)));
        // What is not set follows from the core's clock.
        assert_eq!(faster.known("chip.tflops_mxfp8"), Some(2516.5824e12 * 1.5));
        // What is published of the system is not what follows from its chips now.
        let quantity = &faster.quantities["hbm_bandwidth"];
        assert_eq!((quantity.published.as_ref(), quantity.conflict), (Some(&quantity.value), false));
        assert_eq!(
            faster.facts.title,
            "Trn3 Gen2 UltraServer (NL72x2 Switched): hbm_bandwidth=+100%,tflops_bf16=1000,core.clock_tensor=+50%"
        );
        let source = &faster.parts["chip"].quantities["hbm_bandwidth"].sources[0].source;
        assert_eq!(source, "what-if: 4.9 TB/s changed to 9.8");
        assert_eq!(spec("trn2u:hbm_bandwidth=+10%").parts["server"].known("chip.hbm_bandwidth"), Some(3.19e12));
    }

    #[test]
    fn test_a_change_to_what_a_figure_is_changes_none() {
        for (name, _) in BUILT_IN {
            let known = Spec::built_in(name).expect(name);
            let numbers = known.quantities.iter().filter_map(|(key, quantity)| Some((key, quantity.number()?)));
            for (key, _) in numbers.filter(|(key, _)| !COUNTS.contains(&key.as_str())) {
                let Some(old) = owner_of(&known.facts, key)
                    .ok()
                    .and_then(|(owner, key)| Spec::of(&owner, Overrides::new()).ok()?.quantity(&key).ok()?.number())
                else {
                    panic!("{name}.{key}")
                };
                let same = spec(&format!("{name}:{key}={old}"));
                assert_eq!(same.quantities, known.quantities, "{name}.{key}");
                let near = spec(&format!("{name}:{key}=+0.0000001%"));
                for (other, quantity) in &known.quantities {
                    let Some(old) = quantity.si() else { continue };
                    let new = near.quantities[other].si().expect("a number");
                    assert!((new - old).abs() <= 1e-6 * old.abs(), "{name}.{key}: {other} is {new}, not {old}");
                }
            }
        }
    }

    #[test]
    fn test_the_graph_changes_its_size_and_its_links() {
        let axes = |text: &str| {
            let spec = spec(text);
            let fabric = spec.facts.parts["fabric"].as_table().expect("a table").clone();
            (sizes(&fabric).into_iter().map(|(_, size)| size).collect::<Vec<_>>(), spec)
        };
        let (half, spec) = axes("gen2:chips=72,levels.rack.rate=+100%,network.latency=5");
        assert_eq!(half, [1.0, 18.0, 4.0]);
        assert_eq!(["chips", "racks", "servers"].map(|key| spec.known(key)), [Some(72.0), Some(1.0), Some(18.0)]);
        let rack = &spec.facts.parts["fabric"]["levels"][1];
        assert_eq!((rack["name"].as_str(), rack["rate"]["value"].as_float()), (Some("rack"), Some(128.0)));
        assert_eq!(axes("gen2:chips=288").0, [4.0, 18.0, 4.0]);
        assert_eq!(axes("gen2:chips=8").0, [1.0, 2.0, 4.0]);
        assert_eq!(axes("gen2:axes.server=9").1.known("chips"), Some(72.0));
        assert_eq!(axes("h100:chips=4").0, [4.0]);
    }

    #[test]
    fn test_wrong_changes_are_refused_by_name() {
        for (text, needle) in [
            ("gen2:hbm_bandwith=+1%", "has no figure hbm_bandwith; the nearest is \"hbm_bandwidth\""),
            (
                "gen2:hbm_bandwidth=fast",
                "hbm_bandwidth is \"fast\"; must be a number of TB/s, or a change such as +20%",
            ),
            ("gen2:hbm_bandwidth=0", "must be positive"),
            ("gen2:tdp=-1", "must be not negative"),
            ("gen2:process=3", "it is no number"),
            ("gen2:chips=70", "chips is 70, which the axes of trn3_gen2 (rack 2 x server 18 x chip 4) do not divide"),
            ("gen2:chips=0", "whole number of chips"),
            ("gen2:levels.pod.rate=3", "has no figure levels.pod.rate; the nearest is"),
            ("gen2:axes.rack=0", "axes.rack is \"0\"; must be a whole number, from 1"),
            ("gen2:axes.rack=x", "axes.rack is \"x\""),
            ("gen2:tdp", "a file with \"tdp\""),
            ("gen2:tdp=1,chips", "\"chips\" is no change"),
        ] {
            let error = SystemText::find(text, "plans").expect_err(text).to_string();
            assert!(error.starts_with(text) && error.contains(needle), "{text}: {error}");
        }
    }
}
