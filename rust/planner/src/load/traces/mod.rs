//! Traces of served models, as they were published.
//!
//! A file is read a line at a time and kept as a few bytes a request; what does not fit its layout is refused with file
//! and line. The layouts, and where their columns are documented:
//!
//! | layout | documented in |
//! | --- | --- |
//! | `azure` | `AzureLLMInferenceDataset2023.md` and `AzureLLMInferenceDataset2024.md` of github.com/Azure/AzurePublicDataset |
//! | `burstgpt` | the README of github.com/HPMLL/BurstGPT |
//! | `mooncake` | `FAST25-release/README.md` of github.com/kvcache-ai/Mooncake |
//! | `bailian` | the README of github.com/alibaba-edu/qwen-bailian-usagetraces-anon |
//! | `vllm_result`, `vllm_custom`, `vllm_timed` | docs.vllm.ai, `vllm bench serve` |
//! | `sharegpt` | the same, of its data set ShareGPT |
//! | `plain` | [`TraceLayout::Plain`] |

mod columns;
mod csv;
mod documents;
mod fields;
mod jsonl;
mod lines;
mod replay;
mod rows;

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use trn3_system::{Error, Result};

use self::csv::{read_csv, split};
use self::documents::{read_conversations, read_result};
use self::fields::LineReader;
use self::jsonl::read_jsonl;
use self::lines::{LONGEST_LINE, Lines, open, shown};
use self::rows::{RowTable, Selection};

pub use self::columns::TraceLayout;
pub use self::replay::RecordedTraffic;

/// Bytes of text that a token stands for where nothing counts them **(choice)**: about what tokenizers make of English.
const BYTES_OF_TOKEN: u64 = 4;

/// Four bytes a token: what counts the tokens of texts where nothing better is given.
///
/// ```
/// assert_eq!(trn3_planner::load::bytes_as_tokens("hello"), 2);
/// ```
pub fn bytes_as_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_OF_TOKEN)
}

/// A trace and what is replayed of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// A regular file.
    pub path: PathBuf,
    /// A name of a layout; else it is recognised by its columns.
    #[serde(default)]
    pub format: Option<String>,
    /// Requests that are left out at its beginning.
    #[serde(default)]
    pub offset: u64,
    /// How many times as fast as recorded requests are sent; 1.
    #[serde(default)]
    pub rate_scale: Option<f64>,
    /// Whether requests may stand in any order of time; else one that is earlier than the one before it is refused.
    #[serde(default)]
    pub sort: bool,
    /// Models in the order of the fleet: requests for others are left out. Without it the models that published traces
    /// name are all one.
    #[serde(default)]
    pub models: Vec<String>,
    /// Tokens that a hash stands for; 512 of Mooncake's traces, 16 of the others.
    #[serde(default)]
    pub block: Option<u32>,
    /// Turns that are taken of a conversation of texts at most; vLLM's benchmark takes 1.
    #[serde(default)]
    pub turns: Option<u32>,
}

impl TraceRequest {
    /// A trace of a file, all of it, as recorded.
    pub fn of(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Reads the trace: `requests` of it, or all. `timed` says whether recorded times are wanted; without, sessions are
    /// conversations, whose turns wait for answers. `count` counts the tokens of texts; else they are [`bytes_as_tokens`].
    ///
    /// # Errors
    /// [`Error::Spec`] that names file and line if it is no regular file, of no known layout, or a line does not fit;
    /// [`Error::Value`] for figures out of range; [`Error::Unknown`] for a format that there is not.
    ///
    /// ```
    /// use trn3_planner::load::TraceRequest;
    ///
    /// let path = std::env::temp_dir().join("trn3_doc_trace.csv");
    /// std::fs::write(&path, "arrival,input,output\n3.0,100,10\n3.5,200,20\n").unwrap();
    /// let trace = TraceRequest::of(&path).read(true, None, None).unwrap();
    /// let times: Vec<f64> = trace.map(|conversation| conversation.at).collect();
    /// assert_eq!(times, [0.0, 0.5]);
    /// std::fs::remove_file(&path).unwrap();
    /// ```
    pub fn read(
        &self,
        timed: bool,
        requests: Option<u64>,
        count: Option<&dyn Fn(&str) -> u64>,
    ) -> Result<RecordedTraffic> {
        let file = self.path.display().to_string();
        let named = self.format.as_deref().map(TraceLayout::parse).transpose()?;
        let scale = self.rate_scale.unwrap_or(1.0);
        if !(scale.is_finite() && scale > 0.0) {
            return Err(Error::Value(format!("trace.rate_scale is {scale}; allowed: numbers above 0")));
        }
        if self.rate_scale.is_some() && !timed {
            return Err(Error::Value(
                "trace.rate_scale is of recorded times; rate and users replace these: give one of them".to_owned(),
            ));
        }
        for (name, figure) in [("trace.block", self.block), ("trace.turns", self.turns)] {
            if figure == Some(0) {
                return Err(Error::Value(format!("{name} is 0; allowed: at least 1")));
            }
        }
        let mut source = open(&self.path)?;
        let (layout, form) = Self::recognised(named, &mut source, &file)?;
        if self.turns.is_some() && layout != TraceLayout::ShareGpt {
            return Err(Error::Value(format!("trace.turns is of conversations of texts; {file} is {}", layout.name())));
        }
        let sort = self.sort || layout.is_unordered();
        let mut rows = RowTable::new(Selection { timed, sort, ticks: layout.ticks(), offset: self.offset, requests });
        let block = self.block.unwrap_or_else(|| layout.block());
        let mut reader = LineReader {
            file: &file,
            layout,
            block,
            models: &self.models,
            count: count.unwrap_or(&bytes_as_tokens),
            first: None,
        };
        match form {
            TraceForm::Columns => read_csv(&mut Lines::new(source, &file), &mut reader, &mut rows)?,
            TraceForm::Objects => read_jsonl(&mut Lines::new(source, &file), &mut reader, &mut rows, self.turns)?,
            TraceForm::Document if layout == TraceLayout::VllmResult => {
                read_result(BufReader::new(source), &reader, &mut rows)?;
            }
            TraceForm::Document => read_conversations(source, &reader, &mut rows, self.turns)?,
        }
        RecordedTraffic::new(rows, &reader, count.is_some(), scale)
    }

    /// The layout of a file, and its form, from its first line; the file is at its beginning again.
    fn recognised(named: Option<TraceLayout>, source: &mut File, file: &str) -> Result<(TraceLayout, TraceForm)> {
        let broken = |why: &dyn Display| Error::Spec(format!("{file}:1: {why}"));
        let mut head = Vec::new();
        let read = (&mut *source).take(LONGEST_LINE).read_to_end(&mut head).and_then(|_| source.rewind());
        read.map_err(|why| Error::Spec(format!("{file}: {why}")))?;
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let choose = |columns: &[&str]| {
            let unknown = || {
                let there = shown(&columns.join(", "), 200);
                broken(&format!("the columns {there} are of no known trace; known: {}", TraceLayout::known()))
            };
            named.or_else(|| TraceLayout::recognised(columns)).ok_or_else(unknown)
        };
        let (layout, form) = match line.first() {
            None => return Err(Error::Spec(format!("{file}: is empty; needed: a trace: {}", TraceLayout::known()))),
            Some(b'[') => (TraceLayout::ShareGpt, TraceForm::Document),
            Some(b'{') => match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(object) => {
                    let layout = choose(&object.keys().map(String::as_str).collect::<Vec<_>>())?;
                    let is_document = layout == TraceLayout::VllmResult;
                    (layout, if is_document { TraceForm::Document } else { TraceForm::Objects })
                }
                // The only object that may be longer than a line.
                Err(why) if why.is_eof() => (TraceLayout::VllmResult, TraceForm::Document),
                Err(why) => return Err(broken(&format!("is no JSON object: {why}"))),
            },
            Some(_) => {
                let Ok(text) = str::from_utf8(line) else {
                    return Err(broken(&"is no UTF-8 text; a compressed file has to be unpacked first"));
                };
                let mut quoted = ::csv::StringRecord::new();
                (choose(&split(text, &mut quoted).unwrap_or_default())?, TraceForm::Columns)
            }
        };
        match named {
            Some(named) if named != layout => Err(Error::Spec(format!(
                "{file}: looks like {}, and its format is to be {}",
                layout.name(),
                named.name()
            ))),
            _ => Ok((layout, form)),
        }
    }
}

/// How a file is put together.
enum TraceForm {
    Columns,
    Objects,
    Document,
}

#[cfg(test)]
mod tests;
