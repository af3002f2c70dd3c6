//! A panic in a simulated stack is a finding, not the end of the simulator. Its text and place are
//! kept for the report instead of being printed.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics in this process are noted, not printed. For swarms, where a thousand seeds
/// may find the same one.
pub(crate) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            PLACE.with(|p| *p.borrow_mut() = place);
        }));
    });
}

/// What a caught panic said, and where it was if that was noted.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
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
