//! Waiting awake: splits that follow one another soon find the other threads looking for work, not asleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, Yield};

/// How long a thread without work looks for more before it sleeps. To wake one takes 10 to 20 us, in a guest of a
/// hypervisor up to 40: looking for that long at most doubles what is lost, and leaves the core to others soon.
const AWAKE: Duration = Duration::from_micros(50);

/// Pauses between two looks, some hundred nanoseconds.
const PAUSES: usize = 16;

/// Calls `look` until it says that something was found or [`AWAKE`] is over; whether something was found.
fn look_out(mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if look() {
            return true;
        }
        if start.elapsed() > AWAKE {
            return false;
        }
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        // On one core for both, what is waited for may be waiting for this.
        std::thread::yield_now();
    }
}

/// Waits until `is_over`, awake and not for long: the caller goes on to wait asleep.
pub(crate) fn wait(is_over: impl Fn() -> bool) {
    if look_out(is_over) {
        // Between the last store of a thread's part and its end in the scope are a few instructions more.
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

/// The threads beside the calling one.
pub(crate) struct Workers {
    pub(crate) pool: ThreadPool,
    /// How many of them look out for work, or are about to.
    awake: Arc<AtomicUsize>,
}

impl Workers {
    pub(crate) fn new(pool: ThreadPool) -> Self {
        Self { pool, awake: Arc::default() }
    }

    /// So many of the threads look out for work from here on, until there was none for a while.
    pub(crate) fn stay_awake(&self, count: usize) {
        let one_more = |awake: usize| (awake < count).then_some(awake + 1);
        while self.awake.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
            let awake = self.awake.clone();
            self.pool.spawn(move || {
                while look_out(|| rayon::yield_now() == Some(Yield::Executed)) {}
                awake.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}
