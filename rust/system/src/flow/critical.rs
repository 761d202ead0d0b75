//! What binds the finish: the bottlenecks along the longest chains.

use super::FlowTransfer;

/// For each transfer, the resources that held it back longest.
pub(super) struct Bottlenecks {
    names: Vec<u32>,
    of: Vec<(u32, u32)>,
}

impl Bottlenecks {
    /// None of so many transfers is held back yet.
    pub(super) fn new(transfers: usize) -> Self {
        Self { names: Vec::new(), of: vec![(0, 0); transfers] }
    }

    pub(super) fn set(&mut self, transfers: &[u32], names: &[u32]) {
        let range = (self.names.len() as u32, (self.names.len() + names.len()) as u32);
        self.names.extend_from_slice(names);
        for &transfer in transfers {
            self.of[transfer as usize] = range;
        }
    }

    pub(super) fn of(&self, transfer: u32) -> &[u32] {
        let (first, last) = self.of[transfer as usize];
        &self.names[first as usize..last as usize]
    }
}

/// Bottlenecks of the transfers on a chain without slack to the finish, the one that binds for the longest time first.
///
/// All chains that tie count, so a symmetric exchange names all of its binding links.
pub(super) fn binding(
    transfers: &[FlowTransfer],
    spans: &[(f64, f64)],
    bottlenecks: &Bottlenecks,
    behind: &[Option<u32>],
    finish: f64,
    resources: usize,
) -> Vec<u32> {
    let mut critical: Vec<u32> = (0u32..).zip(spans).filter(|(_, span)| span.1 == finish).map(|(i, _)| i).collect();
    let mut seen = vec![false; transfers.len()];
    for &transfer in &critical {
        seen[transfer as usize] = true;
    }
    let mut seconds = vec![0.0f64; resources];
    let mut binds = vec![false; resources];
    while let Some(at) = critical.pop() {
        let (begin, end) = spans[at as usize];
        let transfer = &transfers[at as usize];
        for &resource in bottlenecks.of(at) {
            binds[resource as usize] = true;
            // Streams that it holds back at the same time count once: the longest of them.
            seconds[resource as usize] = seconds[resource as usize].max(end - begin - transfer.latency);
        }
        for &before in transfer.after.iter().chain(behind.get(at as usize).into_iter().flatten()) {
            if !seen[before as usize] && spans[before as usize].1 == begin {
                seen[before as usize] = true;
                critical.push(before);
            }
        }
    }
    let mut binding: Vec<u32> = (0u32..).zip(binds).filter(|(_, binds)| *binds).map(|(resource, _)| resource).collect();
    binding.sort_by(|a, b| seconds[*b as usize].total_cmp(&seconds[*a as usize]).then(a.cmp(b)));
    binding
}
