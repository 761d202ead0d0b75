//! Texts that are shown.

use std::fmt::Write;

/// A text with everything that a terminal would obey, or not show, escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        // Behind another letter, what `escape_debug` changes is what cannot be shown, and quotation marks.
        let behind = format!("a{letter}");
        let is_shown = matches!(letter, '\\' | '\'' | '"') || behind.escape_debug().eq(behind.chars());
        // Writing to a string cannot fail.
        let _ = match (letter, letter as u32) {
            _ if is_shown => write!(shown, "{letter}"),
            ('\n', _) => write!(shown, "\\n"),
            ('\r', _) => write!(shown, "\\r"),
            ('\t', _) => write!(shown, "\\t"),
            (_, code @ ..0x100) => write!(shown, "\\x{code:02x}"),
            (_, code @ ..0x1_0000) => write!(shown, "\\u{code:04x}"),
            (_, code) => write!(shown, "\\U{code:08x}"),
        };
    }
    shown
}

/// A line of the kernel as text.
pub(crate) fn location(file: &str, line: u32) -> String {
    if line == 0 { "unknown line".to_owned() } else { format!("{file}:{line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_what_cannot_be_shown_is_escaped() {
        let cases = [
            ("weight\x1b[31m", "weight\\x1b[31m"),
            ("a b\\c'd\"é\u{301}", "a b\\c'd\"é\u{301}"),
            ("\n\r\t\u{7f}\u{a0}\u{2028}\u{e000}\u{10ffff}", "\\n\\r\\t\\x7f\\xa0\\u2028\\ue000\\U0010ffff"),
        ];
        for (text, shown) in cases {
            assert_eq!(printable(text), shown);
        }
    }
}
