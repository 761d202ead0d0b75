//! What is decided of a body before it is lowered: what is worked out beforehand, and what is issued in which order.

use trn3_machine::arch::ArchSpec;

use crate::error::Result;
use crate::execute::ByOperation;
use crate::graph::{Body, Graph, GraphNode};
use crate::node_types::result_types;
use crate::options::{ExecutionOptions, MatmulPath};
use crate::passes::room;
use crate::passes::{Attention, FOLDED_ELEMENTS, Region, Step, attended, is_look, planned};
use crate::tensor::Tensor;

/// The same in runs without values, where only what control flow and addresses may ask for is worked out **(choice)**.
const ASKED_ELEMENTS: usize = 1 << 12;

/// Whether a value is there before the run.
#[derive(Clone, Debug)]
pub(crate) enum Folded {
    /// Instructions make it, or it is given.
    No,
    /// It is, but a run without values needs its type alone.
    Unseen,
    /// It is this.
    Known(Tensor),
}

/// What is issued at once: operations by their places in the body.
#[derive(Clone, Debug)]
pub(crate) enum LoweringStep {
    /// One that shares nothing with its neighbours.
    Alone(u32),
    /// Operations that share tiles.
    Region(Region),
    /// Operations between two products, and these.
    Attention(Box<Attention>),
}

impl LoweringStep {
    /// The operations, by their places.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        match self {
            LoweringStep::Alone(node) => vec![*node],
            LoweringStep::Region(region) => region.nodes.iter().map(|&node| node as u32).collect(),
            LoweringStep::Attention(attention) => {
                let outside = attention.looks.iter().chain([&attention.head, &attention.tail]);
                let mut nodes: Vec<u32> =
                    attention.region.nodes.iter().chain(outside).map(|&node| node as u32).collect();
                nodes.sort_unstable();
                nodes
            }
        }
    }
}

/// What a body is lowered for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanSetting {
    /// Whether values are computed.
    has_values: bool,
    /// What tiles that are shared may take of a partition, in bytes.
    room: usize,
    partitions: usize,
    /// The rank that runs it.
    rank: u32,
}

impl PlanSetting {
    /// A rank of this machine.
    pub(crate) fn new(arch: &ArchSpec, has_values: bool, rank: u32) -> Self {
        Self { has_values, room: room(arch), partitions: arch.partitions as usize, rank }
    }

    fn planned(&self, body: &Body, options: &ExecutionOptions) -> Vec<Step> {
        let steps = planned(body, options.fuse, self.room);
        // Products of other paths have no template to share.
        if !options.fuse || matches!(options.matmul, MatmulPath::Mxfp8 | MatmulPath::Mxfp4) {
            return steps;
        }
        attended(body, steps, 2 * self.room, self.partitions)
    }
}

/// What is the same each time that a body is lowered.
#[derive(Debug)]
pub(crate) struct BodyPlan {
    /// How often each value is taken.
    pub(crate) uses: Vec<u32>,
    /// What is known of each value before the run.
    pub(crate) folded: Vec<Folded>,
    /// The one number that all elements of a value are, where it is there before the run and an engine can write it.
    pub(crate) numbers: Vec<Option<f64>>,
    /// The place of the operation that makes each value; None of inputs.
    pub(crate) makers: Vec<Option<u32>>,
    /// Operations that are worked out, by their places.
    pub(crate) worked_out: Vec<u32>,
    /// What is issued, in order.
    pub(crate) steps: Vec<LoweringStep>,
}

impl BodyPlan {
    /// The plan of a body of this graph.
    ///
    /// # Errors
    /// As [`Graph::execute`], of what is worked out.
    pub(crate) fn new(graph: &Graph, body: &Body, options: &ExecutionOptions, setting: &PlanSetting) -> Result<Self> {
        let values = body.types().len();
        let mut uses = vec![0u32; values];
        let operands = body.nodes().iter().flat_map(|node| &node.operands);
        operands.chain(body.outputs()).for_each(|&value| uses[value as usize] += 1);
        let mut plan = Self {
            uses,
            folded: vec![Folded::No; values],
            numbers: vec![None; values],
            makers: vec![None; values],
            worked_out: Vec::new(),
            steps: Vec::new(),
        };
        for (place, node) in (0u32..).zip(body.nodes()) {
            node.result_numbers().for_each(|value| plan.makers[value as usize] = Some(place));
        }
        let most = if setting.has_values { FOLDED_ELEMENTS } else { ASKED_ELEMENTS };
        let execution = ByOperation::new(options, &graph.locations).with_rank(setting.rank);
        for step in setting.planned(body, options) {
            match step {
                Step::Fold(place) => {
                    let node = &body.nodes()[place];
                    plan.fold(body, node, &execution, most).map_err(|error| graph.located(node, error))?;
                    plan.worked_out.push(place as u32);
                }
                Step::Alone(place) => plan.steps.push(LoweringStep::Alone(place as u32)),
                Step::Region(region) => plan.steps.push(LoweringStep::Region(region)),
                Step::Attention(attention) => plan.steps.push(LoweringStep::Attention(attention)),
            }
        }
        Ok(plan)
    }

    /// Works out an operation: everything that it takes is there before the run.
    fn fold(&mut self, body: &Body, node: &GraphNode, execution: &ByOperation<'_>, most: usize) -> Result<()> {
        let results = result_types(body, node);
        let operands: Option<Vec<&Tensor>> = node.operands.iter().map(|&value| self.known(value)).collect();
        let is_small = |limit: usize| results.iter().all(|kind| kind.elements() <= limit);
        match operands.filter(|_| is_small(most)) {
            Some(operands) => {
                let made = node.operation.execute(&operands, results, execution)?;
                for (number, tensor) in node.result_numbers().zip(made) {
                    self.numbers[number as usize] = number_of(&tensor);
                    self.folded[number as usize] = Folded::Known(tensor);
                }
            }
            None => node.result_numbers().for_each(|number| self.folded[number as usize] = Folded::Unseen),
        }
        // Runs with values and without have the same instructions: what is large counts as one number alike in both.
        if is_look(node) {
            self.numbers[node.first_result as usize] = self.numbers[node.operands[0] as usize];
        } else if !is_small(ASKED_ELEMENTS) {
            node.result_numbers().for_each(|number| self.numbers[number as usize] = None);
        }
        Ok(())
    }

    /// The value, where it is worked out.
    pub(crate) fn known(&self, value: u32) -> Option<&Tensor> {
        match &self.folded[value as usize] {
            Folded::Known(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether a value is there before the run.
    pub(crate) fn is_folded(&self, value: u32) -> bool {
        !matches!(self.folded[value as usize], Folded::No)
    }
}

/// The one number that every element is, where an engine can write it.
fn number_of(tensor: &Tensor) -> Option<f64> {
    if !tensor.kind().is_float() || tensor.kind().elements() == 0 {
        return None;
    }
    let size = tensor.dtype().size();
    let first = &tensor.bytes()[..size];
    let numbers = tensor.bytes().chunks(size).all(|element| element == first);
    let number = numbers.then(|| tensor.floats().ok().map(|floats| f64::from(floats[0]))).flatten()?;
    (!number.is_nan()).then_some(number)
}
