//! The search of the console, for somebody who knows a part of what is looked for.

use crate::support::browser::Console;
use std::collections::BTreeSet;

/// What is in these attributes of a page, as a browser takes it.
fn links(page: &str, begin: &str) -> Vec<String> {
    let before = format!("href=\"{begin}");
    let all = page.split(&before).skip(1);
    let links = all.map(|rest| format!("{begin}{}", rest.split('"').next().unwrap_or_default()));
    links.map(|link| link.replace("&amp;", "&")).collect()
}

#[test]
fn a_part_of_an_id_or_a_name_in_any_case_finds_it_and_the_longest_queue_counts() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    for line in [
        "DELAY.ADD Shop 1h x ID order:4711",
        "DELAY.ADD mail 1h x ID urgent:7",
        "DELAY.ADD mail:urgent 1h x ID a-7-b",
        "DELAY.ADD other 1h x ID 815",
    ] {
        wire.ask(line);
    }
    let visitor = console.guest();
    let jobs = |q: &str| links(&visitor.page(&format!("/search?q={q}")), "/job?");
    let order = "/job?db=0&queue=Shop&id=order%3A4711";
    assert_eq!(jobs("4711"), [order], "a part of an id");
    assert_eq!(jobs("order:4711"), [order], "an id with a colon");
    assert_eq!(jobs("sHOP:71"), [order], "a queue in any case, and a part of an id");
    assert_eq!(jobs("mail:urgent:7"), ["/job?db=0&queue=mail%3Aurgent&id=a-7-b"]);
    assert_eq!(jobs("mail:7"), ["/job?db=0&queue=mail&id=urgent%3A7"]);
    let page = visitor.page("/search?q=hO");
    assert_eq!(links(&page, "/queue?"), ["/queue?db=0&name=Shop"]);
    assert!(page.contains(r#"name="q" value="hO""#), "the field keeps it: {page}");
    let none = visitor.page("/search?q=4712");
    assert!(none.contains("never existed") && !none.contains("Continue"), "{none}");
}

#[test]
fn each_job_with_the_text_is_found_once_from_page_to_page() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let mut wanted = BTreeSet::new();
    for n in 0..900 {
        wire.ask(&format!("DELAY.ADD q{} 1h x ID job-{n}", n % 3));
        wire.ask(&format!("DELAY.ADD q{} 1h x ID other-{n}", n % 3));
        wanted.insert(format!("/job?db=0&queue=q{}&id=job-{n}", n % 3));
    }
    let visitor = console.guest();
    let (mut found, mut path, mut pages) = (Vec::new(), "/search?q=ob-".to_owned(), 0);
    loop {
        let page = visitor.page(&path);
        pages += 1;
        found.extend(links(&page, "/job?"));
        match links(&page, "/search?").pop() {
            Some(next) => path = next,
            None => break,
        }
    }
    let once: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!((found.len(), &once), (900, &wanted));
    assert!(pages > 1, "one page holds about 200");
}
