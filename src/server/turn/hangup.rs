//! SIGHUP: certificates and the ACL file are loaded again. An invalid one leaves the server as it was.

use crate::config::Config;
use crate::config::options::Name;
use crate::server::admin::{config, users};
use crate::server::turn::Turns;

impl Turns {
    /// Reads them if a signal asked for it. There is no log file to reopen: the log goes to stderr.
    pub(super) fn heed_hangup(&mut self) {
        if !std::mem::take(&mut self.hung_up) {
            return;
        }
        let mut read = Vec::new();
        if has_certificates(&self.core.options.config) {
            let config = &self.core.options.config;
            match config::read_certificates(&mut self.core.users, config) {
                Ok(()) => read.push("certificates"),
                Err(why) => tracing::error!("SIGHUP: the certificates stay as they were: {why}"),
            }
        }
        if !self.core.options.config.text(Name::AclFile).is_empty() {
            match users::reload(&mut self.core) {
                Ok(()) => {
                    let gone = users::take_up_each(&mut self.core, &mut self.clients);
                    gone.into_iter().for_each(|(slot, _)| self.close(slot));
                    read.push("aclfile");
                }
                Err(why) => tracing::error!("SIGHUP: the users stay as they were: {why}"),
            }
        }
        match read.is_empty() {
            true => tracing::info!("SIGHUP: nothing was reloaded"),
            false => tracing::info!("SIGHUP: reloaded: {}", read.join(", ")),
        }
    }
}

fn has_certificates(config: &Config) -> bool {
    !config.text(Name::TlsCertFile).is_empty()
}
