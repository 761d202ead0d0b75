//! Edges between instructions by their names, beyond what data demands: what a kernel's own schedule asks for.

use std::collections::HashMap;

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

    /// Refuses edges whose names no instruction had, and edges between different dynamic loops.
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
        match self.unknown()[..] {
            [] => Ok(()),
            ref unknown => Err(Error::Value(format!(
                "with_schedule names {}, which no instruction of the run has as name=",
                unknown.join(", ")
            ))),
        }
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
