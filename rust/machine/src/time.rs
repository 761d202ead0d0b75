//! Simulated time: whole picoseconds, so that two runs of one program give one timeline on every machine.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A point in simulated time or a span of it, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Picos(pub u64);

impl Picos {
    /// No time, and the start of a run.
    pub const ZERO: Picos = Picos(0);

    /// A span given in nanoseconds, to the nearest picosecond.
    pub fn from_nanoseconds(nanoseconds: f64) -> Self {
        // As `round`, which is a call of a function on CPUs that a build is for: both parts are exact.
        let picoseconds = nanoseconds * 1000.0;
        let whole = picoseconds as u64;
        Picos(whole.saturating_add(u64::from(picoseconds - whole as f64 >= 0.5)))
    }

    /// The span in microseconds.
    pub fn microseconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Picos {
    type Output = Picos;

    fn add(self, other: Picos) -> Picos {
        Picos(self.0 + other.0)
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Picos) {
        self.0 += other.0;
    }
}

impl Sub for Picos {
    type Output = Picos;

    fn sub(self, other: Picos) -> Picos {
        Picos(self.0 - other.0)
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3} us", self.microseconds())
    }
}

/// A clock, in megahertz: every clock of the hardware is a whole number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Cycles in a microsecond.
    pub megahertz: u64,
}

impl Clock {
    /// The time that a number of cycles takes, to the nearest picosecond.
    pub fn cycles(self, cycles: u64) -> Picos {
        let picoseconds =
            (u128::from(cycles) * 1_000_000 + u128::from(self.megahertz / 2)) / u128::from(self.megahertz);
        Picos(u64::try_from(picoseconds).unwrap_or(u64::MAX))
    }
}
