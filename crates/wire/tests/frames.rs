//! Packets: what the sender's fast path writes, what a receiver makes of lists, and how they look.

use bytes::{Bytes, BytesMut};
use rgroups_wire::header::{NakAckHeader, Rtt, TpHeader};
use rgroups_wire::{
    Address, Body, DecodeErrorKind, Digest, Encode, Flags, Frame, FrameBody, FrameWriter, Header,
    MAX_MESSAGES, Message, Object, ProtId, SeqnoList, Uuid, Value, Version, show_frame,
};

fn member(n: u64) -> Address {
    Uuid::new(n << 32, n).into()
}

fn message(seqno: i64, src: u64, text: &'static str) -> Message {
    let mut m = Message::multicast(Body::bytes(text))
        .with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(seqno)))
        .with_header(
            ProtId::TP,
            Header::Tp(TpHeader { cluster: Some(Bytes::from_static(b"demo")), rtt: Rtt::None }),
        );
    m.src = Some(member(src));
    m
}

fn list(messages: Vec<Message>) -> Frame {
    Frame {
        version: Version::OURS,
        multicast: true,
        body: FrameBody::List {
            dest: None,
            src: Some(member(1)),
            cluster: Some(Bytes::from_static(b"demo")),
            messages,
        },
    }
}

#[test]
fn the_fast_path_writes_what_a_frame_encodes_to() {
    let messages = vec![message(1, 1, "one"), message(2, 2, "two")];
    let (src, mut fast) = (member(1), BytesMut::new());
    let writer = FrameWriter::new(None, &src, b"demo");
    writer.encode_list(&messages, &mut fast);
    let length =
        writer.list_start_len() + messages.iter().map(|m| writer.listed_len(m)).sum::<usize>();
    assert_eq!(length, fast.len());
    assert_eq!(fast, list(messages).to_bytes());

    let one = message(3, 1, "three");
    let mut fast = BytesMut::new();
    writer.encode_single(&one, &mut fast);
    assert_eq!(writer.single_len(&one), fast.len());
    let frame = Frame { version: Version::OURS, multicast: true, body: FrameBody::Single(one) };
    assert_eq!(fast, frame.to_bytes());
}

#[test]
fn messages_of_a_list_take_its_addresses_unless_they_name_their_source() {
    let mut frame = list(vec![message(1, 1, "one"), message(2, 2, "two")]);
    let FrameBody::List { dest, .. } = &mut frame.body else { unreachable!() };
    *dest = Some(member(9));
    let decoded = Frame::decode(frame.to_bytes()).unwrap();
    let [first, second] = decoded.messages() else { panic!("two messages") };
    assert_eq!((&first.dest, &first.src), (&Some(member(9)), &Some(member(1))));
    assert_eq!((&second.dest, &second.src), (&Some(member(9)), &Some(member(2))));
}

#[test]
fn a_message_of_a_list_cannot_claim_another_destination() {
    let mut out = BytesMut::new();
    let src = member(1);
    let writer = FrameWriter::new(None, &src, b"demo");
    writer.encode_list(&[], &mut out);
    let count = out.len() - 1;
    out[count] = 1;
    let claims = Message { dest: Some(member(7)), ..message(1, 1, "one") };
    claims.encode(&mut out);
    let decoded = Frame::decode(out.freeze()).unwrap();
    assert_eq!(decoded.messages()[0].dest, None);
}

#[test]
fn payloads_are_slices_of_the_packet() {
    let bytes = list(vec![message(1, 1, "one")]).to_bytes();
    let decoded = Frame::decode(bytes.clone()).unwrap();
    let payload = decoded.messages()[0].body.as_bytes().unwrap().as_ptr();
    assert!(bytes.as_ptr_range().contains(&payload));
}

#[test]
fn an_incompatible_version_is_told_before_anything_else() {
    let packet = Bytes::from_static(&[0x20, 0x00, 0xff]);
    let error = Frame::decode(packet).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Version(0x2000));
    assert_eq!(error.to_string(), "packet: version 4.0.0 is not compatible");
}

#[test]
fn messages_nest_to_the_limit_and_not_deeper() {
    let nested = |levels: usize| {
        let inner = (0..levels)
            .fold(Message::default(), |m, _| Message::multicast(Body::Composite(vec![m])));
        let body = FrameBody::Single(inner);
        Frame { version: Version::OURS, multicast: true, body }.to_bytes()
    };
    let limit = usize::from(rgroups_wire::reader::MAX_DEPTH);
    assert!(Frame::decode(nested(limit)).is_ok());
    let error = Frame::decode(nested(limit + 1)).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TooDeep);
}

#[test]
fn a_user_message_is_readable_alone_and_not_in_a_list() {
    let user = Message::multicast(Body::User(40, Bytes::from_static(b"mine")));
    let single =
        Frame { version: Version::OURS, multicast: true, body: FrameBody::Single(user.clone()) };
    assert_eq!(Frame::decode(single.to_bytes()), Ok(single));
    let error = Frame::decode(list(vec![user]).to_bytes()).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::BadTag(40));
}

#[test]
fn lengths_are_those_that_java_counts() {
    let length = |body| Message::multicast(body).length();
    assert_eq!(length(Body::Empty), 0);
    assert_eq!(length(Body::Bytes(None)), 0);
    assert_eq!(length(Body::bytes("hello")), 5);
    assert_eq!(length(Body::Long(123_456)), 4);
    assert_eq!(length(Body::Object(None)), 1);
    assert_eq!(length(Body::object(Object::Primitive(Value::Str("hello".into())))), 3 + 11);
    assert_eq!(length(Body::object(Object::Primitive(Value::Int(42)))), 3 + 5);
    assert_eq!(length(Body::object(Object::SeqnoList(SeqnoList::new(1, 65)))), 3 + 12 + 16);
    let digest = Digest { entries: vec![(member(1), Default::default())] };
    assert_eq!(length(Body::object(Object::Digest { mutable: true, digest })), 3 + 2 + 17 + 1);
    let two = vec![Message::multicast(Body::bytes("one")), Message::multicast(Body::bytes("four"))];
    assert_eq!(length(Body::Composite(two)), 7);
}

#[test]
fn a_packet_is_shown_as_a_tree_with_hostile_text_escaped() {
    let mut m = message(12, 1, "ab\u{1b}[31m");
    m.flags = Flags::NO_FC | Flags::OOB | Flags::from_bits_retain(0x200);
    assert_eq!(m.to_string(), "00000001 → <all> NAKACK2:MSG#12 TP:demo [OOB|NO_FC|0x0200] 7 bytes");
    let text = show_frame(&list(vec![m]));
    println!("{text}");
    for part in ["version=5.5.6", "cluster: \"demo\"", "NAKACK2:MSG#12", "61 62 1b 5b", "ab.[31m"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
}

/// Empty messages take seven bytes each: what a large frame could hold of them would occupy every
/// protocol for seconds.
#[test]
fn a_packet_holds_so_many_messages_and_not_one_more() {
    let packet = |n: usize| list(vec![Message::default(); n]).to_bytes();
    assert_eq!(Frame::decode(packet(MAX_MESSAGES)).map(|f| f.messages().len()), Ok(MAX_MESSAGES));
    let error = Frame::decode(packet(MAX_MESSAGES + 1)).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TooLong(MAX_MESSAGES as u64 + 1));
    let half = Message::multicast(Body::Composite(vec![Message::default(); MAX_MESSAGES / 2]));
    let nested = list(vec![half.clone(), half]).to_bytes();
    assert!(Frame::decode(nested).is_err(), "those within messages count");
}
