//! Groups of chips by pattern.

use super::graph::Fabric;
use crate::error::{Error, Result};

impl Fabric {
    /// The chips whose ids match a pattern: for each part of the id a number, a range `0-3` or `*`; parts left out at
    /// the end are `*`; several patterns with commas between them. `0` on Trn3 is rack 0, `*/0-3` the first four
    /// servers of every rack. Indices are in ascending order, each once.
    ///
    /// # Errors
    /// [`Error::Value`] if a pattern cannot be read or matches nothing.
    ///
    /// ```
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let gen2 = Fabric::built_in("trn3_gen2", LinkProfile::Docs).unwrap();
    /// assert_eq!(gen2.select("1").unwrap(), (72..144).collect::<Vec<_>>());
    /// assert_eq!(gen2.select("0/3, 1/3/*").unwrap().len(), 8);
    /// ```
    pub fn select(&self, patterns: &str) -> Result<Vec<usize>> {
        let mut is_chosen = vec![false; self.chips];
        for pattern in patterns.split(',') {
            let pattern = pattern.trim();
            let parts: Vec<(u32, u32)> = pattern.split('/').map(range).collect::<Option<_>>().ok_or_else(|| {
                Error::Value(format!(
                    "chips {pattern:?} cannot be read; needed: {} as numbers, ranges like 0-3 or *",
                    self.parts.join("/")
                ))
            })?;
            let mut is_empty = true;
            for (chip, chosen) in is_chosen.iter_mut().enumerate() {
                let id = self.chip_id(chip);
                let inside = |(&part, &(low, high)): (&u32, &(u32, u32))| (low..=high).contains(&part);
                if parts.len() <= id.len() && id.iter().zip(&parts).all(inside) {
                    *chosen = true;
                    is_empty = false;
                }
            }
            if is_empty {
                let last = self.nodes[..self.chips].last().map_or("", |node| node.name.as_str());
                return Err(Error::Value(format!(
                    "no chip of {} matches {pattern:?}; ids are {}, the last one is {last}",
                    self.name,
                    self.parts.join("/")
                )));
            }
        }
        Ok((0..self.chips).filter(|&chip| is_chosen[chip]).collect())
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    if text == "*" {
        return Some((0, u32::MAX));
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}
