//! Sums in PSUM: where a matmul does not say whether it adds, it adds where an earlier one wrote to its tensor since that was
//! made. A compiled program makes no tensor, and lets matmuls say it.

use std::collections::HashMap;

use trn3_machine::engine::Engine;
use trn3_machine::isa::{Instruction, OperandRole};
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;

/// Whether matmuls wrote to the elements of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// To none.
    Nothing,
    /// To some.
    Some,
    /// To all.
    All,
}

/// First bytes of elements in a tensor, by partition.
type Elements = HashMap<(usize, usize), ()>;

/// Elements of PSUM tensors that matmuls wrote to.
#[derive(Default)]
pub(super) struct Products {
    tensors: HashMap<u64, Marked>,
}

#[derive(Default)]
struct Marked {
    /// Views that were written to whole, of one that is written to again and again.
    last: Option<View>,
    elements: Elements,
}

/// The view that an instruction of the tensor engine writes to PSUM.
pub(super) fn product(instruction: &dyn Instruction, engine: Engine) -> Option<&View> {
    let mut found = None;
    if engine == Engine::Tensor {
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) && view.storage.buffer == Buffer::Psum {
                found = Some(view);
            }
        });
    }
    found
}

fn is_same(one: &View, other: &View) -> bool {
    (&one.shape, &one.strides, one.offset, one.dtype) == (&other.shape, &other.strides, other.offset, other.dtype)
}

fn each_element(view: &View, visit: &mut dyn FnMut((usize, usize))) {
    let size = view.dtype.size();
    let pitch = (view.storage.free_bytes() / size).max(1) as i64;
    let mut index = vec![0usize; view.shape.len()];
    for _ in 0..view.shape.iter().product() {
        let at: i64 = index.iter().zip(&view.strides).map(|(&place, &stride)| place as i64 * stride).sum();
        let at = view.offset + at;
        visit(((at / pitch) as usize, (at % pitch) as usize * size));
        for (place, &length) in index.iter_mut().zip(&view.shape).rev() {
            *place += 1;
            if *place < length {
                break;
            }
            *place = 0;
        }
    }
}

impl Products {
    /// Whether matmuls wrote to a view.
    pub(super) fn written(&self, view: &View) -> Written {
        let Some(marked) = self.tensors.get(&view.storage.id) else { return Written::Nothing };
        if marked.last.as_ref().is_some_and(|last| is_same(last, view)) {
            return Written::All;
        }
        let (mut some, mut all) = (false, true);
        each_element(view, &mut |element| {
            let is_marked = marked.elements.contains_key(&element);
            some |= is_marked;
            all &= is_marked;
        });
        match (some, all) {
            (_, true) => Written::All,
            (true, false) => Written::Some,
            (false, false) => Written::Nothing,
        }
    }

    /// A matmul writes to a view.
    pub(super) fn mark(&mut self, view: &View) {
        let marked = self.tensors.entry(view.storage.id).or_default();
        if !marked.last.as_ref().is_some_and(|last| is_same(last, view)) {
            each_element(view, &mut |element| {
                marked.elements.insert(element, ());
            });
            marked.last = Some(view.clone());
        }
    }

    /// A tensor is made anew; whether a matmul wrote to it before.
    pub(super) fn forget(&mut self, storage: u64) -> bool {
        self.tensors.remove(&storage).is_some()
    }
}
