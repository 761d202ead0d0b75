//! Tracks as packets.

use prost::Message;

use super::messages::{
    COUNTER, CounterDescriptor, DebugAnnotation, INCREMENTAL_STATE_CLEARED, InternedData, InternedName,
    NEEDS_INCREMENTAL_STATE, ProcessDescriptor, SLICE_BEGIN, SLICE_END, ThreadDescriptor, Trace, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent, TrackEventDefaults, UNIT_SIZE_BYTES,
};
use super::tracks::{CounterTrack, Samples, SliceTrack};

/// Packets that are kept as messages at a time.
const KEPT: usize = 4096;

/// Writes packets; a trace is the bytes of its parts, one behind the other.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    kept: Trace,
    /// The sequence that is being written, from 1 in the whole trace.
    sequence: u32,
    /// The process that is being written, from 1, and the last number of a track in it.
    process: i32,
    track: u64,
}

impl Writer {
    fn packet(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(self.sequence), ..packet };
        self.kept.packet.push(packet);
        if self.kept.packet.len() >= KEPT {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.bytes.extend(self.kept.encode_to_vec());
        self.kept.packet.clear();
    }

    /// The whole trace.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.bytes
    }

    fn process_uuid(&self) -> u64 {
        (self.process as u64) << 16
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        self.packet(TracePacket { track_descriptor: Some(Box::new(descriptor)), ..TracePacket::default() });
    }

    /// Begins the process of a core.
    pub(super) fn process(&mut self, core: usize, kernel: &str) {
        self.sequence += 1;
        self.process += 1;
        self.track = self.process_uuid();
        let name = format!("NeuronCore {core}: {kernel}");
        let process = ProcessDescriptor { pid: Some(self.process), process_name: Some(name) };
        self.describe(TrackDescriptor { uuid: Some(self.track), process: Some(process), ..TrackDescriptor::default() });
    }

    /// What comes first in a sequence: its track, its names, and that it starts afresh.
    fn open(&mut self, descriptor: TrackDescriptor, interned: InternedData) {
        self.describe(TrackDescriptor { uuid: Some(self.track), parent_uuid: Some(self.process_uuid()), ..descriptor });
        let defaults = TrackEventDefaults { track_uuid: Some(self.track) };
        self.packet(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            trace_packet_defaults: Some(Box::new(TracePacketDefaults { track_event_defaults: Some(defaults) })),
            interned_data: Some(interned),
            ..TracePacket::default()
        });
    }

    /// The format counts nanoseconds. Cut off, not rounded, they keep the order of picoseconds.
    fn event(&mut self, at_ps: u64, event: TrackEvent) {
        self.packet(TracePacket {
            timestamp: Some(at_ps / 1000),
            sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    /// Writes a track of slices.
    pub(super) fn slices(&mut self, track: &SliceTrack<'_>) {
        self.sequence += 1;
        self.track += 1;
        let thread = ThreadDescriptor {
            pid: Some(self.process),
            tid: Some(self.track as i32),
            thread_name: Some(track.name.clone()),
        };
        self.open(TrackDescriptor { thread: Some(thread), ..TrackDescriptor::default() }, interned(track));
        for slice in &track.slices {
            let mut annotations = Vec::with_capacity(track.arguments.len());
            let mut offset = 0;
            for (name_iid, argument) in (1..).zip(&track.arguments) {
                if let Some(value) = (argument.value)(slice.row) {
                    annotations.push(match &argument.texts {
                        None => DebugAnnotation {
                            name_iid: Some(name_iid),
                            uint_value: Some(value),
                            string_value_iid: None,
                        },
                        Some(_) => DebugAnnotation {
                            name_iid: Some(name_iid),
                            uint_value: None,
                            string_value_iid: Some(value + offset + 1),
                        },
                    });
                }
                offset += argument.texts.as_ref().map_or(0, |texts| texts.len() as u64);
            }
            let arrows = |arrows: &Option<super::tracks::Arrows>| {
                arrows.as_ref().map_or_else(Vec::new, |arrows| arrows.of(slice.row))
            };
            let begin = TrackEvent {
                debug_annotations: annotations,
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(slice.name as u64 + 1),
                flow_ids: arrows(&track.leaving),
                terminating_flow_ids: arrows(&track.arriving),
                ..TrackEvent::default()
            };
            self.event(slice.start_ps, begin);
            // The end stands right behind its begin, so that it comes before a begin at the same time.
            self.event(slice.end_ps, TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() });
        }
    }

    /// Writes a track of a counter.
    pub(super) fn counter(&mut self, track: &CounterTrack<'_>) {
        self.sequence += 1;
        self.track += 1;
        let is_bytes = matches!(track.samples, Samples::Bytes(..));
        let unit = match is_bytes {
            true => CounterDescriptor { unit: Some(UNIT_SIZE_BYTES), unit_name: None },
            false => CounterDescriptor { unit: None, unit_name: Some("GB/s".to_owned()) },
        };
        let name = Some(track.name.to_owned());
        let descriptor = TrackDescriptor { name, counter: Some(unit), ..TrackDescriptor::default() };
        self.open(descriptor, InternedData::default());
        let event = TrackEvent { r#type: Some(COUNTER), ..TrackEvent::default() };
        match &track.samples {
            Samples::Bytes(times, values) => {
                for (at, value) in times.iter().zip(*values) {
                    self.event(at, TrackEvent { counter_value: Some(value as i64), ..event.clone() });
                }
            }
            Samples::Rates(samples) => {
                for &(at, value) in samples {
                    self.event(at, TrackEvent { double_counter_value: Some(value), ..event.clone() });
                }
            }
        }
    }
}

/// The texts that a track uses, each under its place, from 1; those of arguments stand one behind the other.
fn interned(track: &SliceTrack<'_>) -> InternedData {
    let entry = |iid: u64, name: &str| InternedName { iid: Some(iid), name: Some(name.to_owned()) };
    let rows = || track.slices.iter().map(|slice| slice.row);
    let mut interned = InternedData {
        event_names: used(&track.names, track.slices.iter().map(|slice| slice.name))
            .map(|place| entry(place as u64 + 1, &track.names[place]))
            .collect(),
        ..InternedData::default()
    };
    let mut offset = 0;
    for (iid, argument) in (1..).zip(&track.arguments) {
        interned.debug_annotation_names.push(entry(iid, argument.name));
        let Some(texts) = &argument.texts else { continue };
        let places = rows().filter_map(|row| (argument.value)(row)).map(|place| place as usize);
        let entries = used(texts, places).map(|place| entry(place as u64 + offset + 1, &texts[place]));
        interned.debug_annotation_string_values.extend(entries);
        offset += texts.len() as u64;
    }
    interned
}

/// The places of texts that are used, rising.
fn used(texts: &[String], places: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    let mut is_used = vec![false; texts.len()];
    places.for_each(|place| is_used[place] = true);
    is_used.into_iter().enumerate().filter(|(_, is_used)| *is_used).map(|(place, _)| place)
}
