//! Whether the requests that are left can each have their number of devices, constraints aside.

use std::collections::HashMap;

use crate::bits::Bits;
use crate::layout::LayoutShape;
use crate::search::Want;

/// Whether a matching gives every remaining request its number of devices.
pub(super) fn can_fill(
    shape: &LayoutShape,
    wants: &[Want],
    allowed: &[Vec<usize>],
    rest: &[usize],
    taken: &Bits,
) -> bool {
    let mut seats = Vec::new();
    for index in rest.iter().filter(|index| !wants[**index].admin) {
        let open = allowed[*index].iter().copied().filter(|position| !shape.footprint[*position].meets(taken));
        let open: Vec<usize> = open.collect();
        let count = wants[*index].count.unwrap_or(allowed[*index].len());
        seats.extend(std::iter::repeat_n(open, count));
    }
    let mut matching = Matching { seats: &seats, holders: HashMap::new() };
    (0..seats.len()).all(|seat| matching.seat(seat, &mut Vec::new()))
}

/// Seats, the positions that each may have, and who has which.
struct Matching<'a> {
    seats: &'a [Vec<usize>],
    holders: HashMap<usize, usize>,
}

impl Matching<'_> {
    /// Gives a seat a position, for which others may have to move.
    fn seat(&mut self, seat: usize, tried: &mut Vec<usize>) -> bool {
        for position in &self.seats[seat] {
            if tried.contains(position) {
                continue;
            }
            tried.push(*position);
            let holder = self.holders.get(position).copied();
            if holder.is_none_or(|holder| self.seat(holder, tried)) {
                self.holders.insert(*position, seat);
                return true;
            }
        }
        false
    }
}
