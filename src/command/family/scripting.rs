//! Scripts, of which delayd runs none. The commands that tools send around them are answered; two scripts of an
//! autoscaler are recognised, and mean LLEN.

use crate::command::family::help::help;
use crate::command::family::help::refused;
use crate::command::spec::action::{Action, Fixed, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};
use crate::engine::model::request::{JobState, QueueName, Request};
use crate::error::Error;
use crate::limits::SCRIPT_BYTES_MAX;
use sha2::{Digest, Sha256};

const SCRIPTING: CommandSpec =
    CommandSpec::BASE.group(Group::Scripting).flags(&[Flag::NoScript, Flag::Stale]);

const COUNT: Argument = Argument::new("numkeys", ArgumentKind::Integer);
const KEY: Argument = Argument::new("key", ArgumentKind::Key).optional().multiple();
const ARG: Argument = Argument::new("arg", ArgumentKind::Bytes).optional().multiple();

const EVAL: CommandSpec = SCRIPTING
    .arguments(&[Argument::new("script", ArgumentKind::Bytes), COUNT, KEY, ARG])
    .keys(KeyPositions::Counted { at: 2 })
    .access(Access::Look)
    .flags(&[Flag::ReadOnly, Flag::NoScript])
    .reply("Integer: the ready jobs of the queue, for a known script; else an error.")
    .parse(parse_eval);

const BY_SHA: &[Argument] = &[Argument::new("sha1", ArgumentKind::Bytes), COUNT, KEY, ARG];
const BY_NAME: &[Argument] = &[Argument::new("function", ArgumentKind::Bytes), COUNT, KEY, ARG];

const fn evalsha(name: &'static str, call: &'static str) -> CommandSpec {
    refused(name, "Refused: no script is kept", call, NO_SCRIPT, EVAL)
        .arguments(BY_SHA)
        .flags(SCRIPTING.flags)
        .reply("The error class `NOSCRIPT`.")
}

const fn fcall(name: &'static str, call: &'static str) -> CommandSpec {
    refused(name, "Refused: there are no functions", call, "ERR Function not found", EVAL)
        .arguments(BY_NAME)
        .flags(SCRIPTING.flags)
}

const fn kill(name: &'static str, summary: &'static str, call: &'static str) -> CommandSpec {
    let reply = "The error class `NOTBUSY`.";
    refused(name, summary, call, NOT_BUSY, PART).reply(reply)
}

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";
const NO_SCRIPTS: &str = "ERR delayd runs no scripts";

/// A subcommand of SCRIPT or FUNCTION.
const PART: CommandSpec = SCRIPTING.flags(&[Flag::NoScript, Flag::Loading, Flag::Stale]);

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
    row("eval", "Counts ready jobs, for KEDA; runs no scripts", EVAL)
        .notes("The `redis` scaler of KEDA asks for the length of a list with a fixed script. delayd recognises that \
                script by its text and answers like LLEN. Any other script is refused.")
        .example(&[(
            "EVAL \"return 1\" 0",
            "(error) ERR delayd runs no scripts; EVAL knows only those with which KEDA asks for the length of \
             a list",
        )]),
    row("eval_ro", "As EVAL", EVAL)
        .example(&[(
            "EVAL_RO \"return 1\" 0",
            "(error) ERR delayd runs no scripts; EVAL knows only those with which KEDA asks for the length of \
             a list",
        )]),
    evalsha("evalsha", "EVALSHA c0ffee 0"),
    evalsha("evalsha_ro", "EVALSHA_RO c0ffee 0"),
    fcall("fcall", "FCALL nothing 0"),
    fcall("fcall_ro", "FCALL_RO nothing 0"),
    row("function", "Functions, of which there are none", SCRIPTING)
        .complexity("Depends on the subcommand")
        .reply("Depends on the subcommand.")
        .flags(&[])
        .subcommands(&[
            refused(
                "function|delete",
                "Refused: there are no functions",
                "FUNCTION DELETE lib",
                "ERR Library not found",
                PART,
            )
            .arguments(&[Argument::new("library-name", ArgumentKind::Bytes)]),
            row("function|flush", "Removes all functions, of which there are none", PART)
                .arguments(&[SYNC])
                .reply("Simple string: `OK`.")
                .example(&[("FUNCTION FLUSH", "OK")])
                .parse(|args| flush(args, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
            help("function|help", Group::Scripting),
            kill("function|kill", "Stops a function, of which none runs", "FUNCTION KILL"),
            row("function|list", "Shows no functions", PART)
                .arguments(&[
                    Argument::option("LIBRARYNAME", "library-name-pattern", ArgumentKind::Bytes),
                    Argument::word("withcode", "WITHCODE").optional(),
                ])
                .reply("Array, empty.")
                .example(&[("FUNCTION LIST", "(empty array)")])
                .parse(|args| {
                    while let Some(option) = args.option()? {
                        if option == "LIBRARYNAME" {
                            args.word("library-name-pattern")?;
                        }
                    }
                    fixed(Fixed::Empty)
                }),
            refused(
                "function|load",
                "Refused: delayd runs no scripts",
                "FUNCTION LOAD x",
                NO_SCRIPTS,
                PART,
            )
            .arguments(&[
                Argument::word("replace", "REPLACE").optional(),
                Argument::new("function-code", ArgumentKind::Bytes),
            ]),
        ]),
    row("script", "Scripts, of which none is kept", SCRIPTING)
        .complexity("Depends on the subcommand")
        .reply("Depends on the subcommand.")
        .flags(&[])
        .subcommands(&[
            row("script|exists", "Shows which scripts are kept: none", PART)
                .arguments(&[Argument::new("sha1", ArgumentKind::Bytes).multiple()])
                .reply("Array of integers: a 0 for each.")
                .example(&[("SCRIPT EXISTS c0ffee", "1) (integer) 0")])
                .parse(|args| {
                    let count = args.rest().len();
                    fixed(Fixed::Zeros(count))
                }),
            row("script|flush", "Removes all scripts, of which there are none", PART)
                .arguments(&[SYNC])
                .reply("Simple string: `OK`.")
                .example(&[("SCRIPT FLUSH", "OK")])
                .parse(|args| flush(args, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            help("script|help", Group::Scripting),
            kill("script|kill", "Stops a script, of which none runs", "SCRIPT KILL"),
            refused(
                "script|load",
                "Refused: delayd runs no scripts",
                "SCRIPT LOAD x",
                NO_SCRIPTS,
                PART,
            )
            .arguments(&[Argument::new("script", ArgumentKind::Bytes)]),
        ]),
];

fn fixed<'a>(reply: Fixed) -> Result<Action<'a>, Error> {
    Ok(Action::Server(ServerRequest::Fixed(reply)))
}

fn flush<'a>(args: &mut Args<'a>, why: &'static str) -> Result<Action<'a>, Error> {
    args.option().and_then(|_| args.end()).map_err(|_| Error::text(why))?;
    fixed(Fixed::Ok)
}

fn parse_eval<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let script = args.word("script")?;
    let left = args.left();
    let count = args.signed("numkeys")?;
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
    Ok(Action::Engine(Request::Len { queue, state: Some(JobState::Ready) }))
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
