//! The table of commands against its own parsers. What each parser takes and refuses is in the transcripts.

use delayd::command::spec::argument::{Argument, ArgumentKind};
use delayd::command::spec::{CATEGORIES, Flag, Group, KeyPositions};
use delayd::command::{self, CommandSpec, table};
use delayd::error::Error;
use delayd::ids::Db;

#[test]
fn every_command_is_described() {
    for spec in table::all_with_subcommands() {
        let name = spec.name;
        assert!(!spec.summary.is_empty() && !spec.summary.ends_with('.'), "{name}: summary");
        assert!(!spec.complexity.is_empty(), "{name}: complexity");
        assert!(spec.reply.ends_with('.'), "{name}: reply");
        assert!(!spec.since.is_empty(), "{name}: since");
        let help = name.ends_with("|help");
        let container = !spec.subcommands.is_empty();
        assert!(
            help || container || !spec.example.is_empty() || spec.always.is_some(),
            "{name}: example"
        );
        assert!(spec.parse.is_some() || container, "{name}: parser");
        for category in spec.all_categories() {
            assert!(CATEGORIES.contains(&category), "{name}: {category}");
        }
        let both = spec.has(Flag::Write) && spec.has(Flag::ReadOnly);
        assert!(!both, "{name}: writes and does not");
        // A worker that has @delay may not fetch all queues.
        let is_of_jobs = name.starts_with("delay.") && !name.starts_with("delay.backup");
        assert_eq!(is_of_jobs, spec.group == Group::Delay, "{name}: group");
        for subcommand in spec.subcommands {
            let inside = subcommand.name.strip_prefix(name).is_some_and(|n| n.starts_with('|'));
            assert!(inside, "{}: container", subcommand.name);
        }
    }
}

#[test]
fn the_example_counts_right() {
    let count = format!("(integer) {}", table::all().count());
    let spec = table::find(b"command|count").expect("it is in the table");
    assert_eq!(spec.example, [("COMMAND COUNT", count.as_str())]);
}

/// The position of the queues, which clients use for routing, is where the tree has them.
#[test]
fn keys_stand_where_the_tree_says() {
    for spec in table::all_with_subcommands() {
        let at = spec.arguments.iter().position(|argument| argument.kind == ArgumentKind::Key);
        let base = 1 + i64::from(spec.is_subcommand());
        let Some(at) = at else {
            assert_eq!(spec.keys, KeyPositions::None, "{}", spec.name);
            continue;
        };
        let behind = spec.arguments[at + 1..].iter().map(Argument::words_min).sum::<usize>() as i64;
        let first = base + at as i64;
        if matches!(spec.keys, KeyPositions::FromTo { .. }) {
            let second = &spec.arguments[at + 1];
            assert_eq!(
                (first, second.kind, second.key_spec),
                (1, ArgumentKind::Key, 1),
                "{}",
                spec.name
            );
            continue;
        }
        let counted = at > 0 && ["numqueues", "numkeys"].contains(&spec.arguments[at - 1].name);
        // RENAME names two.
        let keys =
            spec.arguments[at..].iter().take_while(|argument| argument.kind == ArgumentKind::Key);
        let last = first + keys.count() as i64 - 1;
        let want = match spec.arguments[at].multiple {
            true if counted => KeyPositions::Counted { at: first - 1 },
            true => KeyPositions::Range { first, last: -1 - behind },
            false => KeyPositions::Range { first, last },
        };
        assert_eq!(spec.keys, want, "{}", spec.name);
    }
}

#[test]
fn arities_are_those_of_redis() {
    for (name, arity) in [
        ("delay.add", -4),
        ("delay.pop", -3),
        ("delay.reserve", -4),
        ("delay.ack", -4),
        ("delay.extend", 5),
        ("delay.get", 3),
        ("get", 2),
        ("ping", -1),
        ("hello", -1),
        ("auth", -2),
        ("client", -2),
        ("client|kill", -3),
        ("client|list", -2),
        ("client|setinfo", 4),
        ("client|reply", 3),
        ("command", -1),
        ("command|list", -2),
        ("command|count", 2),
        ("config|get", -3),
        ("config|set", -4),
        ("scan", -2),
        ("exec", 1),
        ("object|encoding", 3),
        ("wait", 3),
        ("shutdown", -1),
        ("waitaof", 4),
        ("save", 1),
        ("bgsave", -1),
        ("bgrewriteaof", 1),
        ("lastsave", 1),
        ("slowlog|get", -2),
        ("expire", -3),
    ] {
        let spec = table::find(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(spec.arity(), arity, "{name}");
    }
}

fn sample(argument: &Argument) -> Vec<&'static str> {
    match argument.kind {
        ArgumentKind::Word => vec![],
        ArgumentKind::OneOf => match argument.arguments[0].token {
            Some(token) => {
                let mut words = vec![token];
                words.extend(sample(&argument.arguments[0]));
                words
            }
            None => sample(&argument.arguments[0]),
        },
        ArgumentKind::Block => argument.arguments.iter().flat_map(sample).collect(),
        ArgumentKind::Integer if argument.name == "protover" => vec!["3"],
        ArgumentKind::Integer if argument.name == "index" => vec!["0"],
        ArgumentKind::Integer => vec!["1"],
        // More than the spread that is sampled.
        ArgumentKind::Duration if ["every", "last", "step"].contains(&argument.name) => {
            vec!["1h"]
        }
        ArgumentKind::Duration | ArgumentKind::When => vec!["30s"],
        ArgumentKind::Rate => vec!["100/1m"],
        ArgumentKind::Timeout => vec!["0.5"],
        ArgumentKind::Side => vec!["LEFT"],
        ArgumentKind::Token => vec!["42"],
        ArgumentKind::Backoff => vec!["1s,5s~"],
        ArgumentKind::Instant => vec!["@1893456000000"],
        ArgumentKind::Cron => vec!["0 8 * * MON-FRI"],
        ArgumentKind::Zone => vec!["Europe/Berlin"],
        ArgumentKind::Pattern => vec!["*"],
        ArgumentKind::Key | ArgumentKind::Id => vec!["x"],
        ArgumentKind::Bytes if argument.name == "username" => vec!["default"],
        ArgumentKind::Bytes => vec!["x"],
    }
}

/// What must be there, from the tree.
fn required(spec: &'static CommandSpec) -> Vec<&'static str> {
    let mut words: Vec<&str> = spec.name.split('|').collect();
    for argument in spec.arguments.iter().filter(|argument| !argument.optional) {
        words.extend(argument.token);
        words.extend(sample(argument));
    }
    words
}

/// Every option of the tree with what is to follow it.
fn options(arguments: &'static [Argument]) -> Vec<&'static Argument> {
    let inside = |argument: &'static Argument| match argument.token {
        Some(_) => vec![argument],
        None => options(argument.arguments),
    };
    arguments.iter().flat_map(inside).collect()
}

fn try_words(words: &[&str]) -> Result<(), String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let text = |error: Error| error.to_string();
    let spec = table::resolve(&words).map_err(text)?;
    command::parse(spec, &words, Db(3)).map(drop).map_err(text)
}

/// Commands that are refused whatever follows, and those that read no word of what follows.
fn takes_anything(spec: &CommandSpec) -> bool {
    let spec = table::find(spec.name.as_bytes()).expect("it is in the table");
    try_words(&required(spec)).is_err() || spec.name == "lolwut"
}

#[test]
fn every_command_takes_what_its_tree_requires() {
    let refused: Vec<&str> = table::all_with_subcommands()
        .filter(|spec| spec.parse.is_some() && spec.subcommands.is_empty())
        .filter(|spec| try_words(&required(spec)).is_err())
        .map(|spec| spec.name)
        .collect();
    assert_eq!(
        refused,
        [
            // It acts on no job without being told which.
            "delay.bulk", "lset", "linsert", "ltrim", "expire", "pexpire", "expireat", "pexpireat",
            "dump", "restore", "move", "client|caching", "client|tracking",
            // No script is run.
            "eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "function|delete",
            "function|kill", "function|load", "script|kill", "script|load", "swapdb",
            // Nothing is replicated.
            "debug", "psync", "replconf", "replicaof", "slaveof", "sync",
            // Nothing is noted.
            "latency|graph"
        ]
    );
}

/// Each option of the tree is accepted in upper and lower case, and in front of itself refused; no
/// word that is not in the tree is.
#[test]
fn options_are_those_of_the_tree() {
    let mut count = 0;
    for spec in table::all_with_subcommands().filter(|spec| spec.parse.is_some()) {
        if !spec.subcommands.is_empty() || takes_anything(spec) {
            continue;
        }
        // A word that anything may be: nothing can be wrong there.
        let free = spec.arguments.iter().any(|argument| {
            argument.token.is_none() && argument.arguments.is_empty() && argument.optional
        });
        for option in options(spec.arguments) {
            let mut words = required(spec);
            // One of these must be there: the option takes the place of the one that is sampled.
            let alternatives = spec.arguments.iter().any(|argument| {
                let inside = options(std::slice::from_ref(argument));
                !argument.optional && inside.iter().any(|one| std::ptr::eq(*one, option))
            });
            if alternatives {
                words.truncate(spec.name.split('|').count());
                let positional =
                    spec.arguments.iter().filter(|a| options(std::slice::from_ref(a)).is_empty());
                words.extend(positional.flat_map(sample));
            }
            let needs_id = ["NX", "REPLACE", "LATEST", "MAXDELAY", "UNIQUE"];
            let token = option.token.expect("an option has a token");
            if matches!((spec.name, token), ("failover", "FORCE") | ("delay.config|set", "GROUP")) {
                // It is understood, and refused: of groups with the setting that is sampled.
                continue;
            }
            if spec.name == "delay.add" && needs_id.contains(&token) {
                words.extend(["ID", "x"]);
            }
            if token == "MAXDELAY" {
                words.push("LATEST");
            }
            if spec.name == "hello" {
                words.push("3");
            }
            if token == "NEWEST" {
                words.push("DEAD");
            }
            if token == "TZ" {
                words.extend(["CRON", "@daily"]);
            }
            let lower: &'static str = token.to_lowercase().leak();
            for token in [token, lower] {
                let mut words = words.clone();
                words.push(token);
                words.extend(sample(option));
                if spec.name == "failover" && option.name == "host" {
                    words.push("1");
                }
                assert_eq!(try_words(&words), Ok(()), "{words:?}");
                if !alternatives && !option.multiple {
                    words.push(token);
                    words.extend(sample(option));
                    let text = try_words(&words).expect_err(&format!("{words:?}"));
                    let named = text.contains(&token.to_uppercase()) || text.contains(token);
                    let refused = named && text.to_lowercase().contains("syntax error");
                    let flushes = matches!(spec.name, "function|flush" | "script|flush");
                    let refused = refused || flushes && text.ends_with("SYNC|ASYNC option");
                    // These have one such word at most, and Redis counts their words.
                    let too_many = matches!(spec.name, "acl|log" | "client|pause")
                        && text.starts_with("ERR wrong number of arguments");
                    assert!(refused || too_many, "{text}");
                }
            }
            count += 1;
        }
        let last = spec
            .arguments
            .last()
            .is_some_and(|argument| argument.multiple && argument.kind != ArgumentKind::Block);
        if !free && !last {
            let mut words = required(spec);
            words.push("NONSENSE");
            assert!(try_words(&words).is_err(), "{words:?}");
        }
    }
    assert!(count > 50, "{count} options");
}

/// Every reply that ends early because of its size says so, with the limit; every command that moves or
/// replaces several says in which order.
#[test]
fn replies_that_end_early_say_so() {
    let most = format!("crosses {} MiB", delayd::limits::REPLY_BYTES_MAX >> 20);
    let about = |name: &str, argument: &str| {
        fn all(arguments: &'static [Argument]) -> Vec<&'static Argument> {
            let inner = arguments.iter().flat_map(|argument| all(argument.arguments));
            arguments.iter().chain(inner).collect()
        }
        let spec = table::find(name.as_bytes()).unwrap();
        let found = all(spec.arguments).into_iter().find(|found| found.name == argument);
        found.unwrap_or_else(|| panic!("{name}: {argument}")).about
    };
    for name in ["delay.reserve", "delay.peek", "lpop", "rpop", "lmpop", "blmpop"] {
        let said = about(name, "count");
        assert!(said.contains(&most), "{name}: {said}");
    }
    assert!(about("delay.redrive", "ids").contains("in this order"));
    assert!(about("delay.add", "replace").contains("a new place"));
}
