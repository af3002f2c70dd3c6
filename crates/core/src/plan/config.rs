//! One protocol of a plan.

use crate::Protocol;
use crate::attributes::Attributes;
use crate::protocols::barrier::{Barrier, BarrierConfig};
use crate::protocols::counter::{Counter, CounterConfig};
use crate::protocols::discovery::{
    Discovery, LocalPingConfig, MpingConfig, PingConfig, TcpPingConfig,
};
use crate::protocols::failure::{
    FdAll3, FdAll3Config, FdSock2, FdSock2Config, VerifySuspect2, VerifySuspect2Config,
    VerifySuspectConfig,
};
use crate::protocols::faults::{
    Delay, DelayConfig, Discard, DiscardConfig, Drop, DropConfig, Dupl, DuplConfig, Shuffle,
    ShuffleConfig,
};
use crate::protocols::flow::{FlowControl, MfcConfig, UfcConfig};
use crate::protocols::frag::{Frag2, Frag2Config};
use crate::protocols::gms::{Gms, GmsConfig};
use crate::protocols::lock::{Lock, LockConfig};
use crate::protocols::merge3::{Merge3, Merge3Config};
use crate::protocols::primary::{Primary, PrimaryConfig};
use crate::protocols::reliable::{
    Nakack2Config, Nakack4Config, ReliableMulticast, ReliableUnicast, Unicast3Config,
    Unicast4Config,
};
use crate::protocols::rsvp::{Rsvp, RsvpConfig};
use crate::protocols::sequencer::{Sequencer, SequencerConfig};
use crate::protocols::stable::{Stable, StableConfig};
use crate::protocols::state::{StateConfig, StateSockConfig, StateTransfer, StateTransferConfig};
use crate::protocols::transport::{
    InProcessConfig, TcpConfig, Transport, TransportConfig, UdpConfig,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

/// Declares [`ProtocolConfig`]: a variant, its configuration, and the protocol built from it.
macro_rules! protocols {
    ($($variant:ident($config:ident) => $protocol:ident),* $(,)?) => {
        /// The configuration of one protocol.
        #[derive(Clone)]
        #[non_exhaustive]
        pub enum ProtocolConfig {
            $(#[doc = concat!("See [`", stringify!($config), "`].")] $variant($config),)*
            /// A protocol of the user's own.
            Custom {
                /// Its name, the same as in its spec.
                name: &'static str,
                /// Makes one.
                build: Build,
            },
        }

        impl ProtocolConfig {
            /// The configuration's attributes; custom protocols have none.
            #[must_use]
            pub fn attributes(&self) -> Option<&dyn Attributes> {
                match self {
                    $(ProtocolConfig::$variant(c) => Some(c),)*
                    ProtocolConfig::Custom { .. } => None,
                }
            }

            /// The same, to be changed.
            pub fn attributes_mut(&mut self) -> Option<&mut dyn Attributes> {
                match self {
                    $(ProtocolConfig::$variant(c) => Some(c),)*
                    ProtocolConfig::Custom { .. } => None,
                }
            }

            /// Makes the protocol.
            #[must_use]
            pub fn build(&self) -> Box<dyn Protocol> {
                match self {
                    $(ProtocolConfig::$variant(c) => Box::new($protocol::new(c.clone())),)*
                    ProtocolConfig::Custom { build, .. } => build(),
                }
            }

            /// The default configuration of the protocol of this name; case does not matter.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                $(
                    let config = $config::default();
                    if config.protocol().eq_ignore_ascii_case(name) {
                        return Some(ProtocolConfig::$variant(config));
                    }
                )*
                None
            }

            /// The default configurations of all protocols.
            #[must_use]
            pub fn all() -> alloc::vec::Vec<Self> {
                [$(ProtocolConfig::$variant($config::default()),)*].into()
            }
        }

        $(impl From<$config> for ProtocolConfig {
            fn from(c: $config) -> Self {
                ProtocolConfig::$variant(c)
            }
        })*

        impl fmt::Debug for ProtocolConfig {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(ProtocolConfig::$variant(c) => c.fmt(f),)*
                    ProtocolConfig::Custom { name, .. } => write!(f, "Custom({name})"),
                }
            }
        }
    };
}

/// Makes a custom protocol, once per stack.
pub type Build = Arc<dyn Fn() -> Box<dyn Protocol> + Send + Sync>;

protocols! {
    Udp(UdpConfig) => Transport,
    Tcp(TcpConfig) => Transport,
    InProcess(InProcessConfig) => Transport,
    Ping(PingConfig) => Discovery,
    Mping(MpingConfig) => Discovery,
    TcpPing(TcpPingConfig) => Discovery,
    LocalPing(LocalPingConfig) => Discovery,
    Merge3(Merge3Config) => Merge3,
    FdSock2(FdSock2Config) => FdSock2,
    FdAll3(FdAll3Config) => FdAll3,
    VerifySuspect2(VerifySuspect2Config) => VerifySuspect2,
    VerifySuspect(VerifySuspectConfig) => VerifySuspect2,
    Barrier(BarrierConfig) => Barrier,
    Nakack2(Nakack2Config) => ReliableMulticast,
    Nakack4(Nakack4Config) => ReliableMulticast,
    Unicast3(Unicast3Config) => ReliableUnicast,
    Unicast4(Unicast4Config) => ReliableUnicast,
    Stable(StableConfig) => Stable,
    Gms(GmsConfig) => Gms,
    Primary(PrimaryConfig) => Primary,
    Mfc(MfcConfig) => FlowControl,
    Ufc(UfcConfig) => FlowControl,
    Sequencer(SequencerConfig) => Sequencer,
    Frag2(Frag2Config) => Frag2,
    Rsvp(RsvpConfig) => Rsvp,
    StateTransfer(StateTransferConfig) => StateTransfer,
    State(StateConfig) => StateTransfer,
    StateSock(StateSockConfig) => StateTransfer,
    Counter(CounterConfig) => Counter,
    Lock(LockConfig) => Lock,
    Discard(DiscardConfig) => Discard,
    Delay(DelayConfig) => Delay,
    Drop(DropConfig) => Drop,
    Dupl(DuplConfig) => Dupl,
    Shuffle(ShuffleConfig) => Shuffle,
}

impl ProtocolConfig {
    /// A protocol of the user's own; `build` makes one per stack.
    #[must_use]
    pub fn custom<P: Protocol>(
        name: &'static str,
        build: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        ProtocolConfig::Custom { name, build: Arc::new(move || Box::new(build())) }
    }

    /// The protocol's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ProtocolConfig::Custom { name, .. } => name,
            // Every other variant has attributes, and with them its name.
            other => other.attributes().map_or("", Attributes::protocol),
        }
    }

    /// If this is a transport, its configuration.
    #[must_use]
    pub fn transport(&self) -> Option<TransportConfig> {
        match self {
            ProtocolConfig::Udp(c) => Some(c.clone().into()),
            ProtocolConfig::Tcp(c) => Some(c.clone().into()),
            ProtocolConfig::InProcess(c) => Some(c.clone().into()),
            _ => None,
        }
    }
}
