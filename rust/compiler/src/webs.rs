//! Values on chip: what a tensor without an address holds from a step that sets all of it to the last use before the next
//! such step. A tensor that a kernel makes once and fills in every iteration is as many values as there are iterations,
//! each of which may lie elsewhere.

use trn3_machine::trace::{NONE, Trace, TraceStep, TraceTensor, Use};

/// One value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Web {
    /// The tensor.
    pub(crate) tensor: u32,
    /// Whether it is the first value of its tensor.
    pub(crate) is_first: bool,
    begin: u32,
    end: u32,
}

/// The values of a trace, and which steps use them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Webs {
    webs: Vec<Web>,
    uses: Vec<u32>,
    steps: Vec<u32>,
    of_steps: Vec<u32>,
}

impl Webs {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut found = Self { steps: Vec::with_capacity(trace.steps.len() + 1), ..Self::default() };
        let mut now = vec![NONE; trace.tensors.len()];
        found.steps.push(0);
        for step in &trace.steps {
            let first = found.of_steps.len();
            for operand in &step.operands {
                let tensor = &trace.tensors[operand.tensor as usize];
                if tensor.open().is_none() {
                    continue;
                }
                let known = now[operand.tensor as usize];
                if known != NONE && found.of_steps[first..].contains(&known) {
                    continue;
                }
                if known == NONE || sets_all(step, operand.tensor, tensor) {
                    now[operand.tensor as usize] = found.webs.len() as u32;
                    let web = Web { tensor: operand.tensor, is_first: known == NONE, begin: 0, end: 0 };
                    found.webs.push(web);
                }
                let web = now[operand.tensor as usize];
                found.of_steps.push(web);
                found.webs[web as usize].end += 1;
            }
            found.steps.push(found.of_steps.len() as u32);
        }
        let mut begin = 0;
        for web in &mut found.webs {
            (web.begin, web.end, begin) = (begin, begin, begin + web.end);
        }
        found.uses = vec![0; found.of_steps.len()];
        for step in 0..trace.steps.len() {
            for at in found.steps[step] as usize..found.steps[step + 1] as usize {
                let web = &mut found.webs[found.of_steps[at] as usize];
                found.uses[web.end as usize] = step as u32;
                web.end += 1;
            }
        }
        found
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.webs.len()
    }

    pub(crate) fn get(&self, web: u32) -> Web {
        self.webs[web as usize]
    }

    /// The steps that use a value, in their order.
    pub(crate) fn uses(&self, web: u32) -> &[u32] {
        let Web { begin, end, .. } = self.webs[web as usize];
        &self.uses[begin as usize..end as usize]
    }

    /// The values that a step uses, each once.
    pub(crate) fn at(&self, step: usize) -> &[u32] {
        &self.of_steps[self.first(step)..self.first(step + 1)]
    }

    /// Where those of a step begin among those of all.
    pub(crate) fn first(&self, step: usize) -> usize {
        self.steps[step] as usize
    }

    /// Uses of all of them.
    pub(crate) fn all_uses(&self) -> usize {
        self.of_steps.len()
    }
}

/// Whether a step sets all of a tensor, whatever was in it.
fn sets_all(step: &TraceStep, number: u32, tensor: &TraceTensor) -> bool {
    let own = || step.operands.iter().filter(|operand| operand.tensor == number);
    step.marks.overwrites
        && own().all(|operand| {
            operand.usage == Use::Write
                && operand
                    .rects
                    .iter()
                    .any(|rect| rect.rows == (0..u64::from(tensor.partitions)) && rect.columns == (0..tensor.bytes))
        })
}
