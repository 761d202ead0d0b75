//! What the passes change of a run, line by line.

use std::collections::BTreeMap;

use trn3_machine::site::SiteId;
use trn3_machine::trace::Retimer;

use super::AdviceKind;
use crate::level::CompileLevel;
use crate::passes::passes_of;
use crate::report::{Change, ChangeKind, PassReport};

/// Changes of the passes of the highest level, each with the pass that made it.
#[derive(Debug, Default)]
pub(super) struct PassChanges {
    all: Vec<(&'static str, Change)>,
}

impl PassChanges {
    /// Compiles what cores ran, up to what does not fit, and keeps what was changed.
    pub(super) fn of(retimer: &Retimer) -> Self {
        let mut all = Vec::new();
        for trace in retimer.traces() {
            let mut trace = trace.clone();
            trace.places.fill(None);
            for pass in passes_of(CompileLevel::NeuronxCc) {
                let mut report = PassReport::new(pass.name());
                if pass.run(&mut trace, &mut report).is_err() {
                    break;
                }
                all.extend(report.changes.into_iter().map(|change| (pass.name(), change)));
            }
        }
        Self { all }
    }

    /// Those of a kind.
    pub(super) fn of_kind(&self, kind: ChangeKind) -> impl Iterator<Item = &Change> {
        self.all.iter().map(|(_, change)| change).filter(move |change| change.kind == kind)
    }

    /// The pass that changes one of the lines as advised.
    pub(super) fn pass_of(
        &self,
        kind: AdviceKind,
        lines: &[u32],
        before: Option<u32>,
        numbers: &BTreeMap<SiteId, u32>,
    ) -> Option<&'static str> {
        let is_of = |change: &Change| {
            let line = numbers.get(&change.site);
            let other = change.other.and_then(|site| numbers.get(&site));
            match (before, lines) {
                // The first and the last of the lines, before a later one of the loop.
                (Some(before), &[first, last]) => {
                    line.is_some_and(|line| (first..=last).contains(line)) && other.is_some_and(|line| *line >= before)
                }
                _ => line.into_iter().chain(other).any(|line| lines.contains(line)),
            }
        };
        let found = self.all.iter().find(|(_, change)| kind.changes().contains(&change.kind) && is_of(change));
        found.map(|(pass, _)| *pass)
    }
}
