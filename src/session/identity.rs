//! A connection's user, and the checks before each of its commands.

use crate::command::table::Face;
use crate::command::{self, CommandSpec, spec::Flag, spec::Group, table};
use crate::error::Error;
use crate::limits::WRONG_PASSWORDS_MAX;
use crate::pubsub::{PubSub, SubscriptionKind};
use crate::session::acl::log::{Context, DeniedEntry, Reason};
use crate::session::acl::selector::Denied;
use crate::session::acl::{Acl, User};
use crate::session::world::World;
use crate::session::{ClientLine, CommandPlace, Session};
use std::sync::Arc;

/// A client that has to log in first, and sends another command.
pub(super) const NO_AUTH: &str = "NOAUTH Authentication required.";

/// A connection's user.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) user: Arc<User>,
    /// It has logged in, or did not need to when it connected.
    authenticated: bool,
    /// A user without a password identifies no one: the connection came through the console, from any visitor.
    demands_password: bool,
    /// It has to log in first.
    locked: bool,
    /// Its commands are looked at before they run: it is locked, or its user may not do everything.
    guarded: bool,
    wrong_passwords: u8,
}

impl Identity {
    /// A fresh connection's.
    pub(super) fn new(acl: &Acl, demands_password: bool) -> Identity {
        let user = Arc::clone(acl.default_user());
        let authenticated = !acl.needs_password() && !demands_password;
        let mut identity = Identity {
            user,
            authenticated,
            demands_password,
            locked: false,
            guarded: false,
            wrong_passwords: 0,
        };
        identity.update_locks(acl);
        identity
    }

    fn update_locks(&mut self, acl: &Acl) {
        self.locked = !self.authenticated && (self.demands_password || acl.needs_password());
        self.guarded = self.locked || !self.user.is_unrestricted();
    }
}

impl Session {
    /// Whether it has to log in before anything else; its requests then have narrower limits.
    pub fn is_locked(&self) -> bool {
        self.identity.locked
    }

    pub fn user_name(&self) -> &[u8] {
        self.identity.user.name()
    }

    /// Its user, for a connection that goes on in its place.
    pub fn user(&self) -> Arc<User> {
        Arc::clone(&self.identity.user)
    }

    /// Goes on in place of a connection whose user was this; false if anything has been changed in it since.
    pub fn resume(&mut self, user: Arc<User>, acl: &Acl) -> bool {
        let is_same = acl.get(user.name()).is_some_and(|known| Arc::ptr_eq(known, &user));
        if is_same {
            (self.identity.user, self.identity.authenticated) = (user, true);
            self.identity.update_locks(acl);
        }
        is_same
    }

    /// Users have changed: from here on it has its user's new rules.
    pub fn take_up(&mut self, acl: &Acl) -> TakenUp {
        let Some(user) = acl.get(self.identity.user.name()) else { return TakenUp::Gone };
        let old = std::mem::replace(&mut self.identity.user, Arc::clone(user));
        self.identity.update_locks(acl);
        if Arc::ptr_eq(&old, user) { TakenUp::Same } else { TakenUp::Changed }
    }

    /// As [`Session::take_up`] for the running connection, which reads its reply before it closes.
    pub(super) fn take_up_own(&mut self, world: &mut dyn World) {
        self.closing |= match self.take_up(world.acl()) {
            TakenUp::Same => false,
            TakenUp::Changed => !self.keeps_channels(world.pubsub()),
            TakenUp::Gone => true,
        };
    }

    /// Whether its user may still use every channel and pattern that it has subscribed to, and see every
    /// command if it does.
    pub fn keeps_channels(&self, pubsub: &PubSub) -> bool {
        let user = &self.identity.user;
        let monitor = || table::find(b"monitor").expect("it stands in the table");
        if self.monitors && user.check(monitor(), &[b"MONITOR"]).is_err() {
            return false;
        }
        let is_free = self.face == Face::Sentinel || user.has_all_channels();
        if !self.is_subscribed() || is_free {
            return true;
        }
        [SubscriptionKind::Channel, SubscriptionKind::Pattern].into_iter().all(|kind| {
            let names = pubsub.subscriptions(self.id, kind);
            names.iter().all(|name| user.has_channel(name, kind == SubscriptionKind::Pattern))
        })
    }

    /// Why a command that it waits in may not go on; none if it may.
    pub fn denied_now(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Option<Denial> {
        let user = &self.identity.user;
        if !user.is_enabled() {
            let name = String::from_utf8_lossy(user.name());
            let (reason, object) = (Reason::Auth, spec.name.as_bytes().to_vec());
            return Some(Denial {
                reason,
                object,
                text: format!("NOPERM User {name} is disabled"),
            });
        }
        let denied = user.check(spec, args).err()?;
        let (reason, object) = denied.of(spec, args);
        let text = format!("NOPERM {}", denial_text(user, spec, denied, None));
        Some(Denial { reason, object: object.to_vec(), text })
    }

    /// RESET: as if just connected.
    pub(super) fn forget_user(&mut self, world: &mut dyn World) {
        let Identity { wrong_passwords, demands_password, .. } = self.identity;
        let fresh = Identity::new(world.acl(), demands_password);
        self.identity = Identity { wrong_passwords, ..fresh };
    }

    /// AUTH and HELLO: takes the user over if the password is right. The failed attempt is in the
    /// log, without the password.
    pub(super) fn authenticate(
        &mut self,
        name: &[u8],
        password: &[u8],
        word: &[u8],
        world: &mut dyn World,
    ) -> bool {
        let is_enough =
            |user: &Arc<User>| !(self.identity.demands_password && user.has_no_password());
        if let Some(user) = world.acl().authenticate(name, password).filter(is_enough) {
            (self.identity.user, self.identity.authenticated) = (user, true);
            self.identity.update_locks(world.acl());
            return true;
        }
        self.note_denial(Reason::Auth, word, name, world);
        let wrong = self.identity.wrong_passwords.saturating_add(1);
        self.identity.wrong_passwords = wrong;
        // Guessing costs a connection each time.
        self.closing |= wrong >= WRONG_PASSWORDS_MAX;
        false
    }

    /// Whether the command may run: the error if not. It checks only the words of the command, so it reveals nothing
    /// about the stored data. For most connections it costs one branch.
    pub(super) fn permit(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        place: CommandPlace,
        world: &mut dyn World,
    ) -> Result<(), Error> {
        if !self.identity.guarded {
            return Ok(());
        }
        if self.identity.locked && !spec.has(Flag::NoAuth) {
            return Err(Error::text(NO_AUTH));
        }
        if self.face.is_free(spec) {
            return Ok(());
        }
        let (spec, args) = self.face.stands_for(spec, args);
        let Err(denied) = self.identity.user.check(spec, args) else { return Ok(()) };
        // Mistakes in what is written come first.
        if place == CommandPlace::Alone
            && self.transaction.is_none()
            && spec.group == Group::Delay
            && let Err(error) = command::parse(spec, args, self.db)
        {
            return Err(error);
        }
        let (reason, object) = denied.of(spec, args);
        let user = Arc::clone(&self.identity.user);
        self.note_denial(reason, object, user.name(), world);
        Err(Error::text(match place {
            CommandPlace::Alone => format!("NOPERM {}", denial_text(&user, spec, denied, None)),
            CommandPlace::InExec => {
                let why = match denied {
                    Denied::Command => "no permission to execute the command or subcommand",
                    Denied::Key(_) => "no permission to touch the specified keys",
                    Denied::Channel(_) => {
                        "no permission to access one of the channels used as arguments to the command"
                    }
                };
                format!(
                    "NOPERM ACLs rules changed between the moment the transaction was accumulated \
                     and the EXEC call. This command is no longer allowed for the following reason: \
                     {why}"
                )
            }
        }))
    }

    fn note_denial(&mut self, reason: Reason, object: &[u8], user: &[u8], world: &mut dyn World) {
        let context = if self.transaction.is_some() || self.executing {
            Context::Multi
        } else {
            Context::TopLevel
        };
        world.note_denial(self, (reason, object), context, user);
    }
}

/// The effect on a session's user when users changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakenUp {
    /// It may do what it could before.
    Same,
    /// It has other rules.
    Changed,
    /// There is no such user any more: close the connection.
    Gone,
}

/// A denial of a waiting client's command.
#[derive(Clone, Debug)]
pub struct Denial {
    reason: Reason,
    object: Vec<u8>,
    pub text: String,
}

impl Denial {
    pub fn entry(&self, user: &[u8], line: &ClientLine, now_ms: u64) -> DeniedEntry {
        let denied = (self.reason, self.object.as_slice());
        DeniedEntry::new(denied, Context::TopLevel, user, line.to_string(), now_ms)
    }
}

impl Denied {
    /// The reason, and what it is about.
    fn of<'a>(self, spec: &'static CommandSpec, args: &[&'a [u8]]) -> (Reason, &'a [u8]) {
        match self {
            Denied::Command => (Reason::Command, spec.name.as_bytes()),
            Denied::Key(at) => (Reason::Key, args[at]),
            Denied::Channel(at) => (Reason::Channel, args[at]),
        }
    }
}

/// The text of ACL DRYRUN and of the error; only the former names the key or channel.
pub fn denial_text(
    user: &User,
    spec: &CommandSpec,
    denied: Denied,
    args: Option<&[&[u8]]>,
) -> String {
    let name = String::from_utf8_lossy(user.name());
    let shown = |args: &[&[u8]], at: usize| String::from_utf8_lossy(args[at]).into_owned();
    match (denied, args) {
        (Denied::Command, _) => {
            format!("User {name} has no permissions to run the '{}' command", spec.name)
        }
        (Denied::Key(at), Some(args)) => {
            format!("User {name} has no permissions to access the '{}' key", shown(args, at))
        }
        (Denied::Channel(at), Some(args)) => {
            format!("User {name} has no permissions to access the '{}' channel", shown(args, at))
        }
        (Denied::Key(_), None) => "No permissions to access a key".to_owned(),
        (Denied::Channel(_), None) => "No permissions to access a channel".to_owned(),
    }
}
