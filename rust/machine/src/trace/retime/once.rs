//! Tensors that are filled the same way again, and share the first fill.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use smallvec::SmallVec;

use super::generations::{covers, meet};
use super::{Draft, Item, StepSet, written};
use crate::site::SiteId;
use crate::timing::region::Rect;
use crate::trace::{NONE, Use};

/// Bytes of a tensor and the number of the value that they hold.
type Held = (SmallVec<[Rect; 1]>, u64);

impl Draft {
    /// Fills tensors made at these lines once where the same fills come again, before the loop `around` them if it may be.
    /// False where none does.
    pub(super) fn fill_once(&mut self, sites: &[SiteId], around: &[SiteId]) -> bool {
        self.make_anew(&|site| sites.contains(&site));
        let values = self.values();
        let writers = written(self);
        let mut first: HashMap<(SiteId, Vec<u64>), u32> = HashMap::new();
        let mut instead = vec![NONE; self.trace.tensors.len()];
        let mut gone = StepSet::new();
        let mut kept = Vec::new();
        for tensor in self.in_order() {
            let (of, steps) = (&self.trace.tensors[tensor as usize], &writers[tensor as usize]);
            let is_own = |step: &u32| {
                self.trace.steps[*step as usize].writes().all(|each| each.tensor == tensor) && !gone.contains(step)
            };
            if of.open().is_none() || !sites.contains(&of.site) || steps.is_empty() || !steps.iter().all(is_own) {
                continue;
            }
            let made: Vec<u64> = steps.iter().map(|&step| values[step as usize]).collect();
            match first.entry((of.site, made)) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(tensor);
                    kept.extend(steps);
                }
                std::collections::hash_map::Entry::Occupied(entry) => {
                    instead[tensor as usize] = *entry.get();
                    gone.extend(steps);
                }
            }
        }
        if gone.is_empty() {
            return false;
        }
        let shared: StepSet = instead.iter().copied().filter(|tensor| *tensor != NONE).collect();
        self.items.retain(|item| match item {
            Item::Step(step) => !gone.contains(step),
            Item::Came(tensor) => instead[*tensor as usize] == NONE,
            Item::Gone(tensor) => instead[*tensor as usize] == NONE && !shared.contains(tensor),
        });
        for step in &mut self.trace.steps {
            for operand in &mut step.operands {
                if instead[operand.tensor as usize] != NONE {
                    operand.tensor = instead[operand.tensor as usize];
                }
            }
        }
        self.go_before(&kept, around);
        true
    }

    /// Puts steps of one iteration before the first step of a loop, if nothing there has to come before them.
    fn go_before(&mut self, moved: &[u32], around: &[SiteId]) {
        let step = |number: u32| &self.trace.steps[number as usize];
        let is_of = |item: &Item| matches!(*item, Item::Step(number) if around.contains(&step(number).site));
        let scopes: HashSet<u32> = moved.iter().map(|&number| step(number).scope).collect();
        let place = |wanted: &u32| self.items.iter().position(|item| *item == Item::Step(*wanted));
        let (Some(start), Some(last)) = (self.items.iter().position(is_of), moved.iter().filter_map(place).max())
        else {
            return;
        };
        if scopes.len() > 1 || start > last || self.is_repeated(moved, start..last + 1) {
            return;
        }
        let made: HashSet<u32> =
            moved.iter().flat_map(|&number| step(number).writes()).map(|each| each.tensor).collect();
        let goes = |item: &Item| match item {
            Item::Step(number) => moved.contains(number),
            Item::Came(tensor) => made.contains(tensor),
            Item::Gone(_) => false,
        };
        let (first, mut order): (Vec<Item>, Vec<Item>) = self.items[start..=last].iter().partition(|item| goes(item));
        let at = start + first.len();
        order.splice(0..0, first);
        let before = self.items.splice(start..=last, order).collect::<Vec<_>>();
        if self.depends(start..at, at..last + 1) {
            self.items.splice(start..=last, before);
        }
    }

    /// Whether a line of some steps comes again after another line: it is of several iterations, each of which fills another
    /// tensor.
    fn is_repeated(&self, steps: &[u32], places: Range<usize>) -> bool {
        let mut over: HashSet<SiteId> = HashSet::new();
        let mut last: Option<SiteId> = None;
        self.items[places].iter().any(|item| {
            let Item::Step(number) = *item else { return false };
            let site = self.trace.steps[number as usize].site;
            if last != Some(site) {
                over.extend(last);
            }
            last = Some(site);
            steps.contains(&number) && over.contains(&site)
        })
    }

    /// Tensors that steps write, in the order in which they are written first.
    fn in_order(&self) -> Vec<u32> {
        let mut seen = vec![false; self.trace.tensors.len()];
        let mut order = Vec::new();
        for item in &self.items {
            let Item::Step(number) = *item else { continue };
            for operand in self.trace.steps[number as usize].writes() {
                if !std::mem::replace(&mut seen[operand.tensor as usize], true) {
                    order.push(operand.tensor);
                }
            }
        }
        order
    }

    /// A number for what each step makes: equal ones for steps that compute the same of the same.
    fn values(&self) -> Vec<u64> {
        let mut held: Vec<Vec<Held>> = vec![Vec::new(); self.trace.tensors.len()];
        let mut values = vec![0; self.trace.steps.len()];
        for item in &self.items {
            let Item::Step(number) = *item else { continue };
            let step = &self.trace.steps[number as usize];
            let mut hasher = DefaultHasher::new();
            match step.fingerprint {
                Some(fingerprint) if step.after.is_empty() && !step.marks.is_fence => fingerprint.hash(&mut hasher),
                _ => (u64::MAX, number).hash(&mut hasher),
            }
            for operand in &step.operands {
                let rects = operand.rects.iter().map(|rect| (&rect.rows, &rect.columns));
                (operand.usage, operand.offset, rects.collect::<SmallVec<[_; 1]>>()).hash(&mut hasher);
                if operand.usage == Use::Write {
                    continue;
                }
                // Before anything is written a tensor holds what no other one does, and the first product overwrites that.
                let of = &held[operand.tensor as usize];
                let is_first = step.marks.joins_products && !of.iter().any(|(rects, _)| meet(rects, operand));
                let overwrites = is_first && step.writes().any(|own| own.tensor == operand.tensor);
                if !overwrites && !of.iter().any(|(rects, _)| covers(rects, &operand.rects)) {
                    (operand.tensor, NONE).hash(&mut hasher);
                }
                for (rects, value) in of.iter().filter(|(rects, _)| meet(rects, operand)) {
                    rects.iter().for_each(|rect| (&rect.rows, &rect.columns).hash(&mut hasher));
                    value.hash(&mut hasher);
                }
            }
            let value = hasher.finish();
            values[number as usize] = value;
            for operand in step.writes() {
                let of = &mut held[operand.tensor as usize];
                of.retain(|(rects, _)| !covers(&operand.rects, rects));
                of.push((operand.rects.clone(), value));
            }
        }
        values
    }
}
