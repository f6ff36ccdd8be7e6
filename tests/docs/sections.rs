//! The table of options in sections, and what it says of one in words without Markdown.

use delayd::config::options::{OPTIONS, Spec};
use delayd::config::value::{OptionKind, quoted};

/// A section's title and the option it begins with.
const SECTIONS: [(&str, &str); 14] = [
    ("Network", "port"),
    ("Metrics and probes", "metrics-port"),
    ("Console", "console-port"),
    ("Memory", "maxmemory"),
    ("Jobs", "max-body-size"),
    ("Clients", "max-clients-memory"),
    ("Slow log and log", "slowlog-log-slower-than"),
    ("Started by a program", "ready-fd"),
    ("Journal", "dir"),
    ("Cluster", "cluster-node"),
    ("Events", "notify-keyspace-events"),
    ("Passwords and users", "requirepass"),
    ("Unix socket", "unixsocket"),
    ("TLS", "tls-port"),
];

/// Whether it has more than one value. The others stand in the table for tools, and for files that were written for
/// Redis.
pub fn has_a_choice(spec: &Spec) -> bool {
    !matches!(spec.kind, OptionKind::Only(..))
}

/// The options that have a choice, by section; each once.
pub fn sections() -> Vec<(&'static str, Vec<&'static Spec>)> {
    let mut found: Vec<(&str, Vec<&Spec>)> = Vec::new();
    for spec in &OPTIONS {
        if let Some((title, _)) = SECTIONS.iter().find(|(_, first)| *first == spec.word()) {
            found.push((title, Vec::new()));
        }
        if has_a_choice(spec) {
            found.last_mut().expect("the first option begins a section").1.push(spec);
        }
    }
    assert_eq!(found.len(), SECTIONS.len(), "a section begins with an option that is no more");
    found
}

/// The options that have one value.
pub fn without_a_choice() -> impl Iterator<Item = &'static Spec> {
    OPTIONS.iter().filter(|spec| !has_a_choice(spec))
}

/// The default as a file states it.
pub fn default_of(spec: &Spec) -> String {
    spec.default.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" ")
}

/// What it does and, where that says anything, what it takes: `[text](address)` as text, words without their marks.
pub fn about(spec: &Spec) -> String {
    match spec.kind {
        OptionKind::Only(..) | OptionKind::Text | OptionKind::Secret | OptionKind::Words => {
            plain(spec.doc)
        }
        kind => format!("{} Takes {}.", plain(spec.doc), plain(&kind.describe())),
    }
}

/// The first sentence of what an option does, without its full stop.
pub fn summary(spec: &Spec) -> String {
    let text = plain(spec.doc);
    let end = [". ", "; ", ": "].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].trim_end_matches('.').to_owned()
}

fn plain(markdown: &str) -> String {
    let text = markdown.replace('`', "");
    let Some((before, rest)) = text.split_once('[') else { return text };
    let (shown, rest) = rest.split_once("](").expect("a bracket begins a link");
    let (_, after) = rest.split_once(')').expect("a link ends");
    [before, shown, &plain(after)].concat()
}

/// Lines of at most `columns`, each behind `margin`.
pub fn wrapped(text: &str, margin: &str, columns: usize) -> String {
    let mut lines = vec![margin.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let empty = line.len() == margin.len();
        if !empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(format!("{margin}{word}"));
        } else {
            line.push_str(if empty { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
