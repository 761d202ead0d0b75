//! Refuses what has no meaning, by name.

use super::{FlowTransfer, LOWEST_PRIORITY, Resource};
use crate::error::{Error, Result};

pub(super) fn check(resources: &[Resource], transfers: &[FlowTransfer]) -> Result<()> {
    for Resource { name, rate } in resources {
        if !(rate.is_finite() && *rate >= 0.0) {
            return refuse(format!("resource {name:?}: rate is {rate} B/s; it must be finite and not negative"));
        }
    }
    for (index, transfer) in transfers.iter().enumerate() {
        transfer_is_sound(index, transfer, resources, transfers.len())?;
    }
    Ok(())
}

fn transfer_is_sound(index: usize, transfer: &FlowTransfer, resources: &[Resource], transfers: usize) -> Result<()> {
    for (what, value) in [("bytes", transfer.bytes), ("latency", transfer.latency), ("start", transfer.start)] {
        if !(value.is_finite() && value >= 0.0) {
            return refuse(format!("transfer {index}: {what} is {value}; it must be finite and not negative"));
        }
    }
    if !(transfer.share.is_finite() && transfer.share > 0.0) {
        let share = transfer.share;
        return refuse(format!("transfer {index}: share is {share}; it must be finite and positive (1.0 is usual)"));
    }
    if transfer.priority > LOWEST_PRIORITY {
        let priority = transfer.priority;
        return refuse(format!(
            "transfer {index}: priority is {priority}; allowed: 0 (highest) to {LOWEST_PRIORITY} (lowest)"
        ));
    }
    if let Some(other) = transfer.after.iter().find(|other| **other as usize >= transfers) {
        let last = transfers - 1;
        return refuse(format!(
            "transfer {index}: comes after transfer {other}, which there is not; the last is {last}"
        ));
    }
    for &(resource, weight) in &transfer.uses {
        let Some(Resource { name, rate }) = resources.get(resource as usize) else {
            let allowed = match resources.len() {
                0 => "there is no resource".to_owned(),
                n => format!("allowed: 0 to {}", n - 1),
            };
            return refuse(format!("transfer {index}: uses resource {resource}, which there is not; {allowed}"));
        };
        if !(weight.is_finite() && weight >= 0.0) {
            return refuse(format!(
                "transfer {index}: its weight on {name:?} is {weight}; it must be finite and not negative"
            ));
        }
        if *rate == 0.0 && weight > 0.0 && transfer.bytes > 0.0 {
            let bytes = transfer.bytes;
            return refuse(format!(
                "resource {name:?}: rate is 0 B/s, but transfer {index} sends {bytes} bytes through it; \
                 leave it out of the transfer's uses or give it a rate"
            ));
        }
    }
    Ok(())
}

pub(super) fn queues(transfers: &[FlowTransfer], queues: &[Option<u32>]) -> Result<()> {
    if queues.len() != transfers.len() {
        let (queues, transfers) = (queues.len(), transfers.len());
        return refuse(format!(
            "queues: {queues} came for {transfers} transfers; each needs one entry, None for no queue"
        ));
    }
    let early = transfers.iter().zip(queues).position(|(transfer, queue)| queue.is_some() && transfer.start > 0.0);
    match early {
        Some(index) => {
            let start = transfers[index].start;
            refuse(format!("transfer {index}: is in a queue and has a start, {start}; one of both is allowed"))
        }
        None => Ok(()),
    }
}

/// The error of transfers that wait for each other; `unfinished` are those that never began.
pub(super) fn cycle(transfers: &[FlowTransfer], unfinished: impl Fn(u32) -> bool) -> Error {
    let count = u32::try_from(transfers.len()).unwrap_or(u32::MAX);
    let Some(mut at) = (0..count).find(|&i| unfinished(i)) else {
        return Error::Value("transfers: none is left, yet some did not end".to_owned());
    };
    // From any of them back through its own unfinished predecessors, one is met again.
    let mut seen: Vec<u32> = Vec::new();
    let mut place = vec![usize::MAX; transfers.len()];
    while place[at as usize] == usize::MAX {
        place[at as usize] = seen.len();
        seen.push(at);
        match transfers[at as usize].after.iter().copied().find(|&i| unfinished(i)) {
            Some(before) => at = before,
            None => break,
        }
    }
    let ring = &seen[place[at as usize]..];
    let shown: Vec<String> = ring.iter().chain(&ring[..1]).take(12).map(u32::to_string).collect();
    let more = if ring.len() > 11 { " -> ..." } else { "" };
    Error::Value(format!(
        "transfers wait for each other in a circle ({} of them): {}{more}; take one of these out of `after`",
        ring.len(),
        shown.join(" after ")
    ))
}

fn refuse<T>(text: String) -> Result<T> {
    Err(Error::Value(text))
}
