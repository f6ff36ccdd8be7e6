//! DELAY.BACKUP: a base of the whole state, for a client that keeps it elsewhere.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Backup, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::Error;

const ID: Argument = Argument::new("id", Kind::Bytes);

/// Of the whole server, whatever queues a user may read: so a worker's `+@delay` does not give it.
const BACKUP: CommandSpec = CommandSpec {
    group: Group::Server,
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoMulti, Flag::Stale],
    tips: &["nondeterministic_output"],
    ..CommandSpec::BASE
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.backup",
    summary: "Hands the whole state to a client: delayd backup is that client",
    reply: "As of its subcommands.",
    subcommands: &[
        CommandSpec {
            name: "delay.backup|begin",
            summary: "Begins a backup, or says how far it is",
            arguments: &[
                Argument::option("PART", "id", Kind::Bytes)
                    .about("Goes on with this one, of which the client has a part, if it can still be read."),
                Argument::word("leader", "LEADER")
                    .optional()
                    .about("Also if this node leads and others follow it."),
            ],
            complexity: "O(N) where N is the number of jobs, beside the work of the server, which goes on",
            reply: "Map (in RESP2 a flat array): `state` is `writing` or `ready`; `written` and `bytes` are how much there is and how \
                    much it will be, about until it is ready. Nil before: `id`, `batch`, the last one in it, and `jobs`, an \
                    array of how many are delayed, ready, leased and dead in it, which stays nil for one that is gone on with.",
            notes: "To be called again and again until it is `ready`. It has all that was answered before the first call, by the leader of a cluster too; a follower \
                    that hears of no leader gives what it has. There is \
                    one backup at a time, of the connection that has begun it; it can go on over another one when that is \
                    closed. It is ended when nothing of it was asked for in a minute, and earlier if the disk needs the \
                    room of its base, which a newer one has replaced. The backup holds all queues, whatever the user may read.",
            example: &[(
                "DELAY.BACKUP BEGIN",
                "1# \"state\" => \"writing\"\n2# \"id\" => (nil)\n3# \"batch\" => (nil)\n4# \"bytes\" => (nil)\n5# \
                 \"written\" => (nil)\n6# \"jobs\" => (nil)",
            )],
            parse: Some(parse_begin),
            ..BACKUP
        },
        CommandSpec {
            name: "delay.backup|end",
            summary: "Ends the backup of this connection",
            reply: "Simple string: `OK`, even if no backup is running.",
            example: &[("DELAY.BACKUP END", "OK")],
            parse: Some(|args| args.end_or_arity().map(|()| Action::Server(Server::Backup(Backup::End)))),
            ..BACKUP
        },
        help("delay.backup|help", Group::Server),
        CommandSpec {
            name: "delay.backup|read",
            summary: "Reads a piece of the backup",
            arguments: &[
                ID.about("As BEGIN says."),
                Argument::new("offset", Kind::Integer).about("The first byte."),
            ],
            reply: "Bulk string: at most 256 KiB. Nil if it has not been read from the disk yet: to be asked for again some ms \
                    later. An error if there is no such backup any more.",
            notes: "The server reads no faster than `cluster-sync-rate`. Each record of a base has a checksum; docs/journal.md \
                    has the format.",
            example: &[(
                "DELAY.BACKUP READ 42-00000000000000ff 0",
                "(error) ERR there is no backup 42-00000000000000ff: it is not this connection's, or ended long ago; \
                 DELAY.BACKUP BEGIN begins another",
            )],
            parse: Some(parse_read),
            ..BACKUP
        },
    ],
    ..BACKUP
}];

fn parse_begin<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut part, mut leader) = (None, false);
    while let Some(option) = args.option()? {
        match option {
            "PART" => part = Some(args.word("id")?),
            _ => leader = true,
        }
    }
    args.end()?;
    Ok(Action::Server(Server::Backup(Backup::Begin { part, leader })))
}

fn parse_read<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let id = args.word("id")?;
    let offset = args.integer("offset", 0, u64::MAX)?;
    args.end_or_arity()?;
    Ok(Action::Server(Server::Backup(Backup::Read { id, offset })))
}
