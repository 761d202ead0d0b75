//! One graph on several ranks: a thread each, which meet in collectives.
//!
//! What a rank computes depends on its inputs and on what it takes from meetings alone: values are the same whatever the
//! host's scheduler does.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use trn3_numerics::{with_default_environment, with_interrupt_check};

use crate::error::{GraphError, Result};
use crate::execute::ByOperation;
use crate::graph::{Execution, Graph};
use crate::meeting_room::{MeetingRoom, Seat};
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;

/// Ranks that run at once at most: each is a thread with values of its own.
const MOST_EXECUTED: u32 = 1024;
/// Stack of a rank's thread: bodies stand in bodies.
const STACK_BYTES: usize = 8 << 20;

thread_local! {
    /// Whether the run that this thread is part of is to stop.
    static STOPPED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

fn is_stopped() -> bool {
    STOPPED.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

/// What a rank gave, and what it took from meetings, in their order, where that was to be kept.
type RankResult = Result<(Vec<Tensor>, Vec<Tensor>)>;

impl Graph {
    /// Runs the graph by operation on all its ranks; `inputs[rank]` are a rank's own. What several ranks' floats are summed to
    /// is the sum in ascending ranks, as of kernels' collectives.
    ///
    /// # Errors
    /// As [`Graph::execute`], of the lowest rank that refuses; [`GraphError::Argument`] for inputs of another number of ranks,
    /// [`GraphError::Operation`] where a rank waits in a collective for others that do not come.
    ///
    /// ```
    /// use trn3_graph::{ExecutionOptions, Graph, Tensor, TensorType};
    /// use trn3_machine::dtype::DType;
    ///
    /// let text = r#"{"format": "trn3-graph", "version": 1, "name": "sum", "ranks": 2,
    ///   "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    ///   "operations": [{"op": "all_reduce", "operands": [0], "results": [{"dtype": "float32", "shape": [2]}],
    ///     "attributes": {"replica_groups": [[0, 1]], "function": "add"}}],
    ///   "outputs": [1]}"#;
    /// let graph = Graph::from_json(text.as_bytes(), &[])?;
    /// let x = |values: [f32; 2]| Tensor::from_floats(TensorType::new(DType::Float32, &[2]), values.to_vec());
    /// let inputs = vec![vec![x([1.0, 2.0])?], vec![x([10.0, 20.0])?]];
    /// let found = graph.execute_ranks(inputs, &ExecutionOptions::default())?;
    /// assert_eq!(&*found[1][0].floats()?, &[11.0, 22.0]);
    /// # Ok::<(), trn3_graph::GraphError>(())
    /// ```
    pub fn execute_ranks(&self, inputs: Vec<Vec<Tensor>>, options: &ExecutionOptions) -> Result<Vec<Vec<Tensor>>> {
        Ok(self.run_ranks(inputs, options, None)?.into_iter().map(|(outputs, _)| outputs).collect())
    }

    /// As [`Graph::execute_ranks`]; of the rank that is watched it says too what it took from meetings.
    pub(crate) fn run_ranks(
        &self,
        inputs: Vec<Vec<Tensor>>,
        options: &ExecutionOptions,
        watched: Option<u32>,
    ) -> Result<Vec<(Vec<Tensor>, Vec<Tensor>)>> {
        if inputs.len() != self.ranks as usize {
            let text = format!("inputs of {} ranks came; {} runs on {}", inputs.len(), self.name, self.ranks);
            return Err(GraphError::Argument(text));
        }
        if self.ranks > MOST_EXECUTED {
            let text = format!("{} runs on {} ranks; with values at most {MOST_EXECUTED} may", self.name, self.ranks);
            return Err(GraphError::Argument(text));
        }
        for (rank, own) in inputs.iter().enumerate() {
            let of_rank = |error| match error {
                GraphError::Argument(text) => GraphError::Argument(format!("rank {rank}: {text}")),
                other => other,
            };
            self.check_inputs(own).map_err(of_rank)?;
        }
        let room = MeetingRoom::new(self.ranks);
        let work = |rank: u32, own: Vec<Tensor>| -> RankResult {
            let _seat = Seat { room: &room, rank };
            let execution = ByOperation::of_rank(options, &self.locations, rank, &room, watched == Some(rank));
            let outputs = with_default_environment(|| execution.run(self.canonical(), own))?;
            Ok((outputs, execution.into_taken()))
        };
        let found: Vec<RankResult> = thread::scope(|scope| {
            let mut inputs = inputs.into_iter();
            let first = inputs.next().unwrap_or_default();
            let mut threads = Vec::with_capacity(self.ranks as usize);
            for (rank, own) in (1..).zip(inputs) {
                let (stop, work) = (Arc::clone(&room.stop), &work);
                let body = move || {
                    STOPPED.set(Some(stop));
                    with_interrupt_check(is_stopped, || work(rank, own))
                };
                let builder = thread::Builder::new().name(format!("rank {rank}")).stack_size(STACK_BYTES);
                threads.push((rank, builder.spawn_scoped(scope, body)));
                if threads.last().is_some_and(|(_, thread)| thread.is_err()) {
                    // Who is not there cannot come: the others end.
                    (rank..self.ranks).for_each(|rank| room.end(rank));
                    break;
                }
            }
            let mut all = vec![work(0, first)];
            if all[0].as_ref().is_err_and(is_interrupt) || room.wait_for_all().is_err() {
                room.stop.store(true, Ordering::Relaxed);
                all = vec![Err(GraphError::Numerics(trn3_numerics::Error::Interrupted))];
            }
            for (rank, thread) in threads {
                let no_room = |error| GraphError::Argument(format!("no room for a thread of rank {rank}: {error}"));
                all.push(thread.map_err(no_room).and_then(|thread| match thread.join() {
                    Ok(found) => found,
                    Err(panic) => std::panic::resume_unwind(panic),
                }));
            }
            all
        });
        let interrupted = found.iter().position(|one| one.as_ref().is_err_and(is_interrupt));
        // Who waited in vain did so because of what another one met, where there is one.
        let own = (0..found.len()).find(|&rank| found[rank].is_err() && !room.is_stuck(rank));
        let first = interrupted.or(own).unwrap_or(0);
        let mut found = found;
        if found[first].is_err() {
            found.swap(0, first);
        }
        found.into_iter().collect()
    }
}

fn is_interrupt(error: &GraphError) -> bool {
    matches!(error, GraphError::Numerics(trn3_numerics::Error::Interrupted))
}
