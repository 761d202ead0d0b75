//! What replay needs of a node's attributes, whichever version of the tools wrote them.

use super::messages::{ChakraNode, ChakraValue};
use super::trace::COLLECTIVES;
use super::value::{ChakraScalar, quoted};
use crate::error::{Error, Result};
use crate::replay::JobExchange;

/// The names that tools have given to what replay reads, today's first.
const NAMES: [&[&str]; 13] = [
    &["num_ops", "flops", "num_flops"],
    &["tensor_size", "tensor_bytes", "mem_size"],
    &["comm_type", "collective_type", "collective_comm_type"],
    &["comm_size", "comm_bytes", "comm_size_bytes", "collective_size"],
    &["comm_src", "src", "src_rank", "comm_source"],
    &["comm_dst", "dst", "dst_rank", "comm_dest"],
    &["comm_tag", "tag"],
    &["pg_name", "comm_group", "process_group", "process_group_name"],
    &["comm_root", "root", "root_rank"],
    &["priority", "comm_priority"],
    &["is_cpu_op"],
    &["duration_ps"],
    &["involved_dim"],
];

/// Attributes of one node of a rank, with errors that name it.
pub(super) struct Attributes<'a> {
    pub(super) node: &'a ChakraNode,
    pub(super) rank: u32,
}

impl<'a> Attributes<'a> {
    pub(super) fn wrong(&self, why: &str) -> Error {
        Error::Trace(format!("rank {}, node {} ({}): {why}", self.rank, self.node.id, quoted(&self.node.name)))
    }

    /// The first attribute of a name.
    pub(super) fn called(&self, name: &str) -> Option<&'a ChakraValue> {
        self.node.attributes.iter().find(|one| one.name == name).and_then(|one| one.value.as_ref())
    }

    /// An attribute under any of its names.
    pub(super) fn value(&self, name: &str) -> Option<&'a ChakraValue> {
        names(name).iter().find_map(|name| self.called(name))
    }

    /// A whole number from `least`, if there is one.
    pub(super) fn whole_from(&self, name: &str, least: i128) -> Result<Option<i128>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let (scalars, is_list) = value.scalars();
        let number = match &scalars[..] {
            _ if is_list => None,
            [ChakraScalar::Whole(number)] => Some(*number),
            [ChakraScalar::Flag(flag)] => Some(i128::from(*flag)),
            [ChakraScalar::Real(real)] if real.fract() == 0.0 => Some(*real as i128),
            [ChakraScalar::Text(text)] => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            None => Err(self.wrong(&format!("attribute {name} is {value}; needed: a whole number"))),
            Some(number) if number < least => {
                Err(self.wrong(&format!("attribute {name} is {number}; allowed: {least} or more")))
            }
            found => Ok(found),
        }
    }

    /// A number of things, if there is one.
    pub(super) fn whole(&self, name: &str) -> Result<Option<i128>> {
        self.whole_from(name, 0)
    }

    /// A number that `what` cannot do without.
    pub(super) fn needed(&self, name: &str, what: &str) -> Result<i128> {
        self.whole(name)?.ok_or_else(|| {
            let others = names(name)[1..].join(", ");
            let also = if others.is_empty() { String::new() } else { format!(" (or {others})") };
            self.wrong(&format!("attribute {name}{also} is missing, which {what} needs"))
        })
    }

    /// A truth value; false if there is none.
    pub(super) fn flag(&self, name: &str) -> bool {
        let Some(value) = self.value(name) else { return false };
        let (scalars, is_list) = value.scalars();
        match &scalars[..] {
            scalars if is_list => !scalars.is_empty(),
            [ChakraScalar::Text(text)] => matches!(text.trim().to_lowercase().as_str(), "1" | "true" | "yes"),
            [scalar] => is_true(scalar),
            _ => false,
        }
    }

    /// Which collective it is, by number or by name.
    pub(super) fn collective(&self) -> Result<JobExchange> {
        let Some(value) = self.value("comm_type") else {
            return Err(self.wrong("attribute comm_type is missing, which a collective needs"));
        };
        let named = |text: &str| {
            // "ALL_REDUCE", "allreduce" and "all-reduce" alike.
            let plain = |text: &str| text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            COLLECTIVES.iter().position(|name| plain(name) == plain(text))
        };
        let number = match &value.scalars().0[..] {
            [ChakraScalar::Text(text)] => text.trim().parse().ok().or_else(|| named(text)),
            [ChakraScalar::Whole(number)] => usize::try_from(*number).ok(),
            [ChakraScalar::Real(real)] if *real >= 0.0 => Some(*real as usize),
            [ChakraScalar::Flag(flag)] => Some(usize::from(*flag)),
            _ => None,
        };
        number.and_then(|number| JobExchange::ALL.get(number)).copied().ok_or_else(|| {
            let allowed: Vec<String> =
                (0..).zip(COLLECTIVES).map(|(at, name): (u8, _)| format!("{at} {name}")).collect();
            self.wrong(&format!("attribute comm_type is {value}; allowed: {}", allowed.join(", ")))
        })
    }

    /// The name of the process group, if it is not that of all ranks.
    pub(super) fn group(&self) -> Result<Option<String>> {
        let name = self.value("pg_name").map(|value| match value {
            ChakraValue::String(text) => text.clone(),
            other => other.to_string(),
        });
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            return Ok(Some(name));
        }
        if let Some((dimensions, true)) = self.value("involved_dim").map(ChakraValue::scalars)
            && !dimensions.iter().all(is_true)
        {
            let texts: Vec<String> = dimensions.iter().map(ChakraScalar::to_string).collect();
            return Err(self.wrong(&format!(
                "attribute involved_dim is [{}]: dimensions of another simulator's network; replay needs the group's \
                     name, attribute pg_name",
                texts.join(", ")
            )));
        }
        Ok(None)
    }
}

fn names(name: &str) -> &'static [&'static str] {
    NAMES.iter().find(|names| names[0] == name).copied().unwrap_or_default()
}

fn is_true(scalar: &ChakraScalar) -> bool {
    match scalar {
        ChakraScalar::Real(number) => *number != 0.0,
        ChakraScalar::Whole(number) => *number != 0,
        ChakraScalar::Flag(flag) => *flag,
        ChakraScalar::Text(text) => !text.is_empty(),
        ChakraScalar::Bytes(bytes) => !bytes.is_empty(),
    }
}
