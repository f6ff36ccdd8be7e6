//! CLIENT, as far as it is about other connections.

use crate::command::show::render::render;
use crate::command::spec::action::{ClientFilter, Clients};
use crate::engine::Engine;
use crate::error::Shown;
use crate::ids::ClientId;
use crate::server::admin::ClientWorld;
use crate::server::connection::calls::Ending;
use crate::server::core::Core;
use crate::session::world::{Served, UNBLOCKED, World};
use crate::session::{ClientLine, Session};

pub fn serve(
    world: &mut ClientWorld<'_>,
    asker: &Session,
    what: Clients<'_>,
) -> Result<Served, String> {
    let client = asker.id();
    let mut served = Served::Done;
    match what {
        Clients::List(filter) => {
            let lines = lines(world, asker);
            let lines = lines.iter().filter(|line| filter.matches(line));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            world.encoder(client).verbatim_txt(&text);
        }
        Clients::Kill(ClientFilter { user: Some(user), .. })
            if world.core.users.acl.get(user).is_none() =>
        {
            return Err(format!("ERR No such user {}", Shown::new(user)));
        }
        Clients::Kill(filter) => {
            let count;
            (count, served) = kill_all(world, asker, &filter);
            world.encoder(client).integer(count);
        }
        Clients::KillAddr(addr) => {
            let filter = ClientFilter { addr: Some(addr), ..ClientFilter::default() };
            let count;
            (count, served) = kill_all(world, asker, &filter);
            if count == 0 {
                return Err("ERR No such client".to_owned());
            }
            world.encoder(client).ok();
        }
        Clients::Pause { ms, writes_only } => {
            let core = &mut *world.core;
            core.common.pauses.begin(ms, writes_only, core.clock.mono_us);
            // In this turn already, no time passes after the command.
            core.set_flow();
            core.outputs.encoder(client).ok();
        }
        Clients::Unpause => {
            world.core.common.pauses.end();
            world.encoder(client).ok();
        }
        Clients::Unblock { id, error } => {
            let id = id.filter(|id| *id != client);
            let released = id.is_some_and(|id| unblock(world.core, id, error));
            world.encoder(client).integer(released.into());
        }
    }
    Ok(served)
}

/// All connections, oldest first.
fn lines(world: &ClientWorld<'_>, asker: &Session) -> Vec<ClientLine> {
    let line = |(slot, client)| world.line_of(slot, client);
    let mut lines: Vec<ClientLine> = world.others.iter().map(line).collect();
    lines.push(world.own_line(asker));
    lines.sort_unstable_by_key(|line| line.session.id);
    lines
}

fn kill_all(
    world: &mut ClientWorld<'_>,
    asker: &Session,
    filter: &ClientFilter<'_>,
) -> (i64, Served) {
    let (mut count, mut served) = (0, Served::Done);
    for line in lines(world, asker).iter().filter(|line| filter.matches(line)) {
        if line.session.id != asker.id() {
            count += i64::from(kill(world, line.session.id));
        } else if !filter.skip_me {
            served = Served::Killed;
            count += 1;
        }
    }
    (count, served)
}

/// Closes another connection, at once and without a reply; false if it does not exist.
pub fn kill(world: &mut ClientWorld<'_>, client: ClientId) -> bool {
    let slot = world.core.outputs.slot(client);
    slot.is_some_and(|slot| world.core.close(world.others, slot))
}

/// Releases a waiting client, with the reply of a timeout or with the error [`UNBLOCKED`]; false if it does
/// not wait.
fn unblock(core: &mut Core, client: ClientId, error: bool) -> bool {
    let Core { engine, durability, outputs, .. } = core;
    let followers = durability.followers();
    if durability.waits.unblock(client, error, &durability.shown, &followers, outputs) {
        return true;
    }
    if !engine.stop_waiting(client) {
        return false;
    }
    if error {
        outputs.set_answered(client, Ending::Failed);
        outputs.refuse(client, UNBLOCKED);
    } else {
        outputs.set_answered(client, Ending::Done);
        render(&Engine::TIMED_OUT, &mut outputs.encoder(client));
    }
    true
}
