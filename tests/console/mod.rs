//! The pages of the console as golden text, in `console/*.txt`: each with nothing to show, as usual, with much, with
//! what is meant to break it, and for whoever may do nothing. `console/world.rs` says what there is to see.
//!
//! `make docs` writes them anew; the review reads the diff.

mod html;
mod rules;
mod world;

use crate::support::patience::cpu;
use delayd::console::pages::search::{self, Hit, Meant, SearchResult};
use delayd::console::pages::{self, PAGES, Page, filter, login};
use delayd::console::view::chrome::PageFrame;
use delayd::console::view::{assets, layout};
use delayd::console::words::escape::query;
use delayd::console::words::params::Params;
use delayd::console::words::value::Value;
use html::Element;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use world::{HOSTILE_WORD, Viewer, World, hostile_name, hostile_schedule, words};

/// Bytes of all golden files.
const BYTES_MAX: u64 = 320 << 10;
/// Rendering in the test profile; in a release a tenth of it.
const SHOW_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });

/// What there is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Empty,
    Usual,
    Much,
    Hostile,
    Forbidden,
}

use Case::{Empty, Forbidden, Hostile, Much, Usual};

const CASES: [Case; 5] = [Empty, Usual, Much, Hostile, Forbidden];

impl Case {
    fn word(self) -> &'static str {
        match self {
            Empty => "empty",
            Usual => "usual",
            Much => "much",
            Hostile => "hostile",
            Forbidden => "forbidden",
        }
    }

    fn begin(self) -> (World, Viewer) {
        let mut world = match self {
            Empty => World::empty(),
            Usual | Forbidden => World::usual(),
            Much => World::much(),
            Hostile => World::hostile(),
        };
        let viewer = match self {
            Forbidden => world.stranger(),
            Hostile => world.attacker(),
            _ => world.admin(),
        };
        (world, viewer)
    }
}

/// What of a document is written.
#[derive(Clone, Copy)]
enum Part {
    Main,
    /// The part of the main one with this id, class or label: the rest is as of another address.
    Only(&'static str),
    /// It is only held to the rules.
    Nothing,
}

use Part::{Main, Nothing, Only};

/// What is looked at. `NAME`, `SCHEDULE` and `WORD` in an address stand for hostile bytes.
const ADDRESSES: [(Case, &str, Part); 142] = [
    (Empty, "/", Main),
    (Empty, "/queues", Main),
    (Empty, "/queue?name=none", Main),
    (Empty, "/job?queue=none&id=x", Main),
    (Empty, "/schedules", Main),
    (Empty, "/schedule?queue=poll&id=x", Main),
    (Empty, "/busy", Main),
    (Empty, "/history", Main),
    (Empty, "/clients", Main),
    (Empty, "/server", Only("commands")),
    (Empty, "/wall", Main),
    (Empty, "/search", Main),
    (Empty, "/queue?name=none&tab=dead", Only("tab")),
    (Empty, "/queue?name=none&tab=groups", Only("tab")),
    (Empty, "/queue", Nothing),
    (Empty, "/job", Nothing),
    (Empty, "/schedule", Nothing),
    (Empty, "/job/body?queue=none&id=x", Nothing),
    (Empty, "/search?q=order-1", Main),
    (Empty, "/search?queue=none&match=x", Only("pager")),
    (Empty, "/clients?waiting=1", Only("clients-part")),
    (Usual, "/", Main),
    (Usual, "/queues", Main),
    (Usual, "/queues?match=e*", Only("queues-part")),
    (Usual, "/queues?match=nothing*", Only("queues-part")),
    (Usual, "/queue?name=emails", Main),
    (Usual, "/queue?name=emails&tab=delayed", Only("tab")),
    (Usual, "/queue?name=emails&tab=delayed&columns=to,none", Only("jobs-part")),
    (Usual, "/queue?name=payments&tab=dead&columns=id", Nothing),
    (Usual, "/queue?name=emails&tab=leased", Only("tab")),
    (Usual, "/queue?name=emails&tab=schedules", Only("tab")),
    (Usual, "/queue?name=emails&tab=settings", Only("tab")),
    (Usual, "/queue?name=emails&tab=consumers", Only("tab")),
    (Usual, "/queue?name=emails&tab=groups&by=ready", Only("tab")),
    (Usual, "/search?queue=emails&group=%3Ci%3Eacme%3C%2Fi%3E", Only("lead")),
    (Usual, "/queue?name=payments&tab=dead", Only("tab")),
    (Usual, "/queue?name=payments&tab=dead&by=error", Only("tab")),
    (Usual, "/queue?name=poll&tab=schedules&zoom=day", Only("timeline")),
    (Usual, "/queue?name=poll&tab=schedules&zoom=day", Only("tab")),
    (Usual, "/queue?name=calm", Nothing),
    (Usual, "/queue?name=waited&tab=consumers", Only("tab")),
    (Usual, "/job?queue=emails&id=welcome-1", Main),
    (Usual, "/job?queue=emails&id=welcome-1&as=hex", Nothing),
    (Usual, "/job?queue=emails&id=letter-1", Main),
    (Usual, "/job?queue=emails&id=letter-2", Nothing),
    (Usual, "/job?queue=payments&id=card-1", Main),
    (Usual, "/job/body?queue=emails&id=welcome-1", Nothing),
    (Usual, "/schedules", Main),
    (Usual, "/schedules?preview=1&queue=poll&schedule=new&cron=0+8+*+*+*&zone=UTC", Only("new")),
    (Usual, "/schedules?preview=1&queue=poll&schedule=new&cron=never", Nothing),
    (Usual, "/schedule?queue=poll&id=bank", Main),
    (Usual, "/schedule?queue=reports&id=daily", Only("schedule")),
    (Usual, "/schedule?queue=reports&id=daily&preview=1&every=7m", Nothing),
    (Usual, "/busy", Main),
    (Usual, "/history?last=6h", Main),
    (Usual, "/history?name=emails", Nothing),
    (Usual, "/clients", Main),
    (Usual, "/server", Main),
    (Usual, "/wall", Main),
    (Usual, "/clients?waiting=1&by=idle", Only("clients-part")),
    (Usual, "/wall?show=trouble", Main),
    (Usual, "/search?q=welcome-1", Main),
    (Usual, "/search?q=emails:wel", Main),
    (Usual, "/search?queue=payments&state=dead&contains=17", Nothing),
    (Usual, "/search?queue=payments&state=dead&error=no+such+customer&reason=buried", Main),
    (Much, "/?db=0", Nothing),
    (Much, "/", Only("coming")),
    (Much, "/", Only("queues-part")),
    (Much, "/queues", Only("queues-part")),
    (Much, "/queues?by=ready", Only("queues-part")),
    (Much, "/queues?by=name&after=queue-047", Only("pager")),
    (Much, "/queue?name=many&tab=ready", Nothing),
    (Much, "/queue?name=many", Only("timeline")),
    (Much, "/queue?name=many", Only("pager")),
    (Much, "/queue?name=many&tab=delayed&skip=1250", Only("pager")),
    (Much, "/queue?name=many&tab=leased&skip=50", Only("tab")),
    (Much, "/queues?by=ready&skip=100", Only("pager")),
    (Much, "/clients?skip=100", Only("pager")),
    (Much, "/queue?name=died&tab=dead", Only("pager")),
    (Much, "/queue?name=died&tab=dead&by=error", Only("tab")),
    (Much, "/job?queue=large&id=large-1", Only("body text")),
    (Much, "/job/body?queue=large&id=large-1", Nothing),
    (Much, "/schedules", Only("schedules-part")),
    (Much, "/schedule?queue=queue-000&id=every-0", Nothing),
    (Much, "/busy", Only("pager")),
    (Much, "/busy?end=1893456060000&queue=many&id=job-0049", Only("pager")),
    (Much, "/history", Nothing),
    (Much, "/clients", Only("clients-part")),
    (Much, "/server", Nothing),
    (Much, "/wall", Only("trouble")),
    (Much, "/search?queue=many&match=job-*", Main),
    (Hostile, "/", Only("trouble")),
    (Hostile, "/", Only("queues-part")),
    (Hostile, "/queues", Only("queues-part")),
    (Hostile, "/queues?match=WORD&after=WORD&by=name", Nothing),
    (Hostile, "/queue?name=NAME", Only("timeline")),
    (Hostile, "/queue?name=NAME", Only("tab")),
    (Hostile, "/queue?name=NAME", Only("bar")),
    (Hostile, "/queue?name=NAME&tab=delayed", Only("tab")),
    (Hostile, "/queue?name=NAME&tab=delayed&columns=WORD", Nothing),
    (Hostile, "/queue?name=NAME&tab=groups", Nothing),
    (Hostile, "/queue?name=NAME&tab=schedules", Only("tab")),
    (Hostile, "/queue?name=NAME&tab=settings", Nothing),
    (Hostile, "/queue?name=NAME&tab=consumers", Nothing),
    (Hostile, "/queue?name=WORD&tab=leased", Only("tab")),
    (Hostile, "/queue?name=WORD&tab=dead", Only("tab")),
    (Hostile, "/queue?name=WORD&tab=dead&by=error", Only("tab")),
    (Hostile, "/job?queue=NAME&id=NAME", Main),
    (Hostile, "/job?queue=WORD&id=WORD", Main),
    (Hostile, "/job?queue=WORD&id=%3Cscript%3E", Nothing),
    (Hostile, "/job/body?queue=NAME&id=NAME", Nothing),
    (Hostile, "/schedules", Only("schedules-part")),
    (Hostile, "/schedules?preview=1&queue=WORD&schedule=SCHEDULE&cron=WORD&body=NAME", Only("new")),
    (Hostile, "/schedule?queue=NAME&id=SCHEDULE", Main),
    (Hostile, "/schedule?queue=NAME&id=SCHEDULE&preview=1&every=WORD&body=WORD", Nothing),
    (Hostile, "/busy", Only("leases-part")),
    (Hostile, "/busy?end=1&queue=NAME&id=WORD", Nothing),
    (Hostile, "/history?name=NAME", Only("lead")),
    (Hostile, "/clients", Only("clients-part")),
    (Hostile, "/server", Only("slow-part")),
    (Hostile, "/server", Only("denied-part")),
    (Hostile, "/wall", Only("trouble")),
    (Hostile, "/search?queue=NAME&match=*&contains=script", Main),
    (Hostile, "/search?q=WORD", Main),
    (Hostile, "/search?q=WORD:WORD", Nothing),
    (Forbidden, "/", Main),
    (Forbidden, "/queues", Main),
    (Forbidden, "/queue?name=emails", Main),
    (Forbidden, "/queue?name=emails&tab=groups", Nothing),
    (Forbidden, "/job?queue=emails&id=welcome-1", Main),
    (Forbidden, "/schedules", Main),
    (Forbidden, "/schedule?queue=poll&id=bank", Main),
    (Forbidden, "/busy", Main),
    (Forbidden, "/history", Main),
    (Forbidden, "/clients", Main),
    (Forbidden, "/server", Main),
    (Forbidden, "/wall", Main),
    (Forbidden, "/search?q=welcome-1", Main),
    (Forbidden, "/job/body?queue=emails&id=welcome-1", Nothing),
    (Forbidden, "/queue?name=emails&tab=dead", Nothing),
    (Forbidden, "/search?queue=emails&match=*", Nothing),
    (Forbidden, "/schedules?preview=1&every=5m", Nothing),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/console")
}

/// A page, or search, as the server answers.
fn document(world: &mut World, viewer: &Viewer, address: &str) -> String {
    let (path, asked) = address.split_once('?').unwrap_or((address, ""));
    let frame = world.around(viewer);
    let mut params = Params::read(asked.as_bytes());
    params.now_ms = frame.now_ms;
    let Some(page) = pages::find(path) else {
        assert_eq!(path, "/search");
        return searched(world, viewer, &frame, &params);
    };
    let replies = replies(world, viewer, page, &params);
    (page.show)(&frame, &params, &replies).into_string()
}

fn replies(world: &mut World, viewer: &Viewer, page: &Page, params: &Params) -> Vec<Value> {
    let mut replies = world.ask(viewer, &(page.ask)(params));
    let more = (page.more)(params, &replies);
    replies.extend(world.ask(viewer, &more));
    replies
}

/// As `console::search` asks, which does it over a socket and for a while.
fn searched(world: &mut World, viewer: &Viewer, frame: &PageFrame, params: &Params) -> String {
    let meant = Meant::of(params);
    let found = match &meant {
        Meant::Nothing => SearchResult::default(),
        Meant::Text(text) => by_text(world, viewer, params, text),
        Meant::Filter { queue } => scanned(world, viewer, queue, params),
    };
    search::show(frame, params, &meant, &found).into_string()
}

fn by_text(world: &mut World, viewer: &Viewer, params: &Params, text: &[u8]) -> SearchResult {
    let reply = world.ask(viewer, &[words!["DELAY.FIND", text]]).remove(0);
    let hit = |row: &Value| Some(Hit { id: text.to_vec(), ..Hit::of_find(row)? });
    let hits: Vec<Hit> = reply.items().iter().filter_map(hit).collect();
    let cut = search::cuts(text).into_iter().next().filter(|_| hits.is_empty());
    match cut {
        Some((queue, rest)) => {
            let filter = search::with_id(params, queue, rest);
            SearchResult { of: Some(filter.clone()), ..scanned(world, viewer, queue, &filter) }
        }
        None => SearchResult { hits, error: reply.error(), ..SearchResult::default() },
    }
}

fn scanned(world: &mut World, viewer: &Viewer, queue: &[u8], params: &Params) -> SearchResult {
    let asked = [words!["DELAY.STATS", queue], filter::scan(params, queue, b"0")];
    let [stats, reply] = &world.ask(viewer, &asked)[..] else { unreachable!("two") };
    let [cursor, jobs] = reply.items() else {
        return SearchResult { error: reply.error(), ..SearchResult::default() };
    };
    let mut hits: Vec<Hit> =
        jobs.items().iter().filter_map(|job| Hit::of_scan(queue, job)).collect();
    let gets: Vec<_> = hits.iter().map(|hit| words!["DELAY.GET", queue, hit.id]).collect();
    let told = world.ask(viewer, &gets);
    hits.iter_mut().zip(&told).for_each(|(hit, job)| hit.learn(job));
    SearchResult {
        hits,
        looked_at: 1_000,
        all: search::jobs_of(stats),
        cursor: cursor.bytes().filter(|cursor| *cursor != b"0").map(<[u8]>::to_vec),
        ..SearchResult::default()
    }
}

/// The document as a tree, and the rules it breaks, after where it is.
fn checked(place: &str, document: &str) -> (Element, Vec<String>) {
    let tree = html::read(document).unwrap_or_else(|why| panic!("{place}: {why}"));
    let mut broken = rules::broken(&tree);
    broken.dedup();
    (tree, broken.into_iter().map(|why| format!("{place}: {why}")).collect())
}

fn written(tree: &Element, part: Part) -> String {
    let main = tree.find(|element| element.name == "main").expect("a page has one");
    match part {
        Main => html::write(main),
        Only(name) => {
            let is_it = |element: &Element| {
                ["id", "class", "aria-label"].iter().any(|at| element.attribute(at) == Some(name))
            };
            html::write(main.find(is_it).unwrap_or_else(|| panic!("no {name}: {main:?}")))
        }
        Nothing => String::new(),
    }
}

/// The golden file of an address.
fn file_of(address: &str) -> String {
    let path = address.split('?').next().unwrap_or_default();
    let name = if path == "/" { "overview" } else { &path[1..] };
    format!("{}.txt", name.replace('/', "-"))
}

fn filled(address: &str) -> String {
    let address = address.replace("NAME", &query(&hostile_name()));
    let address = address.replace("SCHEDULE", &query(&hostile_schedule()));
    address.replace("WORD", &query(HOSTILE_WORD))
}

/// All golden files as they should be, name and text; fails where a page breaks a rule.
fn all() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut put = |name: String, title: &str, text: String| {
        let at = files.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            files.push((name, String::new()));
            files.len() - 1
        });
        _ = writeln!(files[at].1, "== {title}\n{text}");
    };
    let mut broken = Vec::new();
    for case in CASES {
        for (_, address, part) in ADDRESSES.iter().filter(|(of, ..)| *of == case) {
            // What one look leaves behind, in counters of commands, another one is not to show.
            let (mut world, viewer) = case.begin();
            let document = document(&mut world, &viewer, &filled(address));
            let place = format!("{} {address}", case.word());
            let (tree, why) = checked(&place, &document);
            broken.extend(why);
            if case == Forbidden {
                assert_eq!(rules::deeds(&tree), [""; 0], "{place}");
            }
            let text = written(&tree, *part);
            if !text.is_empty() {
                let title = match part {
                    Only(name) => format!("{place}, {name}"),
                    _ => place,
                };
                put(file_of(address), &title, text);
            }
            if case == Usual && *address == "/queues" {
                let whole = tree.find(|element| element.name == "html").expect("one");
                put("document.txt".to_owned(), "all of a page but its main part", around(whole));
            }
        }
    }
    for (title, document) in logins() {
        let (tree, why) = checked(&format!("login, {title}"), &document);
        broken.extend(why);
        put("login.txt".to_owned(), title, written(&tree, Main));
    }
    assert!(broken.is_empty(), "{broken:#?}");
    files
}

/// The chrome around a page. Hashes of files are those of others with each change of them.
fn around(whole: &Element) -> String {
    let mut text = html::write(whole);
    for asset in assets::all() {
        let (name, ending) = asset.path.rsplit_once('.').expect("an ending");
        let (name, _) = name.rsplit_once('-').expect("a hash");
        text = text.replace(&asset.path, &format!("{name}-HASH.{ending}"));
    }
    let begin = text.find("<main").and_then(|at| Some(at + text[at..].find('\n')? + 1));
    let end = text.find("  </main>");
    let (begin, end) = (begin.expect("one"), end.expect("its end"));
    format!("{}{}", &text[..begin], &text[end..])
}

fn logins() -> [(&'static str, String); 4] {
    let frame = PageFrame::default();
    [
        ("empty", login::show(&frame, "/", "", None, false)),
        ("usual, without a password", login::show(&frame, "/", "default", None, true)),
        (
            "usual, a wrong password",
            login::show(&frame, "/queues?db=1", "ada", Some("Wrong."), false),
        ),
        (
            "hostile",
            login::show(&frame, "/\"><b>", "\"><script>", Some("<script>alert(1)</script>"), false),
        ),
    ]
    .map(|(title, markup)| (title, markup.into_string()))
}

#[test]
fn every_page_is_as_written() {
    let update = std::env::var_os("DELAYD_UPDATE").is_some();
    let all = all();
    let mut report = String::new();
    for (name, new) in &all {
        let path = folder().join(name);
        if update {
            fs::write(&path, new).expect("the folder can be written to");
            continue;
        }
        let old = fs::read_to_string(&path).unwrap_or_default();
        report.push_str(&difference(name, &old, new));
    }
    let files = fs::read_dir(folder()).expect("the folder").map(|entry| entry.expect("an entry"));
    let golden: Vec<_> =
        files.filter(|file| file.path().extension() == Some("txt".as_ref())).collect();
    for file in &golden {
        let name = file.file_name().into_string().expect("a plain name");
        if !all.iter().any(|(other, _)| *other == name) {
            _ = writeln!(report, "tests/console/{name} is of no page");
        }
    }
    let bytes: u64 = golden.iter().map(|file| file.metadata().expect("a file").len()).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes are more than anybody reads");
    assert!(report.is_empty(), "{report}\nmake docs writes what came instead\n");
}

/// The first line that differs, in its section.
fn difference(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let mut section = "";
    let (mut before, mut after) = (old.lines(), new.lines());
    for line in 1.. {
        let (was, is) = (before.next(), after.next());
        if was != is || was.is_none() {
            let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
            return format!(
                "tests/console/{name}:{line}: {section}\n  -{}\n  +{}\n",
                show(was),
                show(is)
            );
        }
        section = was.filter(|line| line.starts_with("== ")).unwrap_or(section);
    }
    unreachable!("one of them ends")
}

#[test]
fn every_page_is_looked_at_in_every_case() {
    for case in CASES {
        for path in PAGES.iter().map(|page| page.path).chain(["/search"]) {
            let is_it = |(of, address, _): &(Case, &str, Part)| {
                *of == case && address.split('?').next() == Some(path)
            };
            assert!(ADDRESSES.iter().any(is_it), "{path} is not looked at in the case {case:?}");
        }
    }
}

/// What is seen by somebody who may look at everything and do nothing, or where nobody may.
#[test]
fn nothing_is_offered_to_those_who_may_only_look() {
    let mut broken = Vec::new();
    for case in [Empty, Usual, Much, Hostile] {
        for is_readonly in [false, true] {
            let (mut world, viewer) = case.begin();
            let viewer = if is_readonly { viewer.readonly() } else { viewer.without_rights() };
            for (_, address, _) in ADDRESSES.iter().filter(|(of, ..)| *of == case) {
                let document = document(&mut world, &viewer, &filled(address));
                let place = format!("{} {address}, read-only: {is_readonly}", case.word());
                let (tree, why) = checked(&place, &document);
                broken.extend(why);
                assert_eq!(rules::deeds(&tree), [""; 0], "{place}");
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// It would answer READONLY. What concerns the node alone is done on each node.
#[test]
fn nothing_can_be_sent_to_a_follower_that_it_would_refuse() {
    let mut world = World::usual();
    world.follow();
    let viewer = world.admin();
    let mut broken = Vec::new();
    for (_, address, _) in ADDRESSES.iter().filter(|(of, ..)| *of == Usual) {
        if address.starts_with("/job/body") {
            continue;
        }
        let document = document(&mut world, &viewer, address);
        let (tree, why) = checked(address, &document);
        broken.extend(why);
        for deed in rules::deeds(&tree) {
            assert!(deed.starts_with("/do/kill") || deed == "/do/config", "{address}: {deed}");
        }
        let title = tree.find(|element| element.name == "title").map(html::write);
        assert!(title.is_some_and(|title| title.contains("n1 follower")), "{address}");
        let banner = tree.find(|element| element.attribute("id") == Some("banner"));
        let banner = banner.map(html::write).unwrap_or_default();
        assert!(banner.contains("n2 (127.0.0.1:9249)"), "{address}: {banner}");
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_queue_begins_with_its_status_and_lists_jobs_before_the_timeline() {
    let (mut world, viewer) = Usual.begin();
    let page = document(&mut world, &viewer, "/queue?name=emails&tab=delayed");
    let at = |id: &str| page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}"));
    let order = ["bar", "head", "tabs", "jobs-part", "timeline"].map(at);
    assert!(order.is_sorted(), "{order:?}");
    // It is chosen what a purge removes; leased jobs are not at first.
    let bar = &page[order[0]..order[1]];
    let chosen = |state: &str| bar.contains(&format!("name=\"{state}\" value=\"1\" checked"));
    assert_eq!(["delayed", "ready", "dead", "leased"].map(chosen), [true, true, true, false]);
}

#[test]
fn the_numbers_of_the_server_are_on_a_page_once() {
    let (mut world, viewer) = Usual.begin();
    for (path, once) in [("/", false), ("/queues", true)] {
        let page = document(&mut world, &viewer, path);
        assert_eq!(page.contains("id=\"state\""), once, "{path}");
    }
}

/// Its buttons go with it, also on a page that is open.
#[test]
fn of_a_job_that_is_gone_nothing_can_be_done() {
    let (mut world, viewer) = Usual.begin();
    let page = document(&mut world, &viewer, "/job?queue=emails&id=gone");
    let (tree, broken) = checked("gone", &page);
    let acts = tree.find(|element| element.attribute("id") == Some("acts")).expect("a part");
    assert!(acts.children.is_empty() && rules::deeds(&tree).is_empty() && broken.is_empty());
}

/// The way on after a login, which is no page of the console's look.
#[test]
fn the_way_on_leads_nowhere_else() {
    let onward = layout::onward("/queue?name=\"><script>").into_string();
    let tree = html::read(&onward).expect("balanced");
    assert!(tree.find(|element| element.name == "script").is_none(), "{onward}");
}

#[test]
fn a_file_is_never_shown_as_a_page() {
    let (mut world, viewer) = Hostile.begin();
    let page = pages::find("/job/body").expect("a page");
    let params = Params::read(filled("queue=NAME&id=NAME").as_bytes());
    let replies = replies(&mut world, &viewer, page, &params);
    let response = page.file.expect("a file")(&params, &replies);
    let headers: Vec<(&str, &str)> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("plain")))
        .collect();
    assert_eq!(
        headers,
        [
            ("content-type", "application/octet-stream"),
            ("content-disposition", "attachment; filename=\"body.bin\"")
        ]
    );
}

/// Whoever looks at a body holds up nobody for long.
#[test]
fn large_and_deep_bodies_are_shown_in_no_time() {
    const LARGE: usize = 16 << 20;
    let row = br#"{"a":[1,"x\u202e",null]},"#;
    let mut json = b"[".to_vec();
    json.extend(row.iter().copied().cycle().take(LARGE / row.len() * row.len()));
    json.extend(b"{}]");
    let deep = [b"[".repeat(10_000), b"]".repeat(10_000)].concat();
    let objects = [br#"{"a":"#.repeat(10_000), b"1".to_vec(), b"}".repeat(10_000)].concat();
    let bodies = [
        ("one letter", vec![b'x'; LARGE]),
        ("lines", vec![b'\n'; LARGE]),
        ("markup", b"<script>".repeat(LARGE / 8)),
        ("JSON", json),
        ("deep JSON", deep),
        ("deep objects", objects),
        ("a string without an end", [b"\"".to_vec(), vec![b'x'; LARGE]].concat()),
        ("invalid UTF-8", vec![0xff; LARGE]),
        ("cut characters", b"\xe2\x80".repeat(LARGE / 2)),
        ("what cannot be seen", "\u{202e}".as_bytes().repeat(LARGE / 3)),
        ("zeros", vec![0; LARGE]),
    ];
    let page = pages::find("/job").expect("a page");
    let text = |text: &'static str| Value::Text(text.into());
    for (name, body) in bodies {
        let got = Value::Map(vec![
            (text("state"), text("ready")),
            (text("body"), Value::Text(body.into())),
        ]);
        for way in ["", "&as=json", "&as=text", "&as=hex"] {
            let params = Params::read(format!("queue=q&id=i{way}").as_bytes());
            let took =
                |_| cpu(|| (page.show)(&PageFrame::default(), &params, std::slice::from_ref(&got)));
            let (shown, took) = (0..3).map(took).min_by_key(|(_, took)| *took).expect("three");
            assert!(took < SHOW_TIME, "{name}{way}: {took:?}");
            let document = shown.into_string();
            assert!(document.len() < 4 << 20, "{name}{way}: {} bytes", document.len());
            html::read(&document).unwrap_or_else(|why| panic!("{name}{way}: {why}"));
        }
    }
}

/// The rules find what they are there for.
#[test]
fn rules_find_what_breaks_them() {
    let good = r##"<!DOCTYPE html><html><head><script src="/a.js" defer></script></head><body><main id="a"><form method="post" action="/do/x"><input type="hidden" name="token" value="T"><button>x</button></form></main></body></html>"##;
    let broken = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        match html::read(&good.replacen(from, to, 1)) {
            Ok(tree) => rules::broken(&tree).join("; "),
            Err(why) => why,
        }
    };
    assert_eq!(broken("", ""), "");
    assert_eq!(rules::deeds(&html::read(good).expect("balanced")), ["/do/x"]);
    for (from, to, why) in [
        ("<button", "<button style=\"x\"", "has style"),
        ("<button", "<button onclick=\"x\"", "has onclick"),
        ("<main", "<script></script><main", "2 scripts, 1 of them in the head"),
        ("<script src=\"/a.js\" defer></script>", "", "0 scripts"),
        ("<main", "<style></style><main", "a <style>"),
        ("name=\"token\"", "name=\"t\"", "/do/x has no token"),
        ("value=\"T\"", "value=\"\"", "/do/x has no token"),
        ("<button", "<button id=\"a\"", "id \"a\" is not unique"),
        ("<button", "<button form=\"b\"", "names \"b\""),
        ("<button>", "<button formmethod=\"post\" formaction=\"/do/y\">", "/do/y is no token"),
        ("<button>x", "<button><p>x", "</button> ends <p>"),
        ("</form>", "", "</main> ends <form"),
        ("</html>", "", "<html> has no end"),
        ("<button>", "<p><div></div></p><button>", "<div> within <p>"),
        ("<button>", "<form></form><button>", "<form> within <form>"),
        ("/a.js", "//a.js", "another server"),
        ("/a.js", "javascript:x", "leads to javascript:x"),
        ("<button", "<button x=\"1\"x", "no tag"),
        ("<button", "<button x=1", "no tag"),
        ("method=\"post\"", "method=\"get\"", "token into an address"),
    ] {
        let found = broken(from, to);
        assert!(found.contains(why), "{to}: {found:?} instead of {why}");
    }
}

#[test]
fn the_first_line_that_differs_is_told() {
    let told = difference("x.txt", "== a\n<b>\n<i>\n", "== a\n<b>\n<u>\n");
    assert_eq!(told, "tests/console/x.txt:3: == a\n  -<i>\n  +<u>\n");
    let told = difference("x.txt", "== a\n", "== a\n<b>\n");
    assert_eq!(told, "tests/console/x.txt:2: == a\n  -(the end)\n  +<b>\n");
    assert_eq!(difference("x.txt", "a\n", "a\n"), "");
}
