//! What a run of a kernel cost, and why.
//!
//! [`RunColumns`] are what the machine recorded of a run on one core; [`Profile`] forms every figure from them: busy and
//! waiting time by engine, cause and line, the critical path, rates against the machine's peaks, the roofline, a
//! [verdict](Profile::verdict) in words, [tables](Profile::table), the text of `profile.json` and a Perfetto trace. Peaks
//! are the run's own machine description ([`MachineFigures`]); no figure of hardware stands in code.
//!
//! What would make a run faster is [`Profile::advice`]: its graph timed anew, change by change, with the time that each gains.
//!
//! Definitions, each formed in one place:
//!
//! - *busy*: time in which an engine's issue slot is held; of DMA, in which at least one DMA engine moves bytes. *Share*:
//!   that as part of the latency.
//! - *wait*: time in which an in-order stream stands idle before an instruction, by cause. Waits of DMA are summed over
//!   queues. *idle*: latency less busy and, but for DMA, less waits.
//! - *latency*: from the first start to the last result. Starting and ending a kernel is *overhead*, in no other figure.
//!
//! Times are whole picoseconds in columns, microseconds in figures, nanoseconds in traces and tables. Sums are of whole
//! numbers, divided once, so that no figure depends on an order of additions.
//!
//! ```
//! use std::sync::Arc;
//! use trn3_machine::arch::ArchSpec;
//! use trn3_machine::core::{At, CoreOptions, NeuronCore};
//! use trn3_machine::dtype::DType;
//! use trn3_machine::isa::dma::{Options, copy::DmaCopy};
//! use trn3_machine::memory::Request;
//! use trn3_machine::storage::Buffer;
//! use trn3_machine::view::View;
//! use trn3_profile::{Profile, RunColumns};
//!
//! let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
//! let mut tensor = |buffer| {
//!     let request = Request::unsited("x", &[128, 512], DType::BFloat16, buffer);
//!     core.allocate(&request).map(View::whole)
//! };
//! let (src, dst) = (tensor(Buffer::SharedHbm)?, tensor(Buffer::Sbuf)?);
//! core.issue(&DmaCopy { dst, src, options: Options::default(), engine: None }, At::default())?;
//! let profile = Profile::of_run(RunColumns::of(&mut core, "load"));
//! assert_eq!(profile.hbm_read_bytes(), 128 * 512 * 2);
//! assert_eq!(profile.figure("engines.dma.instructions"), Some(1.0));
//! assert!(profile.verdict().starts_with("Bound by"));
//! # Ok::<(), trn3_machine::Error>(())
//! ```
#![forbid(unsafe_code)]

mod advice;
mod band;
mod cause;
mod check;
mod columns;
mod columns_by_name;
mod core_profile;
mod critical;
mod engines;
mod error;
mod figures;
mod findings;
mod intervals;
mod kept_run;
mod lazy_recorded;
mod lines;
mod machine_figures;
mod meetings;
mod packed;
mod perfetto;
mod precision;
mod profile;
mod record;
mod recorded;
mod report;
mod roofline;
mod rows;
mod run_columns;
mod shared;
mod speed_of_light;
mod tables;
mod text;
mod traffic;
mod verdict;

pub use advice::{AdviceFigures, LEAST_GAIN, LazyAdvice, MOST_ADVICE, NOTHING, RunAdvice};
pub use band::{BasisShare, LatencyBasis};
pub use cause::{BOUNDS, CAUSES, EDGES, ENGINES, cause_words};
pub use check::{check_instructions, check_occupancy, check_transfers, check_waits};
pub use columns::{EdgeColumns, InstructionColumns, OccupancyColumns, TensorColumns, TransferColumns, UseColumns};
pub use columns_by_name::{ProfileTable, TableColumn};
pub use core_profile::CoreProfile;
pub use critical::CriticalStep;
pub use engines::{EngineTotal, WaitTimes};
pub use error::{Error, Result};
pub use figures::{FORMAT, FORMAT_VERSION, Figures};
pub use findings::{ReportedFinding, finding_record};
pub use intervals::sum_by_bin;
pub use lazy_recorded::LazyRecorded;
pub use lines::LineTotal;
pub use machine_figures::MachineFigures;
pub use precision::{CoreLoss, PrecisionLoss};
pub use profile::Profile;
pub use recorded::{MEMORIES, Recorded, USES, WrittenColumns};
pub use report::{REPORT_FORMAT, REPORT_VERSION, ReportShell, report_page};
pub use roofline::{Roofline, RooflineBound};
pub use run_columns::{BasisTime, CompileFigures, RunColumns};
pub use speed_of_light::SpeedOfLight;
pub use tables::TABLES;
pub use trn3_machine::timing::record::NO_INSTRUCTION;
