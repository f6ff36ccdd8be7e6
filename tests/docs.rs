//! The written reference is what the table of commands says.

use std::path::Path;

/// `DELAYD_UPDATE=1` rewrites it.
#[test]
fn the_reference_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let want = delayd::command::reference::markdown();
    if std::env::var_os("DELAYD_UPDATE").is_some() {
        std::fs::write(&path, &want).expect("docs/commands.md is written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    let line = have.lines().zip(want.lines()).position(|(have, want)| have != want);
    let line = line.unwrap_or_else(|| have.lines().count().min(want.lines().count())) + 1;
    assert!(
        have == want,
        "docs/commands.md is stale from line {line}; DELAYD_UPDATE=1 cargo test --test docs"
    );
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
    assert!(have == want, "docs/metrics.md is stale; DELAYD_UPDATE=1 cargo test --test docs");
}
