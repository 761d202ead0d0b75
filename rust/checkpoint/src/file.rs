//! A file, open for reading by range.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read};
use std::path::Path;

use crate::header::{Header, parse};
use crate::limits::MAX_HEADER_BYTES;
use crate::problem::{Error, Problem};

/// The bytes that say how long the header is.
const PREFIX: u64 = 8;

/// A safetensors file whose header has been checked.
#[derive(Debug)]
pub struct CheckpointFile {
    file: File,
    num_bytes: u64,
    data_begin: u64,
    header: Header,
}

impl CheckpointFile {
    /// Opens a regular file and checks its header.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses it, [`Error::Refused`] if it is no sound safetensors file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true);
        // Else opening a pipe would wait for its writer before it can be refused.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let mut file = options.open(path)?;
        let status = file.metadata()?;
        if status.is_dir() {
            return Err(Problem::Directory.into());
        }
        if !status.is_file() {
            return Err(Problem::NotRegular.into());
        }
        let num_bytes = status.len();
        let Some(follow) = num_bytes.checked_sub(PREFIX) else {
            return Err(Problem::TooShort { bytes: num_bytes }.into());
        };
        let mut prefix = [0; PREFIX as usize];
        read_whole(&mut file, &mut prefix)?;
        let length = u64::from_le_bytes(prefix);
        if length > follow {
            return Err(Problem::HeaderBeyondEnd { length, follow }.into());
        }
        if length > MAX_HEADER_BYTES {
            return Err(Problem::HeaderTooLong { length }.into());
        }
        let mut text = vec![0; length as usize];
        read_whole(&mut file, &mut text)?;
        let header = parse(&text, follow - length)?;
        Ok(Self { file, num_bytes, data_begin: PREFIX + length, header })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How long the file is, in bytes.
    pub fn num_bytes(&self) -> u64 {
        self.num_bytes
    }

    /// Reads the data from byte `start` of them on; `place` is how an error calls what it reads.
    ///
    /// # Errors
    /// [`Problem::Ended`] if the file has become shorter, else what the system says.
    pub fn read(&self, start: u64, into: &mut [u8], place: &str) -> Result<(), Error> {
        let from = self.data_begin.saturating_add(start);
        read_exact_at(&self.file, into, from).map_err(|error| ended(error, place))
    }
}

fn read_whole(file: &mut File, into: &mut [u8]) -> Result<(), Error> {
    file.read_exact(into).map_err(|error| ended(error, "its header"))
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], from: u64) -> Result<(), IoError> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, from)
}

#[cfg(windows)]
fn read_exact_at(file: &File, into: &mut [u8], from: u64) -> Result<(), IoError> {
    let mut done = 0;
    while done < into.len() {
        match std::os::windows::fs::FileExt::seek_read(file, &mut into[done..], from + done as u64) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ended(error: IoError, place: &str) -> Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => Problem::Ended { place: place.to_owned() }.into(),
        _ => error.into(),
    }
}
