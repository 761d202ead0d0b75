use std::f64::consts::PI;

use rand::SeedableRng;

use super::*;

const RATE: f64 = 5.0;
const COUNT: usize = 40_000;

fn times(process: ArrivalProcess, seed: u64) -> Vec<f64> {
    Arrivals::new(process, RATE, Pcg64::seed_from_u64(seed)).expect("is allowed").take(COUNT).collect()
}

fn intervals(times: &[f64]) -> Vec<f64> {
    let befores = [0.0].iter().chain(times);
    times.iter().zip(befores).map(|(time, before)| time - before).collect()
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

/// The greatest distance of an empirical distribution from a continuous one, by what 1 in 100 exceeds.
fn distance(mut values: Vec<f64>, below: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let apart = |(place, &value): (usize, &f64)| {
        let exact = below(value);
        (exact - place as f64 / count).abs().max((exact - (place + 1) as f64 / count).abs())
    };
    values.iter().enumerate().map(apart).fold(0.0, f64::max) * count.sqrt() / 1.63
}

#[test]
fn test_every_process_is_in_order_and_keeps_its_rate() {
    let processes = [
        (ArrivalProcess::Poisson, 1.0),
        (ArrivalProcess::Gamma(0.25), 4.0),
        (ArrivalProcess::Gamma(4.0), 0.25),
        (ArrivalProcess::Constant, 1e-6),
        (ArrivalProcess::Burst(16), 16.0),
        (ArrivalProcess::OnOff(1.0, 3.0), 1.0),
        (ArrivalProcess::Diurnal(100.0, 1.8), 1.0),
    ];
    for (process, dispersion) in processes {
        let times = times(process, 3);
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{process:?}");
        let found = COUNT as f64 / times.last().expect("has some");
        let error = 4.0 * (dispersion / COUNT as f64).sqrt() + 1e-3;
        assert!((found / RATE - 1.0).abs() < error, "{process:?}: {found}");
    }
}

#[test]
fn test_poisson_intervals_are_exponential() {
    assert!(distance(intervals(&times(ArrivalProcess::Poisson, 1)), |x| 1.0 - (-RATE * x).exp()) < 1.0);
    let erlang = |x: f64| 1.0 - (-2.0 * RATE * x).exp() * (1.0 + 2.0 * RATE * x);
    assert!(distance(intervals(&times(ArrivalProcess::Gamma(2.0), 1)), erlang) < 1.0);
    assert!(distance(intervals(&times(ArrivalProcess::Poisson, 1)), erlang) > 10.0, "the test tells them apart");
}

#[test]
fn test_burstiness_is_the_shape() {
    for shape in [0.25, 0.5, 1.0, 2.0, 8.0] {
        let (mean, variance) = mean_and_variance(&intervals(&times(ArrivalProcess::Gamma(shape), 5)));
        let coefficient = variance / (mean * mean);
        assert!((coefficient * shape - 1.0).abs() < 0.08, "{shape}: {coefficient}");
    }
}

#[test]
fn test_constant_arrivals_are_multiples() {
    let times = times(ArrivalProcess::Constant, 0);
    assert!(times.iter().enumerate().all(|(place, &time)| (time - (place + 1) as f64 / RATE).abs() < 1e-9));
}

#[test]
fn test_bursts_arrive_at_once() {
    let times = times(ArrivalProcess::Burst(8), 9);
    let firsts: Vec<f64> = times.chunks(8).map(|burst| burst[0]).collect();
    assert!(times.chunks(8).all(|burst| burst.iter().all(|time| time == &burst[0])));
    assert!(distance(intervals(&firsts), |x| 1.0 - (-RATE / 8.0 * x).exp()) < 1.0);
}

#[test]
fn test_nothing_arrives_in_silence() {
    let times = times(ArrivalProcess::OnOff(2.0, 6.0), 2);
    assert!(times.iter().all(|time| time % 8.0 <= 2.0 + 1e-9));
    let busy: Vec<f64> = times.iter().map(|time| (time / 8.0).floor() * 2.0 + time % 8.0).collect();
    assert!(distance(intervals(&busy), |x| 1.0 - (-4.0 * RATE * x).exp()) < 1.0);
}

/// Phases of arrivals have the density `1 + (peak - 1) sin`, whose integral is known.
#[test]
fn test_diurnal_arrivals_follow_the_sine() {
    for (peak, seed) in [(2.0, 4), (1.5, 6), (1.0, 8)] {
        let period = 40.0;
        let whole = |time: &f64| *time < 190.0 * period;
        let phases: Vec<f64> = times(ArrivalProcess::Diurnal(period, peak), seed).into_iter().filter(whole).collect();
        let swing = peak - 1.0;
        let below = |phase: f64| (phase + swing / (2.0 * PI) * (1.0 - (2.0 * PI * phase).cos())).clamp(0.0, 1.0);
        assert!(distance(phases.iter().map(|time| time % period / period).collect(), below) < 1.0, "{peak}");
    }
}

#[test]
fn test_stretched_arrivals_end_when_they_should() {
    for process in [ArrivalProcess::Poisson, ArrivalProcess::Gamma(0.3), ArrivalProcess::Constant] {
        let plain = Arrivals::new(process, RATE, Pcg64::seed_from_u64(1)).unwrap();
        let (stretched, plain) = (plain.clone().stretched(1000).take(1000), plain.take(1000));
        let (stretched, plain): (Vec<f64>, Vec<f64>) = (stretched.collect(), plain.collect());
        assert!((stretched[999] - 200.0).abs() < 1e-9, "{process:?}");
        let factor = stretched[0] / plain[0];
        assert!(stretched.iter().zip(&plain).all(|(long, short)| (long - short * factor).abs() < 1e-9), "{process:?}");
    }
}

#[test]
fn test_an_infinite_rate_is_all_at_once() {
    for process in [ArrivalProcess::Poisson, ArrivalProcess::Diurnal(10.0, 2.0), ArrivalProcess::Burst(4)] {
        let mut arrivals = Arrivals::new(process, f64::INFINITY, Pcg64::seed_from_u64(0)).unwrap();
        assert!((0..100).all(|_| arrivals.next() == Some(0.0)));
    }
}

#[test]
fn test_a_seed_decides_and_another_differs() {
    for process in [ArrivalProcess::Poisson, ArrivalProcess::Gamma(0.5), ArrivalProcess::Diurnal(9.0, 2.0)] {
        assert_eq!(times(process, 7), times(process, 7));
        assert_ne!(times(process, 7), times(process, 8));
    }
}

#[test]
fn test_figures_out_of_range_are_named() {
    for (process, name) in [
        (ArrivalProcess::Gamma(0.0), "burstiness"),
        (ArrivalProcess::Gamma(f64::NAN), "burstiness"),
        (ArrivalProcess::Burst(0), "burst_size"),
        (ArrivalProcess::OnOff(0.0, 1.0), "on"),
        (ArrivalProcess::OnOff(1.0, -1.0), "off"),
        (ArrivalProcess::Diurnal(0.0, 1.5), "period"),
        (ArrivalProcess::Diurnal(1.0, 0.5), "peak_to_mean"),
    ] {
        assert!(process.check().unwrap_err().to_string().starts_with(name), "{process:?}");
    }
    for rate in [0.0, -1.0, f64::NAN] {
        let refused = Arrivals::new(ArrivalProcess::Poisson, rate, Pcg64::seed_from_u64(0));
        assert!(refused.unwrap_err().to_string().starts_with("rate is"), "{rate}");
    }
}
