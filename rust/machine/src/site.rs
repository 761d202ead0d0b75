//! Lines of the kernel: every instruction, tensor and finding names the one it came from.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

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

/// All lines a run has named. Clones are the same list: the cores of a logical core share it.
#[derive(Clone, Debug)]
pub struct Sites {
    table: Arc<RwLock<Table>>,
}

#[derive(Debug)]
struct Table {
    list: Vec<Site>,
    numbers: HashMap<Site, SiteId>,
    /// What [`Sites::text`] gives for each number.
    texts: Vec<String>,
}

impl Default for Sites {
    fn default() -> Self {
        let unknown = Site { file: String::new(), line: 0, function: String::new() };
        let table = Table { list: vec![unknown], numbers: HashMap::new(), texts: vec![String::new()] };
        Self { table: Arc::new(RwLock::new(table)) }
    }
}

impl Sites {
    /// The number of a line, new or known.
    pub fn intern(&self, site: Site) -> SiteId {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = table.numbers.get(&site) {
            return known;
        }
        let number = SiteId(u32::try_from(table.list.len()).unwrap_or(0));
        table.texts.push(if site.line == 0 { String::new() } else { format!("{}:{}", site.file, site.line) });
        table.list.push(site.clone());
        table.numbers.insert(site, number);
        number
    }

    /// The line of a number.
    pub fn get(&self, id: SiteId) -> Site {
        let table = self.read();
        table.list.get(id.0 as usize).unwrap_or(&table.list[0]).clone()
    }

    /// All lines, by number.
    pub fn all(&self) -> Vec<Site> {
        self.read().list.clone()
    }

    /// What names lines, those yet to come included, as [`Sites::text`] does.
    pub fn namer(&self) -> impl Fn(SiteId) -> String + Send + Sync + 'static {
        let sites = self.clone();
        move |id| sites.text(id)
    }

    /// `file:line`, or an empty text for an unknown line.
    pub fn text(&self, id: SiteId) -> String {
        self.read().texts.get(id.0 as usize).cloned().unwrap_or_default()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}
