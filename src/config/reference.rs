//! The options as text: for `--help` and for the written reference, both from the table.

use super::options::{OPTIONS, OptionChange, Spec};
use std::fmt::Write;

pub fn help() -> String {
    let mut text = String::from(
        "Usage: delayd [FILE] [--OPTION VALUE ...]\n\
         \x20      delayd demo [--delay DURATION]\n\
         \x20      delayd call [-h HOST] [-p PORT] [-n DB] [--user NAME] [WORD ...]\n\
         \x20      delayd health [FILE] [--metrics-port PORT] [--metrics-bind ADDRESS]\n\
         \x20      delayd check DIR [--repair [--yes]]\n\
         \x20      delayd dump DIR [--from INDEX] [--to INDEX] [--base]\n\
         \x20      delayd backup HOST:PORT DIR [--user NAME] [--password-file FILE]\n\
         \x20      delayd restore DIR INTO [--cluster-node NAME --cluster-nodes LIST]\n\
         \x20      delayd spread DIR --into COUNT [--yes]\n\
         \x20      delayd cluster (found | recover | dissolve) DIR ...\n\
         \x20      delayd cluster balance HOST:PORT [--with NAME=HOST:PORT] [--without NAME]\n\
         \x20      delayd console [FILE] [--dir DIR] [--token] [--no-open]\n\
         A delay queue server that speaks the Redis protocol. demo shows a job arriving; call sends a\n\
         command to a running server; health reports whether one accepts requests. check checks a\n\
         journal and repairs it; dump writes it as JSON; backup fetches the data of a running server,\n\
         restore makes a server's folder from that; spread divides a folder into partitions; cluster\n\
         turns one into that of a cluster, or of a standalone server, and spreads the partitions of a\n\
         running cluster over its nodes; console opens a server's console. Each has a --help of its\n\
         own.\n\n\
         FILE holds one option per line, as redis.conf does; without one, the variable DELAYD_CONFIG\n\
         names it, if it is set. Options:\n\n",
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
        let live = if spec.change == OptionChange::Live { "CONFIG SET" } else { "fixed" };
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
