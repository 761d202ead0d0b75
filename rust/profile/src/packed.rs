//! Columns of whole numbers as one compressed text: differences, by planes of bytes. docs/reference/report-data.md says
//! how, so that others read it.

use std::collections::HashMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Most bytes of columns that are read **(choice)**: many times what any run has that fits a browser.
const MOST_BYTES: u64 = 4 << 30;
/// Planes of bytes that a value has at most: what is below 2^53, and its differences with their sign.
const MOST_PLANES: usize = 7;
const LARGEST: u64 = (1 << 53) - 1;

/// How values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Coding {
    /// As they are.
    Plain,
    /// As differences to the value before.
    Delta,
}

/// Where a column's bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnLayout {
    name: String,
    coding: Coding,
    width: usize,
    at: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Where the columns of a table are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableLayout {
    pub(crate) rows: usize,
    columns: Vec<ColumnLayout>,
}

impl TableLayout {
    pub(crate) fn of(rows: usize) -> Self {
        Self { rows, columns: Vec::new() }
    }
}

/// Takes columns.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
}

fn zigzag(value: u64, before: u64) -> u64 {
    let difference = value as i64 - before as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn planes_of(values: &[u64]) -> usize {
    let all = values.iter().fold(0, |all, value| all | value);
    (64 - all.leading_zeros() as usize).div_ceil(8)
}

impl Packer {
    /// Adds a column in the coding that takes fewer bytes; values above 2^53 - 1, which no reader of JavaScript could tell
    /// apart, count as that.
    pub(crate) fn put(&mut self, table: &mut TableLayout, name: &str, mut values: Vec<u64>) {
        values.iter_mut().for_each(|value| *value = (*value).min(LARGEST));
        let mut before = 0;
        let steps: Vec<u64> =
            values.iter().map(|&value| zigzag(value, std::mem::replace(&mut before, value))).collect();
        let is_plain = planes_of(&values) < planes_of(&steps) || planes_of(&values) <= 1;
        let (coding, values) = if is_plain { (Coding::Plain, values) } else { (Coding::Delta, steps) };
        self.add(table, name, coding, &values, None);
    }

    /// Adds a column as differences to the last value of the same group.
    pub(crate) fn put_by(&mut self, table: &mut TableLayout, name: &str, values: &[u64], by: &str, groups: &[u64]) {
        let mut last: HashMap<u64, u64> = HashMap::new();
        let step = |(&value, &group): (&u64, &u64)| zigzag(value, last.insert(group, value).unwrap_or(0));
        let steps: Vec<u64> = values.iter().zip(groups).map(step).collect();
        self.add(table, name, Coding::Delta, &steps, Some(by.to_owned()));
    }

    fn add(&mut self, table: &mut TableLayout, name: &str, coding: Coding, values: &[u64], by: Option<String>) {
        // The first column of a table says how long it is.
        let width = planes_of(values).max(usize::from(table.columns.is_empty()));
        table.columns.push(ColumnLayout { name: name.to_owned(), coding, width, at: self.bytes.len(), by });
        for plane in 0..width {
            self.bytes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
        }
    }

    /// All columns as text.
    pub(crate) fn finish(self) -> Result<String> {
        let failed = |error: std::io::Error| Error::Value(format!("columns cannot be compressed: {error}"));
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.bytes).map_err(failed)?;
        Ok(STANDARD.encode(encoder.finish().map_err(failed)?))
    }
}

/// Gives columns back.
#[derive(Debug)]
pub(crate) struct Unpacker {
    bytes: Vec<u8>,
}

impl Unpacker {
    pub(crate) fn of(text: &str) -> Result<Self> {
        let raw = STANDARD.decode(text).map_err(|error| Error::Value(format!("columns are no base64: {error}")))?;
        let (mut bytes, mut decoder) = (Vec::new(), ZlibDecoder::new(&raw[..]).take(MOST_BYTES));
        let read = decoder.read_to_end(&mut bytes);
        read.map_err(|error| Error::Value(format!("columns are no zlib stream: {error}")))?;
        Ok(Self { bytes })
    }

    /// A column by `TABLE.COLUMN`.
    pub(crate) fn take<T: TryFrom<u64>>(&self, table: &TableLayout, what: &str) -> Result<Vec<T>> {
        let name = what.rsplit('.').next().unwrap_or(what);
        let wrong = |why: String| Error::Value(format!("{what}: {why}"));
        let Some(column) = table.columns.iter().find(|column| column.name == name) else {
            return Err(wrong("there is no such column".to_owned()));
        };
        let is_long = table.columns.first().is_some_and(|first| first.width > 0) || table.rows == 0;
        let end = table.rows.checked_mul(column.width).and_then(|bytes| bytes.checked_add(column.at));
        let planes = end.and_then(|end| self.bytes.get(column.at..end));
        let (Some(planes), true, true) =
            (planes, is_long && table.rows <= self.bytes.len(), column.width <= MOST_PLANES)
        else {
            return Err(wrong(format!(
                "{} rows of {} bytes from {} on are not there",
                table.rows, column.width, column.at
            )));
        };
        if column.by.is_some() {
            return Err(wrong("differences by groups are not read".to_owned()));
        }
        let mut before = 0u64;
        (0..table.rows)
            .map(|row| {
                let plane = |plane: usize| u64::from(planes[plane * table.rows + row]) << (8 * plane);
                let read = (0..column.width).fold(0, |value, number| value | plane(number));
                let value = match column.coding {
                    Coding::Plain => read,
                    Coding::Delta => before.wrapping_add(((read >> 1) as i64 ^ -((read & 1) as i64)) as u64),
                };
                before = value;
                T::try_from(value).map_err(|_| wrong(format!("{value} in row {row} is too much")))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn test_columns_come_back(values in prop::collection::vec(0..=LARGEST, 1..40), small in 0u64..300) {
            let (mut packer, mut table) = (Packer::default(), TableLayout::of(values.len()));
            packer.put(&mut table, "zero", vec![0; values.len()]);
            packer.put(&mut table, "any", values.clone());
            let near: Vec<u64> = (0..values.len() as u64).map(|row| (1 << 50) + row * small).collect();
            packer.put(&mut table, "near", near.clone());
            let unpacker = Unpacker::of(&packer.finish().expect("text")).expect("columns");
            prop_assert_eq!(unpacker.take::<u8>(&table, "t.zero").expect("zero"), vec![0; values.len()]);
            prop_assert_eq!(unpacker.take::<u64>(&table, "t.any").expect("any"), values);
            prop_assert_eq!(unpacker.take::<u64>(&table, "t.near").expect("near"), near);
        }
    }

    #[test]
    fn test_what_is_not_there_is_refused() {
        let (mut packer, mut table) = (Packer::default(), TableLayout::of(2));
        packer.put(&mut table, "a", vec![1, 300]);
        let unpacker = Unpacker::of(&packer.finish().expect("text")).expect("columns");
        let refused = |table: &TableLayout, what: &str| unpacker.take::<u8>(table, what).expect_err(what).to_string();
        assert_eq!(refused(&table, "t.a"), "t.a: 300 in row 1 is too much");
        assert_eq!(refused(&table, "t.b"), "t.b: there is no such column");
        let longer = TableLayout { rows: 3, ..table.clone() };
        assert_eq!(refused(&longer, "t.a"), "t.a: 3 rows of 2 bytes from 0 on are not there");
        assert!(Unpacker::of("!").is_err() && Unpacker::of("AAAA").is_err());
    }
}
