//! Rules for the operands of a collective: memories, counts, types, shapes.

use std::ops::Range;

use trn3_machine::dtype::DType;
use trn3_machine::error::{Error, Result};
use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::Rect;
use trn3_machine::view::{View, tuple_text};

use super::ask::RankGiven;

const REDUCTIONS: [&str; 3] = ["add", "maximum", "minimum"];

/// Refuses in the words of one operation.
#[derive(Clone, Copy)]
pub(super) struct Refuser {
    pub(super) operation: &'static str,
}

impl Refuser {
    /// An error of the hardware's rules.
    pub(super) fn rule<T>(self, argument: &'static str, got: impl ToString, allowed: impl ToString) -> Result<T> {
        let allowed = format!("allowed: {}", allowed.to_string());
        Err(Error::validation(self.operation, argument, got, allowed))
    }

    /// An error of values that contradict the launch.
    pub(super) fn value<T>(self, argument: &str, got: &str, allowed: &str) -> Result<T> {
        Err(Error::Value(format!("{} {argument} {got}; allowed: {allowed}", self.operation)))
    }
}

/// What an operation's operands may be.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Whether SBUF will do.
    pub(super) on_chip: bool,
    /// Whether HBM will do for more than one tensor.
    pub(super) several: bool,
    /// Whether a source and its result must have one element type.
    pub(super) one_type: bool,
    /// How many tensors in SBUF there may be.
    pub(super) per_channel: usize,
    /// Whether a tensor may be source and result.
    pub(super) in_place: bool,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { on_chip: true, several: true, one_type: true, per_channel: 1, in_place: false }
    }
}

/// Whether two views have bytes in common, as far as that is known before a run: registers and indexes are not.
fn share_bytes(one: &View, other: &View) -> bool {
    if one.dynamic.is_some() || other.dynamic.is_some() {
        return false;
    }
    let (one, other) = (one.regions(), other.regions());
    let meet = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
    let common = |one: &Rect, other: &Rect| meet(&one.rows, &other.rows) && meet(&one.columns, &other.columns);
    one.space == other.space && one.rects.iter().any(|one| other.rects.iter().any(|other| common(one, other)))
}

/// Whether two views are the same elements of one tensor, in one order.
fn is_same(one: &View, other: &View) -> bool {
    let place = |view: &View| (view.storage.id, view.dtype, view.offset, view.shape.clone(), view.strides.clone());
    place(one) == place(other)
}

pub(super) fn is_sbuf(view: &View) -> bool {
    view.storage.buffer == Buffer::Sbuf
}

pub(super) fn is_hbm(view: &View) -> bool {
    matches!(view.storage.buffer, Buffer::PrivateHbm | Buffer::SharedHbm)
}

/// Bytes of tensors.
pub(super) fn size_of(views: &[View]) -> u64 {
    views.iter().map(|view| (view.len() * view.dtype.size()) as u64).sum()
}

/// Lengths and types, for errors.
pub(super) fn words(views: &[View]) -> String {
    let word = |view: &View| format!("{} {}", view.len(), view.dtype);
    views.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn listed(refuser: Refuser, argument: &'static str, given: RankGiven<Vec<View>>) -> Result<Vec<View>> {
    match given {
        RankGiven::Known(views) if !views.is_empty() => Ok(views),
        RankGiven::Known(_) => refuser.rule(argument, "is []", "a list of tensors"),
        RankGiven::Strange(got) => refuser.rule(argument, got, "a list of tensors"),
    }
}

/// Both arguments as lists that fit each other.
pub(super) fn operands(
    refuser: Refuser,
    srcs: RankGiven<Vec<View>>,
    dsts: RankGiven<Vec<View>>,
    allowed: Allowed,
) -> Result<(Vec<View>, Vec<View>)> {
    let (srcs, dsts) = (listed(refuser, "srcs", srcs)?, listed(refuser, "dsts", dsts)?);
    if srcs.len() != dsts.len() {
        let got = format!("have {} and {} tensors", srcs.len(), dsts.len());
        return refuser.rule("srcs and dsts", got, "as many of each");
    }
    let in_sbuf = is_sbuf(&srcs[0]);
    for view in srcs.iter().chain(&dsts) {
        if !is_sbuf(view) && !is_hbm(view) {
            return refuser.rule("operand", format!("{view} is in psum"), "hbm or sbuf");
        }
        if is_sbuf(view) && !allowed.on_chip {
            return refuser.rule("operand", format!("{view} is in sbuf"), "hbm");
        }
        if is_sbuf(view) != in_sbuf {
            return refuser.rule("srcs and dsts", "are partly in hbm, partly in sbuf", "one of them");
        }
    }
    if in_sbuf && srcs.len() > allowed.per_channel {
        let got = format!("has {} tensors in sbuf", srcs.len());
        return refuser.rule("srcs", got, "several in hbm alone");
    }
    if !allowed.several && srcs.len() > 1 {
        return refuser.rule("srcs", format!("has {} tensors", srcs.len()), "one");
    }
    let differs = |(src, dst): &(&View, &View)| src.dtype != dst.dtype;
    if let Some((src, dst)) = srcs.iter().zip(&dsts).find(differs).filter(|_| allowed.one_type) {
        let got = format!("has dtype {}, dsts {}", src.dtype, dst.dtype);
        return refuser.rule("srcs", got, "both need the same");
    }
    for (from, src) in srcs.iter().enumerate() {
        // In place, each element is read before it is written, and by its own rank alone.
        let in_place = |to: usize, dst: &View| allowed.in_place && from == to && is_same(src, dst);
        let shared = dsts.iter().enumerate().find(|(to, dst)| !in_place(*to, dst) && share_bytes(src, dst));
        if let Some((_, dst)) = shared {
            let got = format!("share bytes: {src} and {dst}");
            return refuser.rule("srcs and dsts", got, "tensors of their own; all_reduce may have one tensor as both");
        }
    }
    Ok((srcs, dsts))
}

/// Refuses what no operator reduces.
pub(super) fn reduction(refuser: Refuser, name: &str, srcs: &[View], dsts: &[View]) -> Result<()> {
    if !REDUCTIONS.contains(&name) {
        let known = REDUCTIONS.map(|known| format!("nl.{known}")).join(", ");
        return refuser.rule("op", format!("is {name}"), known);
    }
    for (src, dst) in srcs.iter().zip(dsts) {
        for dtype in [src.dtype, dst.dtype] {
            if dtype.is_packed() || matches!(dtype, DType::Bool | DType::Float8E8M0Fnu) {
                return refuser.rule("srcs or dsts", format!("has dtype {dtype}"), "numbers to add");
            }
        }
        if src.dtype != dst.dtype && (src.dtype.is_integer() || dst.dtype.is_integer()) {
            let got = format!("has dtype {}, dsts {}", src.dtype, dst.dtype);
            return refuser.rule("srcs", got, "one type, or two floating-point ones");
        }
    }
    Ok(())
}

/// A dimension that may be joined or split.
pub(super) fn dimension(refuser: Refuser, dim: RankGiven<i64>, allowed: &[i64]) -> Result<u64> {
    let got = match dim {
        RankGiven::Known(dim) if allowed.contains(&dim) => return Ok(dim.unsigned_abs()),
        RankGiven::Known(dim) => dim.to_string(),
        RankGiven::Strange(got) => got,
    };
    let allowed = allowed.iter().map(i64::to_string).collect::<Vec<_>>().join(" or ");
    refuser.rule("collective_dim", format!("is {got}"), format!("{allowed} in this memory"))
}

/// Refuses a result that has not so many times its source's elements.
pub(super) fn same_elements(refuser: Refuser, src: &View, dst: &View, times: usize, over: usize) -> Result<()> {
    let wanted = src.len() * times / over;
    if dst.len() == wanted {
        return Ok(());
    }
    let got = format!("has shape {}, {} elements", tuple_text(&dst.shape), dst.len());
    refuser.rule("dsts", got, format!("{wanted} for srcs of shape {}", tuple_text(&src.shape)))
}

/// Refuses a source whose first dimension the ranks do not divide.
pub(super) fn divides(refuser: Refuser, src: &View, ranks: usize) -> Result<()> {
    let length = src.shape.first().copied().unwrap_or(1);
    if length.is_multiple_of(ranks) {
        return Ok(());
    }
    let got = format!("has length {length} along dimension 0");
    refuser.rule("srcs", got, format!("a multiple of {ranks}, the ranks of a list"))
}

/// Refuses tiles of an all_gather that are not joined along one of two dimensions.
pub(super) fn joined(refuser: Refuser, src: &View, dst: &View, axis: u64, ranks: usize) -> Result<()> {
    let mut wanted = src.shape.to_vec();
    if let (2, Some(length)) = (wanted.len(), wanted.get_mut(axis as usize)) {
        *length *= ranks;
    }
    if dst.shape[..] == wanted[..] && wanted.len() == 2 {
        return Ok(());
    }
    let got = format!("in sbuf have shapes {} to {}", tuple_text(&src.shape), tuple_text(&dst.shape));
    refuser.rule("srcs and dsts", got, "two dimensions, all but collective_dim equal")
}

/// The row of receive counts of a metadata tensor of so many rows.
pub(super) fn counts_row(
    refuser: Refuser,
    metadata: &RankGiven<View>,
    ranks: usize,
    rows: usize,
) -> Result<(View, View)> {
    let (in_hbm, in_sbuf) = ([rows, ranks], [1, rows, ranks]);
    let allowed = format!("uint32 of shape {} in hbm or {} in sbuf", tuple_text(&in_hbm), tuple_text(&in_sbuf));
    let view = match metadata {
        RankGiven::Known(view) => view,
        RankGiven::Strange(kind) => return refuser.rule("metadata_tensor", format!("is of type {kind}"), allowed),
    };
    let fits = if is_hbm(view) { view.shape[..] == in_hbm } else { view.shape[..] == in_sbuf && is_sbuf(view) };
    if view.dtype != DType::UInt32 || !fits {
        let got = format!("is {view} of shape {} and dtype {}", tuple_text(&view.shape), view.dtype);
        return refuser.rule("metadata_tensor", got, allowed);
    }
    let row = super::variable::RECV_COUNTS as i64;
    Ok((view.clone(), view.slice(usize::from(is_sbuf(view)), row, row + 1, 1)?))
}
