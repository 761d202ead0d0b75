//! What work costs without running it: typed shapes in, time and energy out, from the machine's figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trn3_machine::arch::ArchSpec;
use trn3_machine::time::Picos;
use trn3_system::collective::{Estimator, Operation as SystemOperation, RankGroup};
use trn3_system::energy::{self, EnergyModel, EnergyWork};
use trn3_system::fabric::{Fabric, LinkProfile};

use super::Device;
use crate::command::Operation;
use crate::error::{Error, ErrorKind, Result};

/// A piece of work of one device, by its shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "snake_case", deny_unknown_fields)]
pub enum Kernel {
    /// [m, k] by [k, n], operands from HBM, the result to it.
    Matmul {
        /// Rows of the result.
        m: u64,
        /// Contraction.
        k: u64,
        /// Columns of the result.
        n: u64,
        /// Of the operands: bf16, fp16, fp8, mxfp8, mxfp4, tf32, fp32.
        dtype: String,
    },
    /// One result an element, of so many operands, from HBM and to it.
    Elementwise {
        /// Elements.
        elements: u64,
        /// Operands.
        operands: u32,
        /// Of operands and result: bf16, fp16, fp8, fp32.
        dtype: String,
    },
    /// A transfer between HBM and SBUF.
    Dma {
        /// Bytes.
        bytes: u64,
    },
    /// A collective, by the fastest algorithm.
    Collective {
        /// What is done.
        operation: Operation,
        /// Ranks (cores): the first ones of the system.
        ranks: u32,
        /// Bytes of the operation: of all_gather the gathered buffer, else one rank's input.
        bytes: u64,
    },
}

/// What a piece of work costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How long it takes.
    pub time: Picos,
    /// Picojoules, of the device's share of its chip's static power too; 0 where no power of the chip is published.
    pub energy_pj: f64,
}

/// What estimates are made of, made once.
pub(crate) struct Estimates {
    energy: Result<EnergyModel>,
    collectives: Result<Estimator>,
    chips: usize,
    groups: BTreeMap<u32, RankGroup>,
}

/// Bytes of an element, and how TensorE takes it: contraction rows at once, and passes.
fn precision(arch: &ArchSpec, dtype: &str) -> Result<(&'static str, f64, f64)> {
    let found = match dtype {
        "bf16" | "bfloat16" => ("bf16", 2.0, 1.0),
        "fp16" | "float16" => ("fp16", 2.0, 1.0),
        "fp8" | "float8_e4m3" | "float8_e4m3fn" | "float8_e5m2" => ("fp8", 1.0, arch.double_row_elements as f64),
        // A scale is one byte for 32 elements.
        "mxfp8" => ("mxfp8", 1.0 + 1.0 / 32.0, arch.mx_elements as f64),
        "mxfp4" => ("mxfp4", 0.5 + 1.0 / 32.0, arch.mx_elements as f64),
        "tf32" | "tfloat32" => ("tf32", 4.0, 1.0),
        "fp32" | "float32" => ("fp32", 4.0, 1.0 / arch.float32_passes as f64),
        _ => {
            let known = "bf16, fp16, fp8, mxfp8, mxfp4, tf32, fp32";
            return Err(Error::new(ErrorKind::Type, format!("dtype is {dtype:?}; allowed: {known}")));
        }
    };
    if found.2 == 0.0 {
        return Err(no_such_mode(arch, dtype));
    }
    Ok(found)
}

fn no_such_mode(arch: &ArchSpec, dtype: &str) -> Error {
    Error::new(ErrorKind::Type, format!("dtype is {dtype:?}; TensorE of {} has none", arch.name))
}

/// Nanoseconds as time, as far as there is time.
fn picos(nanoseconds: f64) -> Picos {
    Picos::from_nanoseconds(nanoseconds)
}

impl Device {
    /// What a piece of work costs on this device, all its cores sharing it: the longer of what engines and memory take, and
    /// the start of a transfer and of an engine where they are needed **(choice)**.
    ///
    /// # Errors
    /// [`ErrorKind::Type`] for a dtype, [`ErrorKind::Value`] for shapes without elements and groups that the system has not.
    ///
    /// ```
    /// use trn3_embed::{Device, DeviceSpec, Kernel};
    ///
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// let matmul = |m| Kernel::Matmul { m, k: 4096, n: 4096, dtype: "bf16".to_owned() };
    /// let (small, large) = (device.estimate(&matmul(1024))?, device.estimate(&matmul(4096))?);
    /// assert!(small.time < large.time && small.energy_pj < large.energy_pj);
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn estimate(&mut self, kernel: &Kernel) -> Result<Estimate> {
        let arch = Arc::clone(&self.arch);
        let cores = f64::from(self.spec.cores);
        let share = cores / arch.cores as f64;
        let bandwidth = arch.hbm_gbps * share;
        let at_least_one = |counts: &[(&str, u64)]| match counts.iter().find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(Error::value(format!("{name} is 0; at least 1 is needed"))),
            None => Ok(()),
        };
        let mut work = EnergyWork::default();
        let nanoseconds = match kernel {
            Kernel::Matmul { m, k, n, dtype } => {
                at_least_one(&[("m", *m), ("k", *k), ("n", *n)])?;
                let (name, size, rows) = precision(&arch, dtype)?;
                let side = arch.partitions as f64;
                let tiles = (*k as f64 / (side * rows.max(1.0))).ceil() * (*m as f64 / side).ceil();
                let cycles = tiles * *n as f64 / rows.min(1.0);
                let engines = cycles / cores * 1e3 / arch.tensor_clock_mhz as f64;
                let (m, k, n) = (*m as f64, *k as f64, *n as f64);
                // Results leave in 16 bits, or as wide as what came.
                work.hbm_bytes = (m * k + k * n) * size + m * n * size.max(2.0);
                work.sbuf_bytes = 2.0 * work.hbm_bytes;
                work.add(name, 2.0 * m * k * n)?;
                engines.max(work.hbm_bytes / bandwidth) + arch.dma_start_static_ns + arch.matmul_fixed_ns
            }
            Kernel::Elementwise { elements, operands, dtype } => {
                at_least_one(&[("elements", *elements)])?;
                let (name, size, _) = precision(&arch, dtype)?;
                let rate = match (*operands > 1, size <= 2.0) {
                    (true, true) => arch.vector_pair_rate_16bit,
                    (true, false) => arch.vector_pair_rate,
                    (false, true) => arch.vector_copy_rate_16bit,
                    (false, false) => arch.vector_copy_rate_32bit,
                };
                let lanes = cores * arch.partitions as f64;
                let passes = f64::from((*operands).max(2) - 1);
                let engines = *elements as f64 * passes / (lanes * rate) * 1e3 / arch.vector_clock_mhz as f64;
                work.hbm_bytes = *elements as f64 * size * (f64::from(*operands) + 1.0);
                work.sbuf_bytes = 2.0 * work.hbm_bytes;
                work.add(name, *elements as f64 * passes)?;
                engines.max(work.hbm_bytes / bandwidth) + arch.dma_start_static_ns + arch.vector_fixed_ns
            }
            Kernel::Dma { bytes } => {
                work.hbm_bytes = *bytes as f64;
                work.sbuf_bytes = *bytes as f64;
                let engines = arch.dma_engine_bytes_per_ns * arch.dma_engines as f64 * cores;
                *bytes as f64 / engines.min(bandwidth) + arch.dma_start_static_ns
            }
            Kernel::Collective { operation, ranks, bytes } => {
                let seconds = self.collective_seconds((*operation).into(), *ranks, *bytes as f64)?;
                work.link_bytes = *bytes as f64;
                work.hbm_bytes = 2.0 * *bytes as f64;
                seconds * 1e9
            }
        };
        work.seconds = nanoseconds.max(1e-3) / 1e9;
        Ok(Estimate { time: picos(nanoseconds), energy_pj: self.energy_pj(&work, share)? })
    }

    /// The least time that so many operations and bytes of HBM take on this device: the longer of the two at their peaks.
    ///
    /// # Errors
    /// [`ErrorKind::Type`] for a dtype; [`ErrorKind::Value`] unless both are numbers from 0 on.
    ///
    /// ```
    /// use trn3_embed::{Device, DeviceSpec};
    ///
    /// let device = Device::new(DeviceSpec::default())?;
    /// assert_eq!(device.roofline(0.0, 0.0, "bf16")?.0, 0);
    /// assert!(device.roofline(1e12, 0.0, "fp32")? > device.roofline(1e12, 0.0, "mxfp8")?);
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn roofline(&self, flops: f64, bytes: f64, dtype: &str) -> Result<Picos> {
        for (name, value) in [("flops", flops), ("bytes", bytes)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::value(format!("{name} is {value}; a number from 0 on is needed")));
            }
        }
        let arch = &*self.arch;
        let (name, _, _) = precision(arch, dtype)?;
        let cores = f64::from(self.spec.cores);
        let peak = arch.peak_flops(name)?.ok_or_else(|| no_such_mode(arch, dtype))?;
        let flops_per_ns = peak / 1e9 * cores;
        let bytes_per_ns = arch.hbm_gbps * cores / arch.cores as f64;
        Ok(picos((flops / flops_per_ns).max(bytes / bytes_per_ns)))
    }

    fn energy_pj(&mut self, work: &EnergyWork, share: f64) -> Result<f64> {
        let energy = self.estimates()?.energy.clone();
        let Ok(mut model) = energy else {
            // Chips whose power nobody published have no energies, unless the host gives a power.
            return if self.spec.tdp.is_some() { energy.map(|_| 0.0) } else { Ok(0.0) };
        };
        model.static_watts *= share;
        Ok(energy::estimate(&model, work)?.joules * 1e12)
    }

    fn collective_seconds(&mut self, operation: SystemOperation, ranks: u32, bytes: f64) -> Result<f64> {
        let per_chip = u32::try_from(self.arch.cores).unwrap_or(u32::MAX);
        let estimates = self.estimates()?;
        let estimator = estimates.collectives.as_ref().map_err(Clone::clone)?;
        if !estimates.groups.contains_key(&ranks) {
            let group = RankGroup::new((0..ranks).collect(), per_chip, estimates.chips)?;
            estimates.groups.insert(ranks, group);
        }
        let Some(group) = estimates.groups.get(&ranks) else { return Ok(0.0) };
        Ok(estimator.estimate(operation, group, bytes, None)?.time)
    }

    fn estimates(&mut self) -> Result<&mut Estimates> {
        if self.estimates.is_none() {
            let system = self.spec.system(&self.arch).to_owned();
            let energy = EnergyModel::built_in(&system, self.spec.tdp).map_err(Error::from);
            let fabric = Fabric::built_in(&system, LinkProfile::Docs)?;
            let chips = fabric.chips();
            let collectives = Estimator::new(Arc::new(fabric)).map_err(Error::from);
            self.estimates = Some(Estimates { energy, collectives, chips, groups: BTreeMap::new() });
        }
        self.estimates.as_mut().ok_or_else(|| Error::new(ErrorKind::Internal, "estimates were made and are not there"))
    }
}
