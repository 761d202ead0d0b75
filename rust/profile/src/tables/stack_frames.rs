//! The calls that instructions come from, as the four tables in which Neuron Explorer keeps stack frames. Their entries
//! go by numbers from 1 on, most of them as text, as there.

use crate::columns_by_name::{ProfileTable, TableColumn};
use crate::profile::Profile;
use crate::run_columns::RunColumns;
use crate::shared::Shared;

/// The parent of the outermost frame.
const NO_PARENT: u64 = 0;

/// Frames of all cores of a profile, each once.
#[derive(Debug, Default)]
pub(crate) struct StackFrames {
    files: Shared<String>,
    functions: Shared<String>,
    /// File and function by their numbers, and a line.
    locations: Shared<(u64, u64, u32)>,
    /// Location and caller by their numbers.
    frames: Shared<(u64, u64)>,
    /// Of each core, what `stack_frame_ids` of the instructions of each site are.
    ids: Vec<Vec<String>>,
}

impl StackFrames {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut made = Self::default();
        made.ids = profile.cores().iter().map(|core| made.take(core.columns())).collect();
        made
    }

    /// Of each core's sites, its frame as a list in words; of an unknown line an empty text.
    pub(crate) fn ids(&self, core: usize) -> Vec<String> {
        self.ids[core].clone()
    }

    fn take(&mut self, columns: &RunColumns) -> Vec<String> {
        let sites = columns.sites.iter().enumerate();
        let of_site = |(number, site): (usize, &(String, u32, String))| {
            if site.1 == 0 {
                return String::new();
            }
            let callers = columns.recorded.callers.get(&(number as u32));
            let stack = callers.into_iter().flatten().chain([site]);
            format!("[{}]", stack.fold(NO_PARENT, |caller, place| self.frame(place, caller)))
        };
        sites.map(of_site).collect()
    }

    /// The number of the frame at a place that another frame called.
    fn frame(&mut self, (file, line, function): &(String, u32, String), caller: u64) -> u64 {
        let file = self.files.number(file) + 1;
        let function = self.functions.number(function) + 1;
        let location = self.locations.number(&(file, function, *line)) + 1;
        self.frames.number(&(location, caller)) + 1
    }

    /// The table of one of the four names; None for another one.
    pub(crate) fn table(&self, name: &str) -> Option<ProfileTable> {
        let mut table = ProfileTable::default();
        match name {
            "StackFrame" => {
                let frames = &self.frames.list;
                numbered(&mut table, frames.len());
                table.integers("file_location_id", frames.iter().map(|&(location, _)| location as i64));
                texts(&mut table, "parent_frame_id", frames.iter().map(|(_, caller)| caller.to_string()).collect());
            }
            "StackFrameFileLocation" => {
                let locations = &self.locations.list;
                numbered(&mut table, locations.len());
                table.integers("file_name_id", locations.iter().map(|&(file, ..)| file as i64));
                table.integers("function_name_id", locations.iter().map(|&(_, function, _)| function as i64));
                table.integers("line_number", locations.iter().map(|&(.., line)| i64::from(line)));
            }
            "StackFrameFileName" | "StackFrameFunctionName" => {
                let names = if name == "StackFrameFileName" { &self.files.list } else { &self.functions.list };
                numbered(&mut table, names.len());
                texts(&mut table, "name", names.clone());
            }
            _ => return None,
        }
        Some(table)
    }
}

fn texts(table: &mut ProfileTable, name: &str, names: Vec<String>) {
    let places = (0..names.len() as u32).collect();
    table.put(name, TableColumn::Names { names, places });
}

fn numbered(table: &mut ProfileTable, rows: usize) {
    texts(table, "id", (1..=rows).map(|number| number.to_string()).collect());
}
