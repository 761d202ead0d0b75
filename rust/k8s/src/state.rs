//! What of an inventory is free, and who holds the rest.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::bits::Bits;
use crate::claims::{AskKey, CandidateKey, ClaimAsk, DeviceClass, ResourceClaim, given, read_class};
use crate::config::ClaimSettings;
use crate::counters::{NodeCounters, PoolCounters};
use crate::device::{PoolDevice, QualifiedName};
use crate::document::{Document, of_kind};
use crate::error::{Error, Result};
use crate::inventory;
use crate::layout::NodeLayout;
use crate::search::{Assignment, SearchRule, Want};
use crate::shown::{is_nothing, shown, text_of};
use crate::slices::device_class;
use crate::ultraserver::{SLOT_SIZES, UltraServerNodes, ultraservers};

/// What decides the answer of a search: the kind of the node, what of it is free, what is left of counters, what is asked
/// for, what it opens.
pub(crate) type SearchKey = (usize, Bits, NodeCounters, Vec<Want>, Vec<SearchRule>, Vec<usize>);

/// What is free, and who holds the rest. Nodes and devices are named by their places.
pub(crate) struct AllocationState {
    pub(crate) devices: Vec<PoolDevice>,
    pub(crate) layouts: Vec<NodeLayout>,
    /// Of every node the place of its UltraServer.
    block_of: Vec<Option<usize>>,
    pub(crate) blocks: Vec<UltraServerNodes>,
    /// Of every node the number of its kind: nodes of one kind have equal shapes.
    pub(crate) kinds: Vec<usize>,
    /// Places of devices by driver, pool and name.
    index: HashMap<[String; 3], usize>,
    /// Of every device its node and its bit there.
    places: Vec<(usize, usize)>,
    pub(crate) free: Vec<Bits>,
    all: Vec<Bits>,
    counters: PoolCounters,
    pub(crate) classes: BTreeMap<String, DeviceClass>,
    pub(crate) drivers: Vec<String>,
    pub(crate) holders: HashMap<usize, String>,
    /// Aligned sets of nodes that are kept for claims of a mode.
    pub(crate) slots: BTreeMap<Vec<usize>, usize>,
    pub(crate) found: RefCell<HashMap<SearchKey, Option<Assignment>>>,
    selected: RefCell<HashMap<(Arc<AskKey>, usize), bool>>,
    /// By what decides them, of every node.
    candidates: RefCell<HashMap<Arc<CandidateKey>, Vec<Option<Arc<[usize]>>>>>,
    numbered: RefCell<HashMap<(usize, QualifiedName), Arc<[Option<u32>]>>>,
}

impl AllocationState {
    /// Reads inventory and classes; a class of the name of a driver need not be given.
    pub(crate) fn new(documents: &[Document], claims: &[Document]) -> Result<Self> {
        let (devices, amounts) = inventory::read(documents)?;
        let drivers: BTreeSet<String> = devices.iter().map(|device| device.driver.clone()).collect();
        let nodes = inventory::by_node(&devices);
        let layouts: Vec<NodeLayout> =
            nodes.into_iter().map(|(node, places)| NodeLayout::new(node, places, &devices)).collect();
        let mut classes = BTreeMap::new();
        for driver in &drivers {
            for document in Document::read("implied", device_class(driver, None)?)? {
                classes.insert(document.name(), read_class(&document)?);
            }
        }
        for document in of_kind(documents, "DeviceClass").chain(of_kind(claims, "DeviceClass")) {
            classes.insert(document.name(), read_class(document)?);
        }
        let blocks = ultraservers(&layouts, &devices);
        let mut block_of = vec![None; layouts.len()];
        for (number, block) in blocks.iter().enumerate() {
            block.nodes.iter().for_each(|node| block_of[*node] = Some(number));
        }
        let mut places = vec![(0, 0); devices.len()];
        for (node, layout) in layouts.iter().enumerate() {
            layout.devices.iter().enumerate().for_each(|(bit, device)| places[*device] = (node, bit));
        }
        let all: Vec<Bits> = layouts.iter().map(NodeLayout::all).collect();
        let mut shapes = HashMap::new();
        let kinds = layouts.iter().map(|layout| {
            let next = shapes.len();
            *shapes.entry(&layout.shape).or_insert(next)
        });
        let kinds = kinds.collect();
        drop(shapes);
        Ok(Self {
            drivers: drivers.into_iter().collect(),
            kinds,
            free: all.clone(),
            holders: HashMap::new(),
            slots: BTreeMap::new(),
            found: RefCell::default(),
            selected: RefCell::default(),
            candidates: RefCell::default(),
            index: devices.iter().enumerate().map(|(place, device)| (identity(device), place)).collect(),
            numbered: RefCell::default(),
            counters: PoolCounters::new(&devices, &amounts),
            devices,
            layouts,
            block_of,
            blocks,
            places,
            all,
            classes,
        })
    }

    /// The UltraServer of a node.
    pub(crate) fn block_of(&self, node: usize) -> Option<&UltraServerNodes> {
        self.block_of[node].map(|block| &self.blocks[block])
    }

    /// Whether all of a node is free.
    pub(crate) fn is_whole(&self, node: usize) -> bool {
        self.free[node] == self.all[node]
    }

    /// Whether all of some nodes is free.
    pub(crate) fn are_whole(&self, nodes: &[usize]) -> bool {
        nodes.iter().all(|node| self.is_whole(*node))
    }

    /// All devices of a node.
    pub(crate) fn all_of(&self, node: usize) -> &Bits {
        &self.all[node]
    }

    /// Whether a device and all that is taken with it is free.
    pub(crate) fn is_free(&self, device: usize) -> bool {
        let (node, bit) = self.places[device];
        self.layouts[node].shape.footprint[bit].is_within(&self.free[node])
    }

    /// The claim that holds a device.
    pub(crate) fn holder(&self, device: usize, unknown: &'static str) -> &str {
        self.holders.get(&device).map_or(unknown, String::as_str)
    }

    /// The node of a device.
    pub(crate) fn node_of(&self, device: usize) -> usize {
        self.places[device].0
    }

    /// The name of a node.
    pub(crate) fn name_of(&self, node: usize) -> &str {
        &self.layouts[node].node
    }

    /// The aligned set of nodes that a node belongs to.
    fn slot_of(&self, node: usize, mode: usize) -> Option<&Vec<usize>> {
        self.block_of(node)?.slots(mode).iter().find(|slot| slot.contains(&node))
    }

    /// Marks a device as taken; with a mode, opens the set of its node.
    pub(crate) fn take(&mut self, claim: &str, device: usize, mode: Option<usize>) {
        let (node, bit) = self.places[device];
        let layout = &self.layouts[node];
        let taken = &layout.shape.footprint[bit];
        self.free[node].remove(taken);
        for (other, place) in layout.devices.iter().enumerate() {
            // A node's own device goes with the first of its parts.
            if taken.has(other) || (layout.wholes.has(other) && layout.shape.footprint[other].meets(taken)) {
                self.holders.entry(*place).or_insert_with(|| claim.to_owned());
            }
        }
        // Of others of its pool too, the whole UltraServer for one, too little may be left.
        for other in self.counters.take(device) {
            let (node, bit) = self.places[other];
            self.free[node].take_out(bit);
            self.holders.entry(other).or_insert_with(|| claim.to_owned());
        }
        if let Some(mode) = mode.filter(|mode| *mode > 1)
            && let Some(slot) = self.slot_of(node, mode).cloned()
        {
            self.slots.insert(slot, mode);
        }
    }

    /// What is left of the counters that a node's devices use; all of it if the node is to be `empty`.
    pub(crate) fn counters_of(&self, node: usize, empty: bool) -> NodeCounters {
        self.counters.of_node(&self.layouts[node].devices, empty)
    }

    /// Whether a node is none, but a device that several nodes reach together.
    pub(crate) fn spans_nodes(&self, node: usize) -> bool {
        !self.layouts[node].spans(&self.devices).is_empty()
    }

    /// The nodes that reach a node's devices: itself, or those that its device stands for.
    pub(crate) fn reached_by(&self, node: usize) -> &[String] {
        let layout = &self.layouts[node];
        let spans = layout.spans(&self.devices);
        if spans.is_empty() { std::slice::from_ref(&layout.node) } else { spans }
    }

    /// Whether one of the nodes that a device stands for is kept for claims of a mode.
    fn is_kept_in_part(&self, node: usize, kept: &BTreeSet<usize>) -> bool {
        let names = self.layouts[node].spans(&self.devices);
        kept.iter().any(|other| names.iter().any(|name| name == self.name_of(*other)))
    }

    /// The positions of the devices on a node that match a request, free or not.
    pub(crate) fn candidates(&self, ask: &ClaimAsk, node: usize) -> Result<Arc<[usize]>> {
        if let Some(Some(known)) = self.candidates.borrow().get(&ask.candidates).map(|nodes| &nodes[node]) {
            return Ok(known.clone());
        }
        let mut positions = Vec::new();
        for (position, device) in self.layouts[node].devices.iter().enumerate() {
            if self.matches(ask, *device)? {
                positions.push(position);
            }
        }
        let positions: Arc<[usize]> = positions.into();
        let mut candidates = self.candidates.borrow_mut();
        let nodes = candidates.entry(ask.candidates.clone()).or_insert_with(|| vec![None; self.layouts.len()]);
        nodes[node] = Some(positions.clone());
        Ok(positions)
    }

    /// Whether a device is of the class and passes selectors, capacity and taints.
    pub(crate) fn matches(&self, ask: &ClaimAsk, device: usize) -> Result<bool> {
        Ok(self.is_selected(ask, device)? && ask.tolerates(&self.devices[device]))
    }

    /// Whether a device is of the class and passes selectors and capacity.
    pub(crate) fn is_selected(&self, ask: &ClaimAsk, device: usize) -> Result<bool> {
        let marker = (ask.key.clone(), device);
        if let Some(known) = self.selected.borrow().get(&marker) {
            return Ok(*known);
        }
        let there = &self.devices[device];
        let mut accepted = true;
        let class = self.classes.get(&ask.class_name).map(|class| class.selectors.as_slice()).unwrap_or_default();
        for selector in class.iter().chain(&ask.selectors) {
            accepted = accepted && selector.accepts(there)?;
        }
        let accepted = accepted && ask.fits(there);
        self.selected.borrow_mut().insert(marker, accepted);
        Ok(accepted)
    }

    /// A number for each device's value of an attribute, by the order in which values come first.
    pub(crate) fn numbered(&self, node: usize, attribute: &QualifiedName) -> Arc<[Option<u32>]> {
        let marker = (node, attribute.clone());
        if let Some(known) = self.numbered.borrow().get(&marker) {
            return known.clone();
        }
        let mut numbers = HashMap::new();
        let devices = self.layouts[node].devices.iter().map(|device| &self.devices[*device]);
        let values = devices.map(|device| {
            let next = numbers.len() as u32;
            let value = device.attribute(&attribute.0, &attribute.1)?;
            Some(*numbers.entry(value).or_insert(next))
        });
        let values: Arc<[Option<u32>]> = values.collect();
        self.numbered.borrow_mut().insert(marker, values.clone());
        values
    }

    /// The nodes that claims may use: their UltraServer mode and others' sets decide.
    pub(crate) fn allowed_nodes(&self, settings: &[ClaimSettings]) -> Vec<usize> {
        let kept: BTreeSet<usize> = self.slots.keys().flatten().copied().collect();
        let nodes = 0..self.layouts.len();
        match settings.iter().filter_map(|each| each.mode).max() {
            None => nodes
                .filter(|node| !kept.contains(node) || !self.is_whole(*node))
                .filter(|node| !self.is_kept_in_part(*node, &kept))
                .collect(),
            Some(1) => nodes.filter(|node| self.block_of(*node).is_some() && !kept.contains(node)).collect(),
            Some(mode) => {
                let (mut begun, mut fresh) = (Vec::new(), Vec::new());
                for slot in self.blocks.iter().flat_map(|block| block.slots(mode)) {
                    if self.slots.get(slot) == Some(&mode) {
                        begun.extend(slot.iter().copied().filter(|node| self.is_whole(*node)));
                    } else if self.are_whole(slot) && !slot.iter().any(|node| kept.contains(node)) {
                        fresh.extend(slot);
                    }
                }
                if begun.is_empty() { fresh } else { begun }
            }
        }
    }

    /// What using a node costs beyond it: what was wholly free and is not any more.
    pub(crate) fn opened(&self, node: usize, settings: &[ClaimSettings]) -> Vec<usize> {
        let Some(block) = self.block_of(node) else { return Vec::new() };
        let mode = settings.iter().map(|each| each.mode.unwrap_or(1)).max().unwrap_or(1);
        let mut costs = vec![usize::from(self.are_whole(&block.nodes))];
        for size in SLOT_SIZES {
            // A set that the claim itself is going to fill is not lost.
            let lost = size > mode && self.slot_of(node, size).is_some_and(|slot| self.are_whole(slot));
            costs.push(usize::from(lost));
        }
        costs
    }

    /// Takes the devices that a claim has already.
    pub(crate) fn hold(&mut self, claim: &ResourceClaim) -> Result<()> {
        let mode = ClaimSettings::read(claim, &self.drivers)?.mode;
        let results = claim.allocation().and_then(|held| given(held, "devices")?.get("results"));
        let results = results.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, result) in results.iter().enumerate() {
            let place = format!("status.allocation.devices.results[{index}]");
            let fail = |reason: String| Error::Malformed(format!("{}: {place}: {reason}", claim.document));
            let Value::Object(result) = result else { return Err(fail("must be a mapping".to_owned())) };
            let named =
                ["driver", "pool", "device"].map(|key| result.get(key).map_or_else(|| shown(&Value::Null), text_of));
            let Some(&device) = self.index.get(&named) else {
                let [driver, pool, name] = named;
                return Err(fail(format!("the inventory has no device {pool}/{name} of driver {driver}")));
            };
            if result.get("adminAccess").is_some_and(|admin| !is_nothing(admin)) {
                continue;
            }
            if !self.is_free(device) {
                let holder = self.holder(device, "another");
                return Err(fail(format!("{} is held by claim {holder} too", self.devices[device])));
            }
            self.take(&claim.label, device, mode);
        }
        Ok(())
    }
}

fn identity(device: &PoolDevice) -> [String; 3] {
    [&device.driver, &device.pool, &device.name].map(String::clone)
}
