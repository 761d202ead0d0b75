//! Published figures of serving against the model's.

use serde::Serialize;
use trn3_facts::{Facts, Quantity};
use trn3_system::{Error, Result};

use crate::inference::Evaluation;
use crate::request::PlanRequest;

/// One published figure and what the model gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedRow {
    /// Name of the row.
    pub name: &'static str,
    /// What was measured, and on what.
    pub what: String,
    /// Unit of both figures.
    pub unit: String,
    /// The published figure.
    pub published: f64,
    /// The model's.
    pub computed: f64,
    /// Whether constants of the model were fitted to this row.
    pub fitted: bool,
    /// What the source does not say and had to be assumed.
    pub assumed: String,
    /// Where the figure is from.
    pub source: String,
}

/// Tokens of a step that speculation of seven guesses yields at most.
const MOST_ACCEPTED: f64 = 8.0;
const MILLISECONDS: f64 = 1e3;

/// A plan of a request that its keys and values say, without braces.
fn evaluated(request: &str) -> Result<Evaluation> {
    Ok(PlanRequest::parse(&format!("{{{request}}}"))?.plan()?.into_evaluation())
}

/// A tutorial's set-up on Trainium2, and what it says besides.
fn tutorial(model: &str, more: &str) -> Result<Evaluation> {
    evaluated(&format!(
        r#""model": {{"name": "{model}"}}, "system": {{"name": "trn2_instance"}}, "tp": 64, "batch": 1, "input": 10000,
        "output": 1500 {more}"#
    ))
}

/// Seconds of a step's bytes at the memory's peak on Trainium2 over those on Trainium3.
fn floors(batch: u64) -> Result<f64> {
    let floor = |system: &str| {
        let plan = evaluated(&format!(
            r#""model": {{"name": "gpt-oss-120b"}}, "system": {{"name": "{system}"}}, "tp": 8, "input": 10000,
            "replicas": 1, "batch": {batch}, "report_overflow": true"#
        ));
        plan.map(|plan| plan.floor_seconds)
    };
    Ok(floor("trn2_instance")? / floor("trn3_gen2")?)
}

/// What plans say of the same on four chips a replica, which hold it: throughput on Trainium3 over that on Trainium2.
fn plans(batch: u64) -> Result<f64> {
    let rate = |system: &str, dtype: &str| {
        let plan = evaluated(&format!(
            r#""model": {{"name": "gpt-oss-120b"}}, "system": {{"name": "{system}"}}, "tp": 16, "input": 10000,
            "replicas": 1, "batch": {batch}, "dtype": "{dtype}""#
        ));
        plan.map(|plan| plan.tokens_per_second_per_chip)
    };
    Ok(rate("trn3_gen2", "mxfp4")? / rate("trn2_instance", "bf16")?)
}

fn row(facts: &Facts, name: &'static str, computed: f64, fitted: bool, assumed: &str) -> Result<PublishedRow> {
    let figure: &Quantity = facts.quantity(name)?;
    Ok(PublishedRow {
        name,
        what: figure.note.clone().unwrap_or_else(|| name.to_owned()),
        unit: figure.unit.clone(),
        published: number(figure, name)?,
        computed,
        fitted,
        assumed: assumed.to_owned(),
        source: figure.sources.first().map(|source| source.source.clone()).unwrap_or_default(),
    })
}

fn number(figure: &Quantity, name: &str) -> Result<f64> {
    figure.number().ok_or_else(|| Error::Spec(format!("measured: {name} is no number")))
}

/// The time if as many tokens are accepted as the published one implies: an inversion.
fn speculation(facts: &Facts, name: &'static str, model: &str, dtype: &str) -> Result<PublishedRow> {
    let milliseconds = |accepted: f64| {
        let guess = format!(
            r#", "dtype": "{dtype}", "speculation": {{"length": 7, "accepted": {accepted:?}, "draft": {{"name":
            "llama-3.2-1b"}}}}"#
        );
        tutorial(model, &guess).map(|plan| plan.tpot * MILLISECONDS)
    };
    let published = number(facts.quantity(name)?, name)?;
    let needed = (milliseconds(1.0)? / published).clamp(1.0, MOST_ACCEPTED);
    let assumed = format!(
        "{needed:.1} of at most {MOST_ACCEPTED:.0} tokens a step, solved for (acceptance is not published); guesses of a \
         Llama of 1 B, {dtype}"
    );
    let row = row(facts, name, milliseconds(needed)?, true, &assumed)?;
    Ok(if row.what == name { PublishedRow { what: "with speculation".to_owned(), ..row } } else { row })
}

/// Published figures of serving: latencies of Llama on Trainium2, among the rows to which the recipes are fitted; what
/// their speeds with speculation imply; and the ratios that are claimed of GPT-OSS on Trainium3 against Trainium2, by the
/// bytes that a step reads at the peak of the memory alone; `assumed` has what plans say, which is less.
///
/// ```
/// let rows = trn3_planner::published::published().unwrap();
/// let row = rows.iter().find(|row| row.name == "llama31_405b_trn2_tpot").unwrap();
/// assert_eq!(format!("{:.2}", row.computed / row.published), "1.12");
/// ```
///
/// # Errors
/// None in practice: the figures are part of the crate.
pub fn published() -> Result<Vec<PublishedRow>> {
    let facts = Facts::built_in("measured")?;
    let (small, large) = (tutorial("llama-3.3-70b", "")?, tutorial("llama-3.1-405b", "")?);
    let fitted = |name, seconds: f64| {
        row(&facts, name, seconds * MILLISECONDS, true, "the fitted constants of the serving model")
    };
    Ok(vec![
        fitted("llama33_70b_trn2_tpot", small.tpot)?,
        fitted("llama33_70b_trn2_ttft", small.ttft)?,
        fitted("llama31_405b_trn2_tpot", large.tpot)?,
        fitted("llama31_405b_trn2_ttft", large.ttft)?,
        speculation(&facts, "llama33_70b_trn2_tpot_spec", "llama-3.3-70b", "bf16")?,
        speculation(&facts, "llama31_405b_trn2_tpot_spec_fp8", "llama-3.1-405b", "fp8")?,
        row(
            &facts,
            "gpt_oss_throughput_per_chip",
            floors(256)?,
            false,
            &format!(
                "batch 256, 10,000 tokens, two chips a replica (which on Trainium2 do not hold it), experts in MXFP4 against \
                 BF16, no overheads: the set-up of the claim is not public; 3.4 at batch 1, 4.9 at 8, 4.8 at 64; plans \
                 of four chips say {:.1} at batch 1 and {:.1} at 64",
                plans(1)?,
                plans(64)?
            ),
        )?,
        row(
            &facts,
            "gpt_oss_latency",
            floors(1)?,
            false,
            "batch 1, else likewise; 1.7 if keys and values bind, 6.4 if experts do",
        )?,
    ])
}
