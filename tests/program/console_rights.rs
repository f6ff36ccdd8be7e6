//! Who may do what by the console, and that names, ids and bodies of any bytes are shown and hit as they are.

use crate::support::browser::{Console, Visitor, encoded};
use crate::support::program::{Reply, Wire, seed};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

fn ok(reply: &Reply) {
    assert_eq!(*reply, Reply::Simple("OK".to_owned()));
}

/// The names of those commands that a page offers.
fn offered(page: &str) -> Vec<&str> {
    let actions = page.split("action=\"/do/").skip(1);
    actions.map(|rest| rest.split(['?', '"']).next().unwrap()).collect()
}

fn dead_job(wire: &mut Wire, queue: &str, id: &str) {
    wire.ask(&format!("DELAY.ADD {queue} 0 body ID {id} PRIORITY 0"));
    let reply = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 {queue}"));
    let token = reply.array().unwrap()[0].array().unwrap()[3].text().to_owned();
    assert_eq!(wire.ask(&format!("DELAY.NACK {queue} {id} {token} BURY")).number(), 1);
}

const PAGES: [&str; 9] = [
    "/", "/queues", "/busy", "/queue?name=q&tab=consumers", "/queue?name=q",
    "/queue?name=q&tab=delayed", "/queue?name=q&tab=dead", "/queue?name=q&tab=settings",
    "/job?queue=q&id=a",
];

#[test]
fn who_may_only_read_is_shown_no_buttons_and_refused() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    dead_job(&mut wire, "q", "dead");
    wire.ask("DELAY.ADD q 1h body ID a");
    ok(&wire.ask("ACL SETUSER eye on >pw ~* -@all +@read +info +acl|dryrun"));
    let (eye, guest) = (console.visitor("eye", "pw"), console.guest());
    for path in PAGES {
        let page = eye.page(path);
        assert_eq!(offered(&page), [""; 0], "{path}");
        assert!(!page.contains("NOPERM"), "{path}: {page}");
    }
    let all: Vec<String> = PAGES.iter().map(|path| guest.page(path)).collect();
    let all: Vec<&str> = all.iter().flat_map(|page| offered(page)).collect();
    for verb in ["purge", "pause", "run", "redrive", "cancel", "move", "add", "delete", "settings"]
    {
        assert!(all.contains(&verb), "{verb} is not offered: {all:?}");
    }
    for (path, form) in [
        ("/do/purge?queue=q&delayed=1&typed=q", ""),
        ("/do/run?queue=q&id=a", ""),
        ("/do/cancel?queue=q&id=a", ""),
        ("/do/redrive?queue=q", "selected=dead"),
        ("/do/pause?queue=q", "side=all"),
        ("/do/add?queue=q", "when=0&body=x"),
        ("/do/delete?queue=q&typed=q", ""),
        ("/do/settings?queue=q", "rate=5"),
        ("/do/bulk?queue=q&what=cancel", ""),
        ("/do/config", "option=maxmemory&value=1"),
        ("/do/kill", "client=1"),
    ] {
        let told = eye.act(path, form);
        assert!(told.contains("refused") && told.contains("NOPERM"), "{path}: {told}");
    }
    let states = wire.ask("DELAY.STATS q");
    let number = |name: &str| states.value(name).number();
    assert_eq!((number("delayed"), number("dead"), number("ready")), (1, 1, 0));
    assert!(!guest.page("/queue?name=q").contains("paused"));
}

#[test]
fn a_console_that_is_only_for_reading_changes_nothing() {
    let console = Console::start(&["--console-readonly", "yes"]);
    let mut wire = console.program.connect();
    wire.ask("DELAY.ADD q 1h body ID a");
    let guest = console.guest();
    for path in PAGES {
        let page = guest.page(path);
        assert!(offered(&page).is_empty() && page.contains("read-only"), "{path}");
    }
    for path in [
        "/do/run?queue=q&id=a",
        "/do/purge?queue=q&delayed=1&typed=q",
        "/do/bulk?queue=q&what=cancel",
    ] {
        assert!(guest.act(path, "").contains("read-only"));
    }
    let json = [("Content-Type", "application/json")];
    let asked = |body: &str| console.send("POST", "/api/v1/command", &json, body.as_bytes());
    for write in [
        r#"["DELAY.ADD","q","0","x"]"#,
        r#"["DEL","q"]"#,
        r#"["CONFIG","SET","maxmemory","1gb"]"#,
        r#"["FLUSHALL"]"#,
        r#"["DELAY.SCHEDULE","SET","q","s","b","EVERY","1s"]"#,
        r#"["PUBLISH","c","m"]"#,
        r#"["ACL","SETUSER","x","on"]"#,
        r#"["SHUTDOWN","NOSAVE"]"#,
        r#"["DELAY.POP","q","0"]"#,
        r#"["CLIENT","KILL","TYPE","normal"]"#,
    ] {
        let answer = asked(write);
        assert!(answer.status == 403 && answer.text().contains("READONLY"), "{write}: {answer:?}");
    }
    assert_eq!(asked(r#"["DELAY.LEN","q"]"#).status, 200);
    let pipeline = br#"[["DELAY.LEN","q"],["DEL","q"]]"#;
    assert_eq!(console.send("POST", "/api/v1/pipeline", &json, pipeline).status, 403);
    assert!(wire.ask("DELAY.GET q a").array().is_some());
}

/// The user's rules know a queue named otherwise than the one that rights are tried with.
#[test]
fn who_may_change_some_queues_is_shown_their_buttons() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    wire.ask("DELAY.ADD mail:a 1h body ID a");
    wire.ask("DELAY.ADD other 1h body ID a");
    ok(&wire.ask("ACL SETUSER mia on >pw ~mail:* +@all"));
    let mia = console.visitor("mia", "pw");
    assert!(offered(&mia.page("/queue?name=mail:a")).contains(&"purge"));
    let told = mia.act("/do/run?queue=mail:a&id=a", "");
    assert!(told.contains("The job is due now."), "{told}");
    let told = mia.act("/do/run?queue=other&id=a", "");
    assert!(told.contains("NOPERM"), "{told}");
    assert!(!mia.page("/queues").contains("other"));
}

/// Who may not SELECT stays in database 0, and what is asked of another one is not done there instead.
#[test]
fn what_is_meant_for_another_database_is_not_done_in_this_one() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    wire.ask("DELAY.ADD q 1h body ID a");
    ok(&wire.ask("ACL SETUSER sam on >pw ~* +@all -select"));
    let sam = console.visitor("sam", "pw");
    let told = sam.act("/do/purge?db=3&queue=q&delayed=1&typed=q", "");
    assert!(told.contains("NOPERM"), "{told}");
    let told = sam.act("/do/bulk?db=3&queue=q&what=cancel", "");
    assert!(told.contains("NOPERM"), "{told}");
    assert!(wire.ask("DELAY.GET q a").array().is_some(), "it was database 0 that was purged");
    assert!(sam.page("/queues?db=3").contains("NOPERM"));
    // In its own it may.
    assert!(sam.act("/do/run?db=0&queue=q&id=a", "").contains("The job is due now."));

    // Others go from one to another and back.
    let guest = console.guest();
    assert!(guest.act("/do/add?db=3&queue=q", "when=1h&id=b&body=x").contains("Added as b."));
    assert!(guest.page("/queue?name=q&tab=delayed&db=3").contains("id=b\""));
    assert!(!guest.page("/queue?name=q&tab=delayed&db=0").contains("id=b\""));
}

/// Names and ids of any bytes: markup, quotes, letters that turn the direction around, all there is.
fn hostile() -> Vec<Vec<u8>> {
    let mut chance = SmallRng::seed_from_u64(seed());
    let mut any = vec![0; 512];
    chance.fill_bytes(&mut any);
    let mut names: Vec<Vec<u8>> = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'; DROP TABLE q; --",
        "a\u{202e}gpj.exe",
        "../../do/purge?queue=x&y=z#frag",
        "%2e%2e%00+ %",
        "line\r\nSet-Cookie: a=b",
        " spaces ",
        "&amp;&lt;",
    ]
    .map(|name| name.as_bytes().to_vec())
    .to_vec();
    names.push(any);
    names.push(vec![0xff; 3]);
    names.push(vec![0]);
    names
}

fn assert_inert(page: &str, what: &[u8]) {
    assert!(!page.contains("<script>alert") && !page.contains("<img src=x"), "{what:?} in {page}");
    // What a form carries is sent as it was typed; what is shown cannot turn around or break what stands beside it.
    let values = page.split("value=\"").enumerate();
    let beside = values.map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('"').map_or("", |(_, rest)| rest),
    });
    let shown: String = beside.collect();
    for live in ["\u{202e}", "\r", "\0"] {
        assert!(!shown.contains(live), "{live:?} of {what:?} in {shown}");
    }
}

#[test]
fn names_of_any_bytes_are_inert_and_actions_hit_exactly_them() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let guest = console.guest();
    let names = hostile();
    for name in &names {
        let added = wire.call(&[b"DELAY.ADD", name, b"1h", name, b"ID", name]);
        assert_eq!(added.bytes(), &name[..]);
        wire.call(&[b"DELAY.ADD", name, b"1h", b"the other", b"ID", b"other"]);
    }
    let (queues, overview) = (guest.page("/queues"), guest.page("/"));
    assert_inert(&queues, b"all");
    assert_inert(&overview, b"all");
    for name in &names {
        let at = encoded(name);
        for path in [
            format!("/queue?name={at}&tab=delayed"),
            format!("/queue?name={at}&tab=settings"),
            format!("/job?queue={at}&id={at}"),
            format!("/job?queue={at}&id={at}&as=text"),
            format!("/job?queue={at}&id={at}&as=hex"),
            format!("/search?q={at}"),
            format!("/queues?match={at}"),
            format!("/queues?enc.match={}", encoded(at.as_bytes())),
            format!("/login?other=1&user={at}"),
        ] {
            let page = guest.get(&path);
            assert!(matches!(page.status, 200 | 303 | 404), "{path}: {}", page.status);
            assert_inert(&page.text(), name);
        }
        // The links and forms of the pages themselves hit it.
        let page = guest.page(&format!("/job?queue={at}&id={at}"));
        let search = guest.page(&format!("/queue?name={at}"));
        let plain = link(name).as_bytes() == name;
        let kept = if plain { "name=\"queue\"" } else { "name=\"enc.queue\"" };
        assert!(search.contains(&format!("{kept} value=\"{}\"", link(name))), "{search}");
        let form = page.split("action=\"/do/run?").nth(1).expect("it can be run");
        let fields = form.split('"').next().unwrap().replace("&amp;", "&");
        let told = guest.act(&format!("/do/run?{fields}"), "");
        assert!(told.contains("The job is due now."), "{told}");
        let state =
            |wire: &mut Wire, id: &[u8]| format!("{:?}", wire.call(&[b"DELAY.GET", name, id]));
        assert!(state(&mut wire, name).contains(&format!("{:?}", b"ready".to_vec())));
        assert!(state(&mut wire, b"other").contains(&format!("{:?}", b"delayed".to_vec())));
        assert!(queues.contains(&format!("name={}", link(name))), "{name:?}");
        let body = guest.get(&format!("/job/body?queue={at}&id={at}"));
        assert_eq!(body.bytes, *name);
        // Selected by its box, whose value a browser sends as text.
        let selected = encoded(link(name).as_bytes());
        let told = guest.act(&format!("/do/remove?queue={at}"), &format!("selected={selected}"));
        assert!(told.contains("1 job"), "{told}");
        assert_eq!(wire.call(&[b"DELAY.LEN", name]).number(), 1, "only the other is left");
    }
    for name in &names {
        let at = encoded(name);
        let told = guest.act(&format!("/do/delete?queue={at}"), &format!("typed={at}"));
        assert!(told.contains("deleted"), "{told}");
    }
    assert_eq!(wire.ask("DBSIZE").number(), 0);
}

/// As links have it.
fn link(name: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let shown = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.iter().map(shown).collect()
}

#[test]
fn a_body_of_16_mib_is_shown_at_once_and_had_whole() {
    let console = Console::start(&["--maxmemory", "512mb"]);
    let mut wire = console.program.connect();
    let mut chance = SmallRng::seed_from_u64(seed());
    let mut body = vec![0; (16 << 20) - 1024];
    chance.fill_bytes(&mut body);
    let text = "[".repeat(body.len());
    for (id, body) in [(&b"bytes"[..], &body[..]), (b"json", text.as_bytes())] {
        assert_eq!(wire.call(&[b"DELAY.ADD", b"q", b"1h", body, b"ID", id]).bytes(), id);
    }
    let guest: Visitor<'_> = console.guest();
    for id in ["bytes", "json"] {
        for way in ["", "&as=json", "&as=text", "&as=hex"] {
            // `tests/console` measures how long it takes.
            let page = guest.page(&format!("/job?queue=q&id={id}{way}"));
            assert!(page.len() < 4 << 20, "{id}{way}: {} bytes of page", page.len());
        }
    }
    let file = guest.get("/job/body?queue=q&id=bytes");
    assert!(file.bytes == body, "{} bytes came", file.bytes.len());
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert!(file.header("content-disposition").starts_with("attachment"));
    assert_eq!(guest.get("/job/body?queue=q&id=nobody").status, 404);
}
