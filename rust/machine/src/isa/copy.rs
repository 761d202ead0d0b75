//! tensor_copy and memset: data moved or set, no arithmetic.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP, SBUF};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole, wide};
use crate::state::State;
use crate::storage::Buffer;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_copy(dst, src, engine)`: bit-exact between equal types, through float32 otherwise.
#[derive(Debug)]
pub struct TensorCopy {
    /// Where to.
    pub dst: View,
    /// Where from; as many elements per partition.
    pub src: View,
    /// VectorE, ScalarE (gen3+) or GpSimdE (SBUF alone); None: VectorE **(choice)**.
    pub engine: Option<Engine>,
}

impl Instruction for TensorCopy {
    fn name(&self) -> &'static str {
        "tensor_copy"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine.unwrap_or(Engine::Vector)
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let engine = self.engine(arch);
        let memories = match engine {
            Engine::GpSimd => SBUF,
            Engine::Vector => ON_CHIP,
            Engine::Scalar => {
                check.generation("engine scalar", 3)?;
                ON_CHIP
            }
            other => return Err(check.refuse("engine", format!("is {other}"), "vector, scalar or gpsimd")),
        };
        check.tile("dst", &self.dst, memories)?;
        check.tile("src", &self.src, memories)?;
        check.same_tile("src", &self.src, "dst", &self.dst)?;
        if engine == Engine::GpSimd {
            check.no_columns("dst", &self.dst)?;
            check.no_columns("src", &self.src)?;
        }
        check.gathered("src", &self.src)?;
        check.scattered("dst", &self.dst, &self.src)?;
        if engine == Engine::Scalar {
            check.no_psum_scatter("dst", &self.dst)?;
        }
        if self.dst.dtype != self.src.dtype {
            check.unpacked("dst", &self.dst)?;
            check.unpacked("src", &self.src)?;
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size();
        match self.engine(arch) {
            Engine::Scalar => {
                let narrow = self.dst.dtype.size() <= 2 && self.src.dtype.size() <= 2 && self.dst.dtype.is_float();
                let rate = if narrow { arch.scalar_copy_rate_16bit } else { arch.scalar_rate };
                cost::scalar(arch, elements, rate, 0, None)
            }
            Engine::GpSimd => cost::gpsimd(arch, elements as u64),
            _ => cost::vector(arch, elements, cost::copy_rate(arch, &self.dst, &self.src), 0),
        }
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if self.dst.dtype == self.src.dtype {
            return state.memory.copy_bits(&self.dst, &self.src, state.site);
        }
        state.convert(&self.dst, &self.src)
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.dst.dtype == self.src.dtype {
            return self.execute(state);
        }
        let values = wide::read(state, &self.src)?;
        state.memory.write_f64(&self.dst, &values)
    }
}

/// `memset(dst, value, engine)`.
#[derive(Debug)]
pub struct Memset {
    /// What is set.
    pub dst: View,
    /// The value, exact in the type of `dst`; packed types take zero alone.
    pub value: f64,
    /// VectorE or GpSimdE (SBUF alone); None: VectorE **(choice)**.
    pub engine: Option<Engine>,
}

impl Instruction for Memset {
    fn name(&self) -> &'static str {
        "memset"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine.unwrap_or(Engine::Vector)
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let memories = match self.engine(arch) {
            Engine::GpSimd => SBUF,
            Engine::Vector => ON_CHIP,
            other => return Err(check.refuse("engine", format!("is {other}"), "vector or gpsimd")),
        };
        check.tile("dst", &self.dst, memories)?;
        check.no_columns("dst", &self.dst)?;
        if self.dst.dtype.is_packed() && self.value != 0.0 {
            return Err(check.refuse("value", format!("is {}", self.value), format!("0 for {}", self.dst.dtype)));
        }
        if self.dst.dtype.is_integer() && self.value.fract() != 0.0 {
            return Err(check.refuse(
                "value",
                format!("is {}", self.value),
                format!("a whole number for {}", self.dst.dtype),
            ));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size();
        if self.engine(arch) == Engine::GpSimd {
            return cost::gpsimd(arch, elements as u64);
        }
        let narrow = self.dst.dtype.is_float() && self.dst.dtype.size() == 2;
        let sbuf = self.dst.storage.buffer == Buffer::Sbuf;
        let rate = if narrow && self.value == 0.0 && sbuf {
            arch.vector_zero_rate_16bit
        } else {
            cost::copy_rate(arch, &self.dst, &self.dst)
        };
        cost::vector(arch, elements, rate, 0)
    }

    fn has_infinite_constant(&self) -> bool {
        self.value.is_infinite()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let count = self.dst.len();
        if self.dst.dtype.is_integer() || self.dst.dtype.is_packed() {
            // Through i64 so that every 32-bit value is exact; its low bits are the pattern.
            let bits = vec![self.value as i64 as u32; count];
            return state.memory.write_bits(&self.dst, &bits);
        }
        let values = vec![self.value as f32; count];
        state.write(&self.dst, &values)
    }
}
