//! Texts and numbers as HTML; what a person wrote is never markup.

use std::fmt::{Display, Write};

/// Whether a letter is none, but changes how others are shown.
fn is_obeyed(letter: char) -> bool {
    let marks = ['\u{80}'..='\u{9f}', '\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}'];
    letter == '\u{feff}' || marks.iter().any(|marks| marks.contains(&letter))
}

/// A text as HTML has it, in elements and in attributes. What a terminal or a browser would obey is shown, not obeyed.
pub(super) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            '\n' | '\t' => shown.push(letter),
            '\0'..'\x20' => shown.extend(char::from_u32('\u{2400}' as u32 + letter as u32)),
            '\x7f' => shown.push('\u{2421}'),
            _ if is_obeyed(letter) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", letter as u32);
            }
            _ => shown.push(letter),
        }
    }
    shown
}

/// JSON that no script element can end early, nor a comment begin in.
pub(super) fn json_in_script(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => shown.push_str("\\u003c"),
            _ if is_obeyed(letter) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{:04x}", letter as u32);
            }
            _ => shown.push(letter),
        }
    }
    shown
}

/// Microseconds with the unit that fits, and four digits.
pub(super) fn time(us: f64) -> String {
    scaled(us, &[(1e-3, "ns"), (1.0, "us"), (1e3, "ms"), (1e6, "s")])
}

/// Bytes with the unit that fits, and four digits.
pub(super) fn size(bytes: f64) -> String {
    scaled(bytes, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")])
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fitting = units.iter().rev().find(|(factor, _)| value.abs() >= factor * 0.999_95);
    let (factor, unit) = fitting.or(units.first()).copied().unwrap_or((1.0, ""));
    format!("{} {unit}", digits(value / factor))
}

/// A number with four digits.
pub(super) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "–".to_owned() };
    }
    let before = (value.abs().log10().floor() as i32 + 1).clamp(-3, 4);
    let text = format!("{value:.*}", (4 - before) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with its thousands apart.
pub(super) fn count(number: u64) -> String {
    let text = number.to_string();
    let group = |(place, digit): (usize, char)| {
        let is_apart = place > 0 && (text.len() - place).is_multiple_of(3);
        is_apart.then_some(',').into_iter().chain([digit])
    };
    text.chars().enumerate().flat_map(group).collect()
}

/// A part as percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    /// A number: how it is shown, and what it is.
    Number(String, f64),
}

/// Rows of a table, each with its attributes (made here, never of a person's words unescaped) and cells.
#[derive(Debug, Default)]
pub(super) struct HtmlTable {
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<(String, Vec<Cell>)>,
    /// Rows that there are, of which these are the first.
    pub(super) all: usize,
}

/// Most rows that a table shows as text.
pub(super) const SHOWN: usize = 50;

impl HtmlTable {
    pub(super) fn of(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|head| (*head).to_owned()).collect(), ..Self::default() }
    }

    pub(super) fn row(&mut self, attributes: String, cells: Vec<Cell>) {
        self.all += 1;
        if self.rows.len() < SHOWN {
            self.rows.push((attributes, cells));
        }
    }

    pub(super) fn write(&self, name: &str, caption: &str) -> String {
        let mut html = format!(
            "<table data-table=\"{name}\" data-rows=\"{}\"><caption>{}</caption><thead><tr>",
            self.all,
            escape(caption)
        );
        for head in &self.heads {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(head));
        }
        html.push_str("</tr></thead><tbody>");
        for (attributes, cells) in &self.rows {
            let _ = write!(html, "<tr{attributes}>");
            for cell in cells {
                let _ = match cell {
                    Cell::Text(text) => write!(html, "<td>{}</td>", escape(text)),
                    Cell::Number(text, value) if value.is_finite() => {
                        write!(html, "<td class=\"number\" data-value=\"{value}\">{}</td>", escape(text))
                    }
                    Cell::Number(text, _) => write!(html, "<td class=\"number\">{}</td>", escape(text)),
                };
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>\n");
        html
    }
}

/// A name and what it is, for a description list.
pub(super) fn entry(name: &str, value: impl Display) -> String {
    format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value.to_string()))
}

/// ` name="value"`.
pub(super) fn attribute(name: &str, value: impl Display) -> String {
    format!(" {name}=\"{}\"", escape(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_what_a_person_wrote_is_text() {
        assert_eq!(escape("</script>\x1b[31m\"'&\u{202e}"), "&lt;/script&gt;\u{241b}[31m&quot;&#39;&amp;\\u{202e}");
        assert_eq!(json_in_script("\"</script>\u{202e}<!--\""), "\"\\u003c/script>\\u202e\\u003c!--\"");
    }

    #[test]
    fn test_numbers_have_four_digits() {
        let times = [(36_337.309, "36.34 ms"), (0.0004, "0.4 ns"), (999.96, "1 ms"), (0.0, "0 ns"), (73.6, "73.6 us")];
        times.iter().for_each(|(us, shown)| assert_eq!(time(*us), *shown));
        assert_eq!([size(1536.0), size(25e9), count(1_234_567), count(12)], ["1.536 kB", "25 GB", "1,234,567", "12"]);
        assert_eq!([digits(123_456.0), digits(0.012_345), digits(f64::NAN)], ["123456", "0.01235", "–"]);
    }
}
