//! One rank of a graph by instructions.

use std::sync::Arc;

use trn3_compiler::CompileOptions;
use trn3_machine::arch::ArchSpec;
use trn3_system::collective::PlacedRanks;

use crate::by_instructions::CoreRun;
use crate::error::{GraphError, Result};
use crate::graph::Graph;
use crate::meetings::Meetings;
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;

impl Graph {
    /// Runs one rank of the graph by instructions on a core; with the `inputs` of all ranks, its values are those of
    /// [`Graph::execute_ranks`], bit for bit. Collectives take the time that they take where the ranks are placed.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`] and [`Graph::execute_ranks`]; [`GraphError::Argument`] for a rank that there is not, and for
    /// places of another number of ranks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_compiler::CompileOptions;
    /// use trn3_graph::{ExecutionOptions, Graph};
    /// use trn3_machine::arch::ArchSpec;
    /// use trn3_system::collective::{Estimator, PlacedRanks};
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let text = r#"{"format": "trn3-graph", "version": 1, "name": "sum", "ranks": 4,
    ///   "inputs": [{"name": "x", "dtype": "bfloat16", "shape": [1024, 512]}],
    ///   "operations": [{"op": "all_reduce", "operands": [0], "results": [{"dtype": "bfloat16", "shape": [1024, 512]}],
    ///     "attributes": {"replica_groups": [[0, 1, 2, 3]], "function": "add"}}],
    ///   "outputs": [1]}"#;
    /// let graph = Graph::from_json(text.as_bytes(), &[])?;
    /// let system = Arc::new(Estimator::new(Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs)?))?);
    /// let placed = PlacedRanks::new(system, "trn3_gen2", 8, 4, None)?;
    /// let (arch, options) = (Arc::new(ArchSpec::load("trn3")?), ExecutionOptions::default());
    /// let mut run = graph.run_rank_on_core(&arch, (0, &placed), None, &options, &CompileOptions::default())?;
    /// let rows = run.account(&graph);
    /// assert_eq!((rows[0].template.name(), rows[0].hbm_bytes), ("collective", 2 << 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_rank_on_core(
        &self,
        arch: &Arc<ArchSpec>,
        (rank, placed): (u32, &PlacedRanks),
        inputs: Option<Vec<Vec<Tensor>>>,
        options: &ExecutionOptions,
        compile: &CompileOptions,
    ) -> Result<CoreRun> {
        if rank >= self.ranks || placed.ranks() != self.ranks {
            let came = format!("rank {rank} of {}", placed.ranks());
            return Err(GraphError::Argument(format!("{came} came; {} runs on {} ranks", self.name, self.ranks)));
        }
        let (mut own, mut taken) = (None, None);
        if let Some(inputs) = inputs {
            own = inputs.get(rank as usize).cloned();
            let mut all = self.run_ranks(inputs, options, Some(rank))?;
            taken = Some(std::mem::take(&mut all[rank as usize].1).into_iter());
        }
        self.run_meeting(arch, own, Meetings { rank, placed: Some(placed), taken }, options, compile)
    }
}
