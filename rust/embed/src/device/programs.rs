//! Programs of a device: where their tensors lie, and that they lie there when a core runs them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use trn3_machine::isa::custom::GpSimdFunction;
use trn3_machine::memory::{Contents, HbmSpace};
use trn3_machine::program::{FunctionRegistry, Kept, LONGEST_FUNCTION_NAME, Laid, Limits, Loaded, Output, Place};

use super::{Core, Device};
use crate::command::MemorySpace;
use crate::error::{Error, ErrorKind, Result};

/// HBM tensors without an address start on multiples of this **(choice)**.
const ALIGNMENT: u64 = 4096;

/// A program of a device.
pub(crate) struct Program {
    pub(crate) program: Arc<trn3_machine::Program>,
    /// First byte and length of each HBM tensor; None on chip.
    pub(crate) places: Vec<Option<(u64, u64)>>,
    /// First partition and byte of each tensor on chip; None in HBM.
    on_chip: Vec<Option<(usize, usize)>>,
    names: HashMap<String, usize>,
    /// For each core, the program over its memories, and the generation of HBM it was laid over.
    laid: Vec<Option<(u64, Loaded)>>,
    /// For each core, what runs left beside the memories when the program was laid there last.
    kept: Vec<Kept>,
}

impl Program {
    fn new(
        program: trn3_machine::Program,
        places: Vec<Option<(u64, u64)>>,
        on_chip: Vec<Option<(usize, usize)>>,
        kept: Vec<Kept>,
    ) -> Self {
        let names = program.tensors.iter().enumerate().map(|(number, tensor)| (tensor.name.clone(), number)).collect();
        let laid = kept.iter().map(|_| None).collect();
        Self { program: Arc::new(program), places, on_chip, names, laid, kept }
    }

    /// For each core, what runs left beside the memories.
    pub(crate) fn kept(&self, cores: &[Core]) -> Vec<Kept> {
        let held = self.laid.iter().zip(&self.kept).zip(cores);
        held.map(|((laid, kept), core)| match laid {
            Some((_, loaded)) => loaded.kept(&core.machine.state.memory),
            None => kept.clone(),
        })
        .collect()
    }
}

/// Where a tensor of a loaded program lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which memory.
    pub space: MemorySpace,
    /// First byte: in HBM its address; on chip `partition * bytes of a partition + byte`.
    pub address: u64,
    /// Bytes: in HBM of the whole tensor, which lie in C order; on chip of each partition.
    pub bytes: u64,
    /// Lengths.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: String,
}

/// One of what a kernel returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputBytes {
    /// Its name.
    pub name: String,
    /// Its elements, in C order.
    pub bytes: Vec<u8>,
    /// Lengths.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: String,
}

struct Places<'a> {
    hbm: &'a mut HbmSpace,
    places: &'a [Option<(u64, u64)>],
    /// Numbers of the storages that the program was laid as before.
    before: Vec<u64>,
    on_chip: &'a [Option<(usize, usize)>],
    functions: &'a Functions,
}

/// Functions of the host's that programs call by name.
pub(crate) type Functions = BTreeMap<String, Arc<dyn GpSimdFunction>>;

impl Laid for Places<'_> {
    fn hbm(&mut self, number: usize, bytes: u64) -> trn3_machine::Result<Contents> {
        let (address, _) = self.places.get(number).copied().flatten().unwrap_or_default();
        self.hbm.bind(address, bytes)
    }

    fn storage(&self, number: usize) -> Option<u64> {
        self.before.get(number).copied()
    }

    fn on_chip(&mut self, number: usize) -> Option<(usize, usize)> {
        self.on_chip.get(number).copied().flatten()
    }

    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.functions)
    }
}

impl Device {
    /// Makes a function one that programs loaded from here on may call by that name; another one of it is forgotten, but not
    /// by programs that are laid already.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a name that no step can have.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_embed::{Command, Device, DeviceSpec, ErrorKind, GpSimdFunction, TileBytes};
    ///
    /// let program = br#"{"format": "trn3-program", "version": 2, "name": "ones",
    ///   "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "uint8", "role": "output"}],
    ///   "steps": [{"op": "gpsimd_call", "function": "ones", "inputs": [], "outputs": ["t"], "cycles": 4}]}"#;
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// assert_eq!(device.load(program).expect_err("no function").kind, ErrorKind::Unsupported);
    /// device.register_function("ones", Arc::new(|_: &[TileBytes], outputs: &mut [TileBytes]| {
    ///     outputs[0].bytes.fill(1);
    ///     Ok(())
    /// }))?;
    /// let number = device.load(program)?;
    /// device.submit(Command::Run { core: 0, program: number }, 0)?;
    /// let tile = device.tensor(number, "t")?;
    /// let mut bytes = [0; 4];
    /// device.read(tile.space, 0, tile.address, &mut bytes)?;
    /// assert_eq!(bytes, [1; 4]);
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn register_function(&mut self, name: &str, function: Arc<dyn GpSimdFunction>) -> Result<()> {
        if name.is_empty() || name.len() > LONGEST_FUNCTION_NAME {
            let text = format!("name has {} characters; allowed: 1 to {LONGEST_FUNCTION_NAME}", name.len());
            return Err(Error::value(text));
        }
        self.functions.insert(name.to_owned(), function);
        Ok(())
    }

    /// Loads a program from JSON; its HBM tensors get places. Returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] names the step and the field; [`ErrorKind::Capacity`] when its tensors do not fit;
    /// [`ErrorKind::Unsupported`] names a function that it calls and that nobody registered.
    pub fn load(&mut self, json: &[u8]) -> Result<u64> {
        let limits = Limits::default();
        self.load_program(trn3_machine::Program::from_json(json, &limits)?, &limits)
    }

    /// As [`Device::load`] of a program at hand, within limits of the host's.
    ///
    /// # Errors
    /// As [`Device::load`].
    pub fn load_program(&mut self, program: trn3_machine::Program, limits: &Limits) -> Result<u64> {
        // All of a program that can be refused is, before anything changes.
        let on_chip = program.places(&self.arch, &self.functions, limits)?;
        let places = self.place(&program)?;
        for (number, place) in places.iter().enumerate() {
            let (Some((address, length)), Some(bytes)) = (place, program.contents(number)?) else { continue };
            if bytes.len() as u64 != *length {
                let name = &program.tensors[number].name;
                let got = bytes.len();
                return Err(Error::new(
                    ErrorKind::Shape,
                    format!("tensor {name:?} has data of {got} bytes; it has {length}"),
                ));
            }
            self.hbm.bind(*address, *length)?;
            self.hbm.write(*address, &bytes)?;
        }
        let number = self.next_program;
        let kept = vec![Kept::default(); self.cores.len()];
        self.programs.insert(number, Program::new(program, places, on_chip, kept));
        self.next_program += 1;
        Ok(number)
    }

    /// Forgets a program; its tensors' bytes stay until others are placed there.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a program that there is not; [`ErrorKind::Busy`] while commands wait that need it.
    pub fn unload(&mut self, program: u64) -> Result<()> {
        self.program(program)?;
        let needs = |command: &crate::Command| match command {
            crate::Command::Run { program: needed, .. } | crate::Command::Step { program: needed, .. } => {
                *needed == program
            }
            _ => false,
        };
        let is_paused = self.is_paused_in(program);
        if is_paused || self.cores.iter().any(|core| core.queue.iter().any(|waiting| needs(&waiting.command))) {
            let text = format!("program {program} is needed by commands that wait; advance until they are done");
            return Err(Error::new(ErrorKind::Busy, text));
        }
        self.programs.remove(&program);
        Ok(())
    }

    /// Where a tensor of a program lies.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a program or a tensor that there is not.
    pub fn tensor(&self, program: u64, name: &str) -> Result<Placed> {
        let held = self.program(program)?;
        let declared = held.program.tensor(name)?;
        let number = held.names.get(name).copied().unwrap_or_default();
        let (space, address, bytes) =
            match (held.places.get(number).copied().flatten(), held.on_chip.get(number).copied().flatten()) {
                (Some((address, bytes)), _) => (MemorySpace::Hbm, address, bytes),
                (None, Some((partition, byte))) => {
                    let is_sbuf = declared.space == "sbuf";
                    let pitch = if is_sbuf { self.arch.sbuf_partition_bytes } else { self.arch.psum_partition_bytes() };
                    let free: usize = declared.shape.iter().skip(1).product();
                    let size = declared.dtype.parse::<trn3_machine::dtype::DType>()?.size();
                    let space = if is_sbuf { MemorySpace::Sbuf } else { MemorySpace::Psum };
                    (space, partition as u64 * pitch + byte as u64, (free * size) as u64)
                }
                (None, _) => return Err(Error::new(ErrorKind::Internal, format!("tensor {name:?} has no place"))),
            };
        Ok(Placed { space, address, bytes, shape: declared.shape.clone(), dtype: declared.dtype.clone() })
    }

    /// The program of a number.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a program that there is not.
    pub fn loaded(&self, program: u64) -> Result<&trn3_machine::Program> {
        Ok(&self.program(program)?.program)
    }

    /// What a program's kernel returned: views of its tensors.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a program that there is not.
    pub fn outputs(&self, program: u64) -> Result<&[Output]> {
        Ok(&self.program(program)?.program.outputs)
    }

    /// Reads one of what a program's kernel returned, as it is now: its elements in C order. `core` is the one that ran it.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a program, an output or a core that there is not.
    pub fn read_output(&mut self, program: u64, core: u32, number: usize) -> Result<OutputBytes> {
        let index = self.core_index(core)?;
        let read = self.with_laid(index, program, |loaded, machine| {
            let (name, view) = loaded.outputs.get(number).ok_or_else(|| {
                Error::value(format!("output is {number}; program {program} has {} (from 0)", loaded.outputs.len()))
            })?;
            let bytes = machine.state.peek_bytes(view)?;
            Ok(OutputBytes { name: name.clone(), bytes, shape: view.shape.to_vec(), dtype: view.dtype.to_string() })
        });
        read?
    }

    pub(crate) fn program(&self, program: u64) -> Result<&Program> {
        of_number(&self.programs, program)
    }

    /// The program over the memories of a core, as they are now.
    pub(crate) fn with_laid<R>(
        &mut self,
        core: usize,
        program: u64,
        work: impl FnOnce(&Loaded, &mut trn3_machine::core::NeuronCore) -> R,
    ) -> Result<R> {
        self.program(program)?;
        let Some(held) = self.programs.get_mut(&program) else {
            return Err(Error::new(ErrorKind::Internal, "a program went while it was looked at"));
        };
        let machine = &mut self.cores[core].machine;
        let laid = &mut held.laid[core];
        if laid.as_ref().is_none_or(|(generation, _)| *generation != self.hbm.generation()) {
            let before = laid.iter().flat_map(|(_, loaded)| loaded.tensors.iter().map(|tensor| tensor.id)).collect();
            let (functions, on_chip) = (&self.functions, &held.on_chip);
            let mut places = Places { hbm: &mut self.hbm, places: &held.places, before, on_chip, functions };
            let memory = &machine.state.memory;
            let loaded = held.program.lay(&self.arch, memory, &mut places, &Limits::default())?;
            if let Some((_, before)) = laid {
                held.kept[core] = before.kept(&machine.state.memory);
            }
            loaded.keep(&mut machine.state.memory, &held.kept[core])?;
            *laid = Some((self.hbm.generation(), loaded));
        }
        match laid {
            Some((_, loaded)) => Ok(work(loaded, machine)),
            None => Err(Error::new(ErrorKind::Internal, "a program lies nowhere")),
        }
    }

    /// Puts back a program of a snapshot, at the places it had.
    pub(crate) fn restored(
        &self,
        program: trn3_machine::Program,
        places: Vec<Option<(u64, u64)>>,
        kept: Vec<Kept>,
    ) -> Result<Program> {
        let on_chip = program.places(&self.arch, &self.functions, &Limits::default())?;
        let own = lengths(&program)?;
        let lengths_of =
            |places: &[Option<(u64, u64)>]| places.iter().map(|place| place.map(|(_, length)| length)).collect();
        let have: Vec<Option<u64>> = lengths_of(&places);
        let fits = |place: &Option<(u64, u64)>| {
            place.is_none_or(|(address, length)| {
                address.checked_add(length).is_some_and(|end| end <= self.hbm.capacity())
            })
        };
        if have != own || !places.iter().all(fits) || kept.len() != self.cores.len() {
            return Err(Error::value(format!("places of program {} do not fit its tensors", program.name)));
        }
        Ok(Program::new(program, places, on_chip, kept))
    }

    /// Places for a program's HBM tensors: those it gives, else the lowest free ones.
    fn place(&self, program: &trn3_machine::Program) -> Result<Vec<Option<(u64, u64)>>> {
        let others = self.programs.values().flat_map(|held| held.places.iter().flatten().copied());
        let mut taken: Vec<(u64, u64)> = others.collect();
        let lengths = lengths(program)?;
        let mut places = vec![None; lengths.len()];
        let mut own: Vec<(u64, u64)> = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            let (Some(length), Some(Place::Hbm(address))) = (length, program.tensors[number].address) else { continue };
            let end = address.checked_add(*length).filter(|&end| end <= self.hbm.capacity()).ok_or_else(|| {
                let name = &program.tensors[number].name;
                let text = format!("tensor {name:?} has {length} bytes at {address}; HBM has {}", self.hbm.capacity());
                Error::new(ErrorKind::Capacity, text)
            })?;
            places[number] = Some((address, *length));
            own.push((address, end));
        }
        own.sort_unstable();
        if let Some(pair) = own.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            return Err(Error::value(format!(
                "tensors of program {} overlap in HBM: one ends at {}, the next starts at {}",
                program.name, pair[0].1, pair[1].0
            )));
        }
        taken.iter_mut().for_each(|(address, length)| *length += *address);
        taken.extend(own);
        taken.sort_unstable();
        // One pass: free places between what is taken, in order; tensors are placed one after the other.
        let (mut at, mut next) = (0u64, 0);
        for (number, length) in lengths.iter().enumerate() {
            let Some(length) = length.filter(|_| places[number].is_none()) else { continue };
            let fail = || {
                let name = &program.tensors[number].name;
                Error::new(
                    ErrorKind::Capacity,
                    format!("HBM has no free {length} bytes in one piece for tensor {name:?}"),
                )
            };
            loop {
                at = at.checked_next_multiple_of(ALIGNMENT).ok_or_else(fail)?;
                let end = at.checked_add(length).filter(|&end| end <= self.hbm.capacity()).ok_or_else(fail)?;
                while taken.get(next).is_some_and(|(_, taken_end)| *taken_end <= at) {
                    next += 1;
                }
                // What is taken may overlap, so that a later entry may end later than the next one.
                let blocking = taken[next..].iter().take_while(|(start, _)| *start < end).map(|(_, end)| *end).max();
                match blocking.filter(|&blocking| blocking > at) {
                    Some(blocking) => at = blocking,
                    None => {
                        places[number] = Some((at, length));
                        at = end;
                        break;
                    }
                }
            }
        }
        Ok(places)
    }
}

/// The program of a number.
pub(crate) fn of_number(programs: &BTreeMap<u64, Program>, number: u64) -> Result<&Program> {
    programs.get(&number).ok_or_else(|| {
        let known: Vec<String> = programs.keys().take(16).map(u64::to_string).collect();
        Error::value(format!("program is {number}; loaded are: {}", known.join(", ")))
    })
}

/// Bytes of each HBM tensor; None on chip.
fn lengths(program: &trn3_machine::Program) -> Result<Vec<Option<u64>>> {
    let length = |tensor: &trn3_machine::program::Declaration| {
        if ["sbuf", "psum"].contains(&tensor.space.as_str()) {
            return Ok(None);
        }
        let size = tensor.dtype.parse::<trn3_machine::dtype::DType>()?.size();
        let bytes = tensor.shape.iter().try_fold(size, |bytes, &length| bytes.checked_mul(length));
        bytes
            .map(|bytes| Some(bytes as u64))
            .ok_or_else(|| Error::value(format!("tensor {:?} is too large", tensor.name)))
    };
    program.tensors.iter().map(length).collect()
}
