//! The options as text: for `--help` and for the written reference, both from the table.

use super::options::{Change, OPTIONS, Spec};
use std::fmt::Write;

/// What `--help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: delayd [FILE] [--OPTION VALUE ...]\n\
         \x20      delayd check DIR [--repair [--yes]]\n\
         \x20      delayd dump DIR [--from INDEX] [--to INDEX] [--base]\n\
         \x20      delayd backup HOST:PORT DIR [--user NAME] [--password-file FILE]\n\
         \x20      delayd restore DIR INTO [--cluster-node NAME --cluster-nodes LIST]\n\
         \x20      delayd cluster (found | recover | dissolve) DIR ...\n\
         \x20      delayd console [FILE] [--dir DIR] [--token] [--no-open]\n\
         A delay queue server that speaks the Redis protocol. check looks its journal through, and\n\
         repairs it; dump writes it as JSON; backup fetches what a running server holds, restore makes\n\
         a server's folder of that; cluster makes a folder that of a cluster, or of a server alone;\n\
         console leads into its console. Each has a --help of its own.\n\n\
         FILE holds one option per line, as redis.conf does. Options:\n\n",
    );
    for spec in &OPTIONS {
        let option = format!("--{}", spec.word());
        let default = default_of(spec);
        let line = format!("  {option:<28} {} [{default}]", spec.kind.describe());
        writeln!(text, "{line}\n      {}", spec.doc).expect("a String takes all");
    }
    text.push_str("  --help, --version            print this, or the version\n");
    text
}

/// The options as a table in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "| option | takes | default | while running | what it does |\n|---|---|---|---|---|\n",
    );
    for spec in &OPTIONS {
        let live = if spec.change == Change::Live { "CONFIG SET" } else { "fixed" };
        let (takes, default) = (spec.kind.describe(), default_of(spec));
        let word = spec.word();
        writeln!(text, "| `{word}` | {takes} | `{default}` | {live} | {} |", spec.doc)
            .expect("a String takes all");
    }
    text
}

fn default_of(spec: &Spec) -> String {
    let shown: Vec<&str> =
        spec.default.iter().map(|a| if a.is_empty() { "\"\"" } else { a }).collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_both() {
        for spec in &OPTIONS {
            assert!(help().contains(&format!("--{} ", spec.word())), "{}", spec.word());
            assert!(markdown().contains(&format!("| `{}` |", spec.word())), "{}", spec.word());
        }
    }
}
