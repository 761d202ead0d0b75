//! Watts and dollars of a plan, from the energy model and a price that somebody named.

use serde::{Deserialize, Serialize};

use super::hardware::Chip;
use super::inference::Evaluation;
use super::phase::Activity;
use trn3_system::energy::cost::{PriceSet, rent};
use trn3_system::energy::{EnergyModel, EnergyWork, estimate};
use trn3_system::{Error, Result};

/// Passes of a byte of memory through SBUF: in, and out to the engines **(choice)**.
const SBUF_PASSES: f64 = 2.0;

/// What a plan draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanEnergy {
    /// Average power of a chip, watts, prompts included where an output length is given.
    pub watts_per_chip: f64,
    /// The same for all chips.
    pub watts: f64,
    /// Watts of a chip while it decodes.
    pub decode_watts_per_chip: f64,
    /// Watts of a chip while it reads prompts.
    pub prefill_watts_per_chip: f64,
    /// Joules of a generated token.
    pub joules_per_token: f64,
    /// The TDP that is assumed, watts.
    pub tdp: f64,
    /// Average power of a chip for each TDP that sources give: TDP, watts.
    pub variants: Vec<(f64, f64)>,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

/// What a plan costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanCost {
    /// US dollars a chip and hour.
    pub price_per_chip_hour: f64,
    /// Where that comes from.
    pub price: String,
    /// US dollars an hour for all chips.
    pub per_hour: f64,
    /// US dollars for a million generated tokens, prompts included where an output length is given.
    pub per_million_tokens: f64,
    /// What is not in it.
    pub not_included: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

/// A price of a chip and hour: a number, or a name in a set of dated prices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PriceSource {
    /// US dollars.
    Dollars(f64),
    /// A name of the crate's set of prices.
    Named(String),
}

/// The set of prices that names are looked up in.
const PRICES: &str = "facts-2026-08";

/// The figure of a chip's spec file that is its price of an hour, in US dollars.
const PRICE: &str = "price_hour";

/// The price that is used for a chip if none is given; said in the result.
fn usual(chip: &str) -> Option<&'static str> {
    match chip {
        "trainium1" => Some("trainium1_hour_reserved"),
        "trainium2" | "trainium3" => Some("trainium_hour_list"),
        "h100" => Some("h100_hour"),
        _ => None,
    }
}

fn work(activity: &Activity) -> Result<EnergyWork> {
    let mut work = EnergyWork {
        hbm_bytes: activity.hbm_bytes,
        link_bytes: activity.link_bytes,
        sbuf_bytes: SBUF_PASSES * activity.hbm_bytes,
        seconds: activity.seconds,
        ..EnergyWork::default()
    };
    for (dtype, flops) in &activity.flops {
        work.add(dtype, *flops)?;
    }
    Ok(work)
}

/// Joules of a chip for what it does, beyond what it draws at any load.
///
/// # Errors
/// Those of [`EnergyWork::add`].
pub(super) fn dynamic_joules(model: &EnergyModel, activity: &Activity) -> Result<f64> {
    if activity.seconds <= 0.0 {
        return Ok(0.0);
    }
    Ok(estimate(model, &work(activity)?)?.joules - model.static_watts * activity.seconds)
}

/// Tokens a second of all replicas: with the prompts where an output length is given.
fn tokens_per_second(plan: &Evaluation) -> f64 {
    plan.served_tokens_per_second_per_chip.map_or(plan.tokens_per_second, |rate| rate * plan.chips as f64)
}

/// What a plan draws.
///
/// # Errors
/// [`Error::Value`] if the TDP is not positive, or none is given and none is published.
pub fn energy(plan: &Evaluation, chip: &Chip, tdp: Option<f64>) -> Result<PlanEnergy> {
    let model = chip.energy(tdp)?;
    let decode = estimate(&model, &work(&plan.decode.activity)?)?;
    let prefill = estimate(&model, &work(&plan.prefill.activity)?)?;
    let split = plan.layout.split;
    let share = if plan.workload.output == 0 {
        0.0
    } else {
        let reading = plan.ttft / (split.dp * split.pp) as f64;
        reading / (reading + plan.workload.output as f64 * plan.tpot / plan.workload.batch as f64)
    };
    let mix = |reading: f64, decoding: f64| share * reading + (1.0 - share) * decoding;
    let watts_per_chip = mix(prefill.watts, decode.watts);
    let watts = watts_per_chip * plan.chips as f64;
    let variants = decode.variants.iter().zip(&prefill.variants).map(|(decode, prefill)| {
        let (tdp, decoding) = *decode;
        (tdp, mix(prefill.1, decoding))
    });
    let mut assumptions = decode.assumptions.clone();
    assumptions
        .push("energy: every byte of memory passes SBUF twice; hosts, switches and cooling not counted".to_owned());
    Ok(PlanEnergy {
        watts_per_chip,
        watts,
        decode_watts_per_chip: decode.watts,
        prefill_watts_per_chip: prefill.watts,
        joules_per_token: watts / tokens_per_second(plan),
        tdp: decode.tdp,
        variants: variants.collect(),
        assumptions,
    })
}

/// What a plan costs at a price, or at the one usual for its chip; `None` where there is neither.
///
/// # Errors
/// [`Error::Value`] if the price is not positive, [`Error::Unknown`] if there is none of its name.
pub fn cost(plan: &Evaluation, chip: &Chip, price: Option<&PriceSource>) -> Result<Option<PlanCost>> {
    let usual = usual(chip.like()).map(named).transpose()?;
    let own = of_the_chip(chip).filter(|(own, _)| usual.as_ref().is_none_or(|(dollars, _)| dollars != own));
    let (dollars, source) = match (price, own.or(usual)) {
        (Some(PriceSource::Dollars(dollars)), _) => (*dollars, "given".to_owned()),
        (Some(PriceSource::Named(name)), _) => named(name)?,
        (None, Some((dollars, source))) => (dollars, format!("{source}; taken as none was given (choice)")),
        (None, None) => return Ok(None),
    };
    let rental = rent(dollars, plan.chips as usize, 1.0, None, Some(tokens_per_second(plan)))?;
    let mut assumptions = rental.assumptions;
    assumptions.insert(0, format!("price: {dollars} USD a chip and hour ({source})"));
    Ok(Some(PlanCost {
        price_per_chip_hour: dollars,
        price: source,
        per_hour: rental.per_hour,
        per_million_tokens: rental.per_million_tokens.unwrap_or(f64::INFINITY),
        not_included: rental.not_included,
        assumptions,
    }))
}

/// The price of a chip and hour that its spec file has, in US dollars, and who says so.
fn of_the_chip(chip: &Chip) -> Option<(f64, String)> {
    let price = chip.facts.quantities.get(PRICE)?;
    let sources: Vec<&str> = price.sources.iter().map(|source| source.source.as_str()).collect();
    Some((price.number()?, format!("{}.{PRICE}: {}", chip.name, sources.join("; "))))
}

fn named(name: &str) -> Result<(f64, String)> {
    let set = PriceSet::built_in(PRICES)?;
    let price = set.price(name)?;
    if price.unit != "USD/chip/h" {
        return Err(Error::Value(format!("the price {name:?} is in {}; needed: USD/chip/h", price.unit)));
    }
    Ok((price.value, format!("{name}, {}, {}", price.date, price.source)))
}
