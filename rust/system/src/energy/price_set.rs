//! Prices that someone has named in public; each has its date and its source.

use serde::{Deserialize, Serialize};
use toml::{Table, Value as Toml};
use trn3_facts::files::why_no_toml;

use super::check;
use crate::error::{Error, Result};

/// Names and texts of the price sets of the crate.
const SETS: &str = trn3_facts::PRICES;

/// A price that someone has named in public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedPrice {
    /// Its name in the set.
    pub name: String,
    /// What one unit costs.
    pub value: f64,
    /// `USD/chip/h`, `USD/chip`, `USD/kWh` or `USD`.
    pub unit: String,
    /// When it was said, or read: a year and a month.
    pub date: String,
    /// Who said it.
    pub source: String,
}

/// Prices of one origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriceSet {
    /// Name of the set.
    pub name: String,
    /// Name for readers.
    pub title: String,
    /// The prices, in the order of the file.
    pub prices: Vec<NamedPrice>,
}

const PRICE_UNITS: [&str; 4] = ["USD/chip/h", "USD/chip", "USD/kWh", "USD"];

impl PriceSet {
    /// Names of the sets of the crate.
    ///
    /// # Errors
    /// [`Error::Spec`] if the crate's own file is broken.
    pub fn names() -> Result<Vec<String>> {
        Ok(Self::parse("prices.toml", SETS)?.into_iter().map(|set| set.name).collect())
    }

    /// A set of the crate.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn built_in(name: &str) -> Result<Self> {
        let sets = Self::parse("prices.toml", SETS)?;
        let found = sets.iter().find(|set| set.name == name).cloned();
        found.ok_or_else(|| Error::unknown("price set", name, sets.iter().map(|set| set.name.as_str())))
    }

    /// The sets that a TOML text holds; `file` names the text in messages.
    ///
    /// # Errors
    /// [`Error::Spec`] if the text is no TOML, or a price lacks its value, unit, date or source.
    pub fn parse(file: &str, text: &str) -> Result<Vec<Self>> {
        let broken = |what: String| Error::Spec(format!("{file}: {}", what.trim_end().replace('\n', " ")));
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| broken(format!("is not TOML: {}", why_no_toml(&error, text))))?;
        let mut sets = Vec::new();
        for (name, entry) in table {
            match (name.as_str(), entry) {
                ("schema", Toml::Integer(1)) => {}
                ("schema", other) => return Err(broken(format!("schema is {other}; allowed: 1"))),
                (_, Toml::Table(mut set)) => {
                    let title = match set.remove("title") {
                        Some(Toml::String(text)) => text,
                        _ => name.clone(),
                    };
                    let prices = set.remove("price").unwrap_or(Toml::Array(Vec::new()));
                    let prices = valued(prices).map_err(|error| broken(format!("{name}: {error}")))?;
                    let prices: Vec<NamedPrice> = prices.try_into().map_err(|error: toml::de::Error| {
                        broken(format!("{name}: {}; a price has name, value, unit, date, source", error.message()))
                    })?;
                    if let Some(key) = set.keys().next() {
                        return Err(broken(format!("{name}.{key} is unknown; allowed: title, price")));
                    }
                    prices
                        .iter()
                        .try_for_each(|price| sound(price).map_err(|error| broken(format!("{name}: {error}"))))?;
                    sets.push(Self { name, title, prices });
                }
                (_, other) => return Err(broken(format!("{name} is of type {}; needed: a table", other.type_str()))),
            }
        }
        if sets.is_empty() {
            return Err(broken("holds no set of prices; it needs a table, like [my-prices-2026-08]".to_owned()));
        }
        Ok(sets)
    }

    /// A price by name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the set has none of that name.
    pub fn price(&self, name: &str) -> Result<&NamedPrice> {
        let found = self.prices.iter().find(|price| price.name == name);
        found.ok_or_else(|| Error::unknown("price", name, self.prices.iter().map(|price| price.name.as_str())))
    }
}

/// Prices with values for figures that they are `from`.
fn valued(mut prices: Toml) -> Result<Toml> {
    for price in prices.as_array_mut().into_iter().flatten().filter_map(Toml::as_table_mut) {
        if let Some(from) = price.remove("from") {
            let from = from.as_str().ok_or_else(|| Error::Value(format!("from is {from}; needed: a text")))?;
            let unit = price.get("unit").and_then(Toml::as_str).unwrap_or_default();
            price.insert("value".to_owned(), Toml::Float(trn3_facts::figure(from, unit)?));
        }
    }
    Ok(prices)
}

fn sound(price: &NamedPrice) -> Result<()> {
    check(&format!("price {:?}", price.name), price.value, 0.0, true)?;
    if !PRICE_UNITS.contains(&price.unit.as_str()) {
        return Err(Error::unknown("unit", &price.unit, PRICE_UNITS));
    }
    if price.date.is_empty() || price.source.is_empty() {
        return Err(Error::Value(format!("price {:?} lacks its date or source", price.name)));
    }
    Ok(())
}
