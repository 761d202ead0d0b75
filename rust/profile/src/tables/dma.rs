//! The tables of what DMA engines moved.

use crate::columns_by_name::{ProfileTable, TableColumn, positions};
use crate::core_profile::CoreProfile;
use crate::profile::Profile;
use crate::recorded::{MEMORIES, USES};
use crate::run_columns::RunColumns;

/// Bytes a second, of bytes that took so many picoseconds.
fn rate(bytes: u64, lasted_ps: u64) -> f64 {
    match lasted_ps {
        0 => 0.0,
        lasted => bytes as f64 * 1e12 / lasted as f64,
    }
}

/// Of each instruction, the tensor in HBM that it reads, else the one that it writes, by its name; **(choice)** of several
/// the one recorded first.
fn hbm_tensors(columns: &RunColumns) -> (Vec<String>, Vec<u32>) {
    const UNSAID: u32 = u32::MAX;
    let recorded = &columns.recorded;
    let (tensors, uses) = (&recorded.tensors, &recorded.uses);
    let is_hbm = |tensor: usize| MEMORIES[usize::from(tensors.memory.at(tensor))].ends_with("hbm");
    let mut places = vec![UNSAID; columns.instructions.len()];
    for is_write in [false, true] {
        for row in (0..uses.len()).filter(|&row| (USES[usize::from(uses.usage.at(row))] == "write") == is_write) {
            let (place, tensor) = (&mut places[uses.instruction.at(row) as usize], uses.tensor.at(row) as usize);
            if *place == UNSAID && is_hbm(tensor) {
                *place = tensors.name.at(tensor);
            }
        }
    }
    let mut names = recorded.names.clone();
    let none = names.len() as u32;
    names.push(String::new());
    (names, places.into_iter().map(|place| if place == UNSAID { none } else { place }).collect())
}

pub(crate) fn dma_packet(core: &CoreProfile, _: &Profile) -> ProfileTable {
    let (rows, transfers) = (&core.columns().instructions, &core.columns().transfers);
    let rate = |row: usize| rate(transfers.bytes[row], transfers.end_ps[row] - transfers.start_ps[row]);
    let (names, tensors) = hbm_tensors(core.columns());
    let tensors: Vec<u32> = transfers.instruction.iter().map(|&row| tensors[row as usize]).collect();
    let mut table = ProfileTable::default();
    table.spans(&transfers.start_ps, &transfers.end_ps);
    table.integers("id", 0..transfers.len() as i64);
    table.integers("packet_idx", positions(&transfers.instruction));
    table.integers("packet_aggregation_id", transfers.instruction.iter().map(|&row| i64::from(row)));
    table.integers("engine_idx", transfers.dma_engine.iter().map(|&engine| i64::from(engine)));
    table.integers("transfer_bytes", transfers.bytes.iter().map(|&bytes| bytes as i64));
    table.put("throughput", TableColumn::Floats((0..transfers.len()).map(rate).collect()));
    table.names("variable", names, &tensors);
    table.integers("queue_idx", transfers.instruction.iter().map(|&row| i64::from(rows.queue[row as usize])));
    table
}

/// What the packets of each instruction did together, of those that have some.
pub(crate) fn dma_packet_aggregated(core: &CoreProfile, _: &Profile) -> ProfileTable {
    let (rows, transfers) = (&core.columns().instructions, &core.columns().transfers);
    let mut sums = vec![(u64::MAX, 0, 0); rows.len()];
    for (packet, &row) in transfers.instruction.iter().enumerate() {
        let (start, end, bytes) = &mut sums[row as usize];
        *start = transfers.start_ps[packet].min(*start);
        *end = transfers.end_ps[packet].max(*end);
        *bytes += transfers.bytes[packet];
    }
    let moves: Vec<usize> = (0..rows.len()).filter(|&row| sums[row].0 != u64::MAX).collect();
    let (starts, ends): (Vec<u64>, Vec<u64>) = moves.iter().map(|&row| (sums[row].0, sums[row].1)).unzip();
    let rates = moves.iter().map(|&row| rate(sums[row].2, sums[row].1 - sums[row].0)).collect();
    let (names, tensors) = hbm_tensors(core.columns());
    let tensors: Vec<u32> = moves.iter().map(|&row| tensors[row]).collect();
    let mut table = ProfileTable::default();
    table.spans(&starts, &ends);
    table.integers("id", moves.iter().map(|&row| row as i64));
    table.integers("transfer_bytes", moves.iter().map(|&row| sums[row].2 as i64));
    table.put("throughput", TableColumn::Floats(rates));
    table.names("variable", names, &tensors);
    table.integers("queue_idx", moves.iter().map(|&row| i64::from(rows.queue[row])));
    table
}
