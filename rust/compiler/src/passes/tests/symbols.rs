//! What a trace computes, in symbols: every cell of every tensor holds a number that stands for a value.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, Trace, TraceOperand, Use};

use super::kernels::unit;

const ZERO: u64 = 0;

fn symbol(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

type Cell = (u32, u64, u64);

fn cells(trace: &Trace, operand: &TraceOperand) -> Vec<Cell> {
    let unit = unit(&trace.tensors[operand.tensor as usize]);
    let mut found = Vec::new();
    for rect in &operand.rects {
        for row in rect.rows.clone() {
            found.extend(
                (rect.columns.start / unit..rect.columns.end / unit).map(|column| (operand.tensor, row, column)),
            );
        }
    }
    found
}

/// What is in HBM in the end, and what each step saw that is no function of its inputs alone, by its source.
pub(super) fn results(trace: &Trace) -> (BTreeMap<(u64, u64, u64), u64>, BTreeMap<u32, u64>) {
    let mut memory: HashMap<Cell, u64> = HashMap::new();
    let mut products: HashSet<Cell> = HashSet::new();
    let mut seen = BTreeMap::new();
    let read = |memory: &HashMap<Cell, u64>, cell: Cell, fences: u32| {
        // What nobody wrote is the same in all tiles that stand for one another; other cores write HBM between fences.
        let home = trace.tensors[cell.0 as usize].home;
        let name = if matches!(home, Home::Hbm(_)) { (cell.0, fences) } else { (u32::MAX, 0) };
        memory.get(&cell).copied().unwrap_or_else(|| symbol(("unwritten", name, cell.1, cell.2)))
    };
    let mut fences = 0;
    for step in &trace.steps {
        fences += u32::from(step.marks.is_fence);
        let own = |operand: &&TraceOperand| {
            step.marks.joins_products && step.writes().any(|output| output.tensor == operand.tensor)
        };
        let inputs: Vec<Vec<u64>> = step
            .reads()
            .filter(|operand| !own(operand))
            .map(|operand| cells(trace, operand).into_iter().map(|cell| read(&memory, cell, fences)).collect())
            .collect();
        let is_product = matches!(step.work, Work::Matmul { .. });
        if step.marks.is_fence || step.fingerprint.is_none() {
            seen.insert(step.source, symbol(&inputs));
        }
        for (output, operand) in step.operands.iter().filter(|operand| operand.usage == Use::Write).enumerate() {
            for (place, cell) in cells(trace, operand).into_iter().enumerate() {
                if !step.marks.overwrites && !step.marks.joins_products && place % 2 == 1 {
                    continue;
                }
                let own = (step.fingerprint.is_none()).then_some(step.source);
                let made = match () {
                    () if step.marks.copies => inputs[0][place],
                    () if step.marks.fills_zero => ZERO,
                    () => symbol((step.label, &inputs, output, place, own)),
                };
                let joins = step.marks.joins_products && products.contains(&cell);
                let made = if joins { symbol(("sum", read(&memory, cell, fences), made)) } else { made };
                memory.insert(cell, made);
                if is_product {
                    products.insert(cell);
                }
            }
        }
    }
    let hbm = memory.into_iter().filter_map(|((tensor, row, column), value)| {
        let Home::Hbm(number) = trace.tensors[tensor as usize].home else { return None };
        Some(((number, row, column), value))
    });
    (hbm.collect(), seen)
}
