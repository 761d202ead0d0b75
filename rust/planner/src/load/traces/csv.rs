//! Traces whose first line names their columns.

use std::io::Read;

use csv::{ReaderBuilder, StringRecord};
use smallvec::SmallVec;
use trn3_system::{Error, Result};

use super::columns::Role;
use super::fields::{Cell, LineReader};
use super::lines::{Lines, wrong};
use super::rows::RowTable;

/// Columns of a line; few traces have more.
type Fields<'a> = SmallVec<[&'a str; 12]>;

/// Splits a line at its commas; `quoted` holds the fields of a line that has quotes.
pub(super) fn split<'a>(line: &'a str, quoted: &'a mut StringRecord) -> Option<Fields<'a>> {
    if !line.contains('"') {
        return Some(line.split(',').map(str::trim).collect());
    }
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    reader.read_record(quoted).ok()?;
    Some(quoted.iter().map(str::trim).collect())
}

/// Reads all lines below the header.
pub(super) fn read_csv<R: Read>(lines: &mut Lines<R>, reader: &mut LineReader<'_>, rows: &mut RowTable) -> Result<()> {
    let (file, layout) = (reader.file, reader.layout);
    let no_fields = |line: u64| Error::Spec(format!("{file}:{line}: is no line of comma-separated values"));
    let mut quoted = StringRecord::new();
    let Some((number, header)) = lines.next()? else { return Ok(()) };
    let header = header.to_owned();
    let header = split(&header, &mut quoted).ok_or_else(|| no_fields(number))?;
    for &needed in layout.needed() {
        if !header.contains(&needed) {
            return Err(wrong(file, number, needed, "not there", &layout.needed().join(", ")));
        }
    }
    let known: Vec<&str> = Role::ALL.into_iter().filter_map(|role| layout.column(role)).collect();
    if layout.is_strict()
        && let Some(other) = header.iter().find(|column| !known.contains(column))
    {
        return Err(wrong(file, number, other, "unknown", &format!("some of {}", known.join(", "))));
    }
    let place = |role| layout.column(role).and_then(|column| header.iter().position(|&name| name == column));
    let places = Role::ALL.map(place);
    let width = header.len();
    while !rows.is_full()
        && let Some((number, line)) = lines.next()?
    {
        let mut quoted = StringRecord::new();
        let fields = split(line, &mut quoted).ok_or_else(|| no_fields(number))?;
        if fields.len() != width {
            let count = fields.len();
            return Err(Error::Spec(format!("{file}:{number}: has {count} columns; needed: {width}, as the header")));
        }
        reader.read(rows, number, |role| places[role as usize].map(|place| Cell::Text(fields[place])))?;
    }
    Ok(())
}
