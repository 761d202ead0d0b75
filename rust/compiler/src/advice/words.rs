//! Advice in words: what a change does, and what to write.

use super::AdviceKind;

/// A change as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdviceWords {
    /// What it does, by the lines and names given.
    pub change: String,
    /// What to write.
    pub write: String,
}

/// Says a change of these lines; `engines` are those of each line, `before` the line that is overtaken.
///
/// ```
/// use trn3_compiler::advice::{AdviceKind, words};
///
/// let said = words(AdviceKind::Engine, &[31, 33], &[vec!["scalar".to_owned()], vec!["scalar".to_owned()]], &[], None);
/// assert_eq!(said.change, "give lines 31 and 33 to ScalarE");
/// assert_eq!(said.write, "engine=nisa.scalar_engine");
/// ```
pub fn words(
    kind: AdviceKind,
    lines: &[u32],
    engines: &[Vec<String>],
    tensors: &[String],
    before: Option<u32>,
) -> AdviceWords {
    let names = tensors;
    let tensors = joined(&tensors.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>());
    let (change, write) = match kind {
        AdviceKind::Hoist => (
            format!("hoist what fills {tensors}, {}", numbered(lines, " and ")),
            "make and fill it before the loop, or in its first iteration and keep a list",
        ),
        AdviceKind::DoubleBuffer => {
            (format!("double-buffer {tensors}"), "make it in the loop, so that each iteration has its own")
        }
        AdviceKind::Ahead => (
            format!(
                "issue {} of the next iteration before line {}",
                numbered(lines, " to "),
                before.unwrap_or_default()
            ),
            "one more iteration; all but the last issue these, all but the first the rest",
        ),
        AdviceKind::Dead => {
            (format!("leave out {}, whose results nothing needs", numbered(lines, " and ")), "nothing else")
        }
        AdviceKind::Join => (
            format!("join the transfers of {} that move neighbouring bytes", numbered(lines, " and ")),
            "one dma_copy of all of them: loads before the loop, stores after it",
        ),
        AdviceKind::Direct => (
            match names {
                [copy, source] => format!(
                    "read `{source}` instead of `{copy}`, its copy of {}",
                    numbered(&lines[..lines.len().min(1)], "")
                ),
                _ => format!("read what {} copies instead of the copy", numbered(&lines[..lines.len().min(1)], "")),
            },
            "no tensor_copy; its source in all lines that read the copy",
        ),
        AdviceKind::Engine => return given(lines, engines),
        AdviceKind::Queue => return triggered(lines, engines),
    };
    AdviceWords { change, write: write.to_owned() }
}

fn given(lines: &[u32], engines: &[Vec<String>]) -> AdviceWords {
    let (mut changes, mut texts) = (Vec::new(), Vec::new());
    for (engines, lines) in grouped(lines, engines) {
        let named: Vec<String> = engines.iter().map(|engine| long_name(engine)).collect();
        let turns = if named.len() > 1 { " in turn" } else { "" };
        changes.push(format!("give {} to {}{turns}", numbered(&lines, " and "), joined(&named)));
        texts.push(engine_text(engines));
    }
    AdviceWords { change: changes.join("; "), write: texts.join("; ") }
}

fn triggered(lines: &[u32], engines: &[Vec<String>]) -> AdviceWords {
    let (mut changes, mut texts) = (Vec::new(), Vec::new());
    for (engines, lines) in grouped(lines, engines) {
        let named: Vec<String> = engines.iter().map(|engine| long_name(engine)).collect();
        let turns = if named.len() > 1 { " in turn" } else { "" };
        changes.push(format!("trigger the transfers of {} from {}{turns}", numbered(&lines, " and "), joined(&named)));
        texts.push(format!("dge_mode=nisa.dge_mode.hwdge, {}", engine_text(engines)));
    }
    AdviceWords { change: changes.join("; "), write: texts.join("; ") }
}

/// Engines that several lines get alike, with these.
fn grouped<'a>(lines: &[u32], engines: &'a [Vec<String>]) -> Vec<(&'a Vec<String>, Vec<u32>)> {
    let mut of: Vec<(&Vec<String>, Vec<u32>)> = Vec::new();
    for (line, engines) in lines.iter().zip(engines) {
        match of.iter_mut().find(|(known, _)| *known == engines) {
            Some((_, lines)) => lines.push(*line),
            None => of.push((engines, vec![*line])),
        }
    }
    of
}

fn engine_text(engines: &[String]) -> String {
    let nki: Vec<String> = engines.iter().map(|engine| format!("nisa.{engine}_engine")).collect();
    match &nki[..] {
        [engine] => format!("engine={engine}"),
        several => format!("engine=({})[index % {}]", several.join(", "), several.len()),
    }
}

fn long_name(engine: &str) -> String {
    match engine {
        "gpsimd" => "GpSimdE".to_owned(),
        _ => {
            let mut letters = engine.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).chain(['E']).collect()
        }
    }
}

fn numbered(lines: &[u32], joint: &str) -> String {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    lines.dedup();
    let words: Vec<String> = lines.iter().map(u32::to_string).collect();
    match &words[..] {
        [first, last] => format!("lines {first}{joint}{last}"),
        [line] => format!("line {line}"),
        _ => format!("lines {}", joined(&words)),
    }
}

fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [word] => word.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
