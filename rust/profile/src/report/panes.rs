//! The panes as text: what a reader without the script sees, and what tests and searches find.

use std::fmt::Write;

use serde_json::Value;

use crate::band::LatencyBasis;
use crate::cause::{CAUSES, ENGINES, cause_words};
use crate::columns_by_name::TableColumn;
use crate::figures::Figures;
use crate::profile::Profile;
use crate::report::html::{Cell, HtmlTable, attribute, count, digits, entry, escape, percent, size, time};
use crate::report::meets::is_together;
use crate::report::points::RooflineLayout;
use crate::report::residents::{MemoryPeak, TensorTraffic};

fn number(value: f64) -> Cell {
    Cell::Number(digits(value), value)
}

fn microseconds(us: f64) -> Cell {
    Cell::Number(time(us), us)
}

fn bytes(bytes: u64) -> Cell {
    Cell::Number(size(bytes as f64), bytes as f64)
}

fn whole(value: u64) -> Cell {
    Cell::Number(count(value), value as f64)
}

/// What stands above all panes.
pub(super) fn header(figures: &Figures, ranks: usize) -> String {
    let band = match (figures.latency_low_us, figures.latency_high_us) {
        (Some(low), Some(high)) => format!(" ({} to {})", time(low), time(high)),
        _ => String::new(),
    };
    let mut html =
        format!("<header><h1>{}</h1><p class=\"verdict\">{}</p>", escape(&figures.kernel), escape(&figures.verdict));
    html.push_str("<dl class=\"key-figures\">");
    html.push_str(&entry("latency", format!("{}{band}", time(figures.latency_us))));
    if ranks > 1 {
        html.push_str(&entry("ranks", format!("{ranks} (figures of rank 0)")));
    }
    html.push_str(&entry("machine", &figures.arch));
    html.push_str(&entry("level", &figures.compile.level));
    if let Some(as_written) = figures.compile.as_written_us.filter(|_| figures.compile.level != "as-written") {
        html.push_str(&entry("as written", time(as_written)));
    }
    if let Some(bound) = figures.compile.bound_us {
        html.push_str(&entry("at least", time(bound)));
    }
    html.push_str(&entry("instructions", count(figures.instructions)));
    html.push_str(&entry("TensorE at its peak", percent(figures.mfu)));
    html.push_str(&entry("HBM at its peak", percent(figures.mbu)));
    html.push_str("</dl></header>\n");
    html
}

/// The links and the sections, around what each holds.
pub(super) fn sections(panes: &[(&str, &str, String)]) -> String {
    let mut html = "<nav aria-label=\"Panes\">".to_owned();
    for (name, title, _) in panes {
        let _ = write!(html, "<a href=\"#{name}\">{title}</a>");
    }
    html.push_str("</nav>\n<main>\n");
    for (name, title, text) in panes {
        let _ = write!(
            html,
            "<section data-pane=\"{name}\" id=\"{name}\" aria-labelledby=\"{name}-title\"><h2 id=\"{name}-title\">{title}</h2><div data-stage></div>\n{text}</section>\n"
        );
    }
    html.push_str("</main>\n");
    html
}

pub(super) fn timeline(figures: &Figures) -> String {
    let mut table = HtmlTable::of(&["engine", "instructions", "busy", "share", "waits", "longest wait for", "idle"]);
    for engine in &figures.engines {
        let longest =
            engine.waits.longest().map_or(String::new(), |(cause, us)| format!("{}, {}", cause_words(cause), time(us)));
        table.row(
            attribute("data-engine", engine.engine),
            vec![
                Cell::Text(engine.engine.to_owned()),
                whole(engine.instructions),
                microseconds(engine.busy_us),
                Cell::Number(percent(engine.busy_share), engine.busy_share),
                microseconds(engine.wait_us),
                Cell::Text(longest),
                microseconds(engine.idle_us),
            ],
        );
    }
    table.write("engines", "What each engine did")
}

pub(super) fn memory(peaks: &[MemoryPeak], traffic: &[TensorTraffic], runs: &[String]) -> String {
    let mut html = String::new();
    let mut table =
        HtmlTable::of(&["run", "memory", "of each partition", "peak", "share", "at", "free then", "largest hole then"]);
    for peak in peaks {
        table.row(
            attribute("data-run", peak.run),
            vec![
                Cell::Text(runs[peak.run].clone()),
                Cell::Text(peak.memory.to_uppercase()),
                bytes(peak.capacity_bytes),
                bytes(peak.peak_bytes),
                Cell::Number(percent(peak.peak_bytes as f64 / peak.capacity_bytes as f64), peak.peak_bytes as f64),
                microseconds(peak.peak_ps as f64 / 1e6),
                bytes(peak.free_bytes),
                bytes(peak.largest_free_bytes),
            ],
        );
    }
    html.push_str(&table.write("memory", "Memories on chip, bytes of a partition"));
    let mut all = HtmlTable::of(&["run", "tensor", "shape", "type", "memory", "read", "written", "instructions"]);
    let mut spills = HtmlTable::of(&["run", "tensor", "written", "read back", "instructions"]);
    for tensor in traffic {
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        let (read, written) = (bytes(tensor.read_bytes), bytes(tensor.write_bytes));
        let run = || Cell::Text(runs[tensor.run].clone());
        let attributes = format!("{}{}", attribute("data-run", tensor.run), attribute("data-tensor", tensor.tensor));
        if tensor.is_made {
            spills.row(
                attributes.clone(),
                vec![run(), Cell::Text(tensor.name.clone()), written.clone(), read.clone(), whole(tensor.instructions)],
            );
        }
        all.row(
            attributes,
            vec![
                run(),
                Cell::Text(tensor.name.clone()),
                Cell::Text(shape.join(" x ")),
                Cell::Text(tensor.dtype.clone()),
                Cell::Text(tensor.memory.to_owned()),
                read,
                written,
                whole(tensor.instructions),
            ],
        );
    }
    html.push_str(&all.write("traffic", "HBM bytes by tensor"));
    if spills.all > 0 {
        html.push_str(&spills.write("spills", "What did not fit on chip and went to HBM"));
    }
    html
}

pub(super) fn roofline(layout: &RooflineLayout, figures: &Figures) -> String {
    let at = &figures.roofline;
    let mut html = format!(
        "<p>{} TFLOP/s of {} that {} allows at {} FLOP a byte; TensorE's peak is {} TFLOP/s, HBM gives {} GB/s, DMA engines {} GB/s; they meet at {} FLOP a byte.</p>\n",
        digits(at.achieved_tflops),
        digits(at.attainable_tflops),
        escape(at.ceiling),
        digits(at.intensity),
        digits(at.compute_tflops),
        digits(at.hbm_gbps),
        digits(at.dma_gbps),
        digits(at.ridge),
    );
    let mut table =
        HtmlTable::of(&["of", "name", "FLOP a byte", "TFLOP/s", "allowed", "active", "HBM bytes", "busiest engine"]);
    for point in &layout.points {
        let busiest = point.engines.iter().max_by(|one, other| one.busy_us.total_cmp(&other.busy_us));
        let busiest =
            busiest.map_or(String::new(), |time| format!("{}, {}", ENGINES[time.engine], self::time(time.busy_us)));
        table.row(
            attribute("data-kind", point.kind),
            vec![
                Cell::Text(point.kind.to_owned()),
                Cell::Text(point.name.clone()),
                number(point.intensity.unwrap_or(f64::NAN)),
                number(point.tflops),
                number(point.attainable_tflops),
                microseconds(point.active_us),
                bytes(point.hbm_bytes),
                Cell::Text(busiest),
            ],
        );
    }
    html.push_str(&table.write("roofline", "The kernel, its functions and its lines"));
    html
}

/// A list of objects with `gain`, `line`, `instruction`, `cause`, `text` and `change`, and what is to say beside.
pub(super) fn advice(advice: &Value, note: &Value) -> String {
    let items = advice.as_array().map_or(&[][..], Vec::as_slice);
    let note = note.as_str().filter(|note| !note.is_empty());
    let mut html = match (note, items) {
        (Some(note), _) => format!("<p class=\"none\">{}</p>\n", escape(note)),
        (None, []) => "<p class=\"none\">No advice.</p>\n".to_owned(),
        _ => String::new(),
    };
    if items.is_empty() {
        return html;
    }
    html.push_str("<ol class=\"advice\">");
    let text = |item: &Value, name: &str| match item.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    for item in items {
        let gain = item.get("gain").and_then(Value::as_f64).unwrap_or(1.0);
        html.push_str("<li");
        for name in ["gain", "line", "instruction", "cause"] {
            html.push_str(&attribute(&format!("data-{name}"), text(item, name)));
        }
        let _ = write!(
            html,
            "><b>{gain:.2}x</b> {}<p class=\"change\">{}</p></li>",
            escape(&text(item, "text")),
            escape(&text(item, "change"))
        );
    }
    html.push_str("</ol>\n");
    html
}

/// The first rows of the tables that `Profile.tables` gives of the first rank, its lines, and what all ranks do together.
pub(super) fn tables(ranks: &[&Profile], figures: &Figures) -> String {
    let mut html = String::new();
    let profile = ranks[0];
    let mut lines = HtmlTable::of(&[
        "line",
        "function",
        "critical",
        "slots",
        "waits",
        "longest wait for",
        "instructions",
        "HBM bytes",
    ]);
    for line in &figures.lines {
        let place = crate::text::location(&line.file, line.line);
        let longest =
            line.waits.longest().map_or(String::new(), |(cause, us)| format!("{}, {}", cause_words(cause), time(us)));
        lines.row(
            attribute("data-line", &place),
            vec![
                Cell::Text(place.clone()),
                Cell::Text(line.function.clone()),
                microseconds(line.critical_us),
                microseconds(line.slot_us),
                microseconds(line.wait_us),
                Cell::Text(longest),
                whole(line.instructions),
                bytes(line.hbm_bytes),
            ],
        );
    }
    html.push_str(&lines.write("lines", "Lines of the kernel, costliest first"));
    html.push_str(&known(profile, "Instruction", "instructions", "Instructions, in program order; times in ns"));
    html.push_str(&known(profile, "DmaPacket", "dma", "Transfers of DMA engines; times in ns"));
    html.push_str(&collectives(ranks));
    html.push_str(&known(profile, "Summary", "summary", "Summary; times in s"));
    html
}

fn known(profile: &Profile, of: &str, name: &str, caption: &str) -> String {
    let Some(table) = profile.table(of) else { return String::new() };
    let heads: Vec<&str> = table.columns.iter().map(|(head, _)| head.as_str()).collect();
    let cell = |column: &TableColumn, row: usize| match column {
        TableColumn::Integers(values) => Cell::Number(values[row].to_string(), values[row] as f64),
        TableColumn::Floats(values) => number(values[row]),
        TableColumn::Names { names, places } => Cell::Text(names[places[row] as usize].clone()),
    };
    let of_row = |head: &str, row: usize| {
        table.columns.iter().find(|(name, _)| name == head).map(|(_, column)| cell(column, row))
    };
    let mut shown = HtmlTable::of(&heads);
    shown.all = table.len();
    for row in 0..table.len().min(crate::report::html::SHOWN) {
        let instruction = match of {
            "DmaPacket" => of_row("packet_aggregation_id", row),
            "Instruction" => of_row("id", row),
            _ => None,
        };
        let mut attributes = attribute(
            "data-run",
            match of_row("trn3_core", row) {
                Some(Cell::Number(core, _)) => core,
                _ => "0".to_owned(),
            },
        );
        if let Some(Cell::Number(number, _)) = instruction {
            attributes.push_str(&attribute("data-instruction", number));
        }
        shown.rows.push((attributes, table.columns.iter().map(|(_, column)| cell(column, row)).collect()));
    }
    shown.write(name, caption)
}

/// What ranks and cores do together: the instructions that may wait for other ranks or the other core.
fn collectives(ranks: &[&Profile]) -> String {
    let mut table = HtmlTable::of(&["rank", "core", "instruction", "name", "line", "start", "end", "waited", "for"]);
    let cores = ranks.iter().enumerate().flat_map(|(rank, profile)| {
        profile.cores().iter().enumerate().map(move |(core, profile)| (rank, core, profile))
    });
    for (run, (rank, core, profile)) in cores.enumerate() {
        let (columns, rows) = (profile.columns(), &profile.columns().instructions);
        let is_together: Vec<bool> = columns.opcodes.iter().map(|name| is_together(name)).collect();
        for row in (0..rows.len()).filter(|&row| is_together[usize::from(rows.opcode[row])]) {
            let (file, line, _) = columns.site_of(row);
            table.row(
                format!("{}{}", attribute("data-run", run), attribute("data-instruction", row)),
                vec![
                    whole(rank as u64),
                    whole(core as u64),
                    whole(row as u64),
                    Cell::Text(columns.opcode_of(row).to_owned()),
                    Cell::Text(crate::text::location(file, *line)),
                    microseconds(rows.start_ps[row] as f64 / 1e6),
                    microseconds(rows.end_ps[row] as f64 / 1e6),
                    microseconds(rows.wait_ps[row] as f64 / 1e6),
                    Cell::Text(cause_words(CAUSES[usize::from(rows.cause[row])]).to_owned()),
                ],
            );
        }
    }
    table.write("collectives", "What cores and ranks do together")
}

pub(super) fn settings(profile: &Profile, figures: &Figures, version: &str) -> String {
    let mut html = "<dl>".to_owned();
    html.push_str(&entry("trn3", version));
    html.push_str(&entry("machine", &figures.arch));
    html.push_str(&entry("level", &figures.compile.level));
    html.push_str(&entry("cores", profile.cores().len()));
    html.push_str(&entry("kernel start and end, in no other figure", time(figures.overhead_us)));
    if let (Some(low), Some(high)) = (figures.latency_low_us, figures.latency_high_us) {
        html.push_str(&entry("the hardware's latency is expected", format!("from {} to {}", time(low), time(high))));
    }
    html.push_str("</dl>\n");
    if let Some(basis) = &figures.latency_basis {
        html.push_str(&basis_table(basis, figures.latency_us));
    }
    let mut passes = HtmlTable::of(&["pass", "what it counted"]);
    for pass in &figures.compile.passes {
        let name = pass.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let counts =
            pass.iter().filter(|(key, value)| *key != "name" && value.as_f64().is_some_and(|value| value > 0.0));
        let counts: Vec<String> = counts.map(|(key, value)| format!("{key}: {value}")).collect();
        passes.row(String::new(), vec![Cell::Text(name), Cell::Text(counts.join(", "))]);
    }
    if passes.all > 0 {
        html.push_str(&passes.write("passes", "What the compiler did"));
    }
    let mut findings = HtmlTable::of(&["line", "finding"]);
    for finding in &figures.findings {
        let place = crate::text::location(&finding.file, finding.line as u32);
        findings
            .row(attribute("data-line", &place), vec![Cell::Text(place.clone()), Cell::Text(finding.message.clone())]);
    }
    if findings.all > 0 {
        html.push_str(&findings.write("findings", "Findings"));
    }
    let mut machine = HtmlTable::of(&["figure", "value"]);
    for (name, value) in profile.columns().arch.entries() {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        machine.all += 1;
        machine.rows.push((String::new(), vec![Cell::Text(name.clone()), Cell::Text(shown)]));
    }
    html.push_str(&machine.write("machine", "The machine's description"));
    html
}

fn basis_table(basis: &LatencyBasis, latency_us: f64) -> String {
    let part = |us: f64| percent(if latency_us > 0.0 { us / latency_us } else { 0.0 });
    let mut html = format!(
        "<p>Of the latency {} rest on documented figures, {} on measured ones, {} on estimates. {}</p>\n",
        part(basis.documented_us),
        part(basis.measured_us),
        part(basis.estimated_us),
        escape(&basis.rows),
    );
    let mut table = HtmlTable::of(&["figure", "rests on", "time", "share"]);
    for share in &basis.constants {
        let evidence = serde_json::to_value(share.evidence).ok();
        let evidence = evidence.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        table.row(
            String::new(),
            vec![
                Cell::Text(share.constant.clone()),
                Cell::Text(evidence),
                microseconds(share.us),
                Cell::Number(part(share.us), share.us),
            ],
        );
    }
    html.push_str(&table.write("basis", "Figures that decide the latency"));
    html
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn test_advice_is_text() {
        let found = json!([{"gain": 1.65, "line": "k.py:41", "instruction": 7, "cause": "queue",
                            "text": "<was> ready", "change": "issue line 41 first"}]);
        let html = advice(&found, &Value::Null);
        let item = "<li data-gain=\"1.65\" data-line=\"k.py:41\" data-instruction=\"7\" data-cause=\"queue\">\
                    <b>1.65x</b> &lt;was&gt; ready<p class=\"change\">issue line 41 first</p></li>";
        assert!(html.contains(item), "{html}");
        assert_eq!(advice(&Value::Null, &json!("")), "<p class=\"none\">No advice.</p>\n");
        assert_eq!(advice(&json!([]), &json!("nothing > 2 %")), "<p class=\"none\">nothing &gt; 2 %</p>\n");
    }
}
