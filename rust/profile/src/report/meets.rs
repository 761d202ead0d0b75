//! One instruction on several cores or ranks: who had it with whom.

use std::collections::HashMap;

use serde::Serialize;
use trn3_machine::isa::rank_call::RankOperation;

use crate::meetings::TOGETHER;
use crate::report::runs::RunName;
use crate::report::view::RunView;

/// Most meetings that a report tells.
const MOST: usize = 10_000;

/// A core's part in what cores or ranks ran together.
#[derive(Serialize)]
pub(super) struct Meet {
    run: usize,
    row: usize,
}

fn is_of_ranks(opcode: &str) -> bool {
    RankOperation::ALL.iter().any(|call| call.name() == opcode)
}

/// Whether cores or ranks run an instruction together.
pub(super) fn is_together(opcode: &str) -> bool {
    TOGETHER.contains(&opcode) || is_of_ranks(opcode)
}

/// Who meets: the cores of a rank, or the ranks of a list.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Who {
    Cores(Option<usize>),
    Ranks(Vec<u64>),
}

/// The k-th of each that the same cores and ranks ran together, of those that not one core had alone.
pub(super) fn meetings(views: &[(RunView<'_>, RunName, usize)]) -> Vec<Vec<Meet>> {
    let mut found: Vec<Vec<Meet>> = Vec::new();
    let mut places: HashMap<(Who, usize), usize> = HashMap::new();
    for (run, (view, name, _)) in views.iter().enumerate().filter(|(_, (_, name, _))| name.is_main) {
        let recorded = &view.columns.recorded;
        let of_ranks: Vec<bool> = view.columns.opcodes.iter().map(|opcode| is_of_ranks(opcode)).collect();
        let together: Vec<bool> = view.columns.opcodes.iter().map(|opcode| is_together(opcode)).collect();
        let mut groups = recorded.met.iter().filter_map(|&place| recorded.groups.get(place as usize));
        let mut counts: HashMap<Who, usize> = HashMap::new();
        let opcodes = view.instructions.opcode.iter().map(|&opcode| usize::from(opcode)).enumerate();
        for (row, opcode) in opcodes.filter(|(_, opcode)| together[*opcode]) {
            let who = match of_ranks[opcode] {
                // Older documents do not say which ranks: all had it, then.
                true => Who::Ranks(groups.next().cloned().unwrap_or_default()),
                false => Who::Cores(name.rank),
            };
            let count = counts.entry(who.clone()).or_default();
            *count += 1;
            let place = *places.entry((who, *count)).or_insert_with(|| {
                found.push(Vec::new());
                found.len() - 1
            });
            found[place].push(Meet { run, row });
        }
    }
    found.retain(|meeting| meeting.len() > 1);
    found.truncate(MOST);
    found
}
