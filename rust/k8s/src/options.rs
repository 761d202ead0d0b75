//! What of a system is published, and under which names.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::names;

/// Version that devices report unless told otherwise: the driver of Neuron SDK 2.27.
pub const NEURON_DRIVER_VERSION: &str = "2.25.4.0";

/// A taint as it is asked for: texts by `key`, `value` and `effect`.
pub(crate) type TaintWords = IndexMap<String, String>;

/// What of a system is published, and under which names.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SliceOptions {
    /// How many nodes; by default one UltraServer or one instance. More than an UltraServer has begin another.
    pub nodes: Option<i64>,
    /// The driver's name, which is the domain of the plain attributes too.
    pub driver: String,
    /// Publish `logicalNeuronCore` in our domain: what the nodes were started with.
    pub lnc: Option<i64>,
    /// Publish the device groups of EFA, `resource.aws.com/devicegroup{1,4,8,16}_id`.
    pub efa: bool,
    /// Publish a device for each whole node of an UltraServer.
    pub node_devices: bool,
    /// Publish counters, by which a node and its chips exclude each other for any scheduler (Kubernetes 1.35 and later).
    pub counters: bool,
    /// Publish a device for each whole UltraServer, in one pool with all of its nodes, and counters with it.
    pub ultraserver_devices: bool,
    /// What devices report as the version of the driver.
    pub neuron_driver_version: String,
    /// What devices report as the type of their instance; by default the system's.
    pub instance_type: Option<String>,
    /// Taints by `pool/device`.
    pub taints: IndexMap<String, Vec<IndexMap<String, String>>>,
    /// Of the pools.
    pub generation: i64,
}

impl Default for SliceOptions {
    fn default() -> Self {
        Self {
            nodes: None,
            driver: names::DEFAULT_DRIVER.to_owned(),
            lnc: None,
            efa: true,
            node_devices: true,
            counters: false,
            ultraserver_devices: false,
            neuron_driver_version: NEURON_DRIVER_VERSION.to_owned(),
            instance_type: None,
            taints: IndexMap::new(),
            generation: 1,
        }
    }
}
