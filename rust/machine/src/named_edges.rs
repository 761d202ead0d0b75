//! Edges between instructions by their names, beyond what data demands: what a kernel's own schedule asks for.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::isa::NOTHING;
use crate::site::SiteId;

/// Which instructions wait for which, by name, as a run goes on.
///
/// ```
/// use trn3_machine::named_edges::NamedEdges;
///
/// let mut edges = NamedEdges::default();
/// edges.add("product".to_owned(), ["load".to_owned()]);
/// edges.note(Some("load"), 3);
/// assert_eq!(edges.producers(Some("product")), [3]);
/// assert!(edges.check().is_err(), "no instruction is called product yet");
/// edges.note(Some("product"), 4);
/// edges.check()?;
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct NamedEdges {
    /// Producers by consumer.
    edges: HashMap<String, Vec<String>>,
    /// The last instruction of each name, and the dynamic loops that it stood in.
    issued: HashMap<String, (u32, Vec<SiteId>)>,
    /// The lines of the dynamic loops that are running, outermost first.
    loops: Vec<SiteId>,
    /// Edges that some instruction waited at: consumer and producer.
    waited: HashSet<(String, String)>,
    /// The first edge between instructions of different dynamic loops: consumer and producer.
    crossing: Option<(String, String)>,
}

impl NamedEdges {
    /// Lets instructions of one name wait for the last ones of others.
    pub fn add(&mut self, consumer: String, producers: impl IntoIterator<Item = String>) {
        self.edges.entry(consumer).or_default().extend(producers);
    }

    /// A dynamic loop begins on a line: what follows is its body, until [`NamedEdges::leave_loop`].
    pub fn enter_loop(&mut self, site: SiteId) {
        self.loops.push(site);
    }

    /// The dynamic loop that began last has ended.
    pub fn leave_loop(&mut self) {
        self.loops.pop();
    }

    /// Instructions that one of this name waits for.
    pub fn producers(&mut self, name: Option<&str>) -> Vec<u32> {
        let Some((consumer, producers)) = name.and_then(|name| self.edges.get_key_value(name)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for producer in producers {
            if let Some((id, loops)) = self.issued.get(producer).filter(|(id, _)| *id != NOTHING) {
                if *loops != self.loops && self.crossing.is_none() {
                    self.crossing = Some((consumer.clone(), producer.clone()));
                }
                if !self.waited.iter().any(|(one, other)| one == consumer && other == producer) {
                    self.waited.insert((consumer.clone(), producer.clone()));
                }
                found.push(*id);
            }
        }
        found
    }

    /// An instruction of this name was issued.
    pub fn note(&mut self, name: Option<&str>, id: u32) {
        if let Some(name) = name.filter(|_| !self.edges.is_empty()) {
            self.issued.insert(name.to_owned(), (id, self.loops.clone()));
        }
    }

    /// Refuses edges whose names no instruction had, edges between different dynamic loops, and edges in a circle, of which
    /// one at least had no effect.
    ///
    /// # Errors
    /// [`Error::Value`] with the names.
    pub fn check(&self) -> Result<()> {
        if let Some((consumer, producer)) = &self.crossing {
            return Err(Error::Value(format!(
                "with_schedule lets {consumer} wait for {producer}, which stands in another dynamic loop; allowed: \
                 both in the same body of nl.dynamic_range, fori_loop or while_loop, or both in none"
            )));
        }
        if let [_, ..] = self.unknown()[..] {
            return Err(Error::Value(format!(
                "with_schedule names {}, which no instruction of the run has as name=",
                self.unknown().join(", ")
            )));
        }
        match self.circle() {
            None => Ok(()),
            Some(names) => Err(Error::Value(format!(
                "with_schedule lets instructions wait for each other: {}; allowed: edges without a circle, or in loops, \
                 where each waits for one before it",
                names.join(" for ")
            ))),
        }
    }

    /// Names that wait for each other, in a circle that no order of the run can keep.
    fn circle(&self) -> Option<Vec<&str>> {
        let mut without_effect: Vec<(&str, &str)> = Vec::new();
        for (consumer, producers) in &self.edges {
            for producer in producers {
                if !self.waited.contains(&(consumer.clone(), producer.clone())) {
                    without_effect.push((consumer, producer));
                }
            }
        }
        without_effect.sort_unstable();
        without_effect.into_iter().find_map(|(consumer, producer)| {
            let mut way = self.way(producer, consumer)?;
            way.insert(0, consumer);
            Some(way)
        })
    }

    /// The names from one that waits to one that it waits for, both included.
    fn way<'a>(&'a self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut came: HashMap<&str, &str> = HashMap::new();
        let mut next = vec![from];
        while let Some(name) = next.pop() {
            if name == to {
                let mut way = vec![name];
                while let Some(last) = way.last().copied().filter(|last| *last != from) {
                    way.push(came[last]);
                }
                way.reverse();
                return Some(way);
            }
            for producer in self.edges.get(name).into_iter().flatten() {
                if producer != from && !came.contains_key(producer.as_str()) {
                    came.insert(producer, name);
                    next.push(producer);
                }
            }
        }
        None
    }

    /// Names of edges that no instruction had.
    fn unknown(&self) -> Vec<&str> {
        let names = self.edges.iter().flat_map(|(consumer, producers)| std::iter::once(consumer).chain(producers));
        let mut unknown: Vec<&str> =
            names.map(String::as_str).filter(|name| !self.issued.contains_key(*name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_the_last_of_a_name_is_waited_for() {
        let mut edges = NamedEdges::default();
        edges.add("use".to_owned(), ["load".to_owned(), "other".to_owned()]);
        edges.note(Some("load"), 1);
        edges.note(Some("load"), 5);
        assert_eq!(edges.producers(Some("use")), [5]);
        assert!(edges.producers(Some("load")).is_empty());
        assert!(edges.producers(None).is_empty());
        let refusal = edges.check().expect_err("two names are unknown").to_string();
        assert!(refusal.starts_with("with_schedule names other, use, which no instruction"), "{refusal}");
    }

    #[test]
    fn test_a_circle_is_refused_unless_each_waits_for_an_earlier_one() {
        let issue = |order: &[&'static str]| {
            let mut edges = NamedEdges::default();
            edges.add("a".to_owned(), ["b".to_owned()]);
            edges.add("b".to_owned(), ["c".to_owned()]);
            edges.add("c".to_owned(), ["a".to_owned()]);
            for (id, name) in (0..).zip(order) {
                edges.producers(Some(name));
                edges.note(Some(name), id);
            }
            edges.check().map_err(|error| error.to_string())
        };
        let refusal = issue(&["a", "b", "c"]).expect_err("a waits for b, b for c, c for a");
        assert!(refusal.contains("wait for each other: a for b for c for a; allowed"), "{refusal}");
        assert_eq!(issue(&["a", "b", "c", "a", "b", "c"]), Ok(()));
        let mut own = NamedEdges::default();
        own.add("a".to_owned(), ["a".to_owned()]);
        own.note(Some("a"), 0);
        assert!(own.check().expect_err("of itself").to_string().contains(": a for a;"));
    }

    #[test]
    fn test_edges_stay_in_one_dynamic_loop() {
        let mut edges = NamedEdges::default();
        edges.add("use".to_owned(), ["load".to_owned()]);
        edges.enter_loop(SiteId(1));
        edges.note(Some("load"), 0);
        edges.leave_loop();
        assert_eq!(edges.producers(Some("use")), [0]);
        edges.note(Some("use"), 1);
        let refusal = edges.check().expect_err("another loop").to_string();
        assert!(refusal.contains("lets use wait for load, which stands in another dynamic loop"), "{refusal}");
    }
}
