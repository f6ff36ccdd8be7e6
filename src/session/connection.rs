//! Commands about the own connection.

use crate::command::spec::action::{Connection, Hello, ReplyMode};
use crate::command::table::Face;
use crate::ids::Db;
use crate::resp::Protocol;
use crate::session::world::{Admin, World};
use crate::session::{CommandStep, Session, acl, hash_slots};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

const HELLO_NEEDS_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, \
    otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
    select the RESP protocol version at the same time";

impl Session {
    pub(super) fn connection(
        &mut self,
        what: Connection<'_>,
        world: &mut dyn World,
    ) -> CommandStep {
        // The others may change its words.
        self.introduced &= matches!(what, Connection::Select(_));
        match what {
            Connection::Hello(hello) => return self.hello(hello, world),
            Connection::Auth { user, password } => return self.auth(user, password, world),
            Connection::Select(db) => self.db = db,
            Connection::ReadOnly(_) | Connection::Asking if !world.obstacles().clustered => {
                return self.fail(hash_slots::OFF, world);
            }
            Connection::ReadOnly(on) => self.reads_followers = on,
            Connection::Asking => {}
            Connection::SetName(name) => self.name = name.to_vec(),
            Connection::SetLibName(name) => self.lib_name = name.to_vec(),
            Connection::SetLibVersion(version) => self.lib_version = version.to_vec(),
            Connection::NoEvict(on) => self.no_evict = on,
            Connection::NoTouch(on) => self.no_touch = on,
            Connection::TrackingOff => {}
            Connection::Reply(mode) => return self.choose_replies(mode, world),
            Connection::Reset => return self.reset(world),
            Connection::Quit => {
                self.ok(world);
                return CommandStep::Close;
            }
            Connection::Info => return self.serve(Admin::OwnLine, world),
            shown => {
                self.show(shown, world);
                return CommandStep::Done;
            }
        }
        self.ok(world)
    }

    fn show(&mut self, what: Connection<'_>, world: &mut dyn World) {
        let as_message = self.pongs_as_message();
        let mut out = world.encoder(self.id);
        match what {
            Connection::Ping(message) if as_message => {
                out.array(2);
                out.bulk(b"pong");
                out.bulk(message.unwrap_or_default());
            }
            Connection::Ping(None) => out.simple("PONG"),
            Connection::Ping(Some(message)) | Connection::Echo(message) => out.bulk(message),
            Connection::GetName if self.name.is_empty() => out.null(),
            Connection::GetName => out.bulk(&self.name),
            Connection::Id => out.integer(self.id.0 as i64),
            Connection::GetRedir => out.integer(-1),
            Connection::TrackingInfo => {
                out.map(3);
                out.field("flags").set(1);
                out.bulk(b"off");
                out.field("redirect").integer(-1);
                out.field("prefixes").array(0);
            }
            // All others are no questions.
            _ => out.ok(),
        }
    }

    fn auth(&mut self, user: Option<&[u8]>, password: &[u8], world: &mut dyn World) -> CommandStep {
        if user.is_none() && world.acl().default_user().has_no_password() {
            let text = "ERR AUTH <password> called without any password configured for the default \
                        user. Are you sure your configuration is correct?";
            return self.fail(text, world);
        }
        if !self.authenticate(user.unwrap_or(acl::DEFAULT), password, b"AUTH", world) {
            self.note_failed_login();
            return self.fail(WRONG_PASSWORD, world);
        }
        match self.check_login() {
            Ok(()) => self.ok(world),
            Err(error) => self.fail(&error.to_string(), world),
        }
    }

    /// Nothing is changed by a HELLO that fails; the reply is in the protocol it chose.
    fn hello(&mut self, hello: Hello<'_>, world: &mut dyn World) -> CommandStep {
        if let Some((user, password)) = hello.auth {
            if !self.authenticate(user, password, b"HELLO", world) {
                self.note_failed_login();
                return self.fail(WRONG_PASSWORD, world);
            }
            if let Err(error) = self.check_login() {
                return self.fail(&error.to_string(), world);
            }
        }
        if self.is_locked() {
            return self.fail(HELLO_NEEDS_AUTH, world);
        }
        if let Some(name) = hello.name {
            self.name = name.to_vec();
        }
        if let Some(protocol) = hello.protocol {
            self.speak(protocol, world);
        }
        let version = match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        let mode: &[u8] = if world.obstacles().clustered { b"cluster" } else { b"standalone" };
        let role: &[u8] = if world.is_replica() { b"replica" } else { b"master" };
        let mut out = world.encoder(self.id);
        out.map(if self.face == Face::Data { 7 } else { 6 });
        out.field("server").bulk(b"redis");
        out.field("version").bulk(crate::REDIS_VERSION.as_bytes());
        out.field("proto").integer(version);
        out.field("id").integer(self.id.0 as i64);
        out.field("mode");
        match self.face {
            Face::Data => {
                out.bulk(mode);
                out.field("role").bulk(role);
            }
            Face::Sentinel => out.bulk(b"sentinel"),
        }
        out.field("modules").array(0);
        CommandStep::Done
    }

    /// As new, except for the number and the library's name.
    fn reset(&mut self, world: &mut dyn World) -> CommandStep {
        self.transaction = None;
        self.unwatch(world);
        self.forget_subscriptions(world);
        self.db = Db(0);
        self.name = Vec::new();
        self.no_evict = false;
        self.no_touch = false;
        self.reads_followers = false;
        self.replies = ReplyMode::On;
        self.replies_chosen = true;
        self.mute(false, world);
        self.speak(Protocol::Resp2, world);
        world.release(self.id);
        self.forget_user(world);
        world.encoder(self.id).simple("RESET");
        CommandStep::Done
    }

    fn choose_replies(&mut self, mode: ReplyMode, world: &mut dyn World) -> CommandStep {
        self.replies_chosen = true;
        match mode {
            ReplyMode::On => {
                self.replies = ReplyMode::On;
                self.mute(false, world);
                self.ok(world);
            }
            ReplyMode::Off => self.replies = ReplyMode::Off,
            // There is nothing to skip while it is off.
            ReplyMode::Skip if self.replies == ReplyMode::Off => {}
            ReplyMode::Skip => self.replies = ReplyMode::Skip,
        }
        CommandStep::Done
    }

    fn speak(&mut self, protocol: Protocol, world: &mut dyn World) {
        if self.protocol != protocol {
            self.protocol = protocol;
            world.set_replies(self.id, protocol, self.muted);
        }
    }
}
