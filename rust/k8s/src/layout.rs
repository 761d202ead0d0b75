//! The devices of one node as bits, with what is near to what.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::Regex;

use crate::bits::Bits;
use crate::device::PoolDevice;

static GROUP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:devicegroup|topology)([0-9]+)_id\z").expect("a pattern of ours"));

/// What of a node decides where devices are found: nodes with equal shapes have the same answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LayoutShape {
    pub(crate) chips: Bits,
    /// Bits that are taken with each device: its own, and for a device that stands for the whole node those of all
    /// devices of its pool.
    pub(crate) footprint: Vec<Bits>,
    pub(crate) neighbours: Vec<Bits>,
    /// Chips that each device stands for beyond those of this node.
    pub(crate) elsewhere: Vec<usize>,
    /// Groups of devices that belong together, by size, largest first.
    pub(crate) groups: Vec<Vec<Bits>>,
    /// Links of the torus between each two devices; 1 where there is no torus.
    distances: Vec<u32>,
    /// The same between chips of one driver; 0 for others.
    hops: Vec<u32>,
}

/// The devices of one node, in order; bit `i` is device `i`.
#[derive(Clone, Debug)]
pub(crate) struct NodeLayout {
    pub(crate) node: String,
    /// Their places in the inventory.
    pub(crate) devices: Vec<usize>,
    /// Which of them stand for whole nodes.
    pub(crate) wholes: Bits,
    pub(crate) shape: LayoutShape,
}

impl NodeLayout {
    pub(crate) fn new(node: String, places: Vec<usize>, inventory: &[PoolDevice]) -> Self {
        let devices: Vec<&PoolDevice> = places.iter().map(|place| &inventory[*place]).collect();
        let count = devices.len();
        let wholes = Bits::of(count, |number| devices[number].is_node() || !devices[number].nodes.is_empty());
        let chips = Bits::of(count, |number| !wholes.has(number));
        let same = |left: usize, right: usize| pool_of(devices[left]) == pool_of(devices[right]);
        let footprint = (0..count)
            .map(|number| Bits::of(count, |other| other == number || (wholes.has(number) && same(number, other))));
        let distances = distances(&devices);
        let near = |left: usize, right: usize| {
            let whole = wholes.has(left) || wholes.has(right);
            same(left, right) && (whole || distances[left * count + right] <= 1)
        };
        let pair = |left: usize, right: usize| {
            chips.has(left) && chips.has(right) && devices[left].driver == devices[right].driver
        };
        let hops = (0..count * count).map(|at| if pair(at / count, at % count) { distances[at] } else { 0 });
        let shape = LayoutShape {
            footprint: footprint.collect(),
            neighbours: (0..count).map(|left| Bits::of(count, |right| near(left, right))).collect(),
            elsewhere: devices.iter().map(|device| device.chips_elsewhere()).collect(),
            groups: groups(&devices, &chips),
            hops: hops.collect(),
            distances,
            chips,
        };
        Self { node, devices: places, wholes, shape }
    }

    /// The nodes that reach its device together, where it stands for several.
    pub(crate) fn spans<'a>(&self, inventory: &'a [PoolDevice]) -> &'a [String] {
        self.devices.first().map_or(&[], |place| &inventory[*place].nodes)
    }

    /// All of its devices.
    pub(crate) fn all(&self) -> Bits {
        Bits::of(self.devices.len(), |_| true)
    }
}

impl LayoutShape {
    /// Links of the torus between two devices; 1 where there is no torus.
    pub(crate) fn distance(&self, left: usize, right: usize) -> u32 {
        self.distances[left * self.footprint.len() + right]
    }

    /// The sum of the distances between all pairs of chips.
    pub(crate) fn hops(&self, chosen: &Bits) -> u32 {
        let members: Vec<usize> = chosen.iter().collect();
        let from = |(at, left): (usize, &usize)| {
            let row = left * self.footprint.len();
            members[at + 1..].iter().map(|right| self.hops[row + right]).sum::<u32>()
        };
        members.iter().enumerate().map(from).sum()
    }

    /// The connected part of a set of devices that holds `seed`.
    pub(crate) fn part(&self, seed: usize, bits: &Bits) -> Bits {
        let mut part = Bits::none(self.footprint.len());
        part.insert(seed);
        loop {
            let mut grown = part.clone();
            part.iter().for_each(|number| grown.add(&self.neighbours[number]));
            grown.keep(bits);
            if grown == part {
                return part;
            }
            part = grown;
        }
    }

    /// The connected parts of a set of devices.
    pub(crate) fn parts(&self, bits: &Bits) -> impl Iterator<Item = Bits> {
        let mut rest = bits.clone();
        std::iter::from_fn(move || {
            let part = self.part(rest.first()?, &rest);
            rest.remove(&part);
            Some(part)
        })
    }
}

fn pool_of(device: &PoolDevice) -> (&str, &str) {
    (&device.driver, &device.pool)
}

/// Row and column of a device in its torus.
fn place(device: &PoolDevice) -> Option<(i64, i64)> {
    let either = |published: &str, own: &str| device.of_driver(published).or_else(|| device.own(own))?.int();
    let (row, column) = (either("topology_x", "row")?, either("topology_y", "column")?);
    (row >= 0 && column >= 0).then_some((row, column))
}

fn distances(devices: &[&PoolDevice]) -> Vec<u32> {
    let places: Vec<_> = devices.iter().map(|device| place(device)).collect();
    let mut sizes: HashMap<(&str, &str), (i64, i64)> = HashMap::new();
    for (device, place) in devices.iter().zip(&places) {
        if let Some((row, column)) = place {
            let size = sizes.entry(pool_of(device)).or_insert((1, 1));
            *size = (size.0.max(row + 1), size.1.max(column + 1));
        }
    }
    let around = |left: i64, right: i64, size: i64| (left - right).abs().min(size - (left - right).abs());
    let mut distances = Vec::with_capacity(devices.len() * devices.len());
    for (left, here) in devices.iter().zip(&places) {
        for (right, there) in devices.iter().zip(&places) {
            let links = match (here, there, sizes.get(&pool_of(left))) {
                (Some(here), Some(there), Some(size)) if pool_of(left) == pool_of(right) => {
                    around(here.0, there.0, size.0) + around(here.1, there.1, size.1)
                }
                _ => 1,
            };
            distances.push(u32::try_from(links).unwrap_or(u32::MAX));
        }
    }
    distances
}

fn groups(devices: &[&PoolDevice], chips: &Bits) -> Vec<Vec<Bits>> {
    // A pool is a group larger than any that has a number.
    let mut found: BTreeMap<Reverse<u64>, BTreeMap<Vec<String>, Bits>> = BTreeMap::new();
    for number in chips.iter() {
        let device = devices[number];
        let mut put = |size: u64, key: Vec<String>| {
            let sized = found.entry(Reverse(size)).or_default();
            sized.entry(key).or_insert_with(|| Bits::none(devices.len())).insert(number);
        };
        put(u64::MAX, vec![device.driver.clone(), device.pool.clone()]);
        for ((domain, identifier), value) in &device.attributes {
            let size = GROUP.captures(identifier).and_then(|parts| parts[1].parse().ok());
            if let Some(size) = size.filter(|size| *size > 1) {
                put(size, vec![device.driver.clone(), domain.clone(), identifier.clone(), format!("{value:?}")]);
            }
        }
    }
    // The two names of a group of one size are one group.
    found.into_values().map(|sized| sized.into_values().collect::<BTreeSet<_>>().into_iter().collect()).collect()
}
