//! A connection with a waiting thread.

use crate::cluster::peer::frame::{FrameKind, Inbox, PeerFrame, encode_sealed};
use crate::cluster::peer::seal::Sealer;
use crate::limits::{PEER_READ_BYTES, PEER_SILENT_US};
use crate::server::cluster::refusals::ConnectionTrouble;
use crate::server::cluster::socket::Socket;
use bytes::Bytes;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

pub struct BaseLine {
    socket: Socket,
    pub inbox: Inbox,
    pub sealer: Option<Sealer>,
    scratch: Box<[u8]>,
}

impl BaseLine {
    /// For a connection over which `inbox` has arrived. It ends if nothing arrives or leaves for [`PEER_SILENT_US`].
    pub fn new(socket: Socket, inbox: Inbox) -> io::Result<BaseLine> {
        let silent = Some(Duration::from_micros(PEER_SILENT_US));
        socket.tcp().set_read_timeout(silent)?;
        socket.tcp().set_write_timeout(silent)?;
        let scratch = vec![0; PEER_READ_BYTES].into_boxed_slice();
        Ok(BaseLine { socket, inbox, sealer: None, scratch })
    }

    /// Waits for more; it is in the inbox.
    pub fn read(&mut self) -> io::Result<()> {
        loop {
            match self.socket.read(&mut self.scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    self.inbox.receive(&self.scratch[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no data arrived for 10 s"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// The connection has ended, or the other node says why it refuses.
    pub fn frame(&mut self) -> Result<PeerFrame, ConnectionTrouble> {
        loop {
            match self.inbox.next_frame()? {
                Some(frame) if frame.kind == FrameKind::Refused => {
                    let text = String::from_utf8_lossy(&frame.head);
                    let text: String = text.chars().filter(|c| !c.is_control()).collect();
                    return Err(io::Error::other(format!("the other node refuses: {text}")).into());
                }
                Some(frame) => return Ok(frame),
                None => self.read()?,
            }
        }
    }

    /// Waits for a message of this many numbers.
    ///
    /// # Errors
    /// As of [`BaseLine::frame`]; it is another one.
    pub fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], ConnectionTrouble> {
        let frame = self.frame()?;
        let (chunks, rest) = frame.head.as_chunks::<8>();
        let numbers = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk));
        let numbers: Vec<u64> = numbers.collect();
        let numbers = numbers.try_into().ok().filter(|_: &[u64; COUNT]| rest.is_empty());
        let is_right = frame.kind == FrameKind::Message && frame.body.bytes() == 0;
        let wrong = || io::Error::other("a message of a base that cannot be read");
        Ok(numbers.filter(|_| is_right).ok_or_else(wrong)?)
    }

    /// Sends a message of numbers.
    pub fn tell(&mut self, numbers: &[u64]) -> io::Result<()> {
        let head: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.send(FrameKind::Message, &head, &[])
    }

    /// Sends a frame, and as many pieces as its bodies need.
    pub fn send(&mut self, kind: FrameKind, head: &[u8], bodies: &[Bytes]) -> io::Result<()> {
        let parts = encode_sealed(kind, head, bodies, &mut self.sealer);
        self.write(&parts.concat())
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)?;
        self.socket.flush()
    }
}
