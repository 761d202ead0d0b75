//! Where a kernel stands under the ceilings of the machine.

use serde::{Serialize, Serializer};

use crate::machine_figures::MachineFigures;

/// Under which kind of ceiling a kernel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RooflineBound {
    /// TensorE's peak.
    Compute,
    /// What memory gives.
    Memory,
    /// Neither matmuls nor HBM traffic.
    None,
}

/// Where a kernel stands under the ceilings of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// FLOP per byte of HBM traffic; infinite without traffic (null in documents).
    #[serde(serialize_with = "finite")]
    pub intensity: f64,
    /// 10^12 FLOP a second over the latency, counting each multiply-accumulate as two.
    pub achieved_tflops: f64,
    /// The array's peak for the kernel's mix of element types; for 16-bit ones if it has no matmul.
    pub compute_tflops: f64,
    /// What HBM gives, in 10^9 bytes a second.
    pub hbm_gbps: f64,
    /// What all DMA engines together move, in 10^9 bytes a second.
    pub dma_gbps: f64,
    /// The intensity, in FLOP per byte, at which the two kinds of ceiling meet.
    pub ridge: f64,
    /// Under which kind the kernel stands.
    pub bound: RooflineBound,
    /// The very ceiling: `tensor engine`, `HBM`, `DMA engines` or `none`.
    pub ceiling: &'static str,
    /// What that ceiling allows at this intensity, in 10^12 FLOP a second.
    pub attainable_tflops: f64,
}

/// What a roofline is drawn from; of several cores, sums over them.
pub(crate) struct Work {
    pub(crate) cores: f64,
    pub(crate) macs: u128,
    pub(crate) hbm_bytes: u128,
    pub(crate) ideal_matmul_us: f64,
    pub(crate) latency_us: f64,
}

impl Work {
    /// FLOP of matmuls.
    pub(crate) fn flop(&self) -> f64 {
        (2 * self.macs) as f64
    }

    /// FLOP of matmuls per byte of HBM traffic; infinite without traffic, 0 without matmuls.
    pub(crate) fn intensity(&self) -> f64 {
        match (self.macs, self.hbm_bytes) {
            (0, _) => 0.0,
            (_, 0) => f64::INFINITY,
            (_, bytes) => self.flop() / bytes as f64,
        }
    }
}

pub(crate) fn of(work: &Work, arch: &MachineFigures) -> Roofline {
    let compute = match work.macs {
        0 => 2.0 * (arch.partitions * arch.partitions) * arch.tensor_clock_mhz / 1e6 * work.cores,
        _ => work.flop() / work.ideal_matmul_us / 1e6,
    };
    let (hbm, dma) = (arch.hbm_gbps, arch.dma_engines * arch.dma_engine_bytes_per_ns);
    let memory = hbm.min(dma) * work.cores;
    let (ridge, intensity) = (compute * 1e3 / memory, work.intensity());
    let (bound, ceiling) = match (work.macs, work.hbm_bytes) {
        (1.., _) if intensity >= ridge => (RooflineBound::Compute, "tensor engine"),
        (_, 1..) if hbm <= dma => (RooflineBound::Memory, "HBM"),
        (_, 1..) => (RooflineBound::Memory, "DMA engines"),
        _ => (RooflineBound::None, "none"),
    };
    Roofline {
        intensity,
        achieved_tflops: if work.latency_us > 0.0 { work.flop() / work.latency_us / 1e6 } else { 0.0 },
        compute_tflops: compute,
        hbm_gbps: hbm * work.cores,
        dma_gbps: dma * work.cores,
        ridge,
        bound,
        ceiling,
        attainable_tflops: compute.min(intensity * memory / 1e3),
    }
}

fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(value).serialize(serializer)
}
