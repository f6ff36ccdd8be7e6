//! Small things: badges, links, cards, lists of facts, pages to turn, commands to copy.

use crate::console::view::chrome::PageFrame;
use crate::console::words::escape;
use maud::{Markup, Render, html};

/// How much something matters. Each has a shape of its own in addition to its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    #[default]
    Plain,
    /// It goes well.
    Good,
    /// Needs attention.
    Warn,
    /// Something is lost, or about to be.
    Bad,
    /// Stopped.
    Off,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Warn => "warn",
            Tone::Bad => "bad",
            Tone::Off => "off",
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Tone::Plain => "○",
            Tone::Good => "●",
            Tone::Warn => "▲",
            Tone::Bad => "✕",
            Tone::Off => "❚❚",
        }
    }
}

/// A word with its shape and colour.
pub fn badge(tone: Tone, word: impl Render) -> Markup {
    html! {
        span class={ "badge " (tone.class()) } { i aria-hidden="true" { (tone.shape()) } " " (word) }
    }
}

/// The state of a job, a schedule or a queue, in the server's word for it.
pub fn state(word: &str) -> Markup {
    let tone = match word {
        "ready" | "active" | "ok" | "serving" => Tone::Good,
        "leased" | "missed" | "held" | "full" | "late" | "loading" => Tone::Warn,
        "dead" | "failed" | "error" => Tone::Bad,
        "paused" => Tone::Off,
        _ => Tone::Plain,
    };
    badge(tone, word)
}

/// A part of a live page that is renewed by itself. Its id is unique on the page, and constant.
pub fn part(id: &str, body: Markup) -> Markup {
    html! { div id=(id) data-part { (body) } }
}

/// A titled box; `note` is at the right of its title.
pub fn card(title: &str, note: Markup, body: Markup) -> Markup {
    html! {
        section class="card" aria-label=(title) {
            header { h2 { (title) } @if !note.0.is_empty() { div class="note" { (note) } } }
            (body)
        }
    }
}

/// A large number: its label, the number, a word below; a link if `href` is not empty.
pub fn figure(label: &str, value: impl Render, note: &str, tone: Tone, href: &str) -> Markup {
    figure_with(label, value, note, tone, href, html! {})
}

/// As [`figure`], with something more below, such as its line.
pub fn figure_with(
    label: &str,
    value: impl Render,
    note: &str,
    tone: Tone,
    href: &str,
    more: Markup,
) -> Markup {
    let inner = html! {
        span class="label" { (label) }
        strong { (value) }
        @if !note.is_empty() { span class="below" { (note) } }
        (more)
    };
    html! {
        @if href.is_empty() { div class={ "figure " (tone.class()) } { (inner) } }
        @else { a class={ "figure " (tone.class()) } href=(href) { (inner) } }
    }
}

/// A trouble in words, with a link to its remedy; no link if `href` is empty.
pub fn alert(tone: Tone, text: impl Render, href: &str) -> Markup {
    html! {
        li class={ "alert " (tone.class()) } {
            i aria-hidden="true" { (tone.shape()) } " "
            @if href.is_empty() { span { (text) } } @else { a href=(href) { (text) } }
        }
    }
}

/// A sentence below a title.
pub fn lead(text: impl Render) -> Markup {
    html! { p class="lead" { (text) } }
}

/// Names and what is known of them; pairs without a value are left out by the caller.
pub fn facts(pairs: &[(&str, Markup)]) -> Markup {
    html! {
        dl class="facts" {
            @for (name, value) in pairs { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// Nothing is here: in words, and the commands that would change it, each with a word before.
pub fn empty(text: &str, commands_: &[(&str, String)]) -> Markup {
    html! {
        div class="empty" {
            p { (text) }
            @for (what, line) in commands_ { div class="what" { (what) } (copy(line)) }
        }
    }
}

/// A line to copy. The button works by the script, and is not there without it.
pub fn copy(line: &str) -> Markup {
    html! {
        div class="copy" {
            code tabindex="0" { (line) }
            button type="button" data-copy hidden { "Copy" }
        }
    }
}

/// A command as a line for a shell, after the words by which a shell reaches this server.
pub fn commands(frame: &PageFrame, words: &[&[u8]]) -> String {
    let db = if frame.db == 0 { String::new() } else { format!(" -n {}", frame.db) };
    let quoted = words.iter().map(|word| escape::shell(word)).collect::<Vec<_>>();
    format!("{}{db} {}", frame.redis_cli, quoted.join(" "))
}

/// Links to parts of a page: what, where, and how many there are.
pub fn tabs(label: &str, active: &str, links: &[(&str, String, Option<u64>)]) -> Markup {
    html! {
        nav class="tabs" aria-label=(label) {
            @for (word, href, count) in links {
                a href=(href) aria-current=[(*word == active).then_some("page")] {
                    (word)
                    @if let Some(count) = count { " " span class="n" { (super::grouped(*count)) } }
                }
            }
        }
    }
}

/// Pages to turn: what is shown, and links where there is more.
pub fn pager(shown: &str, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        nav class="pager" aria-label="Pages" {
            span { (shown) }
            @if let Some(first) = first { a href=(first) rel="first" { "First" } }
            @if let Some(next) = next { a class="button" href=(next) rel="next" { "Next" } }
        }
    }
}

pub fn queue_href(db: u8, queue: &[u8]) -> String {
    format!("/queue?db={db}&name={}", escape::query(queue))
}

pub fn job_href(db: u8, queue: &[u8], id: &[u8]) -> String {
    format!("/job?db={db}&queue={}&id={}", escape::query(queue), escape::query(id))
}

pub fn schedule_href(db: u8, queue: &[u8], schedule: &[u8]) -> String {
    format!("/schedule?db={db}&queue={}&id={}", escape::query(queue), escape::query(schedule))
}

/// A queue's name that leads to it.
pub fn queue_link(db: u8, queue: &[u8]) -> Markup {
    html! { a href=(queue_href(db, queue)) { (escape::name(queue)) } }
}

pub fn job_link(db: u8, queue: &[u8], id: &[u8]) -> Markup {
    html! { a href=(job_href(db, queue, id)) { (escape::name(id)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_a_shape_beside_their_colour() {
        let dead = state("dead").into_string();
        assert_eq!(dead, r#"<span class="badge bad"><i aria-hidden="true">✕</i> dead</span>"#);
        assert!(state("anything").into_string().contains("plain"));
        assert!(state("<b>").into_string().contains("&lt;b&gt;"));
    }

    #[test]
    fn links_carry_names_of_any_bytes() {
        assert_eq!(queue_href(3, b"a/b&c"), "/queue?db=3&name=a%2Fb%26c");
        assert_eq!(job_href(0, b"q", b"\xff\""), "/job?db=0&queue=q&id=%FF%22");
        let link = queue_link(0, b"\"><script>").into_string();
        assert!(!link.contains("<script") && !link.contains("\"\">"), "{link}");
    }

    #[test]
    fn commands_are_words_for_a_shell() {
        let mut frame = PageFrame { redis_cli: "redis-cli -p 9248".into(), ..PageFrame::default() };
        let line = commands(&frame, &[b"DELAY.GET", b"a b", b"$(x)"]);
        assert_eq!(line, "redis-cli -p 9248 DELAY.GET 'a b' '$(x)'");
        frame.db = 2;
        assert_eq!(commands(&frame, &[b"PING"]), "redis-cli -p 9248 -n 2 PING");
    }

    #[test]
    fn the_active_tab_and_the_turned_pages_are_said() {
        let links = [("ready", "/a".to_owned(), Some(1_204)), ("dead", "/b".to_owned(), None)];
        let shown = tabs("Jobs", "dead", &links).into_string();
        assert!(shown.contains(r#"<a href="/b" aria-current="page">"#), "{shown}");
        assert!(shown.contains("1,204") && shown.matches("aria-current").count() == 1, "{shown}");
        assert!(!pager("1 to 50", None, None).into_string().contains("<a"));
        assert!(pager("51 to 100", Some("/"), Some("/n")).into_string().contains(r#"rel="next""#));
    }
}
