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
pub mod address_codec;
pub mod changes;
pub mod counter;
pub mod digest;
pub mod error;
pub mod exception;
pub mod flags;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
pub mod headers;
pub mod ids;
pub mod java_map;
mod java_stream;
pub mod join_rsp;
pub mod layout;
pub mod message;
mod message_codec;
pub mod method_call;
pub mod mping;
pub mod object;
mod object_codec;
pub mod ping;
pub mod primitive;
pub mod reader;
pub mod row;
pub mod show;
pub mod stable_payload;
pub mod tcp;
pub mod throwable;
mod value_codec;
pub mod version;
pub mod view;
pub mod view_digest;
pub mod writer;

pub use address::{Address, IpAddress, Uuid};
pub use changes::Changes;
pub use counter::{CounterAsk, CounterOwner, CounterPayload, NamedCounter};
pub use digest::{Digest, RefDigest, SeqnoList, SeqnoPair};
pub use error::{DecodeError, DecodeErrorKind};
pub use exception::Exception;
pub use flags::{Flags, Hints};
pub use frame::{Frame, FrameBody, FrameWriter};
pub use header::Header;
pub use headers::Headers;
pub use ids::ProtId;
pub use join_rsp::JoinRsp;
pub use message::{Body, Message};
pub use method_call::{Method, MethodCall};
pub use object::{Object, Value};
pub use ping::PingData;
pub use primitive::WriteExt;
pub use reader::{Decoded, MAX_MESSAGES, Reader};
pub use row::RowStart;
pub use show::show_frame;
pub use stable_payload::{StablePayload, StablePayloadKind};
pub use version::Version;
pub use view::{DeltaView, MergeId, View, ViewId};
pub use view_digest::{DigestKind, ViewDigest, ViewKind};
pub use writer::{Counter, Decode, Encode, Writer};
