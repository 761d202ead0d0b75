//! Rings through every chip of a torus that share no link: the channels of ring collectives.

use std::collections::BTreeMap;

use super::graph::Fabric;
use super::spec::LevelKind;
use crate::error::{Error, Result};

/// More chips than an UltraServer of tori has; the search below is for those.
const MOST_CHIPS: usize = 1024;

/// Exchanges tried before giving up; a 4 x 4 x 4 torus takes a few thousand.
const MOST_EXCHANGES: usize = 2_000_000;

/// Edges of a torus divided into as many sets as it has axes, each of which meets every chip twice.
struct Factors {
    neighbours: Vec<Vec<[usize; 2]>>,
}

impl Factors {
    fn swap_neighbour(&mut self, factor: usize, chip: usize, old: usize, new: usize) {
        if let Some(place) = self.neighbours[factor][chip].iter_mut().find(|place| **place == old) {
            *place = new;
        }
    }

    fn has(&self, factor: usize, a: usize, b: usize) -> bool {
        self.neighbours[factor][a].contains(&b)
    }

    /// The cycles of one set, each from its lowest chip on towards that one's lower neighbour.
    fn cycles(&self, factor: usize) -> Vec<Vec<usize>> {
        let of = &self.neighbours[factor];
        let mut is_seen = vec![false; of.len()];
        let mut cycles = Vec::new();
        for first in 0..of.len() {
            if is_seen[first] {
                continue;
            }
            let mut cycle = vec![first];
            is_seen[first] = true;
            let mut chip = of[first][0].min(of[first][1]);
            while chip != first {
                is_seen[chip] = true;
                let previous = cycle[cycle.len() - 1];
                cycle.push(chip);
                chip = if of[chip][0] == previous { of[chip][1] } else { of[chip][0] };
            }
            cycles.push(cycle);
        }
        cycles
    }

    /// If two opposite sides of the square are of one set and the two others of another: exchanges them.
    fn exchange(&mut self, [a, b, c, d]: [usize; 4]) -> Option<(usize, usize)> {
        let holder = |x, y| (0..self.neighbours.len()).find(|&factor| self.has(factor, x, y));
        let (one, other) = (holder(a, b)?, holder(b, c)?);
        if one == other || holder(c, d) != Some(one) || holder(d, a) != Some(other) {
            return None;
        }
        for (factor, [p, q, r, s]) in [(one, [a, b, c, d]), (other, [b, c, d, a])] {
            // Sides p-q and r-s become q-r and s-p.
            self.swap_neighbour(factor, p, q, s);
            self.swap_neighbour(factor, q, p, r);
            self.swap_neighbour(factor, r, s, q);
            self.swap_neighbour(factor, s, r, p);
        }
        Some((one, other))
    }
}

impl Fabric {
    /// Rings through all chips, no two of which share a link: two on a 4 x 4 torus, three on a 4 x 4 x 4 one; each as
    /// chips in order, from chip 0. Every one of them serves in both directions.
    ///
    /// They are found by exchanging sides of squares between the rings along the axes until each set of links is one
    /// ring; the order of the search is fixed, and so is the result.
    ///
    /// # Errors
    /// [`Error::Value`] if the fabric is no whole torus of at most 1,024 chips with at least two axes, none shorter
    /// than three.
    ///
    /// ```
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let torus = Fabric::built_in("trn2_instance", LinkProfile::Docs).unwrap();
    /// assert_eq!(torus.hamiltonian_cycles().unwrap().len(), 2);
    /// ```
    pub fn hamiltonian_cycles(&self) -> Result<Vec<Vec<usize>>> {
        let is_torus = self.is_whole
            && self.chips <= MOST_CHIPS
            && self.axes.len() >= 2
            && self.axes.iter().all(|axis| axis.size >= 3)
            && self.levels.iter().all(|level| level.kind == LevelKind::Ring);
        if !is_torus {
            return Err(Error::Value(format!(
                "{} is no whole torus of at most {MOST_CHIPS} chips with two or more axes of at least 3; rings through \
                 all chips are known for those, like trn2_instance",
                self.name
            )));
        }
        let step = |chip: usize, axis: usize, by: u32| {
            let mut coordinates = self.nodes[chip].coordinates.clone();
            coordinates[axis] = (coordinates[axis] + by) % self.axes[axis].size;
            self.at(&coordinates) as usize
        };
        let axes = self.axes.len();
        let neighbours = (0..axes)
            .map(|axis| {
                let back = self.axes[axis].size - 1;
                (0..self.chips).map(|chip| [step(chip, axis, 1), step(chip, axis, back)]).collect()
            })
            .collect();
        let mut factors = Factors { neighbours };
        let mut squares = Vec::new();
        for chip in 0..self.chips {
            for (first, second) in (0..axes).flat_map(|first| (first + 1..axes).map(move |second| (first, second))) {
                let (b, d) = (step(chip, first, 1), step(chip, second, 1));
                squares.push([chip, b, step(b, second, 1), d]);
            }
        }
        let mut counts: Vec<usize> = (0..axes).map(|factor| factors.cycles(factor).len()).collect();
        let mut state = 1u64;
        for _ in 0..MOST_EXCHANGES {
            if counts.iter().all(|&count| count == 1) {
                return Ok((0..axes).flat_map(|factor| factors.cycles(factor)).collect());
            }
            // A fixed sequence of Lehmer's kind: any would do, it only has to visit all squares.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let square = squares[(state >> 33) as usize % squares.len()];
            let Some((one, other)) = factors.exchange(square) else { continue };
            let (first, second) = (factors.cycles(one).len(), factors.cycles(other).len());
            if first + second <= counts[one] + counts[other] {
                (counts[one], counts[other]) = (first, second);
            } else {
                let [a, b, c, d] = square;
                factors.exchange([a, b, c, d]);
            }
        }
        let sizes: BTreeMap<&str, u32> = self.axes.iter().map(|axis| (axis.name.as_str(), axis.size)).collect();
        Err(Error::Value(format!("{}: no rings were found on a torus of {sizes:?}", self.name)))
    }
}
