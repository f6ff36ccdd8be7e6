//! How a tool reaches a running server: its address, login and TLS.

use crate::cluster::members::names::Address;
use std::path::PathBuf;

/// A running server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerAddress {
    pub place: Address,
    pub access: Access,
}

/// Login and TLS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// The default one without it.
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Uses TLS: the accepted authority.
    pub ca_cert_file: Option<PathBuf>,
    /// The certificate for a server that asks for it, with its key.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate is for, if it is not its host's.
    pub sni: Option<String>,
}

impl Access {
    /// Takes an option with its value; false if it is not one of these.
    pub fn take(&mut self, option: &str, value: &str) -> bool {
        match option {
            "--user" => self.user = Some(value.to_owned()),
            "--sni" => self.sni = Some(value.to_owned()),
            "--password-file" => self.password_file = Some(value.into()),
            "--tls-ca-cert-file" => self.ca_cert_file = Some(value.into()),
            "--tls-cert-file" => self.cert_file = Some(value.into()),
            "--tls-key-file" => self.key_file = Some(value.into()),
            _ => return false,
        }
        true
    }

    /// Whether the options fit together.
    ///
    /// # Errors
    /// They do not; the text says which.
    pub fn check(&self) -> Result<(), String> {
        let needs_authority =
            self.cert_file.is_some() || self.key_file.is_some() || self.sni.is_some();
        if self.ca_cert_file.is_none() && needs_authority {
            return Err(
                "--tls-cert-file, --tls-key-file and --sni need --tls-ca-cert-file".to_owned()
            );
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            return Err("--tls-cert-file and --tls-key-file must be given together".to_owned());
        }
        Ok(())
    }
}
