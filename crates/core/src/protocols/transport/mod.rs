//! The transport: bundles messages into frames, routes them, loops copies back, knows addresses.
