//! What a run found to complain of: as the machine's records say it, and taken apart.

use serde::Serialize;
use serde_json::{Map, Value};
use trn3_machine::memory::Finding;
use trn3_machine::site::{SiteId, Sites};

/// A finding of the machine as a record, with its lines as text: `kind`, `tensor`, `line`, `allocated`, `message`, and
/// what its kind has beside them.
pub fn finding_record(finding: &Finding, sites: &Sites) -> Map<String, Value> {
    let mut record = Map::new();
    let mut message = finding.to_string();
    let mut other = |line: SiteId| message.push_str(&format!(" ({})", sites.text(line)));
    let (kind, tensor, allocated) = match finding {
        Finding::Race { tensor, other_line, .. } => {
            other(*other_line);
            ("race", tensor, None)
        }
        Finding::UninitialisedRead { tensor, allocated, .. } => ("uninitialized_read", tensor, Some(*allocated)),
        Finding::OutOfBoundsSkipped { tensor, .. } => ("out_of_bounds_skipped", tensor, None),
        Finding::UnwrittenAccumulation { tensor, allocated, .. } => {
            ("unwritten_accumulation", tensor, Some(*allocated))
        }
        Finding::NonFinite { tensor, is_nan, instruction, element, origin, dtype, .. } => {
            record.insert("instruction".to_owned(), (*instruction).into());
            record.insert("element".to_owned(), element.clone().into());
            record.insert("origin".to_owned(), origin.name().into());
            record.insert("dtype".to_owned(), dtype.name().into());
            (if *is_nan { "nan_origin" } else { "infinity_origin" }, tensor, None)
        }
        Finding::OutsideRange { tensor, function, .. } => {
            record.insert("instruction".to_owned(), (*function).into());
            ("outside_range", tensor, None)
        }
        Finding::UseAfterReuse { tensor, other_line, allocated, .. } => {
            other(*other_line);
            ("use_after_reuse", tensor, Some(*allocated))
        }
    };
    record.insert("kind".to_owned(), kind.into());
    record.insert("tensor".to_owned(), tensor.clone().into());
    record.insert("line".to_owned(), sites.text(finding.reader()).into());
    record.insert("allocated".to_owned(), allocated.map(|site| sites.text(site)).into());
    record.insert("message".to_owned(), message.into());
    record
}

/// Something that is no error on the hardware and yet no kernel means; texts are empty where the kind has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedFinding {
    /// A word for it.
    pub kind: String,
    /// All of it in words, without the line.
    pub message: String,
    /// File of the kernel's line.
    pub file: String,
    /// Line of the kernel, from 1; 0 if it is not known.
    pub line: u64,
    /// Name of the tensor.
    pub tensor: String,
    /// The instruction or function.
    pub instruction: String,
    /// First element, along each axis of the operand.
    pub element: Vec<u64>,
    /// Type of the tensor.
    pub dtype: String,
    /// Of NaN and infinities, where they came from.
    pub origin: String,
    /// `file:line` that made the tensor.
    pub allocated: String,
    /// Core of a logical core with several; None with one.
    pub core: Option<usize>,
    /// Rank of several; None with one.
    pub rank: Option<usize>,
}

impl ReportedFinding {
    /// The finding of a record, on a core where there are several.
    pub fn of(record: &Map<String, Value>, core: Option<usize>) -> Self {
        let text = |name: &str| match record.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let place = text("line");
        let digits = |line: &&str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        let known = place.rsplit_once(':').filter(|(file, line)| !file.is_empty() && digits(line));
        let (file, line) = known.map_or(("", 0), |(file, line)| (file, line.parse().unwrap_or(0)));
        let message = match record.contains_key("message") {
            true => text("message"),
            false => Value::Object(record.clone()).to_string(),
        };
        let element = record.get("element").and_then(Value::as_array);
        Self {
            kind: text("kind"),
            message,
            file: file.to_owned(),
            line,
            tensor: text("tensor"),
            instruction: text("instruction"),
            element: element.into_iter().flatten().filter_map(Value::as_u64).collect(),
            dtype: text("dtype"),
            origin: text("origin"),
            allocated: text("allocated"),
            core,
            rank: None,
        }
    }
}
