//! Kubernetes' dynamic resource allocation on simulated systems: the driver that publishes devices, and the allocator of
//! claims that knows their topology. Objects are those of `resource.k8s.io/v1`, as plain data.
//!
//! [`resource_slices`] says what the nodes of a system have, [`allocate`] gives devices to claims or says why not and what
//! would work, [`fragmentation`] counts what is left. There is no kubelet plugin, no scheduler and no image here.
//!
//! ```
//! use trn3_k8s::{Document, SliceOptions, fragmentation, resource_slices};
//!
//! let slices = resource_slices("gen2", &SliceOptions::default())?;
//! let mut inventory = Vec::new();
//! for body in slices {
//!     inventory.extend(Document::read("slices", body)?);
//! }
//! assert_eq!(fragmentation(&inventory, &[])?.free_ultraservers, 1);
//! # Ok::<(), trn3_k8s::Error>(())
//! ```
#![forbid(unsafe_code)]

mod allocate;
mod attempt;
mod attributes;
mod bits;
mod claims;
mod config;
mod counters;
mod device;
mod document;
mod error;
mod inventory;
mod layout;
mod likeness;
mod names;
mod options;
mod refusal;
mod report;
mod score;
mod search;
mod selector;
mod sharing;
mod shown;
mod slices;
mod state;
mod topology;
mod ultraserver;
mod values;
mod workload;

pub use allocate::{ASSUMPTIONS, Allocation, PlacedClaim, allocate};
pub use claims::ResourceClaim;
pub use device::{DeviceTaint, PoolDevice, QualifiedName};
pub use document::{Document, Object};
pub use error::{Error, Result};
pub use inventory::devices;
pub use names::{DEFAULT_DRIVER, OWN_DOMAIN};
pub use options::{NEURON_DRIVER_VERSION, SliceOptions};
pub use report::{FragmentationReport, NodeReport, fragmentation};
pub use score::PlacementScore;
pub use selector::Selector;
pub use slices::{device_class, pool_slices, resource_slices};
pub use topology::{NodeSystem, TopologyNode};
pub use values::{AttributeValue, ResourceQuantity, SemanticVersion};
