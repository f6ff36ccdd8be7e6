//! The socket of a connection between nodes: as it is, or under TLS.

use crate::server::cluster::peer_tls::PeerTls;
use rustls::{ClientConnection, Connection as Session, ServerConnection};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// See the module. It blocks if its TCP connection does.
#[derive(Debug)]
pub enum Socket {
    /// Bytes as they are.
    Plain(TcpStream),
    Tls(Box<Sealed>),
}

/// A TLS session over a connection of TCP.
#[derive(Debug)]
pub struct Sealed {
    tcp: TcpStream,
    session: Session,
}

impl Socket {
    /// For an accepted connection.
    ///
    /// # Errors
    /// The certificates do not do.
    pub fn accepted(tls: &PeerTls, tcp: TcpStream) -> io::Result<Socket> {
        let Some(keys) = tls.keys() else { return Ok(Socket::Plain(tcp)) };
        let session = ServerConnection::new(keys.server).map_err(io::Error::other)?;
        Ok(Socket::Tls(Box::new(Sealed { tcp, session: session.into() })))
    }

    /// For a connection to a node of this name.
    ///
    /// # Errors
    /// As [`Socket::accepted`].
    pub fn dialled(tls: &PeerTls, tcp: TcpStream) -> io::Result<Socket> {
        let Some(keys) = tls.keys() else { return Ok(Socket::Plain(tcp)) };
        // The name in the certificate is not checked, as with Redis: the handshake after this one identifies the peer.
        let ip = tcp.peer_addr().map_or([0, 0, 0, 0].into(), |address| address.ip());
        let session = ClientConnection::new(keys.client, ip.into()).map_err(io::Error::other)?;
        Ok(Socket::Tls(Box::new(Sealed { tcp, session: session.into() })))
    }

    /// The connection below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(sealed) => &sealed.tcp,
        }
    }

    /// Whether there may be more though a read brought less than there was room for: one brings a record at most.
    pub fn may_have_more(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Whether it accepts data to write: not before a handshake is over.
    pub fn takes(&self) -> bool {
        match self {
            Socket::Plain(_) => true,
            Socket::Tls(sealed) => !sealed.session.is_handshaking(),
        }
    }

    /// Whether it has something that was not sent.
    pub fn holds(&self) -> bool {
        match self {
            Socket::Plain(_) => false,
            Socket::Tls(sealed) => sealed.session.wants_write(),
        }
    }
}

impl Sealed {
    /// Takes in what has come, and sends what follows from it.
    fn take_in(&mut self) -> io::Result<()> {
        if self.session.read_tls(&mut self.tcp)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let processed = self.session.process_new_packets();
        // The error is sent as well, if there is space.
        let sent = self.send();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, told(&error)))?;
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Sends all that is encrypted.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.tcp)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Before anything is encrypted: the handshake is over, and what was encrypted before has left.
    fn make_way(&mut self) -> io::Result<()> {
        self.send()?;
        while self.session.is_handshaking() {
            self.take_in()?;
            self.send()?;
        }
        Ok(())
    }

    /// Encrypted data that does not leave at once leaves with the next write.
    fn sent(&mut self, bytes: usize) -> io::Result<usize> {
        match self.send() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(bytes),
        }
    }
}

fn told(error: &rustls::Error) -> String {
    use rustls::{Error, InvalidMessage};
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS: tls-cluster must be the same on all nodes".to_owned()
        }
        error => format!("TLS: {error}"),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let sealed = match self {
            Socket::Plain(tcp) => return tcp.read(bytes),
            Socket::Tls(sealed) => sealed,
        };
        loop {
            match sealed.session.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => sealed.take_in()?,
                other => return other,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Encrypts as much as its buffer takes, of 64 KiB: data reported as written may leave later.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Plain(tcp) => tcp.write_vectored(parts),
            Socket::Tls(sealed) => {
                sealed.make_way()?;
                let bytes = sealed.session.writer().write_vectored(parts)?;
                sealed.sent(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Plain(tcp) => tcp.flush(),
            Socket::Tls(sealed) => sealed.send(),
        }
    }
}
