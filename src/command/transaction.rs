//! MULTI, EXEC, DISCARD.

use crate::command::action::{Action, Transaction};
use crate::command::spec::{CommandSpec, Flag, Group};

const TRANSACTION: CommandSpec = CommandSpec {
    group: Group::Transactions,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
    ..CommandSpec::BASE
};

pub(super) const COMMANDS: &[CommandSpec] = &[
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
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
        reply: "Array: the reply of each. The error class `EXECABORT` if one was refused when queued.",
        notes: "Nothing comes between the commands; consumers that wait are served after the last. A \
                command that fails does not undo the others. A taking command does not wait.",
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
];
