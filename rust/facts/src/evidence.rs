//! What a figure rests on: a page, a measurement, or a guess.

use serde::{Deserialize, Serialize};

/// How well a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The vendor's documentation of this hardware says it.
    Documented,
    /// It was read off measurements of this hardware, or the vendor's own kernels count on it.
    Measured,
    /// Nobody says it: it is taken from other hardware, or chosen.
    Estimated,
}

impl Evidence {
    /// Every kind, the best known first.
    pub const ALL: [Evidence; 3] = [Evidence::Documented, Evidence::Measured, Evidence::Estimated];

    /// What the words of a source say of the figure that stands with it: sources of documented figures begin with
    /// "public documentation", of measured ones with "measured" or "constant used by"; all others are taken for
    /// estimates.
    ///
    /// ```
    /// use trn3_facts::Evidence;
    ///
    /// assert_eq!(Evidence::of_source("public documentation (SDK 2.32)"), Evidence::Documented);
    /// assert_eq!(Evidence::of_source("measured by others: read off a published profile"), Evidence::Measured);
    /// assert_eq!(Evidence::of_source("a rumour"), Evidence::Estimated);
    /// ```
    pub fn of_source(source: &str) -> Self {
        let begins = |words: &str| source.starts_with(words);
        if begins("public documentation") {
            Self::Documented
        } else if begins("measured") || begins("constant used by") {
            Self::Measured
        } else {
            Self::Estimated
        }
    }

    /// Its name, in small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::Documented => "documented",
            Evidence::Measured => "measured",
            Evidence::Estimated => "estimated",
        }
    }
}
