//! The one error type of systems: what was asked, what came, what would work.

/// A refused or failed operation on a system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for nothing here: a system, a quantity, a chip, an algorithm (Python: `KeyError` or `ValueError`).
    #[error("{what} {got:?} is unknown; {allowed}")]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name that came.
        got: String,
        /// What exists, or the nearest name that does.
        allowed: String,
    },
    /// A description (spec file, trace, configuration) is wrong; the text names file and key (Python: `ValueError`).
    #[error("{0}")]
    Spec(String),
    /// An argument is wrong; the text names it, what came and what is allowed (Python: `ValueError`).
    #[error("{0}")]
    Value(String),
    /// Two chips cannot reach each other (Python: `ConnectionError`).
    #[error("{0}")]
    Unreachable(String),
    /// A job needs more memory than there is; the text holds the table (Python: `MemoryError`).
    #[error("{0}")]
    Memory(String),
    /// An error of the arithmetic below.
    #[error(transparent)]
    Numerics(#[from] trn3_numerics::Error),
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Unknown`] that names the closest of the known names, and all of them where they are few.
    ///
    /// ```
    /// let error = trn3_system::Error::unknown("system", "trn3_gen3", ["trn3_gen1", "trn3_gen2"]);
    /// assert!(error.to_string().contains("trn3_gen"));
    /// ```
    pub fn unknown<'a>(what: &'static str, got: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let nearest = known.iter().min_by_key(|name| (distance(got, name), name.len())).copied();
        let allowed = match nearest {
            None => "there is none".to_owned(),
            Some(name) => format!("the nearest is {name:?}; allowed: {}", known.join(", ")),
        };
        Self::Unknown { what, got: got.to_owned(), allowed }
    }
}

/// The number of letters to insert, drop or change to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, &other) in to.iter().enumerate() {
            let change = corner + usize::from(letter != other);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_unknown_names_the_nearest() {
        let text = Error::unknown("system", "trn3gen2", ["b300", "trn3_gen1", "trn3_gen2"]).to_string();
        assert!(text.contains("the nearest is \"trn3_gen2\""), "{text}");
    }

    #[test]
    fn test_distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
