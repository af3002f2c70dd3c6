//! The version in front of every packet (WIRE §4).

use crate::{Decode, Decoded, Encode, Reader, Writer};

/// A JGroups version: major 5 bits, minor 5 bits, micro 6 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u16);

impl Version {
    /// What we present ourselves as.
    pub const OURS: Version = Version::new(5, 5, 6);

    /// A version from its parts.
    #[must_use]
    pub const fn new(major: u16, minor: u16, micro: u16) -> Self {
        Version((major & 31) << 11 | (minor & 31) << 6 | micro & 63)
    }
    /// Major part.
    #[must_use]
    pub const fn major(self) -> u16 {
        self.0 >> 11
    }
    /// Minor part.
    #[must_use]
    pub const fn minor(self) -> u16 {
        (self.0 >> 6) & 31
    }
    /// Micro part.
    #[must_use]
    pub const fn micro(self) -> u16 {
        self.0 & 63
    }
    /// Packets are understood when major and minor are ours; micro is ignored.
    #[must_use]
    pub const fn compatible(self) -> bool {
        self.major() == Self::OURS.major() && self.minor() == Self::OURS.minor()
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.micro())
    }
}

impl Encode for Version {
    fn encode(&self, w: &mut impl Writer) {
        w.u16(self.0);
    }
}

impl Decode for Version {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(Version(r.u16("version")?))
    }
}
