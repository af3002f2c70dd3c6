//! A node made from a plan.

use super::{LinkConfig, Node, NodeEnv, TransportKind};
use crate::plan::{PlanProblem, StackPlan};
use crate::protocols::transport::{TcpConfig, TransportConfig};
use alloc::vec::Vec;

impl Node {
    /// A node with the protocols of `plan` and the entry layer on top.
    pub fn new(plan: &StackPlan, env: NodeEnv) -> Result<Node, Vec<PlanProblem>> {
        let layers = plan.build()?;
        let transport = plan.transport();
        // A transport of the user's own is one of datagrams, as far as the edge is concerned.
        let kind = transport.as_ref().map_or(TransportKind::Udp, TransportConfig::kind);
        let links = match &transport {
            Some(TransportConfig::Tcp(c)) => LinkConfig::from(c),
            Some(TransportConfig::Udp(_) | TransportConfig::InProcess(_)) | None => {
                LinkConfig::default()
            }
        };
        Ok(Node::from_layers(layers, kind, links, env))
    }
}

impl From<&TcpConfig> for LinkConfig {
    fn from(c: &TcpConfig) -> Self {
        // A length of 0 means no limit, as in JGroups.
        let max_frame = match usize::try_from(c.max_length.0) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(n) => n,
        };
        LinkConfig {
            max_send_queue: usize::try_from(c.send_queue_bytes.0).unwrap_or(usize::MAX),
            max_frame,
            handshake_timeout: c.peer_addr_read_timeout,
            connect_timeout: c.sock_conn_timeout,
            idle_timeout: c.conn_expire_time,
            ..LinkConfig::default()
        }
    }
}
