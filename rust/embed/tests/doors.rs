//! The questions of `tests/doors`, asked from Rust: one answer by every door, to the last digit.

use serde::Deserialize;
use trn3_embed::{Device, DeviceSpec};
use trn3_facts::{Spec, peak};
use trn3_machine::arch::ArchSpec;

#[derive(Deserialize)]
struct Question {
    ask: String,
    answer: f64,
    system: String,
    figure: Option<String>,
    peak: Option<String>,
    arch: Option<String>,
}

#[derive(Deserialize)]
struct Questions {
    question: Vec<Question>,
}

fn questions() -> Vec<Question> {
    let read: Questions = toml::from_str(include_str!("../../../tests/doors/questions.toml")).expect("TOML");
    read.question
}

#[test]
fn test_figures_and_peaks_are_those_of_the_other_doors() {
    for Question { ask, answer, system, figure, peak: format, .. } in questions() {
        let spec = Spec::built_in(&system).expect("a system");
        if let Some(figure) = figure {
            assert_eq!(spec.si(&figure).expect("a figure"), answer, "{ask}");
        }
        if let Some(format) = format {
            assert_eq!(peak(&spec, &format).expect("a format"), Some(answer), "{ask}");
        }
    }
}

#[test]
fn test_what_a_chip_does_in_a_second_takes_its_device_a_second() {
    let mut asked = 0;
    for Question { ask, answer, peak, arch, .. } in questions() {
        let Some(arch) = arch else { continue };
        let cores = ArchSpec::load(&arch).expect("a machine").cores as u32;
        let device = Device::new(DeviceSpec { arch, cores, ..DeviceSpec::default() }).expect("a device");
        let time = match peak {
            Some(format) => device.roofline(answer, 0.0, &format),
            None => device.roofline(0.0, answer, "bf16"),
        };
        assert_eq!(time.expect("an answer").0, 1_000_000_000_000, "{ask}");
        asked += 1;
    }
    assert!(asked >= 10);
}
