//! The kernel's text, each line with what it cost.

use std::collections::HashMap;
use std::fmt::Write;

use crate::profile::Profile;
use crate::report::html::{attribute, count, digits, escape, size, time};
use crate::report::lists::short;

/// What a line cost.
#[derive(Clone, Copy, Default)]
struct LineHeat {
    critical_us: f64,
    wait_us: f64,
    bytes: u64,
    instructions: u64,
    /// None without a shadow run.
    precision: Option<f64>,
}

impl LineHeat {
    fn values(&self) -> [f64; 5] {
        let (bytes, instructions) = (self.bytes as f64, self.instructions as f64);
        [self.critical_us, self.wait_us, bytes, instructions, self.precision.unwrap_or(0.0)]
    }

    fn texts(&self) -> [String; 5] {
        let precision = self.precision.map(|loss| if loss == 0.0 { "0".to_owned() } else { format!("{loss:.1e}") });
        let text = [time(self.critical_us), time(self.wait_us), size(self.bytes as f64), count(self.instructions)];
        let [critical, wait, bytes, instructions] = text;
        [critical, wait, bytes, instructions, precision.unwrap_or_default()]
    }
}

const HEATS: [(&str, &str); 5] = [
    ("critical", "critical"),
    ("wait", "waits"),
    ("bytes", "HBM bytes"),
    ("instructions", "instructions"),
    ("precision", "lost precision"),
];

/// The pane of the sources of `files`, in their order.
pub(super) fn source_pane(profile: &Profile, files: &[String]) -> String {
    let mut heats: HashMap<(&str, u32), LineHeat> = HashMap::new();
    let (lines, losses) = (profile.lines(), profile.precision());
    for line in &lines {
        let heat = heats.entry((&line.file, line.line)).or_default();
        heat.critical_us += line.critical_us;
        heat.wait_us += line.wait_us;
        heat.bytes = heat.bytes.saturating_add(line.hbm_bytes);
        heat.instructions += line.instructions;
    }
    for loss in &losses {
        let heat = heats.entry((&loss.loss.file, loss.loss.line)).or_default();
        heat.precision = Some(heat.precision.unwrap_or(0.0).max(loss.loss.relative_error));
    }
    let mut most = [0.0f64; 5];
    for heat in heats.values() {
        most.iter_mut().zip(heat.values()).for_each(|(most, value)| *most = most.max(value));
    }
    let shown = if losses.is_empty() { 4 } else { 5 };
    let mut html = String::new();
    let texts = |file: &String| profile.cores().iter().find_map(|core| core.columns().recorded.sources.get(file));
    let is_shown = |file: &String| texts(file).is_some() || heats.keys().any(|(of, _)| of == file);
    for (number, file) in files.iter().enumerate().filter(|(_, file)| !file.is_empty() && is_shown(file)) {
        let Some(text) = texts(file) else {
            missing(&mut html, number, file, &heats);
            continue;
        };
        let _ =
            write!(html, "<h3>{}</h3><table class=\"source\"{}>", escape(short(file)), attribute("data-file", file));
        let _ = write!(html, "<caption>{}</caption><thead><tr><th>place</th><th>line</th>", escape(file));
        HEATS[..shown].iter().for_each(|(_, head)| {
            let _ = write!(html, "<th>{head}</th>");
        });
        html.push_str("<th>text</th></tr></thead><tbody>\n");
        for (line, code) in (1u32..).zip(text.lines()) {
            let place = format!("{file}:{line}");
            let _ = write!(
                html,
                "<tr id=\"L{number}-{line}\"{} data-file-number=\"{number}\" data-number=\"{line}\"><td class=\"place\">{}:{line}</td><td class=\"number\">{line}</td>",
                attribute("data-line", &place),
                escape(short(file)),
            );
            let heat = heats.get(&(file.as_str(), line));
            for kind in 0..shown {
                let _ = match heat {
                    Some(heat) => cell(&mut html, kind, heat, most[kind]),
                    None => write!(html, "<td></td>"),
                };
            }
            let _ = writeln!(html, "<td class=\"code\"><code>{}</code></td></tr>", escape(code));
        }
        html.push_str("</tbody></table>\n");
    }
    if html.is_empty() {
        html.push_str("<p class=\"none\">No line of a file is known.</p>\n");
    }
    html
}

fn cell(html: &mut String, kind: usize, heat: &LineHeat, most: f64) -> std::fmt::Result {
    let (value, name) = (heat.values()[kind], HEATS[kind].0);
    let part = if most > 0.0 { value / most } else { 0.0 };
    write!(
        html,
        "<td class=\"heat\" data-heat=\"{name}\" data-value=\"{}\">{}</td>",
        digits(part),
        escape(&heat.texts()[kind])
    )
}

/// A file whose text nobody kept: its lines with instructions, without text.
fn missing(html: &mut String, number: usize, file: &str, heats: &HashMap<(&str, u32), LineHeat>) {
    let _ = writeln!(
        html,
        "<p{}>The text of {} was not recorded; its lines:</p><ul>",
        attribute("data-file-missing", file),
        escape(file)
    );
    let mut lines: Vec<_> = heats.iter().filter(|((of, _), _)| *of == file).collect();
    lines.sort_by_key(|((_, line), _)| *line);
    for ((_, line), heat) in lines {
        let place = format!("{file}:{line}");
        let _ = writeln!(
            html,
            "<li id=\"L{number}-{line}\"{}>{}:{line}: {} critical, {} instructions</li>",
            attribute("data-line", &place),
            escape(short(file)),
            time(heat.critical_us),
            count(heat.instructions),
        );
    }
    html.push_str("</ul>\n");
}
