//! The JGroups 5.5 wire format.
//!
//! This crate says what bytes mean and nothing else: it has no clock, no socket and no protocol
//! logic. Values own no copy of their encoding; a decoded payload is a slice of the buffer it came
//! from. Input from a peer never panics and never allocates more than its own bytes justify.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod digest;
pub mod error;
pub mod flags;
pub mod frame;
pub mod header;
pub mod headers;
pub mod ids;
pub mod message;
pub mod object;
pub mod ping;
pub mod primitive;
pub mod reader;
pub mod tcp;
pub mod version;
pub mod view;
pub mod writer;

pub use address::{Address, IpAddress, Uuid};
pub use digest::{Digest, RefDigest, SeqnoList, SeqnoPair};
pub use error::{DecodeError, DecodeErrorKind};
pub use flags::{Flags, Hints};
pub use frame::{Frame, FrameBody};
pub use header::Header;
pub use headers::Headers;
pub use ids::ProtId;
pub use message::{Body, Message};
pub use object::{Object, Value};
pub use ping::PingData;
pub use reader::{Decoded, Reader};
pub use version::Version;
pub use view::{DeltaView, MergeId, View, ViewId};
pub use writer::{Counter, Decode, Encode, Writer};
