//! DELAY.BACKUP.

use crate::command::spec::action::BackupRequest;
use crate::ids::ClientId;
use crate::journal::{BaseId, Offer};
use crate::resp::Encoder;
use crate::server::connection::clients::Clients;
use crate::server::core::Core;
use crate::server::durability::backup::BackupProgress;

/// Runs it; the text says why not.
pub fn serve(
    core: &mut Core,
    others: &Clients,
    client: ClientId,
    asked: BackupRequest<'_>,
) -> Result<(), String> {
    match asked {
        BackupRequest::Begin { part, leader } => {
            let part = part.map(id_of).transpose()?;
            if !leader {
                check_follows(core)?;
            }
            let is_there = |id| others.iter().any(|(_, other)| other.id == id);
            let standing = core.durability.begin_backup(client, part, is_there, &core.clock)?;
            write(standing, core.outputs.encoder(client));
        }
        BackupRequest::Read { id, offset } => {
            let id = id_of(id)?;
            let mono_us = core.clock.mono_us;
            let piece = core.durability.read_backup(client, id, offset, mono_us)?;
            core.outputs.encoder(client).bulk_or_null(piece.as_deref());
        }
        BackupRequest::End => {
            core.durability.end_backup(client);
            core.outputs.encoder(client).ok();
        }
    }
    Ok(())
}

fn id_of(word: &[u8]) -> Result<BaseId, String> {
    let text = String::from_utf8_lossy(word);
    BaseId::read(&text).ok_or_else(|| {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(64).collect();
        format!("ERR '{shown}' is not the id of a backup, such as 42-00000000000000ff")
    })
}

/// A leader has enough to do where another node can give the same.
fn check_follows(core: &Core) -> Result<(), String> {
    let Some(view) = core.view.as_deref().filter(|view| view.leads) else { return Ok(()) };
    let Some(follower) = view.replicas().next() else { return Ok(()) };
    let place = &follower.client;
    Err(format!(
        "ERR this node leads: take the backup from a follower, such as {place}, or add LEADER to take it here"
    ))
}

fn write(standing: BackupProgress, mut out: Encoder<'_>) {
    let (offer, jobs, written) = match standing {
        BackupProgress::Writes(written) => (None, None, written),
        BackupProgress::Ready { offer, jobs } => {
            (Some(offer), jobs, Some((offer.bytes, offer.bytes)))
        }
    };
    out.map(6);
    out.field("state").bulk(if offer.is_some() { b"ready" } else { b"writing" });
    let id = offer.map(|offer| offer.id().to_string());
    out.field("id").bulk_or_null(id.as_ref().map(String::as_bytes));
    let numbers = [
        ("batch", offer.map(|Offer { index, .. }| index.0)),
        ("bytes", written.map(|(_, bytes)| bytes)),
        ("written", written.map(|(written, _)| written)),
    ];
    for (name, number) in numbers {
        out.field(name).unsigned_or_null(number);
    }
    out.bulk(b"jobs");
    match jobs {
        Some(jobs) => {
            out.array(jobs.len());
            jobs.into_iter().for_each(|count| out.unsigned(count));
        }
        None => out.null(),
    }
}
