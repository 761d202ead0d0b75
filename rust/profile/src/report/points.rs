//! Points of a roofline: the kernel, its functions, its lines.

use std::collections::HashMap;

use serde::Serialize;

use crate::cause::ENGINES;
use crate::intervals::{Span, union_length};
use crate::profile::Profile;
use crate::report::lists::Places;
use crate::rows::PS_PER_US;

#[derive(Debug, Serialize)]
struct ComputeCeiling {
    name: &'static str,
    tflops: f64,
}

#[derive(Debug, Serialize)]
struct MemoryCeiling {
    name: &'static str,
    gbps: f64,
}

#[derive(Debug, Serialize)]
struct Ridge {
    name: String,
    intensity: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct EngineTime {
    pub(super) engine: usize,
    pub(super) busy_us: f64,
}

/// What a kernel, a function or a line does for each byte, and how fast.
#[derive(Debug, Serialize)]
pub(super) struct RooflinePoint {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) site: Option<u64>,
    pub(super) flop: f64,
    pub(super) hbm_bytes: u64,
    pub(super) active_us: f64,
    pub(super) intensity: Option<f64>,
    pub(super) tflops: f64,
    pub(super) attainable_tflops: f64,
    pub(super) engines: Vec<EngineTime>,
    pub(super) hbm_us: f64,
}

/// Ceilings and points.
#[derive(Debug, Serialize)]
pub(super) struct RooflineLayout {
    compute: Vec<ComputeCeiling>,
    memory: Vec<MemoryCeiling>,
    ridges: Vec<Ridge>,
    pub(super) points: Vec<RooflinePoint>,
}

/// Sums over the instructions of a point.
#[derive(Clone, Default)]
struct Work {
    macs: u64,
    hbm_bytes: u64,
    slots_ps: [u64; ENGINES.len()],
    spans: Vec<Span>,
}

impl Work {
    fn point(self, kind: &'static str, name: String, site: Option<u64>, at: &Ceilings) -> RooflinePoint {
        let active_us = union_length(self.spans) as f64 / PS_PER_US;
        let flop = 2.0 * self.macs as f64;
        let engine = |(engine, &slot): (usize, &u64)| EngineTime { engine, busy_us: slot as f64 / PS_PER_US };
        let intensity = (self.hbm_bytes > 0).then(|| flop / self.hbm_bytes as f64);
        RooflinePoint {
            kind,
            name,
            site,
            flop,
            hbm_bytes: self.hbm_bytes,
            active_us,
            intensity,
            tflops: if active_us > 0.0 { flop / active_us / 1e6 } else { 0.0 },
            attainable_tflops: intensity.map_or(at.tflops, |intensity| at.tflops.min(intensity * at.gbps / 1e3)),
            engines: self.slots_ps.iter().enumerate().filter(|(_, slot)| **slot > 0).map(engine).collect(),
            hbm_us: self.hbm_bytes as f64 / at.gbps / 1e3,
        }
    }
}

/// What compute and memory allow.
struct Ceilings {
    tflops: f64,
    gbps: f64,
}

/// The roofline of a profile; `places` has the places of sites of each core.
pub(super) fn roofline_of(profile: &Profile, places: &[Places]) -> RooflineLayout {
    let kernel = profile.roofline();
    let at = Ceilings { tflops: kernel.compute_tflops, gbps: kernel.hbm_gbps.min(kernel.dma_gbps) };
    let mut lines: HashMap<u64, (Work, String, String)> = HashMap::new();
    for (core, places) in profile.cores().iter().zip(places) {
        let (columns, rows) = (core.columns(), &core.columns().instructions);
        for (row, &site) in rows.site.iter().enumerate() {
            let (file, line, function) = &columns.sites[site as usize];
            let name = || (Work::default(), crate::text::location(file, *line), function.clone());
            let (work, ..) = lines.entry(places.sites[site as usize]).or_insert_with(name);
            work.macs = work.macs.saturating_add(rows.macs[row]);
            work.hbm_bytes = work.hbm_bytes.saturating_add(columns.hbm_bytes_of(row));
            work.slots_ps[usize::from(rows.engine[row])] += rows.slot_end_ps[row] - rows.start_ps[row];
            work.spans.push((rows.start_ps[row], rows.end_ps[row]));
        }
    }
    let mut regions: HashMap<String, Work> = HashMap::new();
    for (work, _, function) in lines.values().filter(|(.., function)| !function.is_empty()) {
        let region = regions.entry(function.clone()).or_default();
        region.macs = region.macs.saturating_add(work.macs);
        region.hbm_bytes = region.hbm_bytes.saturating_add(work.hbm_bytes);
        region.slots_ps.iter_mut().zip(&work.slots_ps).for_each(|(sum, slot)| *sum += slot);
        region.spans.extend(&work.spans);
    }
    let engine = |(engine, total): (usize, &crate::EngineTotal)| EngineTime { engine, busy_us: total.busy_us };
    let hbm_bytes = profile.hbm_read_bytes() + profile.hbm_write_bytes();
    let mut points = vec![RooflinePoint {
        kind: "kernel",
        name: profile.columns().kernel.clone(),
        site: None,
        flop: 2.0 * profile.macs() as f64,
        hbm_bytes,
        active_us: profile.latency_us(),
        intensity: kernel.intensity.is_finite().then_some(kernel.intensity),
        tflops: kernel.achieved_tflops,
        attainable_tflops: kernel.attainable_tflops,
        engines: profile.engines().iter().enumerate().filter(|(_, total)| total.busy_us > 0.0).map(engine).collect(),
        hbm_us: hbm_bytes as f64 / at.gbps / 1e3,
    }];
    let mut found: Vec<_> = regions.into_iter().collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    points.extend(found.into_iter().map(|(name, work)| work.point("region", name, None, &at)));
    let mut found: Vec<_> = lines.into_iter().collect();
    found.sort_by_key(|(site, _)| *site);
    points.extend(found.into_iter().map(|(site, (work, name, _))| work.point("line", name, Some(site), &at)));
    let memory = [("HBM", kernel.hbm_gbps), ("DMA engines", kernel.dma_gbps)];
    let ridge = |&(name, gbps): &(&str, f64)| Ridge {
        name: format!("TensorE / {name}"),
        intensity: kernel.compute_tflops * 1e3 / gbps,
    };
    RooflineLayout {
        compute: vec![ComputeCeiling { name: "TensorE", tflops: kernel.compute_tflops }],
        ridges: memory.iter().map(ridge).collect(),
        memory: memory.map(|(name, gbps)| MemoryCeiling { name, gbps }).into(),
        points,
    }
}
