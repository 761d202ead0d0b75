//! Steps that go from a trace.

use trn3_machine::trace::{NONE, Trace};

/// Leaves steps out. `instead` has for each step itself where it stays, else the earlier one that takes its place for those
/// that wait for it, or [`NONE`].
pub(super) fn leave_out(trace: &mut Trace, instead: &[u32]) {
    let mut numbers = vec![NONE; trace.steps.len()];
    let mut count = 0;
    for (step, &other) in instead.iter().enumerate() {
        if other == step as u32 {
            numbers[step] = count;
            count += 1;
        } else if other != NONE {
            numbers[step] = numbers[other as usize];
        }
    }
    let mut place = 0;
    trace.steps.retain_mut(|step| {
        let stays = instead[place] == place as u32;
        place += 1;
        if stays {
            step.after.retain(|producer| {
                *producer = numbers[*producer as usize];
                *producer != NONE
            });
        }
        stays
    });
}
