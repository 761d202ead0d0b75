//! Attention on a core: a block of queries at a time, whose scores stay on chip from the one product to the other.

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::tensor::transpose::NcTranspose;
use trn3_machine::view::View;

use crate::emitter::{Emitter, merged_axes};
use crate::error::{GraphError, Result};
use crate::graph::{Body, GraphNode};
use crate::lowering::{BodyViews, Lowering};
use crate::operations::DotGeneral;
use crate::options::MatmulPath;
use crate::passes::Attention;
use crate::product_tiles::{MatrixView, emit_step, in_dtype, matrices, pieces};
use crate::region_run::{Loads, spread, templates};
use crate::shared_tiles::{Piece, Tile, Tiles};
use crate::template::TemplateKind;

/// What the region takes or leaves: by batch position and row.
struct Rows {
    view: View,
    batch: usize,
    /// Elements from one row to the next.
    step: i64,
    columns: usize,
}

impl Rows {
    /// None where no stride serves all rows of a batch position.
    fn new(view: View, batch: usize, columns: usize) -> Option<Self> {
        let step = merged_axes(&view, batch..view.rank() - columns)?.1;
        Some(Self { view, batch, step, columns })
    }

    fn part(&self, position: usize, (first, count): (usize, usize)) -> View {
        let mut offset = self.view.offset + first as i64 * self.step;
        let mut left = position;
        for axis in (0..self.batch).rev() {
            offset += (left % self.view.shape[axis]) as i64 * self.view.strides[axis];
            left /= self.view.shape[axis];
        }
        let free = self.view.rank() - self.columns..self.view.rank();
        let mut part = View { shape: smallvec![count], strides: smallvec![self.step], offset, ..self.view.clone() };
        part.shape.extend_from_slice(&self.view.shape[free.clone()]);
        part.strides.extend_from_slice(&self.view.strides[free]);
        part
    }
}

/// The matrices of both products, one of each for a batch position.
struct Operands {
    queries: Vec<MatrixView>,
    keys: Vec<MatrixView>,
    values: Vec<MatrixView>,
    out: Vec<MatrixView>,
}

fn product(node: &GraphNode) -> Result<&DotGeneral> {
    let any: &dyn std::any::Any = &*node.operation;
    any.downcast_ref().ok_or_else(|| GraphError::Format("is no product".to_owned()))
}

/// The matrices of attention's operands, where they lie.
fn operands(
    emitter: &mut Emitter,
    attention: &Attention,
    [head, tail]: [&DotGeneral; 2],
    [queries, keys, values, out]: [&View; 4],
) -> Result<Operands> {
    let (mine, other) = (attention.side, 1 - attention.side);
    let along = tail.batch[0].len();
    let taken = values.rank() - tail.batch[other].len() - tail.contracting[other].len();
    let (first, second) = (along..out.rank() - taken, out.rank() - taken..out.rank());
    let (rows, columns) = if mine == 0 { (first, second) } else { (along + taken..out.rank(), along..along + taken) };
    let axes = |range: std::ops::Range<usize>| range.collect::<Vec<usize>>();
    Ok(Operands {
        queries: matrices(emitter, queries, &head.batch[0], &head.free(0, queries.rank()), &head.contracting[0])?,
        keys: matrices(emitter, keys, &head.batch[1], &head.contracting[1], &head.free(1, keys.rank()))?,
        values: matrices(
            emitter,
            values,
            &tail.batch[other],
            &tail.contracting[other],
            &tail.free(other, values.rank()),
        )?,
        out: matrices(emitter, out, &axes(0..along), &axes(rows), &axes(columns))?,
    })
}

/// What of one position stays on chip for all its blocks.
struct Sides {
    /// The keys, cut along k.
    keys: Vec<View>,
    deep: Vec<(usize, usize)>,
    /// The values, cut along the row of scores.
    values: Vec<View>,
    chunks: Vec<(usize, usize)>,
}

impl<'g> Lowering<'g> {
    /// Loads what blocks of a position share: keys and values, in the types that the products take.
    fn sides(
        &mut self,
        all: &Operands,
        position: usize,
        width: usize,
        ([head, tail], [first, second]): ([&GraphNode; 2], [DType; 2]),
    ) -> Result<Sides> {
        let partitions = self.emitter.arch().partitions as usize;
        self.begin(head);
        let (keys, values) = (&all.keys[position], &all.values[position]);
        let (deep, chunks) = (pieces(keys.rows(), partitions), pieces(width, partitions));
        let emitter = &mut self.emitter;
        let loaded = deep.iter().map(|&part| keys.tile(emitter, first, part, (0, width))).collect::<Result<_>>()?;
        self.begin(tail);
        let emitter = &mut self.emitter;
        let tile = |&part: &(usize, usize)| values.tile(emitter, second, part, (0, values.columns()));
        Ok(Sides { keys: loaded, values: chunks.iter().map(tile).collect::<Result<_>>()?, deep, chunks })
    }

    /// Computes attention, and notes its operations.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`](crate::Graph::run_on_core).
    pub(crate) fn attention(&mut self, body: &'g Body, attention: &Attention, known: &mut BodyViews) -> Result<()> {
        let region = &attention.region;
        let (head, tail) = (&body.nodes()[attention.head], &body.nodes()[attention.tail]);
        let columns = region.columns.iter().flatten().filter(|is_column| **is_column).count();
        let mut boundary = self.boundary(body, region, known);
        boundary.given.retain(|&value| value != attention.scores);
        let outside = region.nodes.iter().flat_map(|&place| &body.nodes()[place].operands);
        let within = outside.filter(|value| **value == attention.weights).count() as u32;
        if known.plan.uses[attention.weights as usize] == within + 1 {
            boundary.leaving.retain(|&value| value != attention.weights);
        }
        let mut given = Vec::with_capacity(boundary.given.len());
        for &value in &boundary.given {
            let view = self.placed(body, value, known)?;
            let number = known.plan.numbers[value as usize];
            given.push((Rows::new(spread(region, &view, value), attention.batch, columns), number));
        }
        if given.iter().any(|(rows, _)| rows.is_none()) {
            return self.apart(body, attention, known);
        }
        self.place_leaving(body, region, &boundary, known)?;
        let mut leaving = Vec::with_capacity(boundary.leaving.len());
        for &value in &boundary.leaving {
            let view = known.views[value as usize].as_ref().map(|view| spread(region, view, value));
            leaving.push(view.and_then(|view| Rows::new(view, attention.batch, columns)));
        }
        let mut views = Vec::with_capacity(4);
        for value in [head.operands[0], head.operands[1], tail.operands[1 - attention.side]] {
            views.push(self.placed(body, value, known)?);
        }
        self.begin(tail);
        let out = self.emitter.hbm(&tail.label(), &body.types()[tail.first_result as usize])?;
        known.views[tail.first_result as usize] = Some(out.clone());
        let sides = [product(head)?, product(tail)?];
        let all = operands(&mut self.emitter, attention, sides, [&views[0], &views[1], &views[2], &out])?;
        let types = [head.first_result, attention.weights].map(|value| body.types()[value as usize].dtype);
        let of = |own: DType| if self.options.matmul == MatmulPath::Bf16 { DType::BFloat16 } else { own };
        let [first, second] = [of(views[0].dtype), of(types[1])];
        let mut kinds = templates(body, region, TemplateKind::Attention);
        let width = region.row_elements();
        let partitions = self.emitter.arch().partitions as usize;
        let blocks = |position: usize| pieces(all.queries[position].rows(), partitions).into_iter();
        let jobs: Vec<(usize, (usize, usize))> =
            (0..all.queries.len()).flat_map(|position| blocks(position).map(move |block| (position, block))).collect();
        let shares = self.emitter.shares(region.space.iter().product(), jobs.len());
        self.emitter.prepare(&shares, &|items| {
            let products = |&(position, _): &(usize, (usize, usize))| {
                [&all.queries[position], &all.keys[position], &all.values[position]].map(|matrix| matrix.view.clone())
            };
            let rows = given.iter().filter_map(|(rows, _)| rows.as_ref().map(|rows| rows.view.clone()));
            jobs[items.clone()].iter().flat_map(products).chain(rows).collect()
        })?;
        for share in shares {
            let before = self.emitter.enter(&share);
            let mut loads: Vec<Loads> = given.iter().map(|_| Loads::default()).collect();
            let mut sides: Option<(usize, Sides)> = None;
            for &(position, block) in &jobs[share.items.clone()] {
                let sides = match &sides {
                    Some((at, sides)) if *at == position => sides,
                    _ => {
                        let made = self.sides(&all, position, width, ([head, tail], [first, second]))?;
                        &sides.insert((position, made)).1
                    }
                };
                self.begin(head);
                let emitter = &mut self.emitter;
                let turned = all.queries[position].turned();
                let queries: Result<Vec<View>> =
                    sides.deep.iter().map(|&part| turned.tile(emitter, first, part, block)).collect();
                let scores = emitter.sbuf(&[block.1, width], types[0])?;
                multiplied(emitter, &queries?, &sides.keys, &scores)?;
                let free = region.space[region.space.len() - columns..].to_vec();
                let piece = Piece { partitions: block.1, free, columns };
                let mut tiles = Tiles::default();
                tiles.insert(attention.scores, Tile { view: scores, has: vec![true; columns] });
                let mut take = |emitter: &mut Emitter, value: u32| {
                    let place = boundary.given.iter().position(|&given| given == value).unwrap_or_default();
                    let missing = || GraphError::Format("an operand was never made".to_owned());
                    let (rows, number) = &given[place];
                    let part = rows.as_ref().ok_or_else(missing)?.part(position, block);
                    loads[place].take(emitter, &part, *number)
                };
                let mut store = |emitter: &mut Emitter, value: u32, tile: &Tile| {
                    let place = boundary.leaving.iter().position(|&leaving| leaving == value);
                    let Some(Some(rows)) = place.map(|place| leaving[place].as_ref()) else { return Ok(()) };
                    emitter.copy(&crate::region_run::narrowed(&rows.part(position, block)).0, &tile.view)
                };
                self.piece((body, region), &piece, &mut tiles, &mut kinds, &mut take, &mut store)?;
                self.begin(tail);
                let weights = in_dtype(&mut self.emitter, tiles[&attention.weights].view.clone(), second)?;
                summed(&mut self.emitter, &weights, (&sides.chunks, &sides.values), &all.out[position], block)?;
            }
            self.emitter.set_place(before);
        }
        self.note_attention(body, attention, &kinds);
        Ok(())
    }

    /// The three one after another: rows of something that the region takes have no one stride.
    fn apart(&mut self, body: &'g Body, attention: &Attention, known: &mut BodyViews) -> Result<()> {
        let alone = |lowering: &mut Self, place: usize, known: &mut BodyViews| {
            let node = &body.nodes()[place];
            lowering.alone(body, node, known).map_err(|error| lowering.graph.located(node, error))
        };
        let is_before = |place: &&usize| **place < attention.region.nodes[0];
        alone(self, attention.head, known)?;
        let mut looks = attention.looks.clone();
        looks.sort_unstable();
        for &place in looks.iter().filter(is_before) {
            alone(self, place, known)?;
        }
        self.region(body, &attention.region, known)?;
        for &place in looks.iter().filter(|place| !is_before(place)) {
            alone(self, place, known)?;
        }
        alone(self, attention.tail, known)
    }

    fn note_attention(&mut self, body: &'g Body, attention: &Attention, kinds: &[TemplateKind]) {
        for &place in &[attention.head, attention.tail] {
            self.note(&body.nodes()[place], TemplateKind::Attention);
        }
        for &place in &attention.looks {
            self.note(&body.nodes()[place], TemplateKind::View);
        }
        self.note_region(body, &attention.region, kinds);
    }
}

/// scores [rows, columns] of queries [k, rows] and keys [k, columns], cut along k.
fn multiplied(emitter: &mut Emitter, queries: &[View], keys: &[View], scores: &View) -> Result<()> {
    let wide = emitter.arch().moving_columns as usize;
    for (start, width) in pieces(scores.shape[1], wide) {
        let sum = emitter.psum(&[scores.shape[0], width], DType::Float32)?;
        for (step, (stationary, keys)) in queries.iter().zip(keys).enumerate() {
            let moving = columns_of(keys, start, width);
            emit_step(emitter, &sum, stationary, &moving, step > 0)?;
        }
        emitter.cast(&columns_of(scores, start, width), &sum)?;
    }
    Ok(())
}

/// out [rows, ...] = weights [rows, columns] values [columns, ...], cut along columns; turned where out lies turned.
fn summed(
    emitter: &mut Emitter,
    weights: &View,
    (chunks, values): (&[(usize, usize)], &[View]),
    out: &MatrixView,
    block: (usize, usize),
) -> Result<()> {
    let mut turned = Vec::with_capacity(chunks.len());
    for &(start, count) in chunks {
        let dst = emitter.psum(&[count, block.1], weights.dtype)?;
        let data = columns_of(weights, start, count);
        emitter.issue(NcTranspose { dst: dst.clone(), data, engine: None })?;
        let tile = emitter.sbuf(&[count, block.1], weights.dtype)?;
        emitter.cast(&tile, &dst)?;
        turned.push(tile);
    }
    let (tall, wide) = (emitter.arch().stationary_columns as usize, emitter.arch().moving_columns as usize);
    let lies_turned = out.lies_turned();
    for part in pieces(out.columns(), if lies_turned { tall } else { wide }) {
        let shape = if lies_turned { [part.1, block.1] } else { [block.1, part.1] };
        let sum = emitter.psum(&shape, DType::Float32)?;
        for (step, (weights, values)) in turned.iter().zip(values).enumerate() {
            let values = columns_of(values, part.0, part.1);
            let (stationary, moving) = if lies_turned { (&values, weights) } else { (weights, &values) };
            emit_step(emitter, &sum, stationary, moving, step > 0)?;
        }
        let tile = emitter.like(&sum, out.dtype())?;
        emitter.cast(&tile, &sum)?;
        let into = if lies_turned { out.turned().part(part, block) } else { out.part(block, part) };
        emitter.copy(&into, &tile)?;
    }
    Ok(())
}

fn columns_of(tile: &View, start: usize, count: usize) -> View {
    View { shape: smallvec![tile.shape[0], count], offset: tile.offset + start as i64, ..tile.clone() }
}
