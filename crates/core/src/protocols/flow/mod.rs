//! Flow control: a sender may only send what its receivers have room for.
//!
//! MFC (multicasts) and UFC (unicasts) are one layer, [`FlowControl`], with different targets. A
//! message costs its length at every target's account ([`credits`]); without credit it waits in a
//! line ([`line`]). Receivers grant what their application has consumed. Nothing here ever drops a
//! message: what cannot be sent is refused before it has a sequence number.

mod control;
mod credits;
#[cfg(test)]
mod credits_tests;
mod debtors;
mod gauges;
mod grants;
mod line;
mod rows;
#[cfg(test)]
mod tests;
mod whole;

pub use control::FlowControl;

pub(crate) use whole::{RefusedWhole, fragment_of};

use crate::Pool;
use crate::attributes::{AttrValue, ByteSize};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use credits::Terms;

/// How a receiver answers a credit request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditRequests {
    /// With what was consumed, at once or at the next consumed byte.
    #[default]
    Strict,
    /// With what was asked for, as JGroups does: flow control becomes soft.
    Java,
}

impl AttrValue for CreditRequests {
    const KIND: &'static str = "strict or java";
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "strict" => Some(CreditRequests::Strict),
            "java" => Some(CreditRequests::Java),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            CreditRequests::Strict => "strict",
            CreditRequests::Java => "java",
        }
        .to_string()
    }
}

/// What becomes of messages that wait for a member that gives no credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowMember {
    /// They wait until it gives some, or leaves.
    #[default]
    Wait,
    /// A call that waits for `slow_member_timeout` fails, and its message is not sent.
    Fail,
    /// The coordinator is asked to exclude a member for which messages waited, and that gave no
    /// credit at all, for the whole of `slow_member_timeout`.
    Exclude,
}

impl AttrValue for SlowMember {
    const KIND: &'static str = "wait, fail or exclude";
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "wait" => Some(SlowMember::Wait),
            "fail" => Some(SlowMember::Fail),
            "exclude" => Some(SlowMember::Exclude),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            SlowMember::Wait => "wait",
            SlowMember::Fail => "fail",
            SlowMember::Exclude => "exclude",
        }
        .to_string()
    }
}

/// What both protocols are configured with, after all precedence rules.
#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    pool: Pool,
    terms: Terms,
    max_block_time: Duration,
    max_blocked: u64,
    max_blocked_messages: u64,
    slow: SlowMember,
    slow_timeout: Duration,
}

/// The threshold when neither `min_threshold` nor `min_credits` is given.
const DEFAULT_THRESHOLD: f64 = 0.2;
const DEFAULT_BLOCK_TIME: Duration = Duration::from_secs(5);
const DEFAULT_SLOW_TIMEOUT: Duration = Duration::from_secs(30);

macro_rules! flow_config {
    ($name:ident, $protocol:literal, $pool:ident, $doc:literal) => {
        crate::attributes! {
            #[doc = $doc]
            pub struct $name for $protocol {
                /// Credit per sender and receiver. Bytes, default 5 MB (4 MB over UDP,
                /// 2 MB over TCP). All members should have the
                /// same value: a receiver may have to hold this much for every sender.
                max_credits: ByteSize = ByteSize(5_000_000),
                /// The fraction of `max_credits` that is left to a sender when its receivers grant
                /// credit again. Overrides `min_credits`. Default 0.2 when neither is given
                /// (0.4 in the ready stacks).
                min_threshold: Option<f64> = None,
                /// As `min_threshold`, in bytes; has no effect when that is given. Default unset.
                min_credits: Option<ByteSize> = None,
                /// How long a sender blocks before it asks for credit, and between two requests.
                /// Milliseconds, default 5 s.
                max_block_time: Duration = DEFAULT_BLOCK_TIME,
                /// Another name of `max_block_time`, which wins when both are changed. Default unset.
                min_block_time: Option<Duration> = None,
                /// How credit requests are answered: `strict` (default) grants what was consumed,
                /// `java` what was asked for, so that memory at a slow receiver is not bounded.
                credit_requests: CreditRequests = CreditRequests::Strict,
                /// Payload bytes that may wait for credit inside the layer; more waits above it.
                /// An empty line takes one message of any size. Bytes, default 2 MB.
                max_blocked: ByteSize = ByteSize(2_000_000),
                /// Messages that may wait for credit inside the layer. Default 2000.
                max_blocked_messages: u64 = 2000,
                /// What becomes of messages that wait for a member that gives no credit: they `wait`
                /// (default), calls `fail` after `slow_member_timeout`, or the coordinator is asked
                /// to `exclude` the member when it gave none for that long.
                slow_member: SlowMember = SlowMember::Wait,
                /// The time of `slow_member`; where that is `exclude`, at least twice
                /// `max_block_time`, so that the member was asked for credit before.
                /// Milliseconds, default 30 s.
                slow_member_timeout: Duration = DEFAULT_SLOW_TIMEOUT,
            }
        }

        impl $name {
            /// The credit left to a sender at which receivers grant again, by the precedence of
            /// `min_threshold` over `min_credits`. Bytes.
            #[must_use]
            pub fn effective_min_credits(&self) -> u64 {
                let max = self.max_credits.0;
                let fraction = |f: f64| (max as f64 * f.clamp(0.0, 1.0)) as u64;
                match (self.min_threshold, self.min_credits) {
                    (Some(f), _) => fraction(f),
                    (None, Some(bytes)) => bytes.0.min(max),
                    (None, None) => fraction(DEFAULT_THRESHOLD),
                }
            }

            /// The blocking time, by whichever name it was given.
            #[must_use]
            pub fn effective_block_time(&self) -> Duration {
                match self.min_block_time {
                    Some(t) if self.max_block_time == DEFAULT_BLOCK_TIME => t,
                    Some(_) | None => self.max_block_time,
                }
            }

            /// The time of the policy for slow members, with its minimum.
            #[must_use]
            pub fn effective_slow_timeout(&self) -> Duration {
                match self.slow_member {
                    SlowMember::Exclude => {
                        self.slow_member_timeout.max(self.effective_block_time() * 2)
                    }
                    SlowMember::Wait | SlowMember::Fail => self.slow_member_timeout,
                }
            }

            /// Attributes that another one overrides, each in one sentence.
            #[must_use]
            pub fn overridden(&self) -> Vec<String> {
                let mut out = Vec::new();
                if let (Some(f), Some(bytes)) = (self.min_threshold, self.min_credits) {
                    out.push(alloc::format!(
                        "min_credits {} overridden by min_threshold {f}",
                        bytes.0
                    ));
                }
                if let Some(t) = self.min_block_time.filter(|t| *t != self.effective_block_time()) {
                    out.push(alloc::format!(
                        "min_block_time {t:?} overridden by max_block_time {:?}",
                        self.max_block_time
                    ));
                }
                let slow = self.effective_slow_timeout();
                if slow != self.slow_member_timeout {
                    out.push(alloc::format!(
                        "slow_member_timeout {:?} raised to {slow:?}: a member is asked for credit \
                         before it is excluded",
                        self.slow_member_timeout
                    ));
                }
                out
            }
        }

        impl From<$name> for FlowSettings {
            fn from(c: $name) -> Self {
                let slow_timeout = c.effective_slow_timeout();
                FlowSettings {
                    pool: Pool::$pool,
                    terms: Terms {
                        max: c.max_credits.0,
                        min: c.effective_min_credits(),
                        lenient: c.credit_requests == CreditRequests::Java,
                    },
                    max_block_time: c.effective_block_time(),
                    max_blocked: c.max_blocked.0,
                    max_blocked_messages: c.max_blocked_messages,
                    slow: c.slow_member,
                    slow_timeout,
                }
            }
        }
    };
}

flow_config!(MfcConfig, "MFC", Multicast, "Flow control of multicasts (`MFC`).");
flow_config!(UfcConfig, "UFC", Unicast, "Flow control of unicasts (`UFC`).");
