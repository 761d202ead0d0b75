//! Executes operations whose ranks bring buffers of any lengths: they move bytes and compute nothing.

use super::name::Reduction;
use super::run::{Listed, Scaled, in_place, straight};
use super::schedule::Schedule;
use crate::error::{Error, Result};

/// Executes an all_gather of buffers of any lengths; each output has the sum of the lengths.
///
/// # Errors
/// [`Error::Value`] if numbers or lengths of buffers do not fit.
pub fn all_gather_v(schedule: &Schedule, bytes: usize, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
    let ranks = schedule.ranks as usize;
    let mut starts = vec![0];
    inputs.iter().for_each(|input| starts.push(starts[starts.len() - 1] + input.len() / bytes));
    let total = starts[starts.len() - 1] * bytes;
    if inputs.len() != ranks || outputs.len() != ranks || outputs.iter().any(|output| output.len() != total) {
        return Err(Error::Value(format!(
            "arrays has {} buffers and outputs {} of them; needed: {ranks} of each, outputs of {total} bytes",
            inputs.len(),
            outputs.len()
        )));
    }
    let mut buffers = Vec::with_capacity(ranks);
    for _ in 0..ranks {
        let mut buffer = Vec::new();
        let short = |_| Error::Memory(format!("a rank gathers {total} bytes; the host has no room for them"));
        buffer.try_reserve_exact(total).map_err(short)?;
        buffer.resize(total, 0);
        buffers.push(buffer);
    }
    for (i, (buffer, own)) in buffers.iter_mut().zip(inputs).enumerate() {
        buffer[starts[i] * bytes..][..own.len()].copy_from_slice(own);
    }
    let layout = Scaled { inner: Listed { schedule, starts: &starts }, bytes };
    in_place(schedule, &layout, Reduction::Add, &mut buffers, &mut |_| Ok(()))?;
    outputs.iter_mut().zip(&buffers).for_each(|(output, buffer)| output.copy_from_slice(buffer));
    Ok(())
}

/// What goes from whom to whom in an [`all_to_all_v`], in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `counts[a * ranks + b]` elements go from `a` to `b`.
    pub counts: Vec<u64>,
    /// Where they begin in `a`'s buffer.
    pub from: Vec<u64>,
    /// Where they begin in `b`'s.
    pub to: Vec<u64>,
}

/// Executes an all-to-all of any counts. What nobody writes in an output stays as it is.
///
/// # Errors
/// [`Error::Value`] if lists have wrong lengths, or a chunk lies outside its buffer; named by ranks.
pub fn all_to_all_v(
    schedule: &Schedule,
    bytes: usize,
    counts: &Counts,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> Result<()> {
    let ranks = schedule.ranks as usize;
    let needed = ranks * ranks;
    if [&counts.counts, &counts.from, &counts.to].iter().any(|list| list.len() != needed) {
        return Err(Error::Value(format!("counts has {} entries; needed: {ranks} x {ranks}", counts.counts.len())));
    }
    if inputs.len() != ranks || outputs.len() != ranks {
        return Err(Error::Value(format!("arrays has {} buffers; the group has {ranks} ranks", inputs.len())));
    }
    let place = |start: u64, count: u64, length: usize| {
        let end = start.checked_add(count).filter(|&end| end <= (length / bytes) as u64)?;
        Some(start as usize * bytes..end as usize * bytes)
    };
    for a in 0..ranks {
        for b in 0..ranks {
            let at = a * ranks + b;
            let (count, from, to) = (counts.counts[at], counts.from[at], counts.to[at]);
            for (start, length, whose) in [(from, inputs[a].len(), a), (to, outputs[b].len(), b)] {
                if place(start, count, length).is_none() {
                    return Err(Error::Value(format!(
                        "counts: {count} elements from position {a} to {b} begin at {start} of position {whose}'s buffer of {} elements",
                        length / bytes
                    )));
                }
            }
        }
    }
    let mut copy = |piece: u32, from: u32, to: u32| {
        let at = piece as usize;
        let source = place(counts.from[at], counts.counts[at], inputs[from as usize].len());
        let target = place(counts.to[at], counts.counts[at], outputs[to as usize].len());
        if let (Some(source), Some(target)) = (source, target) {
            outputs[to as usize][target].copy_from_slice(&inputs[from as usize][source]);
        }
    };
    (0..schedule.ranks).for_each(|rank| copy(rank * schedule.ranks + rank, rank, rank));
    straight(schedule, copy);
    Ok(())
}
