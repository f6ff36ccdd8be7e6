//! The limits on commands in a transaction that do not ask the engine: how much they may read and
//! reply.
//!
//! Commands that only show something are run beforehand, with their reply discarded: it is as long then. Commands
//! before them can make it longer by no more than their own replies.

use super::Parsed;
use crate::command::spec::action::{Action, Clients, Connection, PubSub, ServerRequest, Users};
use crate::engine::decide::transaction::Needs;
use crate::error::Error;
use crate::limits::CHANNEL_BYTES_MAX;
use crate::session::world::World;
use crate::session::{CommandPlace, Session};

/// The reply to a command that answers a word, a number or an error, bytes.
const SHORT_BYTES: u64 = 1024;
/// The most that a client's byte may take when it is shown, as `\\xff`.
const SHOWN_BYTES: u64 = 4;

impl Session {
    /// How much those commands may read and reply, all together. An error if that alone is too much.
    pub(in crate::session) fn measure(
        &mut self,
        commands: &[Parsed<'_>],
        world: &mut dyn World,
    ) -> Result<Needs, Error> {
        let (mut needs, mut said, mut subscribed) = (Needs::default(), 0, 0);
        for command in commands {
            let Ok(action) = &command.action else {
                needs.add(1, SHORT_BYTES);
                continue;
            };
            if let Action::Engine(_)
            | Action::AllQueues(_)
            | Action::Probe(..)
            | Action::Server(ServerRequest::RandomQueue(_)) = action
            {
                continue;
            }
            // Before it is measured: showing ten thousand clients takes its time.
            needs.add(world.cost(action), 0);
            needs.check()?;
            let bytes = match action {
                Action::Connection(Connection::Ping(None)) => SHORT_BYTES,
                Action::Connection(Connection::Ping(Some(text)) | Connection::Echo(text)) => {
                    SHORT_BYTES + text.len() as u64
                }
                // Each is confirmed.
                Action::PubSub(PubSub::Subscribe(_, names) | PubSub::Unsubscribe(_, names)) => {
                    subscribed += names.len() as u64;
                    let all = self.subscriptions.iter().sum::<usize>() as u64 + subscribed;
                    let count = if names.is_empty() { all } else { names.len() as u64 };
                    SHORT_BYTES + count * (CHANNEL_BYTES_MAX as u64 + 64)
                }
                action if only_shows(action) => {
                    SHORT_BYTES + said * SHOWN_BYTES + self.shown_bytes(command, action, world)
                }
                _ => {
                    let words = command.args.iter().map(|word| word.len() as u64).sum::<u64>();
                    said += words;
                    SHORT_BYTES + words * SHOWN_BYTES
                }
            };
            needs.add(0, bytes);
            needs.check()?;
        }
        Ok(needs)
    }

    /// The length of a reply that only shows something.
    fn shown_bytes(
        &mut self,
        command: &Parsed<'_>,
        action: &Action<'_>,
        world: &mut dyn World,
    ) -> u64 {
        let muted = self.muted;
        self.measuring = true;
        self.mute(true, world);
        let before = world.replied_bytes(self.id);
        self.act((command.spec, command.args), action.clone(), CommandPlace::InExec, world);
        let bytes = world.replied_bytes(self.id) - before;
        self.mute(muted, world);
        self.measuring = false;
        bytes
    }
}

/// Whether the command changes nothing, so that it may run twice.
fn only_shows(action: &Action<'_>) -> bool {
    match action {
        Action::Commands(_) | Action::Clients(Clients::List(_)) => true,
        Action::Connection(what) => matches!(
            what,
            Connection::GetName
                | Connection::Id
                | Connection::Info
                | Connection::GetRedir
                | Connection::TrackingInfo
        ),
        Action::PubSub(what) => {
            matches!(what, PubSub::Channels { .. } | PubSub::Counts { .. } | PubSub::PatternCount)
        }
        Action::Users(what) => matches!(
            what,
            Users::Categories(_)
                | Users::DryRun { .. }
                | Users::Show(_)
                | Users::List
                | Users::Log(_)
                | Users::Names
                | Users::WhoAmI
        ),
        Action::Server(what) => matches!(
            what,
            ServerRequest::ConfigGet(_)
                | ServerRequest::Info(_)
                | ServerRequest::SlowlogGet(_)
                | ServerRequest::SlowlogLen
                | ServerRequest::Latency(_)
                | ServerRequest::MemoryStats
                | ServerRequest::Fixed(_)
                | ServerRequest::Time
                | ServerRequest::LastSave
                | ServerRequest::Role
                | ServerRequest::ScanNothing
        ),
        _ => false,
    }
}
