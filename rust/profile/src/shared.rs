//! Lists without repetitions, whose entries go by number.

use std::collections::HashMap;
use std::hash::Hash;

/// A list without repetitions.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) list: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { list: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Shared<T> {
    /// The place of a value, which is put at the end if it is new.
    pub(crate) fn number(&mut self, value: &T) -> u64 {
        if let Some(&known) = self.numbers.get(value) {
            return known;
        }
        let number = self.list.len() as u64;
        self.list.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    /// The places of values.
    pub(crate) fn numbers(&mut self, values: &[T]) -> Vec<u64> {
        values.iter().map(|value| self.number(value)).collect()
    }
}
