//! From what a core kept of its run to columns.

use std::collections::HashMap;
use std::sync::Arc;

use trn3_machine::core::{NeuronCore, OccupancyPoint, RunAsWritten, TensorLog};
use trn3_machine::dtype::DType;
use trn3_machine::isa::OperandRole;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::graph::{GraphEdge, RunGraph};
use trn3_machine::timing::record::{NO_INSTRUCTION, TransferRecord};
use trn3_machine::timing::timeline::Timeline;

use crate::cause::cause_number;
use crate::columns::{EdgeColumns, InstructionColumns, OccupancyColumns, TensorColumns, TransferColumns, UseColumns};
use crate::recorded::{Recorded, WrittenColumns};

pub(crate) fn instructions(timeline: &Timeline) -> InstructionColumns {
    let count = timeline.records().len();
    let mut columns = InstructionColumns {
        opcode: Vec::with_capacity(count),
        engine: Vec::with_capacity(count),
        queue: Vec::with_capacity(count),
        site: Vec::with_capacity(count),
        label: Vec::with_capacity(count),
        start_ps: Vec::with_capacity(count),
        slot_end_ps: Vec::with_capacity(count),
        end_ps: Vec::with_capacity(count),
        wait_ps: Vec::with_capacity(count),
        cause: Vec::with_capacity(count),
        waited_on: Vec::with_capacity(count),
        ready_ps: Vec::with_capacity(count),
        bound: Vec::with_capacity(count),
        dma_bytes: Vec::with_capacity(count),
        hbm_read: Vec::with_capacity(count),
        hbm_write: Vec::with_capacity(count),
        macs: Vec::with_capacity(count),
        peak_macs_per_cycle: Vec::with_capacity(count),
    };
    for record in timeline.records() {
        columns.opcode.push(record.opcode);
        columns.engine.push(record.engine as u8);
        columns.queue.push(record.queue);
        columns.site.push(record.site.0);
        columns.label.push(record.label);
        columns.start_ps.push(record.start.0);
        columns.slot_end_ps.push(record.slot_end.0);
        columns.end_ps.push(record.end.0);
        columns.wait_ps.push(record.wait.0);
        columns.cause.push(cause_number(record.cause));
        columns.waited_on.push(record.waited_on);
        columns.dma_bytes.push(record.dma_bytes);
        columns.hbm_read.push(record.hbm_read);
        columns.hbm_write.push(record.hbm_write);
        columns.macs.push(record.macs);
        columns.peak_macs_per_cycle.push(record.peak_macs_per_cycle);
    }
    for step in timeline.steps().into_iter().flatten() {
        columns.ready_ps.push(step.ready.0);
        columns.bound.push(step.bound as u8);
    }
    columns
}

/// What each of so many instructions comes after, as `comes_after` says.
fn edges<E: Iterator<Item = GraphEdge>>(count: usize, comes_after: impl Fn(usize) -> E) -> EdgeColumns {
    let mut made = EdgeColumns::default();
    let mut own: Vec<(u32, u8)> = Vec::new();
    for consumer in 0..count {
        own.clear();
        own.extend(comes_after(consumer).map(|edge| (edge.on, edge.kind as u8)));
        // One edge each for a stationary operand and a moving one of the same producer is one reason.
        own.sort_unstable();
        own.dedup();
        for &(producer, kind) in &own {
            made.consumer.push(consumer as u32);
            made.producer.push(producer);
            made.kind.push(kind);
        }
    }
    made
}

pub(crate) fn transfers(records: &[TransferRecord]) -> TransferColumns {
    TransferColumns {
        instruction: records.iter().map(|record| record.id).collect(),
        dma_engine: records.iter().map(|record| record.dma_engine).collect(),
        start_ps: records.iter().map(|record| record.start.0).collect(),
        end_ps: records.iter().map(|record| record.end.0).collect(),
        bytes: records.iter().map(|record| record.bytes).collect(),
    }
}

pub(crate) fn occupancy(points: &[OccupancyPoint]) -> OccupancyColumns {
    OccupancyColumns {
        time_ps: points.iter().map(|point| point.time.0).collect(),
        sbuf_bytes: points.iter().map(|point| point.sbuf).collect(),
        psum_bytes: points.iter().map(|point| point.psum).collect(),
        sbuf_peak_bytes: points.iter().map(|point| point.sbuf).max().unwrap_or(0),
        psum_peak_bytes: points.iter().map(|point| point.psum).max().unwrap_or(0),
    }
}

/// What a core kept of its run, as it is.
pub(crate) struct KeptRun {
    graph: Option<Arc<RunGraph>>,
    tensors: TensorLog,
    groups: Vec<Vec<u64>>,
    met: Vec<u32>,
    /// The one before it was compiled.
    as_written: Option<Arc<RunAsWritten>>,
}

impl KeptRun {
    /// Of a core's run so far, whose graph is this one.
    pub(crate) fn of(core: &mut NeuronCore, graph: Option<Arc<RunGraph>>) -> Self {
        let (groups, met) = (core.rank_groups().groups().to_vec(), core.rank_groups().met().to_vec());
        let as_written = core.run_as_written().cloned();
        Self { graph, tensors: core.tensor_log().without_numbers(), groups, met, as_written }
    }

    /// The columns that it makes; texts of files are not its to know.
    pub(crate) fn recorded(&self) -> Recorded {
        let (mut made, mut known) = (Recorded::typed(), Known::default());
        let graph = self.graph.as_deref();
        let count = graph.map_or(0, |graph| graph.steps().len());
        (made.tensors, made.uses) = made.log(&mut known, &self.tensors, count);
        made.edges = edges(count, |number| graph.map(|graph| graph.edges(number)).into_iter().flatten());
        (made.groups, made.met) = (self.groups.clone(), self.met.clone());
        made.as_written = self.as_written.as_ref().map(|written| Box::new(made.written(&mut known, written)));
        made
    }
}

impl Recorded {
    /// Nothing yet but the names of element types.
    fn typed() -> Self {
        let mut made =
            Self { dtypes: DType::ALL.iter().map(|dtype| dtype.name().to_owned()).collect(), ..Self::default() };
        made.dtypes.push(String::new());
        made
    }

    fn written(&mut self, known: &mut Known, written: &RunAsWritten) -> WrittenColumns {
        let timeline = &written.timeline;
        let count = timeline.records().len();
        let (tensors, uses) = self.log(known, &written.tensors, count);
        WrittenColumns {
            latency_ps: timeline.makespan().0,
            instructions: instructions(timeline),
            transfers: transfers(timeline.transfers()),
            occupancy: occupancy(&written.occupancy()),
            critical: timeline.critical_path(),
            tensors,
            uses,
            edges: edges(count, |number| timeline.comes_after(number)),
        }
    }

    fn log(&mut self, known: &mut Known, log: &TensorLog, count: usize) -> (TensorColumns, UseColumns) {
        let names: Vec<u32> = log.names().iter().map(|name| known.name(&mut self.names, name)).collect();
        let shapes: Vec<u32> = log.shapes().iter().map(|shape| known.shape(&mut self.shapes, shape)).collect();
        let (tensors, uses) = (log.tensors().collect::<Vec<_>>(), log.uses());
        let memory = |buffer| match buffer {
            Buffer::Sbuf => 0,
            Buffer::Psum => 1,
            Buffer::PrivateHbm => 2,
            Buffer::SharedHbm => 3,
        };
        let dtype = |dtype: Option<DType>| match dtype.and_then(|dtype| DType::ALL.iter().position(|of| *of == dtype)) {
            Some(place) => place as u8,
            None => DType::ALL.len() as u8,
        };
        let role = |role| match role {
            OperandRole::Read => 0,
            OperandRole::Stationary => 1,
            OperandRole::Write => 2,
            OperandRole::Update => 3,
        };
        let went = |went| if went == NO_INSTRUCTION { count as u32 + 1 } else { went };
        let tensors = TensorColumns {
            memory: tensors.iter().map(|tensor| memory(tensor.buffer)).collect(),
            name: tensors.iter().map(|tensor| names[tensor.name as usize]).collect(),
            shape: tensors.iter().map(|tensor| shapes[tensor.shape as usize]).collect(),
            dtype: tensors.iter().map(|tensor| dtype(tensor.dtype)).collect(),
            site: tensors.iter().map(|tensor| tensor.site.0).collect(),
            partition: tensors.iter().map(|tensor| tensor.place.partition as u32).collect(),
            partitions: tensors.iter().map(|tensor| tensor.place.partitions as u32).collect(),
            byte: tensors.iter().map(|tensor| tensor.place.byte as u64).collect(),
            bytes: tensors.iter().map(|tensor| tensor.place.bytes as u64).collect(),
            came: tensors.iter().map(|tensor| tensor.came.min(count as u32)).collect(),
            went: tensors.iter().map(|tensor| went(tensor.went)).collect(),
        };
        let uses = UseColumns {
            instruction: uses.iter().map(|each| each.instruction).collect(),
            tensor: uses.iter().map(|each| each.tensor).collect(),
            usage: uses.iter().map(|each| role(each.role)).collect(),
        };
        (tensors, uses)
    }
}

/// Names and shapes that have numbers.
#[derive(Default)]
struct Known {
    names: HashMap<String, u32>,
    shapes: HashMap<Vec<u64>, u32>,
}

impl Known {
    fn name(&mut self, list: &mut Vec<String>, name: &str) -> u32 {
        *self.names.entry(name.to_owned()).or_insert_with(|| {
            list.push(name.to_owned());
            (list.len() - 1) as u32
        })
    }

    fn shape(&mut self, list: &mut Vec<Vec<u64>>, shape: &[usize]) -> u32 {
        let shape: Vec<u64> = shape.iter().map(|&length| length as u64).collect();
        *self.shapes.entry(shape.clone()).or_insert_with(|| {
            list.push(shape);
            (list.len() - 1) as u32
        })
    }
}
