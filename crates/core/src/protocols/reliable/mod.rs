//! Reliable multicast and unicast: one window and retransmission engine, several dialects.
