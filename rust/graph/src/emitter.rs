//! A core that a graph's templates issue their instructions on.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::accumulate::{ReduceCommand, Reduction};
use trn3_machine::isa::activation::Activation;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::collective::Collective;
use trn3_machine::isa::copy::{Memset, TensorCopy};
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::elementwise::TensorTensor;
use trn3_machine::isa::tensor_scalar::TensorScalar;
use trn3_machine::isa::{Instruction, ScalarOperand};
use trn3_machine::meeting::{self, Part};
use trn3_machine::memory::Request;
use trn3_machine::site::{Site, SiteId};
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_numerics::ActivationFunction;

use crate::error::Result;
use crate::location::Location;
use crate::strided::merged;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Issues instructions of one line after another; where tensors lie on chip is left to the compiler.
pub struct Emitter {
    core: NeuronCore,
    site: SiteId,
    label: String,
}

/// How an element type lies in the machine's memories: truth values are bytes.
pub(crate) fn stored(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::UInt8 } else { dtype }
}

/// Lengths of a tensor in memory, which has an axis at least.
pub(crate) fn stored_shape(shape: &[usize]) -> Vec<usize> {
    if shape.is_empty() { vec![1] } else { shape.to_vec() }
}

/// Lengths that memory is taken for: a tensor without elements has an element's place, since none takes no place.
fn held_shape(kind: &TensorType) -> Vec<usize> {
    if kind.elements() == 0 { vec![1] } else { stored_shape(&kind.shape) }
}

/// The memory as the tensor that it was taken for.
fn shown(held: View, kind: &TensorType) -> View {
    if kind.elements() > 0 {
        return held;
    }
    let strides = kind.shape.iter().map(|_| 1).collect();
    View { shape: kind.shape.iter().copied().collect(), strides, ..held }
}

/// Axes of a view as one, where a stride says so: length and stride.
pub(crate) fn merged_axes(view: &View, axes: impl DoubleEndedIterator<Item = usize>) -> Option<(usize, i64)> {
    let (length, stride) = merged(axes.map(|axis| (view.shape[axis], view.strides[axis] as isize)))?;
    Some((length, stride as i64))
}

impl Emitter {
    /// A core of this machine; without `values`, only what addresses depend on is computed.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn new(arch: Arc<ArchSpec>, values: bool) -> Result<Self> {
        let options = CoreOptions { values, unlimited: true, nan_origin: false, ..Default::default() };
        Ok(Self { core: NeuronCore::new(arch, options)?, site: SiteId::default(), label: String::new() })
    }

    /// A core that keeps neither values nor time: its instructions can be counted.
    ///
    /// # Errors
    /// Those of the machine.
    pub(crate) fn untimed(arch: Arc<ArchSpec>) -> Result<Self> {
        let options =
            CoreOptions { values: false, timing: false, unlimited: true, nan_origin: false, ..Default::default() };
        Ok(Self { core: NeuronCore::new(arch, options)?, site: SiteId::default(), label: String::new() })
    }

    /// The machine.
    pub fn arch(&self) -> &ArchSpec {
        self.core.arch()
    }

    /// Whether values are computed.
    pub fn has_values(&self) -> bool {
        self.core.options.values
    }

    /// Instructions so far.
    pub fn issued(&self) -> u64 {
        self.core.issued()
    }

    /// The core, with all that it ran.
    pub fn into_core(self) -> NeuronCore {
        self.core
    }

    /// What follows is of this line, under this name.
    pub fn at(&mut self, location: Option<&Location>, label: &str) {
        self.site = location.map_or_else(SiteId::default, |location| {
            let Location { file, line, function } = location.clone();
            self.core.sites.intern(Site { file, line, function })
        });
        label.clone_into(&mut self.label);
    }

    /// A tensor in HBM that nothing is written to yet.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn hbm(&mut self, name: &str, kind: &TensorType) -> Result<View> {
        let shape = held_shape(kind);
        let buffer = Buffer::PrivateHbm;
        let request =
            Request { name, shape: &shape, dtype: stored(kind.dtype), buffer, address: None, site: self.site };
        Ok(shown(View::whole(self.core.allocate(&request)?), kind))
    }

    /// A tensor in HBM that holds a value before the run; where there is none its type alone counts.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn given(&mut self, name: &str, kind: &TensorType, value: Option<&Tensor>) -> Result<View> {
        if kind.elements() == 0 {
            return self.hbm(name, kind);
        }
        let (shape, dtype) = (stored_shape(&kind.shape), stored(kind.dtype));
        let bytes = value.map(|value| value.bytes().to_vec());
        let memory = &mut self.core.state.memory;
        Ok(View::whole(memory.hbm_from_bytes(name, &shape, dtype, Buffer::PrivateHbm, bytes, self.site)?))
    }

    /// A tile in SBUF.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn sbuf(&mut self, shape: &[usize], dtype: DType) -> Result<View> {
        self.on_chip(shape, dtype, Buffer::Sbuf)
    }

    /// A tile in PSUM.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn psum(&mut self, shape: &[usize], dtype: DType) -> Result<View> {
        self.on_chip(shape, dtype, Buffer::Psum)
    }

    fn on_chip(&mut self, shape: &[usize], dtype: DType, buffer: Buffer) -> Result<View> {
        let request =
            Request { name: &self.label, shape, dtype: stored(dtype), buffer, address: None, site: self.site };
        Ok(View::whole(self.core.allocate(&request)?))
    }

    /// The view laid out anew in HBM, its elements one after another.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn relaid(&mut self, view: &View) -> Result<View> {
        let dense = self.hbm("relaid", &TensorType { dtype: view.dtype, shape: view.shape.to_vec() })?;
        self.copy(&dense, view)?;
        Ok(dense)
    }

    /// Issues an instruction.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn issue(&mut self, mut instruction: impl Instruction) -> Result<()> {
        instruction.prepare(self.core.arch())?;
        self.core.issue(&instruction, At { site: self.site, label: Some(&self.label), after: &[] })?;
        Ok(())
    }

    /// Issues this core's part of a collective with a group of ranks, and lays what it takes away into its place; None where
    /// values are skipped.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn meet(&mut self, instruction: &Collective, group: &[u64], taken: Option<&Tensor>) -> Result<()> {
        instruction.check(self.core.arch())?;
        self.core.note_ranks(group);
        // What it writes ends when the collective does, which is the core's next instruction.
        let number = u32::try_from(self.core.issued()).unwrap_or(u32::MAX);
        self.core.state.memory.set_site(self.site);
        self.core.state.memory.set_instruction(number);
        for (src, dst) in instruction.srcs.iter().zip(&instruction.dsts) {
            match taken {
                Some(taken) => self.core.write_bytes(dst, taken.bytes())?,
                None => {
                    self.core.state.memory.skip_read(src)?;
                    self.core.state.memory.forget(dst)?;
                }
            }
        }
        let at = At { site: self.site, label: Some(&self.label), after: &[] };
        meeting::collective(&mut [Part { core: &mut self.core, instruction, at }], &[])?;
        Ok(())
    }

    /// A transfer.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn copy(&mut self, dst: &View, src: &View) -> Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        self.issue(DmaCopy { dst: dst.clone(), src: src.clone(), options: Options::default(), engine: None })
    }

    /// A tile of its own of what lies in HBM: axis 0 are the partitions.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn load(&mut self, source: &View) -> Result<View> {
        let tile = self.sbuf(&[source.partitions(), source.free_size()], source.dtype)?;
        self.copy(&tile, source)?;
        Ok(tile)
    }

    /// A tile of the same shape, of an element type.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn like(&mut self, tile: &View, dtype: DType) -> Result<View> {
        self.sbuf(&tile.shape, dtype)
    }

    /// dst = function(data), on ScalarE.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn activation(&mut self, dst: &View, op: ActivationFunction, data: &View) -> Result<()> {
        self.issue(Activation {
            name: "activation",
            dst: dst.clone(),
            op,
            data: data.clone(),
            bias: ScalarOperand::None,
            scale: ScalarOperand::None,
            reduction: Reduction::new(AluOp::Add, ReduceCommand::Idle, None),
        })
    }

    /// dst = data1 operator data2.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn pair(&mut self, dst: &View, data1: &View, data2: &View, op: AluOp) -> Result<()> {
        let (dst, data1, data2) = (dst.clone(), data1.clone(), data2.clone());
        self.issue(TensorTensor { dst, data1, data2, op, engine: None })
    }

    /// dst = data through one operator or two, each with a number beside it unless it is unary.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn scalar(&mut self, dst: &View, data: &View, steps: &[(AluOp, Option<f64>)]) -> Result<()> {
        let operand = |step: Option<&(AluOp, Option<f64>)>| match step {
            Some((_, Some(value))) => ScalarOperand::Constant(*value),
            _ => ScalarOperand::None,
        };
        let Some(&(op0, _)) = steps.first() else { return self.cast(dst, data) };
        self.issue(TensorScalar {
            dst: dst.clone(),
            data: data.clone(),
            op0,
            operand0: operand(steps.first()),
            reverse0: false,
            op1: steps.get(1).map(|(op, _)| *op),
            operand1: operand(steps.get(1)),
            reverse1: false,
            engine: None,
        })
    }

    /// Every element of dst is this number.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn fill(&mut self, dst: &View, value: f64) -> Result<()> {
        self.issue(Memset { dst: dst.clone(), value, engine: None })
    }

    /// dst = src, in dst's element type.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn cast(&mut self, dst: &View, src: &View) -> Result<()> {
        self.issue(TensorCopy { dst: dst.clone(), src: src.clone(), engine: None })
    }

    /// The elements of a view, in row-major order; None in a run without values where they were not needed.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn value(&mut self, view: &View, kind: &TensorType) -> Result<Option<Tensor>> {
        if view.is_empty() {
            return Tensor::from_bytes(kind.clone(), &[]).map(Some);
        }
        if !self.core.state.knows(view)? {
            return Ok(None);
        }
        Tensor::from_bytes(kind.clone(), &self.core.state.peek_bytes(view)?).map(Some)
    }
}
