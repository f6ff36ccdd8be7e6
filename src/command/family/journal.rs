//! Durability: bases of the journal, and waiting for it and for replicas.

use crate::command::family::server::SERVER;
use crate::command::spec::action::{Action, ReplicaWait, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, row};
use crate::error::Error;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row(
        "bgrewriteaof",
        "Starts writing a base: the whole state, which replaces the journal so far",
        SERVER,
    )
    .flags(&[Flag::Admin, Flag::NoScript])
    .reply("Simple string. An error if a base is already being written, or if there is no journal.")
    .notes("This also happens by itself whenever the journal has grown to about twice the necessary size. INFO \
            persistence shows the progress.")
    .example(&[("BGREWRITEAOF", "Background append only file rewriting started")])
    .parse(|_| Ok(Action::Server(ServerRequest::BgRewriteAof))),
    row("bgsave", "Starts writing a base, like BGREWRITEAOF", SERVER)
        .arguments(&[Argument::word("schedule", "SCHEDULE")
            .optional()
            .about("If a base is being written, start another one after it instead of an error.")])
        .flags(&[Flag::Admin, Flag::NoScript])
        .reply("Simple string. An error if a base is already being written, or if there is no journal.")
        .notes("Jobs are safe without it: the journal has every change. LASTSAVE shows when the newest base was \
                completed.")
        .example(&[("BGSAVE", "Background saving started")])
        .parse(parse_bgsave),
    row("lastsave", "Shows when the newest base was completed, or the server started", SERVER)
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&["admin", "dangerous"])
        .tips(&["nondeterministic_output"])
        .reply("Integer: unix seconds.")
        .example(&[("LASTSAVE", "(integer) 1800000000")])
        .parse(|_| Ok(Action::Server(ServerRequest::LastSave))),
    row("save", "Writes a base and waits until it is complete", SERVER)
        .complexity("O(N) where N is the number of jobs, in the background")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::NoMulti])
        .reply("Simple string: `OK`. An error if it fails, or if there is no journal.")
        .notes("Only this client waits. The base begins after the call: if one is already being written, SAVE waits \
                for the next one.")
        .example(&[("SAVE", "OK")])
        .parse(|_| Ok(Action::Server(ServerRequest::Save))),
    row("wait", "Waits until other nodes have all changes so far", SERVER)
        .arguments(&[
            Argument::new("numreplicas", ArgumentKind::Integer).about("How many other nodes."),
            Argument::new("timeout", ArgumentKind::Integer).about("ms; 0 for no limit."),
        ])
        .flags(&[Flag::NoScript])
        .categories(&["connection"])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .reply("Integer: how many other nodes have it on their disks, even if fewer than requested. A standalone \
                server answers 0 at once.")
        .notes("Every answered change is already on the disks of a majority: with three nodes one other has it. In a \
                transaction it does not wait.")
        .example(&[("WAIT 0 100", "(integer) 0")])
        .parse(parse_wait),
    row("waitaof", "Waits until this client's changes are synced to the journal", SERVER)
        .arguments(&[
            Argument::new("numlocal", ArgumentKind::Integer).about("1 to wait for this server, or 0."),
            Argument::new("numreplicas", ArgumentKind::Integer).about(
                "How many other nodes to wait for. A standalone server has none: above 0 it waits until the timeout.",
            ),
            Argument::new("timeout", ArgumentKind::Integer).about("ms; 0 for no limit."),
        ])
        .flags(&[Flag::NoScript])
        .categories(&["connection"])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .reply("Array of two integers: 1 if the changes are synced here, else 0; and the number of other nodes that \
                have them.")
        .notes("With `appendfsync always` every reply comes after its sync, so it returns at once. Otherwise the \
                journal is synced for it immediately. In a transaction it does not wait.")
        .example(&[("WAITAOF 1 0 100", "1) (integer) 1\n2) (integer) 0")])
        .parse(parse_waitaof),
];

fn parse_bgsave<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(Action::Server(ServerRequest::BgSave { schedule: args.flag()? }))
}

fn parse_waitaof<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let local = match args.signed("numlocal")? {
        local @ 0..=1 => local == 1,
        _ => return Err(Error::text("ERR value is out of range, value must between 0 and 1")),
    };
    let Ok(replicas) = u64::try_from(args.signed("numreplicas")?) else {
        return Err(Error::text("ERR value is out of range, must be positive"));
    };
    let timeout_ms = args.wait_ms()?;
    let wait = ReplicaWait { tells_local: true, local, replicas, timeout_ms };
    Ok(Action::Server(ServerRequest::Wait(wait)))
}

fn parse_wait<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    // Redis takes a negative number as none.
    let replicas = args.signed("numreplicas")?.max(0).unsigned_abs();
    let timeout_ms = args.wait_ms()?;
    let wait = ReplicaWait { tells_local: false, local: false, replicas, timeout_ms };
    Ok(Action::Server(ServerRequest::Wait(wait)))
}
