//! Conversations from what was recorded.

use std::collections::HashMap;

use trn3_system::{Error, Result};

use super::super::conversation::{Conversation, PromptSegment, Turn};
use super::BYTES_OF_TOKEN;
use super::columns::{Role, TraceLayout};
use super::fields::LineReader;
use super::rows::{RowTable, Selection};

/// The requests of a trace, one conversation after another.
///
/// With recorded times every request is sent at its own, the first one at second 0; without, requests of a session are
/// the turns of one conversation. Either way a prompt shares with others what its trace says: the blocks of its hashes,
/// or what was said before in its session, unless it is shorter than that.
#[derive(Clone, Debug)]
pub struct RecordedTraffic {
    table: RowTable,
    /// Rows in the order in which they are sent, where it is not that of the file.
    order: Option<Vec<u32>>,
    timed: bool,
    start: f64,
    /// Units of the trace's time that a second of the replay has.
    scale: f64,
    block: u32,
    /// Requests that each session still has.
    left: Vec<u32>,
    histories: HashMap<u32, Vec<PromptSegment>>,
    /// The next number of a segment.
    number: u64,
    place: usize,
    conversations: u64,
    has_outputs: bool,
    longest: u64,
    said: Vec<String>,
}

impl RecordedTraffic {
    pub(super) fn new(mut table: RowTable, reader: &LineReader<'_>, counted: bool, scale: f64) -> Result<Self> {
        let &LineReader { file, layout, block, .. } = reader;
        let Selection { timed, offset, requests, .. } = table.selection;
        let timed = timed && table.timed == Some(true);
        table.forget_names();
        let rows = &table.rows;
        let groups = !timed && !table.sessions.is_empty();
        let order = (table.sorts() || groups).then(|| {
            let mut places: Vec<u32> = (0..rows.len() as u32).collect();
            if table.sorts() {
                if timed {
                    places.sort_by(|&one, &other| rows[one as usize].at.total_cmp(&rows[other as usize].at));
                }
                places.drain(..usize::try_from(offset).unwrap_or(usize::MAX).min(places.len()));
                places.truncate(usize::try_from(requests.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
            }
            if groups {
                places.sort_by_key(|&place| table.sessions[place as usize]);
            }
            places
        });
        let mut left = vec![0; table.sessions.iter().max().map_or(0, |&most| most as usize + 1)];
        let (mut conversations, mut longest) = (0, 0);
        let count = order.as_ref().map_or(rows.len(), Vec::len);
        for place in 0..count {
            let row = order.as_ref().map_or(place, |order| order[place] as usize);
            longest = longest.max(u64::from(rows[row].input) + u64::from(rows[row].output));
            let session = table.sessions.get(row).map(|&session| session as usize);
            conversations += u64::from(timed || session.is_none_or(|session| left[session] == 0));
            if let Some(session) = session {
                left[session] += 1;
            }
        }
        match requests {
            Some(wanted) if (count as u64) < wanted => {
                return Err(Error::Value(format!(
                    "requests is {wanted}, and {file} has {count} from trace.offset {offset} on"
                )));
            }
            _ if count == 0 => {
                return Err(Error::Spec(format!(
                    "{file}: has no requests from trace.offset {offset} on; needed: at least 1"
                )));
            }
            _ => {}
        }
        let first = order.as_ref().and_then(|order| order.first()).map_or(0, |&row| row as usize);
        let start = rows[first].at;
        let mut said: Vec<String> = table.skipped().map(|what| format!("{file}: {what}")).collect();
        if !counted && matches!(layout, TraceLayout::ShareGpt | TraceLayout::VllmCustom) {
            said.push(format!("{file}: tokens of its texts are counted as {BYTES_OF_TOKEN} bytes each"));
        }
        let has_outputs = rows.iter().all(|row| row.output > 0);
        if !has_outputs && rows.iter().any(|row| row.output > 0) {
            let output = layout.column(Role::Output).unwrap_or("output");
            return Err(Error::Spec(format!("{file}: only some requests have {output}; needed: all or none")));
        }
        Ok(Self {
            order,
            timed,
            start,
            scale: scale * table.selection.ticks,
            block,
            left,
            histories: HashMap::new(),
            number: 0,
            place: 0,
            conversations,
            has_outputs,
            longest,
            said,
            table,
        })
    }

    /// How many requests.
    pub fn requests(&self) -> u64 {
        self.order.as_ref().map_or(self.table.rows.len(), Vec::len) as u64
    }

    /// How many conversations they are.
    pub fn conversations(&self) -> u64 {
        self.conversations
    }

    /// Whether recorded times are replayed.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// How many models the requests are for: the greatest number is one less.
    pub fn models(&self) -> u32 {
        self.table.models.iter().max().map_or(1, |&most| most.saturating_add(1))
    }

    /// Whether the trace says priorities.
    pub fn has_priorities(&self) -> bool {
        !self.table.priorities.is_empty()
    }

    /// Whether the trace says how long answers are.
    pub fn has_outputs(&self) -> bool {
        self.has_outputs
    }

    /// The most tokens of a prompt and its answer.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// What was left out and what was taken for granted, in words.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    fn row(&self, place: usize) -> Option<usize> {
        match &self.order {
            Some(order) => order.get(place).map(|&row| row as usize),
            None => (place < self.table.rows.len()).then_some(place),
        }
    }

    fn session(&self, row: usize) -> Option<u32> {
        self.table.sessions.get(row).copied()
    }

    fn turn(&mut self, row: usize) -> Turn {
        let recorded = self.table.rows[row];
        let priority = self.table.priorities.get(row).copied().unwrap_or(0);
        let mut turn = Turn { input: recorded.input, output: recorded.output, priority, ..Turn::default() };
        if let Some(&end) = self.table.ends.get(row) {
            let begin = row.checked_sub(1).map_or(0, |before| self.table.ends[before]);
            let mut tokens = recorded.input;
            for &number in &self.table.blocks[begin..end] {
                turn.segments.push(PromptSegment { number, tokens: tokens.min(self.block) });
                tokens = tokens.saturating_sub(self.block);
            }
        } else if let Some(session) = self.session(row) {
            self.share(session, &mut turn);
        }
        turn
    }

    /// What a turn shares with those before and after it in its session.
    fn share(&mut self, session: u32, turn: &mut Turn) {
        let mut history = self.histories.remove(&session).unwrap_or_default();
        let said: u64 = history.iter().map(|part| u64::from(part.tokens)).sum();
        let own = u64::from(turn.input).checked_sub(said);
        if own.is_none() {
            history.clear();
        }
        let left = &mut self.left[session as usize];
        *left = left.saturating_sub(1);
        if *left > 0 {
            let tokens = own.map_or(turn.input, |own| own as u32);
            if tokens > 0 {
                history.push(PromptSegment { number: self.number, tokens });
            }
            turn.answer = Some(self.number + 1);
            turn.segments.clone_from(&history);
            history.push(PromptSegment { number: self.number + 1, tokens: turn.output });
            self.number += 2;
            self.histories.insert(session, history);
        } else {
            turn.segments = history;
        }
    }
}

impl Iterator for RecordedTraffic {
    type Item = Conversation;

    fn next(&mut self) -> Option<Conversation> {
        let row = self.row(self.place)?;
        self.place += 1;
        let model = self.table.models.get(row).copied().unwrap_or(0);
        let at = if self.timed { (self.table.rows[row].at - self.start) / self.scale } else { 0.0 };
        let mut turns = vec![self.turn(row)];
        let session = self.session(row).filter(|_| !self.timed);
        while let Some(next) = self.row(self.place).filter(|&next| session.is_some() && self.session(next) == session) {
            self.place += 1;
            turns.push(self.turn(next));
        }
        Some(Conversation { at, model, turns, pause: 0.0 })
    }
}
