//! The page on systems: comparisons as Markdown, and every conflict with the reason of its default.

use crate::built_in::BUILT_IN;
use crate::comparison::{Cell, Comparison, Peaks, compare};
use crate::error::Result;
use crate::facts::Facts;
use crate::quantity::{Quantity, Status};
use crate::show::shown;
use crate::spec::Spec;
use crate::value::Value;

const CHIPS: [&str; 5] = ["trainium3", "trainium2", "b200", "b300", "tpu_v7"];
const SYSTEMS: [&str; 6] = ["trn3_gen2", "trn3_gen1", "trn2_ultraserver", "gb200_nvl72", "gb300_nvl72", "tpu_v7"];
/// Rows of peaks; the last one but one is of chips alone.
const PEAKS: [&str; 5] = ["fp4", "fp8", "bf16", "bf16_sparse", "fp32"];

/// What the page shows of the crate's systems.
///
/// ```
/// let page = trn3_facts::systems_page()?;
/// assert!(page.starts_with("## Chips\n\n| |") && page.contains("## Where sources disagree"));
/// # Ok::<(), trn3_facts::Error>(())
/// ```
///
/// # Errors
/// Those of [`compare`]; none in practice.
pub fn systems_page() -> Result<String> {
    let compared = |names: &[&str], peaks| {
        let systems: Vec<Facts> = names.iter().map(|name| Facts::built_in(name)).collect::<Result<_>>()?;
        compare(&systems, peaks)
    };
    let of_systems: Vec<&str> = PEAKS.into_iter().filter(|row| *row != "bf16_sparse").collect();
    let parts = [
        "## Chips".to_owned(),
        table(&compared(&CHIPS, Peaks::Published)?, None),
        "## UltraServers, racks and pods".to_owned(),
        table(&compared(&SYSTEMS, Peaks::Published)?, None),
        "## Peaks of the arrays".to_owned(),
        "Array x clock, which timing uses, where the parts are known; as published elsewhere.".to_owned(),
        table(&compared(&CHIPS, Peaks::Array)?, Some(&PEAKS)),
        table(&compared(&SYSTEMS, Peaks::Array)?, Some(&of_systems)),
        "## Where sources disagree".to_owned(),
        conflicts()?,
    ];
    Ok(parts.join("\n\n"))
}

/// A comparison as a Markdown table; `kept` names its rows, else all.
fn table(comparison: &Comparison, kept: Option<&[&str]>) -> String {
    let heads: Vec<&str> = comparison.systems.iter().map(|spec| spec.facts.title.as_str()).collect();
    let mut lines = vec![format!("| | {} |", heads.join(" | ")), format!("|---|{}", "--:|".repeat(heads.len()))];
    for row in &comparison.rows {
        if kept.is_none_or(|kept| kept.contains(&row.id.as_str())) {
            let cells = row.cells.iter().zip(&row.ratios).map(|(cell, ratio)| cell_text(cell, *ratio));
            lines.push(format!("| {} | {} |", row.title, cells.collect::<Vec<_>>().join(" | ")));
        }
    }
    lines.join("\n")
}

fn cell_text(cell: &Cell, ratio: Option<f64>) -> String {
    let Some(status) = cell.status else { return "-".to_owned() };
    let said = match (status, cell.spread) {
        (Status::Conflicting, Some((least, most))) => {
            let [least, most] = [least, most].map(|value| shown(&Value::Number(value)));
            format!("conflicting: {least} to {most}")
        }
        _ => status.name().to_owned(),
    };
    let text = format!("{} ({said})", cell.text);
    match ratio {
        Some(ratio) if ratio != 1.0 => format!("{text}, {ratio:.2}x"),
        _ => text,
    }
}

/// All figures whose sources disagree, or which their parts do not explain.
fn conflicts() -> Result<String> {
    let mut lines = vec!["| system | figure | used | what is said | why |\n|---|---|--:|---|---|".to_owned()];
    for (name, _) in BUILT_IN {
        let spec = Spec::built_in(name)?;
        // What a system has of its base is said there.
        for (key, quantity) in spec.quantities.iter().filter(|_| spec.facts.like() == *name) {
            if quantity.status() == Status::Conflicting {
                let why = quantity.why.as_ref().or(quantity.note.as_ref()).map(String::as_str);
                let why = why.unwrap_or("sources differ; the first is used");
                let used = format!("{} {}", shown(&quantity.value), quantity.unit);
                lines.push(format!("| {name} | {key} | {} | {} | {why} |", used.trim_end(), said(quantity)));
            }
        }
    }
    Ok(lines.join("\n"))
}

fn said(quantity: &Quantity) -> String {
    let sources = quantity.sources.iter().map(|source| {
        let unit = source.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
        format!("{}{unit}: {}", shown(&source.value), source.source)
    });
    let formula = quantity.formula.iter().filter(|formula| formula.contains('='));
    sources.chain(formula.map(|formula| format!("`{formula}`"))).collect::<Vec<_>>().join("; ")
}
