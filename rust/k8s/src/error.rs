//! What can go wrong between a claim and its devices, and what was probably meant.

use std::collections::BTreeMap;

use crate::likeness::ratio;

/// An object or a request is wrong; the text names it and the nearest thing that would work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An object is malformed, or names what is not there (Python: `K8sError`).
    #[error("{0}")]
    Malformed(String),
    /// An expression cannot be read, or fails on a device (Python: `SelectorError`, a `K8sError`).
    #[error("{0}")]
    Selector(String),
    /// A claim cannot be met (Python: `AllocationError`, a `K8sError`).
    #[error("claim {claim}{}: {reason}", if request.is_empty() { String::new() } else { format!(", request {request}") })]
    Unmet {
        /// Namespace and name of the claim.
        claim: String,
        /// The request that fails; empty if all together do.
        request: String,
        /// What is in the way, and what would work.
        reason: String,
    },
    /// The search on a node tried as much as it may; [`allocate`](crate::allocate) tells which claim it was.
    #[error("the search gave up: too many combinations of devices")]
    SearchLimit,
    /// Whoever waits was told to stop (Python: what the signal's handler raised).
    #[error("interrupted")]
    Interrupted,
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn unmet(claim: &str, request: &str, reason: impl Into<String>) -> Self {
        Self::Unmet { claim: claim.to_owned(), request: request.to_owned(), reason: reason.into() }
    }
}

/// What long searches ask in between.
pub(crate) fn check_interrupt() -> Result<()> {
    trn3_numerics::check_interrupt().map_err(|_| Error::Interrupted)
}

impl From<trn3_facts::Error> for Error {
    fn from(error: trn3_facts::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// How like two words must be for one to be offered for the other.
const LIKENESS: f64 = 0.6;

/// A hint at what was probably meant, or nothing; capitals do not matter.
pub(crate) fn guess<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let word = word.to_lowercase();
    let folded: BTreeMap<String, &str> = known.into_iter().map(|each| (each.to_lowercase(), each)).collect();
    let mut best: Option<(f64, &str)> = None;
    for (low, each) in &folded {
        let like = ratio(low, &word);
        // Of words that are equally like, the last.
        if like >= LIKENESS && best.is_none_or(|(most, _)| like >= most) {
            best = Some((like, each));
        }
    }
    best.map(|(_, each)| format!("; did you mean {each}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_guesses_are_near_or_nothing() {
        assert_eq!(guess("cuont", ["count", "selectors"]), "; did you mean count?");
        assert_eq!(guess("zzz", ["count", "selectors"]), "");
        assert_eq!(guess("all", ["ExactCount", "All"]), "; did you mean All?");
    }

    #[test]
    fn test_unmet_claims_name_claim_and_request() {
        assert_eq!(Error::unmet("default/c", "r", "no").to_string(), "claim default/c, request r: no");
        assert_eq!(Error::unmet("default/c", "", "no").to_string(), "claim default/c: no");
    }
}
