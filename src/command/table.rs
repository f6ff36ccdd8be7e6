//! The one table: every command, found by name.

use std::sync::LazyLock;

use ahash::RandomState;
use hashbrown::HashMap;

use crate::command::args::arity_error;
use crate::command::spec::CommandSpec;
use crate::error::Error;

/// The table, a slice for each file that holds commands beside their parsers.
static TABLE: [&[CommandSpec]; 10] = [
    super::produce::COMMANDS,
    super::consume::COMMANDS,
    super::job::COMMANDS,
    super::queue::COMMANDS,
    super::keyspace::COMMANDS,
    super::transaction::COMMANDS,
    super::connection::COMMANDS,
    super::client::COMMANDS,
    super::commands::COMMANDS,
    super::server::COMMANDS,
];

struct Entry {
    spec: &'static CommandSpec,
    arity: i64,
}

/// By lower-case name. The seed is fixed: the names are ours, nobody can choose them to collide.
static BY_NAME: LazyLock<HashMap<&'static [u8], Entry, RandomState>> = LazyLock::new(|| {
    let entry =
        |spec: &'static CommandSpec| (spec.name.as_bytes(), Entry { spec, arity: spec.arity() });
    let mut by_name = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
    by_name.extend(all().map(entry));
    by_name
});

/// The longest name is shorter than this, bytes.
const NAME_BYTES: usize = 32;

/// All commands, containers without their subcommands, by chapter of the table.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    TABLE.iter().flat_map(|commands| commands.iter())
}

/// All commands and, behind each container, its subcommands.
pub fn all_with_subcommands() -> impl Iterator<Item = &'static CommandSpec> {
    all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
}

/// The command of this name in any case; `client|kill` names a subcommand.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(at) => subcommand(entry(&name[..at])?.spec, &name[at + 1..]),
        None => entry(name).map(|entry| entry.spec),
    }
}

/// The command that `args`, which begin with its name, call; their number is right. Costs one hash
/// of the name and allocates nothing unless it fails.
pub fn resolve(args: &[&[u8]]) -> Result<&'static CommandSpec, Error> {
    let name = args.first().copied().unwrap_or_default();
    let entry = entry(name).ok_or_else(|| unknown(args))?;
    let Some(word) = args.get(1).filter(|_| !entry.spec.subcommands.is_empty()) else {
        let count = args.len() as i64;
        let right = if entry.arity < 0 { count >= -entry.arity } else { count == entry.arity };
        return if right { Ok(entry.spec) } else { Err(arity_error(entry.spec.name)) };
    };
    let spec = subcommand(entry.spec, word).ok_or_else(|| {
        let container = entry.spec.written();
        Error::text(format!("ERR unknown subcommand '{}'. Try {container} HELP.", cut(word, 128)))
    })?;
    if spec.takes(args.len()) { Ok(spec) } else { Err(arity_error(spec.name)) }
}

fn entry(name: &[u8]) -> Option<&'static Entry> {
    let mut lower = [0; NAME_BYTES];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower)
}

fn subcommand(container: &'static CommandSpec, word: &[u8]) -> Option<&'static CommandSpec> {
    container.subcommands.iter().find(|spec| spec.word().as_bytes().eq_ignore_ascii_case(word))
}

/// Redis's text: the name, then arguments until about 128 bytes are full.
fn unknown(args: &[&[u8]]) -> Error {
    let name = args.first().copied().unwrap_or_default();
    let mut shown = String::new();
    for arg in &args[1.min(args.len())..] {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown.push_str(&format!("'{}' ", cut(arg, room)));
    }
    let name = cut(name, 128);
    Error::text(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
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
        assert_eq!(resolved("DELAY.ADD q 5s"), arity("delay.add"));
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
        assert_eq!(BY_NAME.len(), all().count());
        for spec in all_with_subcommands() {
            assert!(spec.name.len() < NAME_BYTES, "{}", spec.name);
            assert_eq!(spec.name, spec.name.to_lowercase());
            assert_eq!(find(spec.name.as_bytes()).map(|found| found.name), Some(spec.name));
        }
    }
}
