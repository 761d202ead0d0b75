//! Execution by instructions: every operation's template on a core, values and time.

use std::collections::HashMap;
use std::sync::Arc;

use trn3_compiler::{CompileOptions, CompileReport, compile_cores};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::NeuronCore;
use trn3_machine::time::Picos;
use trn3_profile::{CoreProfile, Profile, RunColumns};

use crate::emitter::Emitter;
use crate::error::{GraphError, Result};
use crate::graph::{Graph, GraphNode};
use crate::lowering::Lowering;
use crate::meetings::Meetings;
use crate::options::ExecutionOptions;
use crate::template::{OperationRun, TemplateKind};
use crate::tensor::Tensor;

/// A graph that ran by instructions.
pub struct CoreRun {
    /// What it gave; None for what a run without values does not know.
    pub results: Vec<Option<Tensor>>,
    /// The cores, with their timelines and memories.
    pub cores: Vec<NeuronCore>,
    /// What the compiler did on each.
    pub reports: Vec<CompileReport>,
    /// The operations of the graph's own body, in order: how each was computed.
    pub operations: Vec<OperationRun>,
}

impl CoreRun {
    /// Time from the first start to the last result of any core.
    pub fn makespan(&mut self) -> Picos {
        makespan(&mut self.cores)
    }
}

/// Time from the first start to the last result of any core.
pub(crate) fn makespan(cores: &mut [NeuronCore]) -> Picos {
    cores.iter_mut().map(NeuronCore::makespan).max().unwrap_or(Picos::ZERO)
}

/// What a run on the cores of one logical core was.
///
/// # Errors
/// [`GraphError::Format`] for no core.
pub(crate) fn profile_of(cores: &mut [NeuronCore], name: &str) -> Result<Profile> {
    if let [core] = cores {
        return Ok(Profile::of_run(RunColumns::of(core, name)));
    }
    let profile = |core| Arc::new(CoreProfile::new(RunColumns::of(core, name)));
    let joint = Profile::joint(cores.iter_mut().map(profile).collect());
    joint.ok_or_else(|| GraphError::Format("no core ran".to_owned()))
}

impl Graph {
    /// Runs the graph by instructions on one core of a machine, or on two that work as one, and compiles them; with `inputs`,
    /// the values are those of [`Graph::execute`], bit for bit. Without, only time is known.
    ///
    /// # Errors
    /// As [`Graph::execute`]; [`GraphError::Argument`] for more cores than work as one on the machine;
    /// [`GraphError::Operation`] for an operation that has no template yet, or whose loop or case
    /// depends on a value that a run without values does not know; [`GraphError::Machine`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_compiler::{CompileLevel, CompileOptions};
    /// use trn3_graph::{ExecutionOptions, Graph, Tensor, TensorType};
    /// use trn3_machine::arch::ArchSpec;
    /// use trn3_machine::dtype::DType;
    ///
    /// let text = r#"{"format": "trn3-graph", "version": 1, "name": "product",
    ///   "inputs": [{"dtype": "bfloat16", "shape": [64, 128]}, {"dtype": "bfloat16", "shape": [128, 32]}],
    ///   "operations": [{"op": "dot_general", "operands": [0, 1], "attributes": {"contracting": [[1], [0]]},
    ///     "results": [{"dtype": "bfloat16", "shape": [64, 32]}]}],
    ///   "outputs": [2]}"#;
    /// let graph = Graph::from_json(text.as_bytes(), &[])?;
    /// let ones = |shape: [usize; 2]| {
    ///     Tensor::from_floats(TensorType::new(DType::BFloat16, &shape), vec![1.0; shape[0] * shape[1]])
    /// };
    /// let options = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    /// let arch = Arc::new(ArchSpec::load("trn3")?);
    /// let inputs = vec![ones([64, 128])?, ones([128, 32])?];
    /// let mut run = graph.run_on_core(&arch, Some(inputs), &ExecutionOptions::default(), &options)?;
    /// assert_eq!(run.results[0].as_ref().map(|y| y.floats().map(|y| y[0])), Some(Ok(128.0)));
    /// assert!(run.makespan().microseconds() > 0.0);
    /// # Ok::<(), trn3_graph::GraphError>(())
    /// ```
    pub fn run_on_core(
        &self,
        arch: &Arc<ArchSpec>,
        inputs: Option<Vec<Tensor>>,
        options: &ExecutionOptions,
        compile: &CompileOptions,
    ) -> Result<CoreRun> {
        if self.ranks > 1 {
            let text = format!("{} runs on {} ranks, of which one alone meets nobody", self.name, self.ranks);
            return Err(GraphError::Argument(text));
        }
        self.run_meeting(arch, inputs, Meetings::none(), options, compile)
    }

    /// As [`Graph::run_on_core`], of a rank that may meet others.
    pub(crate) fn run_meeting(
        &self,
        arch: &Arc<ArchSpec>,
        inputs: Option<Vec<Tensor>>,
        meetings: Meetings<'_>,
        options: &ExecutionOptions,
        compile: &CompileOptions,
    ) -> Result<CoreRun> {
        if let Some(inputs) = &inputs {
            self.check_inputs(inputs)?;
        }
        let mut emitter = Emitter::on_cores(Arc::clone(arch), inputs.is_some(), options)?;
        let mut values = Vec::with_capacity(self.body.types().len());
        for (place, kind) in self.body.inputs().iter().enumerate() {
            let name = self.input_names.get(place).filter(|name| !name.is_empty());
            let name = name.cloned().unwrap_or_else(|| format!("input.{place}"));
            values.push(emitter.given(&name, kind, inputs.as_ref().map(|inputs| &inputs[place]))?);
        }
        drop(inputs);
        let mut lowering = Lowering::new(self, options, emitter, meetings);
        let outputs = lowering.body(self.canonical(), values)?;
        let (mut emitter, operations) = lowering.finish();
        let operations = operations.into_iter().map(|(_, run)| run).collect();
        let mut results = Vec::with_capacity(outputs.len());
        for (view, kind) in outputs.iter().zip(self.body.output_types()) {
            results.push(emitter.value(view, kind)?);
        }
        let mut cores = emitter.into_cores();
        let reports = compile_cores(&mut cores.iter_mut().collect::<Vec<_>>(), compile)?;
        Ok(CoreRun { results, cores, reports, operations: self.every(operations) })
    }

    /// Every operation of the body in its order, those that passes took out among them.
    fn every(&self, operations: Vec<OperationRun>) -> Vec<OperationRun> {
        let mut found: HashMap<String, TemplateKind> =
            operations.into_iter().map(|run| (run.label, run.template)).collect();
        let run = |node: &GraphNode| {
            let label = node.label();
            let template = found.remove(&label).unwrap_or(TemplateKind::Removed);
            OperationRun { label, template }
        };
        self.body.nodes().iter().map(run).collect()
    }
}
