//! Cost against the number of pending jobs: adding, cancelling random ones, falling due and expiring.

use crate::flood::{Flood, Pace};
use crate::many::{self, BODY};
use crate::plot::Plot;
use crate::report::{Asked, Report};
use crate::scaled;
use crate::support::{Server, now_us};
use crate::system::{Sync, System};
use crate::wire::request;
use std::time::Duration;

/// The server's CPU time a job, µs.
#[derive(Clone, Copy)]
struct Cost {
    add: f64,
    cancel: f64,
}

/// Jobs that each figure is taken over, if there are so many.
const SAMPLE: u64 = 200_000;

pub fn growth(report: &mut Report) {
    let sizes = [1_000, 10_000, 100_000, 1_000_000, 10_000_000].map(scaled);
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut of_delayd = Vec::new();
    for (system, add, cancel) in [
        (System::Delayd, "delayd, add", "delayd, cancel"),
        (System::Redis, "Redis ZADD + HSET", "Redis ZREM + HDEL"),
    ] {
        // A sorted set of ten million takes minutes to fill, and shows nothing that one million does not.
        let most = if system == System::Redis { scaled(1_000_000) } else { u64::MAX };
        let sizes: Vec<u64> = sizes.into_iter().filter(|size| *size <= most).collect();
        let costs: Vec<Cost> = sizes.iter().map(|pending| cost(system, *pending)).collect();
        let points = |of: fn(&Cost) -> f64| {
            sizes.iter().zip(&costs).map(|(size, cost)| (*size as f64, of(cost))).collect()
        };
        lines.push((add.to_owned(), points(|cost| cost.add)));
        lines.push((cancel.to_owned(), points(|cost| cost.cancel)));
        of_delayd.extend((system == System::Delayd).then_some(costs));
    }
    let expiry = sizes.map(expire);
    let points = sizes.iter().zip(expiry).map(|(size, cost)| (*size as f64, cost)).collect();
    lines.push(("delayd, fall due and expire".to_owned(), points));
    let costs = &of_delayd[0];
    for (what, most, least) in [
        ("add", costs[4].add, costs[1].add),
        ("cancel", costs[4].cancel, costs[1].cancel),
        ("fall due and expire", expiry[4], expiry[1]),
    ] {
        let work = format!("{what} at 10 M pending, everysec");
        report.versus(work, "µs CPU", most, ("delayd at 10 k", least), Asked::Most(2.5));
    }
    report.plots.push(Plot {
        file: "growth",
        title: "Server CPU a job against the number of pending jobs",
        x: "pending jobs",
        y: "µs",
        lines,
    });
}

/// As many servers in turn as it takes for [`SAMPLE`] jobs: none ever holds much more than `pending`.
fn cost(system: System, pending: u64) -> Cost {
    let count = scaled(SAMPLE).min(pending / 2);
    let times = scaled(SAMPLE).div_ceil(count).min(40);
    let paces: Vec<(Pace, Pace)> = (0..times)
        .map(|_| {
            let server = system.start(Sync::Everysec);
            many::add(system, &server, 0, pending, BODY);
            let add = many::add(system, &server, pending, count, BODY);
            (add, many::cancel(system, &server, pending + count, 0, count))
        })
        .collect();
    let mean = |of: fn(&(Pace, Pace)) -> f64| paces.iter().map(of).sum::<f64>() / times as f64;
    Cost { add: mean(|paces| paces.0.cpu_us), cancel: mean(|paces| paces.1.cpu_us) }
}

/// What jobs cost from their due time to their end a ms later, with nobody to take them.
fn expire(pending: u64) -> f64 {
    let server = System::Delayd.start(Sync::Everysec);
    many::add(System::Delayd, &server, 0, pending, BODY);
    let count = scaled(SAMPLE);
    let due_ms = now_us() / 1_000 + 3_000;
    add_short_lived(&server, due_ms, count);
    assert!(now_us() / 1_000 < due_ms, "all are added before they are due");
    let before = server.cpu_seconds();
    let mut client = server.client();
    let end_ms = due_ms + 1_000;
    std::thread::sleep(Duration::from_millis(end_ms.saturating_sub(now_us() / 1_000)));
    while client.info("total_expired") < count {
        std::thread::sleep(Duration::from_millis(20));
    }
    (server.cpu_seconds() - before) * 1e6 / count as f64
}

/// Jobs that fall due within a second from `due_ms` on, and live for a ms from then.
fn add_short_lived(server: &Server, due_ms: u64, count: u64) {
    let flood = Flood {
        system: System::Delayd,
        connections: 50,
        pipeline: 16,
        replies: 1,
        count,
        write: &mut |out, job| {
            let due = format!("@{}", due_ms + job % 1_000);
            let words = ["DELAY.ADD", "q", &due, BODY, "TTL", "1ms"].map(crate::wire::Word::from);
            request(out, &words);
        },
        check: &mut |_| (),
    };
    flood.run(server);
}
