//! Which operations go together.
//!
//! Operations are taken in order. Each has a level above those of all that it takes; what is in one chain has one level,
//! so that nothing outside of a chain can stand between two of its operations.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

use super::lanes::{Chain, is_step};
use super::look::Look;
use crate::graph::Body;

/// The most operations of a chain **(choice)**.
const LONGEST: usize = 96;
/// Results of fewer elements are not worth a chain of their own **(choice)**.
const FEWEST: usize = 4096;

/// What runs at a time.
#[derive(Clone, Debug)]
pub(crate) enum PlanStep {
    /// One operation, by its place in the body.
    One(usize),
    /// Several.
    Chain(Box<Chain>),
}

/// How a body runs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In order.
    pub(crate) steps: Vec<PlanStep>,
}

#[derive(Debug, Default)]
struct Draft {
    level: usize,
    /// None for one operation that is in no chain.
    chain: Option<Chain>,
    /// Places of its operations.
    nodes: Vec<usize>,
    /// Those that take what it makes.
    dependents: Vec<usize>,
    /// A look at what it makes has to be in memory.
    is_looked_at: bool,
    /// The draft that it went into.
    joined: Option<usize>,
}

struct Planner<'b> {
    body: &'b Body,
    looks: Vec<Option<Look>>,
    /// The node that makes each value.
    makers: Vec<Option<usize>>,
    drafts: Vec<Draft>,
    draft_of: Vec<Option<usize>>,
    /// Looks that have to be in memory, by the nodes that make them.
    wanted: BTreeSet<usize>,
}

impl Plan {
    /// The plan of a body.
    pub(crate) fn new(body: &Body) -> Self {
        let count = body.types().len();
        let mut planner = Planner {
            body,
            looks: vec![None; count],
            makers: vec![None; count],
            drafts: Vec::new(),
            draft_of: vec![None; count],
            wanted: BTreeSet::new(),
        };
        for place in 0..body.nodes().len() {
            planner.place(place);
        }
        for &output in body.outputs() {
            planner.want(output);
        }
        planner.finish()
    }
}

impl Planner<'_> {
    fn root(&self, mut draft: usize) -> usize {
        while let Some(next) = self.drafts[draft].joined {
            draft = next;
        }
        draft
    }

    /// The draft that makes a value, or what it looks at.
    fn source(&self, value: u32) -> Option<usize> {
        let value = self.looks[value as usize].as_ref().map_or(value, |look| look.base);
        self.draft_of[value as usize].map(|draft| self.root(draft))
    }

    /// The level at which a value is in memory.
    fn level(&self, value: u32) -> usize {
        match (self.looks[value as usize].is_some(), self.makers[value as usize]) {
            (true, Some(maker)) => self.level(self.body.nodes()[maker].operands[0]) + 1,
            _ => self.source(value).map_or(0, |draft| self.drafts[draft].level),
        }
    }

    /// Has a value in memory, if it is a look.
    fn want(&mut self, value: u32) {
        let (true, Some(maker)) = (self.looks[value as usize].is_some(), self.makers[value as usize]) else { return };
        if self.wanted.insert(maker) {
            if let Some(draft) = self.source(value) {
                self.drafts[draft].is_looked_at = true;
            }
            self.want(self.body.nodes()[maker].operands[0]);
        }
    }

    fn take(&mut self, draft: usize, values: &[u32]) {
        for &value in values {
            self.want(value);
            if let Some(source) = self.source(value) {
                self.drafts[source].dependents.push(draft);
            }
        }
    }

    fn place(&mut self, place: usize) {
        let node = &self.body.nodes()[place];
        for value in node.result_numbers() {
            self.makers[value as usize] = Some(place);
        }
        if let Some(look) = Look::of(self.body, node, &self.looks) {
            self.looks[node.first_result as usize] = Some(look);
            return;
        }
        if is_step(self.body, node) && self.chained(place) {
            return;
        }
        let level = node.operands.iter().map(|&value| self.level(value)).max().unwrap_or(0) + 1;
        self.drafts.push(Draft { level, nodes: vec![place], ..Draft::default() });
        let draft = self.drafts.len() - 1;
        node.result_numbers().for_each(|value| self.draft_of[value as usize] = Some(draft));
        self.take(draft, &node.operands);
    }

    /// Puts a node into a chain, with as many of those that it takes from as go together.
    fn chained(&mut self, place: usize) -> bool {
        let node = &self.body.nodes()[place];
        let mut near: Vec<usize> = node.operands.iter().filter_map(|&value| self.source(value)).collect();
        near.sort_unstable_by_key(|&draft| (Reverse(self.drafts[draft].level), draft));
        near.dedup();
        let mut set: Vec<usize> = Vec::new();
        let mut made: Option<Chain> = None;
        for draft in near.into_iter().filter(|&draft| self.drafts[draft].chain.is_some()) {
            set.push(draft);
            match self.joined(&set, place) {
                Some(chain) => made = Some(chain),
                None => {
                    set.pop();
                }
            }
        }
        let largest = node.operands.iter().copied().chain(node.result_numbers());
        let largest = largest.map(|value| self.body.types()[value as usize].elements()).max().unwrap_or(0);
        if made.is_none() && largest >= FEWEST {
            made = Chain::new(self.body, &self.looks, &[place]);
        }
        let Some(chain) = made else { return false };
        let given: Vec<u32> = chain.given().collect();
        let below = given.iter().map(|&value| self.level(value)).max().unwrap_or(0) + 1;
        let level = set.iter().map(|&draft| self.drafts[draft].level).max().unwrap_or(below);
        let dependents: Vec<usize> =
            set.iter().flat_map(|&draft| std::mem::take(&mut self.drafts[draft].dependents)).collect();
        let is_looked_at = set.iter().any(|&draft| self.drafts[draft].is_looked_at);
        let nodes = chain.nodes.clone();
        self.drafts.push(Draft { level, chain: Some(chain), nodes, dependents, is_looked_at, joined: None });
        let draft = self.drafts.len() - 1;
        set.iter().for_each(|&old| {
            self.drafts[old].joined = Some(draft);
            self.drafts[old].chain = None;
        });
        self.drafts[draft].dependents.retain(|dependent| !set.contains(dependent));
        self.draft_of[node.first_result as usize] = Some(draft);
        self.take(draft, &given);
        true
    }

    /// The chain of some drafts and one more node, if nothing stands between them.
    fn joined(&self, set: &[usize], place: usize) -> Option<Chain> {
        let mut nodes: Vec<usize> = set.iter().flat_map(|&draft| self.drafts[draft].nodes.iter().copied()).collect();
        nodes.push(place);
        if nodes.len() > LONGEST {
            return None;
        }
        nodes.sort_unstable();
        let level = set.iter().map(|&draft| self.drafts[draft].level).max()?;
        let stays = |&draft: &usize| {
            let draft = &self.drafts[draft];
            let is_below = |&dependent: &usize| {
                let root = self.root(dependent);
                set.contains(&root) || self.drafts[root].level > level
            };
            draft.level == level || !draft.is_looked_at && draft.dependents.iter().all(is_below)
        };
        if !set.iter().all(stays) {
            return None;
        }
        let chain = Chain::new(self.body, &self.looks, &nodes)?;
        let is_after = chain.given().all(|value| self.level(value) < level);
        is_after.then_some(chain)
    }

    /// The steps, each after what it takes, as near to the body's order as may be.
    fn finish(mut self) -> Plan {
        let mut steps: Vec<(usize, PlanStep)> = Vec::new();
        for &place in &self.wanted {
            steps.push((place, PlanStep::One(place)));
        }
        for draft in std::mem::take(&mut self.drafts).into_iter().filter(|draft| draft.joined.is_none()) {
            let last = draft.nodes.iter().copied().max().unwrap_or(0);
            match draft.chain {
                Some(chain) => steps.push((last, PlanStep::Chain(Box::new(chain)))),
                None => steps.push((last, PlanStep::One(last))),
            }
        }
        let takes: Vec<Vec<u32>> = steps
            .iter()
            .map(|(_, step)| match step {
                PlanStep::One(place) => self.body.nodes()[*place].operands.clone(),
                PlanStep::Chain(chain) => chain.given().collect(),
            })
            .collect();
        let needed: HashSet<u32> = takes.iter().flatten().chain(self.body.outputs()).copied().collect();
        let mut maker = vec![None; self.body.types().len()];
        for (number, (_, step)) in steps.iter_mut().enumerate() {
            let places = match step {
                PlanStep::One(place) => std::slice::from_ref(place),
                PlanStep::Chain(chain) => {
                    chain.finish(|value| needed.contains(&value));
                    &chain.nodes
                }
            };
            for &place in places {
                self.body.nodes()[place].result_numbers().for_each(|value| maker[value as usize] = Some(number));
            }
        }
        let mut after = vec![Vec::new(); steps.len()];
        let mut open = vec![0usize; steps.len()];
        for (number, values) in takes.iter().enumerate() {
            let before: BTreeSet<usize> = values.iter().filter_map(|&value| maker[value as usize]).collect();
            open[number] = before.len();
            before.into_iter().for_each(|earlier| after[earlier].push(number));
        }
        let mut ready: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
        let push = |ready: &mut BinaryHeap<_>, number: usize| ready.push(Reverse((steps[number].0, number)));
        (0..steps.len()).filter(|&number| open[number] == 0).for_each(|number| push(&mut ready, number));
        let mut order = Vec::with_capacity(steps.len());
        while let Some(Reverse((_, number))) = ready.pop() {
            order.push(number);
            for &later in &after[number] {
                open[later] -= 1;
                if open[later] == 0 {
                    push(&mut ready, later);
                }
            }
        }
        debug_assert_eq!(order.len(), steps.len(), "steps wait for one another");
        let mut slots: Vec<Option<PlanStep>> = steps.into_iter().map(|(_, step)| Some(step)).collect();
        Plan { steps: order.into_iter().filter_map(|number| slots[number].take()).collect() }
    }
}
