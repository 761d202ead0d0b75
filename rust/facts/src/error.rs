//! The error type of facts, and the nearest of the names that there are.

use std::cmp::Reverse;

/// A figure that is not there, or a spec file that cannot be true.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for nothing here: a system, a quantity (Python: `KeyError` or `ValueError`).
    #[error("{what} {got:?} is unknown; {allowed}")]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name that came.
        got: String,
        /// What exists, or the nearest name that does.
        allowed: String,
    },
    /// A spec file is wrong; the text names file and key (Python: `ValueError`).
    #[error("{0}")]
    Spec(String),
    /// A text that is no arithmetic, or has no finite value (Python: `ExpressionError`, a `ValueError`).
    #[error("{0}")]
    Expression(String),
    /// A spec file that cannot be read (Python: `OSError`).
    #[error("{file}: {why}")]
    File {
        /// Its path.
        file: String,
        /// What the system said.
        why: String,
        /// The system's number for it, where it has one.
        number: Option<i32>,
    },
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Unknown`] that says what is known, the nearest first.
    pub fn unknown<'a>(what: &'static str, got: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Unknown { what, got: got.to_owned(), allowed: allowed(got, known) }
    }
}

/// The known names in a sentence, the closest to what came first.
///
/// ```
/// let text = trn3_facts::allowed("trn3_gen3", ["trn3_gen1", "trn3_gen2"]);
/// assert_eq!(text, "the nearest is \"trn3_gen1\"; allowed: trn3_gen1, trn3_gen2");
/// ```
pub fn allowed<'a>(got: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match known.iter().min_by_key(|name| (distance(got, name), name.len())) {
        None => "there is none".to_owned(),
        Some(name) => format!("the nearest is {name:?}; allowed: {}", known.join(", ")),
    }
}

/// The end of a message about an unknown name: the nearest of `listed`, else of `others`, and what is allowed.
pub(crate) fn nearest(got: &str, listed: &[&str], others: &[&str]) -> String {
    if listed.is_empty() {
        return "there is none".to_owned();
    }
    // Of names that are equally near the last, which is the newest.
    let edits = |name: &&&str| (distance(got, name), Reverse(name.to_string()));
    // A full name first: `trainium9` is nearer to `trainium` than to `trainium3`, which was meant.
    let full = listed.iter().min_by_key(edits).filter(|name| 4 * distance(got, name) <= got.chars().count());
    let found = full.or_else(|| listed.iter().chain(others).min_by_key(edits));
    let found = found.map(|name| format!("the nearest is '{name}'; ")).unwrap_or_default();
    format!("{found}allowed: {}", listed.join(", "))
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
