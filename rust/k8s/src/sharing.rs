//! Pools whose devices exclude each other by counters: a node and its chips, an UltraServer and all that it has.
//!
//! A set `node` has as many `chips` as the node: each chip uses one, the device of the whole node all. In the pool of an
//! UltraServer a set `ultraserver` has the chips of all of it, and sets `nodes-0`, `nodes-1`, ... a counter for each node,
//! as many to a set as Kubernetes allows; a device uses counters of two sets at most, so that the whole UltraServer uses
//! those of the first alone.

use serde_json::{Map, Value, json};

use crate::attributes::Publisher;
use crate::names;
use crate::topology::TopologyNode;

/// Devices of a pool and the sets of counters that they share.
pub(crate) struct SharedPool {
    pub(crate) devices: Vec<Value>,
    pub(crate) sets: Vec<Value>,
}

fn amount(chips: usize) -> Value {
    json!({"value": chips.to_string()})
}

/// Chips that a device of a node takes.
fn chips_of(device: &Value, chips: usize) -> usize {
    let kind = &device["attributes"]["resourceType"]["string"];
    if kind == names::NODE { chips } else { 1 }
}

/// The pool of one node.
pub(crate) fn node_pool(mut devices: Vec<Value>, chips: usize) -> SharedPool {
    for device in &mut devices {
        let counters = json!({"chips": amount(chips_of(device, chips))});
        device["consumesCounters"] = json!([{"counterSet": "node", "counters": counters}]);
    }
    SharedPool { devices, sets: vec![json!({"name": "node", "counters": {"chips": amount(chips)}})] }
}

/// The pool of an UltraServer, or of that part of it which there is; only a whole one has a device of its own.
pub(crate) fn ultraserver_pool(
    publisher: &Publisher<'_>,
    nodes: &[TopologyNode],
    [chips, servers]: [usize; 2],
) -> SharedPool {
    let all = chips * nodes.len();
    let mut devices = Vec::new();
    let mut sets = vec![json!({"name": "ultraserver", "counters": {"chips": amount(all)}})];
    if let Some(first) = nodes.first().filter(|_| nodes.len() == servers) {
        let hosts: Vec<String> = nodes.iter().map(|node| publisher.pool(node)).collect();
        let mut whole = publisher.ultraserver(first);
        let need = json!({"key": names::HOSTNAME, "operator": "In", "values": hosts});
        whole["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [need]}]});
        whole["consumesCounters"] = json!([{"counterSet": "ultraserver", "counters": {"chips": amount(all)}}]);
        devices.push(whole);
    }
    for (number, group) in nodes.chunks(names::MAX_COUNTERS).enumerate() {
        let set = format!("nodes-{number}");
        let mut counters = Map::new();
        for node in group {
            let short = format!("r{}-s{}", node.rack, node.server);
            counters.insert(short.clone(), amount(chips));
            for mut device in publisher.devices(node) {
                let taken = amount(chips_of(&device, chips));
                let name = format!("{short}-{}", device["name"].as_str().unwrap_or_default());
                device["name"] = name.into();
                device["nodeName"] = publisher.pool(node).into();
                device["consumesCounters"] = json!([
                    {"counterSet": "ultraserver", "counters": {"chips": taken}},
                    {"counterSet": set, "counters": {short.as_str(): taken}},
                ]);
                devices.push(device);
            }
        }
        sets.push(json!({"name": set, "counters": counters}));
    }
    SharedPool { devices, sets }
}
