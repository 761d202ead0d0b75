//! Fabrics: graphs of chips and switches, the ways through them, what bounds traffic, and what faults do.
//!
//! A fabric is described by the `_fabric` table of a spec file and by nothing else: coordinates (axes) of its chips
//! and levels of links. A level joins the chips that differ in some axes through a `switch`, as a `ring` along each
//! axis, or by `direct` links from each to each. That is enough for tori (Trn1, Trn2, TPU), for the switched
//! UltraServers of Trn3, and for NVLink racks; a system of one's own is a TOML file of the same form.
//!
//! ```
//! use trn3_system::fabric::{Fabric, LinkProfile};
//!
//! let torus = Fabric::built_in("trn2_instance", LinkProfile::Docs).unwrap();
//! assert_eq!(torus.chip_id(7), [1, 3]);
//! assert_eq!(torus.hops(0, 10).unwrap(), 4);
//! ```

pub mod bound;
mod build;
mod cycles;
mod drawing;
mod faults;
mod graph;
mod route;
mod select;
mod spec;
mod switched;
mod torus;
mod tree;

pub use bound::{Cut, TrafficBound};
pub(crate) use build::SYSTEM_AXIS;
pub use build::described_system;
pub use drawing::{Drawing, DrawnLink, DrawnNode};
pub use faults::{Fault, HealthClass, Slowdown};
pub use graph::{Axis, Fabric, FabricLevel, JoinedNetwork, Link, Node, NodeKind};
pub use route::{FabricRoute, Leg, Path};
pub use spec::{AxisSpec, FabricSpec, Figure, LevelKind, LevelSpec, LinkProfile, NetworkSpec, NumaSpec};

#[cfg(test)]
mod tests;
