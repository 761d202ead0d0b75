//! tensor_partition_reduce and sequence_bounds.

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::alu::AluOp;
use crate::isa::gpsimd::{integers, nearest};
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_partition_reduce(dst, op, data)`: over the partitions in ascending order, in float32; between integer types in
/// 32-bit integers of data's sign, whose sums wrap, cast to the nearest that dst's type has **(choice)**; bitwise operators
/// on bit patterns of integers. The average is the exact or float32 sum divided by the partitions **(choice)**.
#[derive(Debug)]
pub struct TensorPartitionReduce {
    /// [1, ...], free axes as `data`.
    pub dst: View,
    /// add, average, maximum, bitwise_or or bitwise_and.
    pub op: AluOp,
    /// [P, ...].
    pub data: View,
}

impl Instruction for TensorPartitionReduce {
    fn name(&self) -> &'static str {
        "tensor_partition_reduce"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let ops = [AluOp::Add, AluOp::Average, AluOp::Maximum, AluOp::BitwiseOr, AluOp::BitwiseAnd];
        if !ops.contains(&self.op) {
            return Err(check.refuse("op", format!("is {}", self.op), "add, average, max, bitwise_or, bitwise_and"));
        }
        for (name, view) in [("data", &self.data), ("dst", &self.dst)] {
            check.tile(name, view, SBUF)?;
            check.unpacked(name, view)?;
            check.no_columns(name, view)?;
            if self.op.is_bitvec() && !view.dtype.is_integer() {
                return Err(check.refuse(
                    name,
                    format!("has dtype {}", view.dtype),
                    "an integer with bitwise operators",
                ));
            }
        }
        if self.op.is_bitvec() && self.dst.dtype.size() != self.data.dtype.size() {
            let got = format!("has dtype {} where data has {}", self.dst.dtype, self.data.dtype);
            return Err(check.refuse("dst", got, "integers of one width with bitwise operators"));
        }
        if self.dst.partitions() != 1 || self.dst.free_size() != self.data.free_size() {
            let got = format!("has shape {:?}", &self.dst.shape[..]);
            return Err(check.refuse("dst", got, format!("one partition of {} elements", self.data.free_size())));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.data.free_size() as u64 * arch.partition_reduce_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let free = self.data.free_size();
        if self.op.is_bitvec() {
            let bits = state.read_bits(&self.data)?;
            let mut rows = bits.chunks_exact(free.max(1));
            let mut out = rows.next().unwrap_or_default().to_vec();
            let width = 8 * self.data.dtype.size() as u32;
            for row in rows {
                out.iter_mut().zip(row).for_each(|(out, bits)| *out = self.op.apply_bits(*out, *bits, width));
            }
            return state.memory.write_bits(&self.dst, &out);
        }
        if self.data.dtype.is_integer() && self.dst.dtype.is_integer() {
            return self.execute_integers(state);
        }
        let values = state.read(&self.data)?;
        let step = if self.op == AluOp::Average { AluOp::Add } else { self.op };
        let mut rows = values.chunks_exact(free.max(1));
        let mut out = rows.next().unwrap_or_default().to_vec();
        for row in rows {
            out.iter_mut().zip(row).for_each(|(out, value)| *out = step.apply(*out, *value));
        }
        if self.op == AluOp::Average {
            out.iter_mut().for_each(|out| *out /= self.data.partitions() as f32);
        }
        state.keep(values);
        state.write(&self.dst, &out)
    }
}

impl TensorPartitionReduce {
    fn execute_integers(&self, state: &mut State) -> Result<()> {
        let values = integers(state, &self.data)?;
        let mut rows = values.chunks_exact(self.data.free_size().max(1));
        let mut out = rows.next().unwrap_or_default().to_vec();
        for row in rows {
            for (out, value) in out.iter_mut().zip(row) {
                *out = if self.op == AluOp::Maximum { (*out).max(*value) } else { *out + *value };
            }
        }
        let count = self.data.partitions() as f64;
        let is_signed = self.data.dtype.is_signed_integer();
        let finished = |value: i64| match self.op {
            AluOp::Average => (value as f64 / count).round_ties_even() as i64,
            // A sum modulo 2^32 does not depend on when it wraps.
            _ if is_signed => i64::from(value as i32),
            _ => i64::from(value as u32),
        };
        let bits: Vec<u32> = out.iter().map(|&value| nearest(self.dst.dtype, finished(value))).collect();
        state.memory.write_bits(&self.dst, &bits)
    }
}

/// `sequence_bounds(dst, segment_ids)`: for every element the first place of its run of equal ids and the place after its
/// last; id 0 is padding and gets (n, -1). Ids below 0 and NaN are refused **(choice)**.
#[derive(Debug)]
pub struct SequenceBounds {
    /// [1, 2, n].
    pub dst: View,
    /// [1, n], float32 or int32, not negative.
    pub segment_ids: View,
}

impl Instruction for SequenceBounds {
    fn name(&self) -> &'static str {
        "sequence_bounds"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.segment_ids);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (name, view) in [("segment_ids", &self.segment_ids), ("dst", &self.dst)] {
            check.tile(name, view, SBUF)?;
            check.no_columns(name, view)?;
            if !matches!(view.dtype, DType::Float32 | DType::Int32) {
                return Err(check.refuse(name, format!("has dtype {}", view.dtype), "float32 or int32"));
            }
            if view.partitions() != 1 {
                return Err(check.refuse(name, format!("has {} partitions", view.partitions()), "one"));
            }
        }
        let count = self.segment_ids.free_size();
        if self.dst.free_size() != 2 * count || self.dst.rank() < 3 || self.dst.shape[1] != 2 {
            let got = format!("has shape {:?}", &self.dst.shape[..]);
            return Err(check.refuse("dst", got, format!("[1, 2, {count}]")));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.segment_ids.free_size() as u64 * arch.sequence_bounds_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let ids = self.ids(state)?;
        let count = ids.len();
        let mut bounds = vec![0.0f32; 2 * count];
        let mut first = 0;
        while first < count {
            let run = ids[first..].iter().take_while(|id| **id == ids[first]).count().max(1);
            let range = if ids[first] == 0.0 { (count as f32, -1.0) } else { (first as f32, (first + run) as f32) };
            for at in first..first + run {
                (bounds[at], bounds[count + at]) = range;
            }
            first += run;
        }
        state.write(&self.dst, &bounds)
    }
}

impl SequenceBounds {
    /// The ids, exactly: float64 holds every int32 and every float32.
    fn ids(&self, state: &mut State) -> Result<Vec<f64>> {
        let ids: Vec<f64> = if self.segment_ids.dtype.is_integer() {
            integers(state, &self.segment_ids)?.into_iter().map(|id| id as f64).collect()
        } else {
            let values = state.read(&self.segment_ids)?;
            let ids = values.iter().map(|id| f64::from(*id)).collect();
            state.keep(values);
            ids
        };
        match ids.iter().position(|id| id.is_nan() || *id < 0.0) {
            None => Ok(ids),
            Some(at) => {
                let arch = state.arch.clone();
                let check = Check { arch: &arch, instruction: self.name() };
                Err(check.refuse("segment_ids", format!("holds {} at {at}", ids[at]), "numbers from 0"))
            }
        }
    }
}
