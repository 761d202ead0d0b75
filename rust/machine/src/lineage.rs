//! Which element types the values of each tensor came through.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::isa::{Instruction, OperandRole};
use crate::storage::Storage;

/// The narrowest floating-point type on the way to each tensor of a run.
///
/// A tensor is followed whole, from its first write on: what once went into it counts **(choice)**. Integers round
/// nothing and do not count; MX tiles count by their elements, whose scales are exact.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::conductor::Conductor;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::copy::Memset;
/// use trn3_machine::memory::Request;
/// use trn3_machine::site::SiteId;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
///
/// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
/// let mut conductor = Conductor::default();
/// conductor.follow_types();
/// let tile = conductor.allocate(&mut core, &Request::unsited("tile", &[128, 4], DType::BFloat16, Buffer::Sbuf))?;
/// let mut memset = Memset { dst: View::whole(tile.clone()), value: 1.0, engine: None };
/// conductor.issue(&mut core, &mut memset, SiteId::default(), None)?;
/// assert_eq!(conductor.lineage().map(|types| types.narrowest_of(&tile)), Some(Some(DType::BFloat16)));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Lineage {
    tensors: HashMap<u64, DType>,
    run: Option<DType>,
    has_met: bool,
}

impl Lineage {
    /// An instruction ran: what it writes came through all that it reads.
    pub(crate) fn note(&mut self, instruction: &dyn Instruction) {
        let (mut narrowest, mut written) = (None, Vec::new());
        instruction.operands(&mut |role, view| {
            narrowest = narrower(narrowest, Some(view.dtype));
            if role != OperandRole::Write {
                narrowest = narrower(narrowest, self.tensors.get(&view.storage.id).copied());
            }
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                written.push(view.storage.id);
            }
        });
        self.run = narrower(self.run, narrowest);
        let Some(narrowest) = narrowest else { return };
        for id in written {
            let known = self.tensors.entry(id).or_insert(narrowest);
            *known = narrower(Some(*known), Some(narrowest)).unwrap_or(narrowest);
        }
    }

    /// The core met others: values came from where nobody followed them.
    pub(crate) fn note_meeting(&mut self) {
        self.has_met = true;
    }

    /// The narrowest type on the way to a tensor; None where no floating-point value went into it.
    pub fn narrowest_of(&self, storage: &Storage) -> Option<DType> {
        narrower(self.tensors.get(&storage.id).copied(), Some(storage.dtype))
    }

    /// The narrowest type of all instructions.
    pub fn narrowest(&self) -> Option<DType> {
        self.run
    }

    /// Whether the core met others, whose values came on ways that are not known here.
    pub fn has_met(&self) -> bool {
        self.has_met
    }
}

/// The one of fewer mantissa bits, of those that have any.
fn narrower(one: Option<DType>, other: Option<DType>) -> Option<DType> {
    let counted = |dtype: &DType| dtype.is_float() || dtype.is_packed();
    let bits = |dtype: &DType| dtype.format().map(|format| format.spec().mantissa_bits);
    one.into_iter().chain(other).filter(counted).min_by_key(bits)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::arch::ArchSpec;
    use crate::conductor::Conductor;
    use crate::core::{CoreOptions, NeuronCore};
    use crate::isa::copy::TensorCopy;
    use crate::memory::Request;
    use crate::site::SiteId;
    use crate::storage::Buffer;
    use crate::view::View;

    #[test]
    fn types_are_followed_through_copies_and_only_there() {
        use DType::*;
        let arch = ArchSpec::load("trn3").expect("a machine");
        let mut core = NeuronCore::new(Arc::new(arch), CoreOptions::default()).expect("a core");
        let mut conductor = Conductor::default();
        conductor.follow_types();
        let mut tile = |dtype| {
            let request = Request::unsited("tile", &[128, 4], dtype, Buffer::Sbuf);
            conductor.allocate(&mut core, &request).expect("room")
        };
        let (start, narrow, wide) = (tile(Float32), tile(BFloat16), tile(Float32));
        let (other, small, number) = (tile(Float32), tile(Float8E4M3), tile(Int32));
        for (dst, src) in [(&narrow, &start), (&wide, &narrow), (&other, &start), (&small, &start), (&number, &number)]
        {
            let (dst, src) = (View::whole(dst.clone()), View::whole(src.clone()));
            let mut copy = TensorCopy { dst, src, engine: None };
            conductor.issue(&mut core, &mut copy, SiteId::default(), None).expect("a copy");
        }
        let types = conductor.lineage().expect("followed");
        let found = [&start, &wide, &other, &small, &number].map(|tile| types.narrowest_of(tile));
        assert_eq!(found, [Some(Float32), Some(BFloat16), Some(Float32), Some(Float8E4M3), None]);
        assert_eq!((types.narrowest(), types.has_met()), (Some(Float8E4M3), false));
    }
}
