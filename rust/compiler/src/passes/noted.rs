//! What a pass changes, counted line by line as it does.

use std::collections::BTreeMap;

use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::trace::Trace;

use crate::report::{Change, ChangeKind, PassReport};

type Place = (ChangeKind, SiteId, Option<SiteId>, Option<SiteId>, Option<u8>);

/// Changes, by what they are about.
#[derive(Default)]
pub(super) struct Noted {
    changes: BTreeMap<Place, (u32, Option<u32>)>,
}

impl Noted {
    /// One step changed.
    pub(super) fn add(
        &mut self,
        trace: &Trace,
        kind: ChangeKind,
        lines: (SiteId, Option<SiteId>),
        tensor: Option<u32>,
        engine: Option<Engine>,
    ) {
        let made = tensor.map(|tensor| trace.tensors[tensor as usize].site);
        let place = (kind, lines.0, lines.1, made, engine.map(|engine| engine as u8));
        self.changes.entry(place).or_insert((0, tensor)).0 += 1;
    }

    /// Writes all of them to a report.
    pub(super) fn report(self, trace: &Trace, report: &mut PassReport) {
        for ((kind, site, other, _, engine), (steps, tensor)) in self.changes {
            let tensor = tensor.map(|tensor| trace.tensors[tensor as usize].name.to_string());
            let engine = engine.and_then(|number| Engine::ALL.into_iter().find(|engine| *engine as u8 == number));
            report.changes.push(Change {
                kind,
                site,
                other,
                steps,
                tensor: tensor.filter(|name| !name.is_empty()),
                engine,
            });
        }
    }
}
