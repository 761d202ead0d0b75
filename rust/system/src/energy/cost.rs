//! Cost of owning and of renting, from prices that the caller names; there is no price in here.

use serde::{Deserialize, Serialize};

pub use super::price_set::{NamedPrice, PriceSet};
use super::{check, check_share};
use crate::error::{Error, Result};

/// Hours of a year **(choice:** 365 days**)**.
pub const HOURS_PER_YEAR: f64 = 8760.0;

/// What owning a system takes. Every field has to be given; nothing has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ownership {
    /// Price of the whole, US dollars.
    pub capex: f64,
    /// Years of use, written off evenly.
    pub years: f64,
    /// Average power of the equipment in that time, kilowatts.
    pub kilowatts: f64,
    /// Power of the building over power of the equipment, at least 1.
    pub pue: f64,
    /// Price of electricity, US dollars a kilowatt-hour.
    pub price_kwh: f64,
    /// Share of all hours in which the system works.
    pub utilisation: f64,
}

impl Ownership {
    fn check(&self) -> Result<()> {
        check("capex", self.capex, 0.0, false)?;
        check("years", self.years, 0.0, true)?;
        check("kW", self.kilowatts, 0.0, false)?;
        check("pue", self.pue, 1.0, false)?;
        check("price_kwh", self.price_kwh, 0.0, false)?;
        check_share("utilisation", self.utilisation)?;
        Ok(())
    }

    fn electricity_per_hour(&self) -> f64 {
        self.kilowatts * self.pue * self.price_kwh
    }

    fn capital_per_hour(&self) -> f64 {
        self.capex / (self.years * HOURS_PER_YEAR)
    }
}

/// What it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemCost {
    /// US dollars over all years.
    pub total: f64,
    /// Share of `total` that bought the equipment.
    pub capital: f64,
    /// Share of `total` that bought electricity.
    pub electricity: f64,
    /// US dollars an hour, used or not.
    pub per_hour: f64,
    /// US dollars for an hour of one PFLOPS at the peak that was given; none was, none is.
    pub per_pflop_hour: Option<f64>,
    /// US dollars for a million tokens at the rate that was given.
    pub per_million_tokens: Option<f64>,
    /// What is not in it.
    pub not_included: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

const NOT_INCLUDED: [&str; 4] =
    ["network and storage outside of the system", "staff and software", "interest and taxes", "resale value"];

fn per_work(per_hour: f64, utilisation: f64, pflops: Option<f64>, tokens: Option<f64>) -> Result<[Option<f64>; 2]> {
    let per = |name: &str, amount: Option<f64>, hour: f64| -> Result<Option<f64>> {
        amount.map(|amount| Ok(per_hour / (check(name, amount, 0.0, true)? * utilisation * hour))).transpose()
    };
    Ok([per("pflops", pflops, 1.0)?, per("tokens_per_second", tokens, 3600.0 / 1e6)?])
}

fn missing(pflops: Option<f64>, tokens: Option<f64>) -> impl Iterator<Item = String> {
    let pflops = pflops.is_none().then(|| "cost of a PFLOP-hour (pflops or system not given)".to_owned());
    let tokens = tokens.is_none().then(|| "cost of a million tokens (tokens_per_second not given)".to_owned());
    pflops.into_iter().chain(tokens)
}

/// Cost of owning a system that has `pflops` PFLOPS and gives `tokens_per_second` while it works.
///
/// # Errors
/// [`Error::Value`] if an input is negative or not finite, the PUE below 1, or the utilisation not above 0 and at most 1.
///
/// ```
/// use trn3_system::energy::cost::{Ownership, own};
///
/// let ownership =
///     Ownership { capex: 876_000.0, years: 1.0, kilowatts: 100.0, pue: 1.2, price_kwh: 0.1, utilisation: 0.5 };
/// let cost = own(&ownership, Some(112.0), None).unwrap();
/// assert_eq!(cost.per_hour, 112.0); // 100 of capital, 12 of electricity
/// assert_eq!(cost.per_pflop_hour, Some(2.0));
/// ```
pub fn own(ownership: &Ownership, pflops: Option<f64>, tokens_per_second: Option<f64>) -> Result<SystemCost> {
    ownership.check()?;
    let hours = ownership.years * HOURS_PER_YEAR;
    let electricity = ownership.electricity_per_hour();
    let per_hour = ownership.capital_per_hour() + electricity;
    let [per_pflop_hour, per_million_tokens] = per_work(per_hour, ownership.utilisation, pflops, tokens_per_second)?;
    Ok(SystemCost {
        total: per_hour * hours,
        capital: ownership.capex,
        electricity: electricity * hours,
        per_hour,
        per_pflop_hour,
        per_million_tokens,
        not_included: NOT_INCLUDED.map(str::to_owned).into_iter().chain(missing(pflops, tokens_per_second)).collect(),
        assumptions: vec![
            format!(
                "capex is written off evenly over {} years of 8,760 hours, without interest (choice)",
                ownership.years
            ),
            format!("{} kW are drawn in all hours, whether the system works or not (choice)", ownership.kilowatts),
            format!("the system works in {} of the hours", ownership.utilisation),
        ],
    })
}

/// Cost of renting `chips` chips at `price` US dollars a chip and hour.
///
/// # Errors
/// As [`own`].
///
/// ```
/// let cost = trn3_system::energy::cost::rent(0.5, 16, 0.5, None, Some(1000.0)).unwrap();
/// assert_eq!(cost.per_hour, 8.0);
/// assert!((cost.per_million_tokens.unwrap() - 8.0 / 1.8).abs() < 1e-12);
/// ```
pub fn rent(
    price: f64,
    chips: usize,
    utilisation: f64,
    pflops: Option<f64>,
    tokens_per_second: Option<f64>,
) -> Result<SystemCost> {
    check("price", price, 0.0, true)?;
    check("chips", chips as f64, 1.0, false)?;
    check_share("utilisation", utilisation)?;
    let per_hour = price * chips as f64;
    let [per_pflop_hour, per_million_tokens] = per_work(per_hour, utilisation, pflops, tokens_per_second)?;
    let not_included = ["storage and traffic out of the cloud", "staff and software"].map(str::to_owned);
    Ok(SystemCost {
        total: per_hour,
        capital: 0.0,
        electricity: 0.0,
        per_hour,
        per_pflop_hour,
        per_million_tokens,
        not_included: not_included.into_iter().chain(missing(pflops, tokens_per_second)).collect(),
        assumptions: vec![
            format!("{price} USD a chip and hour pay for everything the provider does, electricity too"),
            format!("the rented chips work in {utilisation} of the hours"),
        ],
    })
}

/// What one system may cost if a claim against a peer holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Implied {
    /// How the claim is read.
    pub reading: String,
    /// Highest price of the system over the price of the peer.
    pub ratio: f64,
    /// Highest price of the system, US dollars; none without the peer's price.
    pub capex: Option<f64>,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

/// The running cost of a system and of its peer, where a claim is about more than the purchase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningCost {
    /// Years of use of both.
    pub years: f64,
    /// Average power of the system, kilowatts.
    pub kilowatts: f64,
    /// Average power of the peer, kilowatts.
    pub peer_kilowatts: f64,
    /// Power of the building over power of the equipment.
    pub pue: f64,
    /// US dollars a kilowatt-hour.
    pub price_kwh: f64,
}

/// Solves a claim of `claim` better cost per PFLOPS for the purchase price that makes it true.
///
/// Two readings: performance per cost `claim` higher, and cost per performance `claim` lower. Without `running` the
/// purchase alone counts. With it, the whole cost of ownership does, which needs `peer_capex`.
///
/// # Errors
/// [`Error::Value`] if the claim is not above 0 and below 1, an input is not positive, `running` comes without a price of
/// the peer, or electricity alone already costs more than the claim allows.
///
/// ```
/// use trn3_system::energy::cost::implied_capex;
///
/// let [more_for_a_dollar, dollars_for_less] = implied_capex(0.30, 362.448, 360.0, None, None).unwrap();
/// assert_eq!(format!("{:.2} {:.2}", more_for_a_dollar.ratio, dollars_for_less.ratio), "0.77 0.70");
/// ```
pub fn implied_capex(
    claim: f64,
    pflops: f64,
    peer_pflops: f64,
    peer_capex: Option<f64>,
    running: Option<&RunningCost>,
) -> Result<[Implied; 2]> {
    if !(claim > 0.0 && claim < 1.0) {
        return Err(Error::Value(format!("claim is {claim}; it is a share: above 0, below 1, like 0.30")));
    }
    check("pflops", pflops, 0.0, true)?;
    check("peer_pflops", peer_pflops, 0.0, true)?;
    peer_capex.map(|capex| check("peer_capex", capex, 0.0, true)).transpose()?;
    let energy = running.map(|running| -> Result<(f64, f64)> {
        let ownership = |kilowatts| Ownership {
            capex: 0.0,
            years: running.years,
            kilowatts,
            pue: running.pue,
            price_kwh: running.price_kwh,
            utilisation: 1.0,
        };
        let total = |kilowatts| own(&ownership(kilowatts), None, None).map(|cost| cost.electricity);
        Ok((total(running.kilowatts)?, total(running.peer_kilowatts)?))
    });
    let energy = energy.transpose()?;
    let solve = |reading: &str, factor: f64| -> Result<Implied> {
        let mut assumptions =
            vec![format!("peaks of {pflops} and {peer_pflops} PFLOPS as marketed, used equally well by both")];
        let (ratio, capex) = match (energy, peer_capex) {
            (Some(_), None) => {
                return Err(Error::Value(
                    "running costs without the peer's price; give peer_capex=..., in US dollars".to_owned(),
                ));
            }
            (Some((own, peer)), Some(peer_capex)) => {
                let capex = (peer_capex + peer) * pflops / peer_pflops * factor - own;
                if capex <= 0.0 {
                    return Err(Error::Value(format!(
                        "no price makes the claim true: electricity alone costs {own:.0} USD, the claim leaves {:.0}",
                        capex + own
                    )));
                }
                assumptions
                    .push("total cost is the purchase and electricity; the rest is equal or left out".to_owned());
                (capex / peer_capex, Some(capex))
            }
            (None, peer_capex) => {
                let ratio = pflops / peer_pflops * factor;
                assumptions.push("all costs of ownership are in the ratio of the purchase prices".to_owned());
                (ratio, peer_capex.map(|capex| capex * ratio))
            }
        };
        Ok(Implied { reading: reading.to_owned(), ratio, capex, assumptions })
    };
    let percent = format!("{}", (claim * 1e4).round() / 100.0);
    Ok([
        solve(&format!("{percent} percent more performance for a dollar"), 1.0 / (1.0 + claim))?,
        solve(&format!("{percent} percent less cost for the same performance"), 1.0 - claim)?,
    ])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ownership() -> Ownership {
        Ownership { capex: 3e6, years: 4.0, kilowatts: 144.0, pue: 1.15, price_kwh: 0.07, utilisation: 0.6 }
    }

    #[test]
    fn test_own_refuses_what_cannot_be() {
        for (name, wrong) in [
            ("utilisation", Ownership { utilisation: 0.0, ..ownership() }),
            ("utilisation", Ownership { utilisation: 1.1, ..ownership() }),
            ("capex", Ownership { capex: -1.0, ..ownership() }),
            ("years", Ownership { years: 0.0, ..ownership() }),
            ("pue", Ownership { pue: 0.9, ..ownership() }),
            ("price_kwh", Ownership { price_kwh: f64::NAN, ..ownership() }),
            ("kW", Ownership { kilowatts: f64::INFINITY, ..ownership() }),
        ] {
            let text = own(&wrong, None, None).expect_err(name).to_string();
            assert!(text.starts_with(name), "{text}");
        }
        assert!(own(&ownership(), Some(0.0), None).expect_err("zero").to_string().contains("pflops"));
    }

    #[test]
    fn test_what_is_not_given_is_listed() {
        let cost = own(&ownership(), None, Some(1e5)).expect("works");
        assert!(cost.per_pflop_hour.is_none() && cost.per_million_tokens.is_some());
        assert!(cost.not_included.iter().any(|line| line.contains("PFLOP-hour")));
    }

    #[test]
    fn test_implied_capex_makes_the_claim_true() {
        let running = RunningCost { years: 4.0, kilowatts: 144.0, peer_kilowatts: 132.0, pue: 1.2, price_kwh: 0.08 };
        let solved = implied_capex(0.30, 362.448, 360.0, Some(3.5e6), Some(&running)).expect("solves");
        let cost = |capex: f64, kilowatts: f64, pflops: f64| {
            let ownership = Ownership { capex, years: 4.0, kilowatts, pue: 1.2, price_kwh: 0.08, utilisation: 0.7 };
            own(&ownership, Some(pflops), None).expect("works").per_pflop_hour.expect("given")
        };
        let peer = cost(3.5e6, 132.0, 360.0);
        let first = cost(solved[0].capex.expect("given"), 144.0, 362.448);
        let second = cost(solved[1].capex.expect("given"), 144.0, 362.448);
        assert!((peer / first - 1.3).abs() < 1e-12);
        assert!((second / peer - 0.7).abs() < 1e-12);
    }

    #[test]
    fn test_implied_capex_refuses() {
        let running = RunningCost { years: 4.0, kilowatts: 1e6, peer_kilowatts: 1.0, pue: 1.2, price_kwh: 0.08 };
        for (claim, capex, running, needle) in [
            (0.0, None, None, "claim is 0"),
            (30.0, None, None, "claim is 30"),
            (0.3, None, Some(&running), "give peer_capex"),
            (0.3, Some(1e6), Some(&running), "no price makes the claim true"),
        ] {
            let text = implied_capex(claim, 1.0, 1.0, capex, running).expect_err(needle).to_string();
            assert!(text.contains(needle), "{text}");
        }
    }

    #[test]
    fn test_price_sets_load_and_refuse() {
        for name in PriceSet::names().expect("loads") {
            assert!(!PriceSet::built_in(&name).expect("loads").prices.is_empty());
        }
        let set = PriceSet::built_in("facts-2026-08").expect("loads");
        assert_eq!(set.price("h100_hour").expect("there").value, 3.0);
        assert!(set.price("h100").expect_err("none").to_string().contains("\"h100_hour\""));
        for (text, needle) in [
            ("[a]\n[[a.price]]\nname = \"x\"\nvalue = 1\nunit = \"USD\"", "missing field"),
            ("[a]\n[[a.price]]\nname = \"x\"\nvalue = 0\nunit = \"USD\"\ndate = \"2026\"\nsource = \"s\"", "is 0"),
            ("[a]\n[[a.price]]\nname = \"x\"\nvalue = 1\nunit = \"EUR\"\ndate = \"2026\"\nsource = \"s\"", "EUR"),
            ("[a]\nprices = 3", "a.prices is unknown"),
            ("schema = 3", "schema is 3"),
            ("", "holds no set"),
        ] {
            let error = PriceSet::parse("mine.toml", text).expect_err(needle).to_string();
            assert!(error.contains(needle) && error.contains("mine.toml"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn test_cost_rises_with_price_and_falls_with_use(
            capex in 1.0..1e8f64, price in 0.001..1.0f64, use_ in 0.05..0.95f64,
        ) {
            let base = Ownership { capex, price_kwh: price, utilisation: use_, ..ownership() };
            let cost = |ownership: &Ownership| own(ownership, Some(100.0), Some(1e4)).unwrap();
            let first = cost(&base);
            prop_assert!((first.capital + first.electricity - first.total).abs() <= 1e-9 * first.total);
            let dearer = cost(&Ownership { capex: capex * 1.1, ..base.clone() });
            let busier = cost(&Ownership { utilisation: use_ + 0.05, ..base });
            prop_assert!(dearer.per_pflop_hour > first.per_pflop_hour);
            prop_assert!(busier.per_million_tokens < first.per_million_tokens);
            prop_assert_eq!(busier.per_hour, first.per_hour);
        }
    }
}
