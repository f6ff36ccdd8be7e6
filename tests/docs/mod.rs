//! The written reference, and what is installed beside the server, are what the tables say. `make docs` writes both
//! anew.

mod completions;
mod conf;
mod deploy;
mod help;
mod man;
mod sections;
mod tests_page;

use delayd::command::CommandSpec;
use delayd::command::spec::KeyPositions;
use delayd::command::table;
use delayd::config::{Config, file};
use delayd::session::acl::Acl;
use std::path::Path;
use std::process::Command;

#[test]
fn the_reference_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let want = delayd::command::show::reference::markdown();
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        std::fs::write(&path, &want).expect("docs/commands.md is written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    let line = have.lines().zip(want.lines()).position(|(have, want)| have != want);
    let line = line.unwrap_or_else(|| have.lines().count().min(want.lines().count())) + 1;
    assert!(have == want, "docs/commands.md is stale from line {line}; make docs");
}

/// Written by hand, or partly: a link that leads nowhere is found here, not by a reader.
#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let docs = std::fs::read_dir(root.join("docs")).expect("docs/ is there");
    let mut pages: Vec<_> = docs.map(|page| page.expect("it can be listed").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.extend(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|page| root.join(page)));
    let mut followed = 0;
    for page in &pages {
        let words = text(page);
        let targets = words.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for target in targets.map(|(target, _)| target).filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let led_to = page.parent().expect("a folder").join(file);
            let led_to = if file.is_empty() { page } else { &led_to };
            assert!(led_to.exists(), "{}: {target} leads to no file", page.display());
            let known =
                heading.is_empty() || text(led_to).lines().any(|line| anchor(line) == heading);
            assert!(known, "{}: {target} leads to no heading", page.display());
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed}");
    assert!(
        text(&root.join("README.md")).lines().count() <= 200,
        "README.md is for the first five minutes"
    );
}

/// What a link to this line says, if it is a heading.
fn anchor(line: &str) -> String {
    let heading = line.trim_start_matches('#');
    if heading.len() == line.len() {
        return String::new();
    }
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The options and, behind them, the limits that no option changes.
#[test]
fn the_options_and_limits_are_those_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let want = format!(
        "# Options\n\nSet options in a file, one per line (`delayd FILE`), on the command line (`--option value`) \
         or, those marked so, with `CONFIG SET` while the server runs. Generated from the tables in \
         `src/config/`; `make docs` writes it.\n\n{}\n# Limits\n\nThese limits are fixed. A command \
         beyond one of them is refused with an error that names the limit, and changes nothing, unless \
         the table says otherwise. Body, delay, lease, connections and memory have options.\n\n{}",
        delayd::config::reference::markdown(),
        delayd::config::fixed::markdown()
    );
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        std::fs::write(&path, &want).expect("docs/configuration.md is written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == want, "docs/configuration.md is stale; make docs");
}

/// Limits that nobody meets, beside those in the other files of `src/limits/` and the defaults of options.
const INNER: &[&str] = &["DAY_MS", "SCRIPT_BYTES_MAX"];

/// Every limit of `src/limits/mod.rs` stands in the written reference, or is known to be none of a user's: a
/// new one has to be put into `src/config/fixed.rs`, into the list above or into another file.
#[test]
fn every_limit_is_documented_or_an_inner_one() {
    let text = include_str!("../../src/limits/mod.rs");
    let names = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 40, "{names:?}");
    for limit in delayd::config::fixed::LIMITS {
        assert!(names.contains(&limit.name), "{} is no user's limit", limit.name);
    }
    for name in &names {
        let shown = delayd::config::fixed::LIMITS.iter().any(|limit| limit.name == *name);
        let inner = INNER.contains(name) || name.ends_with("_DEFAULT");
        assert!(shown != inner, "{name}: in docs/configuration.md, or an inner limit?");
    }
}

/// What stands between these marks of `docs/metrics.md` is made.
const MARKS: [&str; 2] = ["<!-- from the table -->\n", "<!-- end -->\n"];

#[test]
fn the_metrics_of_the_reference_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let have = std::fs::read_to_string(&path).expect("docs/metrics.md is there");
    let [begin, end] = MARKS.map(|mark| have.find(mark).expect("both marks stand in it"));
    let table = delayd::observe::metrics::families::markdown();
    let want = [&have[..begin + MARKS[0].len()], "\n", &table, &have[end..]].concat();
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        return std::fs::write(&path, &want).expect("docs/metrics.md is written");
    }
    assert!(have == want, "docs/metrics.md is stale; make docs");
}

/// What each command needs of the queues it names, as the users' rules know it.
#[test]
fn what_commands_need_of_queues_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let have = std::fs::read_to_string(&path).expect("docs/security.md is there");
    let [begin, end] = MARKS.map(|mark| have.find(mark).expect("both marks stand in it"));
    let mut table = String::from("\n| a pattern | is enough for |\n|---|---|\n");
    let needs = ["any that names the queue", "`%R~`", "`%W~`", "`~`"];
    for (at, pattern) in needs.into_iter().enumerate() {
        let allowed = table::all_with_subcommands().filter(|spec| {
            // What is always refused, as GET, needs nothing that anybody would want to give.
            let names = spec.keys != KeyPositions::None && spec.always.is_none();
            names && need_of(spec) == (at & 1 != 0, at & 2 != 0)
        });
        let mut names: Vec<String> = allowed.map(CommandSpec::written).collect();
        names.sort_unstable();
        assert!(names.len() > 3, "{pattern}: {names:?}");
        table += &format!("| {pattern} | {} |\n", names.join(", "));
    }
    let want = [&have[..begin + MARKS[0].len()], &table, "\n", &have[end..]].concat();
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        return std::fs::write(&path, &want).expect("docs/security.md is written");
    }
    assert!(have == want, "docs/security.md is stale; make docs");
}

/// Whether a user needs to read and to write a queue for it, the first one where it does different things to two.
fn need_of(spec: &'static CommandSpec) -> (bool, bool) {
    let mut args: Vec<&[u8]> = spec.name.split('|').map(str::as_bytes).collect();
    // A queue called 1, and how many queues there are, wherever the command has either.
    args.resize(8, b"1");
    if matches!(spec.keys, KeyPositions::FromTo { .. }) {
        args[2] = b"2";
    }
    let may = |rule: &[u8]| {
        let user = Acl::default().user_with(b"u", &[b"+@all", rule, b"%W~2"]);
        user.expect("rules that are known").check(spec, &args).is_ok()
    };
    assert!(may(b"~1"), "{}", spec.name);
    (!may(b"%W~1"), !may(b"%R~1"))
}

/// What nobody pastes, as it needs no server: the examples whose replies are made from the tables themselves.
#[test]
fn examples_of_the_tables_are_what_the_tables_say() {
    let shown = |name: &str, lines: Vec<String>| {
        let numbered = lines.iter().enumerate().map(|(at, line)| format!("{}) {line}", at + 1));
        let spec = table::find(name.as_bytes()).expect("it is in the table");
        assert_eq!(spec.example[0].1, numbered.collect::<Vec<_>>().join("\n"), "{name}");
    };
    shown("delay.help", delayd::command::show::describe::usage_of(b"del").expect("DELAY.DEL"));
    let of_transactions = table::all().filter(|s| s.all_categories().contains(&"transaction"));
    let mut names: Vec<String> = of_transactions.map(|spec| format!("\"{}\"", spec.name)).collect();
    names.sort_unstable();
    shown("acl|cat", names);
}

/// The configuration file, the manual pages and the completions that `make install` puts in their places.
#[test]
fn what_is_installed_is_made_from_the_tables() {
    let (usage, tools) = help::calls();
    assert!(tools.len() > 1, "{usage:?}");
    for (name, want) in [
        ("delayd.conf", conf::text()),
        ("man/delayd.1", man::program(&usage, &tools)),
        ("man/delayd.conf.5", man::file()),
        ("completions/delayd.bash", completions::bash(&tools)),
        ("completions/_delayd", completions::zsh(&tools)),
        ("completions/delayd.fish", completions::fish(&tools)),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
        if std::env::var_os("DELAYD_UPDATE").is_some() {
            std::fs::write(&path, &want).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(have == want, "deploy/{name} is stale; make docs");
    }
}

/// Every option stands in `delayd.conf` once, and is what it is by default when its mark is removed.
#[test]
fn the_configuration_file_states_every_option_at_its_default() {
    let text = conf::text();
    assert!(text.lines().all(|line| line.chars().count() <= 120), "lines fit on a screen");
    let stated = text.lines().filter_map(|line| line.strip_prefix('#'));
    let stated: Vec<Vec<String>> = stated
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .map(|line| file::split(line).expect("it can be read"))
        .collect();
    let words: Vec<&str> = stated.iter().map(|words| words[0].as_str()).collect();
    for spec in &delayd::config::options::OPTIONS {
        assert_eq!(words.iter().filter(|word| **word == spec.word()).count(), 1, "{}", spec.word());
    }
    let mut config = Config::default();
    for words in &stated {
        config.set(&words[0], &words[1..]).expect("its default is taken");
    }
    assert_eq!(config.shown_all(), Config::default().shown_all());
    assert_eq!(stated.len(), delayd::config::options::OPTIONS.len());
}

/// What bash offers for a line whose last word is to be completed.
fn offered(line: &[&str]) -> Vec<String> {
    let (_, tools) = help::calls();
    let script = completions::bash(&tools)
        + "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _delayd; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-uc", &script, "bash"])
        .args(line)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("bash runs");
    assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_tools_options_and_values() {
    assert_eq!(offered(&["delayd", "ch"]), ["check"]);
    assert_eq!(offered(&["delayd", "--max-d"]), ["--max-delay"]);
    assert_eq!(offered(&["delayd", "x.conf", "--appendfsync", ""]), ["always", "everysec", "no"]);
    assert_eq!(offered(&["delayd", "--port", ""]), [""; 0]);
    assert_eq!(offered(&["delayd", "--port", "7", "--protected-mode", "y"]), ["yes"]);
    assert_eq!(offered(&["delayd", "--dir", "deplo"]), ["deploy"]);
    assert_eq!(offered(&["delayd", "--aclfile", "Cargo.t"]), ["Cargo.toml"]);
    assert_eq!(offered(&["delayd", "deploy/delayd.co"]), ["deploy/delayd.conf"]);
    assert_eq!(offered(&["delayd", "check", "--lower"]), ["--lower-clock"]);
    assert_eq!(offered(&["delayd", "check", "deploy", "--ye"]), ["--yes"]);
    assert_eq!(offered(&["delayd", "dump", "deploy/m"]), ["deploy/man"]);
    assert_eq!(offered(&["delayd", "dump", "--from", ""]), [""; 0]);
    assert_eq!(offered(&["delayd", "dem"]), ["demo"]);
    assert_eq!(offered(&["delayd", "call", "--tls-c"]), ["--tls-ca-cert-file", "--tls-cert-file"]);
    assert_eq!(offered(&["delayd", "call", "deplo"]), [""; 0]);
    assert_eq!(offered(&["delayd", "health", "deploy/delayd.c"]), ["deploy/delayd.conf"]);
}
