//! `report.html`: one file that shows what happened, what it cost and why. docs/reference/report-data.md says what stands
//! in it; what draws it is given.

mod html;
mod lists;
mod meets;
mod panes;
mod points;
mod residents;
mod runs;
mod source;
mod view;

use serde::Serialize;
use serde_json::{Map, Value};
use trn3_machine::isa::table::family_name;

use crate::cause::{BOUNDS, CAUSES, EDGES, ENGINES, cause_words};
use crate::error::{Error, Result};
use crate::packed::Packer;
use crate::profile::Profile;
use crate::recorded::MEMORIES;
use html::{escape, json_in_script};
use lists::{Lists, Places, short};
use meets::Meet;
use points::RooflineLayout;
use residents::{MemoryPeak, TensorTraffic};
use runs::{RunLayout, RunName};
use view::RunView;

/// The `format` of a report's layout.
pub const REPORT_FORMAT: &str = "trn3-report";
/// Its `version`.
pub const REPORT_VERSION: u32 = 1;

/// What draws a report.
#[derive(Clone, Copy, Debug)]
pub struct ReportShell<'a> {
    /// The style.
    pub style: &'a str,
    /// The script: an ES module.
    pub script: &'a str,
    /// The content security policy.
    pub policy: &'a str,
}

#[derive(Serialize)]
struct SourceFile<'a> {
    name: &'a str,
    short: &'a str,
    is_recorded: bool,
}

#[derive(Serialize)]
struct ReportLayout<'a> {
    format: &'static str,
    version: u32,
    kind: &'static str,
    trn3: &'a str,
    title: &'a str,
    verdict: &'a str,
    engines: [&'static str; ENGINES.len()],
    causes: [&'static str; CAUSES.len()],
    cause_words: Vec<&'static str>,
    bounds: [&'static str; BOUNDS.len()],
    edges: [&'static str; EDGES.len()],
    opcodes: &'a [String],
    families: Vec<&'static str>,
    labels: &'a [String],
    files: Vec<SourceFile<'a>>,
    sites: &'a [(u64, u32, String)],
    stacks: &'a [Vec<u64>],
    names: &'a [String],
    shapes: &'a [Vec<u64>],
    dtypes: &'a [String],
    memories: [&'static str; MEMORIES.len()],
    arch: &'a Map<String, Value>,
    runs: Vec<RunLayout>,
    memory: &'a [MemoryPeak],
    traffic: &'a [TensorTraffic],
    spills: Vec<&'a TensorTraffic>,
    roofline: &'a RooflineLayout,
    meetings: Vec<Vec<Meet>>,
    advice: &'a Value,
}

/// The report of what a kernel cost on one rank, or on several beside each other: figures are the first one's.
///
/// # Errors
/// [`Error::Value`] without a rank, and for a style or a script that would end its own element.
pub fn report_page(ranks: &[&Profile], shell: &ReportShell<'_>) -> Result<String> {
    let failed = |error: serde_json::Error| Error::Value(format!("report: {error}"));
    let Some(first) = ranks.first() else {
        return Err(Error::Value("there is no rank; a report has one or more".to_owned()));
    };
    for (what, text, end) in [("style", shell.style, "</style"), ("script", shell.script, "</script")] {
        if text.to_ascii_lowercase().contains(end) {
            return Err(Error::Value(format!("the {what} holds {end}, which would end it")));
        }
    }
    let figures = first.figures();
    let summary = serde_json::to_value(&figures).map_err(failed)?;
    let said = |name: &str| summary.get(name).cloned().unwrap_or_default();
    let (advice, note) = (said("advice"), said("advice_note"));
    let mut lists = Lists::default();
    let mut views: Vec<(RunView<'_>, RunName, usize)> = Vec::new();
    let mut places: Vec<Places> = Vec::new();
    for (rank, profile) in ranks.iter().enumerate() {
        for (core, of) in profile.cores().iter().enumerate() {
            let level = of.columns().compile.as_ref().map_or("as-written", |made| &made.level).to_owned();
            let rank = (ranks.len() > 1).then_some(rank);
            views.push((RunView::of(of.columns()), RunName { core, rank, level, is_main: true }, places.len()));
            places.push(lists.places(of.columns()));
        }
    }
    let beside: Vec<_> = views
        .iter()
        .filter_map(|(view, name, at)| {
            let name = RunName { level: "as-written".to_owned(), is_main: false, ..name.clone() };
            Some((RunView::as_written(view.columns)?, name, *at))
        })
        .collect();
    views.extend(beside);
    let mut packer = Packer::default();
    let (mut runs, mut memory, mut traffic) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (view, name, at)) in views.iter().enumerate() {
        runs.push(view.pack(name, &places[*at], &mut packer));
        memory.extend(residents::peaks_of(number, view));
        traffic.extend(residents::traffic_of(number, view, &places[*at].sites));
    }
    let roofline = points::roofline_of(first, &places);
    let is_recorded = |file: &str| views.iter().any(|(view, ..)| view.columns.recorded.sources.contains_key(file));
    let file = |name: &'_ String| (name.clone(), short(name).to_owned(), is_recorded(name));
    let files: Vec<_> = lists.files.list.iter().map(file).collect();
    let layout = ReportLayout {
        format: REPORT_FORMAT,
        version: REPORT_VERSION,
        kind: "profile",
        trn3: env!("CARGO_PKG_VERSION"),
        title: &figures.kernel,
        verdict: &figures.verdict,
        engines: ENGINES,
        causes: CAUSES,
        cause_words: CAUSES.iter().map(|cause| cause_words(cause)).collect(),
        bounds: BOUNDS,
        edges: EDGES,
        opcodes: &lists.opcodes.list,
        families: lists.opcodes.list.iter().map(|opcode| family_name(opcode)).collect(),
        labels: &lists.labels.list,
        files: files
            .iter()
            .map(|(name, short, is_recorded)| SourceFile { name, short, is_recorded: *is_recorded })
            .collect(),
        sites: &lists.sites.list,
        stacks: &lists.stacks.list,
        names: &lists.names.list,
        shapes: &lists.shapes.list,
        dtypes: &lists.dtypes.list,
        memories: MEMORIES,
        arch: first.columns().arch.entries(),
        runs,
        memory: &memory,
        traffic: &traffic,
        spills: traffic.iter().filter(|each| each.is_made).collect(),
        roofline: &roofline,
        meetings: meets::meetings(&views),
        advice: &advice,
    };
    let titles: Vec<String> = views.iter().map(|(_, name, _)| title(name)).collect();
    let body = panes::sections(&[
        ("timeline", "Timeline", panes::timeline(&figures)),
        ("source", "Source", source::source_pane(first, &lists.files.list)),
        ("memory", "Memory", panes::memory(&memory, &traffic, &titles)),
        ("roofline", "Roofline", panes::roofline(&roofline, &figures)),
        ("advice", "Advice", panes::advice(&advice, &note)),
        ("tables", "Tables", panes::tables(ranks, &figures)),
        ("settings", "Settings", panes::settings(first, &figures, env!("CARGO_PKG_VERSION"))),
    ]);
    let summary = serde_json::to_string(&summary).map_err(failed)?;
    let layout = serde_json::to_string(&layout).map_err(failed)?;
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} · trn3 report</title>\n<style>{style}</style>\n</head>\n<body data-kind=\"profile\">\n\
         {header}{body}\
         <script type=\"application/json\" id=\"trn3-summary\">{summary}</script>\n\
         <script type=\"application/json\" id=\"trn3-report\">{layout}</script>\n\
         <script type=\"text/plain\" id=\"trn3-columns\">{columns}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n",
        policy = escape(shell.policy),
        title = escape(&figures.kernel),
        style = shell.style,
        header = panes::header(&figures, ranks.len()),
        summary = json_in_script(&summary),
        layout = json_in_script(&layout),
        columns = packer.finish()?,
        script = shell.script,
    ))
}

fn title(name: &RunName) -> String {
    let rank = name.rank.map_or(String::new(), |rank| format!("rank {rank}, "));
    format!("{rank}core {}, {}", name.core, name.level)
}
