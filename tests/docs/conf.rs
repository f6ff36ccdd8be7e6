//! `delayd.conf` as it is installed: every option at its default and commented out, but for what a service needs.

use super::sections::{about, default_of, sections, without_a_choice, wrapped};
use delayd::config::options::{OptionChange, Spec};

const HEAD: &str = "\
# All options of delayd. Read by: delayd /etc/delayd/delayd.conf
#
# A line that begins with # and no space shows an option at its default. An option's name is followed by its values;
# quote values with spaces. Durations are 500ms, 60s, 1h30m, 15d. Bytes are 512, 64mb, 4gb: kb, mb and gb are powers
# of 1,024, k, m and g of 1,000. `include FILE` reads another file at this point. The last line of an option
# applies; the command line (--port 9300) overrides the file.
#
# CONFIG SET can change options marked (live) while the server runs; CONFIG REWRITE then writes them here.
";

const LAST: &str = "\
Options of Redis that have only one value here. They exist for files and tools that contain them; any other value
is refused with the reason.";

/// What differs from the defaults in a file that a service reads.
const SET: [(&str, &str); 2] = [("dir", "/var/lib/delayd"), ("metrics-port", "9249")];

const NOTES: [(&str, &str); 4] = [
    (
        "console-port",
        "9250 does not collide with Redis and the other ports here; the console is then at http://127.0.0.1:9250.",
    ),
    (
        "dir",
        "If you change it, also tell systemd: systemctl edit delayd, [Service], ReadWritePaths=THE-DIR.",
    ),
    ("tzdata", "The service cannot see folders below /home, /root or /tmp."),
    (
        "requirepass",
        "Lines such as this one define other users: user worker on >a-long-secret ~orders:* +@delay -@admin +ping",
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
    let live = if spec.change == OptionChange::Live { " (live)" } else { "" };
    text.push('\n');
    text.push_str(&wrapped(&format!("{}{live}", about(spec)), "# ", 110));
    text.push_str(&noted.map(|(_, note)| wrapped(note, "# ", 110)).unwrap_or_default());
    text.push_str(&format!("#{word} {}\n", default_of(spec)));
    if let Some((_, value)) = SET.iter().find(|(set, _)| *set == word) {
        text.push_str(&format!("{word} {value}\n"));
    }
}
