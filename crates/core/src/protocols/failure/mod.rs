//! Failure detection: heartbeats, monitored connections, verification of suspects.
