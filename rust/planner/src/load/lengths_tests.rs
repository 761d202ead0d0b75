use proptest::prelude::*;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;

const DRAWS: usize = 40_000;

fn lengths(text: &str) -> Lengths {
    Lengths::new("input", &text.into(), None).expect("is a distribution")
}

fn draws(lengths: &Lengths) -> Vec<u32> {
    let mut rng = Pcg64::seed_from_u64(11);
    (0..DRAWS).map(|_| lengths.draw(&mut rng)).collect()
}

fn mean(values: &[u32]) -> f64 {
    values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64
}

fn deviation(values: &[u32]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn share(values: &[u32], holds: impl Fn(u32) -> bool) -> f64 {
    values.iter().filter(|&&value| holds(value)).count() as f64 / values.len() as f64
}

#[test]
fn test_mean_and_deviation_are_those_that_were_asked_for() {
    let uniform = ((800.0_f64 * 802.0) / 12.0).sqrt();
    for (text, asked, spread) in [
        ("512", 512.0, 0.0),
        ("uniform:100:900", 500.0, uniform),
        ("normal:1000:100", 1000.0, 100.0),
        ("lognormal:1000:600", 1000.0, 600.0),
        ("exponential:300", 300.0, (300.0_f64 * 299.0).sqrt()),
        ("choice:128@0.5,2048@0.5", 1088.0, 960.0),
    ] {
        let lengths = lengths(text);
        let drawn = draws(&lengths);
        let error = 4.0 * spread / (DRAWS as f64).sqrt();
        assert!((lengths.mean() - asked).abs() < 1e-2, "{text}: {}", lengths.mean());
        assert!((mean(&drawn) - asked).abs() <= error, "{text}: {}", mean(&drawn));
        assert!((deviation(&drawn) - spread).abs() <= 0.03 * spread, "{text}: {}", deviation(&drawn));
        assert!(drawn.iter().all(|&length| (1..=lengths.longest()).contains(&length)), "{text}");
    }
}

/// Where rounding and limits matter most, the mean is still that of what is drawn.
#[test]
fn test_the_mean_is_that_of_what_is_drawn() {
    for (text, longest) in [
        ("normal:2:1.5", None),
        ("lognormal:1.4:3", None),
        ("exponential:1", None),
        ("exponential:500", Some(600)),
        ("lognormal:1000:2000", Some(1500)),
        ("normal:500:300", Some(512)),
    ] {
        let lengths = Lengths::new("input", &text.into(), longest).expect("is a distribution");
        let drawn = draws(&lengths);
        let error = 4.0 * deviation(&drawn) / (DRAWS as f64).sqrt() + 2e-3;
        assert!((mean(&drawn) - lengths.mean()).abs() <= error, "{text}: {} {}", mean(&drawn), lengths.mean());
        if let Some(longest) = longest {
            assert_eq!(drawn.iter().max(), Some(&longest), "{text}");
            assert!(lengths.cut("input").is_some_and(|said| said.contains(&longest.to_string())));
        }
    }
    assert!(lengths("normal:1000:10").cut("input").is_none(), "what does not happen is not worth a word");
}

/// Shares below points whose probabilities are known in closed form.
#[test]
fn test_distributions_have_their_quantiles() {
    // Share of a normal distribution below its mean and one deviation.
    let below_one = 0.841_344_746;
    let log = (1.0 + 0.36_f64).ln();
    let (middle, width) = (1000.0_f64.ln() - log / 2.0, log.sqrt());
    let points = [
        ("normal:1000:100", 1100.5, below_one),
        ("normal:1000:100", 1000.5, 0.5),
        ("lognormal:1000:600", middle.exp(), 0.5),
        ("lognormal:1000:600", (middle + width).exp(), below_one),
        ("uniform:1:4", 1.5, 0.25),
        ("uniform:1:4", 3.5, 0.75),
        ("exponential:4", 1.5, 0.25),
        ("exponential:4", 3.5, 1.0 - 0.75_f64.powi(3)),
        ("choice:7@3,9@1", 8.0, 0.75),
    ];
    for (text, point, probability) in points {
        let found = share(&draws(&lengths(text)), |length| f64::from(length) < point);
        assert!((found - probability).abs() < 4.0 * (0.25 / DRAWS as f64).sqrt(), "{text} below {point}: {found}");
    }
}

#[test]
fn test_ranges_reach_both_ends() {
    let around = Lengths::new("output", &10.0.into(), None).unwrap().around("output", 0.25).unwrap();
    let drawn = draws(&around);
    // Rounded outwards: 7.5 to 7 and 12.5 to 13.
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&7), Some(&13)));
    assert!((share(&drawn, |length| length == 7) - 1.0 / 7.0).abs() < 0.01);
    for (ratio, text) in [(1.0, "5"), (-0.1, "5"), (0.5, "uniform:1:2")] {
        assert!(lengths(text).around("output", ratio).is_err(), "{ratio} {text}");
    }
}

#[test]
fn test_what_is_no_length_is_refused_by_name() {
    for text in [
        "",
        "0",
        "-1",
        "0.5",
        "nan",
        "inf",
        "uniform:1",
        "uniform:9:1",
        "uniform:1:2:3",
        "uniform:1.5:2",
        "normal:0:1",
        "normal:5:-1",
        "lognormal:0:1",
        "exponential:0.5",
        "choice:",
        "choice:1",
        "choice:1@0",
        "choice:1@-1",
        "choice:0@1",
        "choice:1@nan",
        "zipf:2",
        "99999999999",
    ] {
        let message = Lengths::new("input", &text.into(), None).expect_err(text).to_string();
        assert!(message.starts_with("input "), "{text}: {message}");
    }
    assert!(Lengths::new("input", &"uniform:1:900".into(), Some(512)).is_err());
    assert!(Lengths::new("input", &"exponential:9".into(), Some(0)).is_err());
}

proptest! {
    #[test]
    fn test_no_text_makes_it_panic(text in ".{0,40}", number in any::<f64>()) {
        for given in [NumberOrText::Text(text), NumberOrText::Number(number)] {
            if let Ok(lengths) = Lengths::new("input", &given, None) {
                let drawn = lengths.draw(&mut Pcg64::seed_from_u64(0));
                prop_assert!((1..=lengths.longest()).contains(&drawn));
            }
        }
    }

    #[test]
    fn test_every_distribution_stays_in_its_limits(
        name in prop::sample::select(vec!["uniform", "normal", "lognormal"]),
        one in 1_u32..5_000,
        other in 1_u32..5_000,
        seed in any::<u64>(),
    ) {
        let (least, most) = (one.min(other), one.max(other));
        let lengths = Lengths::new("input", &format!("{name}:{least}:{most}").as_str().into(), Some(5_000)).unwrap();
        let drawn = lengths.draw(&mut Pcg64::seed_from_u64(seed));
        prop_assert!((1..=lengths.longest()).contains(&drawn));
        prop_assert!((1.0..=f64::from(lengths.longest())).contains(&lengths.mean()));
    }
}
