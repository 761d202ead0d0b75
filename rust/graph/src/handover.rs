//! What the cores of a logical core leave for one another in HBM, and where they have to wait for that.

use std::collections::HashMap;

use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::Rect;
use trn3_machine::view::View;

/// What cores wrote to tensors that they share, since they last met.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// By the tensor's storage: who wrote what of it.
    written: HashMap<u64, Vec<(usize, Rect)>>,
    last: Option<View>,
}

fn overlap(one: &Rect, other: &Rect) -> bool {
    let rows = one.rows.start < other.rows.end && other.rows.start < one.rows.end;
    rows && one.columns.start < other.columns.end && other.columns.start < one.columns.end
}

/// Takes a rectangle into one beside it; whether the two are one.
fn extended(rect: &mut Rect, next: &Rect) -> bool {
    if rect.rows == next.rows && rect.columns.end == next.columns.start {
        rect.columns.end = next.columns.end;
        return true;
    }
    let is_below = rect.columns == next.columns && rect.rows.end == next.rows.start;
    if is_below {
        rect.rows.end = next.rows.end;
    }
    is_below
}

impl Handover {
    /// Whether a core has to meet the others before it uses this memory: one of them wrote some of it since.
    pub(crate) fn is_due(&self, core: usize, view: &View) -> bool {
        if view.storage.buffer != Buffer::SharedHbm {
            return false;
        }
        let Some(written) = self.written.get(&view.storage.id) else { return false };
        if written.iter().all(|(writer, _)| *writer == core) {
            return false;
        }
        let used = view.regions().rects;
        let others = written.iter().filter(|(writer, _)| *writer != core);
        others.into_iter().any(|(_, rect)| used.iter().any(|used| overlap(used, rect)))
    }

    /// A core writes this memory.
    pub(crate) fn wrote(&mut self, core: usize, view: &View) {
        if view.storage.buffer != Buffer::SharedHbm {
            return;
        }
        let written = self.written.entry(view.storage.id).or_default();
        for rect in view.regions().rects {
            written.push((core, rect));
            // Strips one after another make bands, and bands a block.
            while let [.., (before, band), (after, strip)] = &mut written[..]
                && before == after
                && extended(band, strip)
            {
                written.pop();
            }
        }
        self.last = Some(view.clone());
    }

    /// The cores meet: what each did is there for all. What was written last, where anything was.
    pub(crate) fn met(&mut self) -> Option<View> {
        self.written.clear();
        self.last.take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trn3_machine::arch::ArchSpec;
    use trn3_machine::dtype::DType;

    use super::*;
    use crate::options::ExecutionOptions;
    use crate::{Emitter, TensorType};

    proptest! {
        #[test]
        fn test_a_core_waits_for_exactly_what_another_wrote(
            tiles in prop::collection::vec((0usize..2, 0i64..8, 0i64..8, 1i64..4, 1i64..4), 1..40),
            asked in (0i64..8, 0i64..8, 1i64..5, 1i64..5),
        ) {
            let options = ExecutionOptions { cores: 2, ..Default::default() };
            let mut emitter = Emitter::on_cores(ArchSpec::shared("trn3").unwrap(), false, &options).unwrap();
            let tensor = emitter.hbm("t", &TensorType::new(DType::Float32, &[12, 12])).unwrap();
            let part = |(row, column, height, width): (i64, i64, i64, i64)| {
                tensor.slice(0, row, row + height, 1).unwrap().slice(1, column, column + width, 1).unwrap()
            };
            let mut handover = Handover::default();
            let mut writers = [[0u8; 12]; 12];
            for (core, row, column, height, width) in tiles {
                handover.wrote(core, &part((row, column, height, width)));
                for row in row..row + height {
                    (column..column + width).for_each(|at| writers[row as usize][at as usize] |= 1 << core);
                }
            }
            let (row, column, height, width) = asked;
            for core in 0..2usize {
                let other = 1u8 << (1 - core);
                let is_expected = (row..row + height)
                    .any(|row| (column..column + width).any(|at| writers[row as usize][at as usize] & other > 0));
                prop_assert_eq!(handover.is_due(core, &part(asked)), is_expected);
            }
            prop_assert!(handover.met().is_some());
            prop_assert!(!handover.is_due(0, &tensor) && !handover.is_due(1, &tensor));
        }
    }
}
