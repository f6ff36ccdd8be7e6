//! The written reference of the metrics, from the table.

use super::families::{FAMILIES, Family, Part};
use std::fmt::Write;

const PARTS: [(Part, &str); 6] = [
    (Part::Jobs, "Are jobs on time?"),
    (Part::Queues, "One queue"),
    (Part::Journal, "Is it safe?"),
    (Part::Cluster, "Who leads, and do the others keep up? (nodes of a cluster)"),
    (Part::Clients, "Who asks for what?"),
    (Part::Server, "The process"),
];

/// All metrics as tables in Markdown, a heading for each part.
pub fn markdown() -> String {
    let mut text = String::new();
    for (part, title) in PARTS {
        write!(
            text,
            "### {title}\n\n| metric | kind | labels | what it tells |\n|---|---|---|---|\n"
        )
        .expect("a String takes all");
        for Family { name, kind, labels, help, .. } in
            FAMILIES.iter().filter(|family| family.part == part)
        {
            let kind = kind.word();
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |")
                .expect("a String takes all");
        }
        text.push('\n');
    }
    text
}
