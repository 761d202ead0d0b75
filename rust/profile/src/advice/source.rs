//! What advice is looked for in: a run's graph, and what its instructions could be instead.

use std::sync::Arc;

use trn3_machine::core::{Choices, NeuronCore};
use trn3_machine::site::{Site, SiteId};
use trn3_machine::storage::Buffer;
use trn3_machine::timing::graph::{EdgeKind, RunGraph};

use crate::text::printable;

pub(super) struct RunSource {
    pub(super) graph: Arc<RunGraph>,
    choices: Option<Choices>,
    sites: Vec<Site>,
    opcodes: Vec<&'static str>,
    /// Bytes of a partition of SBUF and of PSUM that are never in use.
    spare: [u64; 2],
    pub(super) is_compiled: bool,
}

impl RunSource {
    pub(super) fn of(core: &NeuronCore, graph: Arc<RunGraph>, peaks: [u64; 2], is_compiled: bool) -> Self {
        let arch = core.arch();
        let all = [arch.sbuf_usable_bytes(), arch.psum_partition_bytes()];
        let choices = core.choices().filter(|choices| choices.len() == graph.steps().len() && !is_compiled);
        Self {
            graph,
            choices: choices.cloned(),
            sites: core.sites.all(),
            opcodes: core.opcodes.opcodes().to_vec(),
            spare: [all[0].saturating_sub(peaks[0]), all[1].saturating_sub(peaks[1])],
            is_compiled,
        }
    }

    /// The same with all rows as they came: a search goes through them again and again.
    pub(super) fn opened(&self) -> Self {
        Self {
            graph: Arc::new(self.graph.opened()),
            choices: self.choices.as_ref().map(Choices::opened),
            sites: self.sites.clone(),
            opcodes: self.opcodes.clone(),
            ..*self
        }
    }

    pub(super) fn choices(&self) -> Option<&Choices> {
        self.choices.as_ref()
    }

    pub(super) fn spare(&self, buffer: Buffer) -> u64 {
        self.spare[usize::from(buffer == Buffer::Psum)]
    }

    /// Steps of a line, in their order.
    pub(super) fn steps_of(&self, site: SiteId) -> Vec<u32> {
        let steps = self.graph.steps().iter().enumerate();
        steps.filter(|(_, step)| step.site == site).map(|(number, _)| number as u32).collect()
    }

    /// Whether anything uses what each step wrote, in the order of steps.
    pub(super) fn read(&self) -> Vec<bool> {
        let mut read = vec![false; self.graph.steps().len()];
        for step in 0..read.len() {
            for edge in self.graph.edges(step) {
                if matches!(edge.kind, EdgeKind::Result | EdgeKind::Sum) {
                    read[edge.on as usize] = true;
                }
            }
        }
        read
    }

    pub(super) fn line(&self, site: SiteId) -> u32 {
        self.sites.get(site.0 as usize).map_or(0, |site| site.line)
    }

    /// `file:line`.
    pub(super) fn location(&self, site: SiteId) -> String {
        let known = self.sites.get(site.0 as usize).filter(|site| site.line > 0);
        known.map_or_else(String::new, |site| format!("{}:{}", site.file, site.line))
    }

    /// A line in words, beside others: of several files with the file.
    pub(super) fn words(&self, site: SiteId) -> String {
        let Some(known) = self.sites.get(site.0 as usize) else { return "a line".to_owned() };
        let mut files =
            self.graph.steps().iter().map(|step| self.sites.get(step.site.0 as usize).map(|site| &site.file));
        let first = files.next().flatten();
        if files.all(|file| file == first) {
            return format!("line {}", known.line);
        }
        let name = known.file.rsplit('/').next().unwrap_or(&known.file);
        format!("{}:{}", printable(name), known.line)
    }

    /// An instruction in words: its name and its line.
    pub(super) fn called(&self, step: u32) -> String {
        let step = &self.graph.steps().at(step as usize);
        let name = self.opcodes.get(usize::from(step.opcode)).copied().unwrap_or("an instruction");
        format!("`{name}` ({})", self.words(step.site))
    }
}
