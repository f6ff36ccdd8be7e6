//! The chrome around every page.

use super::assets;
use super::node::{NodeRole, OwnNode};
use super::parts::{self, Tone};
use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::words::escape;
use crate::console::words::params::Params;
use maud::{DOCTYPE, Markup, html};

/// Parts of the console, as the navigation has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tab {
    Overview,
    Queues,
    Schedules,
    Busy,
    History,
    Clients,
    Server,
    Wall,
    /// A page that the navigation does not name.
    Other,
}

/// In the navigation: where each is, its word, and the command without which it would be empty.
const NAVIGATION: [(Tab, &str, &str, &str); 8] = [
    (Tab::Overview, "/", "Overview", ""),
    (Tab::Queues, "/queues", "Queues", "DELAY.QUEUES"),
    (Tab::Schedules, "/schedules", "Schedules", "DELAY.SCHEDULE LIST"),
    (Tab::Busy, "/busy", "Busy", "DELAY.BUSY"),
    (Tab::History, "/history", "History", "DELAY.HISTORY"),
    (Tab::Clients, "/clients", "Clients", "CLIENT LIST"),
    (Tab::Server, "/server", "Server", "INFO"),
    (Tab::Wall, "/wall", "Wall", "DELAY.QUEUES"),
];

const KEYS: [(&str, &str); 9] = [
    ("/", "search"),
    ("g o, g q, g s", "overview, queues, schedules"),
    ("g b, g h, g c, g v", "busy, history, clients, server"),
    ("j, k", "next row, previous row"),
    ("x", "select the row"),
    ("Enter", "open the row"),
    ("r", "run the job or schedule now"),
    (".", "pause the live updates"),
    ("?", "this help"),
];

/// A page.
pub fn page(frame: &PageFrame, title: &str, active: Tab, body: Markup) -> Markup {
    whole(frame, title, active, body, false)
}

/// A page whose parts (see [`parts::part`]) are renewed while it is visible.
pub fn live(frame: &PageFrame, title: &str, active: Tab, body: Markup) -> Markup {
    whole(frame, title, active, body, true)
}

/// A page with nothing around: login, and errors without a session.
pub fn bare(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body class="bare" {
                main id="main" {
                    p class="brand" { (mark()) "delayd" }
                    h1 { (title) }
                    (body)
                }
            }
        }
    }
}

/// A page that goes on to another by itself: what the browser asks for then is asked by a page of ours.
pub fn onward(href: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (href) };
                title { "delayd" }
                link rel="icon" type="image/svg+xml" href=(assets::icon_path());
            }
            body { p { a href=(href) { "Open the console" } } }
        }
    }
}

fn whole(frame: &PageFrame, title: &str, active: Tab, body: Markup, live: bool) -> Markup {
    let node = frame.state.as_ref().and_then(OwnNode::of);
    let theme = matches!(frame.theme.as_str(), "light" | "dark").then_some(frame.theme.as_str());
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] data-token=(frame.token) {
            (head(title, node.as_ref()))
            body class=[(active == Tab::Wall).then_some("wall")] {
                a class="skip" href="#main" { "Skip to content" }
                (header(frame, node.as_ref(), active, live))
                (banner(frame, node.as_ref()))
                (message(frame))
                main id="main" tabindex="-1" data-live[live] { h1 { (title) } (body) }
                (footer(frame))
                (help())
            }
        }
    }
}

fn head(title: &str, node: Option<&OwnNode<'_>>) -> Markup {
    let of = node.map_or(String::new(), |node| format!(" · {} {}", node.name, node.role_word()));
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) (of) " · delayd" }
            link rel="icon" type="image/svg+xml" href=(assets::icon_path());
            link rel="stylesheet" href=(assets::css_path());
            script src=(assets::js_path()) defer {}
        }
    }
}

fn mark() -> Markup {
    html! { img src=(assets::icon_path()) alt="" width="20" height="20"; }
}

fn header(frame: &PageFrame, node: Option<&OwnNode<'_>>, active: Tab, live: bool) -> Markup {
    html! {
        header class="top" {
            div class="bar" {
                a class="brand" href="/" { (mark()) "delayd" }
                @if let Some(node) = node { (name_and_role(node)) }
                (navigation(frame, active))
                (search(frame))
                (user(frame, live))
            }
            // The overview has these numbers itself.
            @if let Some(state) = frame.state.as_ref().filter(|_| active != Tab::Overview) { (state_line(state)) }
        }
    }
}

/// The node and its role, on each of its pages.
fn name_and_role(node: &OwnNode<'_>) -> Markup {
    let tone = match node.role {
        NodeRole::Leader => Tone::Good,
        NodeRole::Follower => Tone::Plain,
        NodeRole::Leaderless => Tone::Bad,
    };
    let words = format!("{} · {}", escape::shortened(node.name, 24), node.role_word());
    html! { a class="node" id="node" href="/server#cluster" data-part { (parts::badge(tone, words)) } }
}

/// Where changes are made, if not here. It is there from the beginning, so that an open page can fill it.
fn banner(frame: &PageFrame, node: Option<&OwnNode<'_>>) -> Markup {
    html! {
        div id="banner" role="status" data-part {
            @match node.map(|node| (node.role, node)) {
                Some((NodeRole::Follower, node)) => p class="banner" {
                    "This node, " b { (node.name) } ", is a follower. It shows what the leader has sent it, and changes \
                     nothing: use the console of the leader, " b { (node.leader_words()) } "."
                    @if !frame.on_leader.is_empty() {
                        " " a href=(frame.on_leader) rel="noreferrer" { "This page there" }
                    }
                },
                Some((NodeRole::Leaderless, node)) => p class="banner bad" {
                    "This node, " b { (node.name) } ", knows no leader: nothing can be changed here now, and what it \
                     shows may be old."
                },
                _ => {},
            }
        }
    }
}

fn navigation(frame: &PageFrame, active: Tab) -> Markup {
    html! {
        nav class="main" aria-label="Main" {
            @for (tab, href, word, needs) in NAVIGATION {
                @if needs.is_empty() || frame.may.run(needs) {
                    a href=(href) aria-current=[(tab == active).then_some("page")] { (word) }
                }
            }
        }
    }
}

/// The field keeps what was asked.
fn search(frame: &PageFrame) -> Markup {
    let asked = frame.here.strip_prefix("/search?").map(|query| Params::read(query.as_bytes()));
    let q = asked.as_ref().and_then(|asked| asked.text("q")).unwrap_or_default();
    html! {
        form class="search" method="get" action="/search" role="search" aria-label="Jobs" {
            @if frame.db != 0 { input type="hidden" name="db" value=(frame.db); }
            input type="search" name="q" value=[(!q.is_empty()).then_some(q)] autocomplete="off"
                aria-label="Search for an id or a part of it, a queue, or queue:text" placeholder="Id, queue, or queue:text" autocapitalize="off" spellcheck="false";
            kbd aria-hidden="true" { "/" }
        }
    }
}

fn user(frame: &PageFrame, live: bool) -> Markup {
    html! {
        div class="user" {
            @if live { button type="button" class="quiet" data-pause hidden { "Live" } }
            @if frame.readonly { span class="mark" title="All changes are refused" { "read-only" } }
            (theme(frame))
            @if !frame.user.is_empty() {
                span class="who" { (escape::name(&frame.user)) }
                form method="post" action="/logout" {
                    input type="hidden" name="token" value=(frame.token);
                    button class="quiet" { "Log out" }
                }
            }
        }
    }
}

/// From the system's to light to dark, and round again.
fn theme(frame: &PageFrame) -> Markup {
    let (next, word, sign) = match frame.theme.as_str() {
        "light" => ("dark", "Light", "☀"),
        "dark" => ("auto", "Dark", "☾"),
        _ => ("light", "System", "◐"),
    };
    html! {
        form method="post" action="/theme" data-theme-form {
            input type="hidden" name="token" value=(frame.token);
            input type="hidden" name="back" value=(frame.here);
            button class="quiet" name="theme" value=(next) title={ "Colours: " (word) } aria-label={ "Colours: " (word) } {
                span aria-hidden="true" { (sign) }
            }
        }
    }
}

/// The server's state: each number links to its details.
fn state_line(state: &ServerState) -> Markup {
    let dead = state.number_of("jobs_dead");
    let late = state.number_of("lateness_minute_p99_us");
    let oldest = state.number_of("oldest_ready_age_ms");
    let (journal, tone) = journal(state);
    html! {
        div class="state" id="state" data-part {
            (item("late p99", &parts::measured(late), "/server#lateness", tone_late(late)))
            (item("oldest ready", &if oldest == 0 { "–".into() } else { parts::duration(oldest) }, "/queues?by=age", Tone::Plain))
            (item("ready", &parts::grouped(state.number_of("jobs_ready")), "/queues?by=ready", Tone::Plain))
            (item("delayed", &parts::grouped(state.number_of("jobs_delayed")), "/queues?by=delayed", Tone::Plain))
            (item("leased", &parts::grouped(state.number_of("jobs_leased")), "/queues?by=leased", Tone::Plain))
            (item("dead", &parts::grouped(dead), "/queues?by=dead", if dead > 0 { Tone::Bad } else { Tone::Plain }))
            (item("journal", journal, "/server#journal", tone))
        }
    }
}

fn item(label: &str, value: &str, href: &str, tone: Tone) -> Markup {
    let (class, sign) = match tone {
        Tone::Bad => ("bad", "✕ "),
        Tone::Warn => ("warn", "▲ "),
        _ => ("", ""),
    };
    html! {
        a href=(href) class=[(!class.is_empty()).then_some(class)] {
            span { (label) } " "
            b { @if !sign.is_empty() { i aria-hidden="true" { (sign) } } (value) }
        }
    }
}

/// Late by a tenth of a second is felt; by a second, it is wrong.
fn tone_late(us: u64) -> Tone {
    match us {
        0..100_000 => Tone::Plain,
        100_000..1_000_000 => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// Off, unknown and in order look different.
fn journal(state: &ServerState) -> (&str, Tone) {
    match (state.text("aof_enabled"), state.text("journal_state")) {
        ("0", _) => ("off", Tone::Plain),
        (_, "") => ("unknown", Tone::Plain),
        (_, "ok") => ("ok", Tone::Plain),
        (_, loading @ "loading") => (loading, Tone::Warn),
        (_, other) => (other, Tone::Bad),
    }
}

/// The place for the result of an action, present from the beginning, so that screen readers notice changes.
fn message(frame: &PageFrame) -> Markup {
    html! {
        div id="message" role="status" aria-live="polite" {
            @if let Some(message) = &frame.message {
                p class=(if message.fine { "fine" } else { "refused" }) {
                    i aria-hidden="true" { (if message.fine { "✓" } else { "✕" }) } " " (message.text)
                }
            }
        }
    }
}

fn footer(frame: &PageFrame) -> Markup {
    let version = frame.state.as_ref().map_or("", |state| state.text("delayd_version"));
    html! {
        footer {
            span { "delayd " (version) }
            @if let Some(up) = frame.state.as_ref().and_then(|state| state.number("uptime_in_seconds")) {
                span { "up for " (parts::duration(up * 1_000)) }
            }
            @if !frame.grafana.is_empty() { a href=(frame.grafana) rel="noreferrer" { "Grafana" } }
            span class="keys" { kbd { "?" } " keys" }
        }
    }
}

fn help() -> Markup {
    html! {
        dialog id="help" aria-labelledby="help-title" {
            h2 id="help-title" { "Keys" }
            dl class="facts" {
                @for (keys, what) in KEYS { div { dt { kbd { (keys) } } dd { (what) } } }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::{ActionResult, May};

    fn frame() -> PageFrame {
        let info = [
            ("jobs_dead", "3"),
            ("aof_enabled", "1"),
            ("journal_state", "ok"),
            ("jobs_ready", "1204"),
        ];
        let info = info.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let state = Some(ServerState { info: info.collect() });
        PageFrame {
            user: b"<ops>".to_vec(),
            token: "t0k".into(),
            may: May::all(),
            state,
            ..PageFrame::default()
        }
    }

    /// Otherwise nobody would see them.
    #[test]
    fn each_tab_is_shown_to_whoever_may_do_everything() {
        let may = May::all();
        for (_, href, _, command) in NAVIGATION {
            assert!(command.is_empty() || may.run(command), "{href}");
        }
    }

    fn text(frame: &PageFrame) -> String {
        page(frame, "Queues", Tab::Queues, html! { p { "body" } }).into_string()
    }

    #[test]
    fn nothing_on_a_page_needs_what_the_policy_forbids() {
        let shown = text(&frame()) + &bare("Log in", html! {}).into_string();
        for word in [" style=", " onclick=", "<script>", "javascript:", "<ops>"] {
            assert!(!shown.contains(word), "{word}");
        }
        assert!(shown.contains(assets::css_path()) && shown.contains(assets::js_path()));
    }

    #[test]
    fn the_state_of_the_server_is_marked_where_it_is_bad() {
        let shown = text(&frame());
        assert!(shown.contains(r#"<a href="/queues?by=dead" class="bad">"#), "{shown}");
        assert!(shown.contains("1,204") && shown.contains(r#"aria-current="page""#), "{shown}");
        let mut failed = frame();
        let set = |frame: &mut PageFrame, field: &str, value: &str| {
            let info = &mut frame.state.as_mut().expect("there").info;
            info.insert(field.to_owned(), value.to_owned());
        };
        set(&mut failed, "journal_state", "failed");
        set(&mut failed, "jobs_dead", "0");
        let shown = text(&failed);
        assert!(shown.contains(r#"<a href="/server#journal" class="bad">"#), "{shown}");
        assert!(!shown.contains(r#"<a href="/queues?by=dead" class="bad">"#), "{shown}");
        assert!(!text(&PageFrame { state: None, ..frame() }).contains("id=\"state\""));
    }

    #[test]
    fn each_page_of_a_node_names_it_its_role_and_the_leader() {
        use crate::console::view::node::tests::{FOLLOWER, state};
        let of =
            |fields: &[(&str, &str)]| text(&PageFrame { state: Some(state(fields)), ..frame() });
        let follower = of(&FOLLOWER);
        assert!(follower.contains("<title>Queues · n2 follower · delayd</title>"), "{follower}");
        assert!(follower.contains("n2 · follower") && follower.contains("n1 (10.0.0.1:7711)"));
        assert!(!follower.contains("This page there"));
        let on_leader = "https://ops.example.com/queues?by=a&b".to_owned();
        let linked = text(&PageFrame { state: Some(state(&FOLLOWER)), on_leader, ..frame() });
        assert!(linked.contains(r#"href="https://ops.example.com/queues?by=a&amp;b""#), "{linked}");
        let leader = of(&[("raft_name", "<b>"), ("raft_leads", "1")]);
        assert!(leader.contains("&lt;b&gt; · leader") && !leader.contains("class=\"banner"));
        assert!(of(&[("raft_name", "n1")]).contains("knows no leader"));
        let alone = of(&[]);
        assert!(alone.contains("<title>Queues · delayd</title>") && !alone.contains("id=\"node\""));
    }

    #[test]
    fn what_may_not_be_seen_is_not_in_the_navigation() {
        let shown = text(&PageFrame { may: May::default(), ..frame() });
        assert!(shown.contains(">Overview<") && !shown.contains(">Clients<"), "{shown}");
        assert!(!shown.contains(r#"<html lang="en" data-theme"#), "{shown}");
        assert!(
            text(&PageFrame { theme: "dark".into(), ..frame() }).contains(r#"data-theme="dark""#)
        );
    }

    #[test]
    fn the_field_of_the_search_keeps_what_was_asked() {
        let of = |here: &str| text(&PageFrame { here: here.to_owned(), ..frame() });
        assert!(of("/search?q=a%22+b").contains(r#"name="q" value="a&quot; b""#));
        assert!(!of("/queue?q=a").contains(r#"name="q" value"#));
    }

    #[test]
    fn only_live_pages_renew_themselves_and_messages_are_told() {
        let message = Some(ActionResult { fine: false, text: "NOPERM <x>".into() });
        let told = PageFrame { message, ..frame() };
        assert!(text(&told).contains("refused") && text(&told).contains("NOPERM &lt;x&gt;"));
        assert!(!text(&told).contains("data-live"));
        assert!(live(&told, "Q", Tab::Queues, html! {}).into_string().contains("data-live"));
    }
}
