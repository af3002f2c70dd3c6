//! Fault layers: DISCARD drops, DELAY delays.
