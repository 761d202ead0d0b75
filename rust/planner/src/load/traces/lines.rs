//! Files of any size, a bounded piece at a time.

use std::cell::Cell;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Error as IoError, Read, Result as IoResult};
use std::path::Path;
use std::rc::Rc;

use trn3_facts::files;
use trn3_system::{Error, Result};

/// The most bytes of a line, or of a conversation in a list **(choice)**: many times what a model reads.
pub(super) const LONGEST_LINE: u64 = 16 << 20;

/// Bytes that are read at once **(choice)**.
const PIECE: usize = 256 << 10;

/// The most characters that messages repeat of what is wrong **(choice)**.
const SHOWN: usize = 60;

/// Opens a regular file.
pub(super) fn open(path: &Path) -> Result<File> {
    files::open_regular(path).map_err(|why| Error::Spec(format!("{}: {why}", path.display())))
}

/// A text of a file as messages repeat it: its beginning, without what moves a terminal's cursor.
pub(super) fn shown(text: &str, most: usize) -> String {
    text.chars().take(most).map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// What is wrong with a column, and where.
pub(super) fn wrong(file: &str, line: u64, column: &str, got: impl Display, needed: &str) -> Error {
    let got = shown(&got.to_string(), SHOWN);
    Error::Spec(format!("{file}:{line}: column {column} is {got}; needed: {needed}"))
}

/// The lines of a file that are not blank, with their numbers.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    file: String,
    number: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R, file: &str) -> Self {
        Self { reader: BufReader::with_capacity(PIECE, reader), file: file.to_owned(), number: 0, line: Vec::new() }
    }

    /// The next line and its number, from 1 on.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &str)>> {
        loop {
            self.line.clear();
            self.number += 1;
            let here = |why: &dyn Display| Error::Spec(format!("{}:{}: {why}", self.file, self.number));
            let read = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut self.line);
            if read.map_err(|why| here(&why))? == 0 {
                return Ok(None);
            }
            if self.line.len() as u64 > LONGEST_LINE {
                return Err(here(&format!("the line has more than {LONGEST_LINE} bytes")));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let text = str::from_utf8(&self.line).map_err(|why| {
            Error::Spec(format!(
                "{}:{}: is no UTF-8 text ({why}); a compressed file has to be unpacked first",
                self.file, self.number
            ))
        })?;
        let text = if self.number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        Ok(Some((self.number, text.trim_end_matches(['\r', '\n']))))
    }
}

/// A reader that fails once more than [`LONGEST_LINE`] bytes came since the count was last set to 0.
pub(super) struct Watched<R> {
    reader: R,
    since: Rc<Cell<u64>>,
}

impl<R: Read> Watched<R> {
    pub(super) fn new(reader: R) -> (BufReader<Self>, Rc<Cell<u64>>) {
        let since = Rc::new(Cell::new(0));
        (BufReader::with_capacity(PIECE, Self { reader, since: Rc::clone(&since) }), since)
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        let count = self.reader.read(buffer)?;
        self.since.set(self.since.get() + count as u64);
        if self.since.get() > LONGEST_LINE {
            return Err(IoError::other(format!("one conversation has more than {LONGEST_LINE} bytes")));
        }
        Ok(count)
    }
}
