//! Adds to a cluster of three nodes while `delayd backup` fetches a million jobs from a follower, beside the same adds
//! before: `cargo bench --bench versus -- backup`. All nodes, the clients and the backup share one machine and its disk,
//! so what is found is worse than with a machine for each.

use crate::cluster::Three;
use crate::report::{Asked, Report};
use crate::support::{Server, binary, place};
use crate::{median, rounds, scaled};
use redis_protocol::resp2::types::Resp2Frame;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clients that add one job each 6.4 ms: 1,250 adds a second in all.
const CLIENTS: u32 = 8;
const EACH: Duration = Duration::from_micros(6_400);
const QUIET: Duration = Duration::from_secs(5);
/// Far enough from the last load that its segments are written.
const SETTLES: Duration = Duration::from_secs(3);

pub fn backup(report: &mut Report) {
    let three = Three::delayd();
    three.add(50, 16, scaled(1_000_000));
    let epoch = epoch(three.leader());
    let pairs: Vec<(f64, f64)> = (0..rounds()).map(|_| (quiet(&three), during(&three))).collect();
    let [before, during] = [0, 1]
        .map(|at| median(pairs.iter().map(|pair| if at == 0 { pair.0 } else { pair.1 }).collect()));
    assert_eq!(self::epoch(three.leader()), epoch, "a leader was elected");
    let work = "three nodes, adds during a backup of 1 M jobs from a follower";
    report.versus(work, "ms p99", during, ("without a backup", before), Asked::Most(1.5));
}

fn quiet(three: &Three) -> f64 {
    std::thread::sleep(SETTLES);
    p99_ms(three.leader(), || std::thread::sleep(QUIET))
}

fn during(three: &Three) -> f64 {
    p99_ms(three.leader(), || {
        let (_, dir) = place();
        let mut command = Command::new(binary());
        command.args(["backup", &format!("127.0.0.1:{}", three.follower().port)]).arg(&dir);
        let began = Instant::now();
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(done.expect("it runs").success(), "there is no backup");
        eprintln!("a backup took {:?}", began.elapsed());
        std::fs::remove_dir_all(dir).expect("our own folder");
    })
}

fn epoch(server: &Server) -> String {
    let info = server.client().call(&["INFO"]);
    let text = info.as_str().unwrap_or_default().to_owned();
    text.lines().find(|line| line.starts_with("raft_epoch")).expect("a node").to_owned()
}

/// The p99 of adds while `work` is done, ms, counted from when each was to be sent.
fn p99_ms(leader: &Server, work: impl FnOnce()) -> f64 {
    let is_over = AtomicBool::new(false);
    let mut took_us: Vec<u64> = std::thread::scope(|scope| {
        let client = |number| {
            let (mut client, is_over) = (leader.client(), &is_over);
            move || {
                let (mut took_us, mut due) = (Vec::new(), Instant::now() + EACH * number / CLIENTS);
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let reply = client.call(&["DELAY.ADD", "adds", "1h", crate::many::BODY]);
                    assert!(reply.as_str().is_some_and(|id| !id.contains(' ')), "{reply:?}");
                    took_us.push(due.elapsed().as_micros() as u64);
                    due += EACH;
                }
                took_us
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(client(number))).collect();
        work();
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().expect("adds are answered")).collect()
    });
    took_us.sort_unstable();
    took_us[(took_us.len() - 1) * 99 / 100] as f64 / 1_000.0
}
