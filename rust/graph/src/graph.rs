//! Graphs: operations over values, each made once.

use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use trn3_machine::view::View;

use crate::chains::Plan;
use crate::emitter::Emitter;
use crate::error::{GraphError, Reason, Result};
use crate::location::Location;
use crate::operations::GroupCollective;
use crate::options::ExecutionOptions;
use crate::passes::canonical;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// One tensor operation with its attributes. [`Any`] lets passes find out which one it is.
pub trait TensorOperation: Any + Debug + Send + Sync {
    /// Name, as `docs/reference/graph` lists it.
    fn name(&self) -> &'static str;

    /// Refuses operands and results that do not fit the operation, in words that name what came and what is allowed.
    ///
    /// # Errors
    /// The reason.
    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason;

    /// What it computes, of operands that were checked.
    ///
    /// # Errors
    /// [`crate::GraphError::Numerics`], and what only values can break.
    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>>;

    /// As [`TensorOperation::execute`], of operands that are the operation's own: nobody else needs them where they are
    /// shared with nobody, so that they may be written in place.
    ///
    /// # Errors
    /// As [`TensorOperation::execute`].
    fn execute_owned(
        &self,
        operands: Vec<Tensor>,
        results: &[TensorType],
        execution: &dyn Execution,
    ) -> Result<Vec<Tensor>> {
        let operands: Vec<&Tensor> = operands.iter().collect();
        self.execute(&operands, results, execution)
    }

    /// Whether each element of its one result depends on elements at the same place alone (scalars count as everywhere).
    fn is_elementwise(&self) -> bool {
        false
    }

    /// Of an elementwise operation: the instructions that compute it on tiles; whether there are such. Where there are
    /// none, a function of GpSimdE computes it, in the operation's own arithmetic.
    ///
    /// # Errors
    /// What the machine refuses.
    fn emit_tile(&self, _emitter: &mut Emitter, _operands: &[View], _result: &View) -> Result<bool> {
        Ok(false)
    }

    /// The result as another look at the operand's memory, where it is one.
    fn look(&self, _operand: &View, _result: &TensorType) -> Option<View> {
        None
    }

    /// The instructions that compute it, from tensors in HBM to tensors in HBM; whether there are such.
    ///
    /// # Errors
    /// What the machine refuses.
    fn emit(
        &self,
        _emitter: &mut Emitter,
        _operands: &[View],
        _results: &[View],
        _options: &ExecutionOptions,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Itself, where ranks meet in it.
    fn collective(&self) -> Option<&GroupCollective> {
        None
    }

    /// Whether it does more than make its results, so that it is neither left out nor done once for two.
    fn has_effect(&self) -> bool {
        false
    }

    /// Axes along which parts of it may be computed one after another, each as the whole is.
    fn cuts(&self, _operands: &[&TensorType], _results: &[&TensorType]) -> Vec<OperationCut> {
        Vec::new()
    }

    /// Bodies that it runs: of loops and cases.
    fn bodies(&self) -> Vec<&Body> {
        Vec::new()
    }

    /// Multiplications and additions, of operands that were checked; moves are none.
    fn arithmetic(&self, _operands: &[&TensorType], results: &[&TensorType]) -> u64 {
        results.iter().map(|kind| kind.elements() as u64).sum()
    }
}

/// An axis along which an operation falls into parts that do not need one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCut {
    /// The axis of each operand; None: all of it goes with every part.
    pub operands: Vec<Option<usize>>,
    /// The axis of each result.
    pub results: Vec<usize>,
}

impl OperationCut {
    /// The same axis of all operands and results.
    pub(crate) fn same(axis: usize, operands: usize, results: usize) -> Self {
        Self { operands: vec![Some(axis); operands], results: vec![axis; results] }
    }
}

/// What operations may ask while they run.
pub trait Execution {
    /// How products and the like are computed.
    fn options(&self) -> &ExecutionOptions;

    /// Runs a body on inputs of its types.
    ///
    /// # Errors
    /// As operations refuse.
    fn run(&self, body: &Body, inputs: Vec<Tensor>) -> Result<Vec<Tensor>>;

    /// The number of the rank that runs.
    fn rank(&self) -> u32;

    /// Meets the other ranks of a group: what this one takes of what all bring.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where one of them does not come.
    fn meet(&self, collective: &GroupCollective, brought: &Tensor, result: &TensorType) -> Result<Tensor>;
}

/// One operation in its place: what it takes and what it makes.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// What it does.
    pub operation: Arc<dyn TensorOperation>,
    /// Values that it takes, by number.
    pub operands: Vec<u32>,
    /// The number of its first result; others follow.
    pub first_result: u32,
    /// How many results it has.
    pub results: u32,
    /// Its line, in the graph's list.
    pub location: Option<u32>,
}

impl GraphNode {
    /// Name and number of the operation, as its instructions are labelled.
    pub fn label(&self) -> String {
        format!("{}.{}", self.operation.name(), self.first_result)
    }

    /// The numbers of its results.
    pub fn result_numbers(&self) -> std::ops::Range<u32> {
        self.first_result..self.first_result + self.results
    }
}

/// Operations in an order in which each comes after what it takes. Values are numbered: inputs first, then results in
/// the order of the operations.
#[derive(Clone, Debug, Default)]
pub struct Body {
    types: Vec<TensorType>,
    inputs: usize,
    nodes: Vec<GraphNode>,
    outputs: Vec<u32>,
    /// How it runs by operation, once it has.
    plan: OnceLock<Arc<Plan>>,
}

impl Body {
    /// A body of these inputs.
    pub fn new(inputs: Vec<TensorType>) -> Self {
        Self { inputs: inputs.len(), types: inputs, ..Self::default() }
    }

    /// Adds an operation after all that are there; the number of its first result comes back. Its operands and results
    /// are checked.
    ///
    /// # Errors
    /// [`GraphError::Operation`] for what the operation refuses; the location is the caller's to add.
    pub fn push(
        &mut self,
        operation: Arc<dyn TensorOperation>,
        operands: Vec<u32>,
        results: Vec<TensorType>,
        location: Option<u32>,
    ) -> Result<u32> {
        let refuse = |reason| GraphError::Operation { operation: operation.name().to_owned(), location: None, reason };
        if let Some(unknown) = operands.iter().find(|&&value| value as usize >= self.types.len()) {
            return Err(refuse(format!("takes value {unknown}, of {} that there are before it", self.types.len())));
        }
        let given: Vec<&TensorType> = operands.iter().map(|&value| &self.types[value as usize]).collect();
        let made: Vec<&TensorType> = results.iter().collect();
        operation.check(&given, &made).map_err(refuse)?;
        self.plan = OnceLock::new();
        let first_result = self.types.len() as u32;
        let node = GraphNode { operation, operands, first_result, results: results.len() as u32, location };
        self.nodes.push(node);
        self.types.extend(results);
        Ok(first_result)
    }

    /// Says which values it gives.
    ///
    /// # Errors
    /// [`GraphError::Format`] for a value that is not there.
    pub fn set_outputs(&mut self, outputs: Vec<u32>) -> Result<()> {
        if let Some(unknown) = outputs.iter().find(|&&value| value as usize >= self.types.len()) {
            return Err(GraphError::Format(format!("output {unknown} is no value; there are {}", self.types.len())));
        }
        self.plan = OnceLock::new();
        self.outputs = outputs;
        Ok(())
    }

    /// The same values with these operations, some of its own that take other values or are others, and outputs.
    pub(crate) fn rewritten(&self, nodes: Vec<GraphNode>, outputs: Vec<u32>) -> Self {
        Self { types: self.types.clone(), inputs: self.inputs, nodes, outputs, plan: OnceLock::new() }
    }

    /// Types of the inputs.
    pub fn inputs(&self) -> &[TensorType] {
        &self.types[..self.inputs]
    }

    /// Types of all values, by number.
    pub fn types(&self) -> &[TensorType] {
        &self.types
    }

    /// Operations, in order.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// Values that it gives, by number.
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// How it runs by operation.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(self.plan.get_or_init(|| Arc::new(Plan::new(self))))
    }

    /// Types of what it gives.
    pub fn output_types(&self) -> Vec<&TensorType> {
        self.outputs.iter().map(|&value| &self.types[value as usize]).collect()
    }
}

/// A whole step of a model.
#[derive(Clone, Debug)]
pub struct Graph {
    /// What it is called.
    pub name: String,
    /// Ranks that run it side by side.
    pub ranks: u32,
    /// Operations.
    pub body: Body,
    /// Names of the inputs, as the front end calls them.
    pub input_names: Vec<String>,
    /// Lines that operations come from.
    pub locations: Vec<Location>,
    canonical: OnceLock<Body>,
}

impl Default for Graph {
    fn default() -> Self {
        let (name, input_names, locations) = (String::new(), Vec::new(), Vec::new());
        Self::new(name, 1, Body::default(), input_names, locations)
    }
}

impl Graph {
    /// A graph of these operations, for so many ranks.
    pub fn new(name: String, ranks: u32, body: Body, input_names: Vec<String>, locations: Vec<Location>) -> Self {
        Self { name, ranks, body, input_names, locations, canonical: OnceLock::new() }
    }

    /// What runs: the body as it was when this was asked for first, in canonical form; numbers of values are the same.
    pub(crate) fn canonical(&self) -> &Body {
        self.canonical.get_or_init(|| canonical(&self.body))
    }

    /// An error of an operation, with its name and line.
    pub(crate) fn located(&self, node: &GraphNode, error: GraphError) -> GraphError {
        error.at(node.operation.name(), self.location(node))
    }

    /// The line of an operation.
    pub fn location(&self, node: &GraphNode) -> Option<&Location> {
        self.locations.get(node.location? as usize)
    }
}
