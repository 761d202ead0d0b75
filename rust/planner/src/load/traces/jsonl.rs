//! Traces of one JSON object a line.

use std::io::Read;

use serde_json::{Map, Value};
use trn3_system::{Error, Result};

use super::columns::{Role, TraceLayout};
use super::documents::SharedConversation;
use super::fields::{Cell, LineReader};
use super::lines::{Lines, wrong};
use super::rows::RowTable;

/// Reads all lines.
pub(super) fn read_jsonl<R: Read>(
    lines: &mut Lines<R>,
    reader: &mut LineReader<'_>,
    rows: &mut RowTable,
    turns: Option<u32>,
) -> Result<()> {
    let (file, layout) = (reader.file, reader.layout);
    let known: Vec<&str> = Role::ALL.into_iter().filter_map(|role| layout.column(role)).collect();
    while !rows.is_full()
        && let Some((number, line)) = lines.next()?
    {
        let no_object =
            |why: serde_json::Error| Error::Spec(format!("{file}:{number}: is no JSON object of a trace: {why}"));
        if layout == TraceLayout::ShareGpt {
            let conversation: SharedConversation<'_> = serde_json::from_str(line).map_err(no_object)?;
            conversation.read(reader, rows, turns, &|| format!("{file}:{number}"))?;
            continue;
        }
        let object: Map<String, Value> = serde_json::from_str(line).map_err(no_object)?;
        if let Some(needed) = layout.needed().iter().find(|&&needed| !object.contains_key(needed)) {
            return Err(wrong(file, number, needed, "not there", &layout.needed().join(", ")));
        }
        if layout.is_strict()
            && let Some(other) = object.keys().find(|key| !known.contains(&key.as_str()))
        {
            return Err(wrong(file, number, other, "unknown", &format!("some of {}", known.join(", "))));
        }
        reader.read(rows, number, |role| layout.column(role).and_then(|key| object.get(key)).map(Cell::Json))?;
    }
    Ok(())
}
