//! The one door of every export.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::status::{Fault, Result, Status, trn3_status};

thread_local! {
    /// How many exports this thread is inside of: callbacks may call back.
    static DEPTH: Cell<i32> = const { Cell::new(0) };
    /// The text of this thread's last failure.
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
    /// Where this thread's last panic inside an export happened.
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

static READY: Once = Once::new();

/// Runs what stands behind an export: in the default floating-point environment, the caller's restored afterwards, a
/// panic turned into [`Status::Internal`], a failure's text kept for trn3_last_error.
#[inline]
pub(crate) fn guard(work: impl FnOnce() -> Result<()>) -> trn3_status {
    if !READY.is_completed() {
        READY.call_once(prepare);
    }
    enter(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| trn3_numerics::with_default_environment(work)));
    enter(-1);
    match outcome {
        Ok(Ok(())) => Status::Ok as trn3_status,
        Ok(Err(fault)) => fail(fault),
        Err(payload) => fail(caught(payload.as_ref())),
    }
}

/// Counts this thread's exports; `set` of a thread-local key would look for a value to make first.
#[inline]
fn enter(step: i32) {
    DEPTH.with(|depth| depth.set(depth.get() + step));
}

/// What a caught panic is to the caller.
pub(crate) fn caught(payload: &(dyn Any + Send)) -> Fault {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned());
    let place = PANIC_PLACE.try_with(RefCell::take).unwrap_or_default();
    Fault::new(Status::Internal, format!("a defect of the library, please report it: {text} ({place})"))
}

#[cold]
fn fail(fault: Fault) -> trn3_status {
    // A thread that is ending may have no place for the text any more; the status is enough then.
    let _ = LAST_ERROR.try_with(|text| text.replace(fault.message));
    fault.status as trn3_status
}

/// Gives the text of this thread's last failure to use_text.
pub(crate) fn with_last_error<R>(use_text: impl FnOnce(&str) -> R) -> R {
    LAST_ERROR.with_borrow(|text| use_text(text))
}

/// What the library does once in a process: it keeps to the calling thread until it is asked for more, and panics inside
/// an export, which are reported by status, are not printed as well.
fn prepare() {
    // A host that wants a pool says so; this call makes none.
    let _ = trn3_numerics::set_num_threads(1);
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let of_pool = std::thread::current().name().is_some_and(|name| name.starts_with("trn3-"));
        if DEPTH.get() == 0 && !of_pool {
            return previous(info);
        }
        let place = info.location().map_or_else(String::new, ToString::to_string);
        let _ = PANIC_PLACE.try_with(|slot| slot.replace(place));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_panic_becomes_internal_with_its_text_and_place() {
        assert_eq!(guard(|| panic!("out of {}", "luck")), Status::Internal as trn3_status);
        with_last_error(|text| {
            assert!(text.contains("out of luck"), "{text}");
            assert!(text.contains("guard.rs"), "{text}");
        });
        assert_eq!(guard(|| Ok(())), Status::Ok as trn3_status);
        with_last_error(|text| assert!(text.contains("out of luck"), "a success leaves the text"));
    }

    #[test]
    fn test_failure_keeps_its_text_in_its_own_thread() {
        assert_eq!(guard(|| Err(Fault::value("no such thing"))), Status::Value as trn3_status);
        let elsewhere = std::thread::spawn(|| with_last_error(str::to_owned)).join().expect("joined");
        assert_eq!(elsewhere, "");
        with_last_error(|text| assert_eq!(text, "no such thing"));
    }
}
