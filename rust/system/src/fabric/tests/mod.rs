//! What the graphs of the documented systems must be, checked against definitions that share no code with them.

mod bounds;
mod faults;
mod graphs;

use super::{Fabric, LinkProfile};

fn docs(name: &str) -> Fabric {
    Fabric::built_in(name, LinkProfile::Docs).expect("a built-in fabric")
}

fn level_names(fabric: &Fabric, links: &[u32]) -> Vec<String> {
    let mut names: Vec<String> =
        links.iter().map(|&link| fabric.levels()[fabric.links()[link as usize].level as usize].name.clone()).collect();
    names.sort();
    names.dedup();
    names
}
