//! A whole cluster on one simulated clock, from one seed.
pub mod addresses;
pub mod agenda;
pub mod connections;
pub mod filter;
mod filter_stream;
pub mod headers;
pub mod history;
pub mod network;
pub mod oracle;
pub mod payload;
pub mod transcript;
