//! What is safe: bases of the journal, and waiting for it and for replicas.

use crate::command::family::server::SERVER;
use crate::command::read::number;
use crate::command::spec::action::{Action, Server, Wait};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag};
use crate::error::Error;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "bgrewriteaof",
        summary: "Begins to write a base: the whole state, which replaces the journal so far",
        flags: &[Flag::Admin, Flag::NoScript],
        reply: "Simple string. An error if one is being written already, or if there is no journal.",
        notes: "It happens by itself, too, whenever the journal has grown to about twice what is \
                needed. INFO persistence tells how it goes.",
        example: &[("BGREWRITEAOF", "Background append only file rewriting started")],
        parse: Some(|_| Ok(Action::Server(Server::BgRewriteAof))),
        ..SERVER
    },
    CommandSpec {
        name: "bgsave",
        summary: "Begins to write a base, as BGREWRITEAOF does",
        arguments: &[Argument::word("schedule", "SCHEDULE")
            .optional()
            .about("If one is being written, begins another behind it instead of an error.")],
        flags: &[Flag::Admin, Flag::NoScript],
        reply: "Simple string. An error if one is being written already, or if there is no journal.",
        notes: "Jobs are as safe without it: the journal holds every change. LASTSAVE tells when \
                the newest base became complete.",
        example: &[("BGSAVE", "Background saving started")],
        parse: Some(parse_bgsave),
        ..SERVER
    },
    CommandSpec {
        name: "lastsave",
        summary: "Says when the newest base became complete, or the server started",
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &["admin", "dangerous"],
        tips: &["nondeterministic_output"],
        reply: "Integer: unix seconds.",
        example: &[("LASTSAVE", "(integer) 1800000000")],
        parse: Some(|_| Ok(Action::Server(Server::LastSave))),
        ..SERVER
    },
    CommandSpec {
        name: "save",
        summary: "Writes a base and waits until it is complete",
        complexity: "O(N) where N is the number of jobs, behind which other clients go on",
        flags: &[Flag::Admin, Flag::NoScript, Flag::NoMulti],
        reply: "Simple string: `OK`. An error if it fails, or if there is no journal.",
        notes: "Only this client waits. The base begins after the call: if one is being written \
                already, the next one is waited for.",
        example: &[("SAVE", "OK")],
        parse: Some(|_| Ok(Action::Server(Server::Save))),
        ..SERVER
    },
    CommandSpec {
        name: "wait",
        summary: "Waits until other nodes have what was changed so far",
        arguments: &[
            Argument::new("numreplicas", Kind::Integer).about("So many other nodes."),
            Argument::new("timeout", Kind::Integer).about("ms; 0 for no limit."),
        ],
        flags: &[Flag::NoScript],
        categories: &["connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        reply: "Integer: how many other nodes have it on their disks, be it fewer than were asked for. A server alone says 0, at \
                once.",
        notes: "What a cluster answers is on the disks of a majority already: with three nodes one other has it at once. In a \
                transaction it does not wait.",
        example: &[("WAIT 0 100", "(integer) 0")],
        parse: Some(parse_wait),
        ..SERVER
    },
    CommandSpec {
        name: "waitaof",
        summary: "Waits until what this client changed is synced to the journal",
        arguments: &[
            Argument::new("numlocal", Kind::Integer).about("1 to wait for this server, or 0."),
            Argument::new("numreplicas", Kind::Integer).about(
                "So many other nodes to wait for. Of a server alone there are none: above 0 it waits until the timeout.",
            ),
            Argument::new("timeout", Kind::Integer).about("ms; 0 for no limit."),
        ],
        flags: &[Flag::NoScript],
        categories: &["connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        reply: "Array of two integers: 1 if it is synced here, else 0; on how many other nodes.",
        notes: "With `appendfsync always` every reply comes after its sync, so there is nothing left \
                to wait for. Otherwise the journal is synced for it at once. In a transaction it does \
                not wait.",
        example: &[("WAITAOF 1 0 100", "1) (integer) 1\n2) (integer) 0")],
        parse: Some(parse_waitaof),
        ..SERVER
    },
];

fn parse_bgsave<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut schedule = false;
    while let Some(option) = args.option()? {
        match option {
            "SCHEDULE" => schedule = true,
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Server(Server::BgSave { schedule }))
}

fn parse_waitaof<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let integer = |word| {
        number::signed(word)
            .ok_or_else(|| Error::text("ERR value is not an integer or out of range"))
    };
    let local = match integer(args.word("numlocal")?)? {
        local @ 0..=1 => local == 1,
        _ => return Err(Error::text("ERR value is out of range, value must between 0 and 1")),
    };
    let Ok(replicas) = u64::try_from(integer(args.word("numreplicas")?)?) else {
        return Err(Error::text("ERR value is out of range, must be positive"));
    };
    let timeout_ms = wait_timeout(args)?;
    let wait = Wait { tells_local: true, local, replicas, timeout_ms };
    Ok(Action::Server(Server::Wait(wait)))
}

fn parse_wait<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let Some(replicas) = number::signed(args.word("numreplicas")?) else {
        return Err(Error::text("ERR value is not an integer or out of range"));
    };
    // Redis takes a negative number as none.
    let replicas = replicas.max(0).unsigned_abs();
    let timeout_ms = wait_timeout(args)?;
    let wait = Wait { tells_local: false, local: false, replicas, timeout_ms };
    Ok(Action::Server(Server::Wait(wait)))
}

/// The timeout of WAIT and WAITAOF, ms.
fn wait_timeout(args: &mut Args<'_>) -> Result<u64, Error> {
    match number::signed(args.word("timeout")?) {
        Some(timeout_ms @ 0..) => Ok(timeout_ms.unsigned_abs()),
        Some(_) => Err(Error::text("ERR timeout is negative")),
        None => Err(Error::text("ERR timeout is not an integer or out of range")),
    }
}
