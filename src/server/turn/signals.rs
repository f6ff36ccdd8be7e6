//! What signals ask for. SIGHUP: certificates and the ACL file are loaded again; an invalid one leaves the server as it
//! was. SIGTERM and SIGINT: an orderly stop, in the steps of `drain` to `end_bound`.

use crate::command::table::Face;
use crate::config::Config;
use crate::config::options::Name;
use crate::limits::ADVANCE_STEPS_PER_TURN;
use crate::server::admin::{config, users};
use crate::server::connection::client::Client;
use crate::server::turn::Turns;
use crate::session::Session;
use std::io;

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
                    users::tell_siblings(&self.core);
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

    /// Whether every reply has left and nothing is half done. What a leader that commits nothing has answered will not
    /// leave.
    pub fn is_drained(&self) -> bool {
        let is_stuck = self.stuck_us().is_some();
        let busy = |(slot, client): (u32, &Client)| {
            if is_stuck && !client.socket.midway && self.core.outputs.is_held(slot) {
                return false;
            }
            let holds =
                client.socket.relay.is_some() && self.core.outputs.of(slot).has_unsent_jobs();
            client.socket.midway || !self.core.outputs.of(slot).unsent.is_empty() || holds
        };
        !self.clients.iter().any(busy)
    }

    /// From here on no new command is taken, and clients that wait are let go.
    pub fn drain(&mut self) {
        self.draining = true;
        // A client of a stopping Sentinel should ask the next one at once; subscribers may still hear of the next
        // leader.
        let asks = |session: &Session| session.face() == Face::Sentinel && !session.is_subscribed();
        self.close_those(|core, (slot, client)| {
            let is_silent = core.outputs.of(slot).unsent.is_empty();
            core.outputs.of(slot).waiting || (is_silent && asks(&client.session))
        });
    }

    /// At an orderly stop: what the console has not handed on by now goes back.
    pub fn take_back(&mut self) {
        self.close_those(|core, (slot, client)| {
            client.socket.relay.is_some() && core.outputs.of(slot).has_unsent_jobs()
        });
    }

    /// At an orderly stop: leases that end with their connections end now, uncounted.
    pub fn end_bound(&mut self) -> io::Result<()> {
        if !self.core.standing.is_serving() {
            return Ok(());
        }
        // No client is held back by a pause any more.
        self.core.common.pauses.end();
        loop {
            self.core.set_flow();
            let now = self.core.clock.now;
            let (engine, mut turn) = self.core.engine();
            let done = engine.end_bound(now, ADVANCE_STEPS_PER_TURN, &mut turn);
            self.propose_leftovers();
            if done {
                return Ok(());
            }
        }
    }
}

fn has_certificates(config: &Config) -> bool {
    !config.text(Name::TlsCertFile).is_empty()
}
