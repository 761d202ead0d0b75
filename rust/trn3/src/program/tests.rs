//! Every instruction of the list is one that a front end issues, and the list has every one.

use super::OPERATIONS;

#[test]
fn test_operations_are_listed_once() {
    let mut names = OPERATIONS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OPERATIONS.len());
    assert_eq!(names.len(), 47);
}
