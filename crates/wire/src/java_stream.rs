//! The bytes with which things begin in a stream of serialized Java objects.

pub(crate) const STREAM: [u8; 4] = [0xac, 0xed, 0, 5];
pub(crate) const NULL: u8 = 0x70;
pub(crate) const REFERENCE: u8 = 0x71;
pub(crate) const CLASS_DESCRIPTION: u8 = 0x72;
pub(crate) const OBJECT: u8 = 0x73;
pub(crate) const STRING: u8 = 0x74;
pub(crate) const ARRAY: u8 = 0x75;
pub(crate) const END: u8 = 0x78;
/// Objects in a stream are numbered from here.
pub(crate) const FIRST_HANDLE: u32 = 0x007e_0000;
/// Flags of a class: plainly serialisable; the same with a writer of its own.
pub(crate) const SERIALIZABLE: u8 = 2;
pub(crate) const WRITES_ITSELF: u8 = 3;
