//! From an operation, an algorithm and a group to the schedule.

use super::group::RankGroup;
use super::name::{Algorithm, Operation};
use super::schedule::{PieceCut, Schedule, Stage};
use super::{direct, hierarchical, kangaring, mesh, rdh, ring, spread};
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// What an operation needs beside its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extra {
    /// The position that a broadcast spreads.
    pub root: u32,
    /// `(source, target)` positions of a permutation.
    pub pairs: Vec<(u32, u32)>,
}

impl Schedule {
    /// The schedule of an algorithm that is one form (see [`Algorithm::forms`]).
    ///
    /// # Errors
    /// [`Error::Value`] if the algorithm cannot do it on this group, with what can.
    ///
    /// ```
    /// use trn3_system::collective::{Algorithm, Extra, RankGroup, Operation, Schedule};
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let fabric = Fabric::built_in("trn2_instance", LinkProfile::Docs)?;
    /// let group = RankGroup::new((0..64).collect(), 4, fabric.chips())?;
    /// let steps = |algorithm| {
    ///     Schedule::new(&fabric, &group, Operation::AllReduce, algorithm, &Extra::default()).map(|made| made.steps())
    /// };
    /// assert_eq!(steps(Algorithm::Mesh)?, 4);
    /// assert_eq!(steps(Algorithm::Rdh)?, 10);
    /// assert_eq!(steps(Algorithm::KangaRing)?, 62);
    /// assert_eq!(steps(Algorithm::Ring)?, 126);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn new(
        fabric: &Fabric,
        group: &RankGroup,
        operation: Operation,
        algorithm: Algorithm,
        extra: &Extra,
    ) -> Result<Self> {
        check_size(group, algorithm)?;
        let count = group.size() as u32;
        let mut made = Self {
            operation,
            algorithm,
            ranks: count,
            chunks: count,
            channels: 1,
            cut: PieceCut::Buffer,
            stages: Vec::new(),
            root: extra.root,
            order: "no arithmetic",
        };
        match operation {
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let (gather, reduce, channels) = halves(fabric, group, operation, algorithm)?;
                made.channels = channels;
                if operation != Operation::AllGather {
                    made.order = order_of(algorithm);
                    made.stages.extend(reduce);
                }
                if operation != Operation::ReduceScatter {
                    made.stages.extend(gather);
                }
            }
            Operation::AllToAll | Operation::AllToAllV => {
                made.cut = PieceCut::Pairs;
                made.stages = direct::all_to_all(group, algorithm == Algorithm::Pairwise);
            }
            Operation::AllGatherV => {
                made.stages = match algorithm {
                    Algorithm::Ring => {
                        let (gather, _, channels) = ring::stages(fabric, group);
                        made.channels = channels;
                        gather
                    }
                    _ => direct::gather(group),
                };
            }
            Operation::Permute => {
                made.cut = PieceCut::Whole;
                made.stages = direct::permute(group, &extra.pairs, algorithm == Algorithm::Ring)?;
            }
            Operation::Broadcast => {
                if extra.root >= count {
                    let root = extra.root;
                    return Err(Error::Value(format!("root is {root}; allowed: positions 0 to {}", count - 1)));
                }
                let (stages, chunks) = spread::stages(fabric, group, extra.root, algorithm == Algorithm::Chain);
                (made.stages, made.chunks) = (stages, chunks);
            }
        }
        made.stages.retain(|stage| stage.steps() > 0);
        Ok(made)
    }
}

/// Transfers of one step that a schedule may have **(choice)**: a few hundred megabytes of it.
const MOST_TRANSFERS: u64 = 6_000_000;

/// Refuses schedules that grow with the square of the ranks where that is too much.
fn check_size(group: &RankGroup, algorithm: Algorithm) -> Result<()> {
    let (ranks, chips) = (group.size() as u64, group.chips().len() as u64);
    let transfers = match algorithm {
        Algorithm::Mesh | Algorithm::Rdh => ranks * chips * (ranks / chips).max(1),
        Algorithm::SingleStepMesh | Algorithm::Direct | Algorithm::Pairwise => ranks * ranks,
        _ => return Ok(()),
    };
    if transfers <= MOST_TRANSFERS {
        return Ok(());
    }
    Err(Error::Value(format!(
        "algorithm \"{algorithm}\" of {ranks} ranks has {transfers} transfers; schedules have up to {MOST_TRANSFERS}: up to about {} ranks, or \"hierarchical\" and \"ring\" where the operation has them",
        (MOST_TRANSFERS as f64).sqrt() as u64
    )))
}

/// The stages that gather, those that reduce, and the channels.
fn halves(
    fabric: &Fabric,
    group: &RankGroup,
    operation: Operation,
    algorithm: Algorithm,
) -> Result<(Vec<Stage>, Vec<Stage>, u32)> {
    let mirrored = |gather: Vec<Stage>| {
        let back = gather.iter().rev().map(|stage| Stage { is_mirrored: true, ..stage.clone() }).collect();
        (gather, back, 1)
    };
    Ok(match algorithm {
        Algorithm::Ring => ring::stages(fabric, group),
        Algorithm::KangaRing => kangaring::stages(fabric, group)?,
        Algorithm::Mesh => mirrored(mesh::stages(group)),
        Algorithm::Rdh => mirrored(rdh::stages(fabric, group)?),
        Algorithm::HierarchicalRing => hierarchical::stages(fabric, group, true)?,
        Algorithm::HierarchicalMesh => hierarchical::stages(fabric, group, false)?,
        Algorithm::SingleStepMesh if operation == Operation::AllReduce => (Vec::new(), mesh::single_step(group), 1),
        other => {
            return Err(Error::Value(format!("algorithm \"{other}\" is no schedule of {operation}")));
        }
    })
}

fn order_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Ring => "chunk p starts at the rank after p in each channel's cycle and travels along it to p",
        Algorithm::KangaRing => {
            "as a ring of pairs; a pair's two values are added and rounded where it sends, the lower position first"
        }
        Algorithm::Mesh => {
            "ascending positions within each chip, then the chips' partial sums in ascending order of the ranks that hold them"
        }
        Algorithm::SingleStepMesh => "ascending positions",
        Algorithm::Rdh => "ascending positions within each chip, then partners' partial sums, axis by axis of the cube",
        Algorithm::HierarchicalRing => "as a ring within the innermost level, then outwards level by level",
        Algorithm::HierarchicalMesh => "as a mesh within the innermost level, then outwards level by level",
        _ => "no arithmetic",
    }
}
