//! `delayd.conf` as it is installed: every option at its default and commented out, but for what a service needs.

use super::sections::{about, default_of, sections, without_a_choice, wrapped};
use delayd::config::options::{Change, Spec};

const HEAD: &str = "\
# The options of delayd, all there are. Read by: delayd /etc/delayd/delayd.conf
#
# What is commented out with a # and no space stands at its default. An option's name is followed by its values;
# one with spaces stands in quotes. Durations are 500ms, 60s, 1h30m, 15d. Bytes are 512, 64mb, 4gb: kb, mb and gb
# are powers of 1,024, k, m and g of 1,000. `include FILE` reads another file at its place. The last line that
# states an option counts, and the command line (--port 9300) above all lines.
#
# (live) marks what CONFIG SET changes while the server runs; CONFIG REWRITE then writes it here.
";

const LAST: &str = "\
Options of Redis that have one value here. They stand for files and tools that state them; any other value is
refused with the reason.";

/// What differs from the defaults in a file that a service reads.
const SET: [(&str, &str); 2] = [("dir", "/var/lib/delayd"), ("metrics-port", "9249")];

const NOTES: [(&str, &str); 4] = [
    (
        "console-port",
        "9250 is free where Redis and the other ports here are usual; then it is on http://127.0.0.1:9250.",
    ),
    (
        "dir",
        "If it is another one, say so to systemd too: systemctl edit delayd, [Service], ReadWritePaths=THE-DIR.",
    ),
    ("tzdata", "The service sees no folder below /home, /root or /tmp."),
    (
        "requirepass",
        "Users with rights of their own are lines such as: user worker on >a-long-secret ~orders:* +@delay -@admin +ping",
    ),
];

/// The whole file.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for (title, options) in sections() {
        text.push_str(&format!("\n\n# ==== {title}\n"));
        for spec in options {
            option(spec, &mut text);
        }
    }
    text.push_str("\n\n# ==== Kept for tools\n#\n");
    text.push_str(&wrapped(LAST, "# ", 110));
    for spec in without_a_choice() {
        option(spec, &mut text);
    }
    text
}

fn option(spec: &Spec, text: &mut String) {
    let word = spec.word();
    let noted = NOTES.iter().find(|(of, _)| *of == word);
    let live = if spec.change == Change::Live { " (live)" } else { "" };
    text.push('\n');
    text.push_str(&wrapped(&format!("{}{live}", about(spec)), "# ", 110));
    text.push_str(&noted.map(|(_, note)| wrapped(note, "# ", 110)).unwrap_or_default());
    text.push_str(&format!("#{word} {}\n", default_of(spec)));
    if let Some((_, value)) = SET.iter().find(|(set, _)| *set == word) {
        text.push_str(&format!("{word} {value}\n"));
    }
}
