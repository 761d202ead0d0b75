//! The accountant: what each operation of a run by instructions took, and how it was computed.

use std::collections::{BTreeMap, HashMap};

use trn3_machine::core::NeuronCore;
use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::record::Record;

use crate::by_instructions::CoreRun;
use crate::graph::Graph;
use crate::location::Location;
use crate::template::{OperationRun, TemplateKind};

/// What one operation took.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountRow {
    /// Name and number, as its instructions are labelled.
    pub label: String,
    /// Its line.
    pub location: Option<Location>,
    /// How it was computed.
    pub template: TemplateKind,
    /// Whether no engine has it, so that a function of GpSimdE stands in.
    pub is_fallback: bool,
    /// Physical cores that its instructions run on.
    pub cores: u32,
    /// Its instructions.
    pub instructions: u64,
    /// The engine that it keeps busy longest, on either core; None without instructions.
    pub engine: Option<Engine>,
    /// How long that engine is busy with it.
    pub busy: Picos,
    /// From its first start to its last result.
    pub span: Picos,
    /// Bytes read from HBM and written to it.
    pub hbm_bytes: u64,
    /// Multiply-adds.
    pub macs: u64,
    /// Of its span, what that engine is busy: 0 to 1.
    pub utilisation: f64,
}

#[derive(Default)]
struct Sum {
    cores: u32,
    instructions: u64,
    /// Stretches by core and engine; transfers overlap one another.
    busy: HashMap<(usize, Engine), Vec<(Picos, Picos)>>,
    first: Option<Picos>,
    last: Picos,
    hbm_bytes: u64,
    macs: u64,
}

impl Sum {
    fn add(&mut self, core: usize, record: &Record) {
        self.instructions += 1;
        self.busy.entry((core, record.engine)).or_default().push((record.start, record.slot_end));
        self.first = Some(self.first.map_or(record.issued, |first| first.min(record.issued)));
        self.last = self.last.max(record.end);
        self.hbm_bytes += record.hbm_read + record.hbm_write;
        self.macs += record.macs;
    }
}

/// How long any of the stretches lasts.
fn covered(mut stretches: Vec<(Picos, Picos)>) -> Picos {
    stretches.sort_unstable();
    let (mut all, mut reached) = (Picos::ZERO, Picos::ZERO);
    for (start, end) in stretches {
        let start = start.max(reached);
        if end > start {
            all += end - start;
            reached = end;
        }
    }
    all
}

/// What cores do together is no work of theirs.
const BARRIER: &str = "core_barrier";

fn sums(cores: &mut [NeuronCore]) -> HashMap<String, Sum> {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    for (number, core) in cores.iter_mut().enumerate() {
        core.timeline.schedule();
        let mut by_label: HashMap<u32, Vec<Record>> = HashMap::new();
        for record in core.timeline.records() {
            by_label.entry(record.label).or_default().push(record);
        }
        for (label, records) in by_label {
            let Some(label) = core.opcodes.labels().get(label as usize) else { continue };
            let sum = sums.entry(label.clone()).or_default();
            let is_work = |record: &Record| core.opcodes.opcodes().get(record.opcode as usize) != Some(&BARRIER);
            sum.cores += u32::from(records.iter().any(is_work));
            records.iter().for_each(|record| sum.add(number, record));
        }
    }
    sums
}

impl CoreRun {
    /// What each operation of the graph's own body took, in their order. Operations of loops and cases are counted where
    /// their loop or case stands.
    pub fn account(&mut self, graph: &Graph) -> Vec<AccountRow> {
        let lines = graph.body.nodes().iter().map(|node| (node.label(), graph.location(node).cloned()));
        let lines: HashMap<String, Option<Location>> = lines.collect();
        let mut rows = account_rows(&mut self.cores, &self.operations);
        rows.iter_mut().for_each(|row| row.location = lines.get(&row.label).cloned().flatten());
        rows
    }
}

/// What each of these operations took on cores, without their lines.
pub(crate) fn account_rows(cores: &mut [NeuronCore], operations: &[OperationRun]) -> Vec<AccountRow> {
    let mut sums = sums(cores);
    let row = |run: &OperationRun| {
        let sum = sums.remove(&run.label).unwrap_or_default();
        let busy = sum.busy.into_iter().map(|((_, engine), stretches)| (covered(stretches), engine));
        let longest = busy.max_by_key(|&(busy, engine)| (busy, std::cmp::Reverse(engine)));
        let (busy, engine) = longest.map_or((Picos::ZERO, None), |(busy, engine)| (busy, Some(engine)));
        let span = sum.first.map_or(Picos::ZERO, |first| sum.last - first);
        AccountRow {
            label: run.label.clone(),
            location: None,
            template: run.template,
            is_fallback: run.template == TemplateKind::GpSimdFunction,
            cores: sum.cores,
            instructions: sum.instructions,
            engine,
            busy,
            span,
            hbm_bytes: sum.hbm_bytes,
            macs: sum.macs,
            utilisation: part_of(busy, span),
        }
    };
    operations.iter().map(row).collect()
}

/// A time as part of a longer one; 0 of none.
pub(crate) fn part_of(busy: Picos, span: Picos) -> f64 {
    if span == Picos::ZERO { 0.0 } else { busy.microseconds() / span.microseconds() }
}

/// How long each engine is busy, on the core where it is longer.
pub(crate) fn busy_by_engine(cores: &mut [NeuronCore]) -> BTreeMap<Engine, Picos> {
    let mut longest: BTreeMap<Engine, Picos> = BTreeMap::new();
    for core in cores {
        core.timeline.schedule();
        let mut stretches: BTreeMap<Engine, Vec<(Picos, Picos)>> = BTreeMap::new();
        for record in core.timeline.records() {
            stretches.entry(record.engine).or_default().push((record.start, record.slot_end));
        }
        for (engine, stretches) in stretches {
            let most = longest.entry(engine).or_insert(Picos::ZERO);
            *most = covered(stretches).max(*most);
        }
    }
    longest
}
