//! Magic ids: the numbers of header classes (WIRE §7.2). This is the only list of them.

macro_rules! classes {
    ($($name:ident = $n:literal $class:literal),* $(,)?) => {
        $(#[doc = concat!("`", $class, "`")] pub const $name: i16 = $n;)*

        /// Number and JGroups' name of every class that this crate reads, by number.
        pub const ALL: &[(i16, &str)] = &[$(($n, $class)),*];
    };
}

classes! {
    FD_SOCK = 51 "FD_SOCK.FdHeader",
    FRAG = 52 "FragHeader",
    PING = 53 "PingHeader",
    VERIFY_SUSPECT = 54 "VERIFY_SUSPECT.VerifyHeader",
    GMS = 55 "GMS.GmsHeader",
    STABLE = 56 "STABLE.StableHeader",
    STATE_TRANSFER = 57 "STATE_TRANSFER.StateHeader",
    COMPRESS = 58 "COMPRESS.CompressHeader",
    FLOW_CONTROL = 59 "FcHeader",
    TP = 60 "TpHeader",
    SEQUENCER = 61 "SEQUENCER.SequencerHeader",
    HEARTBEAT = 62 "FailureDetection.HeartbeatHeader",
    STREAMING_STATE = 65 "StreamingStateTransfer.StateHeader",
    AUTH = 66 "AuthHeader",
    CORRELATOR = 67 "RequestCorrelator.Header",
    CORRELATOR_EXCLUDING = 68 "RequestCorrelator.MultiDestinationHeader",
    DAISYCHAIN = 69 "DAISYCHAIN.DaisyHeader",
    COUNTER = 74 "COUNTER.CounterHeader",
    MERGE3 = 75 "MERGE3.MergeHeader",
    RSVP = 76 "RSVP.RsvpHeader",
    NAKACK2 = 78 "NakAckHeader2",
    RELAY = 80 "RelayHeader",
    UNICAST3 = 82 "UnicastHeader3",
    FORK = 83 "FORK.ForkHeader",
    PERF = 84 "PerfHeader",
    SEQUENCER2 = 86 "SEQUENCER2.SequencerHeader",
    ENCRYPT = 88 "EncryptHeader",
    FRAG3 = 91 "Frag3Header",
    DH_KEY_EXCHANGE = 92 "DH_KEY_EXCHANGE.DhHeader",
    FD_SOCK2 = 93 "FD_SOCK2.FdHeader",
    VERIFY_SUSPECT2 = 94 "VERIFY_SUSPECT2.VerifyHeader",
    BATCH2 = 96 "BATCH2.Batch2Header",
    ROUND_TRIP = 97 "RTTHeader",
    NAKACK4 = 99 "NakAckHeader",
    UNICAST4 = 100 "UnicastHeader",
    INFO = 101 "InfoHeader",
}
