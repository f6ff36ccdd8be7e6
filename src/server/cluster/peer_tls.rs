//! TLS between nodes: each shows a certificate, and takes those that the same authority has signed.

use crate::config::Config;
use crate::config::options::Name;
use crate::server::connection::tls;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
};
use std::sync::{Arc, PoisonError, RwLock};

/// The encryption of connections between nodes; nothing without it. All copies are one: a new value applies to every
/// later connection.
#[derive(Clone, Debug, Default)]
pub struct PeerTls(Arc<RwLock<Option<TlsConfigs>>>);

/// Both ends of a handshake.
#[derive(Clone, Debug)]
pub struct TlsConfigs {
    /// For the calling side.
    pub client: Arc<ClientConfig>,
    /// For the called side.
    pub server: Arc<ServerConfig>,
}

impl PeerTls {
    /// As the options say.
    ///
    /// # Errors
    /// As [`keys`].
    pub fn of(config: &Config) -> Result<PeerTls, String> {
        Ok(PeerTls(Arc::new(RwLock::new(keys(config)?))))
    }

    /// From here on these.
    pub fn set(&self, keys: Option<TlsConfigs>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Those of a connection that begins now.
    pub fn keys(&self) -> Option<TlsConfigs> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The keys by the options; none without `tls-cluster`.
///
/// # Errors
/// A file is missing or holds something else: which and why.
pub fn keys(config: &Config) -> Result<Option<TlsConfigs>, String> {
    if !config.flag(Name::TlsCluster) {
        return Ok(None);
    }
    const NEEDED: &str = "tls-cluster is yes";
    let roots = tls::roots(config, NEEDED)?;
    let (chain, key) = tls::certificate(config, NEEDED)?;
    let versions = tls::versions(config.text(Name::TlsProtocols))?;
    let provider = Arc::new(ring::default_provider());
    let broken = |error: Error| format!("tls-cert-file: {error}");
    let callers =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let callers = callers.build().map_err(|error| format!("tls-ca-cert-file: {error}"))?;
    let called = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let called = called.build().map_err(|error| format!("tls-ca-cert-file: {error}"))?;
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(broken)?
        .with_client_cert_verifier(callers);
    let mut server =
        server.with_single_cert(chain.clone(), key.clone_key()).map_err(tls::wrong_certificate)?;
    // Nodes stay connected.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(broken)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(called)))
        .with_client_auth_cert(chain, key)
        .map_err(tls::wrong_certificate)?;
    Ok(Some(TlsConfigs { client: Arc::new(client), server: Arc::new(server) }))
}

/// Accepts any certificate that the authority has signed, for any name: nodes are listed by addresses that change, and
/// identify themselves in a handshake of their own.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // It is looked at last, when all else was found right.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
