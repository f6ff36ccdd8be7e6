//! The users' way from and to files: lines of the configuration file, the ACL file, `requirepass`.

use crate::config::options::Name;
use crate::config::{Config, file};
use crate::ids::ClientId;
use crate::limits::ACL_FILE_BYTES_MAX;
use crate::server::admin::{ClientWorld, clients};
use crate::server::connection::calls::{Call, Ending};
use crate::server::connection::client::Client;
use crate::server::connection::clients::Clients;
use crate::server::core::{Core, Users};
use crate::session::acl::{self, Acl};
use crate::session::{ClientLine, Session, SocketFacts, TakenUp};
use std::path::{Path, PathBuf};

const NO_FILE: &str = "This Redis instance is not configured to use an ACL file. You may want to \
    specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
    Redis configuration file set) in order to store users in the Redis configuration.";

/// The users as a server has them at its start.
///
/// # Errors
/// A line of the configuration file or of the ACL file is wrong; the ACL file cannot be read; there
/// are users in both.
pub fn read(config: &Config) -> Result<Acl, String> {
    let mut users = Users::default();
    users.reconfigure(config);
    users.require_password(config);
    let mut acl = users.acl;
    let Some(path) = file_path(config) else {
        declare(&mut acl, config)?;
        return Ok(acl);
    };
    if !config.users.is_empty() {
        return Err(
            "the configuration file contains users and aclfile names a file for them: keep them in only one of the \
                    two"
                .to_owned(),
        );
    }
    load(&mut acl, config, &path).map_err(|why| format!("the ACL file: {why}"))?;
    Ok(acl)
}

/// Users have changed: a session, in `slot`, loads its user and loses revoked rights at once. A command that it waits
/// in is refused; false if the connection must be closed. `socket` is called if something was denied.
pub fn take_up(
    core: &mut Core,
    session: &mut Session,
    slot: u32,
    socket: impl FnOnce(&Core) -> SocketFacts,
) -> bool {
    match session.take_up(&core.users.acl) {
        TakenUp::Same => return true,
        TakenUp::Gone => return false,
        TakenUp::Changed => {}
    }
    if !session.keeps_channels(core.pubsub_of(session.face())) {
        return false;
    }
    let call = core.outputs.of(slot).call.as_deref();
    let denied = call.and_then(|Call { command, .. }| {
        session.denied_now(command.spec, &command.args().collect::<Vec<_>>())
    });
    if let Some(denial) = denied {
        let line = ClientLine { session: session.facts(), socket: socket(core) };
        let entry = denial.entry(session.user_name(), &line, core.clock.now.floor().0);
        core.users.acl.note(entry);
        forbid_waiting(core, session.id(), &denial.text);
    }
    true
}

/// Users have changed: every other session takes up its user's new rules, and the connections of users that
/// are gone are closed. The running session sees to itself.
pub fn changed(world: &mut ClientWorld<'_>) {
    tell_siblings(world.core);
    for (_, id) in take_up_each(world.core, world.others) {
        clients::kill(world, id);
    }
}

/// Users have changed, in all partitions of the process.
pub fn tell_siblings(core: &Core) {
    if let Some(siblings) = &core.siblings {
        siblings.users_changed(&core.users.acl);
    }
}

/// The same for all of `clients`; returns those to close.
pub fn take_up_each(core: &mut Core, clients: &mut Clients) -> Vec<(u32, ClientId)> {
    let mut closed = Vec::new();
    for (slot, client) in clients.iter_mut() {
        let Client { id, session, socket, .. } = client;
        let line = |core: &Core| SocketFacts {
            waiting: socket.postponed || core.outputs.of(slot).waiting,
            ..socket.facts(core.clock.mono_us)
        };
        if !take_up(core, session, slot, line) {
            closed.push((slot, *id));
        }
    }
    closed
}

/// ACL LOAD. All sessions are to take that up.
pub fn reload(core: &mut Core) -> Result<(), String> {
    let path = file_path(&core.options.config).ok_or(NO_FILE)?;
    load(&mut core.users.acl, &core.options.config, &path)
}

pub fn save(core: &Core) -> Result<(), String> {
    let path = file_path(&core.options.config).ok_or(NO_FILE)?;
    let mut text = core.users.acl.describe().join(&b'\n');
    text.push(b'\n');
    file::replace(&path, &text).map_err(|error| {
        let path = path.display();
        tracing::warn!(%error, %path, "ACL SAVE failed");
        format!("There was an error trying to save the ACLs. {path}: {error}")
    })
}

/// The lines of users in the configuration file, as CONFIG REWRITE writes them: none if they stand
/// in a file of their own.
pub fn lines(core: &Core) -> Result<Vec<String>, String> {
    if file_path(&core.options.config).is_some() {
        return Ok(Vec::new());
    }
    let text = |line: Vec<u8>| {
        String::from_utf8(line).map_err(|_| "the rules of a user are not UTF-8".to_owned())
    };
    core.users.acl.describe().into_iter().map(text).collect()
}

/// `client` waits for something it may no longer have: it is answered with this error, and gets no job.
fn forbid_waiting(core: &mut Core, client: ClientId, text: &str) {
    core.durability.waits.forget(client);
    core.engine.stop_waiting(client);
    core.outputs.set_answered(client, Ending::Rejected);
    core.outputs.refuse(client, text);
}

fn declare(acl: &mut Acl, config: &Config) -> Result<(), String> {
    for (at, words) in config.users.iter().enumerate() {
        let name = words[0].as_bytes();
        if config.users[..at].iter().any(|other| other[0] == words[0]) {
            return Err(acl::duplicate(name));
        }
        let rules: Vec<&[u8]> = words[1..].iter().map(String::as_bytes).collect();
        acl.declare(name, &rules)
            .map_err(|refused| format!("Error in user declaration '{}': {refused}", words[0]))?;
    }
    Ok(())
}

/// The ACL file, if there is one: from `dir` on.
fn file_path(config: &Config) -> Option<PathBuf> {
    let path = config.text(Name::AclFile);
    (!path.is_empty()).then(|| Path::new(config.text(Name::Dir)).join(path))
}

fn load(acl: &mut Acl, config: &Config, path: &Path) -> Result<(), String> {
    let shown = path.display().to_string();
    let failed = |error| format!("Error loading ACLs, opening file '{shown}': {error}");
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > ACL_FILE_BYTES_MAX {
        return Err(format!("{shown} has {bytes} bytes; at most {ACL_FILE_BYTES_MAX} are allowed"));
    }
    let text = std::fs::read(path).map_err(failed)?;
    acl.load(&text, &shown, config.text(Name::RequirePass).as_bytes())
}
