//! How a model is laid out on a system: which degrees of parallelism divide it, and which ranks it takes.

use serde::Serialize;

use super::hardware::Machine;
use super::roofline::Split;
use super::shapes::{Attention, Model};
use trn3_system::{Error, Result};

/// Replicas of a split model on logical cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// How one replica is split.
    #[serde(flatten)]
    pub split: Split,
    /// Replicas, which share nothing.
    pub replicas: u64,
    /// Physical cores of a logical one.
    pub lnc: u32,
}

impl Layout {
    /// Ranks of all replicas.
    pub fn ranks(&self) -> u64 {
        self.split.ranks() * self.replicas
    }

    /// Chips that they take, the last one perhaps in part.
    pub fn chips(&self, per_chip: u32) -> u64 {
        self.ranks().div_ceil(u64::from(per_chip))
    }

    /// Checks that the model divides by every degree and that the system has the ranks.
    ///
    /// # Errors
    /// [`Error::Value`] that names the degree, what it does not divide, and what would.
    pub fn check(&self, model: &Model, machine: &Machine) -> Result<()> {
        let Split { tp, cp, dp, ep, pp } = self.split;
        for (name, value) in [("tp", tp), ("cp", cp), ("dp", dp), ("ep", ep), ("pp", pp), ("replicas", self.replicas)] {
            if !(1..=1 << 20).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to 1048576")));
            }
        }
        divides(model, &self.split)?;
        let per_chip = machine.chip.rank(self.lnc)?.per_chip;
        let (needed, there) = (self.ranks(), u64::from(machine.chips) * u64::from(per_chip));
        if needed > there {
            let one = self.split.ranks();
            let advice = match there / one {
                0 => format!("a replica alone has {one}: a smaller tp, dp or pp would fit"),
                most => format!("replicas={most} would fit"),
            };
            return Err(Error::Value(format!(
                "this plan has {needed} ranks (tp {tp} x cp {cp} x dp {dp} x pp {pp} x replicas {}); {} has {there} \
                 logical cores at lnc={} on {} chips; {advice}",
                self.replicas, machine.title, self.lnc, machine.chips
            )));
        }
        Ok(())
    }
}

/// The degrees of tensor parallelism that a model divides by, up to a number of ranks, in rising order.
///
/// ```
/// use trn3_planner::{built_in_model, tensor_degrees};
///
/// assert_eq!(tensor_degrees(&built_in_model("gpt-oss-120b").unwrap(), 64), [1, 2, 4, 8, 16, 32, 64]);
/// ```
pub fn tensor_degrees(model: &Model, most: u64) -> Vec<u64> {
    divisors(model.attention.heads())
        .into_iter()
        .filter(|&tp| tp <= most && tensor_divides(model, tp).is_ok())
        .collect()
}

/// All divisors of a number, in rising order.
pub(super) fn divisors(number: u64) -> Vec<u64> {
    (1..=number).filter(|divisor| number.is_multiple_of(*divisor)).collect()
}

/// Whether heads of queries are padded to run on `tp` ranks: a power of two that divides all else of the model.
pub(super) fn pads_heads(model: &Model, tp: u64) -> bool {
    tensor_divides(model, tp).is_err() && tensor_padded(model, tp).is_ok()
}

fn tensor_padded(model: &Model, tp: u64) -> std::result::Result<(), String> {
    if tp.is_power_of_two() { blocks_divide(model, tp) } else { Err("no power of two".to_owned()) }
}

/// Whether heads and dense blocks divide by `tp`; else what does not.
fn tensor_divides(model: &Model, tp: u64) -> std::result::Result<(), String> {
    let heads = model.attention.heads();
    if !heads.is_multiple_of(tp) {
        return Err(format!("the {heads} heads of queries"));
    }
    if let Attention::Grouped { kv_heads, .. } = model.attention
        && !kv_heads.is_multiple_of(tp)
        && !tp.is_multiple_of(kv_heads)
    {
        return Err(format!("the {kv_heads} heads of keys and values"));
    }
    blocks_divide(model, tp)
}

/// Whether the blocks behind attention divide by `tp`; else what does not.
fn blocks_divide(model: &Model, tp: u64) -> std::result::Result<(), String> {
    let dense = model.feed_forward.width;
    if model.dense_layers() > 0 && !dense.is_multiple_of(tp) {
        return Err(format!("the {dense} columns of the feed-forward block"));
    }
    match model.experts.as_ref().and_then(|experts| experts.shared) {
        Some(shared) if !shared.width.is_multiple_of(tp) => {
            Err(format!("the {} columns of the shared experts", shared.width))
        }
        _ => Ok(()),
    }
}

fn divides(model: &Model, split: &Split) -> Result<()> {
    let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let refuse = |name: &str, value: u64, what: String, allowed: &[u64]| {
        let allowed = list(allowed);
        Err(Error::Value(format!(
            "{name} is {value}: {what} of {} do not divide by it; what divides: {allowed}",
            model.name
        )))
    };
    if let Err(what) = tensor_divides(model, split.tp)
        && tensor_padded(model, split.tp).is_err()
    {
        return refuse("tp", split.tp, what, &tensor_degrees(model, u64::MAX));
    }
    if !model.layers.is_multiple_of(split.pp) {
        return refuse("pp", split.pp, format!("the {} layers", model.layers), &divisors(model.layers));
    }
    let stage = split.stage();
    let Some(experts) = &model.experts else {
        if split.ep != 1 {
            return Err(Error::Value(format!(
                "ep is {}: {} has no experts, so only 1 would work",
                split.ep, model.name
            )));
        }
        return Ok(());
    };
    let fits = |ep: u64| {
        experts.count.is_multiple_of(ep) && stage.is_multiple_of(ep) && experts.block.width.is_multiple_of(stage / ep)
    };
    if fits(split.ep) {
        return Ok(());
    }
    let what = if !experts.count.is_multiple_of(split.ep) {
        format!("the {} experts", experts.count)
    } else if !stage.is_multiple_of(split.ep) {
        format!("the {stage} ranks of a stage (tp x cp x dp)")
    } else {
        format!(
            "{stage} ranks of a stage leave {} for each expert, by which the {} columns",
            stage / split.ep,
            experts.block.width
        )
    };
    let allowed: Vec<u64> = divisors(experts.count).into_iter().filter(|&ep| fits(ep)).collect();
    if allowed.is_empty() {
        return refuse("ep", split.ep, format!("{what} (no ep does with tp x cp x dp = {stage})"), &[]);
    }
    refuse("ep", split.ep, what, &allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in_model;

    fn refusal(model: &str, split: Split, replicas: u64) -> String {
        let machine = Machine::built_in("gen2").expect("loads");
        let layout = Layout { split, replicas, lnc: 2 };
        layout.check(&built_in_model(model).expect("there"), &machine).expect_err("refused").to_string()
    }

    #[test]
    fn test_plans_that_do_not_divide_are_refused_with_what_does() {
        let whole = Split::WHOLE;
        for (model, split, replicas, needles) in [
            ("llama-3-8b", Split { tp: 3, ..whole }, 1, ["tp is 3", "what divides: 1, 2, 4, 8, 16, 32"]),
            ("llama-3.3-70b", Split { pp: 3, ..whole }, 1, ["pp is 3", "1, 2, 4, 5, 8"]),
            ("llama-3-8b", Split { ep: 2, ..whole }, 1, ["ep is 2", "no experts"]),
            ("gpt-oss-120b", Split { tp: 8, ep: 3, ..whole }, 1, ["128 experts", "1, 2, 4, 8"]),
            ("gpt-oss-120b", Split { tp: 8, ep: 16, ..whole }, 1, ["8 ranks of a stage", "1, 2, 4, 8"]),
            ("llama-3-8b", Split { tp: 32, ..whole }, 100, ["3200 ranks", "replicas=18"]),
            ("llama-3-8b", Split { tp: 0, ..whole }, 1, ["tp is 0", "from 1"]),
            ("llama-3-8b", whole, 0, ["replicas is 0", "from 1"]),
        ] {
            let said = refusal(model, split, replicas);
            assert!(needles.iter().all(|needle| said.contains(needle)), "{said}");
        }
    }

    #[test]
    fn test_tensor_degrees_may_repeat_keys_but_never_split_one() {
        let degrees = tensor_degrees(&built_in_model("llama-3.3-70b").expect("there"), 64);
        assert_eq!(degrees, [1, 2, 4, 8, 16, 32, 64]);
        // 48 heads over 8 of keys: 3, 6 and 12 divide the one and neither divide nor repeat the other.
        let degrees = tensor_degrees(&built_in_model("mixtral-8x22b").expect("there"), 64);
        assert_eq!(degrees, [1, 2, 4, 8, 16, 24, 48]);
    }
}
