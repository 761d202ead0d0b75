//! Programs of the cores of a logical core: recorded side by side, and run together on one HBM.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::laid_step::Bound;
use super::{FunctionRegistry, Laid, Limits, Loaded, LogicalPlace, Place, Program, Recorder, Role};
use crate::core::{At, NeuronCore};
use crate::error::{Error, Result};
use crate::joint;
use crate::meeting::{self, Part};
use crate::memory::{Contents, HbmSpace};
use crate::view::View;

impl Recorder {
    /// The programs of the cores of a logical core, in the order of their numbers; arguments and results as of
    /// [`Recorder::finish_with`], results in the first one's. A tensor in HBM that several reach has one name.
    ///
    /// # Errors
    /// As [`Recorder::finish_with`]; [`Error::Value`] without recorders.
    pub fn finish_together(
        recorders: Vec<Recorder>,
        arguments: &[(u64, bool)],
        results: &[(String, View)],
    ) -> Result<Vec<Program>> {
        let cores = u32::try_from(recorders.len()).unwrap_or(u32::MAX);
        let mut parts = Vec::with_capacity(recorders.len());
        for (core, recorder) in (0..cores).zip(recorders) {
            let results = if core == 0 { results } else { &[] };
            let (mut program, numbers) = recorder.finish_parts(arguments, results)?;
            program.logical_core = Some(LogicalPlace { core, cores });
            program.set_version();
            parts.push((program, numbers));
        }
        unite(&mut parts);
        Ok(parts.into_iter().map(|(program, _)| program).collect())
    }
}

/// Gives tensors in HBM the same name, role and memory in all programs that have them, and others different names.
fn unite(parts: &mut [(Program, HashMap<u64, usize>)]) {
    let mut holders: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
    for (part, (program, numbers)) in parts.iter().enumerate() {
        for (&id, &number) in numbers {
            if is_hbm(program, number) {
                holders.entry(id).or_default().push((part, number));
            }
        }
    }
    for held in holders.values().filter(|held| held.len() > 1) {
        let roles = held.iter().map(|&(part, number)| parts[part].0.tensors[number].role);
        let role = roles.into_iter().find(|role| *role != Role::Internal).unwrap_or_default();
        for &(part, number) in held {
            let tensor = &mut parts[part].0.tensors[number];
            tensor.role = role;
            "shared_hbm".clone_into(&mut tensor.space);
        }
    }
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut taken: HashSet<String> = HashSet::new();
    for (program, numbers) in parts {
        let ids: HashMap<usize, u64> = numbers.iter().map(|(&id, &number)| (number, id)).collect();
        let mut own: HashSet<String> = HashSet::new();
        let mut renamed: HashMap<String, String> = HashMap::new();
        // Those in HBM first: their names are the others' too.
        let (hbm, on_chip): (Vec<usize>, Vec<usize>) =
            (0..program.tensors.len()).partition(|&number| is_hbm(program, number));
        for number in hbm.iter().copied().chain(on_chip) {
            let before = program.tensors[number].name.clone();
            let id = ids.get(&number).copied().filter(|_| is_hbm(program, number));
            let name = match id.and_then(|id| names.get(&id)) {
                Some(known) => known.clone(),
                None => free(&before, |name| own.contains(name) || (id.is_some() && taken.contains(name))),
            };
            if let Some(id) = id {
                taken.insert(name.clone());
                names.insert(id, name.clone());
            }
            own.insert(name.clone());
            if name != before {
                renamed.insert(before, name.clone());
            }
            program.tensors[number].name = name;
        }
        if !renamed.is_empty() {
            program.rename(&mut |name| renamed.get(name).cloned());
        }
    }
}

fn is_hbm(program: &Program, number: usize) -> bool {
    program.tensors.get(number).is_some_and(|tensor| tensor.buffer().is_ok_and(|buffer| !buffer.is_on_chip()))
}

/// A name, or one with a number behind it that is not taken.
fn free(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut names = std::iter::once(base.to_owned()).chain((1..).map(|number| format!("{base}.{number}")));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

/// HBM of a logical core: what lies in `shared_hbm` is one for all programs by its name.
struct SharedHbm<'a> {
    program: &'a Program,
    addressed: &'a mut HbmSpace,
    known: &'a mut HashMap<String, SharedTensor>,
    functions: &'a dyn FunctionRegistry,
}

/// A tensor that several cores reach.
struct SharedTensor {
    id: u64,
    contents: Contents,
    declared: (Vec<usize>, String),
}

impl Laid for SharedHbm<'_> {
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents> {
        let Some(tensor) = self.program.tensors.get(number) else { return Ok(Contents::default()) };
        if let Some(known) = self.known.get(&tensor.name).filter(|_| tensor.space == SHARED) {
            let (shape, dtype) = &known.declared;
            if (shape, dtype) != (&tensor.shape, &tensor.dtype) {
                let text = format!(
                    "has shape {:?} and dtype {}; in the program of another core of the logical core {shape:?} and {dtype}",
                    tensor.shape, tensor.dtype
                );
                return Err(Error::Value(text));
            }
            return Ok(Arc::clone(&known.contents));
        }
        match tensor.address {
            Some(Place::Hbm(address)) => self.addressed.bind(address, bytes),
            _ => Ok(Contents::default()),
        }
    }

    fn storage(&self, number: usize) -> Option<u64> {
        let tensor = self.program.tensors.get(number).filter(|tensor| tensor.space == SHARED)?;
        self.known.get(&tensor.name).map(|known| known.id)
    }

    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.functions)
    }
}

const SHARED: &str = "shared_hbm";

/// Runs the programs of the cores of a logical core side by side, each from a new start of its core's time, with contents of
/// tensors by name; returns them as they lie there. The cores are [beside](NeuronCore::beside) one another.
///
/// # Errors
/// As [`Program::run_on`]; [`Error::Value`] for programs that are not those of one logical core, one a core in order, and
/// where the cores do not come to the same steps.
pub fn run_together(
    programs: &[Program],
    cores: &mut [&mut NeuronCore],
    inputs: &[(String, Vec<u8>)],
    functions: &dyn FunctionRegistry,
    limits: &Limits,
) -> Result<Vec<Loaded>> {
    check_places(programs, cores.len())?;
    let Some(first) = cores.first() else { return Ok(Vec::new()) };
    let mut addressed = HbmSpace::new(first.state.arch.hbm_bytes, u64::MAX);
    let mut known: HashMap<String, SharedTensor> = HashMap::new();
    let mut given: HashSet<&str> = HashSet::new();
    let mut all = Vec::with_capacity(programs.len());
    for (program, core) in programs.iter().zip(cores.iter_mut()) {
        let arch = Arc::clone(&core.state.arch);
        let before: HashSet<String> = known.keys().cloned().collect();
        let mut places = SharedHbm { program, addressed: &mut addressed, known: &mut known, functions };
        let loaded = program.lay(&arch, &core.state.memory, &mut places, limits)?;
        loaded.reserve(core)?;
        for (declared, storage) in program.tensors.iter().zip(&loaded.tensors) {
            if storage.buffer.is_on_chip() || (declared.space == SHARED && before.contains(&declared.name)) {
                continue;
            }
            core.state.memory.count_hbm(storage)?;
            if declared.space == SHARED {
                let (contents, declaration) =
                    (Arc::clone(&storage.hbm), (declared.shape.clone(), declared.dtype.clone()));
                let shared = SharedTensor { id: storage.id, contents, declared: declaration };
                known.insert(declared.name.clone(), shared);
            }
        }
        for number in 0..loaded.tensors.len() {
            if let Some(bytes) = program.contents(number)? {
                loaded.fill(core, number, &bytes)?;
            }
        }
        for (name, bytes) in inputs {
            let number = program.tensors.iter().position(|tensor| tensor.name == *name);
            let is_shared = before.contains(name);
            if let Some(number) = number.filter(|_| !is_shared) {
                loaded.fill(core, number, bytes)?;
                given.insert(name);
            }
        }
        all.push(loaded);
    }
    if let Some((name, _)) = inputs.iter().find(|(name, _)| !given.contains(name.as_str())) {
        return Err(Error::Value(format!("no program of the logical core has a tensor {name:?}")));
    }
    for (loaded, core) in all.iter().zip(cores.iter_mut()) {
        loaded.begin(core);
    }
    let mut next = vec![0; all.len()];
    loop {
        let mut waiting = Vec::with_capacity(all.len());
        for ((loaded, core), next) in all.iter().zip(cores.iter_mut()).zip(&next) {
            waiting.push(loaded.advance_to_joint(core, *next)?);
        }
        if waiting.iter().all(Option::is_none) {
            break;
        }
        for ((loaded, core), step) in all.iter().zip(cores.iter_mut()).zip(&waiting) {
            // A step that cores take together may be the first that names a tensor.
            step.map_or(Ok(()), |step| loaded.tenants.come(core, step))?;
        }
        meet(&all, cores, &waiting)?;
        for ((next, step), (loaded, core)) in next.iter_mut().zip(waiting).zip(all.iter().zip(cores.iter_mut())) {
            let step = step.unwrap_or_default();
            loaded.tenants.go(core, step);
            *next = step + 1;
        }
    }
    meeting::synchronise(cores)?;
    Ok(all)
}

fn check_places(programs: &[Program], cores: usize) -> Result<()> {
    if programs.len() != cores {
        return Err(Error::Value(format!("{} programs came for {cores} cores; each needs one", programs.len())));
    }
    for (number, program) in programs.iter().enumerate() {
        let place = program.logical_core;
        let fits = place.is_some_and(|place| place.core as usize == number && place.cores as usize == cores);
        if !fits {
            let is = match place {
                None => "of a core alone".to_owned(),
                Some(LogicalPlace { core, cores }) => format!("of core {core} of {cores}"),
            };
            return Err(program.refuse("logical_core", &format!("it is {is}; core {number} of {cores} is needed")));
        }
    }
    Ok(())
}

/// The cores have come to steps that they take together.
fn meet(all: &[Loaded], cores: &mut [&mut NeuronCore], waiting: &[Option<usize>]) -> Result<()> {
    let told = |core: usize| match (waiting[core], waiting[core].and_then(|step| all[core].steps.get(step))) {
        (Some(step), Some(Bound::Join { part, .. })) => {
            format!("core {core} is at step {step} ({})", part.instruction().name())
        }
        _ => format!("the program of core {core} has ended"),
    };
    let refuse = |text: &str| {
        let places: Vec<String> = (0..all.len()).map(told).collect();
        Error::Value(format!("program {}: {text}: {}", all[0].name, places.join(", ")))
    };
    let mut parts = Vec::with_capacity(all.len());
    let mut kinds = HashSet::new();
    for ((loaded, core), step) in all.iter().zip(cores.iter_mut()).zip(waiting) {
        let Some(Bound::Join { part, label, after }) = step.and_then(|step| loaded.steps.get(step)) else {
            return Err(refuse("a core waits for one that never comes"));
        };
        kinds.insert(part.instruction().name());
        let at = At { label: label.as_deref(), after, ..At::default() };
        parts.push(Part { core, instruction: &**part, at });
    }
    if kinds.len() > 1 {
        return Err(refuse("the cores do not take the same step together"));
    }
    joint::meet(parts).map(|_| ()).map_err(|error| match error {
        Error::Value(_) | Error::Validation { .. } => refuse(&error.to_string()),
        other => other,
    })
}
