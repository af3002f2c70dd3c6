//! Capture files: pcap and pcapng, any byte order. Memory stays at one block of the file.

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use std::io::Read;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'a> {
    /// From 1, as other tools number them.
    pub(crate) number: u64,
    /// Since 1970; `None` where the file does not tell.
    pub(crate) time: Option<Stamp>,
    /// What the bytes start with: a number of the list at tcpdump.org/linktypes.html.
    pub(crate) link: i32,
    pub(crate) data: &'a [u8],
    /// How long it was before the capture cut it.
    pub(crate) original: usize,
}

/// A point in time: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) secs: u64,
    pub(crate) nanos: u32,
}

/// Why a file cannot be read on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// Offset in the file.
    pub(crate) at: usize,
    pub(crate) why: String,
}

/// The first capacity of the buffer.
const CAPACITY: usize = 1 << 16;
/// No packet has a record larger than this; a length above it is garbage.
const MAX_BLOCK: usize = 1 << 26;

const MIDDLE: &str = "it ends in the middle of a record";

/// What the reader has.
enum Next {
    /// A record of this size.
    Record(usize),
    /// A part of one: more must be read.
    More,
}

/// How the times of one interface are written.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: i32,
    offset: i64,
    per_second: u64,
    snaplen: usize,
}

/// Whether these are the first bytes of a capture file.
pub(crate) fn is_capture(start: &[u8]) -> bool {
    const MAGICS: [[u8; 4]; 6] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x34, 0xcd, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    MAGICS.iter().any(|m| start.starts_with(m))
}

/// Hands every packet to `each`. What was read before an error has been handed over.
pub(crate) fn read(
    file: impl Read + Send,
    mut each: impl FnMut(Captured<'_>),
) -> Result<(), Unreadable> {
    let fail = |at, why: &str| Err(Unreadable { at, why: why.to_owned() });
    let mut reader = match create_reader(CAPACITY, file) {
        Ok(r) => r,
        Err(PcapError::Eof) => return fail(0, "the file is empty"),
        Err(PcapError::ReadError) => return fail(0, "the system could not read it"),
        Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
            return fail(0, "it ends within its header");
        }
        Err(_) => return fail(0, "neither pcap nor pcapng"),
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut capacity = CAPACITY;
    let mut number = 0;
    loop {
        let at = reader.consumed();
        let next = match reader.next() {
            Ok((size, block)) => {
                packet(&block, &mut interfaces, &mut number, &mut each)
                    .map_err(|why| Unreadable { at, why })?;
                Next::Record(size)
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => Next::More,
            Err(PcapError::UnexpectedEof) => return fail(at, MIDDLE),
            Err(PcapError::ReadError) => return fail(at, "the system could not read it"),
            Err(_) => return fail(at, "this is no record of a capture file"),
        };
        let Next::Record(size) = next else {
            let before = reader.data().len();
            if reader.reader_exhausted() {
                return fail(at, MIDDLE);
            }
            if reader.refill().is_err() {
                return fail(at, "the system could not read it");
            }
            if reader.data().len() == before && !reader.reader_exhausted() {
                capacity *= 2;
                if capacity > MAX_BLOCK || !reader.grow(capacity) {
                    return fail(at, "a record is longer than any packet");
                }
            }
            continue;
        };
        reader.consume(size);
    }
}

fn packet(
    block: &PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    number: &mut u64,
    each: &mut impl FnMut(Captured<'_>),
) -> Result<(), String> {
    let interface = |interfaces: &[Interface], id: usize| {
        interfaces.get(id).copied().ok_or_else(|| format!("no interface {id} was described before"))
    };
    match block {
        PcapBlockOwned::LegacyHeader(h) => {
            let nanoseconds = h.is_nanosecond_precision();
            let per_second = if nanoseconds { 1_000_000_000 } else { 1_000_000 };
            // The upper bits tell of checksums behind the packets, which the lengths exclude.
            let link = h.network.0 & 0xffff;
            interfaces.push(Interface { link, offset: 0, per_second, snaplen: usize::MAX });
        }
        PcapBlockOwned::Legacy(p) => {
            let i = interface(interfaces, 0)?;
            *number += 1;
            let secs = u64::from(p.ts_sec);
            let time = Some(stamp(secs, u64::from(p.ts_usec), i.per_second));
            let (data, original) = (p.data, p.origlen as usize);
            each(Captured { number: *number, time, link: i.link, data, original });
        }
        // The interfaces of a section are its own.
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(d)) => interfaces.push(Interface {
            link: d.linktype.0,
            offset: d.if_tsoffset,
            per_second: d.ts_resolution().unwrap_or(1_000_000).max(1),
            snaplen: if d.snaplen == 0 { usize::MAX } else { d.snaplen as usize },
        }),
        PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
            let i = interface(interfaces, p.if_id as usize)?;
            *number += 1;
            let ticks = u64::from(p.ts_high) << 32 | u64::from(p.ts_low);
            let secs = (ticks / i.per_second).saturating_add_signed(i.offset);
            let time = Some(stamp(secs, ticks % i.per_second, i.per_second));
            let (data, original) = (p.packet_data(), p.origlen as usize);
            each(Captured { number: *number, time, link: i.link, data, original });
        }
        PcapBlockOwned::NG(Block::SimplePacket(p)) => {
            let i = interface(interfaces, 0)?;
            *number += 1;
            // The block pads its data and tells only the length before the cut.
            let original = p.origlen as usize;
            let data = &p.data[..p.data.len().min(original).min(i.snaplen)];
            each(Captured { number: *number, time: None, link: i.link, data, original });
        }
        // Names, statistics, comments and the like.
        PcapBlockOwned::NG(_) => {}
    }
    Ok(())
}

fn stamp(secs: u64, ticks: u64, per_second: u64) -> Stamp {
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second);
    Stamp { secs, nanos: nanos.min(999_999_999) as u32 }
}
