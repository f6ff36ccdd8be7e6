//! The server itself: how late jobs leave, its journal, memory and clock, what took long, and its settings.

mod config;
mod logs;

use super::{NO_MORE, Page};
use crate::console::view::chart;
use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Column, Row, Table, Tone};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, html};

/// `/server`.
pub const PAGE: Page = Page { path: "/server", ask, more: NO_MORE, show, whole: false, file: None };

/// Fields of INFO for one percentile: its word, of the last minute, since the start.
const LATENESS: [(&str, &str, &str); 4] = [
    ("p50", "lateness_minute_p50_us", "lateness_p50_us"),
    ("p99", "lateness_minute_p99_us", "lateness_p99_us"),
    ("p99.9", "lateness_minute_p999_us", "lateness_p999_us"),
    ("max", "lateness_minute_max_us", "lateness_max_us"),
];

/// The unit of a field of INFO.
#[derive(Clone, Copy)]
enum Unit {
    Count,
    Bytes,
    Ms,
    Us,
    /// Unix seconds.
    Moment,
    Text,
}

type InfoFields = [(&'static str, &'static str, Unit)];

const JOURNAL: [(&str, &str, Unit); 13] = [
    ("state", "journal_state", Unit::Text),
    ("trouble", "journal_trouble", Unit::Text),
    ("base error", "journal_base_trouble", Unit::Text),
    ("synced", "journal_fsync", Unit::Text),
    ("unsynced", "journal_unsynced_bytes", Unit::Bytes),
    ("unsynced for", "journal_unsynced_ms", Unit::Ms),
    ("last sync", "journal_last_sync_time", Unit::Moment),
    ("log since the base", "journal_log_bytes", Unit::Bytes),
    ("base", "aof_base_size", Unit::Bytes),
    ("last base", "rdb_last_save_time", Unit::Moment),
    ("segments", "journal_segments", Unit::Count),
    ("on the disk", "journal_disk_bytes", Unit::Bytes),
    ("room left", "journal_room_bytes", Unit::Bytes),
];

const MEMORY: [(&str, &str, Unit); 8] = [
    ("jobs", "used_memory", Unit::Bytes),
    ("limit for jobs", "maxmemory", Unit::Bytes),
    ("peak for jobs", "used_memory_peak", Unit::Bytes),
    ("reserved for leases", "mem_kept_for_leases", Unit::Bytes),
    ("clients", "client_bytes", Unit::Bytes),
    ("limit for clients", "client_bytes_max", Unit::Bytes),
    ("the whole process", "used_memory_rss", Unit::Bytes),
    ("the machine", "total_system_memory", Unit::Bytes),
];

const CLOCK: [(&str, &str, Unit); 7] = [
    ("steps of the machine's clock", "clock_steps", Unit::Count),
    ("ahead of the machine's clock", "clock_ahead_us", Unit::Us),
    ("doubted", "clock_doubted_us", Unit::Us),
    ("standstills", "standstills", Unit::Count),
    ("stalled for", "standstill_us", Unit::Us),
    ("turns", "turns", Unit::Count),
    ("time zones", "tzdata_version", Unit::Text),
];

/// A user that may not see one of them sees the others.
fn ask(_: &Params) -> Vec<Command> {
    vec![
        command!["SLOWLOG", "GET", "20"],
        command!["ACL", "LOG", "20"],
        command!["CONFIG", "GET", "*"],
        command!["DELAY.CLUSTER"],
    ]
}

fn show(frame: &PageFrame, _: &Params, replies: &[Value]) -> Markup {
    let [slow, denied, config, nodes] = [0, 1, 2, 3].map(|at| &replies[at]);
    let body = html! {
        @match &frame.state {
            Some(state) => { (numbers(frame, state)) },
            None => { p class="lead" { "The numbers of the server need the right to run INFO." } },
        }
        (cluster(nodes))
        (parts::part("slow-part", logs::slow(frame, slow)))
        (parts::part("denied-part", logs::denied(denied)))
        (config::show(frame, config))
    };
    live(frame, "Server", Tab::Server, body)
}

fn numbers(frame: &PageFrame, state: &ServerState) -> Markup {
    let aof = state.text("aof_enabled");
    let journal = html! {
        @if aof == "0" { p class="lead" { "It is off (appendonly no): jobs are only in memory, and a restart loses \
                                           them." } }
        @else { (facts(frame, state, &JOURNAL)) }
    };
    html! {
        (parts::part("lateness", parts::card("Lateness of deliveries", html! { "after their due time" }, lateness(state))))
        div class="grid" {
            (parts::part("journal", parts::card("Journal", html! {}, journal)))
            (parts::part("memory", parts::card("Memory", html! {}, memory(frame, state))))
            (parts::part("clock", parts::card("Clock and turns", html! {}, facts(frame, state, &CLOCK))))
        }
        (parts::part("commands", parts::card("Most used commands", html! { "since the start" }, logs::commands(state))))
    }
}

fn lateness(state: &ServerState) -> Markup {
    let row = |(word, minute, start): &(&str, &str, &str)| Row {
        key: (*word).to_owned(),
        select: None,
        cells: vec![
            html! { (word) },
            html! { (parts::measured(state.number_of(minute))) },
            html! { (parts::measured(state.number_of(start))) },
        ],
    };
    let columns = Column::list("percentile|#last minute|#since the start");
    let rows = LATENESS.iter().map(row).collect();
    let table = Table::plain("percentiles", "Lateness", columns, rows);
    let bars: Vec<(String, u64)> = LATENESS
        .iter()
        .map(|(word, minute, _)| (format!("{word}, µs"), state.number_of(minute)))
        .collect();
    html! {
        div class="grid" {
            (table)
            div { p class="note" { "the last minute" } (chart::histogram("Lateness of the last minute, µs", &bars)) }
        }
    }
}

fn memory(frame: &PageFrame, state: &ServerState) -> Markup {
    let (used, most) = (state.number_of("used_memory"), state.number_of("maxmemory"));
    html! {
        p class="lead" {
            @if most > 0 { "Jobs take " (parts::share(used, most)) " of maxmemory." }
            @else { "There is no maxmemory: jobs may use all memory." }
        }
        (facts(frame, state, &MEMORY))
    }
}

/// Those that INFO has and that say something.
fn facts(frame: &PageFrame, state: &ServerState, fields: &InfoFields) -> Markup {
    let pair = |(label, field, unit): &(&'static str, &str, Unit)| {
        let text = state.text(field);
        if text.is_empty() {
            return None;
        }
        let number = state.number_of(field);
        let value = match unit {
            Unit::Text if *field == "journal_state" => parts::state(text),
            Unit::Text => html! { (escape::text(text.as_bytes())) },
            Unit::Count => parts::number(number),
            // An unlimited value is the largest number.
            Unit::Bytes if number > 1 << 60 => html! { "no limit" },
            Unit::Bytes => html! { (parts::bytes(number)) },
            Unit::Ms => html! { (parts::duration(number)) },
            Unit::Us => html! { (parts::micros(number)) },
            Unit::Moment if number == 0 => html! { span class="faint" { "never" } },
            Unit::Moment => parts::moment(frame, number * 1_000),
        };
        Some((*label, value))
    };
    parts::facts(&fields.iter().filter_map(pair).collect::<Vec<_>>())
}

fn cluster(nodes: &Value) -> Markup {
    if nodes.items().is_empty() {
        return html! {};
    }
    let row = |node: &Value| {
        let text = |name| escape::text(node.raw(name));
        let number = |name| match node.field(name).number() {
            Some(count) => parts::number(count),
            None => html! { span class="faint" { "–" } },
        };
        let state = text("state");
        let tone = if state == "online" { Tone::Good } else { Tone::Warn };
        let cells = vec![
            html! { (text("name")) },
            html! { (text("role")) },
            parts::badge(tone, &state),
            html! { (text("client")) },
            number("index"),
            number("behind"),
            html! { (text("holds")) },
            health(node),
        ];
        Row { key: text("name"), select: None, cells }
    };
    let columns = Column::list("name|role|state|address|#index|#behind|holds|health");
    let rows = nodes.items().iter().map(row).collect();
    let table = Table::plain("nodes", "Nodes of the cluster", columns, rows);
    parts::part("cluster", parts::card("Cluster", html! {}, html! { (table) }))
}

/// One word of a node, if it is known.
fn health(node: &Value) -> Markup {
    match node.field("health").bytes() {
        Some(b"well") => parts::badge(Tone::Good, "well"),
        Some(word) => parts::badge(Tone::Bad, escape::text(word)),
        None => html! { span class="faint" { "–" } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;
    use crate::console::words::value::tests::{map, text};

    const NOPERM: &[u8] = b"NOPERM no";

    fn state(fields: &[(&str, &str)]) -> Option<ServerState> {
        let info = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        Some(ServerState { info: info.collect() })
    }

    fn page(may: May, state: Option<ServerState>, replies: [Value; 4]) -> String {
        let frame = PageFrame {
            may,
            state,
            token: "t0k".into(),
            now_ms: 2_000_000,
            ..PageFrame::default()
        };
        show(&frame, &Params::default(), &replies).into_string()
    }

    fn refused() -> [Value; 4] {
        [(); 4].map(|()| Value::Error(bytes::Bytes::from_static(NOPERM)))
    }

    #[test]
    fn what_may_not_be_seen_is_left_out() {
        let shown = page(May::default(), None, refused());
        assert!(shown.contains("right to run INFO") && !shown.contains("NOPERM"), "{shown}");
        for word in ["Slow commands", "Denied", "Settings", "Cluster", "/do/"] {
            assert!(!shown.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn secrets_are_masked_and_settings_changed_by_those_who_may() {
        let config = || {
            map(&[
                ("requirepass", text("hunter2")),
                ("tls-key-file-pass", text("hunter2")),
                ("cluster-secret", text("hunter2")),
                ("loglevel", text("notice")),
                ("logfile", text("<i>")),
            ])
        };
        let replies = || [Value::Null, Value::Null, config(), Value::Null];
        let shown = page(May::all(), state(&[]), replies());
        assert!(!shown.contains("hunter2") && shown.contains("&lt;i&gt;"), "{shown}");
        assert!(shown.contains(r#"action="/do/config""#), "{shown}");
        assert!(shown.contains(r#"<option value="notice" selected>"#), "{shown}");
        assert!(!page(May::default(), state(&[]), replies()).contains("/do/config"));
    }

    #[test]
    fn percentiles_the_journal_and_the_cluster_stand_where_there_are_some() {
        let fields = [
            ("lateness_minute_p99_us", "600"),
            ("lateness_max_us", "12400"),
            ("aof_enabled", "1"),
            ("journal_state", "full"),
            ("journal_trouble", "No space <left>"),
            ("cmdstat_delay.add", "calls=1204,usec=9,usec_per_call=17.03"),
            ("latency_percentiles_usec_delay.add", "p50=5.632,p99=360.448,p99.9=360.4"),
        ];
        let node = map(&[
            ("name", text("n1")),
            ("state", text("unreachable")),
            ("behind", Value::Int(7)),
            ("health", text("disk-hangs")),
        ]);
        let slow = Value::Array(vec![Value::Array(vec![
            Value::Int(2),
            Value::Int(1_999),
            Value::Int(12_400),
            Value::Array(vec![text("DELAY.ADD"), text("<q>")]),
            text("10.0.0.1:5"),
            text(""),
        ])]);
        let replies = [slow, Value::Null, Value::Null, Value::Array(vec![node])];
        let shown = page(May::default(), state(&fields), replies);
        for word in [
            "0.6 ms", "12 ms", "&lt;left&gt;", "DELAY.ADD &lt;q&gt;", "1 s ago", "1,204", "0.4 ms",
            "unreachable", "disk-hangs",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        for id in ["lateness", "journal", "memory", "clock"] {
            assert!(shown.contains(&format!(r#"id="{id}""#)), "{id}");
        }
        let off = page(May::default(), state(&[("aof_enabled", "0")]), refused());
        assert!(off.contains("It is off"), "{off}");
    }
}
