//! Which line of the kernel a call came from: the innermost frame that is not the package's own.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use trn3_machine::site::{Site, SiteId, Sites};

static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Of addresses, which nobody outside chooses: a lookup costs every instruction.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }
}

type ByAddress<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Most calls that are told of a line.
const DEEPEST: usize = 32;

fn site_of(frame: &Bound<'_, PyAny>) -> PyResult<Site> {
    let (code, line): (_, Option<u32>) = (frame.getattr("f_code")?, frame.getattr("f_lineno")?.extract()?);
    Ok(Site {
        file: code.getattr("co_filename")?.extract()?,
        line: line.unwrap_or(0),
        function: code.getattr("co_name")?.extract()?,
    })
}

/// Folders whose code is no kernel, and code whose path was looked at: the same for all cores of a front end, since a launch
/// has no time to look at the paths of all that leads to it.
#[derive(Default)]
pub(crate) struct Folders {
    /// The package itself.
    internal: Vec<String>,
    /// Commands: beyond their code is none of a person's.
    commands: Vec<String>,
    /// Kept so that addresses stay theirs.
    known: Mutex<ByAddress<usize, (Py<PyAny>, Whose)>>,
}

/// Code objects that are known at a time **(choice)**: kernels that a program makes on its way do not stay.
const MOST_KNOWN: usize = 4096;

impl Folders {
    /// The folders of these names.
    pub(crate) fn shared(internal: Vec<String>, commands: Vec<String>) -> Arc<Self> {
        static ALL: Mutex<Vec<Arc<Folders>>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.internal == internal && known.commands == commands) {
            return Arc::clone(known);
        }
        let made = Arc::new(Self { internal, commands, ..Self::default() });
        all.push(Arc::clone(&made));
        made
    }

    fn whose(&self, code: &Bound<'_, PyAny>) -> PyResult<Whose> {
        let address = code.as_ptr() as usize;
        if let Some((_, whose)) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return Ok(*whose);
        }
        let file: String = code.getattr("co_filename")?.extract()?;
        let is_in = |folders: &[String]| folders.iter().any(|folder| file.starts_with(folder.as_str()));
        let whose = match (is_in(&self.commands), is_in(&self.internal)) {
            (true, _) => Whose::Command,
            (false, true) => Whose::Package,
            (false, false) => Whose::Kernel,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // What goes is let go of with the lock open: it may run code of Python's.
        let gone = if known.len() < MOST_KNOWN { None } else { Some(std::mem::take(&mut *known)) };
        known.insert(address, (code.clone().unbind(), whose));
        drop(known);
        drop(gone);
        Ok(whose)
    }
}

/// Lines by code object and instruction offset: the line itself is looked up once.
pub(crate) struct Lines {
    /// Code objects are kept so that their addresses stay theirs.
    codes: ByAddress<usize, (Py<PyAny>, Whose)>,
    sites: ByAddress<(usize, i64), SiteId>,
    /// The calls through which a line was first reached, where the kernel calls functions of its own: outermost first.
    callers: BTreeMap<SiteId, Vec<Site>>,
    folders: Arc<Folders>,
    /// Whether callers are kept: reports alone show them, and whoever calls a kernel may be called from far.
    keeps_callers: bool,
}

/// Whose code it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Somebody's kernel, or what runs it.
    Kernel,
    /// The package's.
    Package,
    /// A command's.
    Command,
}

impl Lines {
    /// Code in files under the folders is no kernel, and there is none outside of code of commands.
    pub(crate) fn new(folders: Arc<Folders>, keeps_callers: bool) -> Self {
        let (codes, sites) = (ByAddress::default(), ByAddress::default());
        Self { codes, sites, callers: BTreeMap::new(), folders, keeps_callers }
    }

    /// The line that is calling, or 0 outside any.
    pub(crate) fn here(&mut self, py: Python<'_>, sites: &Sites) -> PyResult<SiteId> {
        let get_frame =
            GET_FRAME.get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("_getframe")?.unbind()))?;
        let Ok(mut frame) = get_frame.bind(py).call0() else { return Ok(SiteId::default()) };
        loop {
            let code = frame.getattr(pyo3::intern!(py, "f_code"))?;
            let address = code.as_ptr() as usize;
            let whose = match self.codes.get(&address) {
                Some((_, whose)) => *whose,
                None => {
                    let whose = self.folders.whose(&code)?;
                    self.codes.insert(address, (code.clone().unbind(), whose));
                    whose
                }
            };
            match whose {
                Whose::Kernel => return self.line(&frame, address, sites),
                Whose::Command => return Ok(SiteId::default()),
                Whose::Package => {}
            }
            let back = frame.getattr(pyo3::intern!(py, "f_back"))?;
            if back.is_none() {
                return Ok(SiteId::default());
            }
            frame = back;
        }
    }

    fn line(&mut self, frame: &Bound<'_, PyAny>, address: usize, sites: &Sites) -> PyResult<SiteId> {
        let py = frame.py();
        let offset: i64 = frame.getattr(pyo3::intern!(py, "f_lasti"))?.extract()?;
        if let Some(&known) = self.sites.get(&(address, offset)) {
            return Ok(known);
        }
        let number = sites.intern(site_of(frame)?);
        self.sites.insert((address, offset), number);
        if self.keeps_callers {
            let callers = self.callers_of(frame)?;
            if !callers.is_empty() {
                self.callers.entry(number).or_insert(callers);
            }
        }
        Ok(number)
    }

    /// The innermost calls that led to a frame, outermost first, up to whoever runs the kernel.
    fn callers_of(&self, frame: &Bound<'_, PyAny>) -> PyResult<Vec<Site>> {
        let (mut callers, mut frame) = (Vec::new(), frame.clone());
        loop {
            frame = frame.getattr("f_back")?;
            if frame.is_none() {
                // Nobody of the package runs it: a core that is driven by hand has no kernel.
                return Ok(Vec::new());
            }
            if self.folders.whose(&frame.getattr("f_code")?)? != Whose::Kernel {
                break;
            }
            let site = site_of(&frame)?;
            // A function that calls itself is told once.
            if callers.len() < DEEPEST && callers.last() != Some(&site) {
                callers.push(site);
            }
        }
        callers.reverse();
        Ok(callers)
    }

    /// The calls through which lines were first reached, by their numbers.
    pub(crate) fn callers(&self) -> &BTreeMap<SiteId, Vec<Site>> {
        &self.callers
    }
}
