//! How many spare replicas serving needs, where one failure may take several replicas at once.

use trn3_system::{Error, Result};

/// Spares beyond which a search gives up.
const MOST_SPARES: usize = 1 << 14;

/// Replicas that go down together: `replicas` of them, of which the cause is there for a part of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureDomain {
    /// Replicas in it; of nested domains the larger one holds a whole number of the smaller.
    pub replicas: usize,
    /// Part of the time in which it is down as a whole.
    pub unavailability: f64,
}

/// The chances that 0, 1, ... `most` of `replicas` are down, in the steady state of parts that fail and are repaired
/// independently.
///
/// `single` is the part of the time that one replica is down by itself; `domains` are nested, the smallest first. Counts
/// above `most` are left out, which changes none of those below.
///
/// ```
/// use trn3_planner::fleet::down_chances;
///
/// // Two replicas, each down for a tenth of the time.
/// let chances = down_chances(2, 0.1, &[], 2);
/// assert!((chances[0] - 0.81).abs() < 1e-12 && (chances[2] - 0.01).abs() < 1e-12);
/// ```
pub fn down_chances(replicas: usize, single: f64, domains: &[FailureDomain], most: usize) -> Vec<f64> {
    let one = vec![1.0 - single, single];
    // Distribution of one block of the level below, and how many replicas that is.
    let mut blocks: Vec<(usize, Vec<f64>)> = vec![(1, one)];
    for domain in domains.iter().filter(|domain| domain.replicas <= replicas) {
        let mut made = together(&blocks, domain.replicas, most);
        take_down(&mut made, domain, domain.replicas, most);
        blocks.push((domain.replicas, made));
    }
    let mut all = together(&blocks, replicas, most);
    if let Some(whole) = domains.iter().find(|domain| domain.replicas > replicas) {
        take_down(&mut all, whole, replicas, most);
    }
    all
}

/// A domain that may be down with all that is in it.
fn take_down(chances: &mut Vec<f64>, domain: &FailureDomain, replicas: usize, most: usize) {
    for chance in chances.iter_mut() {
        *chance *= 1.0 - domain.unavailability;
    }
    if replicas <= most {
        chances.resize((replicas + 1).max(chances.len()), 0.0);
        chances[replicas] += domain.unavailability;
    }
}

/// So many replicas, in as large blocks as there are.
fn together(blocks: &[(usize, Vec<f64>)], replicas: usize, most: usize) -> Vec<f64> {
    let (mut all, mut left) = (vec![1.0], replicas);
    for (size, chances) in blocks.iter().rev() {
        all = convolved(&all, &power(chances, left / size, most), most);
        left %= size;
    }
    all
}

fn power(chances: &[f64], count: usize, most: usize) -> Vec<f64> {
    let (mut made, mut square, mut left) = (vec![1.0], chances.to_vec(), count);
    while left > 0 {
        if left % 2 == 1 {
            made = convolved(&made, &square, most);
        }
        left /= 2;
        if left > 0 {
            square = convolved(&square, &square, most);
        }
    }
    made
}

fn convolved(left: &[f64], right: &[f64], most: usize) -> Vec<f64> {
    let mut made = vec![0.0; (left.len() + right.len() - 1).min(most + 1)];
    for (at, chance) in left.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
        for (sum, other) in made.iter_mut().skip(at).zip(right) {
            *sum += chance * other;
        }
    }
    made
}

/// The chance that at least `needed` of `needed + spares` replicas are up.
///
/// ```
/// use trn3_planner::fleet::chance_of_enough;
///
/// assert!((chance_of_enough(1, 1, 0.1, &[]) - 0.99).abs() < 1e-12);
/// ```
pub fn chance_of_enough(needed: usize, spares: usize, single: f64, domains: &[FailureDomain]) -> f64 {
    down_chances(needed + spares, single, domains, spares).iter().take(spares + 1).sum::<f64>().min(1.0)
}

/// The least number of spares with which at least `needed` replicas are up for that part of the time.
///
/// # Errors
/// [`Error::Value`] if 16,384 spares are not enough.
///
/// ```
/// use trn3_planner::fleet::spares_for;
///
/// assert_eq!(spares_for(1, 0.98, 0.1, &[]), Ok(1));
/// ```
pub fn spares_for(needed: usize, availability: f64, single: f64, domains: &[FailureDomain]) -> Result<usize> {
    let is_enough = |spares: usize| chance_of_enough(needed, spares, single, domains) >= availability;
    if is_enough(0) {
        return Ok(0);
    }
    let mut enough = 1;
    while !is_enough(enough) {
        enough *= 2;
        if enough > MOST_SPARES {
            return Err(Error::Value(format!(
                "availability is {availability}: {MOST_SPARES} spare replicas beside {needed} do not reach it; ask for less"
            )));
        }
    }
    let mut least = enough / 2;
    while enough - least > 1 {
        let middle = usize::midpoint(least, enough);
        if is_enough(middle) { enough = middle } else { least = middle }
    }
    Ok(enough)
}
