//! The manual pages delayd(1) and delayd.conf(5), from the table of options and from what `--help` prints.

use super::help::Tool;
use super::sections::{about, default_of, sections, without_a_choice};
use delayd::config::options::{OptionChange, Spec};

/// `delayd.1`
pub fn program(usage: &[String], tools: &[Tool]) -> String {
    let mut page = String::from(".TH DELAYD 1 \"\" delayd \"User Commands\"\n");
    section("NAME", "delayd \\- delay queue server that speaks the Redis protocol\n", &mut page);
    let synopsis: String =
        usage.iter().map(|line| format!("{}\n.br\n", call(line))).collect::<String>();
    section("SYNOPSIS", synopsis.trim_end_matches(".br\n"), &mut page);
    section("DESCRIPTION", DESCRIPTION, &mut page);
    section("OPTIONS", OPTIONS, &mut page);
    page.push_str(".SH COMMANDS\n");
    for tool in tools {
        page.push_str(&format!(".SS {}\n", call(&tool.usage)));
        for paragraph in &tool.paragraphs {
            page.push_str(&format!(".PP\n{}\n", escaped(paragraph)));
        }
        for (option, does) in &tool.options {
            page.push_str(&item(&call(option), does));
        }
        page.push_str(".PP\nExit codes:\n");
        for (code, means) in &tool.exits {
            page.push_str(&item(code, means));
        }
    }
    section("EXIT STATUS OF THE SERVER", EXIT, &mut page);
    section("SIGNALS", SIGNALS, &mut page);
    section("FILES", FILES, &mut page);
    section("EXAMPLES", EXAMPLES, &mut page);
    section("SEE ALSO", ".BR delayd.conf (5),\n.BR redis\\-cli (1)\n", &mut page);
    page
}

/// `delayd.conf.5`
pub fn file() -> String {
    let mut page = String::from(".TH DELAYD.CONF 5 \"\" delayd \"File Formats\"\n");
    section("NAME", "delayd.conf \\- options of the delay queue server delayd\n", &mut page);
    section("DESCRIPTION", FILE_DESCRIPTION, &mut page);
    for (title, options) in sections() {
        page.push_str(&format!(".SH {}\n", title.to_uppercase()));
        options.into_iter().for_each(|spec| page.push_str(&option(spec)));
    }
    let kept = "Options of Redis that have only one value here. Any other value is refused with the reason.\n";
    section("KEPT FOR TOOLS", kept, &mut page);
    without_a_choice().for_each(|spec| page.push_str(&option(spec)));
    section("FILES", ".TP\n.I /etc/delayd/delayd.conf\nwhat the service reads\n", &mut page);
    section("SEE ALSO", ".BR delayd (1)\n", &mut page);
    page
}

const DESCRIPTION: &str = "\
A producer adds a job with a due time; the job becomes available at that millisecond, never earlier. A waiting
consumer gets it at once. Any Redis client can be a producer or a consumer.
.PP
The server stays in the foreground, writes its log to standard error, and by default listens on port 9248 of the
loopback interface.
";

const OPTIONS: &str = "\
.TP
\\fIFILE\\fR
A file with options, one per line; see
.BR delayd.conf (5).
It must come first.
.TP
\\fB\\-\\-\\fIOPTION VALUE\\fR ...
Any option of
.BR delayd.conf (5).
It overrides the file.
.TP
\\fB\\-\\-help\\fR, \\fB\\-h\\fR
Print all options with their values and defaults. Each command has a \\fB\\-\\-help\\fR of its own.
.TP
\\fB\\-\\-version\\fR, \\fB\\-v\\fR
Print the version.
";

const EXIT: &str = "\
.TP
0
An orderly stop.
.TP
1
The server could not start, or its journal failed; the last line of the log says why.
";

const SIGNALS: &str = "\
.TP
SIGTERM, SIGINT
An orderly stop: no new commands are accepted, replies are sent, the journal is synced. A second signal does not
wait for replies.
.TP
SIGKILL
Loses nothing that was answered, with \\fBappendfsync always\\fR.
";

const FILES: &str = "\
.TP
.I /etc/delayd/delayd.conf
the options of the service
.TP
.I /var/lib/delayd/journal
its jobs
";

const EXAMPLES: &str = "\
.nf
delayd \\-\\-port 9300 \\-\\-dir /srv/delayd
delayd call \\-p 9300 DELAY.ADD hello 5s world
delayd call \\-p 9300 DELAY.POP hello 0
delayd check /srv/delayd
.fi
";

const FILE_DESCRIPTION: &str = "\
One option per line: its name, then its values. A value with spaces stands in double or single quotes. A line that
begins with # is a comment. \\fBinclude\\fR \\fIFILE\\fR reads another file at this point; a relative path begins
at this file's folder. The last line of an option applies; the command line (\\fB\\-\\-port 9300\\fR) overrides the file.
.PP
Durations are written 500ms, 60s, 1h30m, 15d. Bytes are 512, 64mb, 4gb: kb, mb and gb are powers of 1,024, k, m
and g of 1,000.
.PP
Lines \\fBuser\\fR \\fINAME RULES\\fR define users, in the form of ACL SETUSER.
.PP
\\fBCONFIG SET\\fR can change options marked live while the server runs; \\fBCONFIG REWRITE\\fR then writes them to
the file.
";

fn option(spec: &Spec) -> String {
    let live = if spec.change == OptionChange::Live { ", live" } else { "" };
    let head = format!("\\fB{}\\fR ({}{live})", escaped(spec.word()), escaped(&default_of(spec)));
    item(&head, &about(spec))
}

fn section(title: &str, text: &str, page: &mut String) {
    page.push_str(&format!(".SH {title}\n{text}"));
}

/// `head` is roff, `text` is not.
fn item(head: &str, text: &str) -> String {
    format!(".TP\n{head}\n{}\n", escaped(text))
}

/// A call in roff: what stands for something else slanted, all else bold.
fn call(line: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
        let stands_for = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase());
        let font = if stands_for { 'I' } else { 'B' };
        format!("\\f{font}{}\\fR", escaped(word))
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Text as roff shows it: hyphens that can be copied, no line that is a request, ASCII alone.
fn escaped(text: &str) -> String {
    let mut roff = String::new();
    if text.starts_with(['.', '\'']) {
        roff.push_str("\\&");
    }
    for c in text.chars() {
        match c {
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            c if c.is_ascii() => roff.push(c),
            c => roff.push_str(&format!("\\[u{:04X}]", u32::from(c))),
        }
    }
    roff
}
