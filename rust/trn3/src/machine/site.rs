//! Lines of the kernel: every instruction, tensor and finding names the one it came from.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

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
    /// What [`Sites::text`] gives for each number, for those who only name lines.
    texts: Arc<RwLock<Vec<String>>>,
}

impl Default for Sites {
    fn default() -> Self {
        let unknown = Site { file: String::new(), line: 0, function: String::new() };
        Self { list: vec![unknown], numbers: HashMap::new(), texts: Arc::new(RwLock::new(vec![String::new()])) }
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
        let text = self.text(number);
        self.texts.write().unwrap_or_else(PoisonError::into_inner).push(text);
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

    /// What names lines, those yet to come included, as [`Sites::text`] does.
    pub fn namer(&self) -> impl Fn(SiteId) -> String + Send + Sync + 'static {
        let texts = self.texts.clone();
        move |id| {
            let texts = texts.read().unwrap_or_else(PoisonError::into_inner);
            texts.get(id.0 as usize).cloned().unwrap_or_default()
        }
    }

    /// `file:line`, or an empty text for an unknown line.
    pub fn text(&self, id: SiteId) -> String {
        let site = self.get(id);
        if site.line == 0 { String::new() } else { format!("{}:{}", site.file, site.line) }
    }
}
