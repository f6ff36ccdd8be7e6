//! The written reference is what the tables say. `make docs` writes it anew.

#[path = "docs/deploy.rs"]
mod deploy;

use std::path::Path;

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
        "# Options\n\nIn a file, one per line, as `delayd FILE`; on the command line as \
         `--option value`; and, those marked so, with `CONFIG SET` while the server runs. Made from \
         the tables in `src/config/`; `make docs` writes it anew.\n\n{}\n# Limits\n\nWhat no option \
         changes. What is beyond one of them is refused with an error that names it, and changes \
         nothing, unless it says otherwise here. Body, delay, lease, connections and memory have \
         options.\n\n{}",
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
    let text = include_str!("../src/limits/mod.rs");
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
    let table = delayd::observe::metrics::reference::markdown();
    let want = [&have[..begin + MARKS[0].len()], "\n", &table, &have[end..]].concat();
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        return std::fs::write(&path, &want).expect("docs/metrics.md is written");
    }
    assert!(have == want, "docs/metrics.md is stale; make docs");
}
