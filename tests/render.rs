//! Every reply of the engine, byte for byte, in both protocols.

use bytes::BytesMut;
use delayd::command::show::render::render;
use delayd::engine::model::reply::{Delivered, Glimpse, JobView, Reason, Reply};
use delayd::engine::model::request::{QueueName, State};
use delayd::engine::model::stats::{StatsView, Totals};
use delayd::error::Error;
use delayd::ids::{Db, Token};
use delayd::resp::{Encoder, Protocol};
use delayd::time::Millis;

fn written(reply: &Reply<'_>, protocol: Protocol) -> String {
    let mut out = BytesMut::new();
    render(reply, &mut Encoder::new(&mut out, protocol));
    String::from_utf8_lossy(&out).replace("\r\n", "~")
}

fn check(reply: &Reply<'_>, resp2: &str, resp3: &str) {
    assert_eq!(written(reply, Protocol::Resp2), resp2);
    assert_eq!(written(reply, Protocol::Resp3), resp3);
}

fn same(reply: &Reply<'_>, text: &str) {
    check(reply, text, text);
}

const QUEUE: QueueName<'static> = QueueName { db: Db(0), name: b"q" };

#[test]
fn single_values() {
    same(&Reply::Ok, "+OK~");
    check(&Reply::Nil, "$-1~", "_~");
    check(&Reply::NilArray, "*-1~", "_~");
    same(&Reply::Integer(-3), ":-3~");
    same(&Reply::Id(b"a\xc3\xa4"), "$3~aä~");
    for state in State::ALL {
        let word = state.word();
        same(&Reply::State(state), &format!("${}~{word}~", word.len()));
    }
    same(&Reply::Names(&[b"a", b"bc"]), "*2~$1~a~$2~bc~");
    same(&Reply::Names(&[]), "*0~");
    same(&Reply::ScannedNames(u64::MAX, &[b"a"]), "*2~$20~18446744073709551615~*1~$1~a~");
    let text = Error::text("FULL queue 'q' has 5 jobs; max-jobs is 5");
    same(&Reply::Error(&text), "-FULL queue 'q' has 5 jobs; max-jobs is 5~");
    // An id with a line end cannot end the reply.
    same(&Reply::Error(&Error::text("ERR a\r\nb")), "-ERR a  b~");
}

#[test]
fn jobs() {
    let leased = Delivered {
        queue: QUEUE,
        id: b"7",
        body: b"b\r\n",
        token: Some(Token(i64::MAX as u64)),
        attempt: 2,
        due: Millis(1_800_000_000_000),
        lease_end: Millis(1_800_000_060_000),
    };
    let taken = Delivered { token: None, lease_end: Millis(0), attempt: 1, body: b"", ..leased };
    same(&Reply::Popped(leased), "*3~$1~q~$1~7~$3~b~~");
    same(
        &Reply::Reserved(&[leased, taken]),
        "*2~*7~$1~q~$1~7~$3~b~~$19~9223372036854775807~:2~:1800000000000~:1800000060000~*7~$1~q~$1~7~$0~~$0~~:1~:1800000000000~:0~",
    );
    let glimpse = Glimpse { id: b"7", state: State::Dead, due: Millis(5), body: b"x" };
    same(&Reply::Peeked(&[glimpse]), "*1~*4~$1~7~$4~dead~:5~$1~x~");
    same(&Reply::Peeked(&[]), "*0~");
    same(&Reply::Scanned(12, &[glimpse]), "*2~$2~12~*1~*3~$1~7~$4~dead~:5~");
}

#[test]
fn all_of_a_job() {
    let mut job = JobView {
        id: b"7",
        state: State::Delayed,
        body: b"x",
        due: Millis(20),
        added: Millis(10),
        priority: 5,
        attempt: 1,
        attempts_max: 20,
        deliveries: 2,
        nacks: 3,
        timeouts: 4,
        lost: 6,
        backoff: "exp:1s:1h~".to_string(),
        lease_ms: 0,
        ttl_ms: 100,
        expires: Millis(120),
        unique_ms: 0,
        lease: None,
        death: None,
        error: None,
    };
    let body = "$2~id~$1~7~$5~state~$7~delayed~$4~body~$1~x~$3~due~:20~$5~added~:10~$8~priority~:5~$7~attempt~:1~$12~max-attempts~:20~$10~deliveries~:2~$5~nacks~:3~$8~timeouts~:4~$4~lost~:6~$7~backoff~$10~exp:1s:1h~~$8~lease-ms~:0~$6~ttl-ms~:100~$7~expires~:120~$9~unique-ms~:0~";
    check(&Reply::Job(&job), &format!("*34~{body}"), &format!("%17~{body}"));
    job.state = State::Leased;
    job.lease = Some((Token(9), Millis(50), true));
    let leased = body.replace("$7~delayed", "$6~leased");
    let lease = "$5~token~$1~9~$9~lease-end~:50~$5~bound~:1~";
    check(&Reply::Job(&job), &format!("*40~{leased}{lease}"), &format!("%20~{leased}{lease}"));
    job.state = State::Dead;
    job.lease = None;
    job.death = Some((Reason::Attempts, Millis(60)));
    job.error = Some(b"why");
    let dead = body.replace("$7~delayed", "$4~dead");
    let death = "$6~reason~$8~attempts~$5~error~$3~why~$4~died~:60~";
    check(&Reply::Job(&job), &format!("*40~{dead}{death}"), &format!("%20~{dead}{death}"));
}

#[test]
fn all_of_a_queue() {
    let mut stats = StatsView {
        delayed: 1,
        ready: 2,
        leased: 3,
        dead: 4,
        bytes: 5,
        waiters: 6,
        paused: "no",
        next_due: Some(Millis(7)),
        oldest_ready_age_ms: Some(8),
        lateness_us: [9, 10, 11, 12],
        totals: Totals {
            added: 113,
            delivered: 14,
            acked: 15,
            nacked: 16,
            timeouts: 17,
            lost: 18,
            expired: 19,
            deleted: 20,
            died: 21,
            dropped: 22,
        },
    };
    let body = "$7~delayed~:1~$5~ready~:2~$6~leased~:3~$4~dead~:4~$5~bytes~:5~$7~waiters~:6~$6~paused~$2~no~$8~next-due~:7~$19~oldest-ready-age-ms~:8~$15~lateness-p50-us~:9~$15~lateness-p99-us~:10~$16~lateness-p999-us~:11~$15~lateness-max-us~:12~$5~added~:113~$9~delivered~:14~$5~acked~:15~$6~nacked~:16~$8~timeouts~:17~$4~lost~:18~$7~expired~:19~$7~deleted~:20~$4~died~:21~$7~dropped~:22~$6~popped~:27~";
    check(&Reply::Stats(&stats), &format!("*48~{body}"), &format!("%24~{body}"));
    stats.next_due = None;
    stats.oldest_ready_age_ms = None;
    let none2 = body.replace("next-due~:7", "next-due~$-1").replace("-ms~:8", "-ms~$-1");
    let none3 = body.replace("next-due~:7", "next-due~_").replace("-ms~:8", "-ms~_");
    check(&Reply::Stats(&stats), &format!("*48~{none2}"), &format!("%24~{none3}"));
}
