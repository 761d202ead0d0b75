//! From when to when tensors are needed, and places on chip for those that have none.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::references::{visit_names, visit_value_names};
use super::{Declaration, Laid, Program, Role};
use crate::arch::ArchSpec;
use crate::core::NeuronCore;
use crate::error::{Error, Result};
use crate::memory::{Memory, Placer, Request};
use crate::storage::{Buffer, Storage};

/// From the first step to the last at which a program needs a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// First step; 0 for what the host fills.
    pub first: usize,
    /// Last step; the number of all steps for what is needed after them.
    pub last: usize,
    /// Its bytes come uninitialised: a `fresh` step is the first that names it, or it has no place of its own.
    pub is_fresh: bool,
}

impl Program {
    /// From when to when each tensor is needed, by its number; None for one that nothing names.
    ///
    /// ```
    /// use trn3_machine::Program;
    /// use trn3_machine::program::Limits;
    ///
    /// let text = br#"{"format": "trn3-program", "version": 2, "name": "zero",
    ///   "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32"}],
    ///   "steps": [{"op": "no_reorder"}, {"op": "memset", "dst": "t", "value": 0.0},
    ///             {"op": "reciprocal", "dst": "t", "data": "t"}, {"op": "end_no_reorder"}]}"#;
    /// let program = Program::from_json(text, &Limits::default())?;
    /// let lifetime = program.lifetimes()[0].expect("steps name it");
    /// assert_eq!((lifetime.first, lifetime.last), (1, 2));
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    pub fn lifetimes(&self) -> Vec<Option<Lifetime>> {
        let numbers: HashMap<&str, usize> = self.tensors.iter().map(|tensor| tensor.name.as_str()).zip(0..).collect();
        let mut found: Vec<Option<Lifetime>> = vec![None; self.tensors.len()];
        for (step, words) in self.steps.iter().enumerate() {
            let is_fresh = words.get("op").and_then(Value::as_str) == Some("fresh");
            visit_names(words, &mut |name| {
                let Some(lifetime) = numbers.get(name).and_then(|&number| found.get_mut(number)) else { return };
                lifetime.get_or_insert(Lifetime { first: step, last: step, is_fresh }).last = step;
            });
        }
        let end = self.steps.len();
        let mut keep = |number: usize, from_start: bool, to_end: bool| {
            let Some(lifetime) = found.get_mut(number) else { return };
            // What no step names is somebody else's wish alone: nobody may write to its bytes before.
            let lifetime = lifetime.get_or_insert(Lifetime { first: 0, last: 0, is_fresh: false });
            if from_start {
                (lifetime.first, lifetime.is_fresh) = (0, false);
            }
            if to_end {
                lifetime.last = end;
            }
        };
        for (number, tensor) in self.tensors.iter().enumerate() {
            match tensor.role {
                Role::Internal => {}
                Role::Input => keep(number, true, false),
                Role::Output => keep(number, false, true),
                Role::Inout | Role::Constant => keep(number, true, true),
            }
        }
        for output in &self.outputs {
            visit_value_names(&output.view, &mut |name| {
                if let Some(&number) = numbers.get(name) {
                    keep(number, false, true);
                }
            });
        }
        found
    }
}

/// When tensors on chip without an address come and go.
#[derive(Default)]
pub(super) struct Tenants {
    /// The step at which each comes, and whether its bytes are uninitialised then; in the order of steps, as below.
    coming: Vec<(usize, Arc<Storage>, bool)>,
    going: Vec<(usize, Arc<Storage>)>,
}

impl Program {
    /// When the tensors without an address come and go; what was where they lie is not theirs.
    pub(super) fn tenants(&self, tensors: &[Arc<Storage>]) -> Tenants {
        let is_placeless =
            |(tensor, laid): &(&Declaration, &Arc<Storage>)| tensor.address.is_none() && laid.buffer.is_on_chip();
        let declared = || self.tensors.iter().zip(tensors);
        if !declared().any(|pair| is_placeless(&pair)) {
            return Tenants::default();
        }
        let lifetimes = self.lifetimes();
        let found = || {
            let of = declared().zip(&lifetimes).filter(|(pair, _)| is_placeless(pair));
            of.filter_map(|((tensor, laid), lifetime)| lifetime.map(|lifetime| (tensor, Arc::clone(laid), lifetime)))
        };
        let is_own = |role| matches!(role, Role::Internal | Role::Output);
        let mut coming: Vec<_> =
            found().map(|(tensor, laid, lifetime)| (lifetime.first, laid, is_own(tensor.role))).collect();
        let mut going: Vec<_> = found().map(|(_, laid, lifetime)| (lifetime.last, laid)).collect();
        coming.sort_by_key(|(step, ..)| *step);
        going.sort_by_key(|(step, _)| *step);
        Tenants { coming, going }
    }
}

impl Tenants {
    /// Before the first of so many steps: room for all.
    pub(super) fn begin(&self, core: &mut NeuronCore, steps: usize) -> Result<()> {
        self.reserve(core)?;
        // What no step makes come is nobody's either.
        if steps == 0 { self.come(core, 0) } else { Ok(()) }
    }

    /// Makes room for all, where places have no limit.
    pub(super) fn reserve(&self, core: &mut NeuronCore) -> Result<()> {
        self.coming.iter().try_for_each(|(_, storage, _)| core.reserve(storage))
    }

    /// Makes those come that are needed at a step.
    pub(super) fn come(&self, core: &mut NeuronCore, number: usize) -> Result<()> {
        let first = self.coming.partition_point(|(step, ..)| *step < number);
        let mut now = self.coming.iter().skip(first).take_while(|(step, ..)| *step == number);
        now.try_for_each(|(_, storage, is_fresh)| core.came(storage, *is_fresh))
    }

    /// Lets those go that no step needs after this one.
    pub(super) fn go(&self, core: &mut NeuronCore, number: usize) {
        let first = self.going.partition_point(|(step, _)| *step < number);
        let now = self.going.iter().skip(first).take_while(|(step, _)| *step == number);
        now.for_each(|(_, storage)| core.went(storage));
    }
}

/// Storages for the tensors on chip that have no address, by number.
///
/// One that the host places lies there. Others lie by the rules of the allocator, in the order of steps, from the first that
/// names them to the last; where places have no limit, behind the bytes that addresses can name. Bytes at an address of the
/// author's are held from the start to the last step that names the tensor, and to the end where values may come from before
/// or be wanted after.
pub(super) fn place(
    program: &Program,
    arch: &ArchSpec,
    memory: &Memory,
    places: &mut dyn Laid,
    requests: &[Request<'_>],
    given: &mut [Option<Arc<Storage>>],
) -> Result<()> {
    let lifetimes = program.lifetimes();
    let end = program.steps.len();
    let refuse =
        |number: usize, error: &Error| program.refuse_for(&format!("tensor {:?}", program.tensors[number].name), error);
    let lay = |number: usize, address| {
        let laid = memory.lay_placed(&requests[number], address);
        laid.map(Some).map_err(|error| refuse(number, &error))
    };
    let mut placers = [Buffer::Sbuf, Buffer::Psum].map(|buffer| match memory.options().unlimited {
        true => Placer::endless(arch, buffer),
        false => Placer::new(arch, buffer),
    });
    let of = |number: usize| usize::from(requests[number].buffer == Buffer::Psum);
    let hold = |placers: &mut [Placer; 2], number: usize, storage: &Storage| {
        if let Some(place) = storage.place {
            placers[of(number)].hold_address(number as u32, place);
        }
    };
    // Step and number of each tensor that comes, and that goes.
    let (mut coming, mut going) = (Vec::new(), Vec::new());
    for (number, lifetime) in lifetimes.iter().enumerate().filter(|(number, _)| requests[*number].buffer.is_on_chip()) {
        let is_placeless = given[number].is_none();
        if let Some(address) = if is_placeless { places.on_chip(number) } else { None } {
            given[number] = lay(number, address)?;
        }
        match (&given[number], lifetime) {
            (Some(storage), lifetime) => {
                hold(&mut placers, number, storage);
                let goes = |lifetime: &&Lifetime| (lifetime.is_fresh || is_placeless) && lifetime.last < end;
                if let Some(lifetime) = lifetime.as_ref().filter(goes) {
                    going.push((lifetime.last, number));
                }
            }
            (None, Some(lifetime)) => {
                coming.push((lifetime.first, number));
                going.push((lifetime.last, number));
            }
            // Nothing names it: it lies anywhere.
            (None, None) => given[number] = lay(number, (0, 0))?,
        }
    }
    coming.sort_unstable();
    going.sort_unstable();
    let mut gone = going.iter().peekable();
    for (step, number) in coming {
        while let Some((_, number)) = gone.next_if(|(last, _)| *last < step) {
            placers[of(*number)].give_back(*number as u32);
        }
        let request = &requests[number];
        let bytes = memory.row_bytes(request).map_err(|error| refuse(number, &error))?;
        let Some(byte) = placers[of(number)].place(number as u32, bytes as u64) else {
            let op = program.steps.get(step).and_then(|words| words.get("op")).and_then(Value::as_str);
            let place = format!("step {step} ({})", op.unwrap_or_default());
            return Err(program.refuse_for(&place, &placers[of(number)].lack(request, bytes)));
        };
        given[number] = lay(number, (0, usize::try_from(byte).unwrap_or(usize::MAX)))?;
    }
    Ok(())
}
