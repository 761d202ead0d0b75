//! A walk through a header that stops at the first thing that is wrong, and builds nothing of what it does not need.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use crate::limits::MAX_AXES;
use crate::place::{Place, check_size};
use crate::problem::{Problem, listed, quoted};

/// What the walk has found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) tensors: Vec<Place>,
}

/// Walks through a header.
pub(crate) fn walk(text: &str) -> Result<Found, Problem> {
    let notes = Notes::default();
    let mut json = serde_json::Deserializer::from_str(text);
    match TopLevel(&notes).deserialize(&mut json).and_then(|found| json.end().map(|()| found)) {
        Ok(found) => Ok(found),
        Err(error) => Err(notes.problem(&error, text)),
    }
}

/// What the errors of serde cannot carry.
#[derive(Default)]
struct Notes {
    refused: RefCell<Option<Problem>>,
    /// What a value of another kind than is needed would mean here.
    otherwise: RefCell<Option<Problem>>,
}

impl Notes {
    fn refuse<E: Error>(&self, problem: Problem) -> E {
        self.refused.replace(Some(problem));
        E::custom("refused")
    }

    fn problem(&self, error: &serde_json::Error, text: &str) -> Problem {
        if let Some(problem) = self.refused.take() {
            return problem;
        }
        let reason = error.to_string();
        if error.classify() == Category::Data
            && let Some(problem) = self.otherwise.take()
        {
            return problem;
        }
        if reason.starts_with("recursion limit") {
            return Problem::TooDeep;
        }
        if reason.starts_with("number out of range") {
            return Problem::LongNumber;
        }
        if reason.contains("surrogate") || reason.contains("hex escape") {
            return Problem::NotUnicode;
        }
        match constant_at(text, error.line(), error.column()) {
            Some(text) => Problem::Constant { text },
            None => Problem::NotJson { reason },
        }
    }
}

/// The constant that a parser stopped at, if it is one of those that JSON does not have.
fn constant_at(text: &str, line: usize, column: usize) -> Option<&'static str> {
    let line = text.split('\n').nth(line.checked_sub(1)?)?.as_bytes();
    let near = &line[column.saturating_sub(2).min(line.len())..];
    ["NaN", "-Infinity", "Infinity"]
        .into_iter()
        .find(|name| (0..3).any(|skipped| near.get(skipped..).is_some_and(|rest| rest.starts_with(name.as_bytes()))))
}

struct TopLevel<'a>(&'a Notes);

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = Found;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let notes = self.0;
        let (mut found, mut names) = (Found::default(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(notes.refuse(Problem::Twice { name: quoted(&name) }));
            }
            if name == "__metadata__" {
                notes.otherwise.replace(Some(Problem::Metadata));
                found.metadata = map.next_value_seed(Texts(notes))?;
            } else {
                notes.otherwise.replace(Some(Problem::NotDescribed { name: quoted(&name) }));
                found.tensors.push(map.next_value_seed(Described { notes, name })?);
            }
        }
        Ok(found)
    }
}

/// Strings to strings.
struct Texts<'a>(&'a Notes);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = Vec<(String, String)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = Vec<(String, String)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("strings to strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut names) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(self.0.refuse(Problem::Twice { name: quoted(&name) }));
            }
            found.push((name, map.next_value()?));
        }
        Ok(found)
    }
}

/// One tensor's description.
struct Described<'a> {
    notes: &'a Notes,
    name: String,
}

impl<'de> DeserializeSeed<'de> for Described<'_> {
    type Value = Place;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Place, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Described<'_> {
    type Value = Place;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a dtype, a shape and data_offsets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Place, A::Error> {
        // Some way into it: what is wrong inside tells more.
        for _ in 0..=MAX_AXES {
            if list.next_element_seed(AnyValue(self.notes))?.is_none() {
                break;
            }
        }
        Err(self.notes.refuse(Problem::NotDescribed { name: quoted(&self.name) }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Place, A::Error> {
        let Self { notes, name } = self;
        let (mut dtype, mut shape, mut offsets, mut names) = (None, None, None, HashSet::new());
        while let Some(key) = map.next_key::<String>()? {
            if names.contains(&key) {
                return Err(notes.refuse(Problem::Twice { name: quoted(&key) }));
            }
            match key.as_str() {
                "dtype" => dtype = Some(map.next_value_seed(AnyValue(notes))?),
                "shape" => shape = Some(map.next_value_seed(AnyValue(notes))?),
                "data_offsets" => offsets = Some(map.next_value_seed(AnyValue(notes))?),
                _ => drop(map.next_value_seed(AnyValue(notes))?),
            }
            names.insert(key);
        }
        let (Some(dtype), Some(shape), Some(offsets)) = (dtype, shape, offsets) else {
            return Err(notes.refuse(Problem::NotDescribed { name: quoted(&name) }));
        };
        place(name, &dtype, &shape, &offsets).map_err(|problem| notes.refuse(problem))
    }
}

fn place(name: String, dtype: &Shown, shape: &Shown, offsets: &Shown) -> Result<Place, Problem> {
    let shown = || quoted(&name);
    let code = dtype.text.as_deref().unwrap_or_default();
    let named: StrDeserializer<'_, NameError> = code.into_deserializer();
    let Ok(known) = Dtype::deserialize(named) else {
        return Err(Problem::UnknownDtype { name: shown(), dtype: dtype.to_string() });
    };
    let Some(sizes) = shape.sizes() else {
        return Err(Problem::Shape { name: shown(), shape: shape.to_string() });
    };
    let Some(&[begin, end]) = offsets.sizes().as_deref().filter(|range| matches!(range, [b, e] if b <= e)) else {
        return Err(Problem::Offsets { name: shown(), offsets: offsets.to_string() });
    };
    let place = Place { name, begin, end };
    check_size(&place, code, known.bitsize() as u64, &sizes)?;
    Ok(place)
}

/// A value of any kind, as far as a description needs it: a text, a whole number or a list of them, and how messages
/// repeat it.
#[derive(Default)]
struct Shown {
    shown: String,
    text: Option<String>,
    number: Option<u64>,
    items: Option<Vec<Shown>>,
}

impl Shown {
    fn of(shown: impl Into<String>) -> Self {
        Self { shown: shown.into(), ..Self::default() }
    }

    fn sizes(&self) -> Option<Vec<u64>> {
        let items = self.items.as_ref()?;
        let sizes: Option<Vec<u64>> = items.iter().map(|item| item.number).collect();
        sizes.filter(|sizes| sizes.len() <= MAX_AXES && sizes.iter().all(|size| i64::try_from(*size).is_ok()))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.items {
            Some(items) => formatter.write_str(&listed(&items.iter().map(Self::to_string).collect::<Vec<_>>())),
            None => formatter.write_str(&self.shown),
        }
    }
}

/// Reads any value, refusing objects with a key twice; of a list it keeps what a shape may have and one more.
struct AnyValue<'a>(&'a Notes);

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Shown;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shown, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Shown;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Shown, E> {
        Ok(Shown::of(if value { "True" } else { "False" }))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Shown, E> {
        Ok(Shown::of(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Shown, E> {
        Ok(Shown { number: Some(value), ..Shown::of(value.to_string()) })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Shown, E> {
        Ok(Shown::of(format!("{value:?}")))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Shown, E> {
        Ok(Shown { text: Some(value.to_owned()), ..Shown::of(quoted(value)) })
    }

    fn visit_unit<E: Error>(self) -> Result<Shown, E> {
        Ok(Shown::of("None"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shown, A::Error> {
        let mut items = Vec::new();
        while items.len() <= MAX_AXES {
            let Some(item) = list.next_element_seed(AnyValue(self.0))? else {
                return Ok(Shown { items: Some(items), ..Shown::default() });
            };
            // Of lists in lists nothing is kept: a small file could make them many.
            items.push(if item.items.is_some() { Shown::of("[...]") } else { item });
        }
        // No list as long as this means anything.
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shown { items: Some(items), ..Shown::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shown, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if names.contains(&name) {
                return Err(self.0.refuse(Problem::Twice { name: quoted(&name) }));
            }
            map.next_value_seed(AnyValue(self.0))?;
            names.insert(name);
        }
        Ok(Shown::of("{...}"))
    }
}
