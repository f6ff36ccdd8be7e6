//! Commands about the journal and the process, and constant answers.

use crate::command::spec::action::{Fixed, ServerRequest, Shutdown};
use crate::observe::persistence::JournalTrouble;
use crate::server::core::Core;
use crate::session::Session;
use crate::session::world::Served;

const BASE: &str = "Background save";
const REWRITE: &str = "Background append only file rewriting";

/// Answers all that is not asked of one of the other modules.
pub fn serve(core: &mut Core, asker: &Session, what: ServerRequest<'_>) -> Result<Served, String> {
    let Core { durability, outputs, facts, clock, process, view, .. } = core;
    let client = asker.id();
    match what {
        ServerRequest::Save => {
            durability.wait_base(client, outputs, BASE)?;
            return Ok(Served::Waiting);
        }
        ServerRequest::Wait(wait) => {
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
        ServerRequest::ShutdownAbort if process.shutdown.take().is_none() => {
            return Err("ERR No shutdown in progress.".to_owned());
        }
        _ => {}
    }
    let mut out = outputs.encoder(client);
    match what {
        ServerRequest::BgSave { schedule } => {
            out.simple(&format!("Background saving {}", durability.begin_base(schedule, BASE)?));
        }
        ServerRequest::BgRewriteAof => {
            out.simple(&format!("{REWRITE} {}", durability.begin_base(false, REWRITE)?));
        }
        ServerRequest::LastSave => out.unsigned(durability.shown.last_base_s),
        ServerRequest::Fixed(Fixed::Ok) | ServerRequest::ShutdownAbort => out.ok(),
        ServerRequest::Fixed(Fixed::Text(text)) => out.verbatim_txt(text),
        ServerRequest::Fixed(Fixed::Zeros(count)) => {
            out.array(count);
            (0..count).for_each(|_| out.integer(0));
        }
        ServerRequest::Fixed(Fixed::Zero) => out.integer(0),
        ServerRequest::ScanNothing => {
            out.array(2);
            out.bulk(b"0");
            out.array(0);
        }
        ServerRequest::Time => {
            out.array(2);
            out.bulk_unsigned(clock.now.0 / 1_000_000);
            out.bulk_unsigned(clock.now.0 % 1_000_000);
        }
        // The lists are empty.
        _ => out.array(0),
    }
    Ok(Served::Done)
}

/// SHUTDOWN: begins an orderly end, or says why not, without a class.
///
/// The data handed to the journal is synced before the process ends, in any case: `NOSAVE` does not discard it and
/// `NOW` does not run ahead of it. `SAVE` makes no base, because the journal has everything. With a failed journal it
/// is refused, unless `FORCE` is given.
pub fn shutdown(core: &mut Core, how: Shutdown, peer: &str) -> Result<(), String> {
    if let JournalTrouble::Failed(cause) = &core.durability.shown.trouble
        && !how.force
    {
        return Err(format!("the journal failed: {cause}; SHUTDOWN FORCE stops anyway"));
    }
    tracing::info!(client = %peer, "SHUTDOWN was requested");
    core.process.shutdown = Some(how.now);
    Ok(())
}
