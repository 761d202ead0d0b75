//! Kinds of advice.

use std::str::FromStr;

use serde::Serialize;
use trn3_machine::{Error, Result};

use crate::report::ChangeKind;

/// What kind of a change is advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// What fills tensors the same way again is done once, before the loop or in its first iteration.
    Hoist,
    /// Tensors that are refilled in a loop are made in it.
    DoubleBuffer,
    /// Lines go to other engines.
    Engine,
    /// Transfers of lines are triggered by sequencers that the lines name.
    Queue,
    /// Transfers of neighbouring bytes become one.
    Join,
    /// What was copied is read in the place of the copy.
    Direct,
    /// The first lines of an iteration are issued before the last ones of the iteration before.
    Ahead,
    /// Lines whose results nothing reads, and fills that the first product overwrites.
    Dead,
}

impl AdviceKind {
    /// Every kind.
    pub const ALL: [AdviceKind; 8] = [
        AdviceKind::Hoist,
        AdviceKind::DoubleBuffer,
        AdviceKind::Engine,
        AdviceKind::Queue,
        AdviceKind::Join,
        AdviceKind::Direct,
        AdviceKind::Ahead,
        AdviceKind::Dead,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            AdviceKind::Hoist => "hoist",
            AdviceKind::DoubleBuffer => "double-buffer",
            AdviceKind::Engine => "engine",
            AdviceKind::Queue => "queue",
            AdviceKind::Join => "join",
            AdviceKind::Direct => "direct",
            AdviceKind::Ahead => "ahead",
            AdviceKind::Dead => "dead",
        }
    }

    /// What passes do of the kind.
    pub(super) const fn changes(self) -> &'static [ChangeKind] {
        match self {
            AdviceKind::Hoist => &[ChangeKind::Repeated],
            AdviceKind::DoubleBuffer => &[ChangeKind::Rotated],
            AdviceKind::Engine => &[ChangeKind::Moved],
            AdviceKind::Queue | AdviceKind::Join => &[ChangeKind::Transferred],
            AdviceKind::Direct => &[ChangeKind::Forwarded],
            AdviceKind::Ahead => &[ChangeKind::Earlier],
            AdviceKind::Dead => &[ChangeKind::Dead, ChangeKind::FillDropped],
        }
    }
}

impl FromStr for AdviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = AdviceKind::ALL.into_iter().find(|kind| kind.name() == name);
        let all = || AdviceKind::ALL.map(AdviceKind::name).join(", ");
        found.ok_or_else(|| Error::Value(format!("kind of advice is {name:?}; allowed: {}", all())))
    }
}
