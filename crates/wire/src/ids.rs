//! Protocol ids: the number in front of every header, saying whose it is (WIRE §7.1).

/// The id of the protocol that owns a header. At most one header per id is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtId(pub i16);

macro_rules! prot_ids {
    ($($name:ident = $id:literal),* $(,)?) => {
        impl ProtId {
            /// Every known id.
            pub const ALL: &'static [ProtId] = &[$(ProtId($id)),*];

            $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: ProtId = ProtId($id);)*

            /// The protocol's name as JGroups writes it, if the id is a known one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($id => Some(stringify!($name)),)* _ => None }
            }

            /// The id of the protocol of this name; case does not matter.
            #[must_use]
            pub fn named(name: &str) -> Option<ProtId> {
                let is_it = |id: &&ProtId| id.name().is_some_and(|n| n.eq_ignore_ascii_case(name));
                Self::ALL.iter().find(is_it).copied()
            }
        }
    };
}

prot_ids! {
    FD_SOCK = 2, FRAG = 3, FRAG2 = 4, PING = 5, MPING = 6, FILE_PING = 8, TCPPING = 9,
    TCPGOSSIP = 10, VERIFY_SUSPECT = 11, GMS = 12, STABLE = 13, STATE_TRANSFER = 14, COMPRESS = 15,
    UDP = 16, TCP = 17, TUNNEL = 18, SEQUENCER = 19, FD_ALL = 20, FD_ALL2 = 21, AUTH = 23,
    STATE = 24, STATE_SOCK = 25, DISCARD = 26, SHARED_LOOPBACK = 27, DAISYCHAIN = 28, MFC = 30,
    UFC = 31, STOMP = 33, COUNTER = 37, MERGE3 = 38, RSVP = 39, NAKACK2 = 41, RELAY2 = 44,
    RELAY3 = 45, UNICAST3 = 48, SHARED_LOOPBACK_PING = 50, SEQUENCER2 = 53, FD_HOST = 54, TP = 57,
    SYM_ENCRYPT = 58, ASYM_ENCRYPT = 59, FRAG3 = 62, DH_KEY_EXCHANGE = 65, LOCAL_PING = 68,
    FRAG4 = 69, FD_ALL3 = 70, FD_SOCK2 = 71, VERIFY_SUSPECT2 = 72, BATCH2 = 74, NAKACK3 = 76,
    NAKACK4 = 77, UNICAST4 = 78, REQUEST_CORRELATOR = 200, FORK = 203,
}
