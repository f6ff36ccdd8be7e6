//! TLS over TCP: what the options say, and one connection's records.

use crate::config::options::Name;
use crate::config::{self, Config};
use crate::limits::{TLS_RECORD_BYTES, TLS_WRITE_BYTES};
use bytes::BytesMut;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion, version};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

/// A TLS connection after its handshake.
#[derive(Debug)]
pub struct Tls {
    socket: TcpStream,
    session: ServerConnection,
    /// Bytes that are encrypted and not yet wholly in the kernel's hands.
    sending: usize,
}

impl Tls {
    /// `session` has done its handshake over `socket`.
    pub fn new(socket: TcpStream, session: ServerConnection) -> Tls {
        Tls { socket, session, sending: 0 }
    }

    /// The connection below.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Bytes held for it: the session, a record that is being read, and what is being sent.
    pub fn held_bytes(&self) -> usize {
        size_of::<Tls>() + TLS_RECORD_BYTES + self.sending
    }

    /// As [`Stream::poll_read`](crate::server::connection::stream::Stream::poll_read).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.session.reader().fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len();
                    input.extend_from_slice(bytes);
                    self.session.reader().consume(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a close_notify: still the end, as with plain TCP.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.socket.poll_read_ready(cx))?;
            match self.session.read_tls(&mut Kernel(&self.socket)) {
                Ok(0) => return Poll::Ready(Ok(0)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            let processed = self.session.process_new_packets();
            // An answer to the records, such as an alert: it leaves now or with the next reply.
            if self.session.wants_write() {
                let _ = self.session.write_tls(&mut Kernel(&self.socket));
            }
            if let Err(error) = processed {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }

    /// As [`Stream::poll_write`](crate::server::connection::stream::Stream::poll_write). A piece is reported once all of its
    /// records are in the kernel's hands, so that what a reply hands over is not taken for sent while
    /// it lies in a buffer of ours.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.sending == 0 {
                let piece = &bytes[..bytes.len().min(TLS_WRITE_BYTES)];
                self.sending = self.session.writer().write(piece)?;
            }
            while self.session.wants_write() {
                ready!(self.socket.poll_write_ready(cx))?;
                match self.session.write_tls(&mut Kernel(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            // None: there was no room before the records of others had left.
            match mem::take(&mut self.sending) {
                0 if !bytes.is_empty() => {}
                count => return Poll::Ready(Ok(count)),
            }
        }
    }
}

impl Tls {
    /// As [`Stream::farewell`](crate::server::connection::stream::Stream::farewell).
    pub fn farewell(&mut self, text: &[u8]) {
        let _ = self.session.writer().write(text);
        let _ = self.session.write_tls(&mut AtOnce(self.socket.as_fd()));
    }
}

impl Drop for Tls {
    /// Sends a close_notify, so that the peer can tell the end from a cut.
    fn drop(&mut self) {
        self.session.send_close_notify();
        let _ = self.session.write_tls(&mut AtOnce(self.socket.as_fd()));
    }
}

/// The socket without asking first whether it takes anything.
struct AtOnce<'a>(BorrowedFd<'a>);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The socket as rustls wants it: it never waits.
struct Kernel<'a>(&'a TcpStream);

impl Read for Kernel<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Kernel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The certificates for connections, by the options; none without a `tls-port`.
///
/// # Errors
/// A file is missing or holds something else, or the options do not fit together: which and why.
pub fn server_config(config: &Config) -> Result<Option<Arc<ServerConfig>>, String> {
    if config.number(Name::TlsPort) == 0 {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = client_verifier(config, &provider)?;
    let (chain, key) = certificate(config, "tls-port is")?;
    let broken = |error: rustls::Error| error.to_string();
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(config.text(Name::TlsProtocols))?)
        .map_err(broken)?;
    let mut tls = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    }
    .with_single_cert(chain, key)
    .map_err(wrong_certificate)?;
    tls.ignore_client_order = config.flag(Name::TlsPreferServerCiphers);
    if config.flag(Name::TlsSessionCaching) {
        tls.session_storage =
            ServerSessionMemoryCache::new(config.size(Name::TlsSessionCacheSize).max(1));
    } else {
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
    }
    Ok(Some(Arc::new(tls)))
}

/// The certificates for browsers of the console; none if it speaks plain HTTP. They are not asked for a certificate.
///
/// # Errors
/// As of [`server_config`].
pub fn console_config(config: &Config) -> Result<Option<Arc<ServerConfig>>, String> {
    let wanted = match config.text(Name::ConsoleTls) {
        "yes" => true,
        "no" => false,
        _ => config.number(Name::TlsPort) > 0,
    };
    if !wanted || config.number(Name::ConsolePort) == 0 {
        return Ok(None);
    }
    let (chain, key) = certificate(config, "the console speaks TLS")?;
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&versions(config.text(Name::TlsProtocols))?)
        .map_err(|error: rustls::Error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(wrong_certificate)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(tls)))
}

/// The accepted authorities; none: clients are not asked for a certificate.
fn client_verifier(
    config: &Config,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let asked = config.text(Name::TlsAuthClients);
    if asked == "no" {
        return Ok(None);
    }
    let roots = roots(config, "tls-auth-clients is yes or optional")?;
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    if asked == "optional" {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map(Some).map_err(|error| format!("tls-ca-cert-file: {error}"))
}

/// The accepted authorities, by the options; `needed` says why they must be set.
///
/// # Errors
/// None are accepted; a file is missing or has other content.
pub fn roots(config: &Config, needed: &str) -> Result<Arc<RootCertStore>, String> {
    let (file, folder) = (config.text(Name::TlsCaCertFile), config.text(Name::TlsCaCertDir));
    if file.is_empty() && folder.is_empty() {
        return Err(format!(
            "tls-ca-cert-file or tls-ca-cert-dir must be set when {needed}: it names the accepted certificates"
        ));
    }
    let mut roots = RootCertStore::empty();
    if !file.is_empty() {
        for certificate in certificates(file, "tls-ca-cert-file", needed)? {
            roots.add(certificate).map_err(|error| format!("tls-ca-cert-file {file}: {error}"))?;
        }
    }
    if !folder.is_empty() {
        for path in files_of(folder)? {
            let found = certificates(&path.to_string_lossy(), "tls-ca-cert-dir", needed)
                .unwrap_or_default();
            roots.add_parsable_certificates(found);
        }
    }
    if roots.is_empty() {
        return Err(format!("tls-ca-cert-dir {folder}: no file in it contains a certificate"));
    }
    Ok(Arc::new(roots))
}

/// The server's certificate and key; `needed` says why both must be set.
///
/// # Errors
/// A file is missing or holds something else.
pub fn certificate(
    config: &Config,
    needed: &str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(config.text(Name::TlsCertFile), "tls-cert-file", needed)?;
    let key_path = config.text(Name::TlsKeyFile);
    if key_path.is_empty() {
        return Err(format!("tls-key-file must be set when {needed}"));
    }
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| {
        format!(
            "tls-key-file {key_path}: no private key ({error}); an encrypted one cannot be read"
        )
    })?;
    Ok((chain, key))
}

/// Why certificate and key are refused.
pub fn wrong_certificate(error: rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "tls-key-file: the key does not belong to the certificate in tls-cert-file".to_owned()
        }
        error => format!("tls-cert-file: {error}"),
    }
}

fn certificates(
    path: &str,
    option: &str,
    needed: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    if path.is_empty() {
        return Err(format!("{option} must be set when {needed}"));
    }
    config::certificates(option, Path::new(path))
}

fn files_of(folder: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("tls-ca-cert-dir {folder}: {error}");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Redis's words; without any, all that are safe.
pub fn versions(words: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for word in words.split_ascii_whitespace() {
        let version = match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => &version::TLS12,
            "tlsv1.3" => &version::TLS13,
            _ => {
                return Err(format!(
                    "tls-protocols {words}: {word} is not one of TLSv1.2, TLSv1.3"
                ));
            }
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    if versions.is_empty() {
        versions = vec![&version::TLS12, &version::TLS13];
    }
    Ok(versions)
}
