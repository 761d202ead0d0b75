//! Names: operations, reductions, algorithms.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

macro_rules! names {
    ($(#[$meta:meta])* $type:ident, $what:literal, { $($(#[$doc:meta])* $variant:ident = $name:literal $(| $also:literal)*),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$doc])* $variant),* }

        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// The name, as results print it.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self> {
                match name {
                    $($name $(| $also)* => Ok($type::$variant),)*
                    _ => Err(Error::unknown($what, name, $type::ALL.iter().map(|known| known.name()))),
                }
            }
        }
    };
}

names!(
    /// What a collective does. `B` in the descriptions is its size in bytes: what costs and tables are given for.
    Operation, "operation", {
        /// Every rank gets the reduction of all ranks' buffers; `B` is one rank's buffer.
        AllReduce = "all_reduce" | "allr" | "allreduce",
        /// Every rank gets all ranks' buffers, one after another; `B` is the gathered buffer.
        AllGather = "all_gather" | "allg" | "allgather",
        /// Rank `i` gets chunk `i` of the reduction; `B` is one rank's input.
        ReduceScatter = "reduce_scatter" | "redsct" | "reducescatter",
        /// Rank `i` gets chunk `i` of every rank; `B` is one rank's input.
        AllToAll = "all_to_all" | "alltoall" | "alla",
        /// As all_to_all, chunks of any sizes; `B` is what the rank that sends most sends.
        AllToAllV = "all_to_all_v" | "alltoallv",
        /// As all_gather, buffers of any sizes.
        AllGatherV = "all_gather_v" | "allgatherv",
        /// Each source's buffer goes to its target; `B` is one buffer.
        Permute = "permute" | "collective_permute" | "perm" | "sendrecv",
        /// Every rank gets the root's buffer, of `B` bytes.
        Broadcast = "broadcast" | "bcast",
    }
);

names!(
    /// How values are reduced.
    Reduction, "op", {
        /// The sum.
        Add = "add" | "sum",
        /// The largest; NaN if there is any, and +0 is larger than -0 **(choice)**.
        Max = "max" | "maximum",
        /// The smallest; NaN if there is any, and -0 is smaller than +0 **(choice)**.
        Min = "min" | "minimum",
    }
);

names!(
    /// A family of schedules.
    Algorithm, "algorithm", {
        /// Around cycles of all ranks, from neighbour to neighbour.
        Ring = "ring",
        /// Around cycles of pairs of ranks; one of a pair moves and reduces for both.
        KangaRing = "kangaring",
        /// Each chip to every other one at once, and then within the chips.
        Mesh = "mesh",
        /// Every rank to every other one at once; all_reduce only.
        SingleStepMesh = "single_step_mesh",
        /// Recursive halving and doubling over the axes of a cube of chips, and a stage within the chips.
        Rdh = "rdh",
        /// Level by level of the system, in rings or directly: what is quicker for the size.
        Hierarchical = "hierarchical",
        /// Level by level, in rings.
        HierarchicalRing = "hierarchical_ring",
        /// Level by level, each to every other one at once.
        HierarchicalMesh = "hierarchical_mesh",
        /// Everything at once, straight from source to target.
        Direct = "direct",
        /// Straight from source to target, one partner a step.
        Pairwise = "pairwise",
        /// Along a chain, in pieces that follow each other.
        Chain = "chain",
        /// A tree that doubles its reach each step.
        Binomial = "binomial",
    }
);

impl Algorithm {
    /// The schedules that this name stands for: more than one where the size decides.
    pub fn forms(self) -> &'static [Algorithm] {
        match self {
            Self::Hierarchical => &[Self::HierarchicalRing, Self::HierarchicalMesh],
            Self::Ring => &[Self::Ring],
            Self::KangaRing => &[Self::KangaRing],
            Self::Mesh => &[Self::Mesh],
            Self::SingleStepMesh => &[Self::SingleStepMesh],
            Self::Rdh => &[Self::Rdh],
            Self::HierarchicalRing => &[Self::HierarchicalRing],
            Self::HierarchicalMesh => &[Self::HierarchicalMesh],
            Self::Direct => &[Self::Direct],
            Self::Pairwise => &[Self::Pairwise],
            Self::Chain => &[Self::Chain],
            Self::Binomial => &[Self::Binomial],
        }
    }

    /// The name that users know it by, and which form of that it is.
    pub fn family(self) -> (&'static str, &'static str) {
        match self {
            Self::SingleStepMesh => ("mesh", "single_step"),
            Self::HierarchicalRing => ("hierarchical", "ring"),
            Self::HierarchicalMesh => ("hierarchical", "mesh"),
            other => (other.name(), ""),
        }
    }

    /// The algorithms that an operation has, in the order in which equals are preferred.
    pub fn of(operation: Operation) -> &'static [Algorithm] {
        match operation {
            Operation::AllReduce => &[
                Self::SingleStepMesh,
                Self::Mesh,
                Self::Rdh,
                Self::KangaRing,
                Self::Ring,
                Self::HierarchicalMesh,
                Self::HierarchicalRing,
            ],
            Operation::AllGather | Operation::ReduceScatter => {
                &[Self::Mesh, Self::Rdh, Self::KangaRing, Self::Ring, Self::HierarchicalMesh, Self::HierarchicalRing]
            }
            Operation::AllToAll | Operation::AllToAllV => &[Self::Direct, Self::Pairwise],
            Operation::AllGatherV => &[Self::Direct, Self::Ring],
            Operation::Permute => &[Self::Direct, Self::Ring],
            Operation::Broadcast => &[Self::Binomial, Self::Chain],
        }
    }

    /// The algorithm of a name, for an operation; `auto` is none.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the nearest name, [`Error::Value`] if the operation has no such algorithm.
    pub fn parse(operation: Operation, name: &str) -> Result<Option<Self>> {
        if name == "auto" {
            return Ok(None);
        }
        let has = |algorithm: Self| algorithm.forms().iter().all(|form| Self::of(operation).contains(form));
        let algorithm: Self = name.parse().map_err(|_| {
            let known = Self::ALL.iter().filter(|known| has(**known)).map(|known| known.name());
            Error::unknown("algorithm", name, known.chain(["auto"]))
        })?;
        // All-to-all in one step is what a mesh is.
        let algorithm = match (algorithm, operation) {
            (Self::Mesh, Operation::AllToAll | Operation::AllToAllV | Operation::AllGatherV) => Self::Direct,
            (other, _) => other,
        };
        if has(algorithm) {
            return Ok(Some(algorithm));
        }
        let allowed: Vec<&str> = Self::ALL.iter().filter(|known| has(**known)).map(|known| known.name()).collect();
        Err(Error::Value(format!(
            "algorithm is {name:?}, which {operation} does not have; allowed: auto, {}",
            allowed.join(", ")
        )))
    }
}
