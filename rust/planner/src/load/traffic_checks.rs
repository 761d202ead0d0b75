//! Which fields of a request for traffic go together.

use trn3_system::{Error, Result};

use super::arrivals::ArrivalProcess;
use super::spread::NumberOrText;
use super::traffic_request::TrafficRequest;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The peak of diurnal arrivals over their mean: nights without a request.
const PEAK: f64 = 2.0;

impl TrafficRequest {
    /// Requests a second.
    pub(super) fn rate(&self) -> Result<f64> {
        match &self.rate {
            None => Ok(f64::INFINITY),
            Some(NumberOrText::Number(rate)) => Ok(*rate),
            Some(NumberOrText::Text(text)) => {
                let wrong = || Error::Value(format!("rate is '{text}'; allowed: requests a second above 0, or inf"));
                text.trim().parse().map_err(|_| wrong())
            }
        }
    }

    /// How they arrive.
    pub(super) fn process(&self) -> Result<ArrivalProcess> {
        let named = self.arrival.as_deref().unwrap_or(if self.burstiness.is_some() { "gamma" } else { "poisson" });
        let needed = |field: &str, value: Option<f64>| {
            value.ok_or_else(|| Error::Value(format!("arrival='{named}' needs {field}")))
        };
        let process = match named {
            "poisson" => ArrivalProcess::Poisson,
            "gamma" => ArrivalProcess::Gamma(needed("burstiness", self.burstiness)?),
            "constant" => ArrivalProcess::Constant,
            "burst" => {
                needed("burst_size", self.burst_size.map(|size| size as f64))?;
                ArrivalProcess::Burst(self.burst_size.unwrap_or(1))
            }
            "on_off" => ArrivalProcess::OnOff(needed("on", self.on)?, needed("off", self.off)?),
            "diurnal" => ArrivalProcess::Diurnal(self.period.unwrap_or(DAY), self.peak_to_mean.unwrap_or(PEAK)),
            other => return Err(Error::unknown("arrival", other, ArrivalProcess::NAMES)),
        };
        let figures = [
            ("burstiness", self.burstiness.is_some(), "gamma"),
            ("burst_size", self.burst_size.is_some(), "burst"),
            ("on", self.on.is_some(), "on_off"),
            ("off", self.off.is_some(), "on_off"),
            ("period", self.period.is_some(), "diurnal"),
            ("peak_to_mean", self.peak_to_mean.is_some(), "diurnal"),
        ];
        for (field, given, arrival) in figures {
            if given && arrival != named {
                return Err(Error::Value(format!("{field} is of arrival='{arrival}', and arrival is '{named}'")));
            }
        }
        process.check()?;
        if self.normalize && !matches!(named, "poisson" | "gamma" | "constant") {
            return Err(Error::Value(format!(
                "normalize is of poisson, gamma and constant arrivals, not of '{named}'"
            )));
        }
        Ok(process)
    }

    /// Refuses what only a rate gives a meaning to.
    pub(super) fn refuse_arrivals(&self, why: &str) -> Result<()> {
        let given = [
            ("arrival", self.arrival.is_some()),
            ("burstiness", self.burstiness.is_some()),
            ("burst_size", self.burst_size.is_some()),
            ("on", self.on.is_some()),
            ("off", self.off.is_some()),
            ("period", self.period.is_some()),
            ("peak_to_mean", self.peak_to_mean.is_some()),
            ("normalize", self.normalize),
        ];
        refuse(&given, why)
    }

    /// Refuses fields that do not go together.
    pub(super) fn check(&self) -> Result<()> {
        for (field, figure) in [
            ("requests", self.requests),
            ("users", self.users),
            ("max_concurrency", self.max_concurrency),
            ("prefixes", self.prefixes),
        ] {
            if figure == Some(0) {
                return Err(Error::Value(format!("{field} is 0; allowed: at least 1")));
            }
        }
        self.process()?;
        if self.users.is_some() {
            let why = "users send when they have their answers";
            refuse(&[("rate", self.rate.is_some())], why)?;
            self.refuse_arrivals(why)?;
        } else if self.rate.is_none() && self.trace.is_none() {
            self.refuse_arrivals("without a rate all requests arrive at second 0")?;
        }
        if self.normalize && self.turns.is_some() {
            return Err(Error::Value("normalize needs requests that are conversations: give no turns".to_owned()));
        }
        if self.trace.is_some() {
            let given = [
                ("input", self.input.is_some()),
                ("range_ratio", self.range_ratio.is_some()),
                ("longest_input", self.longest_input.is_some()),
                ("longest_context", self.longest_context.is_some()),
                ("prefix", self.prefix.is_some()),
                ("prefixes", self.prefixes.is_some()),
                ("turns", self.turns.is_some()),
            ];
            refuse(&given, "the trace says what its requests hold")?;
        }
        if self.prefixes.is_some() && self.prefix.is_none() {
            return Err(Error::Value("prefixes needs prefix, the tokens that they have".to_owned()));
        }
        Ok(())
    }
}

/// Refuses the first field that is given.
fn refuse(given: &[(&str, bool)], why: &str) -> Result<()> {
    match given.iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(Error::Value(format!("{field} does not go with this: {why}"))),
        None => Ok(()),
    }
}
