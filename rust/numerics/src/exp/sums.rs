//! Sums along rows: one chain of additions a row, sixteen rows at a time.
//!
//! A chain cannot be cut, so the work is cut across it: short rows are summed whole, right after their exponentials,
//! while those are in the cache; long ones in blocks of columns, whose exponentials any thread may do at any time and
//! whose sums join the chain in turn.

use std::collections::BTreeMap;
use std::slice::ChunksMut;
use std::sync::{Mutex, PoisonError};

use super::{Scratch, Unit, sum_rows};
use crate::elementwise::{STAGE, TASK};
use crate::error::Result;
use crate::par;
use crate::simd::LANES;

/// Groups of sixteen long rows worked on in turn, so that as many threads need not wait for one another's chains.
const GROUPS_AT_ONCE: usize = 16;

pub(super) fn exp_with_sums(unit: &Unit<'_>, out: &mut [u8], sums: &mut [f32]) -> Result<()> {
    sums.fill(0.0);
    if out.is_empty() {
        return Ok(());
    }
    let block = TASK / sums.len().min(LANES) / LANES * LANES;
    if unit.columns <= block { whole_rows(unit, out, sums) } else { in_blocks(unit, out, sums, block) }
}

/// The sum kernel over any number of whole rows.
fn sum_all<'a>(unit: &Unit<'_>, rows: impl Iterator<Item = &'a [u8]>, sums: &mut [f32]) {
    let mut rows = rows;
    for sums in sums.chunks_mut(LANES) {
        let mut group = [&[][..]; LANES];
        for (slot, row) in group.iter_mut().zip(rows.by_ref().take(sums.len())) {
            *slot = row;
        }
        sum_rows(unit.level, unit.to, &group[..sums.len()], sums);
    }
}

fn whole_rows(unit: &Unit<'_>, out: &mut [u8], sums: &mut [f32]) -> Result<()> {
    let row_bytes = unit.columns * unit.item_size();
    let rows_in = |elements: usize| (elements / unit.columns).next_multiple_of(LANES).max(LANES);
    let (in_task, in_stage) = (rows_in(TASK), rows_in(STAGE));
    let tasks = out.chunks_mut(in_task * row_bytes).zip(sums.chunks_mut(in_task));
    par::for_each(tasks.enumerate(), |(task, (out, sums))| {
        let mut scratch = Scratch::default();
        let stages = out.chunks_mut(in_stage * row_bytes).zip(sums.chunks_mut(in_stage));
        for (stage, (out, sums)) in stages.enumerate() {
            let row = task * in_task + stage * in_stage;
            unit.exp_run(row * unit.columns, out, &mut scratch);
            sum_all(unit, out.chunks(row_bytes), sums);
        }
    })
}

/// The running sums of a group of rows.
struct Chain<'a> {
    sums: &'a mut [f32],
    /// The block of columns to add next.
    next: usize,
    /// Blocks whose turn has not come.
    waiting: BTreeMap<usize, Vec<&'a [u8]>>,
}

fn in_blocks(unit: &Unit<'_>, out: &mut [u8], sums: &mut [f32], block: usize) -> Result<()> {
    let chains: Vec<Mutex<Chain<'_>>> =
        sums.chunks_mut(LANES).map(|sums| Mutex::new(Chain { sums, next: 0, waiting: BTreeMap::new() })).collect();
    let item = unit.item_size();
    par::for_each(Blocks::new(out, unit.columns * item, block * item), |Block { group, index, rows }| {
        let mut scratch = Scratch::default();
        let mut done = Vec::with_capacity(rows.len());
        for (row, out) in rows.into_iter().enumerate() {
            let start = (group * LANES + row) * unit.columns + index * block;
            unit.exp_run(start, out, &mut scratch);
            done.push(&*out);
        }
        // Whoever brings the block whose turn it is adds it, and those that have been waiting for it.
        let mut chain = chains[group].lock().unwrap_or_else(PoisonError::into_inner);
        let chain = &mut *chain;
        chain.waiting.insert(index, done);
        while let Some(rows) = chain.waiting.remove(&chain.next) {
            sum_all(unit, rows.into_iter(), chain.sums);
            chain.next += 1;
        }
    })
}

/// Sixteen rows (or what is left) of a block of columns.
struct Block<'a> {
    group: usize,
    index: usize,
    rows: Vec<&'a mut [u8]>,
}

/// The blocks of an array: block 0 of each of some groups, then block 1 of each, to the end of the rows; then the next
/// groups.
struct Blocks<'a> {
    rows: ChunksMut<'a, u8>,
    block_bytes: usize,
    /// What is left of the rows of the groups at work.
    groups: Vec<Vec<ChunksMut<'a, u8>>>,
    first_group: usize,
    /// The block to give out next: its place in `groups`, its index in the row.
    group: usize,
    index: usize,
    left: usize,
}

impl<'a> Blocks<'a> {
    fn new(out: &'a mut [u8], row_bytes: usize, block_bytes: usize) -> Self {
        let groups = (out.len() / row_bytes).div_ceil(LANES);
        Self {
            rows: out.chunks_mut(row_bytes),
            block_bytes,
            groups: Vec::new(),
            first_group: 0,
            group: 0,
            index: 0,
            left: groups * row_bytes.div_ceil(block_bytes),
        }
    }

    fn next_groups(&mut self) {
        self.first_group += self.groups.len();
        self.groups.clear();
        (self.group, self.index) = (0, 0);
        while self.groups.len() < GROUPS_AT_ONCE && self.rows.len() > 0 {
            let rows = self.rows.by_ref().take(LANES);
            self.groups.push(rows.map(|row| row.chunks_mut(self.block_bytes)).collect());
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        if self.left == 0 {
            return None;
        }
        let is_done = |group: &Vec<ChunksMut<'_, u8>>| group.iter().all(|row| row.len() == 0);
        if self.groups.last().is_none_or(is_done) {
            self.next_groups();
        }
        let rows = self.groups[self.group].iter_mut().filter_map(Iterator::next).collect();
        let block = Block { group: self.first_group + self.group, index: self.index, rows };
        self.group += 1;
        if self.group == self.groups.len() {
            (self.group, self.index) = (0, self.index + 1);
        }
        self.left -= 1;
        Some(block)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Blocks<'_> {}
