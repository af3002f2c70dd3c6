//! RSVP: synchronous sends.
