//! What-ifs as texts, `NAME:FIGURE=VALUE,FIGURE=+20%`: one form for systems and for cores.

use crate::error::{Error, Result};
use crate::show::rounded;

/// The changes that a text lists: what, and to what.
///
/// # Errors
/// [`Error::Spec`] if a part of it is no `FIGURE=VALUE`.
///
/// ```
/// use trn3_facts::change::listed;
///
/// assert_eq!(listed("tdp=500, chips=72")?, [("tdp".into(), "500".into()), ("chips".into(), "72".into())]);
/// assert!(listed("tdp").is_err());
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn listed(words: &str) -> Result<Vec<(String, String)>> {
    let one = |word: &str| {
        let (figure, value) = word.split_once('=').map(|(figure, value)| (figure.trim(), value.trim()))?;
        (!figure.is_empty() && !value.is_empty()).then(|| (figure.to_owned(), value.to_owned()))
    };
    let wrong = |word: &str| Error::Spec(format!("{word:?} is no change; write NAME:FIGURE=VALUE,FIGURE=VALUE"));
    words.split(',').map(|word| one(word).ok_or_else(|| wrong(word))).collect()
}

/// A figure's new value, from a number or from a change such as `+20%`; `None` for anything else, and what is not finite.
///
/// ```
/// use trn3_facts::change::changed;
///
/// assert_eq!((changed(1200.0, "+20%"), changed(1200.0, "7")), (Some(1440.0), Some(7.0)));
/// assert_eq!((changed(1200.0, "20%"), changed(1200.0, "inf")), (None, None));
/// ```
pub fn changed(old: f64, wanted: &str) -> Option<f64> {
    let wanted = wanted.trim();
    let value = match wanted.strip_suffix('%').map(str::trim) {
        Some(share) => {
            let (sign, digits) = share.split_at_checked(1).filter(|(sign, _)| matches!(*sign, "+" | "-"))?;
            let share: f64 = digits.trim().parse().ok().filter(|share: &f64| *share >= 0.0)?;
            old * (1.0 + if sign == "-" { -share } else { share } / 100.0)
        }
        None => wanted.parse().ok()?,
    };
    // 1200 MHz and 20 % are 1440 MHz, and not the double beside it.
    Some(rounded(value)).filter(|value| value.is_finite())
}
