//! Attention: a product, a region that works on rows of it, and a product with what comes out, as one kernel.
//!
//! Kept true: the kernel computes what the three compute one after another, in their order and with their roundings; it
//! is no online softmax, which would be another arithmetic **(choice)**. So every score of a block of queries is on chip at
//! once, and where that does not fit, or where scores are needed elsewhere, the three stay apart.
//!
//! What is recognised is not a formula: `q k^T`, whatever the region does to rows of it (scales, masks, softmax, another
//! type), and a sum over the row against `v`. Batch axes go along in the order of memory, so that reshapes which join or
//! split them, as PyTorch's decomposition has, are passed through.

use std::any::Any;
use std::collections::HashMap;

use super::attention_shape::Attention;
use super::plan_step::Step;
use super::region::{Region, long_axes};
use crate::graph::{Body, GraphNode};
use crate::operations::{DotGeneral, Reshape};
use crate::tensor_type::TensorType;

/// The steps with products and regions joined where they are attention; `room` is what a partition has on chip, in bytes,
/// of which the region's share has been taken already.
pub(crate) fn attended(body: &Body, mut steps: Vec<Step>, room: usize, partitions: usize) -> Vec<Step> {
    let mut uses = vec![0u32; body.types().len()];
    let operands = body.nodes().iter().flat_map(|node| &node.operands);
    operands.chain(body.outputs()).for_each(|&value| uses[value as usize] += 1);
    let makers = body
        .nodes()
        .iter()
        .enumerate()
        .flat_map(|(place, node)| node.result_numbers().map(move |value| (value, place)));
    let search = Search { body, uses, makers: makers.collect(), room, partitions };
    let mut place = 0;
    while place < steps.len() {
        if let Step::Region(region) = &steps[place]
            && let Some((attention, last)) = search.around(region, &steps, place)
        {
            steps[last] = Step::Attention(Box::new(attention.clone()));
            let is_part = |step: &Step| match step {
                Step::Alone(place) => *place == attention.head || attention.looks.contains(place),
                Step::Region(region) => region.nodes == attention.region.nodes,
                _ => false,
            };
            steps.retain(|step| !is_part(step));
            place = 0;
            continue;
        }
        place += 1;
    }
    steps
}

struct Search<'b> {
    body: &'b Body,
    uses: Vec<u32>,
    makers: HashMap<u32, usize>,
    room: usize,
    partitions: usize,
}

impl Search<'_> {
    /// The attention that a region is the middle of, and the place of its last step.
    fn around(&self, region: &Region, steps: &[Step], place: usize) -> Option<(Attention, usize)> {
        let columns = region.columns.as_ref()?;
        let wide = columns.iter().filter(|is_column| **is_column).count();
        let is_last = columns[columns.len() - wide..].iter().all(|is_column| *is_column);
        is_last.then_some(())?;
        let (head, scores, mut looks) = self.head(region)?;
        let is_alone =
            |wanted: usize| steps.iter().position(|step| matches!(step, Step::Alone(place) if *place == wanted));
        is_alone(head)?;
        let of_head = self.product(head)?;
        let lhs = self.kind(self.body.nodes()[head].operands[0]);
        let count: usize = of_head.batch[0].iter().map(|&axis| lhs.shape[axis]).product();
        let rows = region.space.len() - wide;
        let batch = (0..=rows).find(|&axes| region.space[..axes].iter().product::<usize>() == count)?;
        let (weights, tail, side, after) = self.tail(region, count)?;
        looks.extend(after);
        let attention = Attention { region: region.clone(), head, tail, side, scores, weights, looks, batch };
        self.fits(&attention).then_some(())?;
        let last = is_alone(tail)?;
        // Nobody between may need what the region makes: all of it comes at the end.
        let needs = |place: usize| {
            let is_part = attention.looks.contains(&place);
            !is_part && self.body.nodes()[place].operands.iter().any(|&value| region.makes(value))
        };
        let is_free = steps.get(place + 1..last)?.iter().all(|step| match step {
            Step::Fold(_) => true,
            Step::Alone(place) => !needs(*place),
            Step::Region(other) => !other.nodes.iter().any(|&place| needs(place)),
            Step::Attention(other) => {
                let all = other.region.nodes.iter().chain([&other.head, &other.tail]);
                !all.copied().any(needs)
            }
        });
        is_free.then_some((attention, last))
    }

    fn kind(&self, value: u32) -> &TensorType {
        &self.body.types()[value as usize]
    }

    fn product(&self, place: usize) -> Option<&DotGeneral> {
        as_any(&self.body.nodes()[place]).downcast_ref()
    }

    fn is_in_order(&self, region: &Region, value: u32) -> bool {
        region.axes.get(&value).is_some_and(|axes| axes.iter().copied().eq(0..region.space.len()))
    }

    fn uses_within(&self, region: &Region, value: u32) -> u32 {
        let operands = region.nodes.iter().flat_map(|&place| &self.body.nodes()[place].operands);
        operands.filter(|operand| **operand == value).count() as u32
    }

    /// The product whose result the region alone takes, its rows in the region's order, and reshapes between.
    fn head(&self, region: &Region) -> Option<(usize, u32, Vec<usize>)> {
        let operands = region.nodes.iter().flat_map(|&place| &self.body.nodes()[place].operands);
        operands.copied().find_map(|scores| {
            let is_mine = !region.makes(scores)
                && self.is_in_order(region, scores)
                && self.uses[scores as usize] == self.uses_within(region, scores);
            is_mine.then_some(())?;
            let (mut value, mut looks) = (scores, Vec::new());
            loop {
                let &place = self.makers.get(&value)?;
                let node = &self.body.nodes()[place];
                if let Some(product) = as_any(node).downcast_ref::<DotGeneral>() {
                    let rhs = self.kind(node.operands[1]);
                    let columns: usize = product.free(1, rhs.rank()).iter().map(|&axis| rhs.shape[axis]).product();
                    let depth: usize = product.contracting[1].iter().map(|&axis| rhs.shape[axis]).product();
                    let is_head = rhs.is_float() && depth > 0 && columns == region.row_elements();
                    return is_head.then_some((place, scores, looks));
                }
                let is_through = as_any(node).is::<Reshape>() && self.uses[node.operands[0] as usize] == 1;
                is_through.then_some(())?;
                looks.push(place);
                value = node.operands[0];
            }
        })
    }

    /// The value that leaves the region for a product that sums over its columns, that product, which operand of it the
    /// value is, and reshapes between.
    fn tail(&self, region: &Region, count: usize) -> Option<(u32, usize, usize, Vec<usize>)> {
        let made = region.nodes.iter().rev().map(|&place| self.body.nodes()[place].first_result);
        made.filter(|&value| self.is_in_order(region, value)).find_map(|weights| {
            let (mut value, mut looks) = (weights, Vec::new());
            loop {
                let mut users = (0..self.body.nodes().len()).filter(|&place| {
                    !region.nodes.contains(&place) && self.body.nodes()[place].operands.contains(&value)
                });
                let place = users.next()?;
                let node = &self.body.nodes()[place];
                if let Some(product) = as_any(node).downcast_ref::<DotGeneral>() {
                    let side = node.operands.iter().position(|&operand| operand == value)?;
                    let is_tail =
                        node.operands[1 - side] != value && self.sums_rows(region, product, side, value, count);
                    return is_tail.then_some((weights, place, side, looks));
                }
                let is_through = as_any(node).is::<Reshape>()
                    && users.next().is_none()
                    && self.uses[node.first_result as usize] == 1;
                is_through.then_some(())?;
                looks.push(place);
                value = node.first_result;
            }
        })
    }

    /// Whether a product sums over the region's columns, axes of its operand in the order of memory: what goes along, rows,
    /// columns.
    fn sums_rows(&self, region: &Region, product: &DotGeneral, side: usize, value: u32, count: usize) -> bool {
        let kind = self.kind(value);
        let free = product.free(side, kind.rank());
        let (batch, summed) = (&product.batch[side], &product.contracting[side]);
        let order: Vec<usize> =
            batch.iter().chain(&free).chain(summed).copied().filter(|&axis| kind.shape[axis] != 1).collect();
        let length = |axes: &[usize]| axes.iter().map(|&axis| kind.shape[axis]).product::<usize>();
        kind.is_float()
            && order.is_sorted()
            && order.len() == long_axes(kind).len()
            && length(batch) == count
            && length(summed) == region.row_elements()
    }

    /// Whether the tiles of one block of rows fit on chip beside the other operands of both products.
    fn fits(&self, attention: &Attention) -> bool {
        let (head, tail) = (&self.body.nodes()[attention.head], &self.body.nodes()[attention.tail]);
        let (keys, values) = (self.kind(head.operands[1]), self.kind(tail.operands[1 - attention.side]));
        let columns = attention.region.row_elements();
        let count: usize = attention.region.space[..attention.batch].iter().product();
        let chunks = columns.div_ceil(self.partitions);
        let depth = keys.elements() / (count * columns).max(1);
        let keys = depth.div_ceil(self.partitions) * columns * keys.dtype.size();
        let width = values.elements() / (count * columns).max(1);
        let values = chunks * width * values.dtype.size();
        let turned = chunks * self.partitions * self.kind(attention.weights).dtype.size();
        attention.region.live_bytes(self.body) + keys + values + turned <= self.room
    }
}

fn as_any(node: &GraphNode) -> &dyn Any {
    &*node.operation
}
