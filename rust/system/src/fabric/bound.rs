//! What bounds traffic: the load of every link when each transfer is split over all its shortest ways, the links that
//! bind, and cuts, which bound any routing.

use std::collections::BTreeMap;

use super::graph::{Fabric, NodeKind, joined};
use crate::error::{Error, Result};

/// Loads and limits within this of one another are equal: sums of shares differ in their last bits.
const SAME: f64 = 1e-9;

/// Cuts around each domain and each chip are tried up to this many chips; above, around the first of each kind.
const EVERY_CUT: usize = 1024;

/// A partition of chips in two, and what passes from one side to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// In words: `rack 0 | rack 1`.
    pub name: String,
    /// Bytes a second that can pass, one way; of two different directions the lesser.
    pub rate: f64,
    /// Indices of the links that carry it, in that direction.
    pub links: Vec<u32>,
}

/// How fast a traffic can be, and why not faster.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficBound {
    /// Bytes a second, one way, that a chip sends to others, on average over the chips that send.
    pub per_chip: f64,
    /// Seconds for the bytes of the matrix; for uniform traffic, for one byte a chip.
    pub time: f64,
    /// Indices of the links that are full, in ascending order.
    pub binding: Vec<u32>,
    /// For each level that carries anything, what `per_chip` would be if it alone bound; the tightest first.
    pub levels: Vec<(u32, f64)>,
    /// The pair of chips with the longest latency among those whose bytes use a full link.
    pub slowest: Option<(usize, usize)>,
    /// Bytes on each link, for the bytes that [`TrafficBound::time`] is for.
    pub loads: Vec<f64>,
    /// The tightest of the natural cuts: halves of an axis, a domain against the rest, a chip against the rest.
    pub cut: Cut,
    /// What `per_chip` could not exceed under any routing, by that cut.
    pub per_chip_by_cut: f64,
}

impl TrafficBound {
    /// Whether no routing does better: the cut allows no more than shortest ways reach.
    pub fn is_by_cut(&self) -> bool {
        self.per_chip >= self.per_chip_by_cut * (1.0 - SAME)
    }
}

/// Uniform all-to-all over all chips, or over a group: each sends equal parts to every other one, nothing to itself.
///
/// # Errors
/// [`Error::Value`] if the group has fewer than two chips, one twice, or one that does not exist;
/// [`Error::Unreachable`] if two of them are cut off from one another.
///
/// ```
/// use trn3_system::fabric::{Fabric, LinkProfile, bound};
///
/// let gen2 = Fabric::built_in("trn3_gen2", LinkProfile::Docs).unwrap();
/// let all = bound::all_to_all(&gen2, None).unwrap();
/// assert!((all.per_chip - 128e9 * 143.0 / 72.0).abs() < 1.0);
/// assert_eq!(gen2.levels()[all.levels[0].0 as usize].name, "cross-rack");
/// let rack: Vec<usize> = (0..72).collect();
/// let rack = bound::all_to_all(&gen2, Some(&rack)).unwrap();
/// assert!((rack.per_chip - 320e9 * 71.0 / 68.0).abs() < 1.0);
/// ```
pub fn all_to_all(fabric: &Fabric, group: Option<&[usize]>) -> Result<TrafficBound> {
    let members = checked_group(fabric, group)?;
    let others = (members.len() - 1) as f64;
    let mut weights = vec![0.0; fabric.chips];
    for &chip in &members {
        weights[chip] = 1.0 / others;
    }
    let is_shifted = fabric.is_whole && members.len() == fabric.chips;
    let loads =
        if is_shifted { shifted_loads(fabric, &mut weights)? } else { uniform_loads(fabric, &mut weights, &members)? };
    let mut is_member = vec![false; fabric.chips];
    for &chip in &members {
        is_member[chip] = true;
    }
    let across = |side: &[bool]| {
        let inside = members.iter().filter(|&&chip| side[chip]).count() as f64;
        let bytes = inside * (members.len() as f64 - inside) / others;
        (bytes, bytes)
    };
    let alone = |chip: usize| if is_member[chip] { (1.0, 1.0) } else { (0.0, 0.0) };
    let sources: &[usize] = if is_shifted { &members[..1] } else { &members };
    let senders = members.len() as f64;
    let is_sent = |_, to: usize| is_member[to];
    let moved = Moved { total: senders, senders, sources, is_sent: &is_sent, across: &across, alone: &alone };
    Ok(moved.bound(fabric, loads))
}

/// Any traffic: `bytes[i * chips + j]` go from chip `i` to chip `j`; what stays on a chip takes no link.
///
/// # Errors
/// [`Error::Value`] if the matrix has another size, an entry that is negative or not finite, or nothing that leaves a
/// chip; [`Error::Unreachable`] if bytes go where no way leads.
pub fn traffic(fabric: &Fabric, bytes: &[f64]) -> Result<TrafficBound> {
    let chips = fabric.chips;
    if bytes.len() != chips * chips {
        return Err(Error::Value(format!(
            "the traffic matrix has {} entries; {} has {chips} chips and needs {chips} x {chips}",
            bytes.len(),
            fabric.name
        )));
    }
    if let Some(at) = bytes.iter().position(|entry| !(entry.is_finite() && *entry >= 0.0)) {
        let (from, to) = (at / chips, at % chips);
        let entry = bytes[at];
        return Err(Error::Value(format!("traffic[{from}, {to}] is {entry} bytes; allowed: finite, 0 or more")));
    }
    let mut loads = vec![0.0; fabric.links.len()];
    let (mut out, mut into) = (vec![0.0; chips], vec![0.0; chips]);
    for from in 0..chips {
        let mut weights = bytes[from * chips..][..chips].to_vec();
        weights[from] = 0.0;
        out[from] = weights.iter().sum();
        if out[from] > 0.0 {
            into.iter_mut().zip(&weights).for_each(|(sum, entry)| *sum += entry);
            check_reach(fabric, from, &weights)?;
            fabric.spread(&fabric.tree(from), &weights, |link, part| loads[link as usize] += part);
        }
    }
    let senders: Vec<usize> = (0..chips).filter(|&chip| out[chip] > 0.0).collect();
    if senders.is_empty() {
        return Err(Error::Value(
            "the traffic matrix moves nothing from chip to chip; at least one entry off the \
                                 diagonal must be positive"
                .to_owned(),
        ));
    }
    let across = |side: &[bool]| {
        let (mut leaves, mut enters) = (0.0, 0.0);
        for (from, row) in bytes.chunks_exact(chips).enumerate() {
            for (to, entry) in row.iter().enumerate().filter(|&(to, _)| side[from] != side[to]) {
                if side[to] { enters += entry } else { leaves += entry }
            }
        }
        (leaves, enters)
    };
    let alone = |chip: usize| (out[chip], into[chip]);
    let is_sent = |from: usize, to: usize| from != to && bytes[from * chips + to] > 0.0;
    let moved = Moved {
        total: out.iter().sum(),
        senders: senders.len() as f64,
        sources: &senders,
        is_sent: &is_sent,
        across: &across,
        alone: &alone,
    };
    Ok(moved.bound(fabric, loads))
}

/// The halves of a fabric or of a group of its chips, along every axis in which its chips differ; the narrowest first.
///
/// Chips outside the group, and their links, do not help.
///
/// # Errors
/// As [`all_to_all`].
pub fn bisection(fabric: &Fabric, group: Option<&[usize]>) -> Result<Vec<Cut>> {
    let members = checked_group(fabric, group)?;
    let mut side = vec![None; fabric.chips];
    let mut cuts = Vec::new();
    for (axis, of) in fabric.axes.iter().enumerate() {
        let mut values: Vec<u32> = members.iter().map(|&chip| fabric.nodes[chip].coordinates[axis]).collect();
        values.sort_unstable();
        values.dedup();
        if values.len() < 2 {
            continue;
        }
        let (low, high) = values.split_at(values.len() / 2);
        for &chip in &members {
            side[chip] = Some(fabric.nodes[chip].coordinates[axis] < high[0]);
        }
        let (rate, links) = capacity(fabric, &side);
        cuts.push(Cut { name: format!("{0} {1} | {0} {2}", of.name, span(low), span(high)), rate, links });
    }
    cuts.sort_by(|left, right| left.rate.total_cmp(&right.rate));
    Ok(cuts)
}

fn span(values: &[u32]) -> String {
    match values {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    }
}

fn checked_group(fabric: &Fabric, group: Option<&[usize]>) -> Result<Vec<usize>> {
    let mut members: Vec<usize> = group.map_or_else(|| (0..fabric.chips).collect(), <[usize]>::to_vec);
    members.sort_unstable();
    if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Value(format!("the group has chip number {} twice", pair[0])));
    }
    if let Some(&last) = members.last().filter(|&&last| last >= fabric.chips) {
        let chips = fabric.chips;
        return Err(Error::Value(format!(
            "the group has chip number {last}; {} has {chips} chips, 0 to {}",
            fabric.name,
            chips.saturating_sub(1)
        )));
    }
    if members.len() < 2 {
        return Err(Error::Value(format!("the group has {} chips; needed: at least 2", members.len())));
    }
    Ok(members)
}

fn check_reach(fabric: &Fabric, from: usize, weights: &[f64]) -> Result<()> {
    let tree = fabric.tree(from);
    match (0..fabric.chips).find(|&to| weights[to] > 0.0 && !tree.reaches(to)) {
        Some(to) => fabric.route(from, to).map(|_| ()),
        None => Ok(()),
    }
}

/// Loads of uniform traffic over all chips of a whole fabric, from one chip's alone: every link of a class carries what
/// the chip puts on the class, because the graph looks the same from every chip.
fn shifted_loads(fabric: &Fabric, weights: &mut [f64]) -> Result<Vec<f64>> {
    weights[0] = 0.0;
    check_reach(fabric, 0, weights)?;
    let classes = fabric.links.iter().map(|link| link.class as usize + 1).max().unwrap_or(0);
    let (mut carried, mut count) = (vec![0.0; classes], vec![0.0; classes]);
    fabric.spread(&fabric.tree(0), weights, |link, part| carried[fabric.links[link as usize].class as usize] += part);
    for link in &fabric.links {
        count[link.class as usize] += 1.0;
    }
    let chips = fabric.chips as f64;
    Ok(fabric.links.iter().map(|link| carried[link.class as usize] * chips / count[link.class as usize]).collect())
}

fn uniform_loads(fabric: &Fabric, weights: &mut [f64], members: &[usize]) -> Result<Vec<f64>> {
    let mut loads = vec![0.0; fabric.links.len()];
    for &from in members {
        let own = std::mem::replace(&mut weights[from], 0.0);
        check_reach(fabric, from, weights)?;
        fabric.spread(&fabric.tree(from), weights, |link, part| loads[link as usize] += part);
        weights[from] = own;
    }
    Ok(loads)
}

/// Bytes that leave and enter one side of a cut.
type Crossing = (f64, f64);

/// What moves, apart from the links that it loads.
struct Moved<'a> {
    /// Bytes of all chips.
    total: f64,
    /// Number of chips that send.
    senders: f64,
    /// The chips that send, or one of them where all are alike.
    sources: &'a [usize],
    /// Whether bytes go from a chip to another.
    is_sent: &'a dyn Fn(usize, usize) -> bool,
    /// Bytes that leave and enter one side of the chips.
    across: &'a dyn Fn(&[bool]) -> Crossing,
    /// Bytes that leave and enter one chip.
    alone: &'a dyn Fn(usize) -> Crossing,
}

impl Moved<'_> {
    /// What the fullest links and the tightest cut say, given the bytes on each link.
    fn bound(&self, fabric: &Fabric, loads: Vec<f64>) -> TrafficBound {
        let times: Vec<f64> = fabric.links.iter().zip(&loads).map(|(link, load)| load / link.rate).collect();
        let time = times.iter().copied().fold(0.0, f64::max);
        let is_full: Vec<bool> = times.iter().map(|&one| one >= time * (1.0 - SAME)).collect();
        let binding = (0..fabric.links.len() as u32).filter(|&link| is_full[link as usize]).collect();
        let mut levels: Vec<(u32, f64)> = (0..fabric.levels.len() as u32)
            .filter_map(|level| {
                let own = fabric.links.iter().zip(&times).filter(|(link, _)| link.level == level);
                let slowest = own.map(|(_, &time)| time).fold(0.0, f64::max);
                (slowest > 0.0).then(|| (level, self.total / self.senders / slowest))
            })
            .collect();
        levels.sort_by(|left, right| left.1.total_cmp(&right.1));
        let mut slowest: Option<(f64, (usize, usize))> = None;
        for &from in self.sources {
            let tree = fabric.tree(from);
            let touched = fabric.touched(&tree, &is_full);
            for to in (0..fabric.chips).filter(|&to| to != from && touched[to] && (self.is_sent)(from, to)) {
                if slowest.is_none_or(|(latency, _)| tree.latency(to) > latency) {
                    slowest = Some((tree.latency(to), (from, to)));
                }
            }
        }
        let (by_cut, cut) = self.tightest_cut(fabric);
        TrafficBound {
            per_chip: self.total / self.senders / time,
            time,
            binding,
            levels,
            slowest: slowest.map(|(_, pair)| pair),
            loads,
            cut,
            per_chip_by_cut: self.total / self.senders / by_cut,
        }
    }

    /// The natural cut that takes the longest, and how long.
    fn tightest_cut(&self, fabric: &Fabric) -> (f64, Cut) {
        let mut found = (0.0, Cut { name: "none".to_owned(), rate: f64::INFINITY, links: Vec::new() });
        let mut consider = |name: &dyn Fn() -> String, side: &[Option<bool>], (leaves, enters): Crossing| {
            let flipped: Vec<Option<bool>> = side.iter().map(|of| of.map(|inside| !inside)).collect();
            for (bytes, side) in [(leaves, side), (enters, &flipped)] {
                let (rate, links) = one_way(fabric, side);
                // Above by more than rounding, so that of equal cuts the first is named.
                if bytes > 0.0 && bytes / rate > found.0 * (1.0 + SAME) {
                    found = (bytes / rate, Cut { name: name(), rate, links });
                }
            }
        };
        let chips = fabric.chips;
        let coordinates = |chip: usize| &fabric.nodes[chip].coordinates;
        for (axis, of) in fabric.axes.iter().enumerate().filter(|(_, of)| of.size > 1) {
            let half = of.size / 2;
            let side: Vec<bool> = (0..chips).map(|chip| coordinates(chip)[axis] < half).collect();
            let options: Vec<Option<bool>> = side.iter().map(|&inside| Some(inside)).collect();
            let values: Vec<u32> = (0..of.size).collect();
            let (low, high) = values.split_at(half as usize);
            let name = || format!("{0} {1} | {0} {2}", of.name, span(low), span(high));
            consider(&name, &options, (self.across)(&side));
        }
        for depth in 1..fabric.parts.len() {
            let mut previous: Option<&[u32]> = None;
            for first in 0..chips {
                let prefix = &fabric.chip_id(first)[..depth];
                if previous == Some(prefix) {
                    continue;
                }
                previous = Some(prefix);
                let side: Vec<bool> = (0..chips).map(|chip| fabric.chip_id(chip).starts_with(prefix)).collect();
                let options: Vec<Option<bool>> = side.iter().map(|&inside| Some(inside)).collect();
                consider(
                    &|| format!("{} {} | the others", fabric.parts[depth - 1], joined(prefix)),
                    &options,
                    (self.across)(&side),
                );
                if chips > EVERY_CUT {
                    break;
                }
            }
        }
        for chip in 0..if chips > EVERY_CUT { 1 } else { chips } {
            let (leaves, enters) = (self.alone)(chip);
            for (bytes, links) in [(leaves, fabric.links_from(chip)), (enters, fabric.links_to(chip))] {
                let rate: f64 = links.iter().map(|&link| fabric.links[link as usize].rate).sum();
                if bytes > 0.0 && bytes / rate > found.0 * (1.0 + SAME) {
                    let name = format!("chip {} | the others", joined(fabric.chip_id(chip)));
                    found = (bytes / rate, Cut { name, rate, links: links.to_vec() });
                }
            }
        }
        found
    }
}

/// What can pass between two sides in the worse direction; chips of neither side are left out.
fn capacity(fabric: &Fabric, side: &[Option<bool>]) -> (f64, Vec<u32>) {
    let flipped: Vec<Option<bool>> = side.iter().map(|of| of.map(|inside| !inside)).collect();
    let (there, back) = (one_way(fabric, side), one_way(fabric, &flipped));
    if back.0 < there.0 { back } else { there }
}

/// Switches, those of one tree together: what joins them is taken to pass all that their chips' links do.
fn joined_switches(fabric: &Fabric) -> Vec<Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for switch in fabric.chips..fabric.nodes.len() {
        debug_assert_eq!(fabric.nodes[switch].kind, NodeKind::Switch);
        let ends = fabric.links_from(switch).iter().map(|&link| fabric.links[link as usize].to as usize);
        let top = ends.filter(|&end| end >= fabric.chips).fold(switch, usize::min);
        found.entry(top).or_default().push(switch);
    }
    found.into_values().collect()
}

/// What can pass from the side `true` to the side `false`: direct links, and through each switch the lesser of what
/// enters and what leaves it.
fn one_way(fabric: &Fabric, side: &[Option<bool>]) -> (f64, Vec<u32>) {
    let mut links: Vec<u32> = Vec::new();
    for (index, link) in fabric.links.iter().enumerate() {
        let (from, to) = (link.from as usize, link.to as usize);
        if from < fabric.chips && to < fabric.chips && side[from] == Some(true) && side[to] == Some(false) {
            links.push(index as u32);
        }
    }
    for switches in joined_switches(fabric) {
        let ends = |of: &dyn Fn(usize) -> Vec<u32>, end: &dyn Fn(u32) -> u32, wanted: bool| -> (f64, Vec<u32>) {
            let all = switches.iter().flat_map(|&switch| of(switch));
            let kept: Vec<u32> = all.filter(|&link| side.get(end(link) as usize) == Some(&Some(wanted))).collect();
            (kept.iter().map(|&link| fabric.links[link as usize].rate).sum(), kept)
        };
        let up = ends(&|switch| fabric.links_to(switch).to_vec(), &|link| fabric.links[link as usize].from, true);
        let down = ends(&|switch| fabric.links_from(switch).to_vec(), &|link| fabric.links[link as usize].to, false);
        links.extend(if up.0 <= down.0 { up.1 } else { down.1 });
    }
    links.sort_unstable();
    (links.iter().map(|&link| fabric.links[link as usize].rate).sum(), links)
}
