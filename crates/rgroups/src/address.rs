//! Who a member is.

use rgroups_core::Uuid;
use std::fmt;

/// A member: 16 bytes, `Copy`, new for every connect. Ordered as JGroups orders its `UUID`
/// addresses, so that both implementations elect alike.
///
/// `Display` prints a short form. The logical name of a member is known to the channel:
/// [`Channel::name_of`](crate::Channel::name_of).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub(crate) Uuid);

impl Address {
    /// The 128 bits of the identity, as they travel.
    #[must_use]
    pub fn to_bits(self) -> u128 {
        u128::from(self.0.msb) << 64 | u128::from(self.0.lsb)
    }

    /// The address with these bits.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(Uuid::new((bits >> 64) as u64, bits as u64))
    }

    /// Whether this member runs this toolkit (as opposed to Java's): the identity tells.
    #[must_use]
    pub fn is_rgroups(self) -> bool {
        rgroups_core::tag::is_rgroups(self.0)
    }
}

impl From<Uuid> for Address {
    fn from(u: Uuid) -> Self {
        Self(u)
    }
}

impl From<Address> for Uuid {
    fn from(a: Address) -> Self {
        a.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_and_order_is_that_of_signed_halves() {
        let a = Address::from_bits(1 << 127 | 5);
        let b = Address::from_bits(5);
        assert_eq!(a.to_bits(), 1 << 127 | 5);
        assert!(a < b, "the sign bit sorts first, as in Java");
    }
}
