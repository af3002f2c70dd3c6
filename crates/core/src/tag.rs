//! Who is one of us. Members of this toolkit carry a mark in their identity, so what they can do is
//! known from the view alone (DECISIONS 2): a UUID of version 8, variant 10, with a fixed 16-bit tag
//! and 8 capability bits at the end. Java generates version 4, which no tagged identity equals.
//! Everything else is random, and the order of members compares the most significant half first, so
//! elections are not biased.

use crate::{Rng, Uuid};

/// The fixed tag, in bits 8 to 23 of the least significant half.
const TAG: u64 = 0x5247;
const TAG_SHIFT: u32 = 8;
const TAG_MASK: u64 = 0xffff << TAG_SHIFT;
const CAPABILITIES_MASK: u64 = 0xff;
const VERSION_MASK: u64 = 0xf000;
const VERSION: u64 = 0x8000;
const VARIANT_MASK: u64 = 0b11 << 62;
const VARIANT: u64 = 0b10 << 62;

/// A fresh identity with these capability bits.
#[must_use]
pub fn make(rng: &mut Rng, capabilities: u8) -> Uuid {
    tagged(rng.next_u64(), rng.next_u64(), capabilities)
}

/// An identity from 128 random bits, some of which give way to the mark.
#[must_use]
pub fn tagged(msb: u64, lsb: u64, capabilities: u8) -> Uuid {
    let msb = (msb & !VERSION_MASK) | VERSION;
    let free = !(VARIANT_MASK | TAG_MASK | CAPABILITIES_MASK);
    Uuid::new(msb, (lsb & free) | VARIANT | TAG << TAG_SHIFT | u64::from(capabilities))
}

/// Whether `m` is a member of this toolkit.
#[must_use]
pub fn is_rgroups(m: Uuid) -> bool {
    m.msb & VERSION_MASK == VERSION
        && m.lsb & VARIANT_MASK == VARIANT
        && (m.lsb & TAG_MASK) >> TAG_SHIFT == TAG
}

/// Takes part in tail repair: keeps what it delivered until it is stable, and agrees with others of
/// this capability on the last messages of members that are gone.
pub const TAIL_REPAIR: u8 = 1;

/// Whether `m` takes part in tail repair.
#[must_use]
pub fn repairs_tails(m: Uuid) -> bool {
    capabilities(m) & TAIL_REPAIR != 0
}

/// Agrees on stable messages by numbers alone, in the order of the view.
pub const REFERENCE_DIGESTS: u8 = 2;

/// Whether `m` understands reports of stability that refer to the view.
#[must_use]
pub fn refers_to_views(m: Uuid) -> bool {
    capabilities(m) & REFERENCE_DIGESTS != 0
}

/// Answers the steps of a flush.
pub const FLUSH: u8 = 4;

/// Whether `m` takes part in a flush.
#[must_use]
pub fn flushes(m: Uuid) -> bool {
    capabilities(m) & FLUSH != 0
}

/// Takes part in the agreement on primary views.
pub const PRIMARY: u8 = 8;

/// Whether `m` has a vote in the agreement on primary views.
#[must_use]
pub fn votes(m: Uuid) -> bool {
    capabilities(m) & PRIMARY != 0
}

/// Asks suspects on behalf of others.
pub const VERIFIES: u8 = 16;

/// Whether `m` asks suspects on behalf of others.
#[must_use]
pub fn verifies(m: Uuid) -> bool {
    capabilities(m) & VERIFIES != 0
}

/// Installs no view before all who come with it have delivered the same.
pub const VIEW_SYNCHRONY: u8 = 32;

/// Whether `m` takes part in synchronous changes of the view.
#[must_use]
pub fn synchronizes(m: Uuid) -> bool {
    capabilities(m) & VIEW_SYNCHRONY != 0
}

/// Has COUNTER: acknowledges what it is told as a backup, and remembers requests.
pub const COUNTS: u8 = 64;

/// Whether `m` acknowledges changes of counters, and remembers requests.
#[must_use]
pub fn counts(m: Uuid) -> bool {
    capabilities(m) & COUNTS != 0
}

/// Has LOCK.
pub const LOCKS: u8 = 128;

/// Whether `m` has LOCK.
#[must_use]
pub fn locks(m: Uuid) -> bool {
    capabilities(m) & LOCKS != 0
}

/// The capability bits of `m`; none for a member of another implementation.
#[must_use]
pub fn capabilities(m: Uuid) -> u8 {
    if is_rgroups(m) { (m.lsb & CAPABILITIES_MASK) as u8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_identity_is_recognised_with_its_capabilities() {
        let mut rng = Rng::new(1);
        for caps in [0, 1, 0x80, 0xff] {
            let m = make(&mut rng, caps);
            assert!(is_rgroups(m));
            assert_eq!(capabilities(m), caps);
        }
    }

    #[test]
    fn an_identity_of_java_is_not_ours() {
        let version_4 = Uuid::new(0x1122_3344_5566_4778, VARIANT | TAG << TAG_SHIFT | 0xff);
        assert!(!is_rgroups(version_4));
        assert_eq!(capabilities(version_4), 0);
    }
}
