//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use crate::command::spec::action::{Action, Transaction};
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};

const TRANSACTION: CommandSpec = CommandSpec {
    group: Group::Transactions,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
    ..CommandSpec::BASE
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "discard",
        summary: "Forgets the commands queued since MULTI",
        complexity: "O(N) where N is the number of queued commands",
        reply: "Simple string: `OK`.",
        example: &[("MULTI", "OK"), ("DISCARD", "OK")],
        parse: Some(|_| Ok(Action::Transaction(Transaction::Discard))),
        ..TRANSACTION
    },
    CommandSpec {
        name: "exec",
        summary: "Runs the commands queued since MULTI as one step",
        complexity: "That of the queued commands",
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::SkipSlowLog],
        reply: "Array: the reply of each. Nil (an array in RESP2) if a queue that WATCH named has changed. \
                The error class `EXECABORT` if one was refused when queued, or cannot be run now.",
        notes: "All commands run at one instant, or none does: nothing comes between them, no job falls due and no \
                lease ends; consumers that wait are served after the last, and a taking command does not wait. \
                What keeps a command from running (`OOM`, `MISCONF`, `FULL`, `PAUSED`, `NOPERM`) is refused when it \
                is queued, and EXEC is then `EXECABORT`, also when the reason came up since. Memory, the journal's \
                room and the places in full queues are counted over all commands, at the most that they may need: \
                a place that an earlier command frees counts if it does so for sure (DELAY.DEL, DELAY.CANCEL and \
                DELAY.ACK of a job that is there, a POP or LPOP of a queue with ready jobs and without a limit to \
                taking, PURGE, DEL), memory that it frees does not. A command that \
                fails for another reason (an id that EXISTS, a mistake in its arguments) does not undo the others. \
                Together they look at or take at most 40,000 entries, 4 jobs of a range or 4 KiB of compared \
                bodies being one, and answer at most 32 MiB beside the largest reply.",
        example: &[
            ("MULTI", "OK"),
            ("DELAY.ADD orders 30m x ID order:7", "QUEUED"),
            ("DELAY.LEN orders", "QUEUED"),
            ("EXEC", "1) \"order:7\"\n2) (integer) 1"),
        ],
        parse: Some(|_| Ok(Action::Transaction(Transaction::Exec))),
        ..TRANSACTION
    },
    CommandSpec {
        name: "multi",
        summary: "Begins a transaction: commands are queued until EXEC",
        reply: "Simple string: `OK`. From here on every command answers `QUEUED`.",
        notes: "At most 10000 commands and 64 MiB.",
        example: &[("MULTI", "OK")],
        parse: Some(|_| Ok(Action::Transaction(Transaction::Multi))),
        ..TRANSACTION
    },
    CommandSpec {
        name: "unwatch",
        summary: "Forgets all queues that are watched",
        reply: "Simple string: `OK`.",
        notes: "EXEC, DISCARD and RESET do it too.",
        example: &[("UNWATCH", "OK")],
        parse: Some(|_| Ok(Action::Transaction(Transaction::Unwatch))),
        ..TRANSACTION
    },
    CommandSpec {
        name: "watch",
        summary: "Watches queues, so that EXEC runs only if nothing happened to them",
        complexity: "O(N) where N is the number of queues",
        arguments: &[Argument::new("queue", Kind::Key).multiple()],
        keys: Keys::Range { first: 1, last: -1 },
        access: Access::Look,
        reply: "Simple string: `OK`. If a queue has changed by then, EXEC answers nil and runs nothing.",
        notes: "Any change of the queue's jobs counts: added, delivered, acknowledged, moved and removed \
                ones, jobs that fall due and leases that end. A queue that does not exist changes when it \
                comes to exist, also if it is gone again by EXEC. At most 10000 queues.",
        example: &[
            ("WATCH orders", "OK"),
            ("MULTI", "OK"),
            ("DELAY.LEN orders", "QUEUED"),
            ("EXEC", "1) (integer) 0"),
        ],
        parse: Some(|args| Ok(Action::Transaction(Transaction::Watch(args.queues_but(0)?)))),
        ..TRANSACTION
    },
];
