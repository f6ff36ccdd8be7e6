//! The result of a search, and its filter. [`crate::console::endpoints::search`] renders it.

mod everywhere;
mod found;

use crate::console::pages::filter;
use crate::console::pages::queue::excerpt;
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, page};
use crate::console::view::node;
use crate::console::view::parts::{self, Column, Confirm, Row, Table, offered};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::Value;
use crate::limits::CONSOLE_SELECTED_MAX;
use everywhere::of_all;
use found::STATES;
pub use found::{
    Hit, Meant, SearchResult, any_case, containing, cuts, is_for, jobs_of, literal, with_id, within,
};
use maud::{Markup, Render, html};

/// The page.
pub fn show(frame: &PageFrame, params: &Params, meant: &Meant, found: &SearchResult) -> Markup {
    let meant_params = found.of.clone().unwrap_or_else(|| params.clone());
    let queue = meant_params.bytes("queue");
    let body = html! {
        (form(&meant_params))
        @if let Some(error) = &found.error { p class="refused" role="alert" { (error) } }
        @else if *meant == Meant::Nothing {
            p class="lead" { "An id, or a part of one, finds jobs in any queue, and a part of a name queues. " code {
                "queue:text" } " finds ids of that queue that have the text, or else jobs that contain it in body or \
                error." }
        }
        @else {
            @match queue {
                Some(queue) => (of_queue(frame, &meant_params, queue, found)),
                None => (of_all(frame, params.bytes("q").unwrap_or_default().trim_ascii(), found)),
            }
        }
    };
    page(frame, "Search", Tab::Other, body)
}

fn form(params: &Params) -> Markup {
    let text = |name: &str| params.text(name).unwrap_or_default();
    let mut states = vec![("", "any", text("state").is_empty())];
    states.extend(STATES.iter().map(|state| (*state, *state, text("state") == *state)));
    let db = params.db().to_string();
    let mut kept = vec![("db", db.as_bytes())];
    // A browser changes such text in a field of one line.
    let unwritable = |name| params.bytes(name).filter(|_| !is_one_line(params, name));
    let names = ["queue", "group", "match", "contains", "error"];
    let hidden = names.map(|name| (name, unwritable(name)));
    let fixed = ["untold", "reason", "from", "until"].map(|name| (name, params.bytes(name)));
    kept.extend(hidden.into_iter().chain(fixed).filter_map(|(name, value)| Some((name, value?))));
    let field = |label, name, hint| {
        html! {
            @if unwritable(name).is_none() { (parts::text_input(label, name, text(name), hint)) }
        }
    };
    html! {
        (parts::filter("/search", &kept, html! {
            (field("Queue", "queue", "emails"))
            (parts::select("State", "state", &states))
            @if params.bytes("group").is_some() { (field("Group", "group", "")) }
            (field("Id", "match", "order:*"))
            (field("Text in id, body or error", "contains", ""))
            (field("Exact error", "error", ""))
        }))
        @if params.bytes("contains").is_some() {
            p class="note" { "A search for text reads the bodies of all jobs it examines. For millions of jobs this \
                              takes the server some seconds, in small slices between other commands." }
        }
    }
}

/// Whether a field holds text that a browser leaves as it is.
fn is_one_line(params: &Params, name: &str) -> bool {
    params.text(name).is_some_and(|text| !text.contains(char::is_control))
}

fn of_queue(frame: &PageFrame, params: &Params, queue: &[u8], found: &SearchResult) -> Markup {
    html! {
        p class="lead" { "in " (parts::queue_link(frame.db, queue)) (marked(params)) (between(frame, params)) }
        @if !found.hits.is_empty() { (hits(frame, &found.hits)) }
        (progress(frame, params, queue, found))
        @if !found.hits.is_empty() { (actions(frame, params, queue, found)) }
    }
}

/// The error and the reason that are asked for.
fn marked(params: &Params) -> Markup {
    let error = params.bytes("error").map(escape::text);
    let (reason, group) = (params.text("reason"), params.bytes("group").map(escape::text));
    html! {
        @if let Some(group) = group { ", of the group " q { bdi { (group) } } }
        @if let Some(error) = error { ", with the error " q { bdi { (error) } } }
        @if params.bytes("untold").is_some() { ", without an error" }
        @if let Some(reason) = reason { ", dead because of " (reason) }
    }
}

fn between(frame: &PageFrame, params: &Params) -> Markup {
    html! {
        @if let (Some(from), Some(until)) = (params.number("from"), params.number("until")) {
            ", due from " (parts::moment(frame, from)) " until " (parts::moment(frame, until))
        }
    }
}

fn hits(frame: &PageFrame, hits: &[Hit]) -> Markup {
    let row = |hit: &Hit| {
        let cells = vec![
            parts::job_link(frame.db, &hit.queue, &hit.id),
            parts::state(&hit.state),
            parts::ago(frame, hit.due),
            html! {
                // Nothing is known of the error before the job was looked at.
                @if hit.error.is_empty() { @if hit.body.is_some() { span class="faint" { "none" } } }
                @else { (escape::shortened(&escape::text(&hit.error), 120)) }
            },
            html! { @if let Some(body) = &hit.body { (excerpt(&Value::Text(body.clone()))) } },
        ];
        let key = escape::query(&hit.id);
        Row { select: Some((key.clone(), escape::text(&hit.id))), key, cells }
    };
    let columns = Column::list("id|state|due|last error|body");
    let rows = hits.iter().map(row).collect();
    let form = if can(frame, hits) == (false, false) { "" } else { "chosen" };
    Table { form, ..Table::plain("hits", "Jobs found", columns, rows) }.render()
}

/// How far it came, and the way on.
fn progress(frame: &PageFrame, params: &Params, queue: &[u8], found: &SearchResult) -> Markup {
    let looked_at = found.looked_at.min(found.all);
    let count = parts::counted(found.hits.len() as u64, "job", "jobs");
    html! {
        nav class="pager" aria-label="Search" {
            @match &found.cursor {
                Some(cursor) => {
                    @let href = format!("{}&cursor={}&looked={}", href("/search", frame.db, queue, params), escape::query(cursor), found.looked_at);
                    span { (count) " here; searched about " (parts::grouped(looked_at)) " of " (parts::grouped(found.all)) "." }
                    a class="button" href=(href) data-continue=(href) rel="next" { "Continue" }
                },
                None => span {
                    @if found.hits.is_empty() && params.has("cursor") { "No more jobs." }
                    @else if found.hits.is_empty() { "No job matches." }
                    @else { (count) "; all " (parts::grouped(found.all)) " of the queue were searched." }
                },
            }
        }
    }
}

/// An address with the filter.
fn href(path: &str, db: u8, queue: &[u8], params: &Params) -> String {
    let mut href = format!("{path}?db={db}&queue={}", escape::query(queue));
    for name in filter::FIELDS {
        if let Some(value) = params.bytes(name) {
            href.push_str(&format!("&{name}={}", escape::query(value)));
        }
    }
    href
}

/// Whether jobs that are selected can be redriven, and removed.
fn can(frame: &PageFrame, hits: &[Hit]) -> (bool, bool) {
    let is_any_dead = hits.iter().any(|hit| hit.state == "dead");
    (is_any_dead && offered(frame, "DELAY.REDRIVE"), offered(frame, "DELAY.DEL"))
}

fn actions(frame: &PageFrame, params: &Params, queue: &[u8], found: &SearchResult) -> Markup {
    let fields = [("queue", queue)];
    let (can_redrive, can_remove) = can(frame, &found.hits);
    let is_refused = node::refusal(frame, "/do/remove").is_some();
    let remove = (!is_refused).then(|| parts::target(frame, "/do/remove", &fields));
    html! {
        div class="actions" {
            @if can_redrive || can_remove {
                // One form for the boxes; the button says what is done.
                (parts::form(frame, "chosen", "/do/redrive", &fields, false, html! {
                    input type="hidden" name="chosen" value="1";
                    fieldset {
                        legend { "Selected jobs " (parts::selected_count("chosen")) }
                        @if can_redrive { button data-selection { "Redrive selected" } " " }
                        @if can_remove {
                            button class="danger" formaction=[remove] data-selection { "Remove selected" }
                        }
                    }
                }))
            }
            (bulk(frame, params, queue, found))
            a class="button" href=(href("/export", frame.db, queue, params)) download { "Export as NDJSON" }
        }
    }
}

/// The same for all that the filter finds, also those that are not shown.
fn bulk(frame: &PageFrame, params: &Params, queue: &[u8], found: &SearchResult) -> Markup {
    let mut fields = vec![("queue", queue)];
    fields.extend(filter::FIELDS.iter().filter_map(|name| Some((*name, params.bytes(name)?))));
    let button = |what: &'static str, label: &str, verb: &str| {
        let fields = [&fields[..], &[("what", what.as_bytes())]].concat();
        let words = format!("{verb} {}", hit_by(what, params, queue, found));
        parts::action(frame, "/do/bulk", &fields, label, Confirm::Count { words })
    };
    let is_for = |what| found.hits.iter().any(|hit| hit.is_for(what));
    html! {
        @if is_for("redrive") && offered(frame, "DELAY.REDRIVE") {
            (button("redrive", "Redrive all found", "Redrive"))
        }
        @if is_for("run") && offered(frame, "DELAY.RESCHEDULE") {
            (button("run", "Run all found now", "Make due now"))
        }
        @if is_for("cancel") && offered(frame, "DELAY.CANCEL") {
            (button("cancel", "Cancel all found", "Remove"))
        }
    }
}

/// How many jobs an action concerns, and by which filter they are found.
fn hit_by(what: &str, params: &Params, queue: &[u8], found: &SearchResult) -> String {
    let count = found.hits.iter().filter(|hit| hit.is_for(what)).count() as u64;
    let (one, many) = match what {
        "redrive" => ("dead job", "dead jobs"),
        "run" => ("delayed job", "delayed jobs"),
        _ => ("job that no worker has", "jobs that no worker has"),
    };
    let counted = parts::counted(count, one, many);
    // Only a page that saw the whole queue knows all of them.
    let is_whole = found.cursor.is_none() && !params.has("cursor");
    let counted =
        if is_whole { counted } else { format!("{counted} on this page, and all others") };
    let words: Vec<String> = filter::words(params)
        .into_iter()
        .map(|(word, said)| format!("{word}: {}", escape::shortened(&said, 200)))
        .collect();
    let words =
        if words.is_empty() { "none: all jobs of the queue".to_owned() } else { words.join("; ") };
    format!(
        "{counted}, of {}. Filter: {words}. At most {} at once; each job is checked again first.",
        escape::shortened(&escape::text(queue), 60),
        parts::grouped(CONSOLE_SELECTED_MAX as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;

    fn params(query: &str) -> Params {
        Params::read(query.as_bytes())
    }

    fn shown(may: May, query: &str, found: &SearchResult) -> String {
        let frame = PageFrame { may, token: "t0k".into(), now_ms: 1_000, ..PageFrame::default() };
        let params = params(query);
        show(&frame, &params, &Meant::of(&params), found).into_string()
    }

    fn hit(id: &[u8], state: &str) -> Hit {
        Hit {
            queue: b"q".to_vec(),
            id: id.to_vec(),
            state: state.into(),
            due: 61_000,
            ..Hit::default()
        }
    }

    #[test]
    fn an_address_means_a_text_or_a_filter() {
        for (query, meant) in [
            ("", Meant::Nothing),
            ("q=++", Meant::Nothing),
            ("q=+7%ff+", Meant::Text(b"7\xff".to_vec())),
            ("q=x&queue=q", Meant::Filter { queue: b"q".to_vec() }),
        ] {
            assert_eq!(Meant::of(&params(query)), meant, "{query}");
        }
        let filter = with_id(&params("db=2"), b"q&", b"a*[\xff");
        assert_eq!(filter.bytes("match"), Some(&b"*a\\*\\[\xff*"[..]));
        assert_eq!((filter.db(), filter.bytes("queue")), (2, Some(&b"q&"[..])));
    }

    /// Names of queues have colons: `mail:urgent:7` may be the job 7 of `mail:urgent`.
    #[test]
    fn the_longest_name_is_tried_first_and_neither_part_is_empty() {
        let cuts = |text: &'static str| -> Vec<String> {
            let word = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let cuts = super::cuts(text.as_bytes()).into_iter();
            cuts.map(|(queue, rest)| format!("{} {}", word(queue), word(rest))).collect()
        };
        assert_eq!(cuts("a:b:c"), ["a:b c", "a b:c"]);
        assert!(cuts("7").is_empty() && cuts(":7").is_empty() && cuts("mail:").is_empty());
    }

    #[test]
    fn a_pattern_in_any_case_means_the_text_itself() {
        use crate::glob::matches;
        let pattern = within(&any_case(b"Mail*[1]"));
        assert!(matches(&pattern, b"eu-mAIL*[1]-x") && !matches(&pattern, b"mailX[1]"));
    }

    #[test]
    fn hits_can_be_selected_and_the_filter_acted_on() {
        let hits = vec![hit(b"<i>\xff", "dead"), hit(b"b", "delayed")];
        let found = SearchResult {
            hits,
            looked_at: 2_000,
            all: 9_000,
            cursor: Some(b"77".to_vec()),
            ..SearchResult::default()
        };
        let shown = shown(May::all(), "queue=q&contains=%ff%26&state=dead", &found);
        assert!(
            shown.contains(r#"value="%3Ci%3E%FF" form="chosen""#) && !shown.contains("<i>\\"),
            "{shown}"
        );
        assert!(shown.contains("searched about 2,000 of 9,000"), "{shown}");
        let on = r#"data-continue="/search?db=0&amp;queue=q&amp;state=dead&amp;contains=%FF%26&amp;cursor=77&amp;looked=2000""#;
        assert!(shown.contains(on), "{shown}");
        let bulk =
            r#"action="/do/bulk?db=0&amp;queue=q&amp;state=dead&amp;contains=%FF%26&amp;what="#;
        assert_eq!(shown.matches(bulk).count(), 3, "{shown}");
        assert!(
            shown.contains(r#"href="/export?db=0&amp;queue=q&amp;state=dead&amp;contains=%FF%26""#)
        );
        assert!(shown.contains("reads the bodies"), "its cost is said: {shown}");
    }

    #[test]
    fn without_rights_there_is_nothing_to_press_and_nothing_found_is_said() {
        let found = SearchResult {
            hits: vec![hit(b"b", "dead")],
            all: 1,
            looked_at: 1_000,
            ..SearchResult::default()
        };
        let seen = shown(May::default(), "queue=q", &found);
        assert!(
            !seen.contains("/do/") && seen.contains("all 1 of the queue were searched"),
            "{seen}"
        );
        assert!(shown(May::all(), "queue=q", &SearchResult::default()).contains("No job matches."));
        assert!(shown(May::all(), "q=x", &SearchResult::default()).contains("never existed"));
        let refused = SearchResult { error: Some("NOPERM <x>".into()), ..SearchResult::default() };
        assert!(shown(May::all(), "q=x", &refused).contains("NOPERM &lt;x&gt;"));
        assert!(shown(May::all(), "", &SearchResult::default()).contains("queue:text"));
    }

    #[test]
    fn an_id_is_found_in_all_queues() {
        let found = SearchResult { hits: vec![hit(b"a/7", "ready")], ..SearchResult::default() };
        let seen = shown(May::all(), "q=+a%2f7", &found);
        assert!(seen.contains("/job?db=0&amp;queue=q&amp;id=a%2F7"), "{seen}");
        let found = SearchResult {
            queue: Some(b"q\xff".to_vec()),
            queues_looked: 3,
            named: vec![b"<b>".to_vec()],
            ..SearchResult::default()
        };
        let seen = shown(May::all(), "q=7%26", &found);
        let on = "/search?db=0&amp;q=7%26&amp;in=q%FF&amp;cursor=0&amp;queues=3";
        assert!(seen.contains(on) && seen.contains("looked through 3 queues"), "{seen}");
        assert!(seen.contains("&lt;b&gt;") && !seen.contains("never existed"), "{seen}");
    }
}
