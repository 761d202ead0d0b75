//! Names of instructions and labels, as small numbers on the timeline.

use std::collections::HashMap;

/// Names seen in a run; label 0 is "none".
#[derive(Clone, Debug)]
pub struct Opcodes {
    opcodes: Vec<&'static str>,
    labels: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Default for Opcodes {
    fn default() -> Self {
        Self { opcodes: Vec::new(), labels: vec![String::new()], numbers: HashMap::new() }
    }
}

impl Opcodes {
    /// The number of an instruction's name.
    pub fn opcode(&mut self, name: &'static str) -> u16 {
        // A run has some sixty names at most, each the same constant: comparing addresses first makes this a few loads.
        let known = self.opcodes.iter().position(|known| std::ptr::eq(*known, name) || *known == name);
        let number = known.unwrap_or_else(|| {
            self.opcodes.push(name);
            self.opcodes.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    /// The number of a label.
    pub fn label(&mut self, label: &str) -> u32 {
        if let Some(&known) = self.numbers.get(label) {
            return known;
        }
        let number = u32::try_from(self.labels.len()).unwrap_or(0);
        self.labels.push(label.to_owned());
        self.numbers.insert(label.to_owned(), number);
        number
    }

    /// All instruction names, by number.
    pub fn opcodes(&self) -> &[&'static str] {
        &self.opcodes
    }

    /// All labels, by number.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }
}
