//! What passes leave out, and transfers that are left out since another one does their work.

use std::collections::{BTreeMap, BTreeSet};

use trn3_machine::Result;
use trn3_machine::site::SiteId;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::Edit;

use super::search::{About, Search};
use super::{AdviceKind, MadeTensor};
use crate::report::ChangeKind;

impl Search<'_> {
    /// What passes leave out: copies whose source is read instead, and fills that the first product overwrites.
    pub(super) fn changed(&mut self) -> Result<()> {
        let mut readers: BTreeMap<SiteId, BTreeSet<u32>> = BTreeMap::new();
        for change in self.changes.of_kind(ChangeKind::Forwarded) {
            let (Some(copy), Some(&reader)) = (change.other, self.numbers.get(&change.site)) else { continue };
            readers.entry(copy).or_default().insert(reader);
        }
        for (copy, readers) in readers {
            let Some(&line) = self.numbers.get(&copy) else { continue };
            let tensors = self.copied_at(copy);
            let lines = [line].into_iter().chain(readers).collect();
            let about = About { lines, tensors, ..About::default() };
            self.consider(AdviceKind::Direct, vec![Edit::Direct { copy }], about)?;
        }
        let mut dropped: BTreeMap<SiteId, usize> = BTreeMap::new();
        for change in self.changes.of_kind(ChangeKind::FillDropped) {
            *dropped.entry(change.site).or_default() += change.steps as usize;
        }
        for (site, steps) in dropped {
            let all = self.retimer.traces().iter().flat_map(|trace| &trace.steps).filter(|step| step.site == site);
            let Some(&line) = self.numbers.get(&site).filter(|_| all.count() == steps) else { continue };
            let about = About { lines: vec![line], ..About::default() };
            self.consider(AdviceKind::Dead, vec![Edit::Without { lines: vec![site] }], about)?;
        }
        Ok(())
    }

    /// The copy that a line makes, and what it is a copy of.
    fn copied_at(&self, copy: SiteId) -> Vec<MadeTensor> {
        let mut steps =
            self.retimer.traces().iter().flat_map(|trace| trace.steps.iter().map(move |step| (trace, step)));
        let Some((trace, step)) = steps.find(|(_, step)| step.site == copy) else { return Vec::new() };
        let operands = step.writes().chain(step.reads()).map(|operand| &trace.tensors[operand.tensor as usize]);
        let made = operands.filter_map(|tensor| {
            let line = *self.numbers.get(&tensor.site)?;
            Some(MadeTensor { name: tensor.name.to_string(), line })
        });
        made.collect()
    }

    /// Transfers of a line that could be one.
    pub(super) fn joined(&mut self) -> Result<()> {
        let steps = self.retimer.traces().iter().flat_map(|trace| &trace.steps);
        let transfers: BTreeSet<SiteId> =
            steps.filter(|step| matches!(step.work, Work::Dma(_))).map(|step| step.site).collect();
        for line in transfers {
            let Some(&number) = self.numbers.get(&line) else { continue };
            let about = About { lines: vec![number], ..About::default() };
            self.consider(AdviceKind::Join, vec![Edit::Joined { line }], about)?;
        }
        Ok(())
    }
}
