//! From the columns of a line to a request.

use std::fmt::{Display, Formatter, Result as FormatResult};

use serde_json::Value;
use toml::value::{Datetime, Offset};
use trn3_system::{Error, Result};

use super::columns::{Role, TraceLayout};
use super::lines::wrong;
use super::rows::{RecordedRow, RowTable};

/// What a column says on a line.
#[derive(Clone, Copy)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Json(&'a Value),
}

impl Cell<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(value) => value.as_str(),
        }
    }

    fn whole(&self) -> Option<u64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Json(value) => value.as_u64(),
        }
    }

    fn signed(&self) -> Option<i32> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Json(value) => value.as_i64().and_then(|number| number.try_into().ok()),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Json(value) => value.as_f64(),
        }
    }

    fn is_blank(&self) -> bool {
        matches!(self, Self::Text("") | Self::Json(Value::Null))
    }
}

impl Display for Cell<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> FormatResult {
        match self {
            Self::Text(text) => write!(formatter, "'{text}'"),
            Self::Json(value) => write!(formatter, "{value}"),
        }
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u16, month: u8, day: u8) -> i64 {
    // Years begin in March, so that the day of a leap year is their last one.
    let (year, month) = (i64::from(year) - i64::from(month < 3), i64::from(month));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

/// Nanoseconds since 1970 of `2023-11-16 18:17:03.9799600`, with or without an offset from universal time.
fn clock(text: &str) -> Option<i64> {
    let moment: Datetime = text.parse().ok()?;
    let (date, time) = (moment.date?, moment.time?);
    let minutes = match moment.offset {
        None | Some(Offset::Z) => 0,
        Some(Offset::Custom { minutes }) => i64::from(minutes),
    };
    let of_day = 3600 * i64::from(time.hour) + 60 * (i64::from(time.minute) - minutes) + i64::from(time.second);
    (86_400 * days(date.year, date.month, date.day) + of_day)
        .checked_mul(1_000_000_000)?
        .checked_add(i64::from(time.nanosecond))
}

/// Turns lines into requests.
pub(super) struct LineReader<'a> {
    pub(super) file: &'a str,
    pub(super) layout: TraceLayout,
    /// Tokens that a hash stands for.
    pub(super) block: u32,
    /// The only models whose requests are taken, by number; empty: all.
    pub(super) models: &'a [String],
    /// How many tokens a text has.
    pub(super) count: &'a dyn Fn(&str) -> u64,
    /// The first time on a clock: counted from there, nanoseconds keep their places.
    pub(super) first: Option<i64>,
}

impl LineReader<'_> {
    /// Adds the request of a line, of which `cell` gives the columns.
    pub(super) fn read<'c>(
        &mut self,
        rows: &mut RowTable,
        line: u64,
        cell: impl Fn(Role) -> Option<Cell<'c>>,
    ) -> Result<()> {
        let cell = |role| cell(role).filter(|cell| !cell.is_blank());
        let mut row = RecordedRow::default();
        if let Some(given) = cell(Role::Model) {
            match self.model(line, given)? {
                None => {
                    rows.skip("requests for other models are left out");
                    return Ok(());
                }
                model => row.model = model,
            }
        }
        row.at = match cell(Role::Arrival) {
            Some(given) => Some(self.time(line, given)?),
            None if self.layout.needed().iter().any(|&needed| self.layout.column(Role::Arrival) == Some(needed)) => {
                return Err(self.wrong(line, Role::Arrival, "blank", "a time"));
            }
            None => None,
        };
        row.input = self.tokens(line, Role::Input, cell(Role::Input))?;
        row.output = self.tokens(line, Role::Output, cell(Role::Output))?;
        if (row.input == 0 || row.output == 0) && !(self.layout == TraceLayout::VllmCustom && row.input > 0) {
            if self.layout.is_strict() {
                let role = if row.input == 0 { Role::Input } else { Role::Output };
                return Err(self.wrong(line, role, 0, "at least 1 token"));
            }
            rows.skip("requests without tokens of a prompt or an answer, which failed, are left out");
            return Ok(());
        }
        if let Some(given) = cell(Role::Priority) {
            let priority = given.signed();
            row.priority = Some(priority.ok_or_else(|| self.wrong(line, Role::Priority, given, "an integer"))?);
        }
        if let Some(given) = cell(Role::Blocks) {
            row.blocks = self.blocks(line, given, row.input)?;
        }
        if self.layout.column(Role::Session).is_some() {
            row.session = Some(rows.session(cell(Role::Session).map(|given| given.to_string())));
        }
        rows.push(row, &|| format!("{}:{line}", self.file))
    }

    fn wrong(&self, line: u64, role: Role, got: impl Display, needed: &str) -> Error {
        wrong(self.file, line, self.layout.column(role).unwrap_or("?"), got, needed)
    }

    /// A time in the layout's unit.
    fn time(&mut self, line: u64, given: Cell<'_>) -> Result<f64> {
        if self.layout.has_dates() {
            let needed = "a time such as 2023-11-16 18:17:03.9799600";
            let now = given.text().and_then(clock).ok_or_else(|| self.wrong(line, Role::Arrival, given, needed))?;
            // Any two times of the years that TOML writes differ by less than a float's range of whole seconds.
            return Ok((i128::from(now) - i128::from(*self.first.get_or_insert(now))) as f64 / 1e9);
        }
        let number = given.number().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| self.wrong(line, Role::Arrival, given, "a number"))?;
        Ok(number)
    }

    /// Tokens of a prompt or an answer; 0 where there is none.
    fn tokens(&self, line: u64, role: Role, given: Option<Cell<'_>>) -> Result<u32> {
        let Some(given) = given else {
            let is_needed = self.layout.column(role).is_some_and(|column| self.layout.needed().contains(&column));
            return if is_needed { Err(self.wrong(line, role, "blank", "tokens")) } else { Ok(0) };
        };
        let counted = match (self.layout, role) {
            (TraceLayout::VllmCustom, Role::Input) => given.text().map(|text| (self.count)(text).max(1)),
            _ => given.whole(),
        };
        let needed = "tokens, a whole number of at most 4294967295";
        let fits = counted.and_then(|tokens| u32::try_from(tokens).ok());
        fits.ok_or_else(|| self.wrong(line, role, given, needed))
    }

    /// The number of a model; `None` if its requests are not wanted.
    fn model(&self, line: u64, given: Cell<'_>) -> Result<Option<u32>> {
        let name = given.text().map_or_else(|| given.to_string(), str::to_owned);
        if !self.models.is_empty() {
            return Ok(self.models.iter().position(|model| *model == name).map(|number| number as u32));
        }
        match (self.layout.is_strict(), name.parse()) {
            // A published trace names the models of others, and not those that it is replayed on.
            (false, _) => Ok(Some(0)),
            (true, Ok(number)) => Ok(Some(number)),
            (true, Err(_)) => {
                Err(self.wrong(line, Role::Model, given, "the number of a model, or trace.models to say their names"))
            }
        }
    }

    fn blocks(&self, line: u64, given: Cell<'_>, input: u32) -> Result<Vec<u64>> {
        let wrong = |needed: &str| self.wrong(line, Role::Blocks, given, needed);
        let Cell::Json(Value::Array(list)) = given else { return Err(wrong("a list of whole numbers")) };
        let most = input.div_ceil(self.block.max(1));
        if list.len() > most as usize {
            return Err(wrong(&format!(
                "at most {most} hashes, one for each {} of {input} tokens; block=... says that there are others",
                self.block
            )));
        }
        let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        numbers.ok_or_else(|| wrong("a list of whole numbers"))
    }
}
