//! Work divided over the cores of a logical core, by what it makes: sums stay whole, so that no bit changes.
//!
//! - **(choice)** What falls into parts that do not need one another, and has tensors of some length, is done half and half;
//!   all else on the first core.
//! - **(choice)** Where a core needs what another one wrote, all meet in a barrier first, at the first need since they last
//!   met: it is done before the work that needs it is divided.

use std::ops::Range;

use trn3_machine::core::At;
use trn3_machine::engine::Engine;
use trn3_machine::isa::exchange::CoreBarrier;
use trn3_machine::meeting::{self, Part};
use trn3_machine::view::View;

use crate::core_shares::{CorePlace, CoreShare};
use crate::emitter::Emitter;
use crate::error::Result;

/// The engine that waits in barriers **(choice)**: the one that computes nothing.
const WAITING: Engine = Engine::Sync;

impl Emitter {
    /// Shares of `count` things to do on tensors of at most so many elements.
    pub(crate) fn shares(&self, elements: usize, count: usize) -> Vec<CoreShare> {
        let cores = self.cores();
        if cores == 1 || self.place().is_share || count < cores || elements < self.share_from() {
            return vec![CoreShare { core: None, items: 0..count }];
        }
        let start = |core: usize| (core * count).div_ceil(cores);
        (0..cores).map(|core| CoreShare { core: Some(core), items: start(core)..start(core + 1) }).collect()
    }

    /// What follows is of this share; where it was before comes back.
    pub(crate) fn enter(&mut self, share: &CoreShare) -> CorePlace {
        let before = self.place();
        if let Some(core) = share.core {
            self.set_place(CorePlace { core, is_share: true });
        }
        before
    }

    /// Lets the cores meet where one of the shares needs what another core wrote.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn prepare(&mut self, shares: &[CoreShare], needs: &dyn Fn(&Range<usize>) -> Vec<View>) -> Result<()> {
        if self.cores() == 1 {
            return Ok(());
        }
        for share in shares {
            let core = share.core.unwrap_or(self.place().core);
            for view in needs(&share.items) {
                self.wait_for(core, &view)?;
            }
        }
        Ok(())
    }

    /// Does `count` things on tensors of at most so many elements, the first ones on the first core and the last ones on the
    /// last; `needs` are views in HBM that some of them read.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn divided(
        &mut self,
        elements: usize,
        count: usize,
        needs: &dyn Fn(&Range<usize>) -> Vec<View>,
        work: &mut dyn FnMut(&mut Self, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let shares = self.shares(elements, count);
        self.prepare(&shares, needs)?;
        for share in shares {
            let before = self.enter(&share);
            work(self, share.items)?;
            self.set_place(before);
        }
        Ok(())
    }

    /// Lets the cores meet if this one needs what another one wrote.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn wait_for(&mut self, core: usize, view: &View) -> Result<()> {
        if self.handover.is_due(core, view) { self.barrier() } else { Ok(()) }
    }

    /// What every core goes by is there for all.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn wait_for_all(&mut self, view: &View) -> Result<()> {
        (0..self.cores()).try_for_each(|core| self.wait_for(core, view))
    }

    /// Lets the cores meet, if any of them wrote what another one may need.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        let Some(last) = self.handover.met() else { return Ok(()) };
        let instruction = CoreBarrier { data: View::whole(last.storage), engine: WAITING };
        let (site, label) = self.named();
        let label = label.to_owned();
        let at = At { site, label: Some(&label), after: &[] };
        let cores = self.all_cores().iter_mut();
        let mut parts: Vec<_> = cores.map(|core| Part { core, instruction: &instruction, at }).collect();
        meeting::core_barrier(&mut parts)?;
        Ok(())
    }
}
