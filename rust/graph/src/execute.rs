//! Execution by operation: each operation's own arithmetic, on whole tensors.

use std::cell::{Cell, RefCell};

use trn3_numerics::with_default_environment;

use crate::chains::{Chain, PlanStep};
use crate::error::{GraphError, Result};
use crate::graph::{Body, Execution, Graph, GraphNode};
use crate::location::Location;
use crate::meeting_room::MeetingRoom;
use crate::operations::GroupCollective;
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// A run by operation.
pub(crate) struct ByOperation<'g> {
    options: &'g ExecutionOptions,
    locations: &'g [Location],
    /// Its number among the ranks.
    rank: u32,
    /// Where it meets the others; None where there are none.
    room: Option<&'g MeetingRoom>,
    /// What it took from meetings, where that is kept.
    taken: Option<RefCell<Vec<Tensor>>>,
    /// The line of the operation that runs.
    at: Cell<Option<&'g Location>>,
}

impl Graph {
    /// Runs the graph by operation.
    ///
    /// # Errors
    /// [`GraphError::Argument`] when the inputs are not of the graph's types; [`GraphError::Operation`] and
    /// [`GraphError::Numerics`] as operations refuse.
    ///
    /// ```
    /// use trn3_graph::{ExecutionOptions, Graph, Tensor, TensorType};
    /// use trn3_machine::dtype::DType;
    ///
    /// let text = r#"{"format": "trn3-graph", "version": 1, "name": "twice",
    ///   "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    ///   "operations": [{"op": "add", "operands": [0, 0], "results": [{"dtype": "float32", "shape": [2]}]}],
    ///   "outputs": [1]}"#;
    /// let graph = Graph::from_json(text.as_bytes(), &[])?;
    /// let x = Tensor::from_floats(TensorType::new(DType::Float32, &[2]), vec![1.5, -2.0])?;
    /// let found = graph.execute(vec![x], &ExecutionOptions::default())?;
    /// assert_eq!(&*found[0].floats()?, &[3.0, -4.0]);
    /// # Ok::<(), trn3_graph::GraphError>(())
    /// ```
    pub fn execute(&self, inputs: Vec<Tensor>, options: &ExecutionOptions) -> Result<Vec<Tensor>> {
        if self.ranks > 1 {
            let text = format!("{} runs on {} ranks, each with inputs of its own; one came", self.name, self.ranks);
            return Err(GraphError::Argument(text));
        }
        self.check_inputs(&inputs)?;
        let execution = ByOperation::new(options, &self.locations);
        with_default_environment(|| execution.run(self.canonical(), inputs))
    }

    /// Refuses inputs that are not of the graph's types.
    pub(crate) fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        let expected = self.body.inputs();
        if inputs.len() != expected.len() {
            let text = format!("{} inputs came; {} has {}", inputs.len(), self.name, expected.len());
            return Err(GraphError::Argument(text));
        }
        for (place, (tensor, kind)) in inputs.iter().zip(expected).enumerate() {
            if tensor.kind() != kind {
                let name = self.input_names.get(place).map_or("", String::as_str);
                let text = format!("input {place} ({name}) is {}; {} takes {kind}", tensor.kind(), self.name);
                return Err(GraphError::Argument(text));
            }
        }
        Ok(())
    }
}

impl<'g> ByOperation<'g> {
    /// A run with these options, of operations from these lines.
    pub(crate) fn new(options: &'g ExecutionOptions, locations: &'g [Location]) -> Self {
        Self { options, locations, rank: 0, room: None, taken: None, at: Cell::new(None) }
    }

    /// A run of one of several ranks; what it takes from meetings may be kept.
    pub(crate) fn of_rank(
        options: &'g ExecutionOptions,
        locations: &'g [Location],
        rank: u32,
        room: &'g MeetingRoom,
        keeps: bool,
    ) -> Self {
        let taken = keeps.then(RefCell::default);
        Self { rank, room: Some(room), taken, ..Self::new(options, locations) }
    }

    /// The same run as a rank, which meets nobody.
    pub(crate) fn with_rank(self, rank: u32) -> Self {
        Self { rank, ..self }
    }

    /// What was kept.
    pub(crate) fn into_taken(self) -> Vec<Tensor> {
        self.taken.map(RefCell::into_inner).unwrap_or_default()
    }
}

impl Execution for ByOperation<'_> {
    fn options(&self) -> &ExecutionOptions {
        self.options
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn meet(&self, collective: &GroupCollective, brought: &Tensor, result: &TensorType) -> Result<Tensor> {
        let own = [u64::from(self.rank)];
        let taken = match (self.room, collective.group(self.rank)) {
            (Some(room), _) => room.meet(self.rank, collective, (brought, result), self.at.get())?,
            (None, group) if group.is_none_or(|group| group == own) => {
                let taken = collective.exchange(&own, &[brought], result)?.pop();
                taken.ok_or_else(|| GraphError::Argument("nothing was taken".to_owned()))?
            }
            (None, _) => return Err(GraphError::Argument("the other ranks do not run beside this one".to_owned())),
        };
        if let Some(kept) = &self.taken {
            kept.borrow_mut().push(taken.clone());
        }
        Ok(taken)
    }

    /// Values go when nobody needs them any more.
    fn run(&self, body: &Body, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let mut values: Vec<Option<Tensor>> = inputs.into_iter().map(Some).collect();
        values.resize(body.types().len(), None);
        let mut uses = vec![0u32; values.len()];
        let plan = body.plan();
        for step in &plan.steps {
            match step {
                PlanStep::One(place) => {
                    body.nodes()[*place].operands.iter().for_each(|&value| uses[value as usize] += 1);
                }
                PlanStep::Chain(chain) => chain.given().for_each(|value| uses[value as usize] += 1),
            }
        }
        body.outputs().iter().for_each(|&value| uses[value as usize] += 1);
        for step in &plan.steps {
            match step {
                PlanStep::One(place) => {
                    let node = &body.nodes()[*place];
                    let made = self.step(body, node, &mut values, &mut uses)?;
                    for (number, tensor) in node.result_numbers().zip(made) {
                        values[number as usize] = (uses[number as usize] > 0).then_some(tensor);
                    }
                }
                PlanStep::Chain(chain) => self.chain(body, chain, &mut values, &mut uses)?,
            }
        }
        let missing = || GraphError::Format("an output was never made".to_owned());
        body.outputs().iter().map(|&value| values[value as usize].clone().ok_or_else(missing)).collect()
    }
}

impl<'g> ByOperation<'g> {
    fn location(&self, node: &GraphNode) -> Option<&'g Location> {
        node.location.and_then(|number| self.locations.get(number as usize))
    }

    fn chain(&self, body: &Body, chain: &Chain, values: &mut [Option<Tensor>], uses: &mut [u32]) -> Result<()> {
        let first = &body.nodes()[chain.nodes[0]];
        let made = chain
            .run(body.types(), |value| values[value as usize].clone())
            .map_err(|error| error.at(first.operation.name(), self.location(first)))?;
        for value in chain.given() {
            uses[value as usize] -= 1;
            if uses[value as usize] == 0 {
                values[value as usize] = None;
            }
        }
        made.into_iter().for_each(|(number, tensor)| values[number as usize] = Some(tensor));
        Ok(())
    }

    fn step(
        &self,
        body: &Body,
        node: &GraphNode,
        values: &mut [Option<Tensor>],
        uses: &mut [u32],
    ) -> Result<Vec<Tensor>> {
        let location = self.location(node);
        let located = |error: GraphError| error.at(node.operation.name(), location);
        let take = |&operand: &u32| {
            let (value, uses) = (&mut values[operand as usize], &mut uses[operand as usize]);
            *uses -= 1;
            if *uses == 0 { value.take() } else { value.clone() }
        };
        let operands: Option<Vec<Tensor>> = node.operands.iter().map(take).collect();
        let operands = operands.ok_or_else(|| located(GraphError::Format("an operand was never made".to_owned())))?;
        let numbers = node.first_result as usize..(node.first_result + node.results) as usize;
        let results = &body.types()[numbers];
        self.at.set(location);
        let made = node.operation.execute_owned(operands, results, self).map_err(located)?;
        debug_assert!(made.iter().map(Tensor::kind).eq(results), "{}: {results:?}", node.operation.name());
        Ok(made)
    }
}
