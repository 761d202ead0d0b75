//! local_gather and nc_n_gather: elements picked along the free axis.

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Elements that one index may stand for.
const RUNS: [usize; 6] = [1, 2, 4, 8, 16, 32];

fn outside(name: &str, index: usize, size: usize) -> Error {
    Error::OutOfBounds(format!("{name}: index {index} exceed size of {size} elements per partition"))
}

/// `local_gather(dst, src_buffer, index, num_elem_per_idx, num_valid_indices)`: each processor takes the indices of its 16
/// partitions column by column, and for each of them that many neighbouring elements from each of the 16 partitions.
/// Indices are element offsets; one outside the tile is an error **(choice)**.
#[derive(Debug)]
pub struct LocalGather {
    /// [P, indices * elements of each].
    pub dst: View,
    /// [P, F], P a multiple of 16.
    pub src_buffer: View,
    /// [P, K] uint16.
    pub index: View,
    /// Elements of each index: 1, 2, 4, 8, 16 or 32.
    pub num_elem_per_idx: usize,
    /// Indices of each processor that count; None: all 16 K.
    pub num_valid_indices: Option<usize>,
}

impl LocalGather {
    fn indices(&self, arch: &ArchSpec) -> usize {
        self.num_valid_indices.unwrap_or(self.index.free_size() * arch.gpsimd_partitions as usize)
    }
}

impl Instruction for LocalGather {
    fn name(&self) -> &'static str {
        "local_gather"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src_buffer);
        visit(OperandRole::Read, &self.index);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (name, view) in [("src_buffer", &self.src_buffer), ("index", &self.index), ("dst", &self.dst)] {
            check.tile(name, view, SBUF)?;
            check.no_columns(name, view)?;
        }
        let group = super::check_groups(&check, "src_buffer", &self.src_buffer)?;
        check.same_partitions("index", &self.index, "src_buffer", &self.src_buffer)?;
        check.same_partitions("dst", &self.dst, "src_buffer", &self.src_buffer)?;
        if self.index.dtype != DType::UInt16 {
            return Err(check.refuse("index", format!("has dtype {}", self.index.dtype), "uint16"));
        }
        if self.dst.dtype != self.src_buffer.dtype {
            let allowed = format!("that of src_buffer, {}", self.src_buffer.dtype);
            return Err(check.refuse("dst", format!("has dtype {}", self.dst.dtype), allowed));
        }
        if !RUNS.contains(&self.num_elem_per_idx) {
            let got = format!("is {}", self.num_elem_per_idx);
            return Err(check.refuse("num_elem_per_idx", got, "1, 2, 4, 8, 16 or 32"));
        }
        let (indices, all) = (self.indices(arch), self.index.free_size() * group);
        let most = all.min(arch.gather_indices as usize);
        if indices == 0 || indices > most {
            let got = format!("is {indices} for {all} indices");
            return Err(check.refuse("num_valid_indices", got, format!("1 to {most}")));
        }
        let wanted = indices * self.num_elem_per_idx;
        if self.dst.free_size() != wanted {
            let got = format!("has {} elements per partition", self.dst.free_size());
            let allowed = format!("{wanted}: {indices} indices of {} elements", self.num_elem_per_idx);
            return Err(check.refuse("dst", got, allowed));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let run = self.num_elem_per_idx as f64;
        let element = arch.gather_element_cycles as f64 * run;
        let words = (arch.gpsimd_lane_bytes as f64 / self.src_buffer.dtype.size() as f64).min(run);
        // The printed formula divides by what grows with the overhead; multiplied it has the sense of a cost **(choice)**.
        let each = (arch.gather_overhead_cycles as f64 + element) / element / words;
        cost::gpsimd(arch, (self.indices(arch) as f64 * run * each).ceil() as u64)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let group = state.arch.gpsimd_partitions as usize;
        let (run, count) = (self.num_elem_per_idx, self.indices(&state.arch));
        let (source, width) = (state.read_words(&self.src_buffer)?, self.src_buffer.free_size());
        let (index, columns) = (state.read_bits(&self.index)?, self.index.free_size());
        let mut out = vec![0; self.dst.len()];
        for (partition, line) in out.chunks_exact_mut(count * run).enumerate() {
            let first = partition / group * group;
            for (at, elements) in line.chunks_exact_mut(run).enumerate() {
                let start = index[(first + at % group) * columns + at / group] as usize;
                if start + run > width {
                    return Err(outside("local_gather index", start + run - 1, width));
                }
                elements.copy_from_slice(&source[partition * width + start..][..run]);
            }
        }
        state.memory.write_words(&self.dst, &out, self.src_buffer.dtype, None)
    }
}

/// `nc_n_gather(dst, data, indices)`: `dst[p, i] = data[p, indices[p, i]]`, free axes flattened. It runs as one instruction
/// for every 512 elements.
#[derive(Debug)]
pub struct NcNGather {
    /// As many elements as `indices`.
    pub dst: View,
    /// [P, F].
    pub data: View,
    /// [P, N] uint32.
    pub indices: View,
}

impl Instruction for NcNGather {
    fn name(&self) -> &'static str {
        "nc_n_gather"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Read, &self.indices);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (name, view) in [("data", &self.data), ("indices", &self.indices), ("dst", &self.dst)] {
            check.tile(name, view, SBUF)?;
            check.no_columns(name, view)?;
        }
        check.same_partitions("data", &self.data, "dst", &self.dst)?;
        check.same_tile("indices", &self.indices, "dst", &self.dst)?;
        if self.indices.dtype != DType::UInt32 {
            return Err(check.refuse("indices", format!("has dtype {}", self.indices.dtype), "uint32"));
        }
        if self.dst.dtype != self.data.dtype {
            let got = format!("has dtype {}", self.dst.dtype);
            return Err(check.refuse("dst", got, format!("that of data, {}", self.data.dtype)));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size() as u64;
        let starts = elements.div_ceil(arch.free_gather_elements).max(1);
        cost::gpsimd(arch, (starts - 1) * arch.gpsimd_start_cycles + elements * arch.free_gather_element_cycles)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (data, width) = (state.read_words(&self.data)?, self.data.free_size());
        let mut out = state.read_bits(&self.indices)?;
        let free = self.indices.free_size();
        for (element, slot) in out.iter_mut().enumerate() {
            let index = *slot as usize;
            if index >= width {
                return Err(outside("nc_n_gather indices", index, width));
            }
            *slot = data[element / free * width + index];
        }
        state.memory.write_words(&self.dst, &out, self.data.dtype, None)
    }
}
