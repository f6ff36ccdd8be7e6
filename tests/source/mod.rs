//! Rules about the source itself.

mod english;

use crate::support::source::{code, source};
use std::collections::{BTreeMap, BTreeSet};

/// Who may use whom: a module, and the modules of this crate that it may name. Leaves may be named
/// by all.
const LEAVES: [&str; 10] =
    ["error", "glob", "hash_slot", "ids", "limits", "lock", "nearest", "pool", "time", "words"];
const MAY_USE: [(&str, &[&str]); 13] = [
    ("wheel", &["wheel"]),
    ("calendar", &["calendar"]),
    ("engine", &["engine", "wheel", "calendar"]),
    ("resp", &["resp"]),
    ("cluster", &["cluster"]),
    ("pubsub", &["pubsub", "resp"]),
    ("command", &["command", "calendar", "engine", "pubsub", "resp"]),
    ("session", &["session", "command", "engine", "pubsub", "resp"]),
    ("observe", &["observe", "engine", "command", "config", "cluster"]),
    ("config", &["config"]),
    ("journal", &["journal", "engine"]),
    ("console", &["console", "command"]),
    ("tools", &["tools", "journal", "engine", "cluster", "config", "resp"]),
];

/// What touches files, and the places that may.
const FILE_ACCESS: [&str; 4] = ["std::fs", "rustix::fs", "os::unix::fs", "OpenOptions"];
const MAY_ACCESS_FILES: [&str; 6] = [
    "src/journal/disk.rs", "src/journal/space.rs", "src/config/", "src/server/", "src/tools/",
    "src/main.rs",
];

/// What the core never names: it knows no clock, file, socket, thread or chance.
const NEVER_IN_CORE: [&str; 11] = [
    "std::time", "std::fs", "std::net", "std::io", "std::thread", "std::env", "Instant",
    "SystemTime", "tokio", "rand::", "RandomState::new",
];

/// Who may name Raft and what comes with it: its types stay there, and no bytes of a peer are ever decoded
/// as protobuf.
const RAFT: [&str; 6] = ["raft::", "raft_proto", "protobuf", "slog", "merge_from", "parse_from"];
const MAY_NAME_RAFT: [(&str, &[&str]); 5] = [
    ("src/cluster/raft/codec.rs", &["raft::"]),
    ("src/cluster/raft/node.rs", &["raft::"]),
    ("src/cluster/raft/node/ready.rs", &["raft::"]),
    ("src/cluster/raft/start.rs", &["slog"]),
    ("src/cluster/raft/storage.rs", &["raft::"]),
];

/// The rooms of a module, lowest first: what stands in one names no room above it, and nothing of the
/// module's root, which joins them.
const ROOMS: [(&str, &[&str]); 6] = [
    ("cluster", &["timing", "members", "peer", "raft", "options", "driver"]),
    ("console", &["words", "view", "pages", "site", "endpoints", "http"]),
    ("command", &["read", "spec", "family", "table", "show"]),
    (
        "engine",
        &[
            "model", "store", "journal_room", "observe", "step", "handoff", "advance", "follow",
            "decide",
        ],
    ),
    (
        "journal",
        &["error", "storage", "record", "disk", "log", "base", "space", "recovery", "offline"],
    ),
    (
        "server",
        &[
            "clock", "connection", "outbox", "observe", "siblings", "cluster", "durability",
            "core", "admin", "turn", "in_memory", "process",
        ],
    ),
];

/// The first word after each `crate::`, also inside braces: `crate::{a, b::c}` names a and b.
fn named_modules(code: &str) -> Vec<String> {
    named_after(code, "crate::")
}

/// As [`named_modules`], after another path.
fn named_after(code: &str, path: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut named = Vec::new();
    for rest in code.split(path).skip(1) {
        match rest.strip_prefix('{') {
            None => named.push(word(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut start = 0;
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        ',' | '}' if depth == 0 => {
                            named.push(word(&group[start..at]));
                            start = at + 1;
                            if c == '}' {
                                break;
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    named.retain(|name: &String| !name.is_empty());
    named
}

#[test]
fn modules_name_only_what_they_may() {
    let mut wrong = Vec::new();
    for (file, text) in source("src") {
        let module = file.trim_start_matches("src/").split(['/', '.']).next().expect("a name");
        let allowed = match MAY_USE.iter().find(|(name, _)| *name == module) {
            Some((_, allowed)) => *allowed,
            None if LEAVES.contains(&module) => &[][..],
            // The server may use all; main and lib only join.
            None => continue,
        };
        for name in named_modules(&code(&text)) {
            let leaf = LEAVES.contains(&name.as_str());
            // Constants of the crate's root are no modules.
            let other = name == "crate" || name.starts_with(char::is_uppercase);
            if !leaf && !allowed.contains(&name.as_str()) && !other {
                wrong.push(format!("{file} names {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_name_no_room_above_them() {
    let mut wrong = Vec::new();
    for (module, rooms) in ROOMS {
        let path = format!("crate::{module}::");
        for (file, text) in source(&format!("src/{module}")) {
            let room = file.split('/').nth(2).expect("a file or a folder").trim_end_matches(".rs");
            if room == "mod" {
                continue;
            }
            let floor = rooms.iter().position(|name| *name == room);
            let Some(floor) = floor else {
                wrong.push(format!("{file} is in no room"));
                continue;
            };
            for name in named_after(&code(&text), &path) {
                if !rooms[..=floor].contains(&name.as_str()) {
                    wrong.push(format!("{file} names {name}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn raft_is_named_in_three_places_and_protobuf_in_none() {
    let mut wrong = Vec::new();
    for (file, text) in source("src") {
        let allowed = MAY_NAME_RAFT.iter().find(|(name, _)| *name == file);
        let allowed = allowed.map_or(&[][..], |(_, allowed)| allowed);
        let code = code(&text);
        let named = RAFT.iter().filter(|name| is_named(&code, name) && !allowed.contains(*name));
        wrong.extend(named.map(|name| format!("{file} names {name}")));
        // It runs up to 2 E after the last answer, and others elect a leader after one.
        if code.contains("LeaseBased") {
            wrong.push(format!("{file} trusts the library's lease"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a path begins so: `crate::server::raft::x` is a module of ours.
fn is_named(code: &str, name: &str) -> bool {
    let is_apart = |before: &str| {
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with("::")
    };
    code.match_indices(name).any(|(at, _)| is_apart(&code[..at]) || name.contains("from"))
}

#[test]
fn the_core_knows_no_clock_file_socket_thread_or_chance() {
    let mut wrong = Vec::new();
    for folder in ["src/calendar", "src/engine", "src/wheel", "src/cluster"] {
        for (file, text) in source(folder) {
            let code = code(&text);
            let named = NEVER_IN_CORE.iter().filter(|name| holds(&code, name));
            wrong.extend(named.map(|name| format!("{file} names {name}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the code has these words: `Instants` is another one than `Instant`.
fn holds(code: &str, words: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let ends = words.ends_with(|c: char| c.is_alphanumeric());
    code.match_indices(words).any(|(at, _)| !(ends && goes_on(&code[at + words.len()..])))
}

#[test]
fn files_are_touched_in_few_places() {
    let mut wrong = Vec::new();
    for (file, text) in source("src") {
        if MAY_ACCESS_FILES.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        let code = code(&text);
        let named = FILE_ACCESS.iter().filter(|name| code.contains(**name));
        wrong.extend(named.map(|name| format!("{file} names {name}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// CONTRIBUTING says so: these wait for nothing but what they can see.
#[test]
fn tests_without_a_running_program_wait_for_what_they_see() {
    // The last one looks again and again.
    let real = [
        "tests/program/", "tests/processes/", "tests/pressure/", "tests/soak/",
        "tests/support/patience.rs",
    ];
    let mut wrong = Vec::new();
    for (file, text) in source("tests") {
        let may = real.iter().any(|place| file.starts_with(place));
        if !may && text.contains(concat!("sle", "ep(")) {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "these sleep: {}", wrong.join(", "));
}

/// A name says what it is without its path. Two may share one, such as a client of the server and one of the tools.
#[test]
fn a_name_of_a_type_stands_for_two_things_at_most() {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in source("src") {
        for name in types(&code(&text)) {
            named.entry(name).or_default().insert(file.clone());
        }
    }
    assert!(named.len() > 500, "only {} types were found", named.len());
    let wrong = named.iter().filter(|(_, files)| files.len() > 2);
    let wrong: Vec<String> = wrong
        .map(|(name, files)| format!("{name}: {}", Vec::from_iter(files.clone()).join(" ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The types that code defines; associated types, which are indented, have the names of their traits.
fn types(code: &str) -> Vec<String> {
    let defined = |line: &str| {
        let item = line.trim_start();
        let item = match item.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
            Some(rest) => rest.trim_start(),
            None => item,
        };
        let (keyword, rest) = item.split_once(' ')?;
        let is_type = keyword == "type" && !line.starts_with(' ');
        (["struct", "enum", "trait", "union"].contains(&keyword) || is_type)
            .then(|| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
    };
    code.lines().filter_map(defined).collect()
}

/// Paths in backquotes, in pages for whoever changes the source: written from wherever they are clear.
#[test]
fn pages_name_files_that_are_there() {
    let folders = ["src", "tests", "benches"];
    let files =
        folders.iter().flat_map(|folder| source(folder)).map(|(file, _)| format!("/{file}"));
    let files: Vec<String> = files.collect();
    let mut wrong = Vec::new();
    for page in [
        "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/internals.md", "tests/README.md",
    ] {
        let text = std::fs::read_to_string(page).expect("a page of the crate");
        let quoted =
            text.split('`').skip(1).step_by(2).filter(|quoted| !quoted.contains([' ', '*']));
        for path in quoted.filter(|quoted| quoted.ends_with(".rs")) {
            if !files.iter().any(|file| file.ends_with(&format!("/{path}"))) {
                wrong.push(format!("{page} names {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_behind() {
    // Written in two parts, so that this file does not name them.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("un", "implemented!")];
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches"] {
        for (file, text) in source(folder) {
            let left = marks.iter().filter(|mark| text.contains(**mark));
            wrong.extend(left.map(|mark| format!("{file} holds {mark}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn groups_of_names_are_read() {
    let code = "use crate::{time::Millis, wheel::{list::List, Wheel}, ids};\nuse crate::error::E;";
    assert_eq!(named_modules(code), ["time", "wheel", "ids", "error"]);
    assert!(
        is_named("use raft::Config;", "raft::") && is_named("m.merge_from_bytes(", "merge_from")
    );
    assert!(!is_named("use crate::server::raft::door;", "raft::"));
    assert!(holds("Instant::now()", "Instant") && holds("rand::rng()", "rand::"));
    assert!(!holds("Instants::after(0)", "Instant"));
    let code =
        "pub(in crate::engine) struct A<T>(T);\n    pub enum B {\ntype C = u8;\n    type D = u8;\n";
    assert_eq!(types(code), ["A", "B", "C"]);
    let code = "use crate::command::{read::number, spec};\ncrate::command::table::find(name);";
    assert_eq!(named_after(code, "crate::command::"), ["read", "spec", "table"]);
}
