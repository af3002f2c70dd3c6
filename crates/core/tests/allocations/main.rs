//! How many allocations a multicast costs in a steady flow: from the application's send through all
//! layers and codecs to the application of every member, and to stability. A message must cost none
//! of its own; what is left is shared by the many of a packet, of a chunk, or of a round of STABLE.

mod cluster;

use bytes::Bytes;
use cluster::Cluster;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread, so that tests do not count each other's.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: what the caller promises is what the system asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Four members send so many messages of this size in each turn: allocations per delivery, once
/// buffers and windows have grown as far as they do.
fn allocations_per_delivery(size: usize, messages: usize) -> f64 {
    const TURNS: usize = 10;
    let mut cluster = Cluster::formed(4);
    let payload = Bytes::from(vec![7; size]);
    (0..TURNS).for_each(|_| cluster.burst(messages, &payload));
    let (delivered, allocated) = (cluster.delivered(), ALLOCATIONS.get());
    (0..TURNS).for_each(|_| cluster.burst(messages, &payload));
    let delivered = cluster.delivered() - delivered;
    assert_eq!(delivered, (TURNS * messages * 16) as u64, "all arrives everywhere");
    (ALLOCATIONS.get() - allocated) as f64 / delivered as f64
}

#[test]
fn a_multicast_of_64_bytes_costs_no_allocation_of_its_own() {
    let each = allocations_per_delivery(64, 500);
    assert!(each < 0.08, "{each:.3} allocations per delivery");
}

#[test]
fn a_multicast_of_1000_bytes_costs_no_allocation_of_its_own() {
    let each = allocations_per_delivery(1000, 500);
    assert!(each < 0.3, "{each:.3} allocations per delivery");
}
