//! A native Perfetto trace of profiles: one process a core, one thread an engine or DMA queue.
//!
//! Packets are protobuf messages of the public trace format. Each track is a packet sequence of its own, in order of time,
//! with names interned.

mod messages;
mod tracks;
mod writer;

use std::sync::Arc;

use crate::core_profile::CoreProfile;
use writer::Writer;

/// The trace of the cores of one run, in order of their numbers; all start at time 0.
pub(crate) fn trace(cores: &[Arc<CoreProfile>]) -> Vec<u8> {
    let mut writer = Writer::default();
    for (number, core) in cores.iter().enumerate() {
        writer.process(number, &core.columns().kernel);
        for track in tracks::slices(core, number) {
            writer.slices(&track);
        }
        for counter in tracks::counters(core) {
            writer.counter(&counter);
        }
    }
    writer.finish()
}
