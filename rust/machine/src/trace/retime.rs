//! What a run would take if its kernel were written otherwise: edits of its trace, timed on the machine's own timeline.
//!
//! An edit is what somebody could do to the text and that leaves values as they are; tensors are then placed as written
//! and every step is timed as it was in the run. There is no second model.

mod ahead;
mod direct;

mod generations;
mod joined;
mod moved;
mod once;

use std::collections::HashSet;

use super::Trace;
use super::as_written::Event;
use super::time::time_all;
use crate::core::NeuronCore;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::time::Picos;
use crate::timing::timeline::Timeline;

/// A change of a kernel's text that leaves its values as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Tensors made at these lines, once for all refills, are made anew for each: no refill waits for readers of the one
    /// before.
    Anew {
        /// Where they are made.
        tensors: Vec<SiteId>,
    },
    /// What fills tensors made at these lines the same way again is done once; readers share the first. Where that is the
    /// same all the time it is done before the first step of the loop around them.
    Once {
        /// Where they are made.
        tensors: Vec<SiteId>,
        /// Lines of the loop.
        around: Vec<SiteId>,
    },
    /// Steps of a line go to these engines, in turn.
    Engines {
        /// The line.
        line: SiteId,
        /// Where its first, second... step goes; then from the start again.
        engines: Vec<Engine>,
    },
    /// Transfers of a line, whose queue nobody named, are triggered by these sequencers, in turn.
    Triggers {
        /// The line.
        line: SiteId,
        /// What triggers its first, second... transfer; then from the start again.
        sequencers: Vec<Engine>,
    },
    /// Transfers of a line that follow one another and move neighbouring bytes between the same tensors are one: loads where
    /// the first of them was, stores where the last was.
    Joined {
        /// The line.
        line: SiteId,
    },
    /// What reads copies made at a line reads what was copied instead, and they are gone.
    Direct {
        /// The line.
        copy: SiteId,
    },
    /// Of every two runs of steps of these lines that follow one another, the first lines of the later run come before the
    /// last lines of the earlier one.
    Ahead {
        /// Lines that come earlier.
        head: Vec<SiteId>,
        /// Lines that they overtake.
        tail: Vec<SiteId>,
    },
    /// These lines are gone; only right for what nothing reads.
    Without {
        /// The lines.
        lines: Vec<SiteId>,
    },
}

/// A step, or a tensor without an address that comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Step(u32),
    Came(u32),
    Gone(u32),
}

/// A trace and its steps in an order that may change.
struct Draft {
    trace: Trace,
    items: Vec<Item>,
}

impl Draft {
    fn of(trace: &Trace) -> Self {
        let trace = trace.clone();
        let mut items = Vec::with_capacity(trace.steps.len() + trace.events.len());
        let mut events = trace.events.iter().peekable();
        for number in 0..=trace.steps.len() as u32 {
            while let Some(event) = events.next_if(|event| event.step <= number) {
                items.push(if event.came { Item::Came(event.tensor) } else { Item::Gone(event.tensor) });
            }
            if number < trace.steps.len() as u32 {
                items.push(Item::Step(number));
            }
        }
        Self { trace, items }
    }

    /// Applies an edit; false where it changes nothing or would change values.
    fn apply(&mut self, edit: &Edit) -> bool {
        match edit {
            Edit::Anew { tensors } => self.make_anew(&|site| tensors.contains(&site)),
            Edit::Once { tensors, around } => self.fill_once(tensors, around),
            Edit::Engines { line, engines } => self.give_engines(*line, engines),
            Edit::Triggers { line, sequencers } => self.give_triggers(*line, sequencers),
            Edit::Joined { line } => self.join_transfers(*line),
            Edit::Direct { copy } => self.read_sources(*copy),
            Edit::Ahead { head, tail } => self.go_ahead(head, tail),
            Edit::Without { lines } => self.retain(&|draft, step| !lines.contains(&draft.steps[step as usize].site)),
        }
    }

    fn retain(&mut self, keeps: &dyn Fn(&Trace, u32) -> bool) -> bool {
        let before = self.items.len();
        let trace = &self.trace;
        self.items.retain(|item| if let Item::Step(step) = item { keeps(trace, *step) } else { true });
        self.items.len() < before
    }

    /// The trace in the order that was made; None where its tensors do not fit.
    fn finish(mut self) -> Option<Trace> {
        let mut last = vec![0usize; self.trace.tensors.len()];
        for (place, item) in self.items.iter().enumerate() {
            if let Item::Step(number) = item {
                for operand in &self.trace.steps[*number as usize].operands {
                    last[operand.tensor as usize] = place;
                }
            }
        }
        // What is used later than it went, for its readers moved, goes after them.
        let mut late: Vec<(usize, u32)> = Vec::new();
        let mut order = Vec::with_capacity(self.trace.steps.len());
        let mut events = Vec::with_capacity(self.trace.events.len());
        for (place, item) in self.items.iter().enumerate() {
            match *item {
                Item::Step(number) => {
                    order.push(number);
                    late.retain(|&(until, tensor)| {
                        if until == place {
                            events.push(Event::gone(order.len() as u32, tensor));
                        }
                        until != place
                    });
                }
                Item::Came(tensor) => events.push(Event::made(order.len() as u32, tensor)),
                Item::Gone(tensor) if last[tensor as usize] > place => late.push((last[tensor as usize], tensor)),
                Item::Gone(tensor) => events.push(Event::gone(order.len() as u32, tensor)),
            }
        }
        self.trace.reorder(&order);
        self.trace.events = events;
        self.trace.place_as_written().then_some(self.trace)
    }
}

/// Times edits of what cores ran.
///
/// ```
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::trace::Retimer;
///
/// let options = CoreOptions { unlimited: true, ..CoreOptions::default() };
/// let mut core = NeuronCore::new(std::sync::Arc::new(trn3_machine::arch::ArchSpec::load("trn3")?), options)?;
/// let retimer = Retimer::of(&mut [&mut core])?;
/// assert_eq!(retimer.latency(&[])?, Some(trn3_machine::time::Picos(0)));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug)]
pub struct Retimer {
    traces: Vec<Trace>,
    timelines: Vec<Timeline>,
}

impl Retimer {
    /// Takes what cores ran: all that met one another, each of which keeps a trace.
    ///
    /// # Errors
    /// [`Error::Value`] for a core that kept none.
    pub fn of(cores: &mut [&mut NeuronCore]) -> Result<Self> {
        let missing = || Error::Value("a core kept no trace of its run: it is made with unlimited places".to_owned());
        let timelines = cores.iter().map(|core| core.empty_timeline(false)).collect();
        let traces = cores.iter_mut().map(|core| core.take_trace().ok_or_else(missing)).collect::<Result<_>>()?;
        Ok(Self { traces, timelines })
    }

    /// What the cores ran.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// The traces with edits, one after the other; None where one of them changes nothing or would change values, and where
    /// tensors do not fit.
    pub fn edited(&self, edits: &[Edit]) -> Option<Vec<Trace>> {
        let mut drafts: Vec<Draft> = self.traces.iter().map(Draft::of).collect();
        for edit in edits {
            let changed = drafts.iter_mut().map(|draft| draft.apply(edit)).collect::<Vec<_>>();
            if !changed.contains(&true) {
                return None;
            }
        }
        drafts.into_iter().map(Draft::finish).collect()
    }

    /// Until the last core has ended, with edits; None as [`Retimer::edited`].
    ///
    /// # Errors
    /// [`Error::Value`] where a core is missing that one of them met.
    pub fn latency(&self, edits: &[Edit]) -> Result<Option<Picos>> {
        let Some(traces) = self.edited(edits) else { return Ok(None) };
        let timelines = self.timelines.iter().zip(&traces);
        let timelines = timelines.map(|(timeline, trace)| timeline.emptied(trace.arch.clone(), timeline.options()));
        let timed = time_all(&traces.iter().collect::<Vec<_>>(), timelines.collect())?;
        Ok(timed.into_iter().map(|timed| timed.latency).max())
    }

    /// The same with edits made for good; false as [`Retimer::edited`].
    pub fn apply(&mut self, edits: &[Edit]) -> bool {
        let Some(traces) = self.edited(edits) else { return false };
        self.traces = traces;
        true
    }
}

/// Tensors that steps write, and the steps, in their order.
fn written(draft: &Draft) -> Vec<Vec<u32>> {
    let mut writers: Vec<Vec<u32>> = vec![Vec::new(); draft.trace.tensors.len()];
    for item in &draft.items {
        let Item::Step(number) = *item else { continue };
        for operand in draft.trace.steps[number as usize].writes() {
            let of = &mut writers[operand.tensor as usize];
            if of.last() != Some(&number) {
                of.push(number);
            }
        }
    }
    writers
}

/// Steps in no order.
type StepSet = HashSet<u32>;

#[cfg(test)]
mod tests;
