//! Where results go: straight to the host's memory, or by way of the scratch memory where that is not C-contiguous.

use std::ffi::c_void;
use std::ops::Range;

use trn3_numerics::{ArrayMut, Source};

use crate::array::Layout;
use crate::pointers::{slice_mut, span};
use crate::status::{Fault, Result, Status};

/// The widest element, to which parts of the scratch memory are aligned.
const ALIGNMENT: usize = 4;

/// Scratch memory that outputs take: none for C-contiguous ones.
pub(crate) fn scratch_size(outputs: &[&Layout]) -> usize {
    outputs
        .iter()
        .filter(|layout| !layout.is_contiguous)
        .map(|layout| layout.size() + ALIGNMENT - 1)
        .fold(0, usize::saturating_add)
}

/// The host's scratch memory, handed out to the outputs that need it.
pub(crate) struct Scratch {
    next: *mut u8,
    span: Range<usize>,
}

impl Scratch {
    /// Refuses memory that is too small for what the outputs need.
    pub(crate) fn new(memory: *mut c_void, size: usize, outputs: &[&Layout]) -> Result<Self> {
        let needed = scratch_size(outputs);
        if needed == 0 {
            return Ok(Self { next: std::ptr::null_mut(), span: 0..0 });
        }
        if size < needed {
            let message = format!("scratch_size is {size}; {needed} bytes are needed, out is not C-contiguous");
            return Err(Fault::new(Status::Capacity, message));
        }
        if memory.is_null() {
            return Err(Fault::value("scratch is null"));
        }
        let next = memory.cast::<u8>();
        Ok(Self { next, span: span(next, needed) })
    }

    /// The addresses that are used, none where no output needs any.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The next `size` bytes, aligned.
    fn take(&mut self, size: usize) -> *mut u8 {
        let skip = self.next.addr().wrapping_neg() % ALIGNMENT;
        let taken = self.next.wrapping_add(skip);
        self.next = taken.wrapping_add(size);
        taken
    }
}

/// One output.
pub(crate) struct Target<'a> {
    layout: Layout,
    packed: &'a mut [u8],
}

impl<'a> Target<'a> {
    /// # Safety
    /// The elements of `layout` and the scratch memory, which was made for it, are the host's to write; they overlap
    /// nothing that is borrowed and nobody else uses them during the call.
    pub(crate) unsafe fn new(layout: &Layout, scratch: &mut Scratch) -> Result<Self> {
        let layout = *layout;
        let memory = if layout.is_contiguous { layout.data } else { scratch.take(layout.size()) };
        // SAFETY: contiguous elements from `data` on, or a part of the scratch memory, by the caller's promise.
        let packed = unsafe { slice_mut(memory, layout.size(), "out.data") }?;
        Ok(Self { layout, packed })
    }

    /// The array that the operation writes.
    pub(crate) fn array(&mut self) -> Result<ArrayMut<'_>> {
        Ok(ArrayMut::from_codes(self.layout.format, self.packed, self.layout.shape())?)
    }

    /// Brings the results to where the host wants them.
    pub(crate) fn finish(self) {
        if !self.layout.is_contiguous {
            // SAFETY: promised at construction; the views of the inputs are no longer used.
            unsafe { self.layout.scatter(self.packed) };
        }
    }
}

fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end && !a.is_empty() && !b.is_empty()
}

/// Refuses outputs that overlap an input or one another.
pub(crate) fn check_overlap(outputs: &[(&str, Range<usize>)], inputs: &[(&str, Range<usize>)]) -> Result<()> {
    for (index, (name, span)) in outputs.iter().enumerate() {
        let others = outputs[..index].iter().chain(inputs);
        if let Some((other, _)) = others.into_iter().find(|(_, other)| meet(span, other)) {
            return Err(Fault::value(format!("{name} overlaps {other}; they must lie apart")));
        }
    }
    Ok(())
}

/// Where an elementwise operation reads from: `x`, which may be exactly `out`.
///
/// # Safety
/// As [`Layout::view`].
pub(crate) unsafe fn source<'a>(x: &Layout, out: &Layout, scratch: &Scratch) -> Result<Source<'a>> {
    let span = ("scratch", scratch.span());
    if x.is_same_place(out) && x.count > 0 {
        check_overlap(&[span, ("out", out.span())], &[])?;
        if out.is_contiguous {
            return Ok(Source::InPlace(x.format));
        }
    } else {
        check_overlap(&[("out", out.span()), span], &[("x", x.span())])?;
    }
    // SAFETY: the caller's promise; where x is out, results go there only after the last reading.
    Ok(Source::Array(unsafe { x.view() }?))
}
