//! A connection to a running server: RESP2 over TCP, over TLS or over a socket of this machine.

use super::args::Server;
use crate::cluster::names::Address;
use crate::config::pem::certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// A server that does not answer for so long has gone.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// No reply that is asked for here has more bytes, or items.
const REPLY_BYTES_MAX: usize = 16 << 20;
const REPLY_ITEMS_MAX: usize = 1_000;
/// Replies within replies.
const REPLY_DEPTH_MAX: u32 = 4;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A simple string, or a bulk string.
    Text(Vec<u8>),
    /// An integer.
    Number(i64),
    /// Replies.
    Array(Vec<Reply>),
    /// Why the server refuses.
    Error(String),
}

impl Reply {
    /// The value after this name in a map.
    pub fn field(&self, name: &str) -> &Reply {
        let Reply::Array(items) = self else { return &Reply::Nil };
        let found = items.chunks(2).find(|pair| pair[0] == Reply::Text(name.into()));
        found.and_then(|pair| pair.get(1)).unwrap_or(&Reply::Nil)
    }

    /// A number that is not negative.
    pub fn number(&self) -> Option<u64> {
        match self {
            Reply::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// See the module.
pub struct Client(BufReader<Box<dyn Stream>>);

impl Client {
    /// Connects, and says who it is.
    ///
    /// # Errors
    /// Nothing answers there, or the server refuses; the text says it.
    pub fn connect(server: &Server) -> Result<Client, String> {
        let tls = tls_of(server)?;
        let place = &server.place;
        let failed = |error: io::Error| format!("{place}: {error}");
        let socket = dial(place).map_err(failed)?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(socket),
            Some(config) => {
                let name = server.sni.as_deref().unwrap_or(place.host()).to_owned();
                let name =
                    ServerName::try_from(name).map_err(|error| format!("{place}: {error}"))?;
                let session = ClientConnection::new(config, name)
                    .map_err(|error| format!("{place}: {error}"))?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        let mut client = Client(BufReader::new(stream));
        if let Some(password) = password(server)? {
            let user = server.user.as_deref().unwrap_or("default");
            let reply = client.ask(&[b"AUTH", user.as_bytes(), &password]).map_err(failed)?;
            if let Reply::Error(text) = reply {
                return Err(format!("{place}: {text}"));
            }
        }
        Ok(client)
    }

    /// Says a command and waits for its reply.
    ///
    /// # Errors
    /// The connection has ended, or what came is no reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)?;
        self.0.get_mut().flush()?;
        reply(&mut self.0, REPLY_DEPTH_MAX)
    }
}

fn reply(from: &mut impl BufRead, depth: u32) -> io::Result<Reply> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "what came is no reply of RESP2");
    let mut line = Vec::new();
    from.take(REPLY_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the server closed the connection",
        ));
    }
    let line = line.strip_suffix(b"\r\n").ok_or_else(broken)?;
    let (kind, rest) = line.split_first().ok_or_else(broken)?;
    let text = || String::from_utf8_lossy(rest).into_owned();
    let number = || text().parse::<i64>().map_err(|_| broken());
    let count = |most: usize| {
        let count = number()?;
        if count == -1 {
            return Ok(None);
        }
        usize::try_from(count).ok().filter(|count| *count <= most).map(Some).ok_or_else(broken)
    };
    Ok(match kind {
        b'+' => Reply::Text(rest.to_vec()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Number(number()?),
        b'$' => match count(REPLY_BYTES_MAX)? {
            None => Reply::Nil,
            Some(length) => {
                let mut bytes = vec![0; length + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Text(bytes)
            }
        },
        b'*' => match count(REPLY_ITEMS_MAX)?.filter(|_| depth > 0) {
            None => Reply::Nil,
            Some(count) => {
                let items = (0..count).map(|_| reply(from, depth - 1));
                Reply::Array(items.collect::<io::Result<_>>()?)
            }
        },
        _ => return Err(broken()),
    })
}

fn dial(place: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (place.host(), place.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
            Ok(socket) => {
                socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
                socket.set_write_timeout(Some(ANSWERS_WITHIN))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// From a file, or from the environment: what stands on a command line is seen by other users of the machine.
fn password(server: &Server) -> Result<Option<Vec<u8>>, String> {
    let Some(file) = &server.password_file else {
        let found = std::env::var_os(PASSWORD);
        return Ok(found.map(|word| word.into_encoded_bytes()).filter(|word| !word.is_empty()));
    };
    let name = file.display();
    let text = std::fs::read(file).map_err(|error| format!("--password-file {name}: {error}"))?;
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let password = first.strip_suffix(b"\r").unwrap_or(first);
    if password.is_empty() {
        return Err(format!("--password-file {name}: its first line is empty"));
    }
    Ok(Some(password.to_vec()))
}

/// The variable of the environment that has the password.
pub const PASSWORD: &str = "DELAYD_PASSWORD";

/// As redis-cli's options of the same names; none without `--tls`.
fn tls_of(server: &Server) -> Result<Option<Arc<ClientConfig>>, String> {
    let Some(authority) = &server.ca_cert_file else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--tls-ca-cert-file", authority)? {
        let wrong = |error| format!("--tls-ca-cert-file {}: {error}", authority.display());
        roots.add(certificate).map_err(wrong)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match (&server.cert_file, &server.key_file) {
        (Some(cert), Some(key)) => {
            let chain = certificates("--tls-cert-file", cert)?;
            let wrong = |error: &dyn Display| format!("--tls-key-file {}: {error}", key.display());
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(&error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Reply> {
        reply(&mut &bytes[..], REPLY_DEPTH_MAX)
    }

    #[test]
    fn replies_are_read_and_what_is_none_is_refused() {
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(read(b"+OK\r\n").unwrap(), text("OK"));
        assert_eq!(read(b"-ERR no\r\n").unwrap(), Reply::Error("ERR no".to_owned()));
        assert_eq!(read(b"$-1\r\n").unwrap(), Reply::Nil);
        let map = read(b"*4\r\n$1\r\na\r\n:7\r\n$1\r\nb\r\n$2\r\n\r\n\r\n").unwrap();
        assert_eq!((map.field("a").number(), map.field("b")), (Some(7), &text("\r\n")));
        assert_eq!((map.field("c"), map.field("b").number()), (&Reply::Nil, None));
        for wrong in [
            &b""[..],
            b"+OK",
            b"%1\r\n",
            b"$5\r\nab\r\n",
            b"$99999999999\r\n",
            b":x\r\n",
            b"*-2\r\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        // Nothing is taken to be deeper than a reply can be.
        assert!(read(&b"*1\r\n".repeat(99)).is_ok_and(|reply| reply != Reply::Nil));
    }
}
