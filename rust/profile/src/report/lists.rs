//! Lists that all runs of a report share: what one run calls by a number, another may call by another.

use crate::run_columns::RunColumns;
use crate::shared::Shared;

/// What runs name.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) opcodes: Shared<String>,
    pub(super) labels: Shared<String>,
    pub(super) files: Shared<String>,
    /// File, line, function.
    pub(super) sites: Shared<(u64, u32, String)>,
    pub(super) names: Shared<String>,
    pub(super) shapes: Shared<Vec<u64>>,
    pub(super) dtypes: Shared<String>,
    /// Sites of calls, outermost first, the instruction's own last; the first is none.
    pub(super) stacks: Shared<Vec<u64>>,
}

/// The places in the lists of what a run calls by its own numbers.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) opcodes: Vec<u64>,
    pub(super) labels: Vec<u64>,
    pub(super) sites: Vec<u64>,
    /// The stack of each site.
    pub(super) stacks: Vec<u64>,
    pub(super) names: Vec<u64>,
    pub(super) shapes: Vec<u64>,
    pub(super) dtypes: Vec<u64>,
}

impl Lists {
    pub(super) fn places(&mut self, columns: &RunColumns) -> Places {
        let recorded = &columns.recorded;
        let mut site = |(file, line, function): &(String, u32, String)| {
            let file = self.files.number(file);
            self.sites.number(&(file, *line, function.clone()))
        };
        let sites: Vec<u64> = columns.sites.iter().map(&mut site).collect();
        self.stacks.number(&Vec::new());
        let mut stacks = vec![0; sites.len()];
        for (&of, callers) in recorded.callers.iter().filter(|(of, _)| (**of as usize) < sites.len()) {
            let stack: Vec<u64> = callers.iter().map(&mut site).chain([sites[of as usize]]).collect();
            stacks[of as usize] = self.stacks.number(&stack);
        }
        Places {
            sites,
            stacks,
            opcodes: self.opcodes.numbers(&columns.opcodes),
            labels: self.labels.numbers(&columns.labels),
            names: self.names.numbers(&recorded.names),
            shapes: self.shapes.numbers(&recorded.shapes),
            dtypes: self.dtypes.numbers(&recorded.dtypes),
        }
    }
}

/// The last part of a path.
pub(super) fn short(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}
