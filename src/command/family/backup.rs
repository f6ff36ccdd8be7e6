//! DELAY.BACKUP: a base of the whole state, for a client that keeps it elsewhere.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, BackupRequest, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

const ID: Argument = Argument::new("id", ArgumentKind::Bytes);

/// It covers the whole server, whatever queues a user may read; so a worker's `+@delay` does not
/// include it.
const BACKUP: CommandSpec = CommandSpec::BASE
    .group(Group::Server)
    .flags(&[Flag::Admin, Flag::NoScript, Flag::NoMulti, Flag::Stale])
    .tips(&["nondeterministic_output"]);

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "delay.backup",
    "Hands the whole state to a client: delayd backup is that client",
    BACKUP,
)
.reply("As of its subcommands.")
.subcommands(&[
    row("delay.backup|begin", "Begins a backup, or shows its progress", BACKUP)
        .arguments(&[
            Argument::option("PART", "id", ArgumentKind::Bytes)
                .about("Continue this backup, of which the client has a part, if it can still be read."),
            Argument::word("leader", "LEADER")
                .optional()
                .about("Allow it on a leader with followers, too."),
        ])
        .complexity("O(N) where N is the number of jobs, in the background")
        .reply("Map (in RESP2 a flat array): `state` is `writing` or `ready`; `written` and `bytes` are the \
                current and the final size, an estimate until it is ready. Nil until then: `id`, `batch`, the \
                last batch in it, and `jobs`, an array with the numbers of delayed, ready, leased and dead jobs, \
                which stays nil for a backup that is continued.")
        .notes("Call it repeatedly until it is `ready`. The backup contains everything that was answered before \
                the first call, also by the leader of a cluster; a follower that cannot have all of that within 10 s, \
                because it hears no leader or lags behind, refuses. There is one backup at a time, owned by the \
                connection that began it; another connection can continue it when that is closed. It ends after a \
                minute without a request, and earlier if a newer base has replaced its base and the disk needs the \
                space. The backup contains all queues, whatever the user may read.")
        .example(&[(
            "DELAY.BACKUP BEGIN",
            "1# \"state\" => \"writing\"\n2# \"id\" => (nil)\n3# \"batch\" => (nil)\n4# \"bytes\" => (nil)\n5# \
             \"written\" => (nil)\n6# \"jobs\" => (nil)",
        )])
        .parse(parse_begin),
    row("delay.backup|end", "Ends the backup of this connection", BACKUP)
        .reply("Simple string: `OK`, even if no backup is running.")
        .example(&[("DELAY.BACKUP END", "OK")])
        .parse(|args| args.end_or_arity().map(|()| Action::Server(ServerRequest::Backup(BackupRequest::End)))),
    help("delay.backup|help", Group::Server),
    row("delay.backup|read", "Reads a piece of the backup", BACKUP)
        .arguments(&[
            ID.about("As BEGIN says."),
            Argument::new("offset", ArgumentKind::Integer).about("The first byte."),
        ])
        .reply("Bulk string: at most 256 KiB. Nil if it has not been read from the disk yet: ask again some ms \
                later. An error if the backup has ended.")
        .notes("The server reads no faster than `cluster-sync-rate`. Each record of a base has a checksum; \
                docs/journal.md describes the format.")
        .example(&[(
            "DELAY.BACKUP READ 42-00000000000000ff 0",
            "(error) ERR there is no backup 42-00000000000000ff: it belongs to another connection, or ended long \
             ago; \
             DELAY.BACKUP BEGIN begins another",
        )])
        .parse(parse_read),
])];

fn parse_begin<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut part, mut leader) = (None, false);
    while let Some(option) = args.option()? {
        match option {
            "PART" => part = Some(args.word("id")?),
            _ => leader = true,
        }
    }
    args.end()?;
    Ok(Action::Server(ServerRequest::Backup(BackupRequest::Begin { part, leader })))
}

fn parse_read<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let id = args.word("id")?;
    let offset = args.integer("offset", 0, u64::MAX)?;
    args.end_or_arity()?;
    Ok(Action::Server(ServerRequest::Backup(BackupRequest::Read { id, offset })))
}
