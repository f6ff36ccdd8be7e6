//! Scripts, of which delayd runs none. What tools send before and after them is answered; two scripts
//! that an autoscaler sends are known, and mean LLEN.

use crate::command::family::always::refused;
use crate::command::family::help::help;
use crate::command::read::number;
use crate::command::spec::action::{Action, Fixed, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};
use crate::engine::model::request::{QueueName, Request, State};
use crate::error::Error;
use crate::limits::SCRIPT_BYTES_MAX;
use sha2::{Digest, Sha256};

const SCRIPTING: CommandSpec = CommandSpec {
    group: Group::Scripting,
    flags: &[Flag::NoScript, Flag::Stale],
    ..CommandSpec::BASE
};

const COUNT: Argument = Argument::new("numkeys", Kind::Integer);
const KEY: Argument = Argument::new("key", Kind::Key).optional().multiple();
const ARG: Argument = Argument::new("arg", Kind::Bytes).optional().multiple();

const EVAL: CommandSpec = CommandSpec {
    arguments: &[Argument::new("script", Kind::Bytes), COUNT, KEY, ARG],
    keys: Keys::Counted { at: 2 },
    access: Access::Look,
    flags: &[Flag::ReadOnly, Flag::NoScript],
    reply: "Integer: the ready jobs of the queue, for one of the scripts known; else an error.",
    parse: Some(parse_eval),
    ..SCRIPTING
};

const BY_SHA: &[Argument] = &[Argument::new("sha1", Kind::Bytes), COUNT, KEY, ARG];
const BY_NAME: &[Argument] = &[Argument::new("function", Kind::Bytes), COUNT, KEY, ARG];

const fn evalsha(name: &'static str, call: &'static str) -> CommandSpec {
    CommandSpec {
        arguments: BY_SHA,
        flags: SCRIPTING.flags,
        reply: "The error class `NOSCRIPT`.",
        ..refused(name, "Refused: no script is kept", call, NO_SCRIPT, EVAL)
    }
}

const fn fcall(name: &'static str, call: &'static str) -> CommandSpec {
    CommandSpec {
        arguments: BY_NAME,
        flags: SCRIPTING.flags,
        ..refused(name, "Refused: there are no functions", call, "ERR Function not found", EVAL)
    }
}

const fn kill(name: &'static str, summary: &'static str, call: &'static str) -> CommandSpec {
    let reply = "The error class `NOTBUSY`.";
    CommandSpec { reply, ..refused(name, summary, call, NOT_BUSY, PART) }
}

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";
const NO_SCRIPTS: &str = "ERR delayd runs no scripts";

/// A subcommand of SCRIPT or FUNCTION.
const PART: CommandSpec =
    CommandSpec { flags: &[Flag::NoScript, Flag::Loading, Flag::Stale], ..SCRIPTING };

const SYNC: Argument = Argument::one_of(
    "flush-type",
    &[Argument::word("async", "ASYNC"), Argument::word("sync", "SYNC")],
)
.optional();

/// Texts, blanks as one, that KEDA's `redis` scaler sends or has sent: LLEN, ZCARD, SCARD or HLEN by
/// the type of one key. A queue's type is `list`, and LLEN of what is not there is 0. Kept as SHA-256.
const LENGTH_SCRIPTS: [[u8; 32]; 2] = [
    hex("beb86e7203239f4ba0a5b5e3009138bb38423653141c92472472580a96da901e"),
    hex("e004968eda6964727f878cff96c682cd7b0d24dd2f2ffae8a04c987eb1f20608"),
];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "eval",
        summary: "Counts ready jobs, for KEDA; runs no scripts",
        notes: "The `redis` scaler of KEDA asks for the length of a list with a fixed script. That script is \
                known by its text and answered as LLEN. Any other script is refused.",
        example: &[(
            "EVAL \"return 1\" 0",
            "(error) ERR delayd runs no scripts; EVAL knows only those with which KEDA asks for the length of \
             a list",
        )],
        ..EVAL
    },
    CommandSpec {
        name: "eval_ro",
        summary: "As EVAL",
        example: &[(
            "EVAL_RO \"return 1\" 0",
            "(error) ERR delayd runs no scripts; EVAL knows only those with which KEDA asks for the length of \
             a list",
        )],
        ..EVAL
    },
    evalsha("evalsha", "EVALSHA c0ffee 0"),
    evalsha("evalsha_ro", "EVALSHA_RO c0ffee 0"),
    fcall("fcall", "FCALL nothing 0"),
    fcall("fcall_ro", "FCALL_RO nothing 0"),
    CommandSpec {
        name: "function",
        summary: "Functions, of which there are none",
        complexity: "Depends on the subcommand",
        reply: "Depends on the subcommand.",
        flags: &[],
        subcommands: &[
            CommandSpec {
                arguments: &[Argument::new("library-name", Kind::Bytes)],
                ..refused(
                    "function|delete",
                    "Refused: there are no functions",
                    "FUNCTION DELETE lib",
                    "ERR Library not found",
                    PART,
                )
            },
            CommandSpec {
                name: "function|flush",
                summary: "Removes all functions, of which there are none",
                arguments: &[SYNC],
                reply: "Simple string: `OK`.",
                example: &[("FUNCTION FLUSH", "OK")],
                parse: Some(|args| {
                    let why = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
                    args.option().map_err(|_| Error::text(why))?;
                    args.end().map_err(|_| Error::text(why))?;
                    fixed(Fixed::Ok)
                }),
                ..PART
            },
            help("function|help", Group::Scripting),
            kill("function|kill", "Stops a function, of which none runs", "FUNCTION KILL"),
            CommandSpec {
                name: "function|list",
                summary: "Shows no functions",
                arguments: &[
                    Argument::option("LIBRARYNAME", "library-name-pattern", Kind::Bytes),
                    Argument::word("withcode", "WITHCODE").optional(),
                ],
                reply: "Array, empty.",
                example: &[("FUNCTION LIST", "(empty array)")],
                parse: Some(|args| {
                    while let Some(option) = args.option()? {
                        if option == "LIBRARYNAME" {
                            args.word("library-name-pattern")?;
                        }
                    }
                    fixed(Fixed::Empty)
                }),
                ..PART
            },
            CommandSpec {
                arguments: &[
                    Argument::word("replace", "REPLACE").optional(),
                    Argument::new("function-code", Kind::Bytes),
                ],
                ..refused(
                    "function|load",
                    "Refused: delayd runs no scripts",
                    "FUNCTION LOAD x",
                    NO_SCRIPTS,
                    PART,
                )
            },
        ],
        ..SCRIPTING
    },
    CommandSpec {
        name: "script",
        summary: "Scripts, of which none is kept",
        complexity: "Depends on the subcommand",
        reply: "Depends on the subcommand.",
        flags: &[],
        subcommands: &[
            CommandSpec {
                name: "script|exists",
                summary: "Says which scripts are kept: none",
                arguments: &[Argument::new("sha1", Kind::Bytes).multiple()],
                reply: "Array of integers: a 0 for each.",
                example: &[("SCRIPT EXISTS c0ffee", "1) (integer) 0")],
                parse: Some(|args| {
                    let count = args.rest().len();
                    fixed(Fixed::Zeros(count))
                }),
                ..PART
            },
            CommandSpec {
                name: "script|flush",
                summary: "Removes all scripts, of which there are none",
                arguments: &[SYNC],
                reply: "Simple string: `OK`.",
                example: &[("SCRIPT FLUSH", "OK")],
                parse: Some(|args| {
                    let why = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
                    args.option().map_err(|_| Error::text(why))?;
                    args.end().map_err(|_| Error::text(why))?;
                    fixed(Fixed::Ok)
                }),
                ..PART
            },
            help("script|help", Group::Scripting),
            kill("script|kill", "Stops a script, of which none runs", "SCRIPT KILL"),
            CommandSpec {
                arguments: &[Argument::new("script", Kind::Bytes)],
                ..refused(
                    "script|load",
                    "Refused: delayd runs no scripts",
                    "SCRIPT LOAD x",
                    NO_SCRIPTS,
                    PART,
                )
            },
        ],
        ..SCRIPTING
    },
];

fn fixed<'a>(reply: Fixed) -> Result<Action<'a>, Error> {
    Ok(Action::Server(Server::Fixed(reply)))
}

fn parse_eval<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let script = args.word("script")?;
    let left = args.left();
    let count = number::signed(args.word("numkeys")?)
        .ok_or_else(|| Error::text("ERR value is not an integer or out of range"))?;
    if count < 0 {
        return Err(Error::text("ERR Number of keys can't be negative"));
    }
    if count >= left as i64 {
        return Err(Error::text("ERR Number of keys can't be greater than number of args"));
    }
    if count != 1 || args.left() != 1 || !is_one_of(&LENGTH_SCRIPTS, script) {
        return Err(Error::text(
            "ERR delayd runs no scripts; EVAL knows only those with which KEDA asks for the length of a \
             list",
        ));
    }
    let QueueName { db, name } = args.queue()?;
    let queue = QueueName { db, name };
    Ok(Action::Engine(Request::Len { queue, state: Some(State::Ready) }))
}

/// Whether the script is one of those with these digests, whatever blanks part its words.
fn is_one_of(known: &[[u8; 32]], script: &[u8]) -> bool {
    if script.len() > SCRIPT_BYTES_MAX {
        return false;
    }
    let mut hash = Sha256::new();
    let words = script.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        if at > 0 {
            hash.update(b" ");
        }
        hash.update(word);
    }
    let digest: [u8; 32] = hash.finalize().into();
    known.contains(&digest)
}

/// 64 hexadecimal digits as bytes.
const fn hex(digits: &str) -> [u8; 32] {
    const fn value(digit: u8) -> u8 {
        if digit >= b'a' { digit - b'a' + 10 } else { digit - b'0' }
    }
    let (digits, mut bytes, mut at) = (digits.as_bytes(), [0; 32], 0);
    while at < 32 {
        bytes[at] = value(digits[2 * at]) * 16 + value(digits[2 * at + 1]);
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_its_words() {
        let known = [[1; 32], Sha256::digest(b"local a = KEYS[1] return a").into()];
        for (script, is_known) in [
            (&b"local a = KEYS[1] return a"[..], true),
            (b"\n\t\tlocal a  = KEYS[1]\r\n\treturn a\n\t", true),
            (b"local a = KEYS[1]return a", false),
            (b"local a = KEYS[2] return a", false),
            (b"", false),
        ] {
            assert_eq!(is_one_of(&known, script), is_known);
        }
        let mut long = b"local a = KEYS[1] return a".to_vec();
        long.resize(SCRIPT_BYTES_MAX + 1, b' ');
        assert!(!is_one_of(&known, &long));
        assert!(is_one_of(&known, &long[..SCRIPT_BYTES_MAX]));
        assert_eq!(hex(&"0f".repeat(32)), [15; 32]);
    }
}
