//! Lowering: every operation of a graph as its template's instructions, one after another.

use std::collections::HashMap;
use std::sync::Arc;

use trn3_machine::dtype::DType;
use trn3_machine::view::View;

use crate::body_plan::{BodyPlan, LoweringStep, PlanSetting};
use crate::emitter::Emitter;
use crate::error::{GraphError, Result};
use crate::fallback::emit_whole;
use crate::graph::{Body, Graph, GraphNode};
use crate::long_reduction::emit_long_reduction;
use crate::meetings::Meetings;
use crate::node_types::{as_any, operand_types, result_types};
use crate::operations::{Case, CustomCall, Reduce, Reshape, While};
use crate::options::ExecutionOptions;
use crate::template::{OperationRun, TemplateKind};
use crate::tensor_type::TensorType;

/// A graph on its way to a core: what is issued so far.
pub(crate) struct Lowering<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) options: &'g ExecutionOptions,
    pub(crate) emitter: Emitter,
    meetings: Meetings<'g>,
    /// Operations of the graph's own body with their first results, as they were issued.
    operations: Vec<(u32, OperationRun)>,
    /// The operation with bodies that is at work, by its name.
    within: Option<String>,
    /// Of each body that was lowered, by its address: bodies of loops are lowered turn by turn.
    plans: HashMap<*const Body, Arc<BodyPlan>>,
    /// Where what was there before the run lies: of loops it is laid into HBM once.
    constants: HashMap<(*const Body, u32), View>,
}

/// What is known of the values of a body: the plan, and where each lies.
pub(crate) struct BodyViews {
    pub(crate) plan: Arc<BodyPlan>,
    pub(crate) views: Vec<Option<View>>,
}

impl BodyViews {
    /// Nothing lies anywhere yet.
    pub(crate) fn new(plan: Arc<BodyPlan>) -> Self {
        Self { views: vec![None; plan.uses.len()], plan }
    }
}

impl<'g> Lowering<'g> {
    /// Nothing is issued yet.
    pub(crate) fn new(
        graph: &'g Graph,
        options: &'g ExecutionOptions,
        emitter: Emitter,
        meetings: Meetings<'g>,
    ) -> Self {
        let (plans, constants) = (HashMap::new(), HashMap::new());
        Self { graph, options, emitter, meetings, operations: Vec::new(), within: None, plans, constants }
    }

    /// The core with all that was issued, and how operations were computed: their first results say which, in the order
    /// in which they were issued.
    pub(crate) fn finish(self) -> (Emitter, Vec<(u32, OperationRun)>) {
        (self.emitter, self.operations)
    }

    /// Issues a body's operations on inputs that lie at these places; where its outputs lie.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`].
    pub(crate) fn body(&mut self, body: &'g Body, inputs: Vec<View>) -> Result<Vec<View>> {
        let plan = self.plan(body)?;
        let mut known = BodyViews::new(Arc::clone(&plan));
        known.views.iter_mut().zip(inputs).for_each(|(place, view)| *place = Some(view));
        for &place in &plan.worked_out {
            self.note(&body.nodes()[place as usize], TemplateKind::Folded);
        }
        self.steps(body, &plan.steps, &mut known)?;
        body.outputs().iter().map(|&value| self.placed(body, value, &mut known)).collect()
    }

    fn plan(&mut self, body: &'g Body) -> Result<Arc<BodyPlan>> {
        let address = std::ptr::from_ref(body);
        if let Some(plan) = self.plans.get(&address) {
            return Ok(Arc::clone(plan));
        }
        let setting = PlanSetting::new(self.emitter.arch(), self.emitter.has_values(), self.meetings.rank);
        let plan = BodyPlan::new(self.graph, body, self.options, &setting)?;
        Ok(Arc::clone(self.plans.entry(address).or_insert_with(|| Arc::new(plan))))
    }

    /// Issues some of the steps of a body.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`].
    pub(crate) fn steps(&mut self, body: &'g Body, steps: &[LoweringStep], known: &mut BodyViews) -> Result<()> {
        for step in steps {
            match step {
                LoweringStep::Alone(place) => {
                    let node = &body.nodes()[*place as usize];
                    self.alone(body, node, known).map_err(|error| self.graph.located(node, error))?;
                }
                LoweringStep::Region(region) => self.region(body, region, known)?,
                LoweringStep::Attention(attention) => self.attention(body, attention, known)?,
            }
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, node: &GraphNode, template: TemplateKind) {
        if self.within.is_none() {
            self.operations.push((node.first_result, OperationRun { label: node.label(), template }));
        }
    }

    /// Where a value lies; what was known before the run is laid into HBM when it is first asked for. What is made by
    /// operations that are not issued here lies in HBM as they would leave it.
    pub(crate) fn placed(&mut self, body: &'g Body, value: u32, known: &mut BodyViews) -> Result<View> {
        let place = value as usize;
        if let Some(view) = &known.views[place] {
            return Ok(view.clone());
        }
        let kind = &body.types()[place];
        let view = if known.plan.is_folded(value) {
            let key = (std::ptr::from_ref(body), value);
            match self.constants.get(&key) {
                Some(view) => view.clone(),
                None => {
                    let view = self.emitter.given(&format!("constant.{value}"), kind, known.plan.known(value))?;
                    self.constants.insert(key, view.clone());
                    view
                }
            }
        } else {
            let maker = known.plan.makers[place].map(|maker| &body.nodes()[maker as usize]);
            match maker.filter(|node| !node.operation.is_elementwise() && !node.operands.is_empty()) {
                Some(node) => {
                    let first = self.placed(body, node.operands[0], known)?;
                    match node.operation.look(&first, kind) {
                        Some(view) => view,
                        None => self.emitter.given(&node.label(), kind, None)?,
                    }
                }
                None => self.emitter.given(&format!("value.{value}"), kind, None)?,
            }
        };
        known.views[place] = Some(view.clone());
        Ok(view)
    }

    fn operand_views(&mut self, body: &'g Body, node: &GraphNode, known: &mut BodyViews) -> Result<Vec<View>> {
        node.operands.iter().map(|&value| self.placed(body, value, known)).collect()
    }

    /// One operation that shares nothing with its neighbours.
    pub(crate) fn alone(&mut self, body: &'g Body, node: &'g GraphNode, known: &mut BodyViews) -> Result<()> {
        let operands = self.operand_views(body, node, known)?;
        self.begin(node);
        let kinds = result_types(body, node);
        let any = as_any(node);
        let made = if let Some(operation) = any.downcast_ref::<While>() {
            self.note(node, TemplateKind::Body);
            self.inside(node, |lowering| lowering.looped(operation, operands))?
        } else if let Some(operation) = any.downcast_ref::<Case>() {
            self.note(node, TemplateKind::Body);
            self.inside(node, |lowering| lowering.branched(operation, operands))?
        } else if let Some(collective) = node.operation.collective() {
            self.note(node, TemplateKind::Collective);
            let kinds = (operand_types(body, node)[0], &kinds[0]);
            vec![self.meetings.emit(&mut self.emitter, collective, &operands[0], kinds)?]
        } else if let Some(view) = operands.first().and_then(|first| node.operation.look(first, &kinds[0])) {
            self.note(node, TemplateKind::View);
            vec![view]
        } else {
            self.instructions(body, node, &operands)?
        };
        for (number, view) in node.result_numbers().zip(made) {
            known.views[number as usize] = Some(view);
        }
        Ok(())
    }

    fn instructions(&mut self, body: &Body, node: &GraphNode, operands: &[View]) -> Result<Vec<View>> {
        let kinds = result_types(body, node);
        let mut results = Vec::with_capacity(kinds.len());
        for kind in kinds {
            results.push(self.emitter.hbm(&node.label(), kind)?);
        }
        if let Some(call) = as_any(node).downcast_ref::<CustomCall>() {
            call.issue(&mut self.emitter, (&operand_types(body, node)[..], kinds), operands, &results)?;
            self.note(node, TemplateKind::Kernel);
        } else if as_any(node).is::<Reshape>() {
            // What no look can say is laid out anew, in the same order.
            self.emitter.copy(&results[0], &operands[0])?;
            self.note(node, TemplateKind::Copy);
        } else if node.operation.emit(&mut self.emitter, operands, &results, self.options)? {
            self.note(node, TemplateKind::Instructions);
        } else if self.whole(body, node, operands, &results)? {
            self.note(node, TemplateKind::GpSimdFunction);
        } else {
            let reason =
                "has no template of instructions yet; mode=\"operations\" computes it, without time".to_owned();
            return Err(GraphError::Format(reason));
        }
        Ok(results)
    }

    /// An operation without a template, as a function of GpSimdE on all that it takes; whether that fits on chip.
    fn whole(&mut self, body: &Body, node: &GraphNode, operands: &[View], results: &[View]) -> Result<bool> {
        let types = (&operand_types(body, node)[..], result_types(body, node));
        if let Some(reduce) = as_any(node).downcast_ref::<Reduce>() {
            let types = (types.0[0], &types.1[0]);
            let operands = (&operands[0], &operands[1]);
            return emit_long_reduction(&mut self.emitter, reduce, types, operands, &results[0], self.options);
        }
        emit_whole(&mut self.emitter, &node.operation, types, operands, results, self.options)
    }

    /// Does something for an operation that has bodies: what these issue is under its name.
    fn inside(&mut self, node: &GraphNode, work: impl FnOnce(&mut Self) -> Result<Vec<View>>) -> Result<Vec<View>> {
        let outer = self.within.clone();
        self.within.get_or_insert_with(|| node.label());
        let made = work(self);
        self.within = outer;
        made
    }

    /// What follows is of this operation, or of the one whose body it stands in.
    pub(crate) fn begin(&mut self, node: &GraphNode) {
        let label = self.within.clone().unwrap_or_else(|| node.label());
        self.emitter.at(self.graph.location(node), &label);
    }

    fn looped(&mut self, operation: &'g While, mut carries: Vec<View>) -> Result<Vec<View>> {
        loop {
            let condition = self.body(&operation.condition, carries.clone())?;
            let truth = self.scalar(&condition[0], operation.condition.output_types()[0])?;
            if truth.is_none_or(|value| value == 0) {
                break;
            }
            carries = self.body(&operation.body, carries)?;
        }
        Ok(carries)
    }

    fn branched(&mut self, operation: &'g Case, operands: Vec<View>) -> Result<Vec<View>> {
        let index = TensorType::new(DType::Int32, &[]);
        let index = self.scalar(&operands[0], &index)?.unwrap_or(0);
        let last = operation.branches.len() - 1;
        let branch = &operation.branches[usize::try_from(index).unwrap_or(last).min(last)];
        self.body(branch, operands[1..].to_vec())
    }

    /// A number that decides what comes next.
    fn scalar(&mut self, view: &View, kind: &TensorType) -> Result<Option<i64>> {
        let unknown = || GraphError::Format("depends on a value that a run without values does not know".to_owned());
        self.emitter.wait_for_all(view)?;
        let value = self.emitter.value(view, kind)?.ok_or_else(unknown)?;
        Ok(value.integers()?.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use trn3_machine::arch::ArchSpec;

    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn test_constants_of_a_loop_are_laid_into_hbm_once() {
        // Five turns of x + [1, 1, 1, 1], with a counter beside it.
        let (x, i) = (r#"{"dtype": "float32", "shape": [4]}"#, r#"{"dtype": "int32", "shape": []}"#);
        let (one, whole) = (r#"{"dtype": "float32", "shape": []}"#, r#"{"dtype": "bool", "shape": []}"#);
        let constant = |data: usize, kind: &str| {
            format!(r#"{{"op": "constant", "operands": [], "attributes": {{"data": {data}}}, "results": [{kind}]}}"#)
        };
        let condition = format!(
            r#"{{"inputs": [{i}, {x}], "operations": [{}, {{"op": "compare", "operands": [0, 2],
                "attributes": {{"direction": "lt"}}, "results": [{whole}]}}], "outputs": [3]}}"#,
            constant(1, i)
        );
        let body = format!(
            r#"{{"inputs": [{i}, {x}], "operations": [{}, {{"op": "add", "operands": [0, 2], "results": [{i}]}}, {},
                {{"op": "broadcast_in_dim", "operands": [4], "attributes": {{"dimensions": []}}, "results": [{x}]}},
                {{"op": "add", "operands": [1, 5], "results": [{x}]}}], "outputs": [3, 6]}}"#,
            constant(2, i),
            constant(3, one)
        );
        let text = format!(
            r#"{{"format": "trn3-graph", "version": 1, "inputs": [{x}], "operations": [{}, {{"op": "while",
                "operands": [1, 0], "attributes": {{"condition": {condition}, "body": {body}}},
                "results": [{i}, {x}]}}], "outputs": [3]}}"#,
            constant(0, i)
        );
        let number = |value: i64| Tensor::from_integers(TensorType::new(DType::Int32, &[]), [value]).unwrap();
        let float = Tensor::from_floats(TensorType::new(DType::Float32, &[]), vec![1.0]).unwrap();
        let graph = Graph::from_json(text.as_bytes(), &[number(0), number(5), number(1), float]).unwrap();
        let options = ExecutionOptions::default();
        let emitter = Emitter::new(ArchSpec::shared("trn3").unwrap(), true).unwrap();
        let mut lowering = Lowering::new(&graph, &options, emitter, Meetings::none());
        let given = Tensor::from_floats(TensorType::new(DType::Float32, &[4]), vec![0.5; 4]).unwrap();
        let x = lowering.emitter.given("x", given.kind(), Some(&given)).unwrap();
        let outputs = lowering.body(&graph.body, vec![x]).unwrap();
        let found = lowering.emitter.value(&outputs[0], given.kind()).unwrap().unwrap();
        assert_eq!(&*found.floats().unwrap(), &[5.5; 4]);
        // The start, the bound, and in the body the step and the broadcast one.
        assert_eq!(lowering.constants.len(), 4);
    }
}
