//! nonzero_with_count and topk.

use std::cmp::Ordering;

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::tensor::matrix;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `nonzero_with_count(dst, src, index_offset, padding_val)` (gen3+): on partitions 0, 16, ..., 112 the places of the
/// elements that are not zero, plus an offset, then padding, and how many there are last. Other partitions keep what they
/// hold. NaN is not zero **(choice)**.
#[derive(Debug)]
pub struct NonzeroWithCount {
    /// [P, T + 1] int32.
    pub dst: View,
    /// [P, T] float32 or int32.
    pub src: View,
    /// Added to every place.
    pub index_offset: i64,
    /// What follows the last place.
    pub padding_val: i64,
    /// The partitions of src and of dst that are read and written, once [`Instruction::prepare`] knows the machine's; until
    /// then all count.
    pub firsts: Option<(View, View)>,
}

impl NonzeroWithCount {
    /// Of each processor's partitions the first takes part.
    ///
    /// # Errors
    /// Those of cutting a view.
    pub fn new(dst: View, src: View, index_offset: i64, padding_val: i64, arch: &ArchSpec) -> Result<Self> {
        let mut made = Self { dst, src, index_offset, padding_val, firsts: None };
        made.prepare(arch)?;
        Ok(made)
    }

    fn rows(&self) -> (&View, &View) {
        self.firsts.as_ref().map_or((&self.src, &self.dst), |(src, dst)| (src, dst))
    }
}

impl Instruction for NonzeroWithCount {
    fn name(&self) -> &'static str {
        "nonzero_with_count"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        let (src, dst) = self.rows();
        visit(OperandRole::Read, src);
        visit(OperandRole::Write, dst);
    }

    fn prepare(&mut self, arch: &ArchSpec) -> Result<()> {
        let firsts = |view: &View| view.slice(0, 0, view.partitions() as i64, arch.gpsimd_partitions as i64);
        self.firsts = Some((firsts(&self.src)?, firsts(&self.dst)?));
        Ok(())
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 3)?;
        for (name, view) in [("src", &self.src), ("dst", &self.dst)] {
            check.tile(name, view, SBUF)?;
            check.no_columns(name, view)?;
        }
        if !matches!(self.src.dtype, DType::Float32 | DType::Int32) {
            return Err(check.refuse("src", format!("has dtype {}", self.src.dtype), "float32 or int32"));
        }
        if self.dst.dtype != DType::Int32 {
            return Err(check.refuse("dst", format!("has dtype {}", self.dst.dtype), "int32"));
        }
        check.same_partitions("dst", &self.dst, "src", &self.src)?;
        let elements = self.src.free_size();
        if self.dst.free_size() != elements + 1 {
            let got = format!("has {} elements per partition", self.dst.free_size());
            return Err(check.refuse("dst", got, format!("{}: one for each of src and the count", elements + 1)));
        }
        for (name, value) in [("index_offset", self.index_offset), ("padding_val", self.padding_val)] {
            if i32::try_from(value).is_err() {
                return Err(check.refuse(name, format!("is {value}"), "a signed number of 32 bits"));
            }
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.src.free_size() as u64)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (src, dst) = self.rows();
        let values = state.read(src)?;
        let width = src.free_size();
        let mut out = Vec::with_capacity(dst.len());
        for row in 0..src.partitions() {
            let values = &values[row * width..][..width];
            let start = out.len();
            let places = values.iter().enumerate().filter(|(_, value)| **value != 0.0);
            out.extend(places.map(|(place, _)| (place as i64).wrapping_add(self.index_offset) as u32));
            let count = (out.len() - start) as u32;
            out.resize(start + width, self.padding_val as u32);
            out.push(count);
        }
        state.keep(values);
        state.memory.write_bits(dst, &out)
    }
}

/// `topk(val_dst, idx_dst, src, n)`: of the n elements of each group of 16 partitions, element e on partition e % 16 in
/// column e / 16, the k largest in ascending order and where they were; every partition of a group gets the same
/// **(choice)**. Of equal elements the earlier counts as the larger, and NaN as larger than all **(choice)**.
#[derive(Debug)]
pub struct TopK {
    /// [P, k] bfloat16.
    pub val_dst: View,
    /// [P, k] uint32.
    pub idx_dst: View,
    /// [P, F] bfloat16, F at least n / 16.
    pub src: View,
    /// Elements of a group that count.
    pub n: usize,
}

fn rank(one: (f32, u32), other: (f32, u32)) -> Ordering {
    let values = match (one.0.is_nan(), other.0.is_nan()) {
        (false, false) => one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal),
        (one, other) => one.cmp(&other),
    };
    values.then(other.1.cmp(&one.1))
}

impl Instruction for TopK {
    fn name(&self) -> &'static str {
        "topk"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.val_dst);
        visit(OperandRole::Write, &self.idx_dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 3)?;
        for (name, view) in [("src", &self.src), ("val_dst", &self.val_dst), ("idx_dst", &self.idx_dst)] {
            check.tile(name, view, SBUF)?;
            check.no_columns(name, view)?;
            let dtype = if name == "idx_dst" { DType::UInt32 } else { DType::BFloat16 };
            if view.dtype != dtype {
                return Err(check.refuse(name, format!("has dtype {}", view.dtype), dtype));
            }
        }
        self.matrix(arch)?;
        let group = super::check_groups(&check, "src", &self.src)?;
        check.same_partitions("val_dst", &self.val_dst, "src", &self.src)?;
        check.same_tile("idx_dst", &self.idx_dst, "val_dst", &self.val_dst)?;
        let (least, most) = (arch.topk_least_elements, arch.topk_elements);
        if !(least..=most).contains(&(self.n as u64)) {
            return Err(check.refuse("n", format!("is {}", self.n), format!("{least} to {most}")));
        }
        let k = self.val_dst.free_size();
        if k == 0 || k as u64 > arch.topk_results || k > self.n {
            let got = format!("has {k} elements per partition");
            return Err(check.refuse(
                "val_dst",
                got,
                format!("1 to {}, and at most n = {}", arch.topk_results, self.n),
            ));
        }
        if self.src.free_size() < self.n.div_ceil(group) {
            let got = format!("has {} elements per partition", self.src.free_size());
            return Err(check.refuse("src", got, format!("at least {} for n = {}", self.n.div_ceil(group), self.n)));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let k = self.val_dst.free_size() as u64;
        cost::gpsimd(arch, self.n as u64 * arch.topk_candidate_cycles + k)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let group = state.arch.gpsimd_partitions as usize;
        let src = self.matrix(&state.arch.clone())?;
        let k = self.val_dst.free_size();
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for first in (0..src.partitions()).step_by(group) {
            let mut list = self.active(state, &src, first, group)?;
            list.sort_unstable_by(|one, other| rank(*one, *other));
            let top = &list[list.len() - k..];
            for _ in 0..group {
                values.extend(top.iter().map(|(value, _)| *value));
                places.extend(top.iter().map(|(_, place)| *place));
            }
        }
        state.write(&self.val_dst, &values)?;
        state.memory.write_bits(&self.idx_dst, &places)
    }
}

impl TopK {
    fn matrix(&self, arch: &ArchSpec) -> Result<View> {
        matrix(&self.src).ok_or_else(|| {
            let check = Check { arch, instruction: self.name() };
            check.refuse("src", format!("has shape {:?}", &self.src.shape[..]), "free axes that are one evenly spaced")
        })
    }

    /// The elements of a group with their numbers; what lies beyond n is not read.
    fn active(&self, state: &mut State, src: &View, first: usize, group: usize) -> Result<Vec<(f32, u32)>> {
        let mut list = Vec::with_capacity(self.n);
        let rows = |count: usize| src.slice(0, first as i64, (first + count) as i64, 1);
        let (whole, rest) = (self.n / group, self.n % group);
        let mut take = |view: View, column: usize, state: &mut State| -> Result<()> {
            let values = state.read(&view)?;
            let width = view.free_size();
            for (at, value) in values.iter().enumerate() {
                list.push((*value, ((column + at % width) * group + at / width) as u32));
            }
            state.keep(values);
            Ok(())
        };
        if whole > 0 {
            take(rows(group)?.slice(1, 0, whole as i64, 1)?, 0, state)?;
        }
        if rest > 0 {
            take(rows(rest)?.slice(1, whole as i64, whole as i64 + 1, 1)?, whole, state)?;
        }
        Ok(list)
    }
}
