//! Instructions taken apart and put together again by the table: what one computes, wherever its operands lie, and the same
//! one over other operands or on another engine.

use std::any::Any;
use std::fmt::{Debug, Write};
use std::hash::Hasher;
use std::sync::Arc;

use smallvec::SmallVec;
use trn3_numerics::{Activation, Pattern};

use super::held;
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction};
use crate::isa::alu::AluOp;
use crate::isa::dma::Options;
use crate::isa::gpsimd::affine::Affine;
use crate::isa::register::RegisterValue;
use crate::isa::select::CopySource;
use crate::isa::tensor::Tile;
use crate::isa::{Instruction, ScalarOperand};
use crate::memory::OutOfBounds;
use crate::timing::work::DescriptorMode;
use crate::view::{Register, View};

/// An instruction of one's own.
pub type OwnInstruction = Box<dyn Instruction + Send + Sync>;

/// Other views in the place of an instruction's; None leaves one as it is.
pub type Substitute<'a> = &'a mut dyn FnMut(&View) -> Option<View>;

/// An argument of an instruction.
trait Part: Sized {
    /// Adds what it says, apart from which tensors it is of.
    fn note(&self, hasher: &mut dyn Hasher);

    /// The same over other views.
    fn over(&self, views: Substitute<'_>) -> Self;

    /// The same where another engine is named.
    fn on(&self, _engine: Engine, views: Substitute<'_>) -> Self {
        self.over(views)
    }

    /// Whether it is an engine, and somebody named it; None if it is none.
    fn is_named_engine(&self) -> Option<bool> {
        None
    }

    /// Whether it goes on from the running values of an engine; None if it leaves them alone.
    fn continues(&self) -> Option<bool> {
        None
    }
}

/// Hands a text on to a hasher.
struct Hashed<'a>(&'a mut dyn Hasher);

impl Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn note_text(value: &dyn Debug, hasher: &mut dyn Hasher) {
    // A hasher takes every text.
    let _ = write!(Hashed(hasher), "{value:?}");
    hasher.write_u8(0);
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Part for $type {
            fn note(&self, hasher: &mut dyn Hasher) {
                note_text(self, hasher);
            }

            fn over(&self, _views: Substitute<'_>) -> Self {
                self.clone()
            }
        }
    )*};
}
plain!(
    AluOp,
    Activation,
    Pattern,
    Engine,
    SmallVec<[i64; 4]>,
    RegisterValue,
    Arc<Register>,
    OutOfBounds,
    DescriptorMode,
    Options,
    Affine,
    Tile
);

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Part for $type {
            fn note(&self, hasher: &mut dyn Hasher) {
                hasher.write_i64(*self as i64);
            }

            fn over(&self, _views: Substitute<'_>) -> Self {
                *self
            }
        }
    )*};
}
numbers!(bool, i64, usize, u8);

impl Part for f64 {
    fn note(&self, hasher: &mut dyn Hasher) {
        hasher.write_u64(self.to_bits());
    }

    fn over(&self, _views: Substitute<'_>) -> Self {
        *self
    }
}

impl Part for Option<Engine> {
    fn note(&self, hasher: &mut dyn Hasher) {
        hasher.write_u8(self.map_or(u8::MAX, |engine| engine as u8));
    }

    fn over(&self, _views: Substitute<'_>) -> Self {
        *self
    }

    fn on(&self, engine: Engine, _views: Substitute<'_>) -> Self {
        Some(engine)
    }

    fn is_named_engine(&self) -> Option<bool> {
        Some(self.is_some())
    }
}

/// Types of optional arguments but engines, which are moved.
trait Given: Part {}
macro_rules! given {
    ($($type:ty),*) => {$(impl Given for $type {})*};
}
given!(AluOp, bool, i64, usize, u8, f64, View, Tile, Arc<Register>, Vec<f64>, Vec<usize>);

impl<T: Given> Part for Option<T> {
    fn note(&self, hasher: &mut dyn Hasher) {
        hasher.write_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.note(hasher);
        }
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        self.as_ref().map(|value| value.over(views))
    }
}

impl<T: Part> Part for Vec<T> {
    fn note(&self, hasher: &mut dyn Hasher) {
        hasher.write_usize(self.len());
        self.iter().for_each(|item| item.note(hasher));
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        self.iter().map(|item| item.over(&mut *views)).collect()
    }
}

impl<A: Part, B: Part> Part for (A, B) {
    fn note(&self, hasher: &mut dyn Hasher) {
        self.0.note(hasher);
        self.1.note(hasher);
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        (self.0.over(&mut *views), self.1.over(views))
    }
}

impl Part for View {
    fn note(&self, hasher: &mut dyn Hasher) {
        hasher.write_u8(self.dtype as u8);
        self.shape.iter().for_each(|length| hasher.write_usize(*length));
        self.strides.iter().for_each(|stride| hasher.write_i64(*stride));
        hasher.write_u8(u8::from(self.dynamic.is_some()));
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        views(self).unwrap_or_else(|| self.clone())
    }
}

impl Part for ScalarOperand {
    fn note(&self, hasher: &mut dyn Hasher) {
        match self {
            ScalarOperand::None => hasher.write_u8(0),
            ScalarOperand::Constant(value) => hasher.write_u64(value.to_bits()),
            ScalarOperand::Vector(view) => view.note(hasher),
        }
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        match self {
            ScalarOperand::Vector(view) => ScalarOperand::Vector(view.over(views)),
            other => other.clone(),
        }
    }
}

impl Part for CopySource {
    fn note(&self, hasher: &mut dyn Hasher) {
        match self {
            CopySource::Constant(value) => hasher.write_u64(value.to_bits()),
            CopySource::Tile(view) => view.note(hasher),
        }
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        match self {
            CopySource::Tile(view) => CopySource::Tile(view.over(views)),
            CopySource::Constant(value) => CopySource::Constant(*value),
        }
    }
}

impl Part for ReduceCommand {
    fn note(&self, hasher: &mut dyn Hasher) {
        note_text(self, hasher);
    }

    fn over(&self, _views: Substitute<'_>) -> Self {
        *self
    }

    fn continues(&self) -> Option<bool> {
        (*self != ReduceCommand::Idle).then_some(*self == ReduceCommand::Reduce)
    }
}

impl Part for Reduction {
    fn note(&self, hasher: &mut dyn Hasher) {
        note_text(&(self.op, self.command, self.negate), hasher);
        self.initial.note(hasher);
        self.result.note(hasher);
    }

    fn over(&self, views: Substitute<'_>) -> Self {
        Self { initial: self.initial.over(&mut *views), result: self.result.over(views), ..self.clone() }
    }

    fn continues(&self) -> Option<bool> {
        let reads = self.command == ReduceCommand::Idle && self.result.is_some();
        self.command.continues().or(reads.then_some(true))
    }
}

macro_rules! take_apart {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $kind:ident $(= $default:tt)?),* $(,)?)
        $family:ident on $($engine:ident)|+ => $type:ident
        { $($field:ident $(= $maker:ident($($from:ident),* $(,)?))? $(:= $constant:expr)?),* $(,)? })*) => {
        fn note_listed(instruction: &dyn Any, hasher: &mut dyn Hasher) -> bool {
            $($(#[$attribute])*
            if let Some(instruction) = instruction.downcast_ref::<held::$type>() {
                $(take_apart!(@note hasher, instruction.$field $(:= $constant)?);)*
                return true;
            })*
            false
        }

        fn rebuilt(instruction: &dyn Any, engine: Option<Engine>, views: Substitute<'_>) -> Option<OwnInstruction> {
            $($(#[$attribute])*
            if let Some(instruction) = instruction.downcast_ref::<held::$type>() {
                let made = held::$type {
                    $($field: take_apart!(@make engine, views, instruction.$field $(:= $constant)?)),*
                };
                return Some(Box::new(made));
            })*
            None
        }

        fn names_engine(instruction: &dyn Any) -> Option<bool> {
            $($(#[$attribute])*
            if let Some(instruction) = instruction.downcast_ref::<held::$type>() {
                let parts: &[Option<bool>] = &[$(take_apart!(@named instruction.$field $(:= $constant)?)),*];
                return parts.iter().flatten().next().copied();
            })*
            None
        }

        fn continued(instruction: &dyn Any) -> Option<bool> {
            $($(#[$attribute])*
            if let Some(instruction) = instruction.downcast_ref::<held::$type>() {
                let parts: &[Option<bool>] = &[$(take_apart!(@continued instruction.$field $(:= $constant)?)),*];
                return parts.iter().flatten().next().copied();
            })*
            None
        }
    };
    (@note $hasher:ident, $instruction:ident.$field:ident) => { $instruction.$field.note($hasher) };
    (@note $hasher:ident, $instruction:ident.$field:ident := $constant:expr) => {};
    (@make $engine:ident, $views:ident, $instruction:ident.$field:ident) => {
        match $engine {
            Some(engine) => $instruction.$field.on(engine, &mut *$views),
            None => $instruction.$field.over(&mut *$views),
        }
    };
    (@make $engine:ident, $views:ident, $instruction:ident.$field:ident := $constant:expr) => {
        $instruction.$field.clone()
    };
    (@named $instruction:ident.$field:ident) => { $instruction.$field.is_named_engine() };
    (@named $instruction:ident.$field:ident := $constant:expr) => { None };
    (@continued $instruction:ident.$field:ident) => { $instruction.$field.continues() };
    (@continued $instruction:ident.$field:ident := $constant:expr) => { None };
}

crate::instructions!(take_apart);

/// What an instruction computes, as a number: two of one number do the same to their operands, wherever these lie in their
/// tensors. None for what may give something else the next time (random numbers, registers, functions of the host), and for
/// what the table does not list.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::copy::Memset;
/// use trn3_machine::isa::table::fingerprint;
/// use trn3_machine::memory::Request;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
///
/// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
/// let mut set = |value| {
///     let request = Request::unsited("tile", &[128, 4], DType::Float32, Buffer::Sbuf);
///     Ok::<_, trn3_machine::Error>(Memset { dst: View::whole(core.allocate(&request)?), value, engine: None })
/// };
/// assert_eq!(fingerprint(&set(1.0)?), fingerprint(&set(1.0)?));
/// assert_ne!(fingerprint(&set(1.0)?), fingerprint(&set(2.0)?));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub fn fingerprint(instruction: &dyn Instruction) -> Option<u64> {
    if instruction.is_control() || instruction.is_opaque() || instruction.draws() {
        return None;
    }
    let mut has_registers = false;
    instruction.registers(&mut |_, _| has_registers = true);
    instruction.operands(&mut |_, view| has_registers |= view.index_register().is_some());
    if has_registers {
        return None;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(instruction.name().as_bytes());
    note_listed(instruction, &mut hasher).then(|| hasher.finish())
}

/// The same instruction over other operands; None for one that the table does not list.
///
/// # Errors
/// Those of [`Instruction::prepare`].
pub fn rebound(
    instruction: &dyn Instruction,
    arch: &ArchSpec,
    views: Substitute<'_>,
) -> Result<Option<OwnInstruction>> {
    let made = rebuilt(instruction, None, views);
    made.map(|mut made| made.prepare(arch).map(|()| made)).transpose()
}

/// The same instruction with another engine named, or one named at all; None where it takes none, and where that engine may
/// not run it or gives other bits.
pub fn on_engine(instruction: &dyn Instruction, arch: &ArchSpec, engine: Engine) -> Option<OwnInstruction> {
    if names_engine(instruction).is_none() || !instruction.is_same_on_engines() {
        return None;
    }
    let mut made = rebuilt(instruction, Some(engine), &mut |_| None)?;
    (made.prepare(arch).is_ok() && made.check(arch).is_ok() && made.engine(arch) == engine).then_some(made)
}

/// Whether the engine of an instruction is open: it takes one, and nobody gave it.
pub fn is_open(instruction: &dyn Instruction) -> bool {
    names_engine(instruction) == Some(false)
}

/// Whether an instruction goes on from the running values that its engine keeps beside elementwise work; None if it leaves
/// them alone.
pub fn running_values(instruction: &dyn Instruction) -> Option<bool> {
    continued(instruction)
}
