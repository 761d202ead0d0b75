//! Rules that operations share.

use crate::error::Reason;
use crate::tensor_type::TensorType;

/// Refuses a number of operands or results.
///
/// # Errors
/// The reason.
pub(crate) fn check_count(what: &str, came: usize, allowed: usize) -> Reason {
    if came == allowed { Ok(()) } else { Err(format!("{came} {what} came; it has {allowed}")) }
}

/// Takes operands as an array of a known number.
///
/// # Errors
/// The reason.
pub(crate) fn exactly<'a, T: ?Sized, const N: usize>(
    what: &str,
    given: &[&'a T],
) -> std::result::Result<[&'a T; N], String> {
    given.try_into().map_err(|_| format!("{} {what} came; it has {N}", given.len()))
}

/// Refuses where two types that have to be the same are not.
///
/// # Errors
/// The reason.
pub(crate) fn check_same(first: &str, left: &TensorType, second: &str, right: &TensorType) -> Reason {
    if left == right {
        Ok(())
    } else {
        Err(format!("{first} is {left} and {second} is {right}; they have to be the same"))
    }
}
