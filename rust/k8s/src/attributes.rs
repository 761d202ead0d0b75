//! What devices say of themselves: names and types are those of AWS's DRA driver.
//!
//! Values that only a cloud could give (EFA addresses, capacity blocks, network nodes) are made from the place in the
//! system, so that they are the same every time **(choice)**: an UltraServer has one capacity block and one network node
//! of layer 3; all share those of layers 1 and 2. Attributes in our own domain say where a device is (`rack`, `server`,
//! `row`, `column`) and which chip it is.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::document::Object;
use crate::names;
use crate::options::SliceOptions;
use crate::topology::{NodeSystem, TopologyNode};

const DRA_DRIVER_VERSION: &str = "1.0.0";

/// First bus of the chips on PCI.
const FIRST_BUS: usize = 0x10;

/// Publishes the devices of a system.
pub(crate) struct Publisher<'a> {
    shape: &'a NodeSystem,
    options: &'a SliceOptions,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(shape: &'a NodeSystem, options: &'a SliceOptions) -> Self {
        Self { shape, options }
    }

    /// The name of a node's pool.
    pub(crate) fn pool(&self, node: &TopologyNode) -> String {
        let base = self.shape.name.replace('_', "-");
        match node.ultraserver {
            None => format!("{base}-{}", node.server),
            Some(block) => format!("{base}-{block}-r{}-s{}", node.rack, node.server),
        }
    }

    /// The name of an UltraServer's pool.
    pub(crate) fn pool_of_ultraserver(&self, block: usize) -> String {
        format!("{}-{block}", self.shape.name.replace('_', "-"))
    }

    /// The device that stands for a whole UltraServer.
    pub(crate) fn ultraserver(&self, node: &TopologyNode) -> Value {
        let mut all = Object::new();
        self.put_common(&mut all, names::ULTRASERVER);
        self.put_network(&mut all, node);
        self.put_block(&mut all, node);
        say(&mut all, &own("chip"), &self.shape.chip);
        let chips = self.shape.devices * self.shape.servers;
        let mut whole = self.capacity(chips);
        whole["neuronDevices"] = json!({"value": chips.to_string()});
        json!({"name": "neuron-ultraserver-0", "attributes": all, "capacity": whole})
    }

    fn capacity(&self, chips: usize) -> Value {
        let memory = self.shape.memory_gib * chips as u64;
        let cores = self.shape.cores * chips as u64;
        json!({"memory": {"value": format!("{memory}Gi")}, "neuronCores": {"value": cores.to_string()}})
    }

    /// The devices of a node: its chips, and the one that stands for all of it.
    pub(crate) fn devices(&self, node: &TopologyNode) -> Vec<Value> {
        let chip = |index: usize| {
            json!({
                "name": format!("neuron-device-{index}"),
                "attributes": self.of_chip(node, index),
                "capacity": self.capacity(1),
            })
        };
        let mut devices: Vec<Value> = (0..self.shape.devices).map(chip).collect();
        if self.shape.is_ultraserver() && self.options.node_devices {
            let mut whole = self.capacity(self.shape.devices);
            whole["neuronDevices"] = json!({"value": self.shape.devices.to_string()});
            devices.push(json!({"name": "neuron-node-0", "attributes": self.of_node(node), "capacity": whole}));
        }
        devices
    }

    fn of_chip(&self, node: &TopologyNode, index: usize) -> Object {
        let mut all = Object::new();
        put(&mut all, "deviceId", index);
        self.put_common(&mut all, names::DEVICE);
        self.put_network(&mut all, node);
        if let Some((_, columns)) = self.shape.torus {
            let (row, column) = (index / columns, index % columns);
            if !self.shape.is_ultraserver() {
                put(&mut all, "topology_x", row);
                put(&mut all, "topology_y", column);
                put(&mut all, "topology4_id", row);
                put(&mut all, "topology8_id", row / 2);
            }
            put(&mut all, &own("row"), row);
            put(&mut all, &own("column"), column);
            if let Some(numa) = self.shape.numa_of_row.get(row) {
                all.insert(names::NUMA_ATTRIBUTE.to_owned(), json!({"int": numa}));
            }
        }
        self.put_block(&mut all, node);
        if self.options.efa {
            self.put_groups(&mut all, node, index);
        }
        self.put_own(&mut all, node);
        all
    }

    fn of_node(&self, node: &TopologyNode) -> Object {
        let mut all = Object::new();
        self.put_common(&mut all, names::NODE);
        self.put_network(&mut all, node);
        self.put_block(&mut all, node);
        self.put_own(&mut all, node);
        all
    }

    fn put_common(&self, all: &mut Object, kind: &str) {
        let instance = self.options.instance_type.as_ref().filter(|name| !name.is_empty());
        say(all, "instanceType", instance.unwrap_or(&self.shape.instance_type));
        say(all, "neuronDriverVersion", &self.options.neuron_driver_version);
        all.insert("draDriverVersion".to_owned(), json!({"version": DRA_DRIVER_VERSION}));
        say(all, "resourceType", kind);
    }

    fn put_network(&self, all: &mut Object, node: &TopologyNode) {
        let block = node.ultraserver.map_or_else(|| format!("instance {}", node.server), |block| block.to_string());
        let place = format!("layer 3/{}/{block}", self.shape.name);
        for (key, place) in
            [("networkNodeLayer1", "layer 1"), ("networkNodeLayer2", "layer 2"), ("networkNodeLayer3", &place)]
        {
            say(all, key, &format!("nn-{}", token(place, 17)));
        }
    }

    fn put_block(&self, all: &mut Object, node: &TopologyNode) {
        if let Some(block) = node.ultraserver {
            let place = format!("block/{}/{block}", self.shape.name);
            say(all, "capacityBlockId", &format!("cr-{}", token(&place, 17)));
        }
    }

    /// Groups of chips that share a network card.
    fn put_groups(&self, all: &mut Object, node: &TopologyNode, index: usize) {
        let block = node.ultraserver.map_or_else(|| "None".to_owned(), |block| block.to_string());
        let place = format!("group/{}/{block}/{}/{}", self.shape.name, node.rack, node.server);
        for size in names::GROUP_SIZES {
            let value = match size {
                // An address on the PCI bus in the form of bus:device.function.
                1 => format!("0000:{:02x}:00.0", FIRST_BUS + index),
                _ if size <= self.shape.devices => token(&format!("{place}/{size}/{}", index / size), 16),
                _ => continue,
            };
            say(all, &format!("{}/devicegroup{size}_id", names::GROUP_DOMAIN), &value);
        }
    }

    fn put_own(&self, all: &mut Object, node: &TopologyNode) {
        say(all, &own("chip"), &self.shape.chip);
        if let Some(lnc) = self.options.lnc {
            all.insert(own("logicalNeuronCore"), json!({"int": lnc}));
        }
        put(all, &own("rack"), node.rack);
        put(all, &own("server"), node.server);
    }
}

fn own(identifier: &str) -> String {
    format!("{}/{identifier}", names::OWN_DOMAIN)
}

fn put(all: &mut Object, key: &str, value: usize) {
    all.insert(key.to_owned(), json!({"int": value}));
}

fn say(all: &mut Object, key: &str, value: &str) {
    all.insert(key.to_owned(), json!({"string": value}));
}

/// So many digits that stand for a place, the same every time.
pub(crate) fn token(place: &str, length: usize) -> String {
    let digest = Sha256::digest(place.as_bytes());
    let mut text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(length);
    text
}
