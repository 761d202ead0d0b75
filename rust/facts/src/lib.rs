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
//!
//! [`Facts`] are what is published; a [`Spec`] is what computations use: each figure as it follows from the parts, by the
//! formulas of `formulas.toml`, beside what is published. [`peak`] says what a chip multiplies, [`machine`] describes
//! cores for the simulator, [`compare`] sets systems beside each other.

#![forbid(unsafe_code)]

mod band;
mod base;
mod built_in;
pub mod change;
mod check;
mod comparison;
mod documents;
mod error;
mod evidence;
mod expression;
mod facts;
pub mod files;
mod formula;
mod lookup;
pub mod machine;
mod peak;
mod quantity;
mod reading;
mod show;
mod spec;
mod system_text;
mod unit;
mod value;
mod variation;
mod what_if;

pub use band::PredictionBand;
pub use built_in::{BUILT_IN, NCCOM_TABLES, PRICES, aliases, canonical, parameters};
pub use comparison::{Cell, Comparison, ComparisonRow, Peaks, compare};
pub use documents::systems_page;
pub use error::{Error, Result, allowed};
pub use evidence::Evidence;
pub use expression::{Expression, evaluate};
pub use facts::{Facts, Siblings};
pub use formula::{Rule, Rules, formulas};
pub use peak::{array_peak, peak};
pub use quantity::{Quantity, Source, Status, agree};
pub use show::{general, rounded, shown};
pub use spec::{Override, Overrides, ROLES, Spec, figure};
pub use system_text::{SystemText, base_and_changes, taken_apart};
pub use unit::{factor, known_factor};
pub use value::Value;
pub use variation::{ConstantDraw, drawn, is_drawing};
pub use what_if::COUNTS;
