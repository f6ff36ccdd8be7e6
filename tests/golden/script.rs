//! A transcript: what the script says, run against a server, with what came back written under it.
//!
//! ```text
//! == A section; each begins with a fresh server
//! # A remark.
//! a> DELAY.ADD mail 30s hello        client a sends a command, as an array of bulk strings
//! a>> PING\r\n                       client a sends these very bytes
//! a+> PING                           the same as >, but sent together with what a sends next
//! a*3> PING                          the same three times, sent together
//! a closes                           client a hangs up
//! a vanishes                         the same, and the server is not told
//! a stops reading                    what the server writes to client a does not leave
//! @ +30s                             the clock moves
//! % begins 2027-01-15T08:00:00Z      what time it is as the section begins, in front of its first client
//! % option cluster-enabled yes       what the server is started with, before the first client of the section
//! % head 3                           of the next answer only three lines are shown
//! % fields state attempt             of the maps in the next answer, or of its lines, only these fields
//! % length                           of the next answer, which is drawn, only its length is shown
//! % journal 1s 3s                    there is a journal: a sync takes 1 s, a base 3 s
//! % bases fail no room               from here on bases fail, for this cause
//! % journal fails no disk            the journal fails, for this cause
//! % loading 250 1000                 the journal is being read, 250 bytes of 1,000
//! % flow full                        what the journal allows: runs, held, reserve, full, failed
//! % stands following                 as a node of a cluster: serving, loading, following, blind (a follower that answers no
//!                                    reads), leaderless, down, forming n3 is missing; what comes after serving is a demotion
//! % cluster leader                   what there is to tell of the cluster: leader, sick, follower, quiet (its leader was not heard for
//!                                    3 E), lost (no leader), forming
//!     a< "hello"                     what client a received; indented lines are the answers
//! ```
//!
//! Words are parted by blanks; `"..."` holds blanks and takes `\r \n \t \" \\ \xNN`; `{x*600}` are 600
//! times x. A client connects when it is first named; one whose name begins with `sentinel` connects to the port that
//! answers as a Sentinel.
//!
//! A section runs twice, with clients that speak RESP2 and with clients that began with HELLO 3. What the latter
//! got is shown if the former got the same, as far as RESP2 can say it: maps flat, sets and pushes as arrays, text
//! and doubles as strings. Otherwise `a[2]<` and `a[3]<` show both. One whose title ends with `[once]` runs once,
//! and its clients choose for themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use delayd::config::Config;
use delayd::engine::journal_room::{Flow, Room};
use delayd::error::Misconf;
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::session::NodeStanding;
use delayd::time::{Micros, Millis};

use crate::golden::shown;
use crate::support::cluster_view;
use delayd::tools::reply::Reply;

/// Transcripts of the protocol itself: replies are shown as they are on the wire.
const ON_THE_WIRE: [&str; 2] = ["framing.txt", "hello.txt"];

/// 2030-01-01T00:00:00Z: when a section begins that does not say when.
const START: Millis = Millis(1_893_456_000_000);

/// Something that happens to a connection.
type Does = fn(&FarEnd);

/// What the script says of it.
const CONNECTION: [(&str, Does); 3] = [
    (" closes", FarEnd::close),
    (" vanishes", FarEnd::vanish),
    (" stops reading", |wire| wire.set_room(0)),
];

/// What a run found besides the text.
#[derive(Default)]
pub struct Seen {
    /// Commands that ran, by name.
    pub commands: BTreeSet<&'static str>,
    /// Error replies, without the leading `-`.
    pub errors: BTreeSet<String>,
}

/// What one client, or the clock, brought in one step.
struct Block {
    /// None: the clock's.
    client: Option<String>,
    items: Vec<Item>,
    /// Of its lines so many are shown.
    head: Option<usize>,
}

/// A reply, or something to be said.
struct Item {
    lines: Vec<String>,
    /// As a client that speaks RESP2 is to get it.
    in_resp2: Vec<String>,
}

impl Item {
    fn said(line: impl Into<String>) -> Item {
        let lines = vec![line.into()];
        Item { in_resp2: lines.clone(), lines }
    }
}

/// Runs a file's script and returns its text with the answers that came.
pub fn run(file: &str, text: &str, seen: &mut Seen) -> String {
    let mut sections: Vec<Vec<(usize, &str)>> = vec![Vec::new()];
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("== ") {
            sections.push(Vec::new());
        }
        if !line.starts_with("    ") {
            sections.last_mut().expect("begun with one").push((at + 1, line));
        }
    }
    let mut out = String::new();
    for section in sections {
        let once = section.first().is_some_and(|(_, title)| title.ends_with("[once]"));
        let mut both = vec![Play::new(file, false)];
        if !once {
            both.push(Play::new(file, true));
        }
        for (number, line) in section {
            let mut steps: Vec<Vec<Block>> =
                both.iter_mut().map(|play| play.step(number, line)).collect();
            out.push_str(line.trim_end());
            out.push('\n');
            let second = steps.pop().expect("one play at least");
            write_blocks(steps.pop().as_deref(), &second, &mut out);
        }
        for play in both {
            seen.commands.extend(play.commands);
            seen.errors.extend(play.errors);
        }
    }
    out
}

fn write_blocks(resp2: Option<&[Block]>, resp3: &[Block], out: &mut String) {
    let names = |blocks: &[Block]| blocks.iter().map(|b| b.client.clone()).collect::<Vec<_>>();
    let Some(resp2) = resp2 else {
        resp3.iter().for_each(|block| write(block, marked(&block.items, ""), out));
        return;
    };
    if names(resp2) == names(resp3) {
        resp2.iter().zip(resp3).for_each(|(two, three)| write(three, both(two, three), out));
    } else {
        resp2.iter().for_each(|block| write(block, marked(&block.items, "[2]"), out));
        resp3.iter().for_each(|block| write(block, marked(&block.items, "[3]"), out));
    }
}

type Marked = Vec<(&'static str, String)>;

fn marked(items: &[Item], mark: &'static str) -> Marked {
    items.iter().flat_map(|item| &item.lines).map(|line| (mark, line.clone())).collect()
}

/// The lines of both protocols: once where RESP2 says what is to be expected.
fn both(two: &Block, three: &Block) -> Marked {
    if two.items.len() != three.items.len() {
        return [marked(&two.items, "[2]"), marked(&three.items, "[3]")].concat();
    }
    let pair = |(two, three): (&Item, &Item)| {
        let is_nil = two.lines == ["(nil array)"] && three.lines == ["(nil)"];
        if is_nil || two.lines == three.in_resp2 {
            return marked(std::slice::from_ref(if is_nil { two } else { three }), "");
        }
        let (two, three) = (std::slice::from_ref(two), std::slice::from_ref(three));
        [marked(two, "[2]"), marked(three, "[3]")].concat()
    };
    two.items.iter().zip(&three.items).flat_map(pair).collect()
}

fn write(block: &Block, lines: Marked, out: &mut String) {
    let line = |(mark, line): (&str, String)| match &block.client {
        None => format!("    {line}"),
        Some(client) => format!("    {client}{mark}< {line}"),
    };
    let mut lines = shown::folded(&lines.into_iter().map(line).collect::<Vec<String>>());
    if let (Some(head), Some(client)) = (block.head, &block.client)
        && lines.len() > head
    {
        lines.truncate(head);
        lines.push(format!("    {client}< ..."));
    }
    lines.iter().for_each(|line| *out += &format!("{line}\n"));
}

/// One run of one section.
struct Play<'f> {
    file: &'f str,
    number: usize,
    server: InMemory,
    resp3: bool,
    clients: Vec<Client>,
    head: Option<usize>,
    length_only: bool,
    fields: Option<Vec<String>>,
    errors: Vec<String>,
    commands: BTreeSet<&'static str>,
}

struct Client {
    name: String,
    wire: FarEnd,
    /// What it holds back until it sends next.
    unsent: Vec<u8>,
    known_closed: bool,
}

impl<'f> Play<'f> {
    fn new(file: &'f str, resp3: bool) -> Play<'f> {
        Play {
            file,
            number: 0,
            server: server(START, &[]),
            resp3,
            clients: Vec::new(),
            head: None,
            length_only: false,
            fields: None,
            errors: Vec::new(),
            commands: BTreeSet::new(),
        }
    }

    fn fail(&self, why: &str) -> ! {
        panic!("tests/golden/{}:{}: {why}", self.file, self.number);
    }

    fn step(&mut self, number: usize, line: &str) -> Vec<Block> {
        self.number = number;
        if line.is_empty() || line.starts_with('#') || line.starts_with("==") {
            return Vec::new();
        }
        if let Some(count) = line.strip_prefix("% head ") {
            self.head = Some(count.parse().unwrap_or_else(|_| self.fail("head needs a number")));
            return Vec::new();
        }
        if let Some(names) = line.strip_prefix("% fields ") {
            self.fields = Some(names.split(' ').map(str::to_owned).collect());
            return Vec::new();
        }
        if let Some(start) = line.strip_prefix("% begins ") {
            let start = instant(start).filter(|_| self.clients.is_empty());
            let start =
                start.unwrap_or_else(|| self.fail("begins needs a time, before any client"));
            self.server = server(start, &[]);
            return Vec::new();
        }
        if let Some((name, value)) = line.strip_prefix("% option ").and_then(|o| o.split_once(' '))
        {
            if !self.clients.is_empty() {
                self.fail("an option is given before any client");
            }
            self.server = server(START, &[(name, value)]);
            return Vec::new();
        }
        if line == "% length" {
            self.length_only = true;
            return Vec::new();
        }
        if let Some(flow) = line.strip_prefix("% flow ") {
            let flow = flow_of(flow).unwrap_or_else(|| self.fail("no such state of the journal"));
            self.server.set_flow(flow);
            return self.received(None);
        }
        if let Some(what) = line.strip_prefix("% ") {
            if self.journal(what).is_none() {
                self.fail("after % comes one of those above");
            }
            return self.received(None);
        }
        if let Some(span) = line.strip_prefix("@ +") {
            let us = span_us(span).unwrap_or_else(|| self.fail("the clock moves by +30s, +5ms"));
            return self.pass(us);
        }
        for (does, what) in CONNECTION {
            if let Some(name) = line.strip_suffix(does) {
                let at = self.client(name);
                let client = &mut self.clients[at];
                client.known_closed = does != " stops reading";
                what(&client.wire);
                self.server.run();
                return self.received(None);
            }
        }
        let Some((who, what)) = line.split_once('>') else {
            self.fail("a script line is none of these: == # % @ 'a> ' 'a closes'")
        };
        let (who, hold) = match who.strip_suffix('+') {
            Some(who) => (who, true),
            None => (who, false),
        };
        let (who, times) = match who.split_once('*') {
            Some((who, times)) => (who, times.parse().unwrap_or_else(|_| self.fail("how often?"))),
            None => (who, 1),
        };
        let client = self.client(who);
        if self.clients[client].wire.is_closed() {
            self.fail("this client is closed");
        }
        let bytes = match what.strip_prefix("> ") {
            Some(raw) => unescaped(raw).unwrap_or_else(|| self.fail("an open escape")),
            None => {
                let words = words(what).unwrap_or_else(|| self.fail("an open quote or brace"));
                as_array(&words)
            }
        };
        let Client { wire, unsent, .. } = &mut self.clients[client];
        unsent.extend(bytes.repeat(times));
        if hold {
            return Vec::new();
        }
        wire.send(&std::mem::take(unsent));
        self.server.run();
        self.received(Some(client))
    }

    /// What happens to the journal; none if that is not understood.
    fn journal(&mut self, what: &str) -> Option<()> {
        if let Some(standing) = what.strip_prefix("stands ") {
            self.server.stand(standing_of(standing)?);
        } else if let Some(seen_by) = what.strip_prefix("cluster ") {
            self.server.show_cluster(cluster_view::view_of(seen_by)?);
            self.server.run();
        } else if let Some(cause) = what.strip_prefix("journal fails ") {
            self.server.fail_journal(cause);
        } else if let Some(cause) = what.strip_prefix("bases fail ") {
            self.server.fail_bases(cause);
        } else if let Some(times) = what.strip_prefix("journal ") {
            let (sync, base) = times.split_once(' ')?;
            self.server.open_journal(span_us(sync)?, span_us(base)?);
        } else {
            let (loaded, total) = what.strip_prefix("loading ")?.split_once(' ')?;
            self.server.load(loaded.parse().ok()?, total.parse().ok()?);
        }
        Some(())
    }

    fn client(&mut self, name: &str) -> usize {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
            self.fail("a client's name has small letters");
        }
        if let Some(at) = self.clients.iter().position(|known| known.name == name) {
            return at;
        }
        let wire = match name.starts_with("sentinel") {
            true => self.server.connect_to_sentinel(),
            false => self.server.connect(),
        };
        let wire = if self.resp3 { self.server.speak_resp3(wire) } else { wire };
        let (name, unsent) = (name.to_owned(), Vec::new());
        self.clients.push(Client { name, wire, unsent, known_closed: false });
        self.clients.len() - 1
    }

    /// Time passes; what comes before its end is marked with when.
    fn pass(&mut self, us: u64) -> Vec<Block> {
        let begin = self.server.now();
        let until = Micros(begin.0 + us);
        let mut blocks = Vec::new();
        let mut last = None;
        while let Some(at) = self.server.next_event(until) {
            if last == Some(at) {
                self.fail("the engine asks to be woken at an instant that has passed");
            }
            last = Some(at);
            self.server.go_to(at);
            let came = self.received(None);
            if !came.is_empty() && at < until {
                let after = format!("after {}:", written(at.0 - begin.0));
                blocks.push(Block { client: None, items: vec![Item::said(after)], head: None });
            }
            blocks.extend(came);
        }
        self.server.go_to(until);
        blocks.extend(self.received(None));
        blocks
    }

    /// What came to everybody, the one who acted first.
    fn received(&mut self, acting: Option<usize>) -> Vec<Block> {
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        order.sort_by_key(|client| Some(*client) != acting);
        self.commands.extend(self.server.commands());
        let mut blocks = Vec::new();
        for at in order {
            let received = self.clients[at].wire.receive();
            let mut items = self.replies(&received);
            let client = &mut self.clients[at];
            let closed = client.wire.is_closed();
            if closed && !std::mem::replace(&mut client.known_closed, true) {
                items.push(Item::said("(closed)"));
            }
            if Some(at) == acting {
                if self.server.is_waiting(&client.wire) {
                    items.push(Item::said("(waits)"));
                } else if items.is_empty() {
                    items.push(Item::said("(nothing)"));
                }
            }
            if !items.is_empty() {
                blocks.push(Block { client: Some(client.name.clone()), items, head: self.head });
            }
        }
        if !blocks.is_empty() {
            self.head = None;
        }
        blocks
    }

    fn replies(&mut self, received: &[u8]) -> Vec<Item> {
        let mut replies = shown::parse(received, self.resp3);
        self.errors.extend(replies.iter().flat_map(shown::errors));
        if ON_THE_WIRE.contains(&self.file) {
            return replies.iter().flat_map(shown::wire).map(Item::said).collect();
        }
        if !replies.is_empty() {
            if let Some(names) = self.fields.take() {
                replies = replies.iter().map(|reply| shown::only(reply, &names)).collect();
                let text: String = replies.iter().flat_map(shown::lines).collect();
                for name in names {
                    assert!(text.contains(&name), "{}:{}: no field {name}", self.file, self.number);
                }
            }
            if std::mem::take(&mut self.length_only) {
                replies = replies.iter().map(shown::length_only).collect();
            }
        }
        let item = |reply: &Reply| {
            let in_resp2 = shown::lines(&shown::in_resp2(reply));
            Item { lines: shown::lines(reply), in_resp2 }
        };
        replies.iter().map(item).collect()
    }
}

fn server(start: Millis, options: &[(&str, &str)]) -> InMemory {
    let mut config = Config::default();
    config.machine_bytes = 8 << 30;
    // There is no journal until the script opens one.
    for (name, value) in [("maxclients", "100"), ("appendonly", "no")].iter().chain(options) {
        config.set(name, &[(*value).to_owned()]).expect("a fitting value");
    }
    InMemory::new(config, start)
}

/// What the journal allows; `reserve`: only what ends jobs; `crowded`: nothing that adds.
fn flow_of(word: &str) -> Option<Flow> {
    let cause: Arc<str> = "No space left on device".into();
    Some(match word {
        "runs" => Flow::default(),
        "held" => Flow::Stalled { room: Room::UNLIMITED },
        "reserve" => {
            let room = Room { cause: Some(cause), ..Room::of(0, 1 << 20) };
            Flow::Running { room }
        }
        "crowded" => {
            let cause = Some("the rest of the disk is kept".into());
            Flow::Running { room: Room { base_bytes_max: 0, cause, ..Room::UNLIMITED } }
        }
        "full" => Flow::Stopped { cause: Misconf::NoRoom { cause } },
        "failed" => Flow::Stopped { cause: Misconf::Failed { cause: "Input/output error".into() } },
        _ => return None,
    })
}

fn standing_of(words: &str) -> Option<NodeStanding> {
    Some(match words {
        "serving" => NodeStanding::Serving,
        "loading" => NodeStanding::Loading,
        "following" => NodeStanding::Following { reads: true, is_led: true },
        "blind" => NodeStanding::Following { reads: false, is_led: true },
        "leaderless" => NodeStanding::Following { reads: false, is_led: false },
        "down" => NodeStanding::Down,
        _ => NodeStanding::Forming { missing: words.strip_prefix("forming ")?.into() },
    })
}

/// `30s`, `1h30m`, `250us`.
fn span_us(text: &str) -> Option<u64> {
    if let Some(us) = text.strip_suffix("us") {
        return us.parse().ok();
    }
    match delayd::command::read::duration::parse(text.as_bytes())? {
        delayd::command::read::number::Whole::Fits(ms) => Some(ms * 1_000),
        delayd::command::read::number::Whole::TooLarge => None,
    }
}

/// `2027-01-15T08:00:00Z`.
fn instant(text: &str) -> Option<Millis> {
    delayd::command::read::moment::parse_rfc3339(text.as_bytes())?.ok().map(Millis)
}

fn written(us: u64) -> String {
    match us % 1_000 {
        0 => delayd::time::Written(us / 1_000).to_string(),
        _ => format!("{us}us"),
    }
}

fn as_array(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn words(line: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            Some(inside) => 2 + closing_quote(inside)?,
            None => rest.find(' ').unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        words.push(unescaped(quoted.unwrap_or(word))?);
        rest = after.trim_start();
    }
    Some(words)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// Resolves `\r`, `\xNN` and `{x*600}`.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(run) = rest.strip_prefix('{') {
            let (inside, after) = run.split_once('}')?;
            let (what, times) = inside.rsplit_once('*')?;
            bytes.extend(unescaped(what)?.repeat(times.parse().ok()?));
            rest = after;
        } else if let Some(escape) = rest.strip_prefix('\\') {
            let (byte, length) = match escape.bytes().next()? {
                b'r' => (b'\r', 1),
                b'n' => (b'\n', 1),
                b't' => (b'\t', 1),
                b'x' => (u8::from_str_radix(escape.get(1..3)?, 16).ok()?, 3),
                itself => (itself, 1),
            };
            bytes.push(byte);
            rest = &escape[length..];
        } else {
            bytes.extend(first.encode_utf8(&mut [0; 4]).bytes());
            rest = &rest[first.len_utf8()..];
        }
    }
    Some(bytes)
}
