//! Regions on a core: what they take is loaded piece by piece, what leaves is stored.

use std::ops::Range;

use smallvec::SmallVec;
use trn3_machine::view::View;

use crate::core_shares::along;
use crate::emitter::Emitter;
use crate::error::Result;
use crate::graph::Body;
use crate::lowering::{BodyViews, Lowering};
use crate::passes::{Region, is_look, room};
use crate::pieces::{for_each_piece, for_each_row_piece};
use crate::shared_tiles::{Piece, Tile, Tiles};
use crate::template::TemplateKind;

/// Elements of a partition that operations work on at a time, where a row is not longer **(choice)**.
const TILE_ELEMENTS: usize = 1024;
/// Tiles that stay on chip of what pieces take again, of each value **(choice)**.
const KEPT_TILES: usize = 4;

/// What a region takes from elsewhere, and what of it is needed there.
pub(crate) struct Boundary {
    pub(crate) given: Vec<u32>,
    /// Values, and where they go: over the region's space.
    pub(crate) leaving: Vec<u32>,
}

/// Where a value of a region lies, over the region's space.
pub(crate) fn spread(region: &Region, view: &View, value: u32) -> View {
    let axes = region.axes.get(&value).map_or(&[][..], Vec::as_slice);
    let long = view.shape.iter().zip(&view.strides).filter(|(length, _)| **length != 1);
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(0, region.space.len().max(1));
    for (&axis, (_, &stride)) in axes.iter().zip(long) {
        strides[axis] = stride;
    }
    let shape =
        if region.space.is_empty() { [1].into_iter().collect() } else { region.space.iter().copied().collect() };
    View { shape, strides: strides.into_iter().collect(), ..view.clone() }
}

/// A part of what lies in HBM as a tile that has only the axes along which it differs.
pub(crate) fn narrowed(part: &View) -> (View, Vec<bool>) {
    let mut view = part.clone();
    let has: Vec<bool> = (1..part.rank()).map(|axis| part.strides[axis] != 0 || part.shape[axis] == 1).collect();
    has.iter().enumerate().filter(|(_, has)| !**has).for_each(|(axis, _)| view.shape[axis + 1] = 1);
    (view, has)
}

/// Loads parts of one value; what is the same for several pieces stays.
#[derive(Default)]
pub(crate) struct Loads {
    kept: Vec<(View, Tile)>,
}

impl Loads {
    pub(crate) fn take(&mut self, emitter: &mut Emitter, part: &View, number: Option<f64>) -> Result<Tile> {
        let (source, mut has) = narrowed(part);
        if number.is_some() {
            has.iter_mut().zip(&part.shape[1..]).for_each(|(has, &length)| *has = length == 1);
        }
        let is_same = |kept: &View| {
            kept.shape == source.shape
                && (number.is_some() || kept.strides == source.strides && kept.offset == source.offset)
        };
        if let Some((_, tile)) = self.kept.iter().find(|(kept, _)| is_same(kept)) {
            return Ok(Tile { has, ..tile.clone() });
        }
        let is_repeated = has.contains(&false) || source.strides[0] == 0;
        let view = match number {
            Some(number) => {
                let tile = emitter.sbuf(&[part.partitions(), 1], part.dtype)?;
                emitter.fill(&tile, number)?;
                tile
            }
            None => emitter.load(&source)?,
        };
        let tile = Tile { view, has };
        if is_repeated || number.is_some() {
            if self.kept.len() == KEPT_TILES {
                self.kept.remove(0);
            }
            self.kept.push((source, tile.clone()));
        }
        Ok(tile)
    }
}

impl<'g> Lowering<'g> {
    /// What a region takes and what leaves it.
    pub(crate) fn boundary(&self, body: &'g Body, region: &Region, known: &BodyViews) -> Boundary {
        let mut given: Vec<u32> = Vec::new();
        let mut inside = std::collections::HashMap::<u32, u32>::new();
        let nodes: Vec<_> = region.nodes.iter().map(|&place| &body.nodes()[place]).collect();
        for &value in nodes.iter().flat_map(|node| &node.operands) {
            *inside.entry(value).or_default() += 1;
            if !nodes.iter().any(|node| node.first_result == value) && !given.contains(&value) {
                given.push(value);
            }
        }
        let is_used = |value: u32| known.plan.uses[value as usize] > inside.get(&value).copied().unwrap_or(0);
        let mut leaving: Vec<u32> = Vec::new();
        for node in nodes.iter().rev() {
            let value = node.first_result;
            let is_leaving = is_used(value) || leaving.contains(&value);
            // What is looked at from elsewhere leaves as what it is a look at.
            match is_leaving.then(|| is_look(node)) {
                Some(true) if !leaving.contains(&node.operands[0]) => leaving.push(node.operands[0]),
                Some(false) if !leaving.contains(&value) => leaving.push(value),
                _ => {}
            }
        }
        leaving.retain(|&value| nodes.iter().any(|node| node.first_result == value && !is_look(node)));
        leaving.reverse();
        Boundary { given, leaving }
    }

    /// Takes memory for what leaves, and gives what is another look at it its place.
    ///
    /// # Errors
    /// Those of the memories.
    pub(crate) fn place_leaving(
        &mut self,
        body: &'g Body,
        region: &Region,
        boundary: &Boundary,
        known: &mut BodyViews,
    ) -> Result<()> {
        for &place in &region.nodes {
            let node = &body.nodes()[place];
            let value = node.first_result;
            let kind = &body.types()[value as usize];
            if is_look(node) {
                let looked = known.views[node.operands[0] as usize].as_ref();
                known.views[value as usize] = looked.and_then(|view| node.operation.look(view, kind));
            } else if boundary.leaving.contains(&value) {
                self.begin(node);
                known.views[value as usize] = Some(self.emitter.hbm(&node.label(), kind)?);
            }
        }
        Ok(())
    }

    /// Computes a region piece by piece.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`](crate::Graph::run_on_core).
    pub(crate) fn region(&mut self, body: &'g Body, region: &Region, known: &mut BodyViews) -> Result<()> {
        let boundary = self.boundary(body, region, known);
        let mut views = Vec::with_capacity(boundary.given.len() + boundary.leaving.len());
        let mut numbers = Vec::with_capacity(boundary.given.len());
        for &value in &boundary.given {
            let view = self.placed(body, value, known)?;
            views.push(spread(region, &view, value));
            numbers.push(known.plan.numbers[value as usize]);
        }
        self.place_leaving(body, region, &boundary, known)?;
        for &value in &boundary.leaving {
            let view = known.views[value as usize].clone();
            views.extend(view.map(|view| spread(region, &view, value)));
        }
        let mut templates = templates(body, region, TemplateKind::Fused);
        let partitions = self.emitter.arch().partitions as usize;
        let most = match region.row_elements() {
            row if region.columns.is_some() => {
                (room(self.emitter.arch()) / region.live_bytes(body)).clamp(1, (TILE_ELEMENTS / row).max(1)) * row
            }
            _ => TILE_ELEMENTS,
        };
        let cut = region.cut();
        let elements = region.space.iter().product();
        let shares = self.emitter.shares(elements, cut.map_or(1, |axis| region.space[axis]));
        let part =
            |view: &View, items: &Range<usize>| cut.map_or_else(|| view.clone(), |axis| along(view, axis, items));
        let given = &views[..boundary.given.len()];
        self.emitter.prepare(&shares, &|items| given.iter().map(|view| part(view, items)).collect())?;
        for share in shares {
            let before = self.emitter.enter(&share);
            let mut loads: Vec<Loads> = boundary.given.iter().map(|_| Loads::default()).collect();
            let views: Vec<View> = views.iter().map(|view| part(view, &share.items)).collect();
            let borrowed: Vec<&View> = views.iter().collect();
            let mut visit = |parts: &[View], columns: usize| {
                let piece = Piece { partitions: parts[0].partitions(), free: parts[0].shape[1..].to_vec(), columns };
                let mut take = |emitter: &mut Emitter, value: u32| {
                    let place = boundary.given.iter().position(|&given| given == value).unwrap_or_default();
                    loads[place].take(emitter, &parts[place], numbers[place])
                };
                let mut store = |emitter: &mut Emitter, value: u32, tile: &Tile| {
                    let place = boundary.leaving.iter().position(|&leaving| leaving == value);
                    let Some(place) = place else { return Ok(()) };
                    emitter.copy(&narrowed(&parts[boundary.given.len() + place]).0, &tile.view)
                };
                self.piece((body, region), &piece, &mut Tiles::default(), &mut templates, &mut take, &mut store)
            };
            match &region.columns {
                Some(columns) => for_each_row_piece(&borrowed, columns, partitions, most, &mut visit)?,
                None => for_each_piece(&borrowed, partitions, most, &mut |parts| visit(parts, 0))?,
            }
            self.emitter.set_place(before);
        }
        self.note_region(body, region, &templates);
        Ok(())
    }

    /// Notes how each operation of a region was computed.
    pub(crate) fn note_region(&mut self, body: &'g Body, region: &Region, templates: &[TemplateKind]) {
        for (&place, &template) in region.nodes.iter().zip(templates) {
            self.note(&body.nodes()[place], template);
        }
    }
}

/// How operations of a region are computed, unless GpSimdE has to.
pub(crate) fn templates(body: &Body, region: &Region, shared: TemplateKind) -> Vec<TemplateKind> {
    let shared = if region.nodes.len() > 1 { shared } else { TemplateKind::Instructions };
    let of = |&place: &usize| if is_look(&body.nodes()[place]) { TemplateKind::View } else { shared };
    region.nodes.iter().map(of).collect()
}
