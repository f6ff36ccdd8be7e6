//! What is asked of the journal and of the process, and what is answered without looking at either.

use crate::command::spec::action::{Fixed, Server, Shutdown};
use crate::observe::persistence::Trouble;
use crate::server::core::Core;
use crate::session::Session;
use crate::session::world::Served;

const BASE: &str = "Background save";
const REWRITE: &str = "Background append only file rewriting";

/// Answers all that is not asked of one of the other modules.
pub fn serve(core: &mut Core, asker: &Session, what: Server<'_>) -> Result<Served, String> {
    let Core { durability, outputs, facts, clock, process, view, .. } = core;
    let client = asker.id();
    match what {
        Server::Save => {
            durability.wait_base(client, outputs, BASE)?;
            return Ok(Served::Waiting);
        }
        Server::Wait(wait) => {
            if view.as_ref().is_some_and(|view| !view.leads) {
                let name = if wait.tells_local { "WAITAOF" } else { "WAIT" };
                return Err(format!("ERR {name} cannot be used with replica instances."));
            }
            let (changed, at_once) = (facts.count > 0, asker.is_executing());
            let mono_us = clock.mono_us;
            let Some(reached) = durability.wait_durable(client, wait, at_once, changed, mono_us)?
            else {
                outputs.set_waiting(client);
                return Ok(Served::Waiting);
            };
            reached.write(wait.tells_local, &mut outputs.encoder(client));
            return Ok(Served::Done);
        }
        // From the end of the turn in which SHUTDOWN ran on, no command is taken.
        Server::ShutdownAbort if process.shutdown.take().is_none() => {
            return Err("ERR No shutdown in progress.".to_owned());
        }
        _ => {}
    }
    let mut out = outputs.encoder(client);
    match what {
        Server::BgSave { schedule } => {
            out.simple(&format!("Background saving {}", durability.begin_base(schedule, BASE)?));
        }
        Server::BgRewriteAof => {
            out.simple(&format!("{REWRITE} {}", durability.begin_base(false, REWRITE)?));
        }
        Server::LastSave => out.unsigned(durability.shown.last_base_s),
        Server::Fixed(Fixed::Ok) | Server::ShutdownAbort => out.ok(),
        Server::Fixed(Fixed::Text(text)) => out.verbatim_txt(text),
        Server::Fixed(Fixed::Zeros(count)) => {
            out.array(count);
            (0..count).for_each(|_| out.integer(0));
        }
        Server::Fixed(Fixed::Zero) => out.integer(0),
        Server::ScanNothing => {
            out.array(2);
            out.bulk(b"0");
            out.array(0);
        }
        Server::Time => {
            out.array(2);
            out.bulk_unsigned(clock.now.0 / 1_000_000);
            out.bulk_unsigned(clock.now.0 % 1_000_000);
        }
        // Of what is listed there is nothing.
        _ => out.array(0),
    }
    Ok(Served::Done)
}

/// SHUTDOWN: begins an orderly end, or says why not, without a class.
///
/// What the journal was handed is synced before the process ends, in any case: `NOSAVE` does not throw it
/// away and `NOW` does not run ahead of it. `SAVE` makes no base, as the journal holds everything. With a
/// journal that has failed it is refused, unless `FORCE` is given.
pub fn shutdown(core: &mut Core, how: Shutdown, peer: &str) -> Result<(), String> {
    if let Trouble::Failed(cause) = &core.durability.shown.trouble
        && !how.force
    {
        return Err(format!("the journal failed: {cause}; SHUTDOWN FORCE stops all the same"));
    }
    tracing::info!(client = %peer, "SHUTDOWN was asked for");
    core.process.shutdown = Some(how.now);
    Ok(())
}
