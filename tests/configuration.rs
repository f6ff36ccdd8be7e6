//! The written reference of the options is what the table says.

use delayd::config::reference;
use std::fs;

#[test]
fn the_written_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let text = format!(
        "# Options\n\nIn a file, one per line, as `delayd FILE`; on the command line as \
         `--option value`; and, those marked so, with `CONFIG SET` while the server runs. Made from \
         the table in `src/config/options.rs`; `UPDATE=1 cargo test --test configuration` writes it \
         anew.\n\n{}",
        reference::markdown()
    );
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &text).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(written == text, "docs/configuration.md is not what the table of options says");
}
