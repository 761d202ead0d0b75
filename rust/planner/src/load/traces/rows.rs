//! Requests of a trace as they are read: what is kept of each, and which are.

use std::collections::HashMap;

use trn3_system::{Error, Result};

/// What a line of a trace says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RecordedRow {
    /// On the trace's clock, in its unit.
    pub(super) at: Option<f64>,
    pub(super) input: u32,
    /// 0 where the trace does not say.
    pub(super) output: u32,
    pub(super) priority: Option<i32>,
    pub(super) model: Option<u32>,
    pub(super) session: Option<u32>,
    pub(super) blocks: Vec<u64>,
}

/// Which requests are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    /// Whether recorded times are replayed.
    pub(super) timed: bool,
    /// Whether they may come in any order.
    pub(super) sort: bool,
    /// Units of time that a second has.
    pub(super) ticks: f64,
    pub(super) offset: u64,
    pub(super) requests: Option<u64>,
}

/// Time and lengths of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) at: f64,
    pub(super) input: u32,
    pub(super) output: u32,
}

/// Requests in the order of the file; what a trace does not say takes no memory.
#[derive(Clone, Debug)]
pub(super) struct RowTable {
    pub(super) rows: Vec<Recorded>,
    pub(super) priorities: Vec<i32>,
    pub(super) models: Vec<u32>,
    pub(super) sessions: Vec<u32>,
    pub(super) blocks: Vec<u64>,
    /// Where each request's blocks end.
    pub(super) ends: Vec<usize>,
    /// Whether requests have times; `None` before the first one.
    pub(super) timed: Option<bool>,
    pub(super) selection: Selection,
    seen: u64,
    last: f64,
    session_numbers: HashMap<String, u32>,
    session_count: u32,
    skipped: Vec<(&'static str, u64)>,
}

impl RowTable {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            rows: Vec::new(),
            priorities: Vec::new(),
            models: Vec::new(),
            sessions: Vec::new(),
            blocks: Vec::new(),
            ends: Vec::new(),
            timed: None,
            selection,
            seen: 0,
            last: f64::NEG_INFINITY,
            session_numbers: HashMap::new(),
            session_count: 0,
            skipped: Vec::new(),
        }
    }

    /// Whether no more requests are wanted.
    pub(super) fn is_full(&self) -> bool {
        let wanted = self.selection.requests.unwrap_or(u64::MAX);
        !self.sorts() && self.rows.len() as u64 >= wanted
    }

    /// Passes over a request, and counts it.
    pub(super) fn skip(&mut self, why: &'static str) {
        match self.skipped.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.skipped.push((why, 1)),
        }
    }

    /// What was passed over.
    pub(super) fn skipped(&self) -> impl Iterator<Item = String> {
        self.skipped.iter().map(|(why, count)| format!("{count} {why}"))
    }

    /// A number of its own for a session, or the one that its name has.
    pub(super) fn session(&mut self, name: Option<String>) -> u32 {
        let fresh = self.session_count;
        let number = name.map_or(fresh, |name| *self.session_numbers.entry(name).or_insert(fresh));
        self.session_count += u32::from(number == fresh);
        number
    }

    /// Frees what is needed only while lines come.
    pub(super) fn forget_names(&mut self) {
        self.session_numbers = HashMap::new();
    }

    /// Keeps a request if it is wanted.
    pub(super) fn push(&mut self, row: RecordedRow, place: &dyn Fn() -> String) -> Result<()> {
        let wrong = |what: String| Err(Error::Spec(format!("{}: {what}", place())));
        if *self.timed.get_or_insert(row.at.is_some()) != row.at.is_some() {
            return wrong("some requests have a time of arrival and some have none; needed: all or none".to_owned());
        }
        let Selection { timed, sort, offset, ticks, .. } = self.selection;
        let at = row.at.unwrap_or(0.0);
        if timed && !sort && at < self.last {
            let early = (self.last - at) / ticks;
            return wrong(format!(
                "the request is {early} s earlier than the one before it; needed: an order of time, or sort=true"
            ));
        }
        self.last = at;
        self.seen += 1;
        if self.is_full() || (!self.sorts() && self.seen <= offset) {
            return Ok(());
        }
        if self.rows.len() >= u32::MAX as usize {
            return wrong(format!("a trace has at most {} requests; requests=... takes the first ones", u32::MAX));
        }
        let place = self.rows.len();
        self.rows.push(Recorded { at, input: row.input, output: row.output });
        set(&mut self.priorities, place, row.priority);
        set(&mut self.models, place, row.model);
        set(&mut self.sessions, place, row.session);
        if !row.blocks.is_empty() || !self.ends.is_empty() {
            self.blocks.extend(row.blocks);
            set(&mut self.ends, place, Some(self.blocks.len()));
        }
        Ok(())
    }

    /// Whether all have to be read before the first one is known.
    pub(super) fn sorts(&self) -> bool {
        self.selection.timed && self.selection.sort
    }
}

/// Says something of the request at a place; those before it that nothing was said of have the default.
fn set<T: Clone + Default>(column: &mut Vec<T>, place: usize, value: Option<T>) {
    if value.is_some() || !column.is_empty() {
        column.resize(place, T::default());
        column.push(value.unwrap_or_default());
    }
}
