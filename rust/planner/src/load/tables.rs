//! Costs of steps as tables over one or two numbers, with straight lines between the rows.

use std::ops::{Add, Mul};

use trn3_system::Result;

/// What a step takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepCost {
    /// Seconds.
    pub(super) seconds: f64,
    /// Joules beyond what chips draw at any load.
    pub(super) joules: f64,
}

impl Add for StepCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, joules: self.joules + other.joules }
    }
}

impl Mul<f64> for StepCost {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { seconds: self.seconds * factor, joules: self.joules * factor }
    }
}

/// Costs over one number.
#[derive(Clone, Debug)]
pub(super) struct StepCurve {
    places: Vec<f64>,
    costs: Vec<StepCost>,
}

impl StepCurve {
    /// The costs at places in rising order, at least one.
    pub(super) fn new(places: &[f64], cost: impl Fn(f64) -> Result<StepCost>) -> Result<Self> {
        let costs: Result<Vec<_>> = places.iter().map(|&place| cost(place)).collect();
        Ok(Self { places: places.to_vec(), costs: costs? })
    }

    /// The cost at a place; beyond the ends, on the line of the last two rows.
    pub(super) fn at(&self, place: f64) -> StepCost {
        let (index, share) = between(&self.places, place);
        match self.costs.get(index + 1) {
            Some(next) => self.costs[index] * (1.0 - share) + *next * share,
            None => self.costs[index],
        }
    }

    /// The same with times multiplied.
    pub(super) fn slower(&self, factor: f64) -> Self {
        let costs = self.costs.iter().map(|cost| StepCost { seconds: cost.seconds * factor, ..*cost });
        Self { places: self.places.clone(), costs: costs.collect() }
    }
}

/// Costs over two numbers.
#[derive(Clone, Debug)]
pub(super) struct StepSurface {
    places: Vec<f64>,
    rows: Vec<StepCurve>,
}

impl StepSurface {
    /// The costs at places of both numbers in rising order.
    pub(super) fn new(places: &[f64], others: &[f64], cost: impl Fn(f64, f64) -> Result<StepCost>) -> Result<Self> {
        let rows: Result<Vec<_>> =
            places.iter().map(|&place| StepCurve::new(others, |other| cost(place, other))).collect();
        Ok(Self { places: places.to_vec(), rows: rows? })
    }

    /// The cost at a place.
    pub(super) fn at(&self, place: f64, other: f64) -> StepCost {
        let (index, share) = between(&self.places, place);
        match self.rows.get(index + 1) {
            Some(next) if share != 0.0 => self.rows[index].at(other) * (1.0 - share) + next.at(other) * share,
            _ => self.rows[index].at(other),
        }
    }

    /// The same with times multiplied.
    pub(super) fn slower(&self, factor: f64) -> Self {
        Self { places: self.places.clone(), rows: self.rows.iter().map(|row| row.slower(factor)).collect() }
    }
}

/// The row before a place, and how far the place is on the way to the next.
fn between(places: &[f64], place: f64) -> (usize, f64) {
    if places.len() < 2 {
        return (0, 0.0);
    }
    let index = places.partition_point(|known| *known <= place).clamp(1, places.len() - 1) - 1;
    let (low, high) = (places[index], places[index + 1]);
    (index, (place - low) / (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: f64) -> Result<StepCost> {
        Ok(StepCost { seconds: 3.0 + 2.0 * place, joules: place })
    }

    #[test]
    fn test_lines_are_exact_between_and_beyond_rows() {
        let curve = StepCurve::new(&[1.0, 2.0, 10.0], line).expect("made");
        for place in [0.0, 1.0, 1.5, 2.0, 7.25, 10.0, 12.0] {
            assert!((curve.at(place).seconds - (3.0 + 2.0 * place)).abs() < 1e-12, "{place}");
        }
        assert_eq!(curve.slower(2.0).at(2.0), StepCost { seconds: 14.0, joules: 2.0 });
        assert_eq!(StepCurve::new(&[4.0], line).expect("made").at(9.0), StepCost { seconds: 11.0, joules: 4.0 });
    }

    #[test]
    fn test_surfaces_are_products_of_lines() {
        let of = |x: f64, y: f64| Ok(StepCost { seconds: (1.0 + x) * (2.0 + y), joules: 0.0 });
        let surface = StepSurface::new(&[0.0, 4.0], &[0.0, 8.0, 16.0], of).expect("made");
        for (x, y) in [(0.0, 0.0), (1.0, 3.0), (4.0, 16.0), (2.5, 9.0)] {
            assert!((surface.at(x, y).seconds - (1.0 + x) * (2.0 + y)).abs() < 1e-12);
        }
    }
}
