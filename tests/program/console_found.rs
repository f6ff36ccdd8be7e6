//! All that a search found: what is done with it is done with that, and an export is whole or breaks off.

use crate::support::browser::{Console, Visitor, request};
use crate::support::program::Wire;
use std::io::{Read, Write};

/// Adds a job that died of this, with this error if there is one.
fn bury(wire: &mut Wire, id: &str, body: &str, error: Option<&str>) {
    wire.ask(&format!("DELAY.ADD q 0 {body} ID {id}"));
    let reply = wire.ask("DELAY.RESERVE NOWAIT 1 q");
    let token = reply.array().unwrap()[0].array().unwrap()[3].text().to_owned();
    let mut words = vec!["DELAY.NACK", "q", id, &token, "BURY"];
    words.extend(error.into_iter().flat_map(|error| ["ERROR", error]));
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(wire.call(&words).number(), 1, "{id}");
}

/// Values of an attribute in a page that begin so, as a browser takes them.
fn addresses(page: &str, attribute: &str, begin: &str) -> Vec<String> {
    let begin = format!("{attribute}=\"{begin}");
    let values = page.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap());
    let unescaped = values.map(|value| value.replace("&amp;", "&"));
    unescaped.map(|value| format!("{}{value}", &begin[attribute.len() + 2..])).collect()
}

/// Follows the link of an error from the page of the queue, and does this with all that is found.
fn act_on(visitor: &Visitor<'_>, link: &str, what: &str) -> (String, String) {
    let groups = visitor.page("/queue?name=q&tab=dead&by=error");
    let links = addresses(&groups, "href", "/search?");
    let link = links.iter().find(|address| address.ends_with(link));
    let found = visitor.page(link.unwrap_or_else(|| panic!("{link:?} in {links:?}")));
    let does = addresses(&found, "action", "/do/bulk?");
    let deed = does.iter().find(|address| address.ends_with(&format!("what={what}")));
    (visitor.act(deed.expect("a button"), ""), found)
}

#[test]
fn what_is_done_with_a_group_of_errors_is_done_with_no_other_job() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    for number in 0..5 {
        bury(&mut wire, &format!("a{number}"), "body", Some("timeout"));
    }
    // All of these have the text somewhere, and none has it for an error.
    bury(&mut wire, "timeout", "body", Some("other"));
    bury(&mut wire, "b1", "a-timeout-in-it", Some("other"));
    bury(&mut wire, "b2", "body", Some("timeout after 3 s"));
    bury(&mut wire, "b3", "body", Some("Timeout"));
    bury(&mut wire, "b4", "body", None);
    wire.ask("DELAY.ADD q 1d timeout ID later");
    let visitor = console.guest();

    let (said, found) = act_on(&visitor, "&error=timeout", "redrive");
    assert!(said.contains("5 jobs were redriven"), "{said}");
    let dialog = "5 dead jobs, of q. Filter: state: dead; error: timeout.";
    assert!(found.contains(dialog), "{found}");
    assert!(found.contains("last error") && found.contains(">body<"), "{found}");
    assert_eq!(wire.ask("DELAY.LEN q DEAD").number(), 5);
    for number in 0..5 {
        let state = wire.ask(&format!("DELAY.GET q a{number}"));
        assert_eq!(state.array().unwrap()[3].text(), "ready", "a{number}");
    }
    let (said, _) = act_on(&visitor, "&error=no%20error%20text", "cancel");
    assert!(said.contains("1 job was cancelled"), "{said}");
    assert!(wire.ask("DELAY.GET q b4").array().is_none());
    assert_eq!(wire.ask("DELAY.LEN q").number(), 10);
    let refused = wire.ask("DELAY.SCAN q 0 REASON age");
    assert!(refused.is_error("ERR"), "{refused:?}");
}

/// 1,290 dead jobs of two errors: the newest 150 passed for all of them, and each number made an error of its own.
#[test]
fn all_that_are_dead_of_an_error_are_redriven_over_ten_minutes() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    for number in 0..200 {
        bury(
            &mut wire,
            &format!("a{number}"),
            "refused",
            Some(&format!("no_route_to_10.0.0.{number}")),
        );
    }
    for number in 0..160 {
        bury(&mut wire, &format!("b{number}"), "body", Some("refused"));
    }
    let visitor = console.guest();
    let page = visitor.page("/queue?name=q&tab=dead&by=error");
    assert!(page.contains("no_route_to_#") && !page.contains("10.0.0.7"), "{page}");
    let does = addresses(&page, "action", "/do/redrive-error?");
    let spread = does.iter().find(|deed| deed.contains("no_route") && deed.contains("over=10m"));
    let said = visitor.act(spread.expect("a button"), "");
    assert!(said.contains("200 jobs were redriven over 10m"), "{said}");
    assert_eq!(wire.ask("DELAY.LEN q DEAD").number(), 160);
    assert_eq!(wire.ask("DELAY.LEN q").number(), 360);
}

/// Those that came first stayed, and were found again: beyond a thousand nothing was reached.
#[test]
fn repeating_reaches_all_that_is_found() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let lines: Vec<String> = (0..1_400)
        .map(|number| {
            format!("DELAY.ADD q {} x ID j{number}", if number % 2 == 0 { "0" } else { "1d" })
        })
        .collect();
    lines.iter().for_each(|line| wire.push_line(line));
    wire.flush().unwrap();
    lines.iter().for_each(|_| _ = wire.read().unwrap());
    let leased = wire.ask("DELAY.RESERVE NOWAIT 1 q COUNT 600");
    assert_eq!(leased.array().unwrap().len(), 600);
    let visitor = console.guest();
    let path = "/do/bulk?db=0&queue=q&what=run";
    let said = visitor.act(path, "");
    assert!(said.contains("700 jobs were made due now."), "{said}");
    assert_eq!(wire.ask("DELAY.LEN q DELAYED").number(), 0);
    let said = visitor.act("/do/bulk?db=0&queue=q&what=cancel", "");
    assert!(said.contains("800 jobs were cancelled."), "{said}");
    assert_eq!(wire.ask("DELAY.LEN q").number(), 600, "what workers have is left alone");
}

#[test]
fn an_export_that_is_refused_midway_breaks_off() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let body = "x".repeat(200 << 10);
    for number in 0..300 {
        wire.ask(&format!("DELAY.ADD q 1d {body} ID j{number}"));
    }
    let visitor = console.guest();
    let mut export = |revoked: bool| {
        let host = format!("127.0.0.1:{}", console.port);
        let headers = [("Host", host.as_str()), ("Cookie", visitor.cookie.as_str())];
        let mut stream = console.connect();
        stream.write_all(&request("GET", "/export?db=0&queue=q", &headers, b"")).unwrap();
        let mut read = vec![0; 4_096];
        stream.read_exact(&mut read).unwrap();
        if revoked {
            assert_eq!(wire.ask("ACL SETUSER default -delay.get").text(), "OK");
        }
        // It may also end with a reset.
        let _ = stream.read_to_end(&mut read);
        let text = String::from_utf8_lossy(&read).into_owned();
        assert!(
            text.to_ascii_lowercase().contains("transfer-encoding: chunked"),
            "{}",
            &text[..500]
        );
        (text.ends_with("0\r\n\r\n"), text.matches("\"id\":").count())
    };
    assert_eq!(export(false), (true, 300));
    let (is_whole, jobs) = export(true);
    assert!(!is_whole && jobs < 300, "{jobs} jobs, and an end as if they were all");
}
