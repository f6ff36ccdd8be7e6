//! A connection to a running server: RESP2 over TCP or TLS.

use super::access::{Access, ServerAddress};
use super::reply::Reply;
use crate::cluster::members::names::Address;
use crate::config::certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{SockRef, TcpKeepalive};
use std::fmt::Display;
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// A server that does not answer for this long has gone.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// The interval of probes of a silent server.
const PROBED_EVERY: Duration = Duration::from_secs(15);
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
    socket: TcpStream,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Nothing answers there, or the server refuses; the text says it.
    pub fn connect(server: &ServerAddress) -> Result<Client, String> {
        let mut client = Client::open(server)?;
        // A user may need none.
        let given = password(&server.access)?;
        let hint = if given.is_none() { "; no password was given: see --help" } else { "" };
        let password = given.or(server.access.user.is_some().then(Vec::new));
        if let Some(password) = password {
            let user = server.access.user.as_deref().unwrap_or("default");
            let place = &server.place;
            let reply = client.ask(&[b"AUTH", user.as_bytes(), &password]);
            let reply = reply.map_err(|error| format!("{place}: {error}"))?;
            if let Some(text) = reply.error() {
                return Err(format!("{place}: {text}{hint}"));
            }
        }
        Ok(client)
    }

    /// Connects without logging in.
    ///
    /// # Errors
    /// Nothing answers there; the text says it.
    pub fn open(server: &ServerAddress) -> Result<Client, String> {
        let tls = tls_of(&server.access)?;
        let place = &server.place;
        let failed = |error: io::Error| format!("{place}: {error}");
        let socket = dial(place).map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("no server listens on {place}; `delayd` starts one")
            }
            _ => failed(error),
        })?;
        let own = socket.try_clone().map_err(failed)?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(own),
            Some(config) => {
                let name = server.access.sni.as_deref().unwrap_or(place.host()).to_owned();
                let name =
                    ServerName::try_from(name).map_err(|error| format!("{place}: {error}"))?;
                let session = ClientConnection::new(config, name)
                    .map_err(|error| format!("{place}: {error}"))?;
                Box::new(StreamOwned::new(session, own))
            }
        };
        Ok(Client { stream: BufReader::new(stream), socket })
    }

    /// Sets how long to wait for each piece of a reply, or for ever; half a minute by default.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(patience)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// The connection has ended, or the answer is not a reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.read()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let stream = self.stream.get_mut();
        stream.write_all(&bytes).and_then(|()| stream.flush()).map_err(in_words)
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// The connection has ended, or the answer is not a reply.
    pub fn read(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream).map_err(in_words)
    }
}

/// The system calls a timeout "resource temporarily unavailable".
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the server has not answered in time")
        }
        _ => error,
    }
}

fn dial(place: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (place.host(), place.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
            Ok(socket) => {
                socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
                socket.set_write_timeout(Some(ANSWERS_WITHIN))?;
                socket.set_nodelay(true)?;
                // If the server vanishes during a wait, that is noticed after a minute.
                let probes =
                    TcpKeepalive::new().with_time(PROBED_EVERY).with_interval(PROBED_EVERY);
                SockRef::from(&socket).set_tcp_keepalive(&probes.with_retries(3))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// From a file, or from the environment: other users of the machine can see the command line.
fn password(access: &Access) -> Result<Option<Vec<u8>>, String> {
    let Some(file) = &access.password_file else {
        let filled = |name| std::env::var_os(name).filter(|word| !word.is_empty());
        return Ok(PASSWORDS.iter().find_map(filled).map(|word| word.into_encoded_bytes()));
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

/// The environment variables for the password; the first one set counts.
const PASSWORDS: [&str; 2] = ["DELAYD_PASSWORD", "REDISCLI_AUTH"];

/// As redis-cli's options of the same names; none without `--tls`.
fn tls_of(access: &Access) -> Result<Option<Arc<ClientConfig>>, String> {
    let Some(authority) = &access.ca_cert_file else { return Ok(None) };
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
    let config = match (&access.cert_file, &access.key_file) {
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
