//! What the timeline needs of instructions: what they cost, read and write.

use smallvec::SmallVec;

use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::isa::{Instruction, OperandRole};
use crate::site::SiteId;
use crate::time::Picos;
use crate::timing::region::{Rect, Region, Space};
use crate::timing::timeline::TimedInstruction;
use crate::timing::work::Work;
use crate::trace::Draft;
use crate::view::{Dynamic, ScalarIndex, View};

/// What the timeline needs of an issued instruction.
pub(super) struct Pending {
    pub(super) opcode: u16,
    pub(super) engine: Engine,
    pub(super) site: SiteId,
    pub(super) label: u32,
    pub(super) work: Work,
    pub(super) reads: Regions,
    pub(super) stationary: Regions,
    pub(super) writes: Regions,
    pub(super) after: SmallVec<[u32; 2]>,
    pub(super) dynamic: bool,
    pub(super) macs: (u64, u64),
    /// What a trace says of it, where one is kept.
    pub(super) draft: Option<Box<Draft>>,
}

impl Pending {
    /// One whose places are taken later, which it is made with once and keeps for those that come after it.
    pub(super) fn empty() -> Box<Self> {
        Box::new(Self {
            opcode: 0,
            engine: Engine::Sync,
            site: SiteId::default(),
            label: 0,
            work: Work::Compute { interval: Picos::ZERO, latency: Picos::ZERO, table: None },
            reads: Regions::new(),
            stationary: Regions::new(),
            writes: Regions::new(),
            after: SmallVec::new(),
            dynamic: false,
            macs: (0, 0),
            draft: None,
        })
    }

    pub(super) fn issue(&self) -> TimedInstruction<'_> {
        TimedInstruction {
            opcode: self.opcode,
            engine: self.engine,
            site: self.site,
            label: self.label,
            work: self.work.clone(),
            reads: &self.reads,
            stationary_reads: &self.stationary,
            writes: &self.writes,
            after: &self.after,
            dynamic: self.dynamic,
            macs: self.macs.0,
            peak_macs_per_cycle: self.macs.1,
        }
    }
}

pub(super) type Regions = SmallVec<[Region; 3]>;

/// What the timeline needs of an instruction that costs `work`, from its operands alone.
pub fn instruction_issue<R>(
    instruction: &dyn Instruction,
    arch: &ArchSpec,
    work: Work,
    take: impl FnOnce(&TimedInstruction<'_>) -> R,
) -> R {
    let (mut reads, mut stationary, mut writes) = (Regions::new(), Regions::new(), Regions::new());
    let dynamic = regions_of(instruction, &mut reads, &mut stationary, &mut writes);
    let (macs, peak_macs_per_cycle) = instruction.macs(arch);
    take(&TimedInstruction {
        opcode: 0,
        engine: instruction.engine(arch),
        site: SiteId::default(),
        label: 0,
        work,
        reads: &reads,
        stationary_reads: &stationary,
        writes: &writes,
        after: &[],
        dynamic,
        macs,
        peak_macs_per_cycle,
    })
}

/// What an instruction reads and writes; true if one of its addresses is known only when it executes.
pub(super) fn regions_of(
    instruction: &dyn Instruction,
    reads: &mut Regions,
    stationary: &mut Regions,
    writes: &mut Regions,
) -> bool {
    let mut dynamic = false;
    instruction.operands(&mut |role, view| {
        let region = view.regions();
        dynamic |= address_regions(view, reads);
        match role {
            OperandRole::Read => reads.push(region),
            OperandRole::Stationary => stationary.push(region),
            OperandRole::Write => writes.push(region),
            OperandRole::Update => {
                reads.push(region.clone());
                writes.push(region);
            }
        }
    });
    instruction.registers(&mut |role, register| {
        let region = register_region(register.id);
        if role == OperandRole::Read { reads.push(region) } else { writes.push(region) }
    });
    dynamic
}

/// Adds what a view's address is read from; true if there is anything.
fn address_regions(view: &View, reads: &mut Regions) -> bool {
    let Some(dynamic) = &view.dynamic else { return false };
    match &**dynamic {
        Dynamic::Scalar { index: ScalarIndex::Element(index), .. }
        | Dynamic::Rows { index, .. }
        | Dynamic::Columns { index, .. } => {
            reads.push(index.regions());
        }
        Dynamic::Scalar { index: ScalarIndex::Register(register), .. } => reads.push(register_region(register.id)),
    }
    matches!(&**dynamic, Dynamic::Scalar { .. })
}

fn register_region(id: u64) -> Region {
    let mut rects = SmallVec::new();
    rects.push(Rect { rows: 0..1, columns: 0..1 });
    Region { space: Space::Register(id), rects }
}
