//! A core that a graph's templates issue their instructions on.

use std::ops::Range;
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
use trn3_machine::isa::{Instruction, OperandRole, ScalarOperand};
use trn3_machine::meeting::{self, Part};
use trn3_machine::memory::Request;
use trn3_machine::site::{Site, SiteId};
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_numerics::ActivationFunction;

use crate::core_shares::{CorePlace, along, even_axis};
use crate::error::{GraphError, Result};
use crate::handover::Handover;
use crate::location::Location;
use crate::options::ExecutionOptions;
use crate::strided::{merged, row_major};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Issues instructions of one line after another; where tensors lie on chip is left to the compiler.
pub struct Emitter {
    cores: Vec<NeuronCore>,
    place: CorePlace,
    share_from: usize,
    pub(crate) handover: Handover,
    site: SiteId,
    label: String,
    /// Whose each tile is.
    #[cfg(debug_assertions)]
    tiles: std::collections::HashMap<u64, usize>,
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

/// Elements that lie in one piece, by the axes of a view of as many.
fn shaped_like(dense: &View, like: &View) -> View {
    let strides = row_major(&like.shape).into_iter().map(|stride| stride as i64).collect();
    View { shape: like.shape.clone(), strides, ..dense.clone() }
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
        Self::on_cores(arch, values, &ExecutionOptions::default())
    }

    /// As many cores as these options say, which share HBM.
    ///
    /// # Errors
    /// [`GraphError::Argument`] for more cores than a logical core of the machine has, and for none; those of the machine.
    pub(crate) fn on_cores(arch: Arc<ArchSpec>, values: bool, options: &ExecutionOptions) -> Result<Self> {
        Self::made(arch, CoreOptions { values, ..Default::default() }, options)
    }

    /// Cores that keep neither values nor time: their instructions can be counted.
    ///
    /// # Errors
    /// As [`Emitter::on_cores`].
    pub(crate) fn untimed(arch: Arc<ArchSpec>, options: &ExecutionOptions) -> Result<Self> {
        Self::made(arch, CoreOptions { values: false, timing: false, ..Default::default() }, options)
    }

    fn made(arch: Arc<ArchSpec>, core: CoreOptions, options: &ExecutionOptions) -> Result<Self> {
        let (count, most) = (options.cores, arch.max_lnc);
        if count == 0 || count as u64 > most {
            let allowed = if most > 1 { format!("1 to {most}") } else { "1".to_owned() };
            return Err(GraphError::Argument(format!("cores is {count} on {}; allowed: {allowed}", arch.name)));
        }
        let mut cores = vec![NeuronCore::new(arch, CoreOptions { unlimited: true, nan_origin: false, ..core })?];
        for number in 1..count {
            let next = NeuronCore::beside(&mut cores[0], number)?;
            cores.push(next);
        }
        Ok(Self {
            cores,
            place: CorePlace::default(),
            share_from: options.share_from,
            handover: Handover::default(),
            site: SiteId::default(),
            label: String::new(),
            #[cfg(debug_assertions)]
            tiles: std::collections::HashMap::new(),
        })
    }

    /// The machine.
    pub fn arch(&self) -> &ArchSpec {
        self.cores[0].arch()
    }

    /// Whether values are computed.
    pub fn has_values(&self) -> bool {
        self.cores[0].options.values
    }

    /// Cores that work is divided over.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Elements of a tensor from which on it is divided.
    pub(crate) fn share_from(&self) -> usize {
        self.share_from
    }

    /// Where instructions are issued.
    pub(crate) fn place(&self) -> CorePlace {
        self.place
    }

    /// Instructions are issued there from here on.
    pub(crate) fn set_place(&mut self, place: CorePlace) {
        self.place = place;
    }

    /// Line and label of what is issued.
    pub(crate) fn named(&self) -> (SiteId, &str) {
        (self.site, &self.label)
    }

    /// The cores.
    pub(crate) fn all_cores(&mut self) -> &mut [NeuronCore] {
        &mut self.cores
    }

    /// Instructions so far, of all cores.
    pub fn issued(&self) -> u64 {
        self.cores.iter().map(NeuronCore::issued).sum()
    }

    /// The cores, with all that they ran.
    pub fn into_cores(self) -> Vec<NeuronCore> {
        self.cores
    }

    /// What follows is of this line, under this name.
    pub fn at(&mut self, location: Option<&Location>, label: &str) {
        self.site = location.map_or_else(SiteId::default, |location| {
            let Location { file, line, function } = location.clone();
            self.cores[0].sites.intern(Site { file, line, function })
        });
        label.clone_into(&mut self.label);
    }

    /// A tensor in HBM that nothing is written to yet.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn hbm(&mut self, name: &str, kind: &TensorType) -> Result<View> {
        let shape = held_shape(kind);
        let buffer = if self.cores.len() > 1 { Buffer::SharedHbm } else { Buffer::PrivateHbm };
        let request =
            Request { name, shape: &shape, dtype: stored(kind.dtype), buffer, address: None, site: self.site };
        Ok(shown(View::whole(self.cores[self.place.core].allocate(&request)?), kind))
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
        let memory = &mut self.cores[self.place.core].state.memory;
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
        let storage = self.cores[self.place.core].allocate(&request)?;
        #[cfg(debug_assertions)]
        self.tiles.insert(storage.id, self.place.core);
        Ok(View::whole(storage))
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
        instruction.prepare(self.arch())?;
        self.hand_over(&instruction)?;
        self.cores[self.place.core]
            .issue(&instruction, At { site: self.site, label: Some(&self.label), after: &[] })?;
        Ok(())
    }

    /// Lets the cores meet before an instruction that needs what another core wrote, and notes what it writes.
    fn hand_over(&mut self, instruction: &dyn Instruction) -> Result<()> {
        if self.cores.len() == 1 {
            return Ok(());
        }
        let core = self.place.core;
        #[cfg(debug_assertions)]
        instruction.operands(&mut |_, view| {
            let owner = self.tiles.get(&view.storage.id);
            debug_assert!(owner.is_none_or(|&owner| owner == core), "{}: a tile of another core", instruction.name());
        });
        let mut is_due = false;
        instruction.operands(&mut |_, view| is_due |= self.handover.is_due(core, view));
        if is_due {
            self.barrier()?;
        }
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                self.handover.wrote(core, view);
            }
        });
        Ok(())
    }

    /// Issues this core's part of a collective with a group of ranks, and lays what it takes away into its place; None where
    /// values are skipped.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn meet(&mut self, instruction: &Collective, group: &[u64], taken: Option<&Tensor>) -> Result<()> {
        instruction.check(self.arch())?;
        self.hand_over(instruction)?;
        self.cores[self.place.core].note_ranks(group);
        // What it writes ends when the collective does, which is the core's next instruction.
        let number = u32::try_from(self.cores[self.place.core].issued()).unwrap_or(u32::MAX);
        self.cores[self.place.core].state.memory.set_site(self.site);
        self.cores[self.place.core].state.memory.set_instruction(number);
        for (src, dst) in instruction.srcs.iter().zip(&instruction.dsts) {
            match taken {
                Some(taken) => self.cores[self.place.core].write_bytes(dst, taken.bytes())?,
                None => {
                    self.cores[self.place.core].state.memory.skip_read(src)?;
                    self.cores[self.place.core].state.memory.forget(dst)?;
                }
            }
        }
        let at = At { site: self.site, label: Some(&self.label), after: &[] };
        meeting::collective(&mut [Part { core: &mut self.cores[self.place.core], instruction, at }], &[])?;
        Ok(())
    }

    /// A transfer. From HBM to HBM each core does a part of it.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn copy(&mut self, dst: &View, src: &View) -> Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        let transfer = |emitter: &mut Self, dst: View, src: View| {
            emitter.issue(DmaCopy { dst, src, options: Options::default(), engine: None })
        };
        let lies_in_hbm = |view: &View| !view.storage.buffer.is_on_chip() && view.dynamic.is_none();
        let is_cut = self.cores.len() > 1 && lies_in_hbm(dst) && lies_in_hbm(src);
        // What lies in one piece has any axes.
        let into = if dst.shape == src.shape {
            Some(dst.clone())
        } else {
            (dst.is_contiguous() && dst.len() == src.len()).then(|| shaped_like(dst, src))
        };
        let axis = is_cut.then(|| even_axis(&src.shape)).flatten();
        let (Some(axis), Some(dst)) = (axis, into) else {
            return transfer(self, dst.clone(), src.clone());
        };
        let needs = |items: &Range<usize>| vec![along(src, axis, items)];
        self.divided(dst.len(), dst.shape[axis], &needs, &mut |emitter, items| {
            transfer(emitter, along(&dst, axis, &items), along(src, axis, &items))
        })
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
        if self.cores.len() > 1 {
            meeting::synchronise(&mut self.cores.iter_mut().collect::<Vec<_>>())?;
        }
        if !self.cores[self.place.core].state.knows(view)? {
            return Ok(None);
        }
        Tensor::from_bytes(kind.clone(), &self.cores[self.place.core].state.peek_bytes(view)?).map(Some)
    }
}
