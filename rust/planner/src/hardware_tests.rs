use super::*;

#[test]
fn test_peaks_are_those_of_the_array() {
    let trn2 = Chip::built_in("trainium2").expect("loads");
    assert_eq!(trn2.peak(DataType::Bf16).expect("has it"), 128.0 * 128.0 * 2.0 * 2.4e9 * 8.0);
    assert_eq!(trn2.peak(DataType::Fp8).expect("has it"), 256.0 * 128.0 * 2.0 * 2.4e9 * 8.0);
    let error = trn2.peak(DataType::MxFp4).expect_err("has none").to_string();
    assert!(error.contains("mxfp4") && error.contains("bf16"), "{error}");
    assert_eq!(trn2.hbm_rate.min(trn2.dma_rate), 2.9e12);
    assert_eq!(trn2.lnc_modes, [1, 2]);
    let trn1 = Chip::built_in("trainium1").expect("loads");
    assert_eq!((trn1.cores, trn1.cores_per_bank, trn1.lnc_modes.as_slice()), (2, 1, [1].as_slice()));
}

#[test]
fn test_every_system_of_chips_loads() {
    for name in ["gen1", "gen2", "trn1", "trn2", "trn2_ultraserver", "gb200_nvl72", "gb300_nvl72", "tpu_v7"] {
        let machine = Machine::built_in(name).expect(name);
        assert!(machine.chips > 1 && !machine.levels.is_empty(), "{name}");
        assert_eq!(machine.levels.last().map(|level| level.chips), Some(machine.chips), "{name}");
    }
    for name in ["trainium2", "trainium3"] {
        assert_eq!(Machine::built_in(name).expect(name).chips, 1);
    }
}

#[test]
fn test_levels_have_the_rates_and_bounds_of_the_graphs() {
    let rates = |name| {
        let levels = Machine::built_in(name).expect(name).levels;
        levels.into_iter().map(|level| (level.chips, level.rate / 1e9, level.uniform / 1e9)).collect::<Vec<_>>()
    };
    assert_eq!(rates("gen2"), [(4, 256.0, 256.0), (72, 320.0, 320.0), (144, 128.0, 128.0)]);
    let torus = rates("trn2_ultraserver");
    assert_eq!((torus[0].0, torus[0].1, torus[1].0, torus[1].1), (16, 512.0, 64, 128.0));
    // Of what a chip sends to all, 48 of 63 parts cross the Z ring: 126 in total.
    assert!((torus[0].2 - 240.0).abs() < 1e-9 && (torus[1].2 * 63.0 / 48.0 - 126.0).abs() < 1e-9, "{torus:?}");
    let facts = Facts::built_in("trn3_gen2").expect("loads");
    let headline = Machine::from_facts(&facts, LinkProfile::Headline).expect("loads").levels;
    let total: f64 = headline.iter().map(|level| level.rate).sum();
    assert!((total / 1280e9 - 1.0).abs() < 1e-12);
}

#[test]
fn test_logical_cores_of_four_are_refused() {
    let chip = Chip::built_in("trainium3").expect("loads");
    assert!(chip.rank(4).expect_err("refused").to_string().contains("1 or 2"));
    assert_eq!(chip.rank(2).expect("allowed").per_chip, 4);
}

#[test]
fn test_clusters_reach_a_million_chips() {
    let machine = Machine::built_in("gen2").expect("loads").cluster(6_000).expect("allowed");
    assert_eq!(machine.chips, 864_000);
    assert!(Machine::built_in("gen2").expect("loads").cluster(7_000).is_err());
}
