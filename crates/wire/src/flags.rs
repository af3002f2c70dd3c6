//! Message flags that travel, and hints that do not (WIRE §6.3).

use bitflags::bitflags;

bitflags! {
    /// Flags of a message as they travel.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// Out of band: delivered on arrival, unordered.
        const OOB = 0x0001;
        /// Dispatched on its own at the receiver.
        const DONT_BUNDLE = 0x0002;
        /// Not subject to flow control.
        const NO_FC = 0x0004;
        /// No sequence number: may be lost.
        const NO_RELIABILITY = 0x0010;
        /// Bypasses total order.
        const NO_TOTAL_ORDER = 0x0020;
        /// Never relayed to other sites.
        const NO_RELAY = 0x0040;
        /// The sender waits for acknowledgements of all receivers.
        const RSVP = 0x0080;
        /// As RSVP, but the call returns at once.
        const RSVP_NB = 0x0100;
        /// Passes a closed barrier.
        const SKIP_BARRIER = 0x0400;
        /// The payload is a serialised object.
        const SERIALIZED = 0x0800;
        /// Bits without a name are kept as they came.
        const _ = !0;
    }
}

bitflags! {
    /// Hints about a message inside one process; never on the wire.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Hints: u8 {
        /// An out-of-band message that was already handed up.
        const OOB_DELIVERED = 1;
        /// The sender does not want its own copy.
        const DONT_LOOPBACK = 2;
        /// Fail instead of waiting for credit.
        const DONT_BLOCK = 4;
        /// The state that its receiver was given contains what it did.
        const IN_STATE = 8;
        /// Of no use in another view: does not wait for credit beyond the next one.
        const IN_THIS_VIEW = 16;
    }
}
