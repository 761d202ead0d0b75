//! Engines and causes of waiting, by the numbers and words that columns and figures have for them.

use trn3_machine::engine::Engine;
use trn3_machine::timing::graph::{BoundBy, EdgeKind};
use trn3_machine::timing::record::Cause;

/// Names of the engines, by the number that stands for them in columns.
pub const ENGINES: [&str; Engine::ALL.len()] = {
    let mut names = [""; Engine::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = Engine::ALL[number].name();
        number += 1;
    }
    names
};

/// The engine number of DMA; all others are in-order streams of their own.
pub(crate) const DMA: u8 = Engine::Dma as u8;

/// What an instruction waited for, by the number that stands for it in columns.
pub const CAUSES: [&str; 14] = [
    "nothing",
    ENGINES[0],
    ENGINES[1],
    ENGINES[2],
    ENGINES[3],
    ENGINES[4],
    ENGINES[5],
    "issue order",
    "table load",
    "PSUM bank",
    "depends_on",
    "DMA queue",
    "other core",
    "other rank",
];

/// What bound the start of an instruction, by the number that stands for it in columns.
pub const BOUNDS: [&str; BoundBy::ALL.len()] = {
    let mut names = [""; BoundBy::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = BoundBy::ALL[number].name();
        number += 1;
    }
    names
};

/// Why an instruction comes after an earlier one, by the number that stands for it in columns.
pub const EDGES: [&str; EdgeKind::ALL.len()] = {
    let mut names = [""; EdgeKind::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = EdgeKind::ALL[number].name();
        number += 1;
    }
    names
};

/// The number of [`CAUSES`] that says that the other core of a logical core was waited for.
pub(crate) const OTHER_CORE: u8 = 12;

/// The place in [`CAUSES`] of what the machine recorded.
pub(crate) fn cause_number(cause: Cause) -> u8 {
    match cause {
        Cause::None => 0,
        Cause::Engine(engine) => 1 + engine as u8,
        Cause::Dma => 1 + DMA,
        Cause::Order => 7,
        Cause::TableLoad => 8,
        Cause::PsumBank => 9,
        Cause::DependsOn => 10,
        Cause::Queue => 11,
        Cause::Core => OTHER_CORE,
        Cause::Rank => 13,
    }
}

/// What a cause of waiting means, in words; a cause that is none of [`CAUSES`] stands for itself.
///
/// ```
/// assert_eq!(trn3_profile::cause_words("dma"), "DMA transfers");
/// ```
pub fn cause_words(cause: &str) -> &str {
    match cause {
        "tensor" => "tensor results",
        "vector" => "vector results",
        "scalar" => "scalar results",
        "gpsimd" => "gpsimd results",
        "sync" => "sync engine",
        "dma" => "DMA transfers",
        "issue order" => "own earlier results",
        "table load" => "function tables",
        "PSUM bank" => "PSUM bank in use",
        "DMA queue" => "DMA queue in use",
        "other core" => "the other core",
        "other rank" => "other ranks",
        _ => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_numbers_of_causes_are_their_places() {
        for engine in Engine::ALL {
            assert_eq!(CAUSES[usize::from(cause_number(Cause::Engine(engine)))], engine.name());
        }
        let others = [
            (Cause::None, "nothing"),
            (Cause::Dma, "dma"),
            (Cause::Order, "issue order"),
            (Cause::TableLoad, "table load"),
            (Cause::PsumBank, "PSUM bank"),
            (Cause::DependsOn, "depends_on"),
            (Cause::Queue, "DMA queue"),
            (Cause::Core, "other core"),
            (Cause::Rank, "other rank"),
        ];
        for (cause, name) in others {
            assert_eq!(CAUSES[usize::from(cause_number(cause))], name);
        }
    }
}
