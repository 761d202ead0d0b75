//! What is the same of equal steps: operations, attributes, shapes and wiring, whatever their numbers are.

use std::collections::HashMap;
use std::fmt::Write;

use crate::body_plan::{BodyPlan, LoweringStep};
use crate::graph::{Body, GraphNode};
use crate::node_types::{as_any, result_types};
use crate::operations::{BitcastConvert, BroadcastInDim, Case, Constant, Reshape, Slice, Transpose, While};

/// Writes keys of steps of one body.
pub(crate) struct KeyWriter<'b> {
    body: &'b Body,
    plan: &'b BodyPlan,
    /// By the address of the operation: front ends say the same thing often.
    attributes: HashMap<*const (), String>,
}

impl<'b> KeyWriter<'b> {
    /// Nothing is written yet.
    pub(crate) fn new(body: &'b Body, plan: &'b BodyPlan) -> Self {
        Self { body, plan, attributes: HashMap::new() }
    }

    /// The key of steps one after another: equal ones take as long.
    pub(crate) fn key(&mut self, steps: &[LoweringStep]) -> String {
        let mut text = String::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let nodes = self.body.nodes();
        let inside: HashMap<u32, ()> = steps
            .iter()
            .flat_map(LoweringStep::nodes)
            .flat_map(|place| nodes[place as usize].result_numbers())
            .map(|value| (value, ()))
            .collect();
        for step in steps {
            text.push_str(match step {
                LoweringStep::Alone(_) => ";",
                LoweringStep::Region(_) => "[",
                LoweringStep::Attention(_) => "[[",
            });
            let shared = step.nodes();
            for &place in &shared {
                let node = &nodes[place as usize];
                text.push_str(self.attributes(node));
                for &value in &node.operands {
                    self.operand(&mut text, value, &mut numbers, &inside);
                }
                for (value, kind) in node.result_numbers().zip(result_types(self.body, node)) {
                    let next = numbers.len();
                    numbers.insert(value, next);
                    // What only operations of its group take never leaves the chip.
                    let within = shared.iter().flat_map(|&other| &nodes[other as usize].operands);
                    let within = within.filter(|&&taken| taken == value).count();
                    let leaves = self.plan.uses[value as usize] as usize > within;
                    let _ = write!(text, "={kind}{}", if leaves { "!" } else { "" });
                }
            }
        }
        text
    }

    /// An operand by its number among those that the key has; what is made elsewhere is described by where it comes from.
    fn operand(&mut self, text: &mut String, value: u32, numbers: &mut HashMap<u32, usize>, inside: &HashMap<u32, ()>) {
        if let Some(number) = numbers.get(&value) {
            let _ = write!(text, " {number}");
            return;
        }
        let maker = self.plan.makers[value as usize].map(|place| &self.body.nodes()[place as usize]);
        let kind = &self.body.types()[value as usize];
        let is_root = self.plan.is_folded(value) || inside.contains_key(&value);
        match maker.filter(|node| !is_root && node.results == 1 && !node.operation.is_elementwise()) {
            // It may be another look at memory: what of matters.
            Some(node) if !node.operands.is_empty() && node.operation.bodies().is_empty() && is_look(node) => {
                text.push_str(" (");
                text.push_str(self.attributes(node));
                self.operand(text, node.operands[0], numbers, inside);
                let _ = write!(text, "={kind})");
            }
            _ => {
                let _ = write!(text, " {}:{kind}", numbers.len());
            }
        }
        let next = numbers.len();
        numbers.insert(value, next);
    }

    fn attributes(&mut self, node: &GraphNode) -> &str {
        let address = std::ptr::from_ref(&*node.operation).cast::<()>();
        let name = node.operation.name();
        self.attributes.entry(address).or_insert_with(|| format!("{name}{}", attributes_of(node)))
    }
}

/// Whether an operation can be another look at what it takes.
pub(crate) fn is_look(node: &GraphNode) -> bool {
    let any = as_any(node);
    any.is::<BitcastConvert>()
        || any.is::<BroadcastInDim>()
        || any.is::<Reshape>()
        || any.is::<Slice>()
        || any.is::<Transpose>()
}

/// The attributes of an operation. Of constants their types count alone, which stand beside; bodies are written whole.
fn attributes_of(node: &GraphNode) -> String {
    let any = as_any(node);
    if any.is::<Constant>() {
        return String::new();
    }
    if any.is::<While>() || any.is::<Case>() {
        return node.operation.bodies().into_iter().map(body_key).collect();
    }
    format!("{:?}", node.operation)
}

fn body_key(body: &Body) -> String {
    let mut text = String::from("{");
    for node in body.nodes() {
        let _ = write!(text, ";{}{}{:?}", node.operation.name(), attributes_of(node), node.operands);
        for kind in result_types(body, node) {
            let _ = write!(text, "={kind}");
        }
    }
    let _ = write!(text, "}}{:?}", body.outputs());
    text
}
