//! Rows: packets of multicasts that differ in payload and number alone, and whose numbers follow each
//! other. That is what a busy sender fills its packets with, and what costs most per message if each
//! is built and taken apart by itself. The bytes are those of any other list of messages
//! ([`crate::Frame`]); whatever is not exactly of this form is no row.

use crate::address_codec::{decode_addr, encode_addr};
use crate::header::NakAckHeader;
use crate::header::class;
use crate::primitive::WriteExt;
use crate::{Address, Counter, Header, MAX_MESSAGES, ProtId, Reader, Uuid, Version, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

/// What all messages of a row have in common but their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowStart {
    /// The sender.
    pub src: Uuid,
    /// The cluster's name, of the list and of every message.
    pub cluster: Bytes,
    /// Whose header carries the numbers.
    pub prot: ProtId,
    /// The number of the first message.
    pub first: i64,
}

/// The packet flags of a list to the group.
const LIST_TO_GROUP: u8 = 3;
/// Type id, leading byte, flags, number of headers, protocol and class of the first header, and its
/// kind.
const HEAD: usize = 12;
/// Room for that of a message which is not its payload, if the cluster's name is short.
const LIKELY: usize = 40;

/// The bytes of every message in front of its number.
fn head(prot: ProtId) -> [u8; HEAD] {
    let magic = Header::NakAck(NakAckHeader::Msg(0)).magic(prot);
    let ([p0, p1], [m0, m1]) = (prot.0.to_be_bytes(), magic.to_be_bytes());
    [0, 0, 0, 0, 0, 0, 2, p0, p1, m0, m1, 1]
}

/// The bytes between number and payload: the transport's header.
fn middle(cluster: &[u8]) -> Vec<u8> {
    let mut w = Vec::with_capacity(8 + cluster.len());
    w.i16(ProtId::TP.0);
    w.i16(class::TP);
    w.astr(Some(cluster));
    w.u8(0);
    w
}

/// How many bytes a number takes.
fn number_len(n: i64) -> usize {
    let mut len = Counter::default();
    len.clong(n);
    len.0
}

impl RowStart {
    /// How many bytes of a packet come before the first message.
    #[must_use]
    pub fn list_start_len(&self) -> usize {
        let mut n = Counter::default();
        self.encode_list_start(0, &mut n);
        n.0
    }

    /// How many bytes a message with this number and payload length takes.
    #[must_use]
    pub fn listed_len(&self, number: i64, payload: usize) -> usize {
        HEAD + number_len(number) + 7 + self.cluster.len() + 4 + payload
    }

    fn encode_list_start(&self, count: usize, w: &mut impl Writer) {
        w.u16(Version::OURS.0);
        w.u8(LIST_TO_GROUP);
        encode_addr(None, w);
        encode_addr(Some(&Address::Uuid(self.src)), w);
        w.astr(Some(&self.cluster));
        w.i32(count as i32);
    }

    /// Appends the packet with these payloads.
    pub fn encode(&self, payloads: &[Bytes], w: &mut impl Writer) {
        self.encode_list_start(payloads.len(), w);
        let (head, middle) = (head(self.prot), middle(&self.cluster));
        let mut number = self.first;
        for payload in payloads {
            w.put(&head);
            w.clong(number);
            w.put(&middle);
            w.i32(payload.len() as i32);
            w.put_shared(payload);
            number = number.wrapping_add(1);
        }
    }

    /// Reads a packet that is a row of non-empty payloads and nothing else. `None`: it is something
    /// else, perhaps nothing at all; [`crate::Frame::decode`] says what. Payloads are slices of `packet`.
    #[must_use]
    pub fn decode(packet: &Bytes) -> Option<(RowStart, Vec<Bytes>)> {
        if packet.first_chunk()? != &start_of_list() {
            return None;
        }
        let mut r = Reader::new(packet.slice(3..));
        let (None, Address::Uuid(src)) = (decode_addr(&mut r).ok()?, decode_addr(&mut r).ok()??)
        else {
            return None;
        };
        let cluster = r.astr("cluster name").ok()??;
        let count = usize::try_from(r.i32("message list").ok()?).ok()?;
        let mut at = 3 + r.position();
        let rest = packet.len() - at;
        if count == 0 || count > MAX_MESSAGES || count > rest / (HEAD + 12) {
            return None;
        }
        let prot = ProtId(i16::from_be_bytes(*packet.get(at + 7..)?.first_chunk()?));
        let (head, middle) = (head(prot), middle(&cluster));
        let mut payloads = Vec::with_capacity(count.min(8 + rest / LIKELY));
        let mut first = None;
        for _ in 0..count {
            let m = packet[at..].strip_prefix(&head)?;
            let (number, m) = number(m)?;
            let expected = first.get_or_insert(number);
            if number != expected.wrapping_add(payloads.len() as i64) {
                return None;
            }
            let m = m.strip_prefix(middle.as_slice())?;
            let (len, m) = m.split_first_chunk()?;
            let len = usize::try_from(i32::from_be_bytes(*len)).ok()?;
            if len == 0 || len > m.len() {
                return None;
            }
            let begins = packet.len() - m.len();
            at = begins + len;
            payloads.push(packet.slice(begins..at));
        }
        (at == packet.len()).then_some(())?;
        Some((RowStart { src, cluster, prot, first: first? }, payloads))
    }
}

fn start_of_list() -> [u8; 3] {
    let [v0, v1] = Version::OURS.0.to_be_bytes();
    [v0, v1, LIST_TO_GROUP]
}

/// A compressed number, and what follows it.
fn number(m: &[u8]) -> Option<(i64, &[u8])> {
    let (n, m) = m.split_first()?;
    let n = usize::from(*n);
    let mut v = [0; 8];
    v.get_mut(..n)?.copy_from_slice(m.get(..n)?);
    Some((i64::from_le_bytes(v), &m[n..]))
}
