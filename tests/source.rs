//! Rules about the source itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Who may use whom: a module, and the modules of this crate that it may name. Leaves may be named
/// by all.
const LEAVES: [&str; 6] = ["error", "glob", "ids", "limits", "pool", "time"];
const MAY_USE: [(&str, &[&str]); 7] = [
    ("wheel", &["wheel"]),
    ("engine", &["engine", "wheel"]),
    ("resp", &["resp"]),
    ("command", &["command", "engine", "resp"]),
    ("session", &["session", "command", "engine", "resp"]),
    ("observe", &["observe", "engine", "command", "config"]),
    ("config", &["config"]),
];

/// What the core never names: it knows no clock, file, socket, thread or chance.
const NEVER_IN_CORE: [&str; 11] = [
    "std::time",
    "std::fs",
    "std::net",
    "std::io",
    "std::thread",
    "std::env",
    "Instant",
    "SystemTime",
    "tokio",
    "rand::",
    "RandomState::new",
];

/// All Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn source(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = |path: &Path| path.strip_prefix(root).expect("below it").display().to_string();
    let read = |path: &Path| fs::read_to_string(path).expect("UTF-8");
    files(&root.join(folder)).iter().map(|path| (name(path), read(path))).collect()
}

/// The part of a file before its tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line + "\n")
}

/// The first word after each `crate::`, also inside braces: `crate::{a, b::c}` names a and b.
fn named_modules(code: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut named = Vec::new();
    for rest in code.split("crate::").skip(1) {
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
fn the_core_knows_no_clock_file_socket_thread_or_chance() {
    let mut wrong = Vec::new();
    for folder in ["src/engine", "src/wheel"] {
        for (file, text) in source(folder) {
            let code = code(&text);
            let named = NEVER_IN_CORE.iter().filter(|name| code.contains(**name));
            wrong.extend(named.map(|name| format!("{file} names {name}")));
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
}
