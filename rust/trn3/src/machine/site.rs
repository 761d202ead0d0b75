//! Lines of the kernel: every instruction, tensor and finding names the one it came from.

use std::collections::HashMap;

/// A line of a kernel's source, by number; 0 is "unknown".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A line of a kernel's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function that holds the line.
    pub function: String,
}

/// All lines a run has named.
#[derive(Debug)]
pub struct Sites {
    list: Vec<Site>,
    numbers: HashMap<Site, SiteId>,
}

impl Default for Sites {
    fn default() -> Self {
        let unknown = Site { file: String::new(), line: 0, function: String::new() };
        Self { list: vec![unknown], numbers: HashMap::new() }
    }
}

impl Sites {
    /// The number of a line, new or known.
    pub fn intern(&mut self, site: Site) -> SiteId {
        if let Some(&known) = self.numbers.get(&site) {
            return known;
        }
        let number = SiteId(u32::try_from(self.list.len()).unwrap_or(0));
        self.list.push(site.clone());
        self.numbers.insert(site, number);
        number
    }

    /// The line of a number.
    pub fn get(&self, id: SiteId) -> &Site {
        self.list.get(id.0 as usize).unwrap_or(&self.list[0])
    }

    /// All lines, by number.
    pub fn all(&self) -> &[Site] {
        &self.list
    }

    /// `file:line`, or an empty text for an unknown line.
    pub fn text(&self, id: SiteId) -> String {
        let site = self.get(id);
        if site.line == 0 { String::new() } else { format!("{}:{}", site.file, site.line) }
    }
}
