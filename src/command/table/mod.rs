//! The one table: every command, found by name.

mod face;

pub use face::Face;

use std::sync::LazyLock;

use crate::command::family::{
    acl, across, backup, bulk, client, cluster, commands, connection, consume, hash_slots, help,
    job, journal, keyspace, list, observe, policy, produce, pubsub, queue, replication, schedule,
    scripting, server, transaction,
};
use crate::command::spec::CommandSpec;
use crate::command::spec::args::arity_error;
use crate::error::Error;
use crate::nearest::nearest;

/// The table, a slice for each file that holds commands and their parsers.
static TABLE: [&[CommandSpec]; 25] = [
    produce::COMMANDS,
    consume::COMMANDS,
    job::COMMANDS,
    queue::COMMANDS,
    across::COMMANDS,
    bulk::COMMANDS,
    policy::COMMANDS,
    schedule::COMMANDS,
    cluster::COMMANDS,
    hash_slots::COMMANDS,
    backup::COMMANDS,
    help::COMMANDS,
    list::COMMANDS,
    keyspace::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    connection::COMMANDS,
    acl::COMMANDS,
    client::COMMANDS,
    commands::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    replication::COMMANDS,
    observe::COMMANDS,
    journal::COMMANDS,
];

struct CommandEntry {
    spec: &'static CommandSpec,
    /// The name as most clients write it.
    upper: Box<[u8]>,
    arity: i64,
    subcommands: Box<[(&'static CommandSpec, i64)]>,
}

impl CommandEntry {
    fn of(spec: &'static CommandSpec) -> CommandEntry {
        let subcommands = spec.subcommands.iter().map(|spec| (spec, spec.arity())).collect();
        let upper = spec.name.to_ascii_uppercase().into_bytes().into_boxed_slice();
        CommandEntry { spec, upper, arity: spec.arity(), subcommands }
    }
}

/// Entries by name: a slot is the number of an entry, or [`EMPTY`]; collisions go to the next slot.
///
/// Made for this use: a name is hashed and compared in place, in any case, without being copied first. With several
/// times as many slots as commands nearly all are found at the first probe, and a name in capitals, as clients send it,
/// is compared in one piece.
struct ByName {
    entries: Vec<CommandEntry>,
    slots: [u8; SLOTS],
}

const SLOTS: usize = 512;
const EMPTY: u8 = u8::MAX;

static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
    let mut by_name = ByName { entries: Vec::new(), slots: [EMPTY; SLOTS] };
    for spec in all() {
        let number = by_name.entries.len();
        assert!(number < usize::from(EMPTY), "a slot names up to 255 commands");
        let mut slot = slot_of(spec.name.as_bytes());
        while by_name.slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        by_name.slots[slot] = number as u8;
        by_name.entries.push(CommandEntry::of(spec));
    }
    by_name
});

/// The longest name is shorter than this, bytes; a longer word is not even hashed.
const NAME_BYTES: usize = 32;

/// Where to begin looking: a hash of the length and of the first and the last eight bytes in lower case, which are all
/// that most names have. Setting a bit is enough for that: a comparison separates bytes that it confuses.
fn slot_of(name: &[u8]) -> usize {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    let mixed = (first | LOWER).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (last | LOWER).rotate_left(32).wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ name.len() as u64;
    let mixed = mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (mixed >> (64 - SLOTS.ilog2())) as usize
}

/// All commands, containers without their subcommands, by chapter of the table.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    TABLE.iter().flat_map(|commands| commands.iter())
}

/// All commands and, after each container, its subcommands.
pub fn all_with_subcommands() -> impl Iterator<Item = &'static CommandSpec> {
    all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
}

/// The command of this name in any case; `client|kill` names a subcommand.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(at) => subcommand(entry(&name[..at])?, &name[at + 1..]).map(|(spec, _)| spec),
        None => entry(name).map(|entry| entry.spec),
    }
}

/// The command that `args`, which begin with its name, call; their number is right. Costs one hash
/// of the name and one comparison, and allocates nothing unless it fails.
pub fn resolve(args: &[&[u8]]) -> Result<&'static CommandSpec, Error> {
    let name = args.first().copied().unwrap_or_default();
    resolve_in(entry(name).ok_or_else(|| unknown(args))?, args)
}

// Called for every command: as one function with what calls it.
#[inline(always)]
fn resolve_in(entry: &'static CommandEntry, args: &[&[u8]]) -> Result<&'static CommandSpec, Error> {
    let (spec, arity) = match args.get(1) {
        Some(word) if !entry.subcommands.is_empty() => {
            subcommand(entry, word).ok_or_else(|| {
                let (word, container) = (cut(word, 128), entry.spec.written());
                Error::text(format!("ERR unknown subcommand '{word}'. Try {container} HELP."))
            })?
        }
        _ => (entry.spec, entry.arity),
    };
    let count = args.len() as i64;
    let right = if arity < 0 { count >= -arity } else { count == arity };
    if right { Ok(spec) } else { Err(arity_error(spec)) }
}

fn entry(name: &[u8]) -> Option<&'static CommandEntry> {
    if name.len() >= NAME_BYTES {
        return None;
    }
    let by_name = &*BY_NAME;
    let mut slot = slot_of(name);
    loop {
        // None at an empty slot, whose number no entry has.
        let entry = by_name.entries.get(usize::from(by_name.slots[slot]))?;
        if *entry.upper == *name || entry.spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(entry);
        }
        slot = (slot + 1) % SLOTS;
    }
}

fn subcommand(
    container: &'static CommandEntry,
    word: &[u8],
) -> Option<(&'static CommandSpec, i64)> {
    let mut subcommands = container.subcommands.iter();
    let is_word = |spec: &CommandSpec| spec.word().as_bytes().eq_ignore_ascii_case(word);
    subcommands.find(|(spec, _)| is_word(spec)).copied()
}

/// No command has this name. Redis's text: the name, then arguments until about 128 bytes are full.
pub fn unknown(args: &[&[u8]]) -> Error {
    let name = args.first().copied().unwrap_or_default();
    let mut shown = String::new();
    for arg in &args[1.min(args.len())..] {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown.push_str(&format!("'{}' ", cut(arg, room)));
    }
    let cut_name = cut(name, 128);
    let text = format!("ERR unknown command '{cut_name}', with args beginning with: {shown}");
    match meant(name, args.get(1).copied().unwrap_or_default()) {
        Some(hint) => Error::text(format!("{text}({hint})")),
        None => Error::text(text),
    }
}

/// Suggestions for an unknown command of ours: `DELAY.AD q`, `DELAY ADD q`, `DELAY`.
fn meant(name: &[u8], first: &[u8]) -> Option<String> {
    let name = cut(name, NAME_BYTES).to_lowercase();
    let word = match name.strip_prefix("delay")? {
        "" => cut(first, NAME_BYTES).to_lowercase(),
        word => word.trim_start_matches(['.', ':', '_', '-']).to_owned(),
    };
    let ours =
        all().filter_map(|spec| spec.name.strip_prefix("delay.")).filter(|word| *word != "help");
    let near =
        nearest(&word, ours).map(|word| format!("did you mean DELAY.{}? ", word.to_uppercase()));
    Some(format!("{}DELAY.HELP lists the commands", near.unwrap_or_default()))
}

fn cut(text: &[u8], bytes_max: usize) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&text[..text.len().min(bytes_max)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(line: &str) -> Result<&'static str, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        resolve(&args).map(|spec| spec.name).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(resolved("DELAY.ADD q 5s x"), Ok("delay.add"));
        assert_eq!(resolved("delay.add q 5s x NX ID 7"), Ok("delay.add"));
        assert_eq!(resolved("cLiEnT kIlL x"), Ok("client|kill"));
        assert_eq!(resolved("COMMAND"), Ok("command"));
        assert_eq!(resolved("COMMAND COUNT"), Ok("command|count"));
        assert_eq!(find(b"CLIENT|KILL").map(|spec| spec.name), Some("client|kill"));
        assert_eq!(find(b"client|nothing").map(|spec| spec.name), None);
        assert_eq!(find(b"ping|x").map(|spec| spec.name), None);
        assert_eq!(find(&[b'x'; 600]).map(|spec| spec.name), None);
    }

    #[test]
    fn errors_are_those_of_redis() {
        let arity = |name: &str| Err(format!("ERR wrong number of arguments for '{name}' command"));
        let usage = "DELAY.LEN queue [DELAYED | READY | LEASED | DEAD]";
        let of_ours =
            format!("ERR wrong number of arguments for 'delay.len' command; usage: {usage}");
        assert_eq!(resolved("DELAY.LEN"), Err(of_ours));
        assert_eq!(resolved("CLIENT"), arity("client"));
        assert_eq!(resolved("CLIENT KILL"), arity("client|kill"));
        assert_eq!(resolved("CLIENT ID x"), arity("client|id"));
        assert_eq!(resolved("GET"), arity("get"));
        assert_eq!(
            resolved("CLIENT FOO a"),
            Err("ERR unknown subcommand 'FOO'. Try CLIENT HELP.".to_string())
        );
        assert_eq!(
            resolved("foo a b"),
            Err("ERR unknown command 'foo', with args beginning with: 'a' 'b' ".to_string())
        );
        assert_eq!(
            resolved("foo"),
            Err("ERR unknown command 'foo', with args beginning with: ".to_string())
        );
        let (long, rest) = ("a".repeat(113), "b".repeat(60));
        assert_eq!(
            resolved(&format!("foo {long} {rest} ccc")),
            Err(format!(
                "ERR unknown command 'foo', with args beginning with: '{long}' '{}' ",
                &rest[..12]
            ))
        );
        assert!(resolve(&[b""]).is_err() && resolve(&[]).is_err());
    }

    #[test]
    fn every_name_is_short_and_single() {
        assert_eq!(BY_NAME.entries.len(), all().count());
        for spec in all_with_subcommands() {
            assert!(spec.name.len() < NAME_BYTES, "{}", spec.name);
            assert_eq!(spec.name, spec.name.to_lowercase());
            assert_eq!(find(spec.name.as_bytes()).map(|found| found.name), Some(spec.name));
        }
    }
}
