//! `delayd backup` and `delayd restore`: of a follower under load, killed at any point, while its base is replaced, from a full
//! disk, with passwords and TLS; and what is restored is the state as of the backup's batch.

use crate::processes::nodes::Nodes;
use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::disk::Shim;
use crate::support::http::free_port;
use crate::support::program::{Folder, Program, Reply, Wire, seed};
use delayd::engine::{Engine, Settings};
use delayd::ids::Index;
use delayd::journal::base::index_of;
use delayd::journal::offline::restore::read_backup;
use delayd::journal::recovery::{Offered, Progress, Replay};
use delayd::journal::{Disk, LogOptions, LogReader};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

fn delayd(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn backup(address: SocketAddr, dir: &Path) -> Command {
    delayd(&["backup", &address.to_string(), dir.to_str().unwrap()])
}

fn restore(dir: &Path, into: &Path, more: &[&str]) -> Output {
    let mut words = vec!["restore", dir.to_str().unwrap(), into.to_str().unwrap()];
    words.extend(more);
    delayd(&words).output().unwrap()
}

fn text(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", of(&output.stdout), of(&output.stderr))
}

fn is_good(output: &Output) -> String {
    assert!(output.status.success(), "{} {}", output.status, text(output));
    text(output)
}

fn is_refused(output: &Output, code: i32, why: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    assert!(text(output).contains(why), "{why} is missing: {}", text(output));
}

/// The bytes of a part that has come.
fn part(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let files =
        entries.flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp"));
    files.filter_map(|entry| Some(entry.metadata().ok()?.len())).max().unwrap_or(0)
}

/// So many jobs with bodies of 10 KB, whose ids count on from `from`.
fn fill(wire: &mut Wire, from: usize, count: usize) {
    let body = "x".repeat(10_000);
    for job in from..from + count {
        wire.push(&[
            b"DELAY.ADD",
            b"q",
            b"1h",
            body.as_bytes(),
            b"ID",
            format!("job:{job}").as_bytes(),
        ]);
    }
    wire.flush().unwrap();
    (0..count).for_each(|_| assert!(matches!(wire.read().unwrap(), Reply::Bulk(_))));
}

/// Jobs are added, taken, acknowledged and given back until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    acked: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(mut wire: Wire) -> Load {
        let (stop, acked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, told) = (Arc::clone(&stop), Arc::clone(&acked));
        let thread = std::thread::spawn(move || {
            let mut job = 0;
            while !stopped.load(Ordering::Relaxed) {
                job += 1;
                wire.ask(&format!(
                    "DELAY.ADD work 0 body-{job} ID work:{job} PRIORITY {}",
                    job % 10
                ));
                let taken = wire.ask("DELAY.RESERVE NOWAIT 1 work LEASE 5m");
                let Some([taken, ..]) = taken.array() else { continue };
                let taken = taken.array().expect("a job");
                let (id, token) = (taken[1].text().to_owned(), taken[3].text().to_owned());
                match job % 4 {
                    0 => {}
                    1 => drop(wire.ask(&format!("DELAY.NACK work {id} {token} IN 10m"))),
                    _ => drop(wire.ask(&format!("DELAY.ACK work {id} {token}"))),
                }
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
        Load { stop, acked, thread: Some(thread) }
    }

    fn wait_for(&self, more: u64) {
        let until = self.acked.load(Ordering::Relaxed) + more;
        wait_until("the load goes on", || {
            (self.acked.load(Ordering::Relaxed) >= until).then_some(())
        });
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the load failed");
        }
    }
}

/// The digest of what a node's whole log makes up to this batch; its log begins with the first.
fn replayed(journal: &Path, up_to: Index) -> u64 {
    let disk = Arc::new(Disk::open_read_only(journal).unwrap());
    let mut reader = LogReader::open(disk, LogOptions::default(), Index(0)).unwrap();
    let (mut engine, mut replay) = (Engine::new(Settings::default()), Replay::default());
    while replay.index < up_to {
        let entry = reader.next_batch().unwrap().expect("the log goes as far as the backup");
        assert_eq!(replay.offer(&mut engine, &entry), Offered::Applied);
    }
    engine.digest()
}

#[test]
fn a_backup_of_a_follower_under_load_is_the_state_as_of_its_batch() {
    // Two cores that do other things as well may stand still for longer than by default; beside builds, for 3 s.
    let mut trio = Trio::start("backup", &["--cluster-election-timeout", "10s"]);
    let (leader, follower) = (trio.leader(), trio.follower());
    fill(&mut trio.wire(leader), 0, 300);
    let epoch = trio.epoch(leader);
    let load = Load::begin(trio.wire(leader));
    load.wait_for(50);
    let dir = trio.folder.0.join("backup");
    let refused = backup(trio.addresses[leader], &dir).output().unwrap();
    is_refused(&refused, 3, "--from-leader");
    let before = trio.wire(leader).number("raft_last_index");
    let done = is_good(&backup(trio.addresses[follower], &dir).output().unwrap());
    assert!(done.contains("all jobs were counted"), "{done}");
    load.wait_for(50);
    drop(load);
    assert_eq!((trio.leader(), trio.epoch(leader)), (leader, epoch), "nobody was elected");
    let held =
        read_backup(&Disk::open_read_only(&dir).unwrap(), "backup", &Progress::default()).unwrap();
    assert!(held.at.index.0 >= before, "what was answered before it began is in it");
    let journal = trio.path(leader).join("journal");
    trio.kill(leader);
    assert_eq!(replayed(&journal, held.at.index), held.engine.digest());
}

/// What the others acknowledged while it was away would be missing without a word.
#[test]
fn a_node_without_a_leader_gives_no_backup() {
    let mut trio = Trio::start("backup-alone", &[]);
    trio.wait_for_voters();
    let away = trio.follower();
    trio.kill(away);
    fill(&mut trio.wire(trio.leader()), 0, 3);
    for node in (0..NODES).filter(|node| *node != away) {
        trio.kill(node);
    }
    trio.begin(away);
    let dir = trio.folder.0.join("backup");
    let refused = wait_until("it is loaded", || {
        let refused = backup(trio.addresses[away], &dir).output().unwrap();
        (!text(&refused).contains("LOADING")).then_some(refused)
    });
    is_refused(&refused, 3, "it has heard no leader");
}

/// 3 MB at 1 MB a second, killed at random places; what comes in the end is one whole base, though another was written meanwhile.
#[test]
fn a_backup_that_is_killed_goes_on_where_it_was() {
    let mut rng = SmallRng::seed_from_u64(seed());
    let scratch = Folder::new("backup-killed");
    let options = ["--cluster-sync-rate", "1mb"];
    let program = Program::start(&scratch.0, &options);
    fill(&mut program.connect(), 0, 300);
    let dir = scratch.0.join("backup");
    let mut parts = Vec::new();
    for kill in 0..4 {
        let mut running = backup(program.address, &dir).spawn().unwrap();
        let more = part(&dir) + rng.random_range(1..400_000);
        wait_until("a part has come", || {
            assert_eq!(running.try_wait().unwrap(), None, "it ended before it was killed");
            (part(&dir) >= more).then_some(())
        });
        running.kill().unwrap();
        running.wait().unwrap();
        parts.push(part(&dir));
        if kill == 1 {
            // The base takes the place of the one that is being read.
            let mut wire = program.connect();
            fill(&mut wire, 300, 1);
            assert_eq!(wire.ask("SAVE"), Reply::Simple("OK".to_owned()));
        }
    }
    assert!(parts.is_sorted() && parts[0] > 0, "{parts:?}");
    // It is held for a client that comes back: none of the bytes came twice.
    let done = is_good(&backup(program.address, &dir).output().unwrap());
    assert!(done.contains("continues after"), "{done}");
    assert!(done.contains("300 delayed, 0 ready"), "of before the job that came later: {done}");
    is_good(&delayd(&["check", dir.to_str().unwrap()]).output().unwrap());
    // The next one takes its place.
    let done = is_good(&backup(program.address, &dir).output().unwrap());
    assert!(done.contains("301 delayed, 0 ready") && !done.contains("goes on"), "{done}");
    let bases = std::fs::read_dir(&dir).unwrap().flatten();
    let bases = bases.filter(|entry| index_of(entry.file_name().to_str().unwrap()).is_some());
    assert_eq!(bases.count(), 1);
}

/// The server ends meanwhile, and starts again.
#[test]
fn a_backup_goes_on_after_a_restart_of_the_server() {
    let scratch = Folder::new("backup-restart");
    let port = free_port().to_string();
    let options = ["--cluster-sync-rate", "1mb", "--port", &port];
    let program = Program::start(&scratch.0, &options);
    fill(&mut program.connect(), 0, 200);
    let dir = scratch.0.join("backup");
    let running = backup(program.address, &dir).spawn().unwrap();
    wait_until("a part has come", || (part(&dir) > 300_000).then_some(()));
    program.kill();
    let broken = running.wait_with_output().unwrap();
    is_refused(&broken, 1, "the received data is kept");
    let program = Program::start(&scratch.0, &options);
    program.connect();
    let done = is_good(&backup(program.address, &dir).output().unwrap());
    assert!(done.contains("continues after") && done.contains("200 delayed"), "{done}");
    // What was broken off long ago is not the backup that is wanted now.
    fill(&mut program.connect(), 200, 1);
    let mut running = backup(program.address, &dir).spawn().unwrap();
    wait_until("a part has come", || (part(&dir) > 100_000).then_some(()));
    running.kill().unwrap();
    running.wait().unwrap();
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let old = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "tmp"));
    let old = std::fs::File::options().write(true).open(old.unwrap()).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(2 * 3600)).unwrap();
    fill(&mut program.connect(), 201, 1);
    let done = is_good(&backup(program.address, &dir).output().unwrap());
    assert!(!done.contains("continues after") && done.contains("202 delayed"), "{done}");
}

#[test]
fn one_backup_at_a_time_and_what_it_reads_is_told_of() {
    let scratch = Folder::new("backup-one");
    let program = Program::start(&scratch.0, &["--cluster-sync-rate", "1mb"]);
    fill(&mut program.connect(), 0, 100);
    let (mut one, mut other) = (program.connect(), program.connect());
    let ready = wait_until("its base is written", || {
        let reply = one.ask("DELAY.BACKUP BEGIN");
        let fields = reply.array().unwrap().to_vec();
        (fields[1] == Reply::Bulk(b"ready".to_vec())).then_some(fields)
    });
    assert_eq!(ready[11].array().unwrap()[0], Reply::Number(100));
    let id = ready[3].text().to_owned();
    assert!(other.ask("DELAY.BACKUP BEGIN").is_error("ERR"));
    let text = |reply: Reply| reply.text().to_owned();
    assert!(
        text(other.ask(&format!("DELAY.BACKUP READ {id} 0")))
            .contains("belongs to another connection")
    );
    let bytes = ready[7].number();
    assert!(
        text(one.ask(&format!("DELAY.BACKUP READ {id} {bytes}")))
            .contains(&format!("has {bytes} bytes"))
    );
    assert!(text(one.ask("DELAY.BACKUP READ x 0")).contains("'x' is not the id of a backup"));
    wait_until("a piece was read", || {
        (one.ask(&format!("DELAY.BACKUP READ {id} 0")) != Reply::Nil).then_some(())
    });
    // Once its connection is closed another one goes on with it.
    drop(one);
    let line = format!("DELAY.BACKUP BEGIN PART {id}");
    let taken = wait_until("the connection is gone", || {
        let reply = other.ask(&line);
        (!reply.is_error("ERR")).then_some(reply)
    });
    assert_eq!(taken.array().unwrap()[3].text(), id);
    assert_eq!(other.ask("DELAY.BACKUP END"), Reply::Simple("OK".to_owned()));
    assert!(text(other.ask(&format!("DELAY.BACKUP READ {id} 0"))).contains("END was said"));
}

#[test]
fn a_full_disk_makes_no_backup_and_costs_nothing() {
    let Some(disk) = Shim::build() else { return };
    let scratch = Folder::new("backup-full");
    let program = disk.start(&scratch.0, &[]);
    fill(&mut program.connect(), 0, 50);
    let dir = scratch.0.join("backup");
    disk.set("full");
    let refused = backup(program.address, &dir).output().unwrap();
    is_refused(&refused, 3, "No space left on device");
    disk.clear("full");
    // The client's own, in the middle of what comes: no file may have more than 200 KiB.
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -f 200; trap '' XFSZ; exec \"$@\"", "bash"]);
    limited.arg(env!("CARGO_BIN_EXE_delayd"));
    limited.args(["backup", &program.address.to_string(), dir.to_str().unwrap()]);
    let broken = limited.stdin(Stdio::null()).output().unwrap();
    is_refused(&broken, 1, "File too large");
    assert!(part(&dir) > 0);
    assert!(is_good(&backup(program.address, &dir).output().unwrap()).contains("50 delayed"));
    assert_eq!(program.connect().field("journal_state"), "ok");
}

#[test]
fn only_operators_take_one_and_passwords_stand_on_no_command_line() {
    let scratch = Folder::new("backup-rights");
    let users = scratch.0.join("users.acl");
    std::fs::write(
        &users,
        "user default on >first ~* &* +@all\nuser night on >second resetkeys +delay.backup\nuser other on >third ~* +@all -@admin\n",
    )
    .unwrap();
    let program = Program::start(&scratch.0, &["--aclfile", users.to_str().unwrap()]);
    let dir = scratch.0.join("backup");
    let say = |user: Option<&str>, password: &str| {
        let mut command = backup(program.address, &dir);
        if let Some(user) = user {
            command.args(["--user", user]);
        }
        command.env("DELAYD_PASSWORD", password).output().unwrap()
    };
    is_refused(&say(None, ""), 3, "NOAUTH");
    is_refused(&say(Some("night"), "third"), 3, "WRONGPASS");
    is_refused(&say(Some("other"), "third"), 3, "NOPERM");
    is_good(&say(None, "first"));
    is_good(&say(Some("night"), "second"));
    let file = scratch.0.join("password");
    std::fs::write(&file, "second\n").unwrap();
    let mut command = backup(program.address, &dir);
    command.args(["--user", "night", "--password-file", file.to_str().unwrap()]);
    is_good(&command.output().unwrap());
    is_refused(&backup(program.address, &scratch.0).output().unwrap(), 3, "is a server's folder");
}

#[test]
fn a_backup_comes_over_tls() {
    let scratch = Folder::new("backup-tls");
    let made = rcgen::generate_simple_self_signed(vec!["delayd.example".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| scratch.0.join(name));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (port, plain) = (free_port(), free_port());
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let [tls, other] = [port, plain].map(|port| port.to_string());
    let options = ["--tls-port", &tls, "--tls-cert-file", cert, "--tls-key-file", key];
    let more = ["--tls-auth-clients", "no", "--port", &other];
    let program = Program::start(&scratch.0, &[&options[..], &more].concat());
    assert_eq!(program.address.port(), plain);
    fill(&mut program.connect(), 0, 60);
    let dir = scratch.0.join("backup");
    let say = |more: &[&str]| {
        backup(SocketAddr::from(([127, 0, 0, 1], port)), &dir).args(more).output().unwrap()
    };
    let with = ["--tls-ca-cert-file", cert];
    is_refused(&say(&with), 3, "certificate");
    assert!(
        is_good(&say(&[&with[..], &["--sni", "delayd.example"]].concat())).contains("60 delayed")
    );
}

/// In each state; what is restored is there in a server alone, and in each of three nodes.
#[test]
fn a_backup_is_restored_into_one_server_and_into_three() {
    let scratch = Folder::new("backup-restored");
    let program = Program::start(&scratch.0, &[]);
    let mut wire = program.connect();
    fill(&mut wire, 0, 20);
    wire.ask("DELAY.ADD q 0 body ID leased");
    wire.ask("DELAY.SCHEDULE SET s nightly EVERY 1d BODY x");
    let taken = wire.ask("DELAY.RESERVE NOWAIT 1 q LEASE 1h");
    let token = taken.array().unwrap()[0].array().unwrap()[3].text().to_owned();
    let dir = scratch.0.join("backup");
    is_good(&backup(program.address, &dir).output().unwrap());
    let alone = scratch.0.join("alone");
    is_refused(&restore(&dir, &scratch.0, &[]), 3, "it already has a journal");
    std::fs::create_dir(&alone).unwrap();
    let held = std::fs::File::open(&alone).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    is_refused(&restore(&dir, &alone, &[]), 3, "another restore writes into it");
    drop(held);
    let done = is_good(&restore(&dir, &alone, &[]));
    assert!(
        done.contains("20 delayed, 0 ready, 1 leased") && done.contains("ready again"),
        "{done}"
    );
    is_refused(&restore(&dir, &alone, &[]), 3, "it already has a journal");
    // What it was at the backup; the world went on, and gave out a token that is not known there.
    wire.ask(&format!("DELAY.NACK q leased {token} UNCOUNTED"));
    let later = wire.ask("DELAY.RESERVE NOWAIT 1 q LEASE 1h");
    let later = later.array().unwrap()[0].array().unwrap()[3].text().to_owned();
    program.stop();
    let restored = Program::start(&alone, &[]);
    has_all(&mut restored.connect(), [&token, &later]);
    restored.stop();
    let mut nodes = Nodes::new("backup-three", 3);
    let list = nodes.list(&[0, 1, 2]);
    is_good(&restore(&dir, &nodes.path(0), &["--cluster-node", "n1", "--cluster-nodes", &list]));
    (0..3).for_each(|node| nodes.begin(node, &[0, 1, 2]));
    nodes.wait_for_voters(&[0, 1, 2]);
    nodes.wait_for_jobs(&[0, 1, 2], 21);
    has_all(&mut nodes.wire(nodes.leader()).unwrap(), [&token, &later]);
}

/// The tokens are those of before: neither is taken.
fn has_all(wire: &mut Wire, tokens: [&str; 2]) {
    assert_eq!(wire.ask("DELAY.LEN q"), Reply::Number(21));
    assert_eq!(wire.ask("DELAY.LEN q READY"), Reply::Number(1));
    for token in tokens {
        assert_eq!(wire.ask(&format!("DELAY.ACK q leased {token}")), Reply::Number(0));
    }
    let taken = wire.ask("DELAY.RESERVE NOWAIT 1 q LEASE 1h");
    let taken = taken.array().unwrap()[0].array().unwrap();
    let greater = |earlier: &str| taken[3].number() > earlier.parse().unwrap();
    assert!(tokens.into_iter().all(greater), "{taken:?}");
    assert!(!wire.ask("DELAY.SCHEDULE GET s nightly").is_error("ERR"));
}

#[test]
fn a_damaged_backup_is_refused_with_file_and_offset_and_nothing_is_written() {
    let scratch = Folder::new("backup-damaged");
    let program = Program::start(&scratch.0, &[]);
    fill(&mut program.connect(), 0, 20);
    let dir = scratch.0.join("backup");
    is_good(&backup(program.address, &dir).output().unwrap());
    let entries = std::fs::read_dir(&dir).unwrap().flatten();
    let name = entries.map(|entry| entry.file_name().into_string().unwrap());
    let name = name.filter(|name| index_of(name).is_some()).last().unwrap();
    let mut bytes = std::fs::read(dir.join(&name)).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(dir.join(&name), bytes).unwrap();
    let into = scratch.0.join("into");
    is_refused(&restore(&dir, &into, &[]), 2, &format!("{name}: damaged at offset "));
    assert!(!into.exists());
    std::fs::rename(
        dir.join(&name),
        dir.join("incoming-00000000000000000020-0000000000000001.tmp"),
    )
    .unwrap();
    is_refused(&restore(&dir, &into, &[]), 3, "there is no complete backup in it");
    // Its newest base lacks what was added since.
    is_refused(&restore(&scratch.0.join("journal"), &into, &[]), 3, "it is a server's folder");
    assert!(!into.exists());
}
