//! Random damage: the vectors, mutated, go through every decoder. Nothing panics, a value that was
//! read survives its own encoding, and memory stays in proportion to the bytes that came in.
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

mod common;

use bytes::Bytes;
use common::{Vector, own_vectors, reencode, vectors};
use rgroups_wire::{DecodeErrorKind, Reader, View, fuzzing};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Counts what this thread has allocated and not freed, and the highest count since the last reset.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn account(change: isize) {
    // The counters are gone while a thread ends; what it frees then does not matter here.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is handed to the system allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        account(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        account(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that `f` held at once beyond what was there before.
fn peak_of<T>(f: impl FnOnce() -> T) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    drop(f());
    (PEAK.get() - before).max(0) as usize
}

/// Bytes of memory that one byte of input may cost, and what any input may cost. The worst case is
/// a list of empty messages: seven bytes each on the wire, some 350 in memory, doubled while the
/// list grows, and what the decoded value takes is here again in its encoding.
const PER_BYTE: usize = 192;
const CONSTANT: usize = 64 * 1024;

/// A small deterministic generator (splitmix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Bytes that mean something in many places: presence, null lengths, large counts.
const TELLING: [u8; 12] = [0, 1, 2, 3, 4, 5, 0x10, 0x7f, 0x80, 0xfe, 0xff, 0x20];

fn mutate(seed: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len());
        match rng.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
            1 if !bytes.is_empty() => bytes[at] = TELLING[rng.below(TELLING.len())],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, TELLING[rng.below(TELLING.len())]),
            4 if !bytes.is_empty() => drop(bytes.remove(at)),
            5 => {
                let from = rng.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                // A large big-endian number where a count or a length may be.
                let large = [0x7f, 0xff, 0xff, 0xff];
                let n = 1 + rng.below(4);
                for (b, l) in bytes[at..].iter_mut().zip(&large[..n]) {
                    *b = *l;
                }
            }
        }
    }
    bytes
}

/// Runs the same entry points as the fuzz targets, and the decoder of the vector's own kind.
fn decode_everywhere(kind: &str, bytes: &[u8]) {
    fuzzing::frame(bytes);
    fuzzing::header(bytes);
    fuzzing::payload(bytes);
    fuzzing::tcp_stream(bytes);
    let _ = reencode(kind, &Bytes::copy_from_slice(bytes));
}

#[test]
fn mutated_vectors_neither_panic_nor_take_more_memory_than_their_bytes_justify() {
    let vectors: Vec<Vector> = vectors().into_iter().chain(own_vectors()).collect();
    let mut rng = Rng(0x5eed);
    let start = Instant::now();
    let mut rounds = 0;
    // A fixed number of rounds is what makes the run repeatable; the clock only guards slow machines.
    while rounds < 120 && start.elapsed() < Duration::from_secs(20) {
        for v in &vectors {
            let other = &vectors[rng.below(vectors.len())];
            let bytes = mutate(&v.bytes, &other.bytes, &mut rng);
            let peak = peak_of(|| decode_everywhere(&v.kind, &bytes));
            let bound = PER_BYTE * bytes.len() + CONSTANT;
            assert!(peak <= bound, "{}: {peak} bytes for {}", v.name, common::hex(&bytes));
        }
        rounds += 1;
    }
    println!("{} inputs", rounds * vectors.len());
}

#[test]
fn hostile_lists_stay_within_the_memory_bound() {
    for (name, bytes) in hostile_inputs() {
        let peak = peak_of(|| rgroups_wire::Frame::decode(Bytes::copy_from_slice(&bytes)));
        let bound = PER_BYTE * bytes.len() + CONSTANT;
        println!("{name}: {peak} bytes of memory for {} bytes", bytes.len());
        assert!(peak <= bound, "{name}: {peak} bytes of memory for {}", bytes.len());
    }
}

/// Members of subgroups are two bytes each that stand for a copy of a whole address.
#[test]
fn subgroups_cannot_copy_one_long_address_without_end() {
    let mut bytes = vec![2];
    bytes.extend_from_slice(&[0; 17]);
    bytes.extend_from_slice(&[0, 1, 4]);
    bytes.extend_from_slice(&[0; 18]);
    bytes.extend_from_slice(&[0, 1, 0x75, 0x30]);
    bytes.extend_from_slice(&[b'x'; 30_000]);
    bytes.extend_from_slice(&[0, 1, 0xff, 0xff, 2]);
    bytes.extend_from_slice(&[0; 16 + 8]);
    bytes.extend_from_slice(&10_000u16.to_be_bytes());
    bytes.extend_from_slice(&[0; 20_000]);
    let decode = || View::decode_merge(&mut Reader::new(Bytes::from(bytes.clone())));
    let error = decode().unwrap_err();
    assert!(matches!(error.kind, DecodeErrorKind::TooLong(_)), "{error}");
    let (peak, bound) = (peak_of(decode), PER_BYTE * bytes.len() + CONSTANT);
    assert!(peak <= bound, "{peak} bytes of memory for {}", bytes.len());
}

/// Packets made to cost as much as possible.
fn hostile_inputs() -> Vec<(&'static str, Vec<u8>)> {
    let list = |dest: &[u8], src: &[u8], count: u32, rest: &[u8]| {
        let mut b = vec![0x29, 0x46, 3];
        b.extend_from_slice(dest);
        b.extend_from_slice(src);
        b.extend_from_slice(&[0xff, 0xff]);
        b.extend_from_slice(&count.to_be_bytes());
        b.extend_from_slice(rest);
        b
    };
    // A source with a name of 30,000 bytes that every message of the list would copy.
    let mut long_name = vec![4];
    long_name.extend_from_slice(&[0; 18]);
    long_name.extend_from_slice(&[0, 1, 0x75, 0x30]);
    long_name.extend_from_slice(&[b'x'; 30_000]);
    let empties: Vec<u8> = [0, 2, 0, 0, 0, 0, 0].repeat(5_000);
    let mut nested = vec![];
    for _ in 0..3_000 {
        nested.extend_from_slice(&[0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    let mut composite_of_many = vec![0x29, 0x46, 2];
    composite_of_many.extend_from_slice(&[0, 5, 0, 0, 0, 0, 0]);
    composite_of_many.extend_from_slice(&5_000u32.to_be_bytes());
    composite_of_many.extend_from_slice(&empties);
    let headers = [&[0, 2, 0, 0, 0, 0x7f, 0xff][..], &[0, 70, 0, 62].repeat(9_000)].concat();
    vec![
        ("a count and nothing behind it", list(&[1], &[1], u32::MAX >> 1, &[])),
        ("a count beyond what could fit", list(&[1], &[1], 9_000, &empties)),
        ("empty messages", list(&[1], &[1], 5_000, &empties)),
        ("a long source", list(&[1], &long_name, 5_000, &empties)),
        ("a long destination", list(&long_name, &[1], 5_000, &empties)),
        ("nested composites", [&[0x29, 0x46, 2], &nested[..]].concat()),
        ("a composite of many", composite_of_many),
        ("very many headers", [&[0x29, 0x46, 2], &headers[..]].concat()),
    ]
}
