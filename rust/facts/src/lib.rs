//! Published figures as data: a spec file for each system, each figure with its unit, its sources and their conflicts.
//!
//! A spec file is TOML with one table named as the system. Keys that begin with `_` describe the system (`_title`,
//! `_kind`, `_parent`, `_chip`, `_fabric`); every other key is a quantity: `default` (what is used), `unit`, `conflict`
//! (whether the sources disagree), optionally `why` and `note`, and `sources`, a list of `{ value, source }`.
//!
//! ```
//! use trn3_facts::Facts;
//!
//! let chip = Facts::built_in("trainium3").unwrap();
//! let bandwidth = chip.quantity("hbm_bandwidth").unwrap();
//! assert_eq!(bandwidth.number().unwrap(), 4.9);
//! assert_eq!(bandwidth.unit, "TB/s");
//! assert!(bandwidth.conflict && bandwidth.sources.len() > 1);
//! assert_eq!(chip.si("hbm_bandwidth").unwrap(), 4.9e12);
//! ```

#![forbid(unsafe_code)]

mod error;
mod load;
mod quantity;
mod unit;

pub use error::{Error, Result, allowed};
pub use load::{BUILT_IN, Facts};
pub use quantity::{Quantity, Source, Value};
pub use unit::factor;
