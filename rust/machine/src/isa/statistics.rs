//! bn_stats and bn_aggr: mean and variance, by halves and put together.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole, steps};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `bn_stats(dst, data)`: count, mean and variance x count of the elements of even and of odd index, six values a
/// partition. Float32, sums ascending, deviations from the rounded mean **(choice)**.
#[derive(Debug)]
pub struct BnStats {
    /// Result: 6 elements per partition.
    pub dst: View,
    /// Input.
    pub data: View,
}

fn check_tiles(check: &Check<'_>, dst: &View, data: &View) -> Result<()> {
    for (operand, view) in [("dst", dst), ("data", data)] {
        check.tile(operand, view, ON_CHIP)?;
        check.arithmetic(operand, view)?;
        check.no_columns(operand, view)?;
    }
    check.same_partitions("data", data, "dst", dst)
}

/// Count, mean, sum of squared deviations.
fn moments(values: impl Iterator<Item = f32> + Clone) -> [f32; 3] {
    let count = values.clone().count() as f32;
    if count == 0.0 {
        return [0.0; 3];
    }
    let mean = values.clone().fold(0.0, |sum, x| sum + x) / count;
    let squares = values.fold(0.0, |sum, x| sum + (x - mean) * (x - mean));
    [count, mean, squares]
}

impl Instruction for BnStats {
    fn name(&self) -> &'static str {
        "bn_stats"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_tiles(&check, &self.dst, &self.data)?;
        let (elements, most) = (self.data.free_size(), arch.bn_stats_elements as usize);
        if !(1..=most).contains(&elements) {
            let got = format!("has {elements} elements per partition");
            return Err(check.refuse("data", got, format!("1 to {most}; put parts together with bn_aggr")));
        }
        check.free_size("dst", &self.dst, 6)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.data]);
        cost::vector(arch, self.data.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let values = state.read(&self.data)?;
        let mut results = Vec::with_capacity(self.dst.len());
        for row in steps::rows(&values, self.data.free_size()) {
            results.extend(moments(row.iter().copied().step_by(2)));
            results.extend(moments(row.iter().copied().skip(1).step_by(2)));
        }
        state.write(&self.dst, &results)?;
        state.keep(values);
        Ok(())
    }
}

/// `bn_aggr(dst, data)`: mean and population variance from triples of count, mean and variance x count. Float32, sums
/// ascending **(choice)**.
#[derive(Debug)]
pub struct BnAggr {
    /// Result: mean and variance.
    pub dst: View,
    /// Triples.
    pub data: View,
}

impl Instruction for BnAggr {
    fn name(&self) -> &'static str {
        "bn_aggr"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_tiles(&check, &self.dst, &self.data)?;
        let elements = self.data.free_size();
        if elements == 0 || !elements.is_multiple_of(3) {
            let got = format!("has {elements} elements per partition");
            return Err(check.refuse("data", got, "a multiple of 3: count, mean, variance x count"));
        }
        check.free_size("dst", &self.dst, 2)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_bn_aggr_rate, &[&self.data]);
        cost::vector(arch, self.data.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let values = state.read(&self.data)?;
        let mut results = Vec::with_capacity(self.dst.len());
        for row in steps::rows(&values, self.data.free_size()) {
            let triples = row.as_chunks::<3>().0;
            let count = triples.iter().fold(0.0f32, |sum, [count, _, _]| sum + count);
            let mean = triples.iter().fold(0.0f32, |sum, [count, mean, _]| sum + count * mean) / count;
            let squares = triples
                .iter()
                .fold(0.0f32, |sum, [count, part, squares]| sum + (squares + count * ((part - mean) * (part - mean))));
            results.extend([mean, squares / count]);
        }
        state.write(&self.dst, &results)?;
        state.keep(values);
        Ok(())
    }
}
