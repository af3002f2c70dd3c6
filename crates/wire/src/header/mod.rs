//! Headers: what each protocol adds to a message. One enum over everything JGroups 5.5 defines
//! (headers have no length on the wire, so an unknown one makes the rest of a frame unreadable).
//!
//! A header travels as i16 magic id (its class) and the body of that class; the i16 protocol id in
//! front of them belongs to the message. One file per protocol holds the types and their layouts.

mod auth;
pub mod class;
mod compress;
mod correlator;
mod encrypt;
mod fc;
mod fd_sock;
mod frag;
mod gms;
mod kinds;
mod label;
mod merge3;
mod nakack;
mod ping;
mod relay;
mod rsvp;
mod sequencer;
mod small;
mod stable;
mod state;
mod tp;
mod unicast;
mod verify;

pub use auth::AuthToken;
pub use compress::CompressHeader;
pub use correlator::{CorrelatorHeader, CorrelatorKind};
pub use encrypt::{DhHeader, EncryptHeader, EncryptKind};
pub use fc::FcHeader;
pub use fd_sock::{FdSock2Header, FdSock2Kind, FdSockHeader};
pub use frag::{Frag3Header, FragHeader};
pub use gms::{GmsHeader, GmsKind};
pub use label::Label;
pub use merge3::Merge3Header;
pub use nakack::NakAckHeader;
pub use ping::{PingHeader, PingKind};
pub use relay::RelayHeader;
pub use rsvp::{RsvpHeader, RsvpKind};
pub use sequencer::{Sequencer2Header, SequencerHeader, SequencerKind};
pub use small::{DaisyHeader, ForkHeader, InfoHeader};
pub use stable::{StableHeader, StableKind};
pub use state::{StateTransferHeader, StateTransferKind, StreamingHeader, StreamingKind};
pub use tp::{Rtt, TpHeader};
pub use unicast::UnicastHeader;
pub use verify::{VerifyHeader, VerifyKind};

use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, ProtId, Reader, Writer};
use alloc::boxed::Box;

/// A header. Which magic id it has on the wire follows from the variant, and for headers that two
/// classes share a body for, from the protocol id beside it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Header {
    /// Magic 60: the cluster a message belongs to.
    Tp(TpHeader),
    /// Magic 53: discovery.
    Ping(PingHeader),
    /// Magic 75.
    Merge3(Box<Merge3Header>),
    /// Magic 51.
    FdSock(Box<FdSockHeader>),
    /// Magic 93.
    FdSock2(Box<FdSock2Header>),
    /// Magic 62.
    Heartbeat,
    /// Magic 54 (VERIFY_SUSPECT) or 94 (VERIFY_SUSPECT2), by protocol id.
    Verify(VerifyHeader),
    /// Magic 78 (NAKACK2) or 99 (NAKACK3, NAKACK4), by protocol id.
    NakAck(NakAckHeader),
    /// Magic 82 (UNICAST3) or 100 (UNICAST4), by protocol id.
    Unicast(UnicastHeader),
    /// Magic 56.
    Stable(StableHeader),
    /// Magic 55.
    Gms(Box<GmsHeader>),
    /// Magic 59: MFC and UFC.
    Fc(FcHeader),
    /// Magic 52: FRAG2 and FRAG4.
    Frag(FragHeader),
    /// Magic 91.
    Frag3(Box<Frag3Header>),
    /// Magic 76.
    Rsvp(RsvpHeader),
    /// Magic 57.
    StateTransfer(Box<StateTransferHeader>),
    /// Magic 65: STATE and STATE_SOCK.
    Streaming(Box<StreamingHeader>),
    /// Magic 61.
    Sequencer(SequencerHeader),
    /// Magic 86.
    Sequencer2(Sequencer2Header),
    /// Magic 58.
    Compress(CompressHeader),
    /// Magic 96, no body.
    Batch2,
    /// Magic 66; `None`: no token.
    Auth(Option<Box<AuthToken>>),
    /// Magic 67, or 68 with excluded members.
    Correlator(CorrelatorHeader),
    /// Magic 69.
    Daisy(Box<DaisyHeader>),
    /// Magic 74, no body: COUNTER, whose payload says all.
    Counter,
    /// Magic 80: RELAY2 and RELAY3.
    Relay(Box<RelayHeader>),
    /// Magic 83.
    Fork(Box<ForkHeader>),
    /// Magic 84: start time of a measurement.
    Perf(i64),
    /// Magic 88: SYM_ENCRYPT and ASYM_ENCRYPT.
    Encrypt(Box<EncryptHeader>),
    /// Magic 92.
    Dh(Box<DhHeader>),
    /// Magic 97: the eight times of a round trip.
    RoundTrip(Box<[i64; 8]>),
    /// Magic 101.
    Info(InfoHeader),
}

impl Header {
    /// The magic id of the class that protocol `prot` uses for this header.
    #[must_use]
    pub fn magic(&self, prot: ProtId) -> i16 {
        match self {
            Header::FdSock(_) => class::FD_SOCK,
            Header::Frag(_) => class::FRAG,
            Header::Ping(_) => class::PING,
            Header::Verify(_) if prot == ProtId::VERIFY_SUSPECT => class::VERIFY_SUSPECT,
            Header::Gms(_) => class::GMS,
            Header::Stable(_) => class::STABLE,
            Header::StateTransfer(_) => class::STATE_TRANSFER,
            Header::Compress(_) => class::COMPRESS,
            Header::Fc(_) => class::FLOW_CONTROL,
            Header::Tp(_) => class::TP,
            Header::Sequencer(_) => class::SEQUENCER,
            Header::Heartbeat => class::HEARTBEAT,
            Header::Streaming(_) => class::STREAMING_STATE,
            Header::Auth(_) => class::AUTH,
            Header::Correlator(h) if h.excluded.is_none() => class::CORRELATOR,
            Header::Correlator(_) => class::CORRELATOR_EXCLUDING,
            Header::Daisy(_) => class::DAISYCHAIN,
            Header::Counter => class::COUNTER,
            Header::Merge3(_) => class::MERGE3,
            Header::Rsvp(_) => class::RSVP,
            Header::NakAck(_) if prot == ProtId::NAKACK2 => class::NAKACK2,
            Header::Relay(_) => class::RELAY,
            Header::Unicast(_) if prot == ProtId::UNICAST3 => class::UNICAST3,
            Header::Fork(_) => class::FORK,
            Header::Perf(_) => class::PERF,
            Header::Sequencer2(_) => class::SEQUENCER2,
            Header::Encrypt(_) => class::ENCRYPT,
            Header::Frag3(_) => class::FRAG3,
            Header::Dh(_) => class::DH_KEY_EXCHANGE,
            Header::FdSock2(_) => class::FD_SOCK2,
            Header::Verify(_) => class::VERIFY_SUSPECT2,
            Header::Batch2 => class::BATCH2,
            Header::RoundTrip(_) => class::ROUND_TRIP,
            Header::NakAck(_) => class::NAKACK4,
            Header::Unicast(_) => class::UNICAST4,
            Header::Info(_) => class::INFO,
        }
    }

    /// Writes the magic id and the body, as a header of protocol `prot`.
    pub fn encode(&self, prot: ProtId, w: &mut impl Writer) {
        w.i16(self.magic(prot));
        match self {
            Header::Tp(h) => h.encode(w),
            Header::Ping(h) => h.encode(w),
            Header::Merge3(h) => h.encode(w),
            Header::FdSock(h) => h.encode(w),
            Header::FdSock2(h) => h.encode(w),
            Header::Verify(h) => h.encode(w),
            Header::NakAck(h) => h.encode(w),
            Header::Unicast(h) => h.encode(w),
            Header::Stable(h) => h.encode(w),
            Header::Gms(h) => h.encode(w),
            Header::Fc(h) => h.encode(w),
            Header::Frag(h) => h.encode(w),
            Header::Frag3(h) => h.encode(w),
            Header::Rsvp(h) => h.encode(w),
            Header::StateTransfer(h) => h.encode(w),
            Header::Streaming(h) => h.encode(w),
            Header::Sequencer(h) => h.encode(w),
            Header::Sequencer2(h) => h.encode(w),
            Header::Compress(h) => h.encode(w),
            Header::Auth(h) => w.opt(h.as_deref()),
            Header::Correlator(h) => h.encode(w),
            Header::Daisy(h) => h.encode(w),
            Header::Relay(h) => h.encode(w),
            Header::Fork(h) => h.encode(w),
            Header::Perf(start) => w.i64(*start),
            Header::Encrypt(h) => h.encode(w),
            Header::Dh(h) => h.encode(w),
            Header::RoundTrip(times) => times.iter().for_each(|t| w.i64(*t)),
            Header::Info(h) => h.encode(w),
            Header::Heartbeat | Header::Batch2 | Header::Counter => {}
        }
    }

    /// Reads the body of the class `magic`. The protocol that owns the header does not matter for
    /// its layout; an unknown class leaves everything behind it unreadable.
    pub fn decode(prot: ProtId, magic: i16, r: &mut Reader) -> Decoded<Self> {
        let what = prot.name().unwrap_or("header");
        Ok(match magic {
            class::FD_SOCK => Header::FdSock(Box::new(Decode::decode(r)?)),
            class::FRAG => Header::Frag(Decode::decode(r)?),
            class::PING => Header::Ping(Decode::decode(r)?),
            class::VERIFY_SUSPECT | class::VERIFY_SUSPECT2 => Header::Verify(Decode::decode(r)?),
            class::GMS => Header::Gms(Box::new(Decode::decode(r)?)),
            class::STABLE => Header::Stable(Decode::decode(r)?),
            class::STATE_TRANSFER => Header::StateTransfer(Box::new(Decode::decode(r)?)),
            class::COMPRESS => Header::Compress(Decode::decode(r)?),
            class::FLOW_CONTROL => Header::Fc(Decode::decode(r)?),
            class::TP => Header::Tp(Decode::decode(r)?),
            class::SEQUENCER => Header::Sequencer(Decode::decode(r)?),
            class::HEARTBEAT => Header::Heartbeat,
            class::STREAMING_STATE => Header::Streaming(Box::new(Decode::decode(r)?)),
            class::AUTH => Header::Auth(r.opt("AUTH token")?.map(Box::new)),
            class::CORRELATOR | class::CORRELATOR_EXCLUDING => Header::Correlator(
                CorrelatorHeader::decode(magic == class::CORRELATOR_EXCLUDING, r)?,
            ),
            class::DAISYCHAIN => Header::Daisy(Box::new(Decode::decode(r)?)),
            class::COUNTER => Header::Counter,
            class::MERGE3 => Header::Merge3(Box::new(Decode::decode(r)?)),
            class::RSVP => Header::Rsvp(Decode::decode(r)?),
            class::NAKACK2 | class::NAKACK4 => Header::NakAck(Decode::decode(r)?),
            class::RELAY => Header::Relay(Box::new(Decode::decode(r)?)),
            class::FORK => Header::Fork(Box::new(Decode::decode(r)?)),
            class::PERF => Header::Perf(r.i64("start time")?),
            class::ENCRYPT => Header::Encrypt(Box::new(Decode::decode(r)?)),
            class::DH_KEY_EXCHANGE => Header::Dh(Box::new(Decode::decode(r)?)),
            class::ROUND_TRIP => {
                let mut times = Box::new([0; 8]);
                for t in times.iter_mut() {
                    *t = r.i64("round trip time")?;
                }
                Header::RoundTrip(times)
            }
            class::INFO => Header::Info(Decode::decode(r)?),
            class::UNICAST3 | class::UNICAST4 => Header::Unicast(Decode::decode(r)?),
            class::SEQUENCER2 => Header::Sequencer2(Decode::decode(r)?),
            class::FRAG3 => Header::Frag3(Box::new(Decode::decode(r)?)),
            class::FD_SOCK2 => Header::FdSock2(Box::new(Decode::decode(r)?)),
            class::BATCH2 => Header::Batch2,
            n => return Err(r.error(what, DecodeErrorKind::UnknownHeader(n))),
        })
    }
}
