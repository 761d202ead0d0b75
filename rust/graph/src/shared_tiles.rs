//! Tiles that operations of a region share: what each of them takes and makes, on one piece of the region's space.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::reduce::TensorReduce;
use trn3_machine::view::View;

use crate::emitter::{Emitter, stored};
use crate::error::Result;
use crate::fallback::emit_on_tiles;
use crate::graph::{Body, GraphNode};
use crate::lowering::Lowering;
use crate::node_types::operand_types;
use crate::operations::{RUN, Reduce};
use crate::passes::{Region, is_look};
use crate::template::TemplateKind;

/// A value on chip.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    /// [partitions, elements], which follow one another.
    pub(crate) view: View,
    /// Of each free axis of the piece, whether the tile has it: along the others its elements are repeated.
    pub(crate) has: Vec<bool>,
}

/// A part of a region's space: partitions, and lengths of the free axes, of which the last are columns.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) partitions: usize,
    pub(crate) free: Vec<usize>,
    pub(crate) columns: usize,
}

impl Piece {
    /// Which free axes a value has: all, or the rows.
    pub(crate) fn axes(&self, is_row: bool) -> Vec<bool> {
        let rows = self.free.len() - self.columns;
        (0..self.free.len()).map(|axis| axis < rows || !is_row).collect()
    }

    pub(crate) fn elements(&self, has: &[bool]) -> usize {
        self.free.iter().zip(has).filter(|(_, has)| **has).map(|(&length, _)| length).product()
    }

    fn row_elements(&self) -> usize {
        self.free[self.free.len() - self.columns..].iter().product()
    }
}

impl Tile {
    /// The tile as one that has these axes.
    fn seen(&self, piece: &Piece, axes: &[bool]) -> View {
        let mut strides = vec![0i64; piece.free.len()];
        let mut inner = 1;
        for axis in (0..piece.free.len()).rev().filter(|&axis| self.has[axis]) {
            strides[axis] = inner;
            inner *= piece.free[axis] as i64;
        }
        let mut view = self.view.clone();
        view.shape.truncate(1);
        view.strides.truncate(1);
        for axis in (0..piece.free.len()).filter(|&axis| axes[axis]) {
            view.shape.push(piece.free[axis]);
            view.strides.push(strides[axis]);
        }
        view
    }
}

/// Views of one shape with as few free axes as say the same, and at least one.
fn joined(mut views: Vec<View>) -> Vec<View> {
    let mut axis = 1;
    while axis < views[0].rank() {
        let is_one = views[0].shape[axis] == 1;
        let follows = |view: &View| view.strides[axis - 1] == view.strides[axis] * view.shape[axis] as i64;
        if axis > 1 && (is_one || views[0].shape[axis - 1] == 1 || views.iter().all(follows)) {
            for view in &mut views {
                let before = view.shape.remove(axis - 1);
                let stride = view.strides.remove(axis - 1);
                if is_one {
                    view.strides[axis - 1] = stride;
                }
                view.shape[axis - 1] *= before;
            }
        } else {
            axis += 1;
        }
    }
    if views[0].rank() == 1 {
        for view in &mut views {
            view.shape.push(1);
            view.strides.push(1);
        }
    }
    views
}

/// The values of one piece.
pub(crate) type Tiles = HashMap<u32, Tile>;

impl Lowering<'_> {
    /// Computes the operations of a region on one piece. `take` brings what comes from elsewhere on chip, `made` is called
    /// with each value that is there.
    ///
    /// # Errors
    /// What the machine refuses, with the operation's line.
    pub(crate) fn piece(
        &mut self,
        (body, region): (&Body, &Region),
        piece: &Piece,
        tiles: &mut Tiles,
        templates: &mut [TemplateKind],
        take: &mut dyn FnMut(&mut Emitter, u32) -> Result<Tile>,
        made: &mut dyn FnMut(&mut Emitter, u32, &Tile) -> Result<()>,
    ) -> Result<()> {
        for (place, &number) in region.nodes.iter().enumerate() {
            let node = &body.nodes()[number];
            self.begin(node);
            let located = |error| self.graph.located(node, error);
            for &value in &node.operands {
                if let Entry::Vacant(empty) = tiles.entry(value) {
                    empty.insert(take(&mut self.emitter, value).map_err(located)?);
                }
            }
            let value = node.first_result;
            let tile = if is_look(node) {
                tiles[&node.operands[0]].clone()
            } else {
                let is_row = region.is_row(value);
                let tile = one(&mut self.emitter, body, node, piece, tiles, is_row, &mut templates[place]);
                let tile = tile.map_err(located)?;
                made(&mut self.emitter, value, &tile).map_err(located)?;
                tile
            };
            tiles.insert(value, tile);
        }
        Ok(())
    }
}

/// One operation on tiles.
fn one(
    emitter: &mut Emitter,
    body: &Body,
    node: &GraphNode,
    piece: &Piece,
    tiles: &Tiles,
    is_row: bool,
    template: &mut TemplateKind,
) -> Result<Tile> {
    let has = piece.axes(is_row);
    let kind = &body.types()[node.first_result as usize];
    let view = emitter.sbuf(&[piece.partitions, piece.elements(&has)], stored(kind.dtype))?;
    let tile = Tile { view, has };
    let any: &dyn std::any::Any = &*node.operation;
    if let Some(reduce) = any.downcast_ref::<Reduce>() {
        reduced(emitter, reduce, piece, &tiles[&node.operands[0]], &tiles[&node.operands[1]], &tile)?;
        return Ok(tile);
    }
    let mut views: Vec<View> = node.operands.iter().map(|value| tiles[value].seen(piece, &tile.has)).collect();
    views.push(tile.seen(piece, &tile.has));
    let mut views = joined(views);
    let Some(result) = views.pop() else { return Ok(tile) };
    if !node.operation.emit_tile(emitter, &views, &result)? {
        *template = TemplateKind::GpSimdFunction;
        let kinds = operand_types(body, node);
        emit_on_tiles(emitter, &node.operation, (&kinds[..], kind), views, &result)?;
    }
    Ok(tile)
}

/// result[row] = init op (x[row, 0] op x[row, 1] ...), in the order of the operation by itself.
fn reduced(emitter: &mut Emitter, reduce: &Reduce, piece: &Piece, x: &Tile, init: &Tile, result: &Tile) -> Result<()> {
    let op = reduce.function.operator();
    let (all, columns) = (vec![true; piece.free.len()], piece.row_elements());
    let rows = piece.elements(&all) / columns;
    let dense = if x.has.iter().all(|&has| has) {
        x.view.clone()
    } else {
        let laid = emitter.sbuf(&[piece.partitions, rows * columns], x.view.dtype)?;
        let views = joined(vec![x.seen(piece, &all), Tile { view: laid.clone(), has: all.clone() }.seen(piece, &all)]);
        emitter.cast(&views[1], &views[0])?;
        laid
    };
    let mut total: Option<View> = None;
    for start in (0..columns).step_by(RUN) {
        let width = RUN.min(columns - start);
        let data = View {
            shape: smallvec![piece.partitions, rows, width],
            strides: smallvec![dense.strides[0], columns as i64, 1],
            offset: dense.offset + start as i64,
            ..dense.clone()
        };
        let sum = emitter.sbuf(&[piece.partitions, rows], DType::Float32)?;
        emitter.issue(TensorReduce {
            dst: sum.clone(),
            op,
            data,
            axes: smallvec![2],
            negate: false,
            keepdims: true,
        })?;
        total = Some(match total {
            None => sum,
            Some(before) => {
                emitter.pair(&before, &before, &sum, op)?;
                before
            }
        });
    }
    let Some(total) = total else { return Ok(()) };
    let views = joined(vec![
        init.seen(piece, &result.has),
        Tile { view: total, has: result.has.clone() }.seen(piece, &result.has),
        result.seen(piece, &result.has),
    ]);
    emitter.pair(&views[2], &views[0], &views[1], op)
}
