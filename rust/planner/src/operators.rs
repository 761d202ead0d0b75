//! Every operator of one forward pass of a model, by the roofline of some chips: arithmetic, traffic, what bounds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answer::ModelSummary;
use super::dtype::TensorPrecision;
use super::hardware::{Chip, Rank};
use super::networks::{Architecture, Forward, Given, taken};
use super::operations::operations;
use super::phase::supported;
use super::roofline::{Efficiency, Kind, LayerOperation, OperationBound, Split, TokenStep};
use super::shapes::Model;
use super::sources::{DtypeSource, ModelSource, SystemSource};
use trn3_system::{Error, Result};

/// Tokens of a prompt if none are given **(choice)**, as in plans.
const USUAL_INPUT: u64 = 8192;

/// A request: whose operators, given what, on how many chips of a system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// The model.
    pub model: ModelSource,
    /// The system, of whose chips some share the work.
    pub system: SystemSource,
    /// Formats; as published without.
    #[serde(default)]
    pub dtype: Option<DtypeSource>,
    /// Sequences, images or recordings; 1 without.
    #[serde(default)]
    pub batch: Option<u64>,
    /// Tokens at the input.
    #[serde(default)]
    pub input: Option<u64>,
    /// Tokens before the generated one, of decoders behind an encoder.
    #[serde(default)]
    pub output: Option<u64>,
    /// Height and width of an image in pixels.
    #[serde(default)]
    pub image: Option<u64>,
    /// Frames of a spectrogram.
    #[serde(default)]
    pub frames: Option<u64>,
    /// Chips that share the work evenly; 1 without.
    #[serde(default)]
    pub chips: Option<u64>,
}

/// One operator, all of its repetitions together.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorRow {
    /// Its name.
    pub name: &'static str,
    /// What it mainly is.
    pub kind: Kind,
    /// How often the pass has it.
    pub count: f64,
    /// Products of this shape that one of them is.
    pub groups: f64,
    /// Rows, contracted elements and columns of one product.
    pub shape: [f64; 3],
    /// The format of its products.
    pub dtype: &'static str,
    /// Operations.
    pub flops: f64,
    /// Bytes of weights.
    pub weight_bytes: f64,
    /// Bytes of keys, values and states.
    pub kv_bytes: f64,
    /// Bytes of activations.
    pub activation_bytes: f64,
    /// All bytes.
    pub bytes: f64,
    /// Operations a byte.
    pub intensity: f64,
    /// The longer of arithmetic and traffic, seconds.
    pub seconds: f64,
    /// Which of them it is.
    pub bound: OperationBound,
}

/// Operators of one pass.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorPass {
    /// `prompt`, `token`, `encoder`, `image`, `denoising step`, ...
    pub name: &'static str,
    /// The operators in the order of the model.
    pub operators: Vec<OperatorRow>,
    /// Operations of all.
    pub flops: f64,
    /// Bytes of all.
    pub bytes: f64,
    /// Seconds of all, one after the other.
    pub seconds: f64,
    /// What the pass yields: `tokens`, `images`, ...
    pub unit: &'static str,
    /// How many of them a second.
    pub per_second: f64,
}

/// The operators of a model.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorTable {
    /// The model.
    pub model: ModelSummary,
    /// Name of the chip for readers.
    pub chip: String,
    /// Chips that share the work.
    pub chips: u64,
    /// Sequences, images or recordings.
    pub batch: u64,
    /// Formats by class of tensor.
    pub dtypes: BTreeMap<&'static str, &'static str>,
    /// The passes.
    pub passes: Vec<OperatorPass>,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
}

impl OperatorRequest {
    /// A request from its JSON text.
    ///
    /// # Errors
    /// [`Error::Value`] if it is none; the text names the key.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Value(format!("the request is wrong: {error}")))
    }

    /// The operators by pass.
    ///
    /// ```
    /// use trn3_planner::OperatorRequest;
    ///
    /// let text = r#"{"model": {"name": "google/vit-base-patch16-224"}, "system": {"name": "gen2"}, "batch": 64}"#;
    /// let table = OperatorRequest::parse(text).unwrap().table().unwrap();
    /// assert_eq!((table.passes[0].name, table.passes[0].unit), ("image", "images"));
    /// assert!(table.passes[0].per_second > 1000.0);
    /// ```
    ///
    /// # Errors
    /// Those of the model and the system; [`Error::Value`] for what the model cannot be given.
    pub fn table(&self) -> Result<OperatorTable> {
        let (architecture, machine) = (self.model.architecture()?, self.system.load()?);
        let (chip, chips, batch) = (&machine.chip, self.chips.unwrap_or(1), self.batch.unwrap_or(1));
        if chips < 1 || chips > u64::from(machine.chips) {
            return Err(Error::Value(format!(
                "chips is {chips}; {} has {}: from 1 to that many",
                machine.title, machine.chips
            )));
        }
        for (name, value) in
            [("batch", Some(batch)), ("input_tokens", self.input), ("image_size", self.image), ("frames", self.frames)]
        {
            if value.is_some_and(|value| !(1..=1 << 24).contains(&value)) {
                let value = value.unwrap_or_default();
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to 16777216")));
            }
        }
        let mut said = Vec::new();
        let (name, asked) = match &architecture {
            Architecture::Transformer(model) => (&model.name, &model.asked),
            Architecture::Network(network) => (&network.name, &network.asked),
        };
        said.extend(taken(name, asked.as_ref()));
        let precision = DtypeSource::precision(self.dtype.as_ref(), &architecture)?;
        let precision = supported(&precision, chip, &mut said);
        let given = Given { batch, input: self.input, output: self.output, image: self.image, frames: self.frames };
        let passes = match &architecture {
            Architecture::Transformer(model) => self.of_transformer(model, &precision, &mut said)?,
            Architecture::Network(network) => network.passes(&given, &precision)?,
        };
        let roof = roof(chip, chips);
        said.push(format!(
            "the work is shared out evenly over all cores of {chips} x {}: peaks of array and memory alone, no collectives, \
             no overheads, one operator after the other",
            chip.title
        ));
        Ok(OperatorTable {
            model: ModelSummary::of(&architecture),
            chip: chip.title.clone(),
            chips,
            batch,
            dtypes: precision.names(),
            passes: passes.iter().map(|pass| OperatorPass::new(pass, &roof)).collect(),
            assumptions: said,
        })
    }

    /// The prompt and one token after it; an encoder reads everything at once.
    fn of_transformer<'a>(
        &self,
        model: &Model,
        precision: &'a TensorPrecision,
        said: &mut Vec<String>,
    ) -> Result<Vec<Forward<'a>>> {
        for (name, value) in [("image_size", self.image), ("frames", self.frames)] {
            if let Some(value) = value {
                return Err(Error::Value(format!("{name} is {value}: {} reads tokens alone", model.name)));
            }
        }
        let usual = model.longest_context.map_or(USUAL_INPUT, |longest| longest.min(USUAL_INPUT));
        let tokens = self.input.unwrap_or(usual);
        if let Some(longest) = model.longest_context.filter(|longest| tokens > *longest) {
            return Err(Error::Value(format!("{tokens} tokens exceed the {longest} that {} allows", model.name)));
        }
        if self.input.is_none() {
            said.push(format!("a context of {tokens} tokens, as none was given (choice)"));
        }
        let (batch, tokens) = (self.batch.unwrap_or(1) as f64, tokens as f64);
        let step = |name, unit, yields, step| {
            let mut pass = Forward::new(name, unit, yields, precision);
            pass.operations = operations(model, precision, &Split::WHOLE, step);
            pass
        };
        if !model.causal {
            return Ok(vec![step("sequence", "sequences", batch, TokenStep::prefill(batch, tokens))]);
        }
        Ok(vec![
            step("prompt", "tokens", batch * tokens, TokenStep::prefill(batch, tokens)),
            step("token", "tokens", batch, TokenStep::decode(batch, tokens)),
        ])
    }
}

/// All cores of some chips as one.
fn roof(chip: &Chip, chips: u64) -> Rank {
    let chips = chips as f64;
    Rank {
        lnc: chip.cores,
        per_chip: 1,
        peaks: chip.peaks.map(|peak| peak.map(|peak| peak * chips)),
        hbm_rate: chip.hbm_rate * chips,
        memory_rate: chip.hbm_rate.min(chip.dma_rate) * chips,
    }
}

impl OperatorRow {
    fn new(operation: &LayerOperation, roof: &Rank) -> Self {
        let count = operation.count;
        let timing = roof.time(operation, &Efficiency::PEAK);
        let (flops, bytes) = (count * operation.flops, count * operation.bytes());
        Self {
            name: operation.name,
            kind: operation.kind,
            count,
            groups: operation.groups,
            shape: [operation.m, operation.k, operation.n],
            dtype: operation.dtype.name(),
            flops,
            weight_bytes: count * operation.weight_bytes,
            kv_bytes: count * operation.kv_bytes,
            activation_bytes: count * operation.activation_bytes,
            bytes,
            intensity: if bytes > 0.0 { flops / bytes } else { 0.0 },
            seconds: timing.seconds,
            bound: timing.bound,
        }
    }
}

impl OperatorPass {
    fn new(pass: &Forward<'_>, roof: &Rank) -> Self {
        let operators: Vec<OperatorRow> =
            pass.operations.iter().filter(|one| one.count > 0.0).map(|one| OperatorRow::new(one, roof)).collect();
        let sum = |value: fn(&OperatorRow) -> f64| operators.iter().map(value).sum::<f64>();
        let (flops, bytes, seconds) = (sum(|row| row.flops), sum(|row| row.bytes), sum(|row| row.seconds));
        let per_second = if seconds > 0.0 { pass.yields / seconds } else { 0.0 };
        Self { name: pass.name, operators, flops, bytes, seconds, unit: pass.unit, per_second }
    }
}

impl OperatorTable {
    /// The tables as text: operators that share a name in one line.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;

        let mut text = String::new();
        for pass in &self.passes {
            let mut lines: Vec<(&str, f64, f64, f64, f64)> = Vec::new();
            for row in &pass.operators {
                let computing = if row.bound == OperationBound::Compute { row.seconds } else { 0.0 };
                match lines.iter_mut().find(|line| line.0 == row.name) {
                    Some(line) => {
                        line.1 += row.flops;
                        line.2 += row.bytes;
                        line.3 += row.seconds;
                        line.4 += computing;
                    }
                    None => lines.push((row.name, row.flops, row.bytes, row.seconds, computing)),
                }
            }
            let total: f64 = lines.iter().map(|line| line.4).sum();
            lines.push(("total", pass.flops, pass.bytes, pass.seconds, total));
            let _ = writeln!(
                text,
                "{:<22}{:>12}{:>12}{:>10}{:>12}{:>8}  bound",
                pass.name, "GFLOP", "MB", "FLOP/B", "us", "%"
            );
            for (name, flops, bytes, seconds, computing) in lines {
                let bound = if 2.0 * computing > seconds { "compute" } else { "memory" };
                let _ = writeln!(
                    text,
                    "{name:<22}{:>12.3}{:>12.3}{:>10.1}{:>12.2}{:>8.1}  {bound}",
                    flops / 1e9,
                    bytes / 1e6,
                    flops / bytes.max(1.0),
                    seconds * 1e6,
                    100.0 * seconds / pass.seconds.max(f64::MIN_POSITIVE)
                );
            }
            let _ = writeln!(text, "{:.4} {} a second at most\n", pass.per_second, pass.unit);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
#[path = "operators_tests.rs"]
mod tests;
