//! Steps that a compiler makes: what a tensor holds goes elsewhere, and comes back. What they cost the instructions
//! themselves say, of tensors that lie nowhere.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::{Home, NO_SCOPE, Trace, TraceOperand, TraceStep, TraceTensor, Use};
use crate::dtype::DType;
use crate::isa::Instruction;
use crate::isa::copy::TensorCopy;
use crate::isa::dma::Options;
use crate::isa::dma::copy::DmaCopy;
use crate::memory::next_id;
use crate::site::SiteId;
use crate::storage::{Buffer, Placement, Storage};
use crate::timing::region::Rect;
use crate::view::View;

impl Trace {
    /// A tensor in HBM with room for all that one on chip holds, partition by partition; it is not part of the trace yet.
    pub fn in_hbm(&self, tensor: u32) -> TraceTensor {
        let known = &self.tensors[tensor as usize];
        let bytes = known.bytes * u64::from(known.partitions);
        TraceTensor { home: Home::Hbm(next_id()), bytes, storage: 0, ..known.clone() }
    }

    /// A tensor in SBUF as large as one in PSUM, which has no address; it is not part of the trace yet.
    pub fn in_sbuf(&self, tensor: u32) -> TraceTensor {
        TraceTensor { home: Home::Open(Buffer::Sbuf), storage: 0, ..self.tensors[tensor as usize].clone() }
    }

    /// A step that moves all of one tensor to another one as large: by DMA where one of them lies in HBM, a copy by an
    /// engine between SBUF and PSUM. The line is the kernel's that it is made for, the scope where it is made.
    pub fn movement(&mut self, dst: u32, src: u32, site: SiteId, scope: u32) -> TraceStep {
        let is_hbm = |tensor: u32| matches!(self.tensors[tensor as usize].home, Home::Hbm(_));
        let by_dma = is_hbm(dst) || is_hbm(src);
        let (to, from) = (self.phantom(dst), self.phantom(src));
        let (name, engine, work) = if by_dma {
            let copy = DmaCopy { dst: to, src: from, options: Options::default(), engine: None };
            (copy.name(), copy.engine(&self.arch), copy.work(&self.arch))
        } else {
            let copy = TensorCopy { dst: to, src: from, engine: None };
            (copy.name(), copy.engine(&self.arch), copy.work(&self.arch))
        };
        let mut step = TraceStep::new(engine, work, [self.all_of(src, Use::Read), self.all_of(dst, Use::Write)]);
        (step.opcode, step.site, step.scope) = (self.names.opcode(name), site, scope);
        (step.marks.copies, step.marks.overwrites) = (true, true);
        step
    }

    /// As [`Trace::movement`], in no loop and of no line.
    pub fn transfer(&mut self, dst: u32, src: u32) -> TraceStep {
        self.movement(dst, src, SiteId::default(), NO_SCOPE)
    }

    /// All of a tensor.
    pub fn all_of(&self, tensor: u32, usage: Use) -> TraceOperand {
        let whole = Rect { rows: 0..self.rows(tensor), columns: 0..self.row_bytes(tensor) };
        TraceOperand { tensor, usage, offset: 0, rects: SmallVec::from_buf([whole]) }
    }

    fn rows(&self, tensor: u32) -> u64 {
        u64::from(self.tensors[tensor as usize].partitions.max(1))
    }

    fn row_bytes(&self, tensor: u32) -> u64 {
        let bytes = self.tensors[tensor as usize].bytes;
        if matches!(self.tensors[tensor as usize].home, Home::Hbm(_)) { bytes / self.rows(tensor) } else { bytes }
    }

    /// A tensor of the same size, in words where it is made of such.
    fn phantom(&self, tensor: u32) -> View {
        let (rows, bytes) = (self.rows(tensor) as usize, self.row_bytes(tensor) as usize);
        let dtype = if bytes.is_multiple_of(DType::Float32.size()) { DType::Float32 } else { DType::UInt8 };
        let (buffer, place) = match self.tensors[tensor as usize].home {
            Home::Open(buffer) | Home::Addressed(buffer) => {
                (buffer, Some(Placement { partition: 0, byte: 0, partitions: rows, bytes }))
            }
            Home::Hbm(_) | Home::Register(_) => (Buffer::PrivateHbm, None),
        };
        View::whole(Arc::new(Storage {
            id: 0,
            name: String::new(),
            buffer,
            dtype,
            shape: SmallVec::from_slice(&[rows, bytes / dtype.size()]),
            place,
            tenancy: Default::default(),
            addressed: false,
            site: SiteId::default(),
            hbm: Default::default(),
            shadows: Default::default(),
            pitch: OnceLock::new(),
            release: None,
        }))
    }
}
