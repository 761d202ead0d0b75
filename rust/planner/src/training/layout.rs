//! How a model in training is laid out over ranks, and whether that divides.

use serde::{Deserialize, Serialize};

use super::recipe::{Recipe, Recompute};
use crate::hardware::Machine;
use crate::layout::{Layout, divisors};
use crate::roofline::Split;
use crate::shapes::Model;
use trn3_system::{Error, Result};

/// Degrees of parallelism and what goes with them.
///
/// Ranks are numbered with `tp` innermost, then `cp`, `dp` and, outermost, `pp`. Experts lie on `ep` ranks beside each
/// other; those of one group of `tp * cp` ranks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingLayout {
    /// Tensor parallelism.
    pub tp: u64,
    /// Stages of the pipeline.
    pub pp: u64,
    /// Replicas of the model that see other sequences.
    pub dp: u64,
    /// Ranks that share the tokens of a sequence.
    pub cp: u64,
    /// Ranks that share the experts of a layer.
    pub ep: u64,
    /// Parts of the model on each stage (interleaved schedule); 1 is plain 1F1B.
    pub interleave: u64,
    /// What is sharded over replicas: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too (FSDP).
    pub zero: u8,
    /// Sequences of a replica that pass at a time.
    pub micro_batch: u64,
    /// What is computed again.
    pub recompute: Recompute,
    /// Whether norms and residuals are split over `tp` along the sequence.
    pub sequence_parallel: bool,
    /// Physical cores of a logical one.
    pub lnc: u32,
}

impl TrainingLayout {
    /// One rank for everything, of `lnc` physical cores.
    pub fn one(lnc: u32) -> Self {
        Self {
            tp: 1,
            pp: 1,
            dp: 1,
            cp: 1,
            ep: 1,
            interleave: 1,
            zero: 0,
            micro_batch: 1,
            recompute: Recompute::Selective,
            sequence_parallel: true,
            lnc,
        }
    }

    /// Ranks of one replica.
    pub fn replica_ranks(&self) -> u64 {
        self.tp * self.cp * self.pp
    }

    /// All ranks.
    pub fn ranks(&self) -> u64 {
        self.replica_ranks() * self.dp
    }

    /// Replicas that share one set of experts.
    pub fn expert_replicas(&self) -> u64 {
        self.ep.div_ceil(self.tp * self.cp).max(1)
    }

    /// Ranks that hold the same part of weights outside of experts.
    pub fn data_ranks(&self) -> u64 {
        self.dp * self.cp
    }

    /// Ranks that hold the same part of experts.
    pub fn expert_data_ranks(&self) -> u64 {
        (self.dp / self.expert_replicas()).max(1)
    }

    /// Micro-batches that a replica accumulates in a step.
    pub fn micro_batches(&self, recipe: &Recipe) -> u64 {
        recipe.global_batch / (self.dp * self.micro_batch)
    }

    /// Part of a step in which a stage of the pipeline waits, over the part in which it works.
    pub fn bubble(&self, recipe: &Recipe) -> f64 {
        (self.pp - 1) as f64 / (self.interleave * self.micro_batches(recipe)) as f64
    }

    /// The split of one group of replicas that share experts.
    pub(super) fn split(&self) -> Split {
        Split { tp: self.tp, cp: self.cp, dp: self.expert_replicas(), ep: self.ep, pp: self.pp }
    }

    /// Its degrees in one line.
    pub fn name(&self) -> String {
        let mut name = format!("tp {} pp {} dp {}", self.tp, self.pp, self.dp);
        for (label, value, plain) in [("cp", self.cp, 1), ("ep", self.ep, 1), ("interleave", self.interleave, 1)] {
            if value != plain {
                name += &format!(" {label} {value}");
            }
        }
        name + &format!(" zero {} micro-batch {} recompute {}", self.zero, self.micro_batch, self.recompute.name())
    }

    /// Checks that model, batch and system divide by every degree.
    ///
    /// # Errors
    /// [`Error::Value`] that names the degree, what it does not divide, and what would.
    pub fn check(&self, model: &Model, machine: &Machine, recipe: &Recipe) -> Result<()> {
        for (name, value, most) in [
            ("tp", self.tp, 1 << 20),
            ("pp", self.pp, 1 << 20),
            ("cp", self.cp, 1 << 20),
            ("ep", self.ep, 1 << 20),
            ("dp", self.dp, 1 << 24),
            ("micro_batch", self.micro_batch, 1 << 24),
            ("interleave", self.interleave, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to {most}")));
            }
        }
        // Products of degrees stay exact below this, which no system comes near.
        let ranks: f64 = [self.tp, self.pp, self.cp, self.dp].iter().map(|&degree| degree as f64).product();
        if ranks > 1e12 {
            return Err(Error::Value(format!(
                "this layout has {ranks:.0e} ranks (tp {} x pp {} x cp {} x dp {}); {} has {} chips",
                self.tp, self.pp, self.cp, self.dp, machine.title, machine.chips
            )));
        }
        if self.zero > 3 {
            return Err(Error::Value(format!("zero is {}; allowed: 0, 1, 2, 3", self.zero)));
        }
        let groups = self.expert_replicas();
        if !self.dp.is_multiple_of(groups) || (groups > 1 && !self.ep.is_multiple_of(self.tp * self.cp)) {
            return Err(Error::Value(format!(
                "ep is {}: experts would lie on {groups} of {} replicas of {} ranks; what divides: {}",
                self.ep,
                self.dp,
                self.tp * self.cp,
                list(&self.expert_degrees(model))
            )));
        }
        Layout { split: self.split(), replicas: 1, lnc: self.lnc }.check(model, machine)?;
        let there = u64::from(machine.chips) * u64::from(machine.chip.rank(self.lnc)?.per_chip);
        if self.ranks() > there {
            let most = there / (self.replica_ranks() * groups) * groups;
            return Err(Error::Value(format!(
                "dp is {}: {} ranks (tp {} x pp {} x cp {} x dp); {} has {there} logical cores at lnc={} on {} chips; \
                 dp={most} would fit",
                self.dp,
                self.ranks(),
                self.tp,
                self.pp,
                self.cp,
                machine.title,
                self.lnc,
                machine.chips
            )));
        }
        if !recipe.sequence.is_multiple_of(self.cp) {
            return Err(Error::Value(format!("cp is {}: {} tokens do not divide by it", self.cp, recipe.sequence)));
        }
        let share = self.dp * self.micro_batch;
        if !recipe.global_batch.is_multiple_of(share) {
            let nearest = (recipe.global_batch / share).max(1) * share;
            return Err(Error::Value(format!(
                "global_batch is {}: dp {} x micro-batch {} do not divide it; {nearest} would",
                recipe.global_batch, self.dp, self.micro_batch
            )));
        }
        if self.interleave > 1 {
            let per_stage = model.layers / self.pp;
            if self.pp == 1 || !per_stage.is_multiple_of(self.interleave) {
                return Err(Error::Value(format!(
                    "interleave is {}: a stage has {per_stage} of {} layers on {} stages; what divides: {}",
                    self.interleave,
                    model.layers,
                    self.pp,
                    if self.pp == 1 { "1".to_owned() } else { list(&divisors(per_stage)) }
                )));
            }
            let micro_batches = self.micro_batches(recipe);
            if !micro_batches.is_multiple_of(self.pp) {
                return Err(Error::Value(format!(
                    "interleave is {}: {micro_batches} micro-batches are no multiple of the {} stages; interleave=1 would work",
                    self.interleave, self.pp
                )));
            }
        }
        Ok(())
    }

    /// Degrees of expert parallelism that this layout could have.
    pub(super) fn expert_degrees(&self, model: &Model) -> Vec<u64> {
        let Some(experts) = &model.experts else { return vec![1] };
        let (stage, all) = (self.tp * self.cp, self.tp * self.cp * self.dp);
        let fits = |ep: u64| {
            if ep <= stage {
                stage.is_multiple_of(ep) && experts.block.width.is_multiple_of(stage / ep)
            } else {
                all.is_multiple_of(ep) && ep.is_multiple_of(stage)
            }
        };
        divisors(experts.count).into_iter().filter(|&ep| fits(ep)).collect()
    }
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
