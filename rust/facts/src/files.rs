//! Files of a user's own: read when they are what they should be, and what is wrong with them in one line.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read};
use std::path::Path;

use toml::de::Error as TomlError;

/// The most bytes of a description that are read **(choice)**: many times what any has.
pub const MAX_BYTES: u64 = 16 << 20;

/// Opens a file for reading. Opening a pipe does not wait for its writer; without Unix there are none in folders.
fn open(path: &Path) -> Result<File, IoError> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

/// Opens a regular file, however long.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`] if it is a pipe, a device or a directory.
///
/// ```
/// let refusal = trn3_facts::files::open_regular("/dev/zero".as_ref()).unwrap_err();
/// assert_eq!(refusal.to_string(), "is not a regular file");
/// ```
pub fn open_regular(path: &Path) -> Result<File, IoError> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(IoError::new(ErrorKind::InvalidInput, "is not a regular file"));
    }
    Ok(file)
}

/// The text of a regular file of at most [`MAX_BYTES`].
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`] if it is a pipe, a device or a directory,
/// [`ErrorKind::FileTooLarge`] if it is too long, [`ErrorKind::InvalidData`] if it is no text.
///
/// ```
/// let refusal = trn3_facts::files::read_text("/dev/zero".as_ref()).unwrap_err();
/// assert_eq!(refusal.to_string(), "is not a regular file");
/// ```
pub fn read_text(path: &Path) -> Result<String, IoError> {
    let file = open(path)?;
    let status = file.metadata()?;
    if !status.is_file() && !status.is_dir() {
        return Err(IoError::new(ErrorKind::InvalidInput, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    if status.len() <= MAX_BYTES {
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    }
    let size = status.len().max(bytes.len() as u64);
    if size > MAX_BYTES {
        let why = format!("is a file of {size} bytes; a description has at most {MAX_BYTES}");
        return Err(IoError::new(ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(bytes)
        .map_err(|error| IoError::new(ErrorKind::InvalidData, format!("is not UTF-8 text: {error}")))
}

/// What is wrong with a TOML text, and where; the line itself, which may be as long as the text, is not repeated.
///
/// ```
/// let text = format!("{} = 1", "x".repeat(100_000));
/// let error = format!("{text} 2").parse::<toml::Table>().unwrap_err();
/// let why = trn3_facts::files::why_no_toml(&error, &text);
/// assert!(why.starts_with("line 1, column 10000") && why.len() < 100, "{why}");
/// ```
pub fn why_no_toml(error: &TomlError, text: &str) -> String {
    let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return why };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    format!("line {line}, column {column}: {why}")
}
