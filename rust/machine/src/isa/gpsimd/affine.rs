//! iota and affine_select: functions of where an element stands.

use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::alu::AluOp;
use crate::isa::gpsimd::nearest;
use crate::isa::register::RegisterValue;
use crate::isa::{Instruction, OperandRole, ScalarOperand};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::{Register, View};

/// Most axes of a pattern.
const AXES: usize = 4;

/// `offset + p * channel_multiplier + sum of index * step`, in wrapping 32-bit arithmetic.
#[derive(Clone, Debug)]
pub struct Affine {
    /// Step and count of each free axis, outermost first.
    pub pattern: Vec<(i64, i64)>,
    /// The value of the first element.
    pub offset: RegisterValue,
    /// What one partition adds.
    pub channel_multiplier: i64,
}

impl Affine {
    fn check(&self, check: &Check<'_>, dst: &View) -> Result<()> {
        if self.pattern.is_empty() || self.pattern.len() > AXES {
            let got = format!("has {} pairs", self.pattern.len());
            return Err(check.refuse("pattern", got, format!("1 to {AXES} pairs [step, num]")));
        }
        let counts = self.pattern.iter().try_fold(1i64, |product, (_, count)| product.checked_mul(*count));
        if counts != Some(dst.free_size() as i64) || self.pattern.iter().any(|(_, count)| *count < 1) {
            let got = format!("is {:?}", self.pattern);
            return Err(check.refuse("pattern", got, format!("counts whose product is {}", dst.free_size())));
        }
        let words = [("channel_multiplier", self.channel_multiplier)]
            .into_iter()
            .chain(self.pattern.iter().map(|(step, _)| ("pattern", *step)))
            .chain(if let RegisterValue::Number(number) = self.offset { Some(("offset", number)) } else { None });
        for (name, value) in words {
            if i32::try_from(value).is_err() {
                return Err(check.refuse(name, format!("holds {value}"), "a signed number of 32 bits"));
            }
        }
        Ok(())
    }

    /// Calls `visit` with every value of `partitions` rows, in C order.
    fn each(&self, partitions: usize, mut visit: impl FnMut(i32)) -> Result<()> {
        self.each_row(partitions, |row, start| row.iter().for_each(|value| visit(start.wrapping_add(*value))))
    }

    /// Calls `visit` for each of `partitions` rows with what its elements add, the same for all, and with its start.
    fn each_row(&self, partitions: usize, mut visit: impl FnMut(&[i32], i32)) -> Result<()> {
        let offset = self.offset.get()? as i32;
        let mut row = vec![0i32];
        for (step, count) in &self.pattern {
            let steps = |value: i32| (0..*count).map(move |index| value.wrapping_add((index * step) as i32));
            row = row.into_iter().flat_map(steps).collect();
        }
        for partition in 0..partitions {
            let start = offset.wrapping_add((partition as i64 * self.channel_multiplier) as i32);
            visit(&row, start);
        }
        Ok(())
    }

    fn register(&self) -> Option<&Arc<Register>> {
        self.offset.register()
    }
}

/// `iota(dst, pattern, offset, channel_multiplier)`: 32-bit integers, clamped to the range of an integer `dst`, rounded to a
/// float one **(choice)**.
#[derive(Debug)]
pub struct Iota {
    /// What is filled, in SBUF.
    pub dst: View,
    /// The values.
    pub affine: Affine,
}

impl Instruction for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.tile("dst", &self.dst, SBUF)?;
        check.unpacked("dst", &self.dst)?;
        check.no_columns("dst", &self.dst)?;
        self.affine.check(&check, &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.dst.free_size() as u64)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let dtype = self.dst.dtype;
        if dtype.is_integer() {
            let mut bits = Vec::with_capacity(self.dst.len());
            self.affine.each(self.dst.partitions(), |value| bits.push(nearest(dtype, value.into())))?;
            return state.memory.write_bits(&self.dst, &bits);
        }
        let mut values = state.buffer(self.dst.len());
        values.clear();
        self.affine.each(self.dst.partitions(), |value| values.push(value as f32))?;
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn registers(&self, visit: &mut dyn FnMut(OperandRole, &Register)) {
        if let Some(register) = self.affine.register() {
            visit(OperandRole::Read, register);
        }
    }
}

/// `affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset)`: elements of the tile where
/// the affine value compares so with 0, else one value. Between equal types the tile's bits are copied, else they go
/// through float32.
#[derive(Debug)]
pub struct AffineSelect {
    /// Where to, in SBUF.
    pub dst: View,
    /// The values that are compared with 0.
    pub affine: Affine,
    /// Elements where the comparison holds, in SBUF.
    pub on_true_tile: View,
    /// The value elsewhere.
    pub on_false_value: ScalarOperand,
    /// A comparison.
    pub cmp_op: AluOp,
}

impl AffineSelect {
    /// Where the comparison holds, in C order.
    fn selected(&self) -> Result<Vec<bool>> {
        let mut selected = Vec::with_capacity(self.dst.len());
        // A comparison with 0 looks at the sign alone; told so, a row is compared side by side.
        let [below, level, above] = [-1, 0, 1].map(|sign| self.cmp_op.apply_integer(sign, 0) != 0);
        self.affine.each_row(self.dst.partitions(), |row, start| {
            selected.extend(row.iter().map(|value| {
                let value = start.wrapping_add(*value);
                (value < 0 && below) | (value == 0 && level) | (value > 0 && above)
            }));
        })?;
        Ok(selected)
    }
}

impl Instruction for AffineSelect {
    fn name(&self) -> &'static str {
        "affine_select"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.on_true_tile);
        if let Some(view) = self.on_false_value.view() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.tile("dst", &self.dst, SBUF)?;
        check.tile("on_true_tile", &self.on_true_tile, SBUF)?;
        check.same_tile("on_true_tile", &self.on_true_tile, "dst", &self.dst)?;
        for (name, view) in [("dst", &self.dst), ("on_true_tile", &self.on_true_tile)] {
            check.unpacked(name, view)?;
            check.no_columns(name, view)?;
        }
        if let Some(view) = self.on_false_value.view() {
            check.tile("on_false_value", view, SBUF)?;
            check.vector("on_false_value", view, &self.dst)?;
        } else if matches!(self.on_false_value, ScalarOperand::None) {
            return Err(check.refuse("on_false_value", "is None", "a number"));
        }
        let comparisons =
            [AluOp::Equal, AluOp::NotEqual, AluOp::Greater, AluOp::GreaterEqual, AluOp::Less, AluOp::LessEqual];
        if !comparisons.contains(&self.cmp_op) {
            let names: Vec<&str> = comparisons.iter().map(|op| op.name()).collect();
            return Err(check.refuse("cmp_op", format!("is {}", self.cmp_op), names.join(", ")));
        }
        self.affine.check(&check, &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.dst.free_size() as u64)
    }

    fn has_infinite_constant(&self) -> bool {
        self.on_false_value.is_infinite()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (partitions, free) = (self.dst.partitions(), self.dst.free_size());
        let selected = self.selected()?;
        let otherwise = self.on_false_value.values(state, partitions, 0.0)?;
        if self.dst.dtype == self.on_true_tile.dtype {
            let (dst, tile) = (&self.dst, &self.on_true_tile);
            return state.memory.select_bits(dst, tile, &selected, &otherwise, state.site);
        }
        let mut values = state.read(&self.on_true_tile)?;
        for (element, value) in values.iter_mut().enumerate() {
            if !selected[element] {
                *value = otherwise[element / free];
            }
        }
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn registers(&self, visit: &mut dyn FnMut(OperandRole, &Register)) {
        if let Some(register) = self.affine.register() {
            visit(OperandRole::Read, register);
        }
    }
}
