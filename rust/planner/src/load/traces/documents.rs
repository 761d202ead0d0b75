//! Traces that are one JSON document: results of vLLM's benchmark, lists of conversations.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{Formatter, Result as FormatResult};
use std::io::Read;

use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use trn3_system::{Error, Result};

use super::fields::LineReader;
use super::lines::Watched;
use super::rows::{RecordedRow, RowTable};

/// What is read of a result of vLLM's benchmark; the texts that it may hold are passed over.
#[derive(Deserialize)]
struct BenchmarkResult {
    input_lens: Vec<u32>,
    output_lens: Vec<u32>,
    #[serde(default)]
    start_times: Option<Vec<f64>>,
}

/// A message of a conversation.
#[derive(Deserialize)]
struct SharedMessage<'a> {
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

/// A conversation of ShareGPT.
#[derive(Deserialize)]
pub(super) struct SharedConversation<'a> {
    #[serde(borrow)]
    conversations: Vec<SharedMessage<'a>>,
}

/// Who writes prompts, and who answers, in the words of those who share conversations.
const ASKS: [&str; 5] = ["human", "user", "system", "tool", "function"];
const ANSWERS: [&str; 7] = ["gpt", "chatgpt", "assistant", "model", "bing", "bard", "bot"];

impl SharedConversation<'_> {
    /// Adds the turns: each is what was asked since the answer before, and the next answer.
    pub(super) fn read(
        &self,
        reader: &LineReader<'_>,
        rows: &mut RowTable,
        turns: Option<u32>,
        place: &dyn Fn() -> String,
    ) -> Result<()> {
        let session = rows.session(None);
        let (mut said, mut asked, mut count) = (0_u64, None, 0);
        for message in &self.conversations {
            let tokens = (reader.count)(&message.value).max(1);
            if ASKS.contains(&&*message.from) {
                asked = Some(asked.unwrap_or(0) + tokens);
            } else if !ANSWERS.contains(&&*message.from) {
                let from: String = message.from.chars().take(60).collect();
                let known = [&ASKS[..], &ANSWERS[..]].concat().join(", ");
                return Err(Error::Spec(format!("{}: column from is '{from}'; needed: {known}", place())));
            } else if let Some(own) = asked.take()
                && turns.is_none_or(|most| count < most)
            {
                let whole = said + own + tokens;
                let (Ok(input), Ok(output), true) =
                    (u32::try_from(said + own), u32::try_from(tokens), u32::try_from(whole).is_ok())
                else {
                    return Err(Error::Spec(format!(
                        "{}: the conversation has {whole} tokens; needed: at most {}",
                        place(),
                        u32::MAX
                    )));
                };
                rows.push(RecordedRow { input, output, session: Some(session), ..RecordedRow::default() }, place)?;
                (said, count) = (whole, count + 1);
            }
        }
        if count == 0 {
            rows.skip("conversations without an answer to a prompt are left out");
        }
        Ok(())
    }
}

/// What a document fails with: the JSON's own error, with its line.
fn broken(file: &str, needed: &str, why: &serde_json::Error) -> Error {
    Error::Spec(format!("{file}:{}: {why}; needed: {needed}", why.line().max(1)))
}

/// Reads a result of vLLM's benchmark.
pub(super) fn read_result<R: Read>(source: R, reader: &LineReader<'_>, rows: &mut RowTable) -> Result<()> {
    let file = reader.file;
    let result: BenchmarkResult = serde_json::from_reader(source).map_err(|why| {
        broken(file, "a result of vLLM's benchmark with input_lens and output_lens (--save-detailed)", &why)
    })?;
    let (inputs, outputs) = (result.input_lens.len(), result.output_lens.len());
    let starts = result.start_times.as_ref().map_or(inputs, Vec::len);
    if inputs != outputs || inputs != starts {
        return Err(Error::Spec(format!(
            "{file}: has {inputs} input_lens, {outputs} output_lens and {starts} start_times; needed: as many of each"
        )));
    }
    for (number, (input, output)) in result.input_lens.into_iter().zip(result.output_lens).enumerate() {
        if input == 0 || output == 0 {
            rows.skip("requests without tokens of a prompt or an answer, which failed, are left out");
            continue;
        }
        let at = result.start_times.as_ref().map(|starts| starts[number]);
        rows.push(RecordedRow { at, input, output, ..RecordedRow::default() }, &|| {
            format!("{file}: request {number}")
        })?;
    }
    Ok(())
}

/// Conversations of a list, read one by one.
struct ConversationList<'r, 'f> {
    reader: &'r LineReader<'f>,
    rows: &'r mut RowTable,
    turns: Option<u32>,
    since: &'r Cell<u64>,
    /// What is wrong with a conversation, rather than with the JSON.
    refused: &'r mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for ConversationList<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ConversationList<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut Formatter<'_>) -> FormatResult {
        formatter.write_str("a list of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        let mut number = 0_u64;
        while let Some(conversation) = list.next_element::<SharedConversation<'_>>()? {
            self.since.set(0);
            let place = || format!("{}: conversation {number}", self.reader.file);
            if let Err(error) = conversation.read(self.reader, self.rows, self.turns, &place) {
                *self.refused = Some(error);
            }
            if self.refused.is_some() || self.rows.is_full() {
                // The only way to read no further.
                return Err(A::Error::custom("enough"));
            }
            number += 1;
        }
        Ok(())
    }
}

/// Reads a list of conversations.
pub(super) fn read_conversations<R: Read>(
    source: R,
    reader: &LineReader<'_>,
    rows: &mut RowTable,
    turns: Option<u32>,
) -> Result<()> {
    let (source, since) = Watched::new(source);
    let mut json = serde_json::Deserializer::from_reader(source);
    let mut refused = None;
    let list = ConversationList { reader, rows, turns, since: &since, refused: &mut refused };
    let read = list.deserialize(&mut json).and_then(|()| json.end());
    match (read, refused) {
        (_, Some(refused)) => Err(refused),
        (Err(why), None) if !rows.is_full() => {
            Err(broken(reader.file, "a list of objects with conversations of from and value", &why))
        }
        _ => Ok(()),
    }
}
