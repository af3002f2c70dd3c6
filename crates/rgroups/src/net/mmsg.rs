//! Many datagrams in one system call, and reads into memory that was not cleared first: the only
//! unsafe code of the workspace outside of tests. Where `sendmmsg` does not exist, one call per
//! datagram does the same.

#![allow(unsafe_code)]

use bytes::{Bytes, BytesMut};
use mio::net::{TcpStream, UdpSocket};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;

/// Datagrams per system call.
pub(crate) const BATCH: usize = 64;
/// Room for one received datagram of any size.
pub(crate) const SLOT: usize = 65_536;
/// A datagram below this is copied out, so that its slot can be used again: keeping a slice of it
/// would pin [`SLOT`] bytes.
const COPY_BELOW: usize = SLOT / 2;

/// Buffers that are received into.
#[derive(Debug)]
pub(crate) struct Slots {
    buffers: Vec<BytesMut>,
}

impl Slots {
    /// Allocates nothing yet.
    pub(crate) fn new() -> Self {
        Self { buffers: (0..BATCH / 4).map(|_| BytesMut::new()).collect() }
    }

    fn prepare(&mut self) {
        for b in &mut self.buffers {
            if b.capacity() < SLOT {
                *b = BytesMut::with_capacity(SLOT);
            }
        }
    }

    /// The first `n` bytes of buffer `i`, whose length has been set to `n`.
    fn take(&mut self, i: usize) -> Bytes {
        let b = &mut self.buffers[i];
        if b.len() < COPY_BELOW {
            let copy = Bytes::copy_from_slice(b);
            b.clear();
            copy
        } else {
            std::mem::take(b).freeze()
        }
    }
}

/// Reads up to `buffer`'s free room from a connection. `Ok(0)` is the end of the stream.
pub(crate) fn read_stream(stream: &TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    let n = SockRef::from(stream).recv(buffer.spare_capacity_mut())?;
    // SAFETY: the kernel initialised the first `n` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + n) };
    Ok(n)
}

#[cfg(target_os = "linux")]
mod imp {
    use super::*;
    use socket2::{SockAddr, SockAddrStorage};
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    /// Sends from the front of `list`; tells how many the kernel took (at least one) or why it
    /// took none.
    pub(crate) fn send(socket: &UdpSocket, list: &[(SocketAddr, Bytes)]) -> io::Result<usize> {
        let n = list.len().min(BATCH);
        let addrs: Vec<SockAddr> = list[..n].iter().map(|(to, _)| SockAddr::from(*to)).collect();
        let mut parts: Vec<libc::iovec> = list[..n]
            .iter()
            .map(|(_, b)| libc::iovec { iov_base: b.as_ptr() as *mut _, iov_len: b.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(n);
        for (addr, part) in addrs.iter().zip(&mut parts) {
            // SAFETY: all-zero is a valid value of this plain C structure.
            let mut h: libc::mmsghdr = unsafe { std::mem::zeroed() };
            h.msg_hdr.msg_name = addr.as_ptr() as *mut _;
            h.msg_hdr.msg_namelen = addr.len();
            h.msg_hdr.msg_iov = part;
            h.msg_hdr.msg_iovlen = 1;
            headers.push(h);
        }
        // SAFETY: `headers` holds `n` entries whose addresses and single parts point into `addrs`,
        // `parts` and `list`, all of which outlive the call; the kernel only reads through them.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                n as libc::c_uint,
                libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives up to a quarter of [`BATCH`] datagrams without blocking.
    pub(crate) fn receive(
        socket: &UdpSocket,
        slots: &mut Slots,
        mut sink: impl FnMut(SocketAddr, Bytes),
    ) -> io::Result<usize> {
        slots.prepare();
        let n = slots.buffers.len();
        let mut names: Vec<SockAddrStorage> = (0..n).map(|_| SockAddrStorage::zeroed()).collect();
        let mut parts: Vec<libc::iovec> = slots
            .buffers
            .iter_mut()
            .map(|b| {
                let room: &mut [MaybeUninit<u8>] = b.spare_capacity_mut();
                libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }
            })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(n);
        for (name, part) in names.iter_mut().zip(&mut parts) {
            // SAFETY: all-zero is a valid value of this plain C structure.
            let mut h: libc::mmsghdr = unsafe { std::mem::zeroed() };
            h.msg_hdr.msg_namelen = name.size_of();
            h.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            h.msg_hdr.msg_iov = part;
            h.msg_hdr.msg_iovlen = 1;
            headers.push(h);
        }
        // SAFETY: the kernel writes addresses into `names` and data into the spare capacity of the
        // buffers, each within the length given; both outlive the call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                n as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (i, (h, name)) in headers.iter().zip(names).take(got).enumerate() {
            let b = &mut slots.buffers[i];
            // SAFETY: the buffer was empty and the kernel initialised its first `msg_len` bytes,
            // which is at most the capacity it was given.
            unsafe { b.set_len((h.msg_len as usize).min(b.capacity())) };
            // SAFETY: the kernel wrote an address of this length into `name`.
            let from = unsafe { SockAddr::new(name, h.msg_hdr.msg_namelen) };
            let bytes = slots.take(i);
            if let Some(from) = from.as_socket() {
                sink(from, bytes);
            }
        }
        Ok(got)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::*;

    /// Sends from the front of `list`; tells how many the kernel took (at least one) or why it
    /// took none.
    pub(crate) fn send(socket: &UdpSocket, list: &[(SocketAddr, Bytes)]) -> io::Result<usize> {
        let mut sent = 0;
        for (to, bytes) in list.iter().take(BATCH) {
            match socket.send_to(bytes, *to) {
                Ok(_) => sent += 1,
                Err(e) if sent == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// Receives up to a quarter of [`BATCH`] datagrams without blocking.
    pub(crate) fn receive(
        socket: &UdpSocket,
        slots: &mut Slots,
        mut sink: impl FnMut(SocketAddr, Bytes),
    ) -> io::Result<usize> {
        slots.prepare();
        let mut got = 0;
        while got < slots.buffers.len() {
            let b = &mut slots.buffers[got];
            b.resize(SLOT, 0);
            match socket.recv_from(b) {
                Ok((n, from)) => {
                    b.truncate(n);
                    let bytes = slots.take(got);
                    sink(from, bytes);
                    got += 1;
                }
                Err(e) => {
                    b.clear();
                    return if got == 0 { Err(e) } else { Ok(got) };
                }
            }
        }
        Ok(got)
    }
}

pub(crate) use imp::{receive, send};
