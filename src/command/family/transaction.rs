//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use crate::command::spec::action::{Action, Transaction};
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};

const TRANSACTION: CommandSpec = CommandSpec::BASE.group(Group::Transactions).flags(&[
    Flag::NoScript,
    Flag::Loading,
    Flag::Stale,
    Flag::Fast,
]);

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("discard", "Discards the commands queued since MULTI", TRANSACTION)
        .complexity("O(N) where N is the number of queued commands")
        .reply("Simple string: `OK`.")
        .example(&[("MULTI", "OK"), ("DISCARD", "OK")])
        .parse(|_| Ok(Action::Transaction(Transaction::Discard))),
    row("exec", "Runs the commands queued since MULTI as one step", TRANSACTION)
        .complexity("That of the queued commands")
        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::SkipSlowLog])
        .reply("Array: the reply of each. Nil (an array in RESP2) if a queue that WATCH named has changed. \
                The error class `EXECABORT` if one was refused when queued, or cannot run now.")
        .notes("All commands run at one instant, or none does: nothing comes between them, no job falls due and no \
                lease ends. Waiting consumers are served after the last one, and a taking command does not wait. A \
                command that cannot run (`OOM`, `MISCONF`, `FULL`, `PAUSED`, `NOPERM`) is refused when it is queued, \
                and EXEC then answers `EXECABORT`; it does so too if the reason arose since. Memory, journal space \
                and places in full queues are counted over all commands, at the maximum that they may need. A place \
                that an earlier command frees counts if it certainly does (DELAY.DEL, DELAY.CANCEL and DELAY.ACK of \
                an existing job, a POP or LPOP of a queue with ready jobs and without a limit to taking, PURGE, \
                DEL); memory that it frees does not. A command that fails for another reason (an id that EXISTS, a \
                mistake in its arguments) does not undo the others. Together they examine or take at most 40,000 \
                entries, where 4 jobs of a range or 4 KiB of compared bodies are one, and answer at most 32 MiB plus \
                the largest reply.")
        .example(&[
            ("MULTI", "OK"),
            ("DELAY.ADD orders 30m x ID order:7", "QUEUED"),
            ("DELAY.LEN orders", "QUEUED"),
            ("EXEC", "1) \"order:7\"\n2) (integer) 1"),
        ])
        .parse(|_| Ok(Action::Transaction(Transaction::Exec))),
    row("multi", "Begins a transaction: commands are queued until EXEC", TRANSACTION)
        .reply("Simple string: `OK`. From here on every command answers `QUEUED`.")
        .notes("At most 10000 commands and 64 MiB.")
        .example(&[("MULTI", "OK")])
        .parse(|_| Ok(Action::Transaction(Transaction::Multi))),
    row("unwatch", "Forgets all watched queues", TRANSACTION)
        .reply("Simple string: `OK`.")
        .notes("EXEC, DISCARD and RESET do it too.")
        .example(&[("UNWATCH", "OK")])
        .parse(|_| Ok(Action::Transaction(Transaction::Unwatch))),
    row("watch", "Watches queues, so that EXEC runs only if nothing happened to them", TRANSACTION)
        .complexity("O(N) where N is the number of queues")
        .arguments(&[Argument::new("queue", ArgumentKind::Key).multiple()])
        .keys(KeyPositions::Range { first: 1, last: -1 })
        .access(Access::Look)
        .reply("Simple string: `OK`. If a queue has changed by then, EXEC answers nil and runs nothing.")
        .notes("Any change of the queue's jobs counts: jobs added, delivered, acknowledged, moved and removed, jobs \
                that fall due and leases that end. A queue that does not exist changes when it is created, even if \
                it is gone again by EXEC. At most 10000 queues.")
        .example(&[
            ("WATCH orders", "OK"),
            ("MULTI", "OK"),
            ("DELAY.LEN orders", "QUEUED"),
            ("EXEC", "1) (integer) 0"),
        ])
        .parse(|args| Ok(Action::Transaction(Transaction::Watch(args.queues_but(0)?)))),
];
