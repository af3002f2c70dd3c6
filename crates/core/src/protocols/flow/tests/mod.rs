//! Both layers at work in small groups, over a network without delay.

use super::{CreditRequests, MfcConfig, UfcConfig};
use crate::attributes::{Attributes, ByteSize};
use crate::testkit_cluster::Cluster;
use crate::wire::{Body, Flags, Header, Hints, Message, ProtId, header::FcHeader};
use crate::{Pool, Rng, SendRefusal, Time, Trace, Uuid, View};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

mod charging;
mod granting;
mod views;
mod waiting;

const SECOND: Duration = Duration::from_secs(1);

fn mfc(max: u64, threshold: f64) -> MfcConfig {
    MfcConfig { max_credits: ByteSize(max), min_threshold: Some(threshold), ..MfcConfig::default() }
}

fn ufc(max: u64, threshold: f64) -> UfcConfig {
    UfcConfig { max_credits: ByteSize(max), min_threshold: Some(threshold), ..UfcConfig::default() }
}

fn cluster(n: u64, max: u64, threshold: f64) -> Cluster {
    Cluster::new(n, &mfc(max, threshold), &ufc(max, threshold), 10_000_000)
}

fn granted(c: &Cluster, i: usize, to: Uuid) -> Vec<u64> {
    c.traces[i]
        .iter()
        .filter_map(|(_, t)| match t {
            Trace::Granted { to: m, bytes, .. } if *m == to => Some(*bytes),
            _ => None,
        })
        .collect()
}

fn asks(c: &Cluster, of: Uuid) -> Vec<Time> {
    c.times(0, |t| matches!(t, Trace::CreditAsked { of: m, .. } if *m == of))
}

fn is_fc(m: &Message, kind: FcHeader) -> bool {
    [ProtId::MFC, ProtId::UFC].iter().any(|p| m.headers.get(*p) == Some(&Header::Fc(kind)))
}
