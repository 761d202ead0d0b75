//! What pictures of a run need, made when it is first looked at: most runs are asked for their figures alone.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use trn3_machine::core::NeuronCore;
use trn3_machine::timing::graph::RunGraph;

use crate::kept_run::KeptRun;
use crate::recorded::Recorded;

/// [`Recorded`], made of what the machine kept when it is first looked at.
#[derive(Clone, Default)]
pub struct LazyRecorded {
    kept: Option<Arc<KeptRun>>,
    /// What the machine does not know: [`Recorded::sources`] and [`Recorded::callers`].
    sources: BTreeMap<String, String>,
    callers: BTreeMap<u32, Vec<(String, u32, String)>>,
    made: OnceLock<Recorded>,
}

impl LazyRecorded {
    /// Of a core's run so far, whose graph is this one.
    pub(crate) fn of(core: &mut NeuronCore, graph: Option<Arc<RunGraph>>) -> Self {
        Self { kept: Some(Arc::new(KeptRun::of(core, graph))), ..Self::default() }
    }

    /// Adds the texts of the files that lines are of, and the calls through which each site was first reached.
    pub fn tell(&mut self, sources: BTreeMap<String, String>, callers: BTreeMap<u32, Vec<(String, u32, String)>>) {
        match self.made.get_mut() {
            Some(made) => (made.sources, made.callers) = (sources, callers),
            None => (self.sources, self.callers) = (sources, callers),
        }
    }

    fn made(&self) -> &Recorded {
        self.made.get_or_init(|| {
            let made = self.kept.as_ref().map(|kept| kept.recorded()).unwrap_or_default();
            Recorded { sources: self.sources.clone(), callers: self.callers.clone(), ..made }
        })
    }
}

impl From<Recorded> for LazyRecorded {
    fn from(recorded: Recorded) -> Self {
        Self { made: OnceLock::from(recorded), ..Self::default() }
    }
}

impl Deref for LazyRecorded {
    type Target = Recorded;

    fn deref(&self) -> &Recorded {
        self.made()
    }
}

impl DerefMut for LazyRecorded {
    fn deref_mut(&mut self) -> &mut Recorded {
        self.made();
        self.made.get_mut().unwrap_or_else(|| unreachable!("it was just made"))
    }
}

impl fmt::Debug for LazyRecorded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.made.get())
    }
}

impl Serialize for LazyRecorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.made().serialize(serializer)
    }
}
