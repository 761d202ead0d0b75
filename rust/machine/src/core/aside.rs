//! Time worked out on a thread beside the kernel's: nothing of it comes back before somebody asks when something ran.
//!
//! A long run hands what it has issued over in batches and goes on; the timeline is the worker's meanwhile, which gives the
//! same instructions in the same order the same time. Whoever settles the core has the timeline home again.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::NeuronCore;
use super::pending::Pending;
use crate::timing::timeline::Timeline;

/// Instructions that a core times itself before a worker does **(choice)**: a thread costs as much as some dozens.
const ALONE: usize = 1024;
/// Instructions that are handed over at a time **(choice)**.
const BATCH: usize = 256;
/// Batches that may wait for the worker **(choice)**: more would only take memory.
const WAITING: usize = 8;

/// Workers of all cores of the process: as many as threads are allowed beside the kernel's own.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Whether and where a core is timed beside its kernel.
#[derive(Default)]
pub(super) struct Aside {
    is_allowed: bool,
    /// Instructions timed here since the timeline was last away.
    alone: usize,
    pub(super) away: Option<Box<Away>>,
}

type Batch = Vec<Box<Pending>>;

/// Leave to have a worker.
struct Seat;

impl Seat {
    fn take() -> Option<Self> {
        let allowed = trn3_numerics::num_threads().map_or(0, |threads| threads - 1);
        let taken = |workers| (workers < allowed).then_some(workers + 1);
        WORKERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok().map(|_| Self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        WORKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A timeline that is away with its worker.
pub(super) struct Away {
    /// None once all is handed over.
    work: Option<SyncSender<Batch>>,
    /// What was timed.
    done: Receiver<Batch>,
    worker: Option<JoinHandle<Option<Timeline>>>,
    next: Batch,
    spare: Batch,
    /// A forked child has the handle of the worker, but not the worker.
    process: u32,
    _seat: Seat,
}

impl Away {
    /// Hands a timeline over, for an empty one. None where the system refuses the thread.
    fn new(timeline: &mut Timeline, empty: Timeline, seat: Seat) -> Option<Self> {
        let ((give, taken), (work, batches), (give_back, done)) =
            (channel::<Timeline>(), sync_channel::<Batch>(WAITING), channel());
        let run = move || {
            let mut timeline = taken.recv().ok()?;
            for batch in batches {
                for pending in &batch {
                    timeline.issue(&pending.issue());
                }
                // Their places are for what comes; nothing does where the core comes home.
                let _ = give_back.send(batch);
            }
            Some(timeline)
        };
        let worker = Builder::new().name("trn3-time".to_owned()).spawn(run).ok()?;
        give.send(std::mem::replace(timeline, empty)).ok()?;
        let (work, worker, process) = (Some(work), Some(worker), std::process::id());
        Some(Self { work, done, worker, next: Vec::with_capacity(BATCH), spare: Vec::new(), process, _seat: seat })
    }

    /// Hands over what was put aside; whether there is somebody who takes it.
    fn send(&mut self) -> bool {
        let batch = std::mem::replace(&mut self.next, Vec::with_capacity(BATCH));
        self.is_here() && self.work.as_ref().is_some_and(|work| work.send(batch).is_ok())
    }

    /// The place of one that was timed.
    pub(super) fn spare(&mut self) -> Option<Box<Pending>> {
        if self.spare.is_empty() {
            self.spare = self.done.try_recv().unwrap_or_default();
        }
        self.spare.pop()
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// The timeline with all that was handed over on it. What the worker panicked with goes on here.
    fn finish(mut self) -> Timeline {
        let is_sent = self.next.is_empty() || self.send();
        self.work = None;
        match self.worker.take().filter(|_| self.is_here()).map(JoinHandle::join) {
            Some(Ok(Some(timeline))) if is_sent => timeline,
            Some(Err(panic)) => resume_unwind(panic),
            _ => resume_unwind(Box::new("the core's time is with another process, which it was forked from")),
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.work = None;
        if let Some(worker) = self.worker.take() {
            if self.is_here() {
                // Nobody asks any more what became of it.
                let _ = worker.join();
            } else {
                std::mem::forget(worker);
            }
        }
    }
}

impl NeuronCore {
    /// Lets a long run be timed on a thread of its own while the next instructions are issued, where more than one thread is
    /// [allowed](trn3_numerics::num_threads). Until the core is [settled](NeuronCore::settle), [`NeuronCore::timeline`] may
    /// be empty.
    pub fn time_aside(&mut self) {
        self.aside.is_allowed = true;
    }

    /// Has the timeline here.
    pub(super) fn come_home(&mut self) {
        if let Some(away) = self.aside.away.take() {
            self.timeline = away.finish();
        }
    }

    /// Leaves an instruction to the worker, where there is one or comes one; else gives it back.
    pub(super) fn put_aside(&mut self, pending: Box<Pending>) -> Option<Box<Pending>> {
        if self.aside.away.is_none() && !self.go_away() {
            return Some(pending);
        }
        let Some(away) = &mut self.aside.away else { return Some(pending) };
        away.next.push(pending);
        if away.next.len() >= BATCH && !away.send() {
            self.come_home();
        }
        None
    }

    /// Hands the timeline over, if it is time for that.
    fn go_away(&mut self) -> bool {
        // What cores share, and what is kept of times for others, is written on this thread.
        if !self.aside.is_allowed || self.is_shared || self.timed.is_some() || self.trace.is_some() {
            return false;
        }
        self.aside.alone += 1;
        if self.aside.alone < ALONE {
            return false;
        }
        self.aside.alone = 0;
        let empty = self.timeline.emptied(Arc::clone(&self.state.arch), self.timeline.options());
        self.aside.away = Seat::take().and_then(|seat| Away::new(&mut self.timeline, empty, seat)).map(Box::new);
        self.aside.away.is_some()
    }
}
