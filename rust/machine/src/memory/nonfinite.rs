//! NaN and infinity: which instruction wrote the first ones.
//!
//! Where that is asked for, each write of float32 results is looked at once, for anything that is no finite number of the written type: one pass
//! without branches over values that are at hand. What follows happens only where there is some. Tensors that hold NaN
//! or infinities are remembered as wholes **(choice)**: where an instruction read one of those, what it writes is no
//! origin. A tensor written whole without any is clean again.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::finding::{Finding, Origin};
use super::{Memory, convert, hbm};
use crate::dtype::DType;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::site::SiteId;
use crate::storage::{Storage, Strange};
use crate::view::View;

impl Strange {
    fn any(self) -> bool {
        self.nan || self.infinity
    }

    fn and(self, other: Strange) -> Strange {
        Strange { nan: self.nan || other.nan, infinity: self.infinity || other.infinity }
    }

    fn note(&mut self, value: f32) {
        self.nan |= value.is_nan();
        self.infinity |= value.is_infinite();
    }

    fn of(values: &[f32]) -> Strange {
        let mut found = Strange::default();
        values.iter().for_each(|value| found.note(*value));
        found
    }
}

/// NaN or infinities that the instruction under way wrote.
#[derive(Clone, Debug)]
pub struct Trouble {
    storage: u64,
    tensor: String,
    dtype: DType,
    shape: Vec<usize>,
    is_nan: bool,
    element: usize,
    count: usize,
    /// The result before its rounding, where that was a number.
    overflow: Option<f32>,
}

/// What is known of NaN and infinities.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether anything is looked at.
    is_on: bool,
    /// What tensors hold, by the number of their storage; those that hold some.
    held: HashMap<u64, Strange>,
    troubles: Vec<Trouble>,
    /// Whether results of the instruction under way were looked at.
    inspected: bool,
    /// A tensor whose uninitialised elements the instruction under way read.
    uninitialised: Option<String>,
    /// Findings made.
    found: HashSet<(SiteId, &'static str, bool, String)>,
}

impl Watch {
    pub(super) fn note_uninitialised(&mut self, view: &View) {
        if view.dtype.is_float() && self.uninitialised.is_none() {
            self.uninitialised = Some(view.storage.name.clone());
        }
    }
}

/// Bits of a float32 without the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Bits of the largest finite magnitude of each type that results are rounded to. Magnitudes as bits are ordered as
/// numbers are, with infinity and NaN above.
static LARGEST: LazyLock<[u32; DType::ALL.len()]> = LazyLock::new(|| {
    let mut largest = [f32::MAX.to_bits(); DType::ALL.len()];
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_float() && dtype.size() < size_of::<f32>()) {
        if let Some(format) = dtype.format() {
            largest[dtype as usize] = format.decode_code(format.spec().max_code).to_bits();
        }
    }
    largest
});

/// Whether any magnitude is beyond the largest: what is added to one that is carries into the sign. No element ends the
/// loop early.
fn is_any_beyond(values: &[f32], largest: u32) -> bool {
    let carry = MAGNITUDE - largest;
    let found = values.iter().fold(0, |found, value| found | ((value.to_bits() & MAGNITUDE) + carry));
    found > MAGNITUDE
}

impl Memory {
    /// Follows NaN and infinities from here on, or no longer.
    pub(crate) fn follow_nonfinite(&mut self, is_on: bool) {
        self.watch.is_on = is_on;
    }

    /// Looks at results about to be written, where the mask is true.
    #[inline]
    pub(super) fn inspect(&mut self, view: &View, values: &[f32], mask: Option<&[bool]>) {
        if !self.watch.is_on || !view.dtype.is_float() {
            return;
        }
        self.watch.inspected = true;
        if is_any_beyond(values, LARGEST[view.dtype as usize]) {
            self.inspect_closely(view, values, mask);
        } else if !self.watch.held.is_empty() && mask.is_none() && values.len() == view.storage.elements() {
            self.watch.held.remove(&view.storage.id);
        }
    }

    #[cold]
    fn inspect_closely(&mut self, view: &View, values: &[f32], mask: Option<&[bool]>) {
        let most = f32::from_bits(LARGEST[view.dtype as usize]);
        let (mut nan, mut infinity): (Option<(usize, usize, Option<f32>)>, Option<(usize, usize, Option<f32>)>) =
            (None, None);
        for (element, &value) in values.iter().enumerate() {
            if value.abs() <= most || mask.is_some_and(|mask| !mask[element]) {
                continue;
            }
            let (stored, overflow) = match value.is_finite() {
                true => (self.stored(view.dtype, value), Some(value)),
                false => (value, None),
            };
            let slot = match (stored.is_nan(), stored.is_infinite()) {
                (true, _) => &mut nan,
                (_, true) => &mut infinity,
                _ => continue,
            };
            slot.get_or_insert((element, 0, overflow)).1 += 1;
        }
        for (is_nan, found) in [(true, nan), (false, infinity)] {
            if let Some((element, count, overflow)) = found {
                self.watch.troubles.push(Trouble {
                    storage: view.storage.id,
                    tensor: view.storage.name.clone(),
                    dtype: view.dtype,
                    shape: view.shape.to_vec(),
                    is_nan,
                    element,
                    count,
                    overflow,
                });
            }
        }
    }

    /// What a value becomes in a type.
    fn stored(&self, dtype: DType, value: f32) -> f32 {
        if self.keeps_exact(dtype) {
            return value;
        }
        let mut code = [0u8; 4];
        let item = dtype.size();
        match convert::encode(dtype, &[value], &mut code[..item], Default::default()) {
            Ok(()) => convert::value(dtype, &code[..item]),
            Err(_) => value,
        }
    }

    /// Before an instruction: forgets the one before, and looks once at tensors that no instruction made.
    pub(crate) fn watch(&mut self, instruction: &dyn Instruction) {
        if !self.watch.is_on {
            return;
        }
        self.watch.troubles.clear();
        self.watch.inspected = false;
        self.watch.uninitialised = None;
        let (layer, held) = (self.layer, &mut self.watch.held);
        instruction.operands(&mut |role, view| {
            if role != OperandRole::Write && !view.storage.buffer.is_on_chip() && view.storage.dtype.is_float() {
                let Ok(mut contents) = hbm::lock(&view.storage, layer) else { return };
                if contents.complete && contents.strange.is_none() {
                    let found = strange_bytes(view.storage.dtype, &contents.bytes);
                    contents.strange = Some(found);
                    if found.any() {
                        held.insert(view.storage.id, found);
                    }
                }
            }
        });
    }

    /// After an instruction: reports NaN and infinities that it is the origin of, and remembers who holds some.
    ///
    /// # Errors
    /// Those of reading operands again.
    pub(crate) fn trace(&mut self, instruction: &dyn Instruction) -> Result<()> {
        let watch = &self.watch;
        if !watch.is_on {
            return Ok(());
        }
        if watch.troubles.is_empty() && (watch.inspected || (watch.held.is_empty() && watch.uninitialised.is_none())) {
            return Ok(());
        }
        let uninitialised = self.watch.uninitialised.take();
        let moved = !self.watch.inspected;
        let (sources, argument) = self.sources(instruction)?;
        if moved && argument.is_some() {
            let mut results = Vec::new();
            instruction.operands(&mut |role, view| {
                if role == OperandRole::Write && view.dtype.is_float() {
                    results.push(view.clone());
                }
            });
            for view in results {
                self.inspect_written(&view)?;
            }
        }
        let troubles = std::mem::take(&mut self.watch.troubles);
        for trouble in &troubles {
            self.report(instruction, trouble, sources, argument.as_deref(), uninitialised.as_deref());
        }
        let mut carried = if moved { sources } else { Strange::default() };
        carried.nan |= moved && uninitialised.is_some();
        let held = &mut self.watch.held;
        instruction.operands(&mut |role, view| {
            if !matches!(role, OperandRole::Write | OperandRole::Update) || !view.dtype.is_float() {
                return;
            }
            let mut found = carried;
            for trouble in troubles.iter().filter(|trouble| trouble.storage == view.storage.id) {
                found.nan |= trouble.is_nan;
                found.infinity |= !trouble.is_nan;
            }
            if found.any() {
                let entry = held.entry(view.storage.id).or_default();
                *entry = entry.and(found);
            }
        });
        Ok(())
    }

    /// What an instruction's inputs hold, and the argument among them that held it first.
    fn sources(&mut self, instruction: &dyn Instruction) -> Result<(Strange, Option<String>)> {
        let mut views: Vec<View> = Vec::new();
        let mut written = Vec::new();
        instruction.operands(&mut |role, view| match role {
            OperandRole::Write => written.push(view.storage.id),
            _ if view.dtype.is_float() => {
                views.push(view.clone());
                if role == OperandRole::Update {
                    written.push(view.storage.id);
                }
            }
            _ => {}
        });
        let (mut found, mut argument) = (Strange::default(), None);
        for view in views {
            let known = self.watch.held.get(&view.storage.id).copied().unwrap_or_default();
            let is_argument = !view.storage.buffer.is_on_chip() && hbm::lock(&view.storage, self.layer)?.complete;
            // What was overwritten can no longer be looked at; of large arguments a part may be clean.
            let can_look = !written.contains(&view.storage.id);
            let held = match known.any() {
                true if is_argument && can_look => self.look(&view)?,
                false if can_look && !view.is_indirect() => self.look(&view)?,
                _ => known,
            };
            if held.any() && is_argument {
                argument.get_or_insert_with(|| view.storage.name.clone());
            }
            found = found.and(held);
        }
        Ok((found, argument))
    }

    /// What a tile holds, without a note of the look.
    fn look(&mut self, view: &View) -> Result<Strange> {
        let place = self.resolve(view.into(), self.site)?;
        // Uninitialised elements are a finding of their own.
        if !self.is_set(&place, &view.storage)? {
            return Ok(Strange::default());
        }
        let mut values = vec![0.0; place.len()];
        self.with_bytes(&view.storage, |bytes| convert::read(view.dtype, bytes, &place, &mut values))?;
        Ok(Strange::of(&values))
    }

    fn report(
        &mut self,
        instruction: &dyn Instruction,
        trouble: &Trouble,
        sources: Strange,
        argument: Option<&str>,
        uninitialised: Option<&str>,
    ) {
        let is_inherited = if trouble.is_nan { sources.nan } else { sources.infinity || sources.nan };
        let origin = match (uninitialised, argument) {
            (Some(tensor), _) => Origin::Uninitialised { tensor: tensor.to_owned() },
            (None, Some(tensor)) if is_inherited => Origin::Argument { tensor: tensor.to_owned() },
            _ if is_inherited => return,
            _ => match trouble.overflow {
                Some(value) => Origin::Overflow { value: value.to_string() },
                // An infinity that the kernel itself names is no accident.
                None if !trouble.is_nan && instruction.has_infinite_constant() => return,
                None => Origin::Computed { from_infinity: sources.infinity },
            },
        };
        self.note_origin(instruction.name(), trouble, origin);
    }

    fn note_origin(&mut self, instruction: &'static str, trouble: &Trouble, origin: Origin) {
        // An argument is reported where it is first read, and not line by line.
        let (site, by, of) = match &origin {
            Origin::Argument { tensor } => (SiteId::default(), "", tensor.clone()),
            _ => (self.site, instruction, origin.name().to_owned()),
        };
        if !self.watch.found.insert((site, by, trouble.is_nan, of)) {
            return;
        }
        let mut element = vec![0; trouble.shape.len()];
        let mut rest = trouble.element;
        for (place, length) in element.iter_mut().zip(&trouble.shape).rev() {
            (*place, rest) = (rest % (*length).max(1), rest / (*length).max(1));
        }
        self.findings.push(Finding::NonFinite {
            reader: self.site,
            instruction,
            tensor: trouble.tensor.clone(),
            dtype: trouble.dtype,
            is_nan: trouble.is_nan,
            element,
            count: trouble.count,
            origin,
        });
    }

    /// Notes elements that a function takes from outside the range for which its result is documented, and how many it
    /// took in all.
    pub fn note_range(&mut self, storage: &Storage, function: &'static str, range: (f32, f32), values: &[f32]) {
        if self.layer != hbm::Layer::Real {
            return;
        }
        let (low, high) = range;
        // Not a number is nothing that a range is about; 0 is the limit of what is smallest.
        let is_outside = |value: f32| {
            let magnitude = value.abs();
            magnitude > high || (magnitude < low && magnitude > 0.0) || (magnitude == 0.0 && low > 0.0)
        };
        let outside = values.iter().fold(0u64, |count, &value| count + u64::from(is_outside(value)));
        let site = self.site;
        let known = self.ranges.entry((site, function)).or_insert((0, None));
        known.0 += values.len() as u64;
        let taken = known.0;
        if let Some(index) = known.1 {
            if let Some(Finding::OutsideRange { count, elements, .. }) = self.findings.get_mut(index) {
                (*count, *elements) = (*count + outside, taken);
            }
        } else if outside > 0 {
            known.1 = Some(self.findings.len());
            let first = values.iter().copied().find(|value| is_outside(*value)).unwrap_or_default();
            self.findings.push(Finding::OutsideRange {
                reader: site,
                tensor: storage.name.clone(),
                function,
                range: (format!("{low:e}"), format!("{high:e}")),
                count: outside,
                elements: taken,
                first: first.to_string(),
            });
        }
    }

    /// Looks at a tile that a function of the kernel's own wrote.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn inspect_written(&mut self, view: &View) -> Result<()> {
        if self.watch.is_on && view.dtype.is_float() {
            let place = self.resolve(view.into(), self.site)?;
            let mut values = vec![0.0; place.len()];
            self.with_bytes(&view.storage, |bytes| convert::read(view.dtype, bytes, &place, &mut values))?;
            self.inspect(view, &values, None);
        }
        Ok(())
    }
}

/// What the bytes of a tensor hold.
fn strange_bytes(dtype: DType, bytes: &[u8]) -> Strange {
    let chunk = 4096 * dtype.size();
    let mut values = Vec::new();
    let mut found = Strange::default();
    for bytes in bytes.chunks(chunk) {
        convert::values(dtype, bytes, &mut values);
        let clean = values.iter().fold(true, |clean, value: &f32| clean & value.is_finite());
        if !clean {
            found = found.and(Strange::of(&values));
        }
    }
    found
}
