//! iota and affine_select: values that are an affine function of an element's place.

use smallvec::SmallVec;
use trn3_numerics::CastOptions;

use crate::error::Result;
use crate::machine::arch::ArchSpec;
use crate::machine::check::Check;
use crate::machine::core::State;
use crate::machine::cost;
use crate::machine::engine::Engine;
use crate::machine::isa::alu::AluOp;
use crate::machine::isa::gpsimd::{check_tile, write_integers};
use crate::machine::isa::register::RegisterValue;
use crate::machine::isa::{Instruction, Role};
use crate::machine::timing::work::Work;
use crate::machine::view::View;

/// Most axes of a pattern: what an access pattern of the hardware has.
const AXES: usize = 4;

/// offset + p * channel_multiplier + the sum of index * step over the axes of a pattern, p counting the tile's
/// partitions from 0; in 32-bit integers that wrap **(choice)**.
#[derive(Clone, Debug)]
pub struct Affine {
    /// `(step, num)` of each axis, outermost first; shorter patterns are of fewer axes.
    pub pattern: SmallVec<[(i64, i64); AXES]>,
    /// What everything starts from.
    pub offset: RegisterValue,
    /// What each partition adds.
    pub channel_multiplier: i64,
}

/// Whether a number is a signed one of 32 bits.
fn is_word(number: i64) -> bool {
    i32::try_from(number).is_ok()
}

impl Affine {
    fn check(&self, check: &Check<'_>, tile: &View) -> Result<()> {
        if self.pattern.is_empty() || self.pattern.len() > AXES {
            let got = format!("has {} axes", self.pattern.len());
            return Err(check.refuse("pattern", got, format!("1 to {AXES} pairs [step, num]")));
        }
        if let Some((step, num)) = self.pattern.iter().find(|(step, num)| *num < 1 || !is_word(*step)) {
            let got = format!("holds [{step}, {num}]");
            return Err(check.refuse("pattern", got, "pairs [step, num], step of 32 bits and num at least 1"));
        }
        let count = self.pattern.iter().try_fold(1i64, |count, (_, num)| count.checked_mul(*num));
        if count != Some(tile.free_size() as i64) {
            let nums: Vec<i64> = self.pattern.iter().map(|(_, num)| *num).collect();
            let got = format!("has nums {nums:?}");
            let allowed = format!("nums whose product is {}, dst's elements per partition", tile.free_size());
            return Err(check.refuse("pattern", got, allowed));
        }
        if !is_word(self.channel_multiplier) {
            let got = format!("is {}", self.channel_multiplier);
            return Err(check.refuse("channel_multiplier", got, "a signed number of 32 bits"));
        }
        match &self.offset {
            RegisterValue::Number(offset) if !is_word(*offset) => {
                Err(check.refuse("offset", format!("is {offset}"), "a signed number of 32 bits, or a register"))
            }
            _ => Ok(()),
        }
    }

    fn registers(&self, visit: &mut dyn FnMut(Role, u64)) {
        if let Some(register) = self.offset.register() {
            visit(Role::Read, register.id);
        }
    }

    /// What the first partition adds to its own multiple of `channel_multiplier`, and the offset.
    fn row(&self) -> Result<(i32, Vec<i32>)> {
        let mut row = vec![0i32];
        for &(step, num) in &self.pattern {
            let steps = (0..num as i32).map(|index| index.wrapping_mul(step as i32));
            let steps: Vec<i32> = steps.collect();
            row = row.iter().flat_map(|outer| steps.iter().map(|inner| outer.wrapping_add(*inner))).collect();
        }
        Ok((self.offset.get()? as i32, row))
    }

    /// The values of a tile, partition after partition.
    fn values(&self, partitions: usize) -> Result<impl Iterator<Item = i32>> {
        let (offset, row) = self.row()?;
        let multiplier = self.channel_multiplier as i32;
        Ok((0..partitions as i32).flat_map(move |partition| {
            let start = offset.wrapping_add(partition.wrapping_mul(multiplier));
            // A partition's values are collected so that the row is borrowed no longer than its turn lasts.
            row.iter().map(|value| start.wrapping_add(*value)).collect::<Vec<i32>>()
        }))
    }
}

fn work(arch: &ArchSpec, dst: &View) -> Work {
    cost::gpsimd(arch, cost::stream_cycles(dst.free_size(), arch.gpsimd_rate))
}

/// `iota(dst, pattern, offset, channel_multiplier)`: the values of an affine function, cast to dst's type. Integer types
/// hold them exactly where they can, and else the nearest they have **(choice)**.
#[derive(Debug)]
pub struct Iota {
    /// Result.
    pub dst: View,
    /// The function.
    pub affine: Affine,
}

impl Instruction for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(Role, &'a View)) {
        visit(Role::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_tile(&check, "dst", &self.dst)?;
        self.affine.check(&check, &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, &self.dst)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        write_integers(state, &self.dst, self.affine.values(self.dst.partitions())?.map(i64::from))
    }

    fn registers(&self, visit: &mut dyn FnMut(Role, u64)) {
        self.affine.registers(visit);
    }
}

/// `affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset)`: on_true where
/// `affine cmp_op 0` holds, else a constant. Elements keep their bits where dst and on_true have one type.
#[derive(Debug)]
pub struct AffineSelect {
    /// Result.
    pub dst: View,
    /// The function.
    pub affine: Affine,
    /// What is kept.
    pub on_true: View,
    /// What stands elsewhere; rounded to float32, then to dst's type.
    pub on_false_value: f64,
    /// A comparison.
    pub cmp_op: AluOp,
}

/// What affine_select compares by.
const COMPARISONS: [AluOp; 6] =
    [AluOp::Equal, AluOp::NotEqual, AluOp::GreaterEqual, AluOp::Greater, AluOp::LessEqual, AluOp::Less];

impl Instruction for AffineSelect {
    fn name(&self) -> &'static str {
        "affine_select"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(Role, &'a View)) {
        visit(Role::Read, &self.on_true);
        visit(Role::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_tile(&check, "dst", &self.dst)?;
        check_tile(&check, "on_true_tile", &self.on_true)?;
        check.same_tile("on_true_tile", &self.on_true, "dst", &self.dst)?;
        if !COMPARISONS.contains(&self.cmp_op) {
            let allowed = COMPARISONS.map(AluOp::name).join(", ");
            return Err(check.refuse("cmp_op", format!("is {}", self.cmp_op), format!("allowed: {allowed}")));
        }
        self.affine.check(&check, &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, &self.dst)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let holds = |value: i32| self.cmp_op.apply_integer(value.into(), 0) != 0;
        let fill = self.on_false_value as f32;
        if self.dst.dtype != self.on_true.dtype {
            let mut values = state.read(&self.on_true)?;
            for (value, place) in values.iter_mut().zip(self.affine.values(self.dst.partitions())?) {
                *value = if holds(place) { *value } else { fill };
            }
            state.write(&self.dst, &values)?;
            state.keep(values);
            return Ok(());
        }
        let bits = state.read_bits(&self.on_true)?;
        let mut mask: Vec<bool> = self.affine.values(self.dst.partitions())?.map(holds).collect();
        state.memory.write_bits_where(&self.dst, &bits, &mask)?;
        mask.iter_mut().for_each(|holds| *holds = !*holds);
        state.memory.write_f32_where(&self.dst, &vec![fill; bits.len()], &mask, CastOptions::default())
    }

    fn registers(&self, visit: &mut dyn FnMut(Role, u64)) {
        self.affine.registers(visit);
    }
}
