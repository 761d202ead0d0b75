//! The list of instructions: every name is one that is read.

use std::collections::HashMap;

use serde_json::Map;

use super::fields::Scope;
use super::{OPERATIONS, table};
use crate::arch::ArchSpec;

#[test]
fn test_every_listed_operation_is_read() {
    let arch = ArchSpec::load("trn3").expect("a spec");
    let scope = Scope { tensors: &HashMap::new(), registers: &[], elements: 1 };
    let refusal = |name: &str| table::decode(name, &Map::new(), &scope, &arch).err().expect("no arguments");
    for name in OPERATIONS {
        assert!(refusal(name).ends_with("is missing"), "{name}: {}", refusal(name));
    }
    assert!(refusal("core_barrier").contains("is no instruction"));
    let mut names = OPERATIONS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OPERATIONS.len());
}
