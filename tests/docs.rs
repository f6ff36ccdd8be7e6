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
