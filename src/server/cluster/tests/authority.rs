//! An authority for certificates, in a folder that is removed at the end.

use crate::config::Config;
use crate::server::cluster::peer_tls::PeerTls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("delayd-authority-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// The keys of a node with a certificate from this authority, for some name.
    pub fn tls(&self) -> PeerTls {
        self.tls_that_trusts(self)
    }

    /// For a node that accepts certificates of another authority.
    pub fn tls_that_trusts(&self, other: &Authority) -> PeerTls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["a-name-that-no-node-has".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |of: &Authority, name: &str| of.folder.join(name).to_str().unwrap().to_owned();
        let files = [path(self, "node.crt"), path(self, "node.key"), path(other, "ca.crt")];
        std::fs::write(&files[0], certificate.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        let mut config = Config::default();
        config.set("tls-cluster", &["yes".to_owned()]).unwrap();
        for (option, file) in
            ["tls-cert-file", "tls-key-file", "tls-ca-cert-file"].iter().zip(files)
        {
            config.set(option, &[file]).unwrap();
        }
        PeerTls::of(&config).unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
