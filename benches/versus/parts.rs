//! The parts of the comparison: what is run, beside whom, and what is asked of it.

use crate::hand_off::hand_off;
use crate::herd::herd as drain;
use crate::life::Life;
use crate::many::{self, BODY, idle as idle_share};
use crate::plot::Plot;
use crate::punctual::{Late, Punctual};
use crate::raw::raw_p999_ms;
use crate::report::{Asked, Report};
use crate::support::Server;
use crate::system::{Sync, System};
use crate::{median, rounds, scaled};

/// Medians of what each system gives, all by turns.
pub fn by_turns<S: Copy, const N: usize>(
    systems: &[S],
    mut run: impl FnMut(S) -> [f64; N],
) -> Vec<[f64; N]> {
    let mut all: Vec<Vec<[f64; N]>> = vec![Vec::new(); systems.len()];
    for _ in 0..rounds() {
        for (system, values) in systems.iter().zip(&mut all) {
            values.push(run(*system));
        }
    }
    let medians = |values: &Vec<[f64; N]>| {
        std::array::from_fn(|at| median(values.iter().map(|value| value[at]).collect()))
    };
    all.iter().map(medians).collect()
}

const BOTH: [System; 2] = [System::Delayd, System::Redis];
const ALL: [System; 3] = [System::Delayd, System::Redis, System::Beanstalkd];

/// Adding at a million pending jobs.
pub fn add(report: &mut Report) {
    let pending = scaled(1_000_000);
    for sync in [Sync::Everysec, Sync::Always] {
        let word = sync.word();
        let found = by_turns(&BOTH, |system| {
            let server = system.start(sync);
            many::add(system, &server, 0, pending, BODY);
            let pace = many::add(system, &server, pending, pending / 2, BODY);
            [pace.rate, pace.cpu_us]
        });
        let [ours, theirs] = found[..] else { unreachable!("two systems") };
        let work = format!("add, client's ids, pipeline 16, 1 M pending, {word}");
        let other = "Redis ZADD + HSET";
        report.versus(&work, "jobs/s", ours[0], (other, theirs[0]), Asked::Least(4.0));
        report.versus(work, "µs CPU", ours[1], ("Redis ZADD + HSET", theirs[1]), Asked::Nothing);
        push(report, sync, pending);
    }
    large(report);
}

fn push(report: &mut Report, sync: Sync, count: u64) {
    let found = by_turns(&ALL, |system| {
        let server = system.start(sync);
        // It syncs for each job: a tenth of them is plenty.
        let slow = system == System::Beanstalkd && sync == Sync::Always;
        let count = if slow { count / 10 } else { count };
        let pace = many::push(system, &server, count, BODY);
        [pace.rate, pace.cpu_us]
    });
    let work = format!("add, server-made ids, pipeline 16, {}", sync.word());
    for (at, name, asked) in
        [(1, "Redis LPUSH", Asked::Least(1.0)), (2, "beanstalkd put", Asked::Nothing)]
    {
        report.versus(&work, "jobs/s", found[0][0], (name, found[at][0]), asked);
        report.versus(&work, "µs CPU", found[0][1], (name, found[at][1]), Asked::Nothing);
    }
}

fn large(report: &mut Report) {
    let found = by_turns(&BOTH, |system| {
        let server = system.start(Sync::Everysec);
        let pace = many::add(system, &server, 0, scaled(200_000), &"x".repeat(4_096));
        [pace.rate, pace.cpu_us]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let work = "add, 4 KiB bodies, pipeline 16, everysec";
    report.versus(work, "jobs/s", ours[0], ("Redis ZADD + HSET", theirs[0]), Asked::Nothing);
    report.versus(work, "µs CPU", ours[1], ("Redis ZADD + HSET", theirs[1]), Asked::Nothing);
}

/// What a pending job takes.
pub fn memory(report: &mut Report) {
    let pending = scaled(1_000_000);
    let found = by_turns(&ALL, |system| {
        let server = system.start(Sync::Off);
        let empty = server.resident();
        many::add(system, &server, 0, pending, BODY);
        [(server.resident() - empty) as f64 / pending as f64]
    });
    let work = "memory a pending job, 20-byte id, 100-byte body";
    for (at, asked) in [(1, 0.6), (2, 0.7)] {
        let theirs = (ALL[at].name(), found[at][0]);
        report.versus(work, "bytes", found[0][0], theirs, Asked::Most(asked));
    }
}

/// Whole lives, in batches of 100 and one by one.
pub fn life(report: &mut Report) {
    for sync in [Sync::Everysec, Sync::Always] {
        let found = by_turns(&BOTH, |system| lives(system, sync, 16, 16, 100, scaled(1_000_000)));
        let [ours, theirs] = found[..] else { unreachable!("two systems") };
        let work = format!("life, batches of 100, {}", sync.word());
        let other = "Redis ZSET + HASH + Lua";
        report.versus(&work, "jobs/s", ours[0], (other, theirs[0]), Asked::Least(4.0));
        report.versus(work, "µs CPU", ours[1], (other, theirs[1]), Asked::Most(0.4));

        let found = by_turns(&ALL, |system| lives(system, sync, 25, 25, 1, scaled(100_000)));
        let work = format!("life, one by one, 50 connections, {}", sync.word());
        for (at, asked) in [(1, 1.3), (2, 1.0)] {
            let (name, theirs) = (ALL[at].name(), found[at]);
            report.versus(&work, "jobs/s", found[0][0], (name, theirs[0]), Asked::Least(asked));
            report.versus(&work, "µs CPU", found[0][1], (name, theirs[1]), Asked::Nothing);
        }
    }
}

fn lives(
    system: System,
    sync: Sync,
    producers: usize,
    consumers: usize,
    batch: u64,
    count: u64,
) -> [f64; 2] {
    let server = system.start(sync);
    // beanstalkd has whole seconds: its jobs are due at once, which is less work for it.
    let delay_ms = if system == System::Beanstalkd { 0 } else { 10 };
    let alive_max = if batch == 1 { 5_000 } else { 50_000 };
    let life = Life { system, producers, consumers, batch, delay_ms, alive_max, count };
    let pace = life.run(&server);
    [pace.rate, pace.cpu_us]
}

/// Lateness at the consumer.
pub fn lateness(report: &mut Report) {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut note = |label: &str, rate: u64, late: f64| match lines
        .iter_mut()
        .find(|(line, _)| line == label)
    {
        Some((_, points)) => points.push((rate as f64, late)),
        None => lines.push((label.to_owned(), vec![(rate as f64, late)])),
    };
    for rate in [1_000, 10_000, 50_000, 100_000] {
        let delayd = Punctual { rate, ..Punctual::DELAYD };
        let ours = late(delayd, Sync::Everysec);
        let always = late(delayd, Sync::Always);
        note("delayd everysec p99", rate, ours.p99);
        note("delayd always p99", rate, always.p99);
        let work = |sync: &str| format!("lateness, {} k due a second, {sync}", rate / 1_000);
        for poll_ms in [1, 10, 100] {
            let redis = Punctual { system: System::Redis, poll_ms, ..delayd };
            let theirs = late(redis, Sync::Everysec);
            note(&format!("Redis polling each {poll_ms} ms, p99"), rate, theirs.p99);
            let asked = match (rate, poll_ms) {
                (50_000, 10) => Asked::Most(0.15),
                _ => Asked::Nothing,
            };
            let other = (format!("Redis polling each {poll_ms} ms"), theirs.p99);
            report.versus(work("everysec"), "ms p99", ours.p99, other, asked);
        }
        report.alone(work("everysec"), "ms p50", ours.p50, Asked::Nothing);
        report.alone(work("everysec"), "µs CPU", ours.cpu_us, Asked::Nothing);
        let asked = if rate == 50_000 { Asked::Below(2.0) } else { Asked::Nothing };
        report.alone(work("everysec"), "ms p99", ours.p99, asked);
        let asked = if rate == 100_000 { Asked::Below(5.0) } else { Asked::Nothing };
        report.alone(work("everysec"), "ms p99.9", ours.p999, asked);
        report.alone(work("always"), "ms p99", always.p99, Asked::Nothing);
        report.alone(work("always"), "ms p99.9", always.p999, Asked::Nothing);
        if rate == 100_000 {
            beside_the_disk(report, delayd);
        }
    }
    report.plots.push(Plot {
        file: "lateness",
        title: "Lateness at the consumer",
        x: "jobs due a second",
        y: "ms",
        lines,
    });
}

/// The same under `always` with a consumer that takes up to 1,000 at once, by turns with the disk alone, which writes and
/// syncs the same bytes. One that takes 100 waits for a sync each time, its own behind the producer's: it falls behind
/// 100 k a second as soon as a sync takes half a ms, whatever the server does.
fn beside_the_disk(report: &mut Report, delayd: Punctual) {
    let delayd = Punctual { batch: 1_000, ..delayd };
    let (mut ours, mut raw, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds() {
        let server = System::Delayd.start(Sync::Always);
        ours.push(delayd.run(&server).p999);
        bytes = server.client().info("journal_written_bytes");
        drop(server);
        raw.push(raw_p999_ms(bytes, delayd.seconds));
    }
    let (ours, raw) = (median(ours), median(raw));
    let work = "lateness, 100 k due a second in batches of 1,000, always";
    report.alone(work, "ms p99.9", ours, Asked::Below(2.0 * raw + 1.0));
    let work = format!("the disk alone, the same {} MB", bytes / 1_000_000);
    report.alone(work, "ms p99.9", raw, Asked::Nothing);
}

/// Lateness while another client adds at full speed.
pub fn busy(report: &mut Report) {
    let delayd = Punctual { is_busy: true, ..Punctual::DELAYD };
    let ours = late(delayd, Sync::Everysec);
    let redis = Punctual { system: System::Redis, poll_ms: 10, ..delayd };
    let theirs = late(redis, Sync::Everysec);
    let work = "lateness, 10 k due a second with a producer at full speed, everysec";
    let name = "Redis polling each 10 ms";
    report.versus(work, "ms p50", ours.p50, (name, theirs.p50), Asked::Nothing);
    report.versus(work, "ms p99", ours.p99, (name, theirs.p99), Asked::Nothing);
}

/// Lateness while the wheel comes to a slot with millions of jobs.
pub fn crowd(report: &mut Report) {
    let crowd = scaled(6_000_000);
    let delayd = Punctual { rate: 100_000, crowd, ..Punctual::DELAYD };
    let ours = late(delayd, Sync::Everysec);
    let work = "lateness, 100 k due a second, 6 M more due in the next minute, everysec";
    report.alone(work, "ms p99", ours.p99, Asked::Nothing);
    report.alone(work, "ms p99.9", ours.p999, Asked::Below(5.0));
}

/// The round with the middle p99.
fn late(punctual: Punctual, sync: Sync) -> Late {
    let run = |_| punctual.run(&punctual.system.start(sync));
    let mut all: Vec<Late> = (0..rounds()).map(run).collect();
    all.sort_by(|a, b| a.p99.total_cmp(&b.p99));
    all[all.len() / 2]
}

/// A million jobs in one millisecond.
pub fn herd(report: &mut Report) {
    let count = scaled(1_000_000);
    let found = by_turns(&BOTH, |system| {
        let server = system.start(Sync::Everysec);
        let drained = drain(system, &server, count);
        [drained.rate, drained.p99_ms, drained.max_ms]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let work = "herd of 1 M jobs in one ms, batches of 1,000, everysec";
    let other = "Redis ZSET + HASH + Lua";
    report.versus(work, "jobs/s", ours[0], (other, theirs[0]), Asked::Above(800_000.0));
    report.versus(
        "another client meanwhile",
        "ms p99",
        ours[1],
        (other, theirs[1]),
        Asked::Below(5.0),
    );
    report.versus(
        "another client meanwhile",
        "ms longest",
        ours[2],
        (other, theirs[2]),
        Asked::Nothing,
    );
}

/// Cancelling and moving random jobs out of ten million: both servers are filled once, and then asked by
/// turns.
pub fn change(report: &mut Report) {
    let (held, count) = (scaled(10_000_000), scaled(400_000));
    let servers = BOTH.map(|system| {
        let server = system.start(Sync::Everysec);
        many::add(system, &server, 0, held, BODY);
        server
    });
    let mut round = [0, 0];
    let found = by_turns(&BOTH, |system| {
        let at = usize::from(system == System::Redis);
        let (server, from) = (&servers[at], round[at] * count);
        round[at] += 1;
        let moved = many::reschedule(system, server, held, from, count);
        let gone = many::cancel(system, server, held, from, count);
        [gone.rate, gone.cpu_us, moved.rate, moved.cpu_us]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let (cancel, moving) =
        ("cancel of random jobs out of 10 M, pipeline 16, everysec", "reschedule, the same");
    report.versus(cancel, "jobs/s", ours[0], ("Redis ZREM + HDEL", theirs[0]), Asked::Least(3.0));
    report.versus(cancel, "µs CPU", ours[1], ("Redis ZREM + HDEL", theirs[1]), Asked::Nothing);
    report.versus(moving, "jobs/s", ours[2], ("Redis ZADD XX", theirs[2]), Asked::Nothing);
    report.versus(moving, "µs CPU", ours[3], ("Redis ZADD XX", theirs[3]), Asked::Nothing);
}

/// Ten million pending jobs and nothing to do.
pub fn idle(report: &mut Report) {
    let server = System::Delayd.start(Sync::Everysec);
    many::add(System::Delayd, &server, 0, scaled(10_000_000), BODY);
    // The base that was begun under load is over, and so are the syncs.
    server.client().call(&["WAITAOF", "1", "0", "0"]);
    while server.client().info("aof_rewrite_in_progress") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let share = idle_share(&server, 10);
    report.alone("idle with 10 M pending", "% of a core", share, Asked::Below(0.5));
}

/// A hundred thousand queues.
pub fn queues(report: &mut Report) {
    let count = scaled(100_000);
    let found = by_turns(&BOTH, |system| {
        let server = system.start(Sync::Everysec);
        let empty = server.resident();
        let pace = many::queues(system, &server, count, BODY);
        [pace.rate, (server.resident() - empty) as f64 / count as f64]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let work = "one job into each of 100 k queues, everysec";
    report.versus(
        work,
        "jobs/s",
        ours[0],
        ("Redis, a ZSET and a HASH each", theirs[0]),
        Asked::Nothing,
    );
    report.versus(
        work,
        "bytes",
        ours[1],
        ("Redis, a ZSET and a HASH each", theirs[1]),
        Asked::Nothing,
    );
}

/// Blocked consumers.
pub fn waiters(report: &mut Report) {
    let many = scaled(10_000) as usize;
    let found = by_turns(&BOTH, |system| {
        let server = system.start(Sync::Everysec);
        [hand_off(system, &server, 10, 300), hand_off(system, &server, many, 300)]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let (few, work) = (("delayd, 10 blocked", ours[0]), "hand-off, 10 k blocked consumers");
    report.versus(work, "µs", ours[1], few, Asked::Most(1.5));
    let other = "Redis BZPOPMIN";
    report.versus(work, "µs", ours[1], (other, theirs[1]), Asked::Nothing);
    let work = "hand-off, 10 blocked consumers";
    report.versus(work, "µs", ours[0], (other, theirs[0]), Asked::Nothing);
}

/// From SIGKILL to the first answer.
pub fn restart(report: &mut Report) {
    let pending = scaled(1_000_000);
    let found = by_turns(&BOTH, |system| {
        let mut server = system.start(Sync::Everysec);
        many::add(system, &server, 0, pending, BODY);
        let (ask, count) = match system {
            System::Redis => (&["ZCARD", "z"], pending),
            _ => (&["DELAY.LEN", "q"], pending),
        };
        // The last second is not on disk before.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        let began = server.kill_and_restart();
        answers(&server, ask, count);
        [pending as f64 / began.elapsed().as_secs_f64()]
    });
    let [ours, theirs] = found[..] else { unreachable!("two systems") };
    let work = "restart after SIGKILL with 1 M jobs, everysec";
    report.versus(work, "jobs/s", ours[0], ("Redis", theirs[0]), Asked::Nothing);
}

fn answers(server: &Server, ask: &[&str], count: u64) {
    use redis_protocol::resp2::types::OwnedFrame;
    loop {
        let there =
            std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, server.port)).is_ok();
        if there && server.client().call(ask) == OwnedFrame::Integer(count as i64) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
