//! What a fleet has to keep: a rate of requests, and limits on what users wait for.

use serde::Serialize;
use trn3_system::{Error, Result};

/// Figures that limits may be set on, as answers name them.
const STATISTICS: [&str; 6] = ["mean", "median", "p50", "p90", "p95", "p99"];
const WAITS: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];

/// A rate and limits: `500 req/s, p99 ttft < 1 s, p99 tpot < 50 ms`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeTarget {
    /// Requests a second.
    pub rate: f64,
    /// Figures by the names that answers have, and the most that each may be, milliseconds.
    pub limits: Vec<(String, f64)>,
}

impl SizeTarget {
    /// From its text.
    ///
    /// ```
    /// use trn3_planner::load::SizeTarget;
    ///
    /// let target = SizeTarget::parse("500 req/s, p99 ttft < 1 s, mean tpot <= 50ms").unwrap();
    /// assert_eq!((target.rate, target.limits[0].clone()), (500.0, ("p99_ttft_ms".to_owned(), 1000.0)));
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] that names the part that is not understood.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut rate, mut limits) = (None, Vec::new());
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(number) = part.strip_suffix("req/s").or_else(|| part.strip_suffix("requests/s")) {
                let value: f64 = number.trim().parse().map_err(|_| refusal(part))?;
                if !(value.is_finite() && value > 0.0) || rate.is_some() {
                    return Err(refusal(part));
                }
                rate = Some(value);
                continue;
            }
            let (figure, limit) = part.split_once('<').ok_or_else(|| refusal(part))?;
            limits
                .push((name(figure).ok_or_else(|| refusal(part))?, milliseconds(limit).ok_or_else(|| refusal(part))?));
        }
        let rate = rate.ok_or_else(|| {
            Error::Value(format!("size_for is {text:?}; needed: a rate, like '500 req/s, p99 ttft < 1 s'"))
        })?;
        Ok(Self { rate, limits })
    }

    /// The limit on the mean or any quantile of a wait, the tightest, in seconds.
    pub(super) fn tightest(&self, wait: &str) -> Option<f64> {
        let of = |(name, limit): &(String, f64)| name.contains(wait).then_some(limit / 1e3);
        self.limits.iter().filter_map(of).min_by(f64::total_cmp)
    }
}

fn refusal(part: &str) -> Error {
    Error::Value(format!(
        "size_for has {part:?}; needed: a rate like '500 req/s', and limits like 'p99 ttft < 1 s' of {} and {}",
        STATISTICS.join(", "),
        WAITS.join(", ")
    ))
}

/// `p99 ttft` as `p99_ttft_ms`; a wait alone is its 99th percentile.
fn name(figure: &str) -> Option<String> {
    let mut words = figure.split_whitespace();
    let (first, second) = (words.next()?.to_lowercase(), words.next().map(str::to_lowercase));
    let (statistic, wait) = match second {
        Some(wait) => (first, wait),
        None => ("p99".to_owned(), first),
    };
    let known = STATISTICS.contains(&statistic.as_str()) && WAITS.contains(&wait.as_str()) && words.next().is_none();
    known.then(|| format!("{statistic}_{wait}_ms"))
}

fn milliseconds(text: &str) -> Option<f64> {
    let text = text.trim_start_matches('=').trim();
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix("us"), text.strip_suffix('s')) {
        (Some(number), _, _) => (number, 1.0),
        (_, Some(number), _) => (number, 1e-3),
        (_, _, Some(number)) => (number, 1e3),
        _ => return None,
    };
    let value = number.trim().parse::<f64>().ok()? * factor;
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_what_is_not_understood_is_named() {
        for (text, needle) in [
            ("p99 ttft < 1 s", "a rate, like"),
            ("500", "\"500\""),
            ("5 req/s, p98 ttft < 1 s", "p98 ttft"),
            ("5 req/s, ttft < 1", "ttft < 1"),
            ("5 req/s, ttft < -1 s", "-1"),
            ("inf req/s", "inf"),
            ("5 req/s, 6 req/s", "6 req/s"),
        ] {
            let said = SizeTarget::parse(text).expect_err("refused").to_string();
            assert!(said.contains(needle), "{said}");
        }
        let target = SizeTarget::parse("5 req/s, tpot<20ms, p50 tpot < 10 ms").expect("fine");
        assert_eq!(target.limits, [("p99_tpot_ms".to_owned(), 20.0), ("p50_tpot_ms".to_owned(), 10.0)]);
        assert_eq!((target.tightest("tpot"), target.tightest("ttft")), (Some(0.01), None));
    }
}
