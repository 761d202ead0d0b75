//! What a step holds in HBM at once.

use std::collections::HashMap;

use trn3_machine::arch::ArchSpec;

use crate::body_plan::{BodyPlan, PlanSetting};
use crate::error::Result;
use crate::graph::{Body, Graph};
use crate::node_types::result_types;
use crate::options::ExecutionOptions;
use crate::region_key::is_look;
use crate::tensor_type::TensorType;

/// Bytes that a step holds. What templates lay out anew on the way is not among them **(choice)**.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepMemory {
    /// What the step is given: weights, optimiser states, data.
    pub inputs_bytes: u64,
    /// What is there before the run besides.
    pub constants_bytes: u64,
    /// What operations make, the most that is there at once: each value until its last use, outputs to the end.
    pub activations_bytes: u64,
    /// The most bytes of an SBUF partition in use at a time.
    pub sbuf_peak_bytes: u64,
    /// The most bytes of a PSUM partition in use at a time.
    pub psum_peak_bytes: u64,
}

impl StepMemory {
    /// The most bytes of HBM in use at a time.
    pub fn hbm_peak_bytes(&self) -> u64 {
        self.inputs_bytes + self.constants_bytes + self.activations_bytes
    }

    /// What a graph holds in HBM.
    ///
    /// # Errors
    /// As [`Graph::execute`], of what is worked out before the run.
    pub(crate) fn of(graph: &Graph, arch: &ArchSpec, options: &ExecutionOptions) -> Result<Self> {
        let setting = PlanSetting::new(arch, false, 0);
        let live = Live::of(graph, graph.canonical(), options, &setting)?;
        let inputs_bytes = graph.body.inputs().iter().map(bytes).sum();
        Ok(Self { inputs_bytes, constants_bytes: live.constants, activations_bytes: live.peak, ..Self::default() })
    }
}

fn bytes(kind: &TensorType) -> u64 {
    (kind.elements() * kind.dtype.size()) as u64
}

/// Bytes that a body holds besides what it is given.
struct Live {
    constants: u64,
    peak: u64,
}

impl Live {
    fn of(graph: &Graph, body: &Body, options: &ExecutionOptions, setting: &PlanSetting) -> Result<Self> {
        let plan = BodyPlan::new(graph, body, options, setting)?;
        // Looks at memory hold what they look at.
        let mut roots: Vec<u32> = (0..body.types().len() as u32).collect();
        for node in body.nodes() {
            if !plan.is_folded(node.first_result) && is_look(node) {
                roots[node.first_result as usize] = roots[node.operands[0] as usize];
            }
        }
        let root = |value: &u32| roots[*value as usize];
        let mut last: HashMap<u32, usize> = HashMap::new();
        for (step, issued) in plan.steps.iter().enumerate() {
            for place in issued.nodes() {
                let node = &body.nodes()[place as usize];
                last.extend(
                    node.operands
                        .iter()
                        .chain(&node.result_numbers().collect::<Vec<_>>())
                        .map(|value| (root(value), step)),
                );
            }
        }
        last.extend(body.outputs().iter().map(|value| (root(value), plan.steps.len())));
        let mut constants: u64 = last
            .keys()
            .filter(|&&value| plan.is_folded(value))
            .map(|&value| bytes(&body.types()[value as usize]))
            .sum();
        let mut ends: Vec<Vec<u32>> = vec![Vec::new(); plan.steps.len() + 1];
        last.iter().for_each(|(&value, &step)| ends[step].push(value));
        let is_made = |value: u32| plan.makers[value as usize].is_some() && !plan.is_folded(value);
        let (mut now, mut peak) = (0u64, 0u64);
        for (step, issued) in plan.steps.iter().enumerate() {
            let mut inner = 0;
            for place in issued.nodes() {
                let node = &body.nodes()[place as usize];
                for inner_body in node.operation.bodies() {
                    let live = Self::of(graph, inner_body, options, setting)?;
                    constants += live.constants;
                    inner = inner.max(live.peak);
                }
                for (value, kind) in node.result_numbers().zip(result_types(body, node)) {
                    let taken = issued.nodes().into_iter().flat_map(|other| &body.nodes()[other as usize].operands);
                    let within = taken.filter(|&&taken| taken == value).count();
                    let is_shared = issued.nodes().len() > 1 && plan.uses[value as usize] as usize <= within;
                    if root(&value) == value && !is_shared {
                        now += bytes(kind);
                    } else {
                        roots_gone(&mut ends, step, value);
                    }
                }
            }
            peak = peak.max(now + inner);
            let gone = ends[step].iter().filter(|&&value| is_made(value));
            now -= gone.map(|&value| bytes(&body.types()[value as usize])).sum::<u64>();
        }
        Ok(Self { constants, peak: peak.max(now) })
    }
}

/// A value that never was in HBM does not go from there.
fn roots_gone(ends: &mut [Vec<u32>], step: usize, value: u32) {
    ends[step].retain(|&other| other != value);
}
