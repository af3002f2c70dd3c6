//! How states travel in a stack.

use crate::config::Config;
use crate::error::ConnectError;
use crate::net::External;
use rgroups_core::plan::ProtocolConfig;
use rgroups_core::protocols::transport::TransportConfig;
use std::net::IpAddr;
use std::time::Duration;

/// Which protocol there is, with what the driver's side of it needs to know.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// STATE_TRANSFER, or none: in one message.
    Whole,
    /// STATE: in parts of about so many bytes.
    Parts { size: usize },
    /// STATE_SOCK: over a connection.
    Socket(SocketForm),
}

/// Where a member listens for those who read its state.
#[derive(Clone, Debug)]
pub(crate) struct SocketForm {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) external: External,
    /// Bytes that are read or written at once.
    pub(super) buffer: usize,
    /// The receive buffer of the listening socket; 0: the system's.
    pub(super) recv_buf: usize,
    /// When the other side says nothing for so long, the transfer has failed.
    pub(super) patience: Duration,
}

/// Sockets are not silent for ever, whatever `takeover_after` says.
const PATIENCE: Duration = Duration::from_secs(60);

impl Form {
    /// That of a stack whose transport is bound to `bound`.
    pub(crate) fn of(config: &Config, bound: IpAddr) -> Result<Self, ConnectError> {
        let bytes = |n: u64| usize::try_from(n.max(1)).unwrap_or(usize::MAX);
        if let Some(ProtocolConfig::State(c)) = config.plan().find("STATE") {
            return Ok(Form::Parts { size: bytes(c.buffer_size.0) });
        }
        let Some(ProtocolConfig::StateSock(c)) = config.plan().find("STATE_SOCK") else {
            return Ok(Form::Whole);
        };
        let external = match config.plan().transport() {
            Some(TransportConfig::Udp(t)) => t.external_addr,
            Some(TransportConfig::Tcp(t)) => t.external_addr,
            Some(TransportConfig::InProcess(_)) | None => None,
        };
        let patience = if c.takeover_after.is_zero() { PATIENCE } else { c.takeover_after };
        Ok(Form::Socket(SocketForm {
            ip: config.place(c.bind_addr.as_ref())?.unwrap_or(bound),
            port: c.bind_port,
            external: External { addr: c.external_addr.or(external), port: c.external_port },
            buffer: bytes(c.buffer_size.0),
            recv_buf: usize::try_from(c.recv_buf_size.0).unwrap_or(usize::MAX),
            patience,
        }))
    }
}
