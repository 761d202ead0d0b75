//! Graphs from JSON, the one format that front ends write.
//!
//! ```json
//! {"format": "trn3-graph", "version": 1, "name": "step",
//!  "locations": [{"file": "model.py", "line": 12, "function": "attention"}],
//!  "inputs": [{"name": "x", "dtype": "bfloat16", "shape": [8, 128]}],
//!  "operations": [
//!    {"op": "constant", "operands": [], "results": [{"dtype": "bfloat16", "shape": [128, 64]}],
//!     "attributes": {"data": 0}},
//!    {"op": "dot_general", "operands": [0, 1], "results": [{"dtype": "bfloat16", "shape": [8, 64]}],
//!     "attributes": {"contracting": [[1], [0]], "batch": [[], []]}, "location": 0}],
//!  "outputs": [2]}
//! ```
//!
//! Values are numbered: inputs first, then results in order. `data` of a constant is its number among the arrays that come
//! beside the text, `kernel` of a custom call among the kernels that come with it. Bodies of loops and cases stand in
//! attributes, are written the same way, have numbers of their own and see nothing but what they are given. `ranks`, 1 if
//! it is not there, says how many run the graph side by side: each has inputs of its own, of the same types, and meets the
//! others in collectives.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{GraphError, Result};
use crate::graph::{Body, Graph};
use crate::kernel::GraphKernel;
use crate::location::Location;
use crate::operations::find;
use crate::row::Surroundings;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

const FORMAT: &str = "trn3-graph";
/// Version of the format.
pub const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphText {
    format: String,
    version: u32,
    #[serde(default)]
    name: String,
    #[serde(default = "one_rank")]
    ranks: u32,
    #[serde(default)]
    locations: Vec<Location>,
    inputs: Vec<InputText>,
    operations: Vec<OperationText>,
    outputs: Vec<u32>,
}

fn one_rank() -> u32 {
    1
}

#[derive(Deserialize)]
struct InputText {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    kind: TensorType,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationText {
    op: String,
    operands: Vec<u32>,
    results: Vec<TensorType>,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    location: Option<u32>,
}

/// A body in an attribute.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyText {
    inputs: Vec<TensorType>,
    operations: Vec<OperationText>,
    outputs: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Reader<'r> {
    locations: &'r [Location],
    data: &'r [Tensor],
    ranks: u32,
    kernels: &'r [Arc<dyn GraphKernel>],
    depth: usize,
}

/// How deep bodies may stand in bodies: reading one takes stack.
const DEEPEST: usize = 64;
/// Ranks that a graph may run on.
const MOST_RANKS: u32 = 1 << 16;

impl Surroundings for Reader<'_> {
    fn body(&self, value: Value) -> Result<Body> {
        let text: BodyText = serde_json::from_value(value).map_err(|error| GraphError::Format(error.to_string()))?;
        if self.depth >= DEEPEST {
            return Err(GraphError::Format(format!("bodies stand deeper than {DEEPEST} in one another")));
        }
        Self { depth: self.depth + 1, ..*self }.filled(Body::new(text.inputs), text.operations, text.outputs)
    }

    fn data(&self, number: usize) -> Result<&Tensor> {
        let missing = || GraphError::Format(format!("data {number} is missing; {} came", self.data.len()));
        self.data.get(number).ok_or_else(missing)
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn kernel(&self, number: usize) -> Result<Arc<dyn GraphKernel>> {
        let missing = || GraphError::Format(format!("kernel {number} is missing; {} came", self.kernels.len()));
        self.kernels.get(number).cloned().ok_or_else(missing)
    }
}

impl Reader<'_> {
    fn filled(&self, mut body: Body, operations: Vec<OperationText>, outputs: Vec<u32>) -> Result<Body> {
        for text in operations {
            let location = self.location(text.location)?;
            let located = |error: GraphError| error.at(&text.op, location);
            let row = find(&text.op).map_err(located)?;
            let operation = (row.read)(self, row.name, text.attributes).map_err(located)?;
            body.push(operation, text.operands, text.results, text.location).map_err(located)?;
        }
        body.set_outputs(outputs)?;
        Ok(body)
    }

    fn location(&self, number: Option<u32>) -> Result<Option<&Location>> {
        let Some(number) = number else { return Ok(None) };
        let missing = || GraphError::Format(format!("location {number} is missing; {} came", self.locations.len()));
        self.locations.get(number as usize).map(Some).ok_or_else(missing)
    }
}

impl Graph {
    /// The graph that a text is, with the arrays of its constants; every operation is checked.
    ///
    /// # Errors
    /// [`GraphError::Format`] for what is no graph; [`GraphError::Operation`] for an operation that is unknown or refuses
    /// its operands, with its line.
    pub fn from_json(text: &[u8], data: &[Tensor]) -> Result<Self> {
        Self::with_kernels(text, data, &[])
    }

    /// As [`Graph::from_json`], with the kernels that calls of it have numbers of.
    ///
    /// # Errors
    /// As [`Graph::from_json`].
    pub fn with_kernels(text: &[u8], data: &[Tensor], kernels: &[Arc<dyn GraphKernel>]) -> Result<Self> {
        let text: GraphText = serde_json::from_slice(text)
            .map_err(|error| GraphError::Format(format!("the graph is no such JSON: {error}")))?;
        if text.format != FORMAT || text.version != VERSION {
            let came = format!("{:?}, version {}", text.format, text.version);
            return Err(GraphError::Format(format!("format is {came}; allowed: {FORMAT:?}, version {VERSION}")));
        }
        if !(1..=MOST_RANKS).contains(&text.ranks) {
            return Err(GraphError::Format(format!("ranks is {}; allowed: 1 to {MOST_RANKS}", text.ranks)));
        }
        let (input_names, kinds) = text.inputs.into_iter().map(|input| (input.name, input.kind)).unzip();
        let reader = Reader { locations: &text.locations, data, kernels, ranks: text.ranks, depth: 0 };
        let body = reader.filled(Body::new(kinds), text.operations, text.outputs)?;
        Ok(Self::new(text.name, text.ranks, body, input_names, text.locations))
    }
}
