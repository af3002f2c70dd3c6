//! Rows: the bytes are those of a list of messages, and whatever is not exactly a row is none.
#![allow(clippy::unwrap_used, reason = "the packets are made here")]

use bytes::{Bytes, BytesMut};
use rgroups_wire::header::{NakAckHeader, Rtt, TpHeader};
use rgroups_wire::{
    Address, Body, Encode, Flags, Frame, FrameBody, Header, Message, ProtId, RowStart, Uuid,
    Version, fuzzing,
};

const FROM: Uuid = Uuid::new(7 << 32, 7);
const DEMO: Bytes = Bytes::from_static(b"demo");

fn start(prot: ProtId, first: i64) -> RowStart {
    RowStart { src: FROM, cluster: DEMO, prot, first }
}

fn payloads(n: usize) -> Vec<Bytes> {
    (0..n).map(|i| Bytes::from(vec![i as u8; 1 + i * 7])).collect()
}

fn message(prot: ProtId, number: i64, payload: Bytes) -> Message {
    let tp = TpHeader { cluster: Some(DEMO), rtt: Rtt::None };
    let m = Message::multicast(Body::bytes(payload))
        .with_header(prot, Header::NakAck(NakAckHeader::Msg(number)))
        .with_header(ProtId::TP, Header::Tp(tp));
    Message { src: Some(FROM.into()), ..m }
}

fn list(prot: ProtId, first: i64, n: usize) -> Vec<Message> {
    let numbered = payloads(n).into_iter().zip(first..);
    numbered.map(|(p, number)| message(prot, number, p)).collect()
}

fn packet(messages: Vec<Message>) -> Bytes {
    let body =
        FrameBody::List { dest: None, src: Some(FROM.into()), cluster: Some(DEMO), messages };
    Frame { version: Version::OURS, multicast: true, body }.to_bytes()
}

#[test]
fn a_row_is_written_as_the_list_of_its_messages_and_read_from_it() {
    // Numbers around each change of their encoded length, and the ids of all dialects.
    for first in [1, 250, 65_530, (1 << 31) - 5, i64::MAX - 30] {
        for prot in [ProtId::NAKACK2, ProtId::NAKACK4] {
            let bytes = packet(list(prot, first, 20));
            let row = start(prot, first);
            let mut written = BytesMut::new();
            row.encode(&payloads(20), &mut written);
            assert_eq!(written, bytes);
            let each = payloads(20).into_iter().zip(first..);
            let length = each.map(|(p, n)| row.listed_len(n, p.len())).sum::<usize>();
            assert_eq!(row.list_start_len() + length, bytes.len());
            assert_eq!(RowStart::decode(&bytes), Some((row, payloads(20))));
            fuzzing::frame(&bytes);
        }
    }
}

#[test]
fn what_is_not_exactly_a_row_is_none() {
    let with = |change: &dyn Fn(&mut Vec<Message>)| {
        let mut messages = list(ProtId::NAKACK2, 10, 5);
        change(&mut messages);
        packet(messages)
    };
    let foreign = TpHeader { cluster: Some(Bytes::from_static(b"else")), rtt: Rtt::None };
    let probe = TpHeader { cluster: Some(DEMO), rtt: Rtt::Request(1) };
    let tp = |h: &TpHeader| Header::Tp(h.clone());
    let resent = Header::NakAck(NakAckHeader::XmitRsp(12));
    let others: [(&str, Bytes); 12] = [
        ("a gap", with(&|m| drop(m.remove(2)))),
        ("flags", with(&|m| m[2].flags = Flags::OOB)),
        ("another sender", with(&|m| m[2].src = Some(Uuid::new(1, 1).into()))),
        ("no payload", with(&|m| m[2].body = Body::bytes(Bytes::new()))),
        ("null", with(&|m| m[2].body = Body::Bytes(None))),
        ("another type", with(&|m| m[2].body = Body::Empty)),
        ("another cluster", with(&|m| m[2].headers.put(ProtId::TP, tp(&foreign)))),
        ("a probe", with(&|m| m[2].headers.put(ProtId::TP, tp(&probe)))),
        ("sent again", with(&|m| m[2].headers.put(ProtId::NAKACK2, resent.clone()))),
        ("a header more", with(&|m| m[2].headers.put(ProtId::RSVP, Header::Heartbeat))),
        ("another dialect", with(&|m| m[2] = message(ProtId::NAKACK4, 12, Bytes::from("x")))),
        ("nothing", with(&|m| m.clear())),
    ];
    for (what, bytes) in others {
        assert_eq!(RowStart::decode(&bytes), None, "{what}");
        assert!(Frame::decode(bytes).is_ok(), "{what}");
    }
    let to_one = FrameBody::List {
        dest: Some(Address::Uuid(FROM)),
        src: Some(FROM.into()),
        cluster: Some(DEMO),
        messages: list(ProtId::NAKACK2, 1, 3),
    };
    let to_one = Frame { version: Version::OURS, multicast: false, body: to_one }.to_bytes();
    assert_eq!(RowStart::decode(&to_one), None);
}

#[test]
fn a_row_that_is_cut_or_followed_by_something_is_none() {
    let bytes = packet(list(ProtId::NAKACK2, 300, 4));
    for n in 0..bytes.len() {
        assert_eq!(RowStart::decode(&bytes.slice(..n)), None, "cut at {n}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(RowStart::decode(&longer.into()), None);
}

#[test]
fn damage_to_a_row_never_makes_it_something_that_a_frame_is_not() {
    let bytes = packet(list(ProtId::NAKACK2, 300, 4));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << bit;
            fuzzing::frame(&damaged);
        }
    }
}
