//! A panic in a simulated stack is a finding, not the end of the simulator. Its text and place are
//! kept for the report instead of being printed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    static IN_A_STACK: Cell<bool> = const { Cell::new(false) };
}

/// From now on panics in simulated stacks are noted, not printed. For swarms, where a thousand seeds
/// may find the same one. All others are printed as before.
pub(crate) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if IN_A_STACK.get() {
                let place = info.location().map(ToString::to_string);
                PLACE.with(|p| *p.borrow_mut() = place);
            } else {
                before(info);
            }
        }));
    });
}

/// Runs a part of a stack; the error is what its panic said, and where it was if that was noted.
pub(crate) fn guarded(f: impl FnOnce()) -> Result<(), String> {
    IN_A_STACK.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    IN_A_STACK.set(false);
    result.map_err(|panic| text_of(panic.as_ref()))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a text".to_owned());
    match PLACE.with(|p| p.borrow_mut().take()) {
        Some(place) => format!("{text} ({place})"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_of_a_stack_is_noted_and_others_are_not() {
        silence();
        let text = guarded(|| panic!("wrong")).expect_err("it panics");
        assert!(text.starts_with("wrong (") && text.contains("panics.rs"), "{text}");
        let outside = catch_unwind(|| panic!("a failing test")).expect_err("it panics");
        assert_eq!(text_of(outside.as_ref()), "a failing test");
    }
}
