//! nc_stream_shuffle: partitions exchanged inside quadrants.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Mask entry that leaves the partition as it is.
const KEEP: i64 = 255;

/// `nc_stream_shuffle(dst, src, shuffle_mask)`: in every quadrant, partition i of dst becomes partition `mask[i]` of
/// src; 255 leaves it as it is. Bits are moved; dst may be src.
#[derive(Debug)]
pub struct StreamShuffle {
    /// Result.
    pub dst: View,
    /// Input.
    pub src: View,
    /// A source partition, or 255, for each partition of a quadrant.
    pub mask: Vec<i64>,
}

impl StreamShuffle {
    /// Rows of dst and the rows of src that they become.
    fn moves(&self) -> impl Iterator<Item = (usize, usize)> {
        let quadrant = self.mask.len();
        (0..self.dst.partitions()).filter_map(move |row| {
            let from = self.mask[row % quadrant];
            (from != KEEP).then(|| (row, row / quadrant * quadrant + from as usize))
        })
    }
}

/// One partition of a tile.
fn row(view: &View, index: usize) -> View {
    let mut row = view.clone();
    row.shape[0] = 1;
    row.offset += index as i64 * view.strides[0];
    row
}

impl Instruction for StreamShuffle {
    fn name(&self) -> &'static str {
        "nc_stream_shuffle"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let quadrant = arch.quadrant_partitions as usize;
        for (operand, view) in [("dst", &self.dst), ("src", &self.src)] {
            check.tile(operand, view, ON_CHIP)?;
            check.no_columns(operand, view)?;
        }
        check.same_dtype("src", &self.src, "dst", &self.dst)?;
        check.free_size("src", &self.src, self.dst.free_size())?;
        if self.mask.len() != quadrant {
            let got = format!("has {} entries", self.mask.len());
            return Err(check.refuse("shuffle_mask", got, format!("{quadrant}, one for each partition of a quadrant")));
        }
        if let Some(entry) = self.mask.iter().find(|&&entry| entry != KEEP && !(0..quadrant as i64).contains(&entry)) {
            let allowed = format!("0 to {}, or {KEEP} to leave a partition as it is", quadrant - 1);
            return Err(check.refuse("shuffle_mask", format!("has entry {entry}"), allowed));
        }
        if let Some((to, from)) = self.moves().find(|&(_, from)| from >= self.src.partitions()) {
            let got =
                format!("has {} partitions; partition {to} of dst becomes partition {from}", self.src.partitions());
            return Err(check.refuse("src", got, "a mask that stays inside src"));
        }
        // Both streams run over whole quadrants, as many as the larger tile has.
        let active = self.src.partitions().max(self.dst.partitions()).next_multiple_of(quadrant);
        let all = arch.partitions as usize;
        let grain = if active > all / 2 { all } else { active };
        for (operand, view) in [("dst", &self.dst), ("src", &self.src)] {
            let start = view.start_partition();
            if !start.is_multiple_of(grain) {
                let got = format!("starts at partition {start} with {active} active partitions");
                let starts: Vec<String> = (0..all).step_by(grain).map(|start| start.to_string()).collect();
                return Err(check.refuse(
                    operand,
                    got,
                    format!("{active} active partitions start at {}", starts.join(", ")),
                ));
            }
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.src]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        // Only what is moved is read: the rest of src may be uninitialised.
        let mut sources: Vec<Option<Vec<u32>>> = vec![None; self.src.partitions()];
        for (_, from) in self.moves() {
            if sources[from].is_none() {
                sources[from] = Some(state.read_words(&row(&self.src, from))?);
            }
        }
        for (to, from) in self.moves() {
            if let Some(bits) = &sources[from] {
                state.memory.write_words(&row(&self.dst, to), bits, self.src.dtype, None)?;
            }
        }
        Ok(())
    }
}
