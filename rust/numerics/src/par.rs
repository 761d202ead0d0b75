//! Threads: an own pool, work split by outputs only, the caller working along and listening for interrupts.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use crate::awake::{self, Workers};
use crate::error::{Error, Result};
use crate::fpenv;

/// How often a long call asks the host whether to stop; short against a person's patience, long against its cost.
const INTERRUPT_PERIOD: Duration = Duration::from_millis(20);

/// More threads than this, where the machine has not as many cores, are a mistake: idle ones look to all others for work,
/// so that starting thousands takes minutes.
const USUAL_MOST: usize = 512;

/// The most threads that operations use: 512, or as many as the machine has cores.
pub fn most_threads() -> usize {
    std::thread::available_parallelism().map_or(USUAL_MOST, |cores| USUAL_MOST.max(cores.get()))
}

struct Pool {
    threads: usize,
    /// `None` for one thread: the caller is one of the threads, the workers are the rest.
    workers: Option<Arc<Workers>>,
    /// A forked child inherits the pool's memory but not its threads, so it must build its own.
    process: u32,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(threads: usize) -> Result<Pool> {
    let workers = if threads == 1 {
        None
    } else {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads - 1)
            .thread_name(|index| format!("trn3-{index}"))
            .build()
            .map_err(|error| {
                Error::value("num_threads", threads, format!("the system refused the threads: {error}"))
            })?;
        Some(Arc::new(Workers::new(pool)))
    };
    Ok(Pool { threads, workers, process: std::process::id() })
}

fn default_threads() -> Result<usize> {
    match std::env::var("TRN3_NUM_THREADS") {
        Ok(text) => match text.trim().parse() {
            Ok(threads) if (1..=most_threads()).contains(&threads) => Ok(threads),
            _ => Err(Error::value(
                "TRN3_NUM_THREADS",
                format!("{text:?}"),
                format!("a whole number from 1 to {} is needed", most_threads()),
            )),
        },
        Err(_) => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

fn current() -> Result<(usize, Option<Arc<Workers>>)> {
    let mut slot = lock(&POOL);
    let stale = slot.as_ref().is_some_and(|pool| pool.workers.is_some() && pool.process != std::process::id());
    if stale && let Some(pool) = slot.take() {
        let threads = pool.threads;
        // Dropping it would wait for threads that do not exist in this process.
        std::mem::forget(pool);
        *slot = Some(build(threads)?);
    }
    if slot.is_none() {
        *slot = Some(build(default_threads()?)?);
    }
    match slot.as_ref() {
        Some(pool) => Ok((pool.threads, pool.workers.clone())),
        None => Ok((1, None)),
    }
}

/// Sets how many threads operations use, the calling one included.
///
/// # Errors
/// [`Error::Value`] for 0, for more than [`most_threads`], and when the system refuses the threads.
pub fn set_num_threads(threads: usize) -> Result<()> {
    let most = most_threads();
    if !(1..=most).contains(&threads) {
        return Err(Error::value("num_threads", threads, format!("a whole number from 1 to {most} is needed")));
    }
    let fresh = build(threads)?;
    let old = lock(&POOL).replace(fresh);
    if let Some(old) = old
        && old.process != std::process::id()
    {
        std::mem::forget(old);
    }
    Ok(())
}

/// How many threads operations use: as set, else `TRN3_NUM_THREADS`, else one per available core.
///
/// # Errors
/// [`Error::Value`] when `TRN3_NUM_THREADS` is not a whole number from 1 to [`most_threads`].
pub fn num_threads() -> Result<usize> {
    current().map(|(threads, _)| threads)
}

/// How many threads a split would have that began here.
pub(crate) fn threads_here() -> usize {
    if WORKING.get() || ALONE.get() { 1 } else { num_threads().unwrap_or(1) }
}

/// How many of `count` things in a row a task takes, at most `most`: each thread gets `tasks` of them or more, and all get
/// as many, so that none waits for the one that has the odd task.
pub(crate) fn share(count: usize, most: usize, tasks: usize) -> usize {
    let threads = threads_here();
    let tasks = if threads == 1 { 1 } else { tasks * threads };
    count.div_ceil(count.div_ceil(most).next_multiple_of(tasks)).max(1)
}

thread_local! {
    /// What to ask whether to stop, and when it was last asked: a long call may be many short splits. None once it said so.
    static INTERRUPT_CHECK: Cell<Option<(fn() -> bool, Option<Instant>)>> = const { Cell::new(None) };
    /// Whether this thread is working on an item of a split that has several: splits inside it stay on the thread.
    static WORKING: Cell<bool> = const { Cell::new(false) };
    /// Whether splits stay on this thread because somebody asked for that.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Puts a thread's earlier value back, also when the work unwinds.
struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);

impl<T: Copy> Drop for Restore<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs `work`; long operations in it call `check` from this thread about fifty times a second and stop with
/// [`Error::Interrupted`] once it returns true.
///
/// ```
/// let sum = trn3_numerics::with_interrupt_check(|| false, || 1 + 1);
/// assert_eq!(sum, 2);
/// ```
pub fn with_interrupt_check<R>(check: fn() -> bool, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(&INTERRUPT_CHECK, INTERRUPT_CHECK.replace(Some((check, Some(Instant::now())))));
    work()
}

/// Runs `work` with its splits on this thread, whose caches hold what it works on: what another thread wrote, this one
/// would wait for afterwards.
///
/// ```
/// let mut squares = [0, 1, 2, 3];
/// trn3_numerics::on_this_thread(|| trn3_numerics::for_each(squares.iter_mut(), |square| *square *= *square))?;
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn on_this_thread<R>(work: impl FnOnce() -> R) -> R {
    let _restore = Restore(&ALONE, ALONE.replace(true));
    work()
}

/// What a long loop of another crate asks in between, under [`with_interrupt_check`]; nothing without.
///
/// # Errors
/// [`Error::Interrupted`] when it is to stop.
///
/// ```
/// use trn3_numerics::{Error, check_interrupt, with_interrupt_check};
///
/// let wait = || std::iter::repeat_with(check_interrupt).find(Result::is_err);
/// assert_eq!(with_interrupt_check(|| true, wait), Some(Err(Error::Interrupted)));
/// assert_eq!(check_interrupt(), Ok(()));
/// ```
pub fn check_interrupt() -> Result<()> {
    // An operation that is split leaves listening to the outer one.
    if !WORKING.get() && is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Asks whether to stop, if it is time to.
fn is_interrupted() -> bool {
    let Some((check, last)) = INTERRUPT_CHECK.get() else { return false };
    // Who was told to stop and goes on is told again.
    let Some(last) = last else { return true };
    if last.elapsed() < INTERRUPT_PERIOD {
        return false;
    }
    let stop = check();
    INTERRUPT_CHECK.set(Some((check, (!stop).then(Instant::now))));
    stop
}

/// Gives every item to `work`, on all threads; items are taken in order, so put the costly ones first. An item should
/// take between some ten microseconds (else handing it out shows) and some ten milliseconds (else interrupts wait).
/// Threads are as many as [`num_threads`] says; items of one call must not depend on one another.
///
/// # Errors
/// [`Error::Interrupted`], with items left undone; [`Error::Value`] when `TRN3_NUM_THREADS` is wrong.
///
/// ```
/// let mut squares = [0; 100];
/// trn3_numerics::for_each(squares.iter_mut().enumerate(), |(place, square)| *square = place * place)?;
/// assert_eq!(squares[99], 9801);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn for_each<I>(items: I, work: impl Fn(I::Item) + Sync) -> Result<()>
where
    I: ExactSizeIterator + Send,
    I::Item: Send,
{
    let count = items.len();
    let team = Team::of(count)?;
    let items = Mutex::new(items);
    team.work(|_| lock(&items).next(), work)
}

/// As [`for_each`], but each thread begins with items in a row, the same ones in every call with as many: what it read and
/// wrote before is in its own caches, where another's may be far away. Who is done takes the last of others.
pub(crate) fn for_each_near<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) -> Result<()> {
    let team = Team::of(items.len())?;
    let runs = team.threads.min(items.len()).max(1);
    let length = items.len().div_ceil(runs);
    let mut items = items.into_iter();
    let runs: Vec<_> = (0..runs).map(|_| Mutex::new(Vec::from_iter(items.by_ref().take(length)).into_iter())).collect();
    let take = |thread: usize| {
        let own = thread % runs.len();
        let others = runs[own + 1..].iter().chain(&runs[..own]);
        let first = lock(&runs[own]).next();
        first.or_else(|| others.into_iter().find_map(|run| lock(run).next_back()))
    };
    team.work(take, work)
}

/// The threads that work on the items of one call.
struct Team {
    count: usize,
    threads: usize,
    workers: Option<Arc<Workers>>,
}

impl Team {
    /// Those for so many items: one where the call is inside of another's item, or is to stay on its thread.
    fn of(count: usize) -> Result<Self> {
        let is_split = count > 1 && !WORKING.get() && !ALONE.get();
        let (threads, workers) = if is_split { current()? } else { (1, None) };
        Ok(Self { count, threads, workers })
    }

    /// Works on what `take` gives to the thread of a number until there is nothing more.
    fn work<T>(self, take: impl Fn(usize) -> Option<T> + Sync, work: impl Fn(T) + Sync) -> Result<()> {
        let inside = WORKING.get();
        let stop = AtomicBool::new(false);
        let next = |thread| if stop.load(Ordering::Relaxed) { None } else { take(thread) };
        let work_on = |item| {
            let _restore = Restore(&WORKING, WORKING.replace(inside || self.count > 1));
            work(item);
        };
        let worker = || {
            let thread = rayon::current_thread_index().map_or(0, |index| index + 1);
            fpenv::with_default_environment(|| {
                while let Some(item) = next(thread) {
                    work_on(item);
                }
            });
        };
        let caller = || {
            fpenv::with_default_environment(|| {
                while let Some(item) = next(0) {
                    work_on(item);
                    // A nested split leaves listening to the outer one, which can act on what it hears.
                    if !inside && is_interrupted() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        };
        match self.workers {
            None => caller(),
            Some(workers) => {
                let helpers = self.threads.min(self.count) - 1;
                let at_work = AtomicUsize::new(helpers);
                workers.pool.in_place_scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|_| {
                            worker();
                            at_work.fetch_sub(1, Ordering::Release);
                        });
                    }
                    caller();
                    awake::wait(|| at_work.load(Ordering::Acquire) == 0);
                });
                workers.stay_awake(helpers);
            }
        }
        if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// As [`for_each`] for work that can fail, as one that splits again can by an interrupt.
pub(crate) fn try_for_each<I>(items: I, work: impl Fn(I::Item) -> Result<()> + Sync) -> Result<()>
where
    I: ExactSizeIterator + Send,
    I::Item: Send,
{
    let failure = OnceLock::new();
    for_each(items, |item| {
        if let Err(error) = work(item) {
            // Any of several failures will do.
            let _ = failure.set(error);
        }
    })?;
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_item_is_worked_once() {
        let sum = AtomicUsize::new(0);
        for_each(0..1000usize, |item| {
            sum.fetch_add(item, Ordering::Relaxed);
        })
        .expect("not interrupted");
        assert_eq!(sum.load(Ordering::Relaxed), 499_500);
    }

    #[test]
    fn test_every_item_that_is_near_is_worked_once() {
        for count in [0, 1, 2, 3, 7, 1000] {
            let worked: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            for_each_near((0..count).collect(), |item| {
                worked[item].fetch_add(1, Ordering::Relaxed);
            })
            .expect("not interrupted");
            assert!(worked.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{count}");
        }
    }

    #[test]
    fn test_interrupt_stops_early() {
        let done = AtomicUsize::new(0);
        let result = with_interrupt_check(
            || true,
            || {
                for_each(0..10_000usize, |_| {
                    std::thread::sleep(Duration::from_millis(1));
                    done.fetch_add(1, Ordering::Relaxed);
                })
            },
        );
        assert_eq!(result, Err(Error::Interrupted));
        assert!(done.load(Ordering::Relaxed) < 1000);
    }

    #[test]
    fn test_interrupt_stops_a_call_of_many_short_splits() {
        let start = Instant::now();
        let result = with_interrupt_check(
            || true,
            || (0..10_000).try_for_each(|_| for_each(0..2usize, |_| std::thread::sleep(Duration::from_millis(1)))),
        );
        assert_eq!(result, Err(Error::Interrupted));
        assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn test_thread_counts_out_of_range_are_refused() {
        assert!(set_num_threads(0).is_err());
        assert!(set_num_threads(most_threads() + 1).is_err());
    }
}
