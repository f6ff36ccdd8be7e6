//! A session against a world that is scripted: what is written, what the world was asked, in order.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use delayd::command::CommandSpec;
use delayd::command::show::render::render;
use delayd::command::spec::Flag;
use delayd::command::spec::action::Shutdown;
use delayd::engine::Outcome;
use delayd::engine::decide::watch::Stamp;
use delayd::engine::decide::whole::{Begun, Needs, Whole};
use delayd::engine::model::reply::Reply;
use delayd::engine::model::request::{QueueName, Request};
use delayd::error::{Error, Shown};
use delayd::ids::{ClientId, Db};
use delayd::limits::{TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX};
use delayd::pubsub::PubSub;
use delayd::resp::{Encoder, Protocol};
use delayd::session::acl::Acl;
use delayd::session::world::{
    BaseBegun, BaseRefused, ConfigError, Ended, Patience, SlowEntry, Unblock, WaitDurable,
};
use delayd::session::{ClientLine, Next, Session, SocketFacts, World};
use delayd::time::Micros;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::types::{FrameMap, OwnedFrame as Frame3};

use proptest::prelude::*;

const ME: ClientId = ClientId(7);

/// What the engine does with the next request.
#[derive(Clone, Copy)]
enum Answer {
    Count(i64),
    Wait,
    Again,
}

/// What the journal does.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Journal {
    #[default]
    Off,
    /// Synced at once, and no base is being written.
    Idle,
    /// A sync and a base take long.
    Busy,
    Failed,
}

/// The server, as far as one session sees it. Requests are answered by script, else with 1.
#[derive(Default)]
struct Scripted {
    out: BytesMut,
    nowhere: BytesMut,
    protocol: Protocol,
    muted: bool,
    answers: VecDeque<Answer>,
    /// What becomes of transactions that are to begin.
    begun: VecDeque<Begun>,
    /// What requests that are to be queued are refused with.
    refusal: Option<Error>,
    exists: bool,
    others: Vec<ClientLine>,
    settings: BTreeMap<&'static str, String>,
    shutting_down: bool,
    loading: bool,
    journal: Journal,
    log: Vec<String>,
    acl: Acl,
    pubsub: PubSub,
}

/// The name of a request, and its database where that is not the first.
fn shown(request: &Request<'_>) -> String {
    let text = format!("{request:?}");
    let mut name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
    request.for_each_queue(|queue| {
        if queue.db.0 > 0 {
            name = format!("{name}@{}", queue.db);
        }
    });
    name
}

impl Scripted {
    fn answer(&mut self, request: &Request<'_>, how: &str) -> Outcome {
        self.log.push(format!("{how} {}", shown(request)));
        match self.answers.pop_front().unwrap_or(Answer::Count(1)) {
            Answer::Again => Outcome::Again,
            Answer::Wait => Outcome::Waiting,
            Answer::Count(count) => {
                render(&Reply::Integer(count), &mut self.encoder(ME));
                Outcome::Replied
            }
        }
    }
}

impl World for Scripted {
    fn now(&self) -> Micros {
        Micros(1_800_000_000_000_042)
    }
    fn random(&mut self) -> u64 {
        4
    }
    fn encoder(&mut self, client: ClientId) -> Encoder<'_> {
        assert_eq!(client, ME);
        self.nowhere.clear();
        let out = if self.muted { &mut self.nowhere } else { &mut self.out };
        Encoder::new(out, self.protocol)
    }
    fn set_protocol(&mut self, _: ClientId, protocol: Protocol) {
        self.protocol = protocol;
    }
    fn set_muted(&mut self, _: ClientId, muted: bool) {
        assert_ne!(self.muted, muted, "told only when it changes");
        self.muted = muted;
    }
    fn handle(&mut self, _: ClientId, request: &Request<'_>) -> Outcome {
        self.answer(request, "handle")
    }
    fn handle_in_transaction(&mut self, _: ClientId, request: &Request<'_>) -> Outcome {
        self.answer(request, "inside")
    }
    fn begin_transaction(&mut self, _: ClientId, whole: &Whole<'_>) -> Begun {
        let asked: Vec<String> = whole.requests.iter().map(|request| shown(request)).collect();
        self.log.push(format!("begin {}", asked.join(" ")));
        if !whole.watched.is_empty() {
            self.log.push(format!("watched {}", whole.watched.len()));
        }
        self.begun.pop_front().unwrap_or(Begun::Begun(Needs::default()))
    }
    fn check_queued(&self, _: &Request<'_>, limits: bool) -> Result<(), Error> {
        let refusal = self.refusal.as_ref();
        let refusal = refusal.filter(|error| limits || !matches!(error, Error::Full { .. }));
        refusal.map_or(Ok(()), |error| Err(error.clone()))
    }
    fn stamp(&mut self, _: ClientId, queue: QueueName<'_>) -> Stamp {
        self.log.push(format!("stamp {}/{}", queue.db, String::from_utf8_lossy(queue.name)));
        Stamp::default()
    }
    fn set_watching(&mut self, _: ClientId, watching: bool) {
        self.log.push(format!("watching {watching}"));
    }
    fn pubsub(&mut self) -> &mut PubSub {
        &mut self.pubsub
    }
    fn end_transaction(&mut self) {
        self.log.push("end".to_string());
    }
    fn ask(&mut self, _: ClientId, _: &Request<'_>) -> Result<i64, Error> {
        Ok(self.exists.into())
    }
    fn release(&mut self, _: ClientId) {
        self.log.push("release".to_string());
    }
    fn clients(&self) -> Vec<ClientLine> {
        let socket = SocketFacts { addr: "1.1.1.1:1".to_string(), ..SocketFacts::default() };
        let mut lines = vec![ClientLine { session: Session::new(ME).facts(), socket }];
        lines.extend(self.others.iter().cloned());
        lines
    }
    fn running_line(&self) -> ClientLine {
        other(ME.0, "1.1.1.1:1")
    }
    fn acl(&mut self) -> &mut Acl {
        &mut self.acl
    }
    fn users_changed(&mut self) {
        self.log.push("users changed".to_owned());
    }
    fn load_users(&mut self) -> Result<(), String> {
        Err("no file".to_owned())
    }
    fn save_users(&mut self) -> Result<(), String> {
        Err("no file".to_owned())
    }
    fn draw_secret(&mut self, bytes: &mut [u8]) {
        bytes.fill(0xa5);
    }
    fn kill(&mut self, client: ClientId) -> bool {
        self.log.push(format!("kill {client}"));
        true
    }
    fn unblock(&mut self, client: ClientId, how: Unblock) -> bool {
        self.log.push(format!("unblock {client} {how:?}"));
        client == ClientId(8)
    }
    fn config(&self) -> Vec<(&'static str, String)> {
        self.settings.iter().map(|(name, value)| (*name, value.clone())).collect()
    }
    fn config_set(&mut self, settings: &[(&str, &[u8])]) -> Result<(), ConfigError> {
        for (name, _) in settings {
            match *name {
                "timeout" => {}
                "port" => {
                    let reason = "can't set immutable config".to_string();
                    return Err(ConfigError::Refused { name: name.to_string(), reason });
                }
                _ => return Err(ConfigError::Unknown { name: name.to_string() }),
            }
        }
        self.log.push(format!("set {}", settings.len()));
        Ok(())
    }
    fn config_rewrite(&mut self) -> Result<(), String> {
        Err("The server is running without a config file".to_string())
    }
    fn reset_stats(&mut self) {
        self.log.push("reset stats".to_string());
    }
    fn info(&mut self, sections: &[&[u8]]) -> String {
        format!("# Sections {}\r\n", sections.len())
    }
    fn slowlog(&self, count: usize) -> Vec<SlowEntry> {
        let entry = SlowEntry {
            id: 3,
            at_s: 1_800_000_000,
            took_us: 12_000,
            args: vec![b"keys".to_vec(), b"*".to_vec()],
            addr: "1.1.1.1:1".to_string(),
            name: b"w".to_vec(),
        };
        std::iter::repeat_n(entry, count.min(1)).collect()
    }
    fn slowlog_len(&self) -> usize {
        1
    }
    fn slowlog_reset(&mut self) {}
    fn last_save_s(&self) -> u64 {
        1_800_000_000
    }
    fn journal_offset(&self) -> u64 {
        99
    }
    fn is_loading(&self) -> bool {
        self.loading
    }
    fn begin_base(&mut self, schedule: bool) -> Result<BaseBegun, BaseRefused> {
        self.log.push(format!("begin base {schedule}"));
        match (self.journal, schedule) {
            (Journal::Off, _) => Err(BaseRefused::NoJournal),
            (Journal::Failed, _) => Err(BaseRefused::Failed("no disk".to_string())),
            (Journal::Idle, _) => Ok(BaseBegun::Started),
            (Journal::Busy, false) => Err(BaseRefused::Running),
            (Journal::Busy, true) => Ok(BaseBegun::Scheduled),
        }
    }
    fn wait_base(&mut self, client: ClientId) -> Result<(), BaseRefused> {
        assert_eq!(client, ME);
        self.begin_base(true).map(|_| ())
    }
    fn wait_durable(
        &mut self,
        client: ClientId,
        local: bool,
        replicas: u64,
        patience: Patience,
    ) -> WaitDurable {
        assert_eq!(client, ME);
        self.log.push(format!("wait {local} {replicas} {patience:?}"));
        match (self.journal, patience) {
            (Journal::Off, _) if local => WaitDurable::NoJournal,
            (Journal::Busy, Patience::Ms(_) | Patience::Endless) => WaitDurable::Waiting,
            (Journal::Failed, _) => WaitDurable::Failed("no disk".to_string()),
            (journal, _) => {
                WaitDurable::Now { local: (journal == Journal::Idle).into(), replicas: 0 }
            }
        }
    }
    fn shutdown(&mut self, how: Shutdown) -> Result<(), String> {
        if how.force {
            self.log.push("shutdown".to_string());
            return Ok(());
        }
        Err("Errors trying to SHUTDOWN. Check logs.".to_string())
    }
    fn shutdown_abort(&mut self) -> bool {
        self.shutting_down
    }
    fn ended(&mut self, _: ClientId, spec: &'static CommandSpec, _: &[&[u8]], how: Ended) {
        if how != Ended::Replied {
            self.log.push(format!("{} {how:?}", spec.name));
        }
    }
    fn refused(&mut self, _: ClientId, text: &str) {
        let class = text.split(' ').next().unwrap_or_default();
        self.log.push(format!("error {class}"));
    }
}

struct Pair {
    session: Session,
    world: Scripted,
}

impl Pair {
    fn new() -> Pair {
        Pair { session: Session::new(ME), world: Scripted::default() }
    }

    fn step(&mut self, line: &str) -> (Next, String) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.step_args(&args)
    }

    fn step_args(&mut self, args: &[&[u8]]) -> (Next, String) {
        let next = self.session.execute(args, &mut self.world);
        let out = self.world.out.split();
        (next, String::from_utf8_lossy(&out).replace("\r\n", "~"))
    }

    /// The reply of a command that is over at once.
    fn say(&mut self, line: &str) -> String {
        let (next, out) = self.step(line);
        assert_eq!(next, Next::Done, "{line}");
        out
    }

    fn check(&mut self, script: &[(&str, &str)]) {
        for (line, want) in script {
            assert_eq!(self.say(line), *want, "{line}");
        }
    }

    fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.log)
    }

    fn decode3(&mut self, line: &str) -> Frame3 {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.session.execute(&args, &mut self.world);
        let out = self.world.out.split();
        let (frame, len) =
            redis_protocol::resp3::decode::complete::decode(&out).expect(line).expect(line);
        assert_eq!(len, out.len(), "{line}");
        frame
    }

    fn decode2(&mut self, line: &str) -> Frame2 {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.session.execute(&args, &mut self.world);
        let out = self.world.out.split();
        let (frame, len) = redis_protocol::resp2::decode::decode(&out).expect(line).expect(line);
        assert_eq!(len, out.len(), "{line}");
        frame
    }
}

// Connection.

#[test]
fn handshakes_of_clients_pass() {
    let mut pair = Pair::new();
    pair.check(&[
        ("PING", "+PONG~"),
        ("PING hi", "$2~hi~"),
        ("ECHO hi", "$2~hi~"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK~"),
        ("CLIENT SETINFO lib-ver 8.1.0", "+OK~"),
        ("CLIENT GETNAME", "$-1~"),
        ("CLIENT SETNAME w1", "+OK~"),
        ("CLIENT GETNAME", "$2~w1~"),
        ("CLIENT ID", ":7~"),
        ("SELECT 9", "+OK~"),
        (
            "HELLO",
            "*14~$6~server~$5~redis~$7~version~$5~7.2.4~$5~proto~:2~$2~id~:7~$4~mode~$10~standalone~$4~role~$6~master~$7~modules~*0~",
        ),
        (
            "HELLO 3 AUTH default x SETNAME w2",
            "%7~$6~server~$5~redis~$7~version~$5~7.2.4~$5~proto~:3~$2~id~:7~$4~mode~$10~standalone~$4~role~$6~master~$7~modules~*0~",
        ),
        ("CLIENT GETNAME", "$2~w2~"),
        ("GET __Booksleeve_TieBreak", "_~"),
        ("ACL WHOAMI", "$7~default~"),
        ("CLIENT GETREDIR", ":-1~"),
        ("CLIENT TRACKINGINFO", "%3~$5~flags~~1~$3~off~$8~redirect~:-1~$8~prefixes~*0~"),
        ("INFO", "=18~txt:# Sections 0~~"),
        ("MODULE LIST", "*0~"),
        ("LATENCY HISTOGRAM", "%0~"),
    ]);
    let facts = pair.session.facts();
    assert_eq!((facts.db, facts.protocol), (Db(9), Protocol::Resp3));
    assert_eq!((facts.lib_name, facts.lib_version), (b"redis-py".to_vec(), b"8.1.0".to_vec()));
    assert_eq!(facts.command, "latency|histogram");
}

#[test]
fn a_failing_hello_changes_nothing() {
    let mut pair = Pair::new();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.~";
    pair.check(&[
        ("HELLO 3 SETNAME x AUTH nobody y", wrong),
        ("HELLO 3 SETNAME x FOO", "-ERR Syntax error in HELLO option 'FOO'~"),
        ("HELLO 4", "-NOPROTO unsupported protocol version~"),
        ("CLIENT GETNAME", "$-1~"),
        ("AUTH nobody x", wrong),
        ("AUTH default x", "+OK~"),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?~",
        ),
    ]);
    assert_eq!(pair.session.protocol(), Protocol::Resp2);
}

#[test]
fn reset_makes_new_but_for_the_library() {
    let mut pair = Pair::new();
    for line in ["HELLO 3 SETNAME w", "SELECT 5", "CLIENT SETINFO LIB-NAME l", "CLIENT NO-EVICT on"]
    {
        pair.say(line);
    }
    pair.check(&[("MULTI", "+OK~"), ("RESET", "+RESET~"), ("EXEC", "-ERR EXEC without MULTI~")]);
    let facts = pair.session.facts();
    assert_eq!((facts.db, facts.protocol, facts.no_evict), (Db(0), Protocol::Resp2, false));
    assert_eq!((facts.name, facts.lib_name), (vec![], b"l".to_vec()));
    assert!(pair.log().contains(&"release".to_string()));
}

#[test]
fn quit_closes_also_inside_multi() {
    let mut pair = Pair::new();
    pair.say("MULTI");
    assert_eq!(pair.step("QUIT"), (Next::CloseAfterReply, "+OK~".to_string()));
}

#[test]
fn replies_are_muted_on_request() {
    let mut pair = Pair::new();
    pair.check(&[
        ("CLIENT REPLY SKIP", ""),
        ("PING", ""),
        ("PING", "+PONG~"),
        ("CLIENT REPLY SKIP", ""),
        ("CLIENT REPLY SKIP", ""),
        ("DELAY.LEN q", ""),
        ("DELAY.LEN q", ":1~"),
        ("CLIENT REPLY OFF", ""),
        ("PING", ""),
        ("NONSENSE", ""),
        ("CLIENT REPLY SKIP", ""),
        ("PING", ""),
        ("CLIENT REPLY ON", "+OK~"),
        ("PING", "+PONG~"),
        ("CLIENT REPLY OFF", ""),
        ("RESET", "+RESET~"),
        ("PING", "+PONG~"),
    ]);
}

/// The one reply that is skipped is that of a waiter, though it comes later.
#[test]
fn a_skipped_wait_stays_muted_until_the_next_command() {
    let mut pair = Pair::new();
    pair.say("CLIENT REPLY SKIP");
    pair.world.answers.push_back(Answer::Wait);
    assert_eq!(pair.step("DELAY.POP q 0").0, Next::Waiting);
    render(&Reply::Integer(5), &mut pair.world.encoder(ME));
    assert!(pair.world.out.is_empty());
    pair.check(&[("PING", "+PONG~")]);
}

/// What comes again in the next turn has used nothing up.
#[test]
fn again_has_no_effect() {
    let mut pair = Pair::new();
    pair.say("CLIENT REPLY SKIP");
    pair.world.answers.extend([Answer::Again, Answer::Again]);
    assert_eq!(pair.step("DELAY.LEN q"), (Next::Again, String::new()));
    assert_eq!(pair.step("DELAY.LEN q"), (Next::Again, String::new()));
    pair.check(&[("DELAY.LEN q", ""), ("PING", "+PONG~")]);
    let log = pair.log();
    assert_eq!(log.iter().filter(|line| *line == "delay.len Again").count(), 2);
}

// Dispatch and errors.

#[test]
fn unknown_commands_are_answered_as_by_redis() {
    let mut pair = Pair::new();
    pair.check(&[
        ("foo a b", "-ERR unknown command 'foo', with args beginning with: 'a' 'b' ~"),
        ("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.~"),
        ("DELAY.ADD q", "-ERR wrong number of arguments for 'delay.add' command~"),
        ("ZADD q 1 x", "-ERR unknown command 'ZADD', with args beginning with: 'q' '1' 'x' ~"),
    ]);
    let (_, out) = pair.step_args(&[b"a\r\nb", b"c\nd\xff"]);
    assert_eq!(out, "-ERR unknown command 'a  b', with args beginning with: 'c d\u{fffd}' ~");
    // Wrong arity counts for the command.
    let error = "error ERR";
    let expected = [error, error, error, "delay.add Rejected", error, error];
    assert_eq!(pair.log(), expected);
}

#[test]
fn oversized_arguments_are_refused_and_spoil_a_transaction() {
    let mut pair = Pair::new();
    let args: [&[u8]; 4] = [b"delay.add", b"q", b"0", b""];
    let max = 16 << 20;
    assert_eq!(pair.session.refuse_oversized(&args, max + 1, max, &mut pair.world), Next::Done);
    assert_eq!(
        &pair.world.out.split()[..],
        b"-ERR an argument of 'delay.add' has 16777217 bytes; max-body-size is 16777216\r\n"
    );
    pair.say("MULTI");
    pair.session.refuse_oversized(&args, max + 1, max, &mut pair.world);
    pair.world.out.clear();
    let aborted = "-EXECABORT Transaction discarded because of previous errors.~";
    pair.check(&[("EXEC", aborted), ("PING", "+PONG~")]);
}

// Transactions.

#[test]
fn transactions_run_as_one_step() {
    let mut pair = Pair::new();
    pair.check(&[
        ("MULTI", "+OK~"),
        ("MULTI", "-ERR MULTI calls can not be nested~"),
        ("DELAY.ADD q 0 x", "+QUEUED~"),
        ("DELAY.ADD q soon x", "+QUEUED~"),
        ("DELAY.POP q 0", "+QUEUED~"),
        ("SELECT 3", "+QUEUED~"),
        ("DELAY.LEN q", "+QUEUED~"),
        ("PING", "+QUEUED~"),
        ("RANDOMKEY", "+QUEUED~"),
    ]);
    assert_eq!(pair.session.facts().multi_count, Some(7));
    assert_eq!(pair.log(), ["error ERR", "multi Failed"]);
    let out = pair.say("EXEC");
    let (head, rest) = out.split_at(7);
    assert_eq!(head, "*7~:1~-");
    assert!(rest.starts_with("ERR when 'soon'"), "{out}");
    assert!(rest.ends_with("~:1~+OK~:1~+PONG~:1~"), "{out}");
    assert_eq!(
        pair.log(),
        [
            "begin Add Pop Len@3 RandomQueue",
            "inside Add",
            "error ERR",
            "delay.add Failed",
            "inside Pop",
            "inside Len@3",
            "inside RandomQueue",
            "end"
        ]
    );
    assert_eq!((pair.session.facts().multi_count, pair.session.db()), (None, Db(3)));
    pair.check(&[("MULTI", "+OK~"), ("EXEC", "*0~")]);
}

#[test]
fn errors_while_queueing_abort() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.~";
    for broken in ["foo", "GET", "CLIENT FOO", "SHUTDOWN ABORT", "CLIENT REPLY OFF"] {
        let mut pair = Pair::new();
        pair.say("MULTI");
        assert!(pair.say(broken).starts_with("-ERR "), "{broken}");
        pair.check(&[("DELAY.ADD q 0 x", "+QUEUED~"), ("EXEC", aborted), ("PING", "+PONG~")]);
        assert!(!pair.log().contains(&"inside Add".to_string()));
    }
    let mut pair = Pair::new();
    let arity = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command~";
    pair.check(&[
        ("EXEC", "-ERR EXEC without MULTI~"),
        ("DISCARD", "-ERR DISCARD without MULTI~"),
        ("EXEC a", arity),
        ("MULTI", "+OK~"),
        ("PING", "+QUEUED~"),
        ("DISCARD", "+OK~"),
        ("EXEC", "-ERR EXEC without MULTI~"),
        ("MULTI", "+OK~"),
        ("SHUTDOWN FORCE", "-ERR Command not allowed inside a transaction~"),
    ]);
}

/// EXEC comes again until all is ready for it, and only then shows anything.
#[test]
fn exec_comes_again_until_it_may_begin() {
    let mut pair = Pair::new();
    pair.check(&[("MULTI", "+OK~"), ("DELAY.LEN a", "+QUEUED~"), ("TYPE b", "+QUEUED~")]);
    pair.world.begun.extend([Begun::Again, Begun::Again]);
    assert_eq!(pair.step("EXEC"), (Next::Again, String::new()));
    assert_eq!(pair.log(), ["begin Len Exists", "exec Again"]);
    assert_eq!(pair.step("EXEC"), (Next::Again, String::new()));
    assert_eq!(pair.session.facts().multi_count, Some(2));
    pair.log();
    pair.check(&[("EXEC", "*2~:1~+none~")]);
    assert_eq!(pair.log(), ["begin Len Exists", "inside Len", "end"]);
}

/// What a transaction needs and lacks is found before its first command.
#[test]
fn exec_is_refused_as_a_whole() {
    let oom = || Error::OutOfMemory { used: 9, max: 8 };
    let mut pair = Pair::new();
    pair.check(&[("MULTI", "+OK~"), ("LPOP src", "+QUEUED~"), ("RPUSH dst x", "+QUEUED~")]);
    pair.world.begun.push_back(Begun::Refused(oom()));
    let out = pair.say("EXEC");
    assert!(out.starts_with("-EXECABORT Transaction discarded because of: OOM command"), "{out}");
    assert!(!pair.log().iter().any(|line| line.starts_with("inside")));
    pair.check(&[("EXEC", "-ERR EXEC without MULTI~"), ("MULTI", "+OK~")]);

    pair.world.refusal = Some(oom());
    assert!(pair.say("RPUSH dst x").starts_with("-OOM "));
    let aborted = "-EXECABORT Transaction discarded because of previous errors.~";
    // What changes nothing is not asked about.
    pair.check(&[("DELAY.LEN q", "+QUEUED~"), ("EXEC", aborted)]);
}

/// A full queue in which an earlier command makes room is looked at when all are together; any other
/// one refuses at once.
#[test]
fn a_full_queue_refuses_when_queued_unless_room_may_be_made() {
    let refusal = Some(Error::Full { queue: Shown::new(b"dst"), jobs: 1, max: 1 });
    let makes_room = ["LPOP dst", "DELAY.DEL dst x", "FLUSHALL", "DELAY.RESUME dst", "DEL a dst"];
    for line in makes_room {
        let mut pair = Pair::new();
        pair.check(&[("MULTI", "+OK~"), (line, "+QUEUED~")]);
        pair.world.refusal.clone_from(&refusal);
        pair.check(&[("RPUSH dst x", "+QUEUED~"), ("SELECT 1", "+QUEUED~")]);
        let other = pair.say("RPUSH dst x");
        assert_eq!(other == "+QUEUED~", line == "FLUSHALL", "{line}: {other}");
    }
    for line in ["LPOP src", "DELAY.LEN dst", "LRANGE dst 0 -1", "RPUSH dst x", "PING"] {
        let mut pair = Pair::new();
        pair.check(&[("MULTI", "+OK~"), (line, "+QUEUED~")]);
        pair.world.refusal.clone_from(&refusal);
        assert!(pair.say("RPUSH dst x").starts_with("-FULL "), "{line}");
    }
}

/// What is watched is looked at where the transaction begins, and forgotten with EXEC.
#[test]
fn exec_looks_at_what_is_watched() {
    let mut pair = Pair::new();
    pair.check(&[("WATCH a b a", "+OK~"), ("SELECT 2", "+OK~"), ("WATCH a", "+OK~")]);
    assert_eq!(pair.session.facts().watched_count, 3);
    assert!(pair.session.memory_bytes() > 3 * 48);
    let stamped: Vec<String> =
        pair.log().into_iter().filter(|line| line.starts_with("stamp")).collect();
    assert_eq!(stamped, ["stamp 0/a", "stamp 0/b", "stamp 2/a"]);
    pair.check(&[("MULTI", "+OK~"), ("PING", "+QUEUED~"), ("DELAY.LEN q", "+QUEUED~")]);
    pair.world.begun.extend([Begun::Again, Begun::Changed]);
    assert_eq!(pair.step("EXEC"), (Next::Again, String::new()));
    assert!(pair.log().contains(&"watched 3".to_string()));
    assert_eq!(pair.session.facts().watched_count, 3);
    pair.check(&[("EXEC", "*-1~"), ("EXEC", "-ERR EXEC without MULTI~")]);
    assert_eq!((pair.session.facts().watched_count, pair.session.memory_bytes()), (0, 0));
    assert!(!pair.log().iter().any(|line| line.starts_with("inside")));
    pair.check(&[("WATCH a", "+OK~"), ("MULTI", "+OK~"), ("PING", "+QUEUED~")]);
    pair.check(&[("EXEC", "*1~+PONG~")]);
    assert_eq!(pair.session.facts().watched_count, 0);
}

#[test]
fn what_ends_a_transaction_ends_watching() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.~";
    let cases: [(&[&str], usize); 7] = [
        (&["UNWATCH"], 0),
        (&["MULTI", "DISCARD"], 0),
        (&["MULTI", "EXEC"], 0),
        (&["MULTI", "NOSUCH", "EXEC"], 0),
        (&["MULTI", "EXEC now"], 0),
        (&["RESET"], 0),
        (&["EXEC", "DISCARD", "MULTI", "UNWATCH", "WATCH b", "WATCH"], 1),
    ];
    for (lines, left) in cases {
        let mut pair = Pair::new();
        pair.check(&[("WATCH a", "+OK~")]);
        let said: Vec<String> = lines.iter().map(|line| pair.say(line)).collect();
        assert_eq!(pair.session.facts().watched_count, left, "{lines:?}: {said:?}");
        let told = pair.log().into_iter().rfind(|line| line.starts_with("watching"));
        assert_eq!(told, Some(format!("watching {}", left > 0)), "{lines:?}");
    }
    let mut pair = Pair::new();
    pair.check(&[
        ("MULTI", "+OK~"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed~"),
        ("UNWATCH", "+QUEUED~"),
        // That did not spoil it.
        ("EXEC", "*1~+OK~"),
        ("MULTI", "+OK~"),
        ("WATCH", "-ERR wrong number of arguments for 'watch' command~"),
        ("EXEC", aborted),
    ]);
}

#[test]
fn so_many_queues_are_watched_and_no_more() {
    let mut pair = Pair::new();
    let names: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    pair.check(&[(&format!("WATCH {}", names.join(" ")), "+OK~"), ("WATCH 7 8 9", "+OK~")]);
    let refusal = "-ERR a connection watches at most 10000 queues, not 10001~";
    pair.check(&[("WATCH 7 x", refusal)]);
    assert_eq!(pair.session.facts().watched_count, 10_000);
}

#[test]
fn transactions_have_limits() {
    let mut pair = Pair::new();
    pair.say("MULTI");
    for _ in 0..TRANSACTION_COMMANDS_MAX {
        assert_eq!(pair.say("PING"), "+QUEUED~");
    }
    pair.check(&[
        ("PING", "-ERR a transaction holds at most 10000 commands~"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.~"),
        ("MULTI", "+OK~"),
    ]);
    let body = vec![b'x'; 16 << 20];
    let args: [&[u8]; 4] = [b"DELAY.ADD", b"q", b"0", &body];
    for _ in 0..3 {
        assert_eq!(pair.step_args(&args).1, "+QUEUED~");
    }
    assert!(pair.session.memory_bytes() > 3 * body.len());
    assert_eq!(pair.step_args(&args).1, "-ERR a transaction holds at most 67108864 bytes~");
    assert_eq!(pair.session.memory_bytes(), 0, "what will never run is not kept");
    const { assert!(4 * (16 << 20) <= TRANSACTION_BYTES_MAX) }
}

// Other connections.

fn other(id: u64, addr: &str) -> ClientLine {
    let socket = SocketFacts {
        addr: addr.to_string(),
        laddr: "2.2.2.2:6379".to_string(),
        fd: 9,
        age_s: 60,
        idle_s: 4,
        waiting: true,
        readable: true,
        ..SocketFacts::default()
    };
    ClientLine { session: Session::new(ClientId(id)).facts(), socket }
}

#[test]
fn connections_are_listed_as_by_redis() {
    let mut pair = Pair::new();
    pair.world.others = vec![other(8, "1.1.1.1:8"), other(9, "1.1.1.1:9")];
    pair.say("SELECT 4");
    let list = pair.say("CLIENT LIST ID 8");
    assert_eq!(
        list,
        "$263~id=8 addr=1.1.1.1:8 laddr=2.2.2.2:6379 fd=9 name= age=60 idle=4 flags=b db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=default redir=-1 resp=2 lib-name= lib-ver=\n~"
    );
    assert_eq!(pair.say("CLIENT LIST").matches("\n").count(), 3);
    assert_eq!(pair.say("CLIENT LIST TYPE pubsub"), "$0~~");
    let own = pair.say("CLIENT INFO");
    assert!(own.contains("id=7 ") && own.contains(" db=4 ") && own.contains(" cmd=client|info "));
}

#[test]
fn connections_are_killed_by_filter() {
    let mut pair = Pair::new();
    pair.world.others = vec![other(8, "1.1.1.1:8"), other(9, "1.1.1.1:9")];
    pair.check(&[
        ("CLIENT KILL 1.1.1.1:8", "+OK~"),
        ("CLIENT KILL 1.1.1.1:5", "-ERR No such client~"),
        ("CLIENT KILL ID 9 LADDR 2.2.2.2:6379", ":1~"),
        ("CLIENT KILL ID 9 LADDR 2.2.2.2:1", ":0~"),
        ("CLIENT KILL TYPE normal", ":2~"),
        ("CLIENT KILL TYPE replica", ":0~"),
        ("CLIENT KILL MAXAGE 61", ":0~"),
        ("CLIENT KILL MAXAGE 60 ID 8", ":1~"),
        ("CLIENT KILL ID 7", ":0~"),
    ]);
    let log = pair.log();
    assert_eq!(
        log,
        ["kill 8", "error ERR", "client|kill Failed", "kill 9", "kill 8", "kill 9", "kill 8"]
    );
    let own = pair.step("CLIENT KILL ID 7 SKIPME no");
    assert_eq!(own, (Next::CloseAfterReply, ":1~".to_string()));
    let mut pair = Pair::new();
    assert_eq!(pair.step("CLIENT KILL 1.1.1.1:1"), (Next::CloseAfterReply, "+OK~".to_string()));
}

#[test]
fn waiting_connections_are_released() {
    let mut pair = Pair::new();
    pair.check(&[
        ("CLIENT UNBLOCK 8", ":1~"),
        ("CLIENT UNBLOCK 8 error", ":1~"),
        ("CLIENT UNBLOCK 9 TIMEOUT", ":0~"),
        ("CLIENT UNBLOCK -9", ":0~"),
        ("CLIENT UNBLOCK 7", ":0~"),
    ]);
    assert_eq!(pair.log(), ["unblock 8 Timeout", "unblock 8 Error", "unblock 9 Timeout"]);
}

// The server.

#[test]
fn settings_are_shown_and_changed() {
    let mut pair = Pair::new();
    pair.world.settings =
        [("databases", "16".to_string()), ("save", String::new()), ("timeout", "0".to_string())]
            .into();
    let failed = "-ERR CONFIG SET failed (possibly related to argument";
    pair.check(&[
        ("CONFIG GET databases", "*2~$9~databases~$2~16~"),
        ("CONFIG GET SA* s* nothing", "*2~$4~save~$0~~"),
        ("CONFIG GET nothing", "*0~"),
        ("CONFIG SET Timeout 5", "+OK~"),
        ("CONFIG SET foo 5", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'~"),
        ("CONFIG SET port 5", &format!("{failed} 'port') - can't set immutable config~")),
        ("CONFIG SET timeout 1 TIMEOUT 2", &format!("{failed} 'timeout') - duplicate parameter~")),
        ("CONFIG REWRITE", "-ERR The server is running without a config file~"),
        ("CONFIG RESETSTAT", "+OK~"),
        ("HELLO 3", &pair_hello()),
        ("CONFIG GET t*", "%1~$7~timeout~$1~0~"),
    ]);
}

fn pair_hello() -> String {
    Pair::new().say("HELLO 3")
}

#[test]
fn the_server_is_asked() {
    let mut pair = Pair::new();
    pair.check(&[
        ("INFO a b", "$14~# Sections 2~~"),
        ("TIME", "*2~$10~1800000000~$2~42~"),
        ("LASTSAVE", ":1800000000~"),
        ("ROLE", "*3~$6~master~:99~*0~"),
        ("WAIT 1 100", ":0~"),
        ("SLOWLOG LEN", ":1~"),
        ("SLOWLOG GET", "*1~*6~:3~:1800000000~:12000~*2~$4~keys~$1~*~$9~1.1.1.1:1~$1~w~"),
        ("SLOWLOG GET 0", "*0~"),
        ("SLOWLOG RESET", "+OK~"),
        ("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.~"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress.~"),
        ("SHUTDOWN FORCE NOW", ""),
        ("SCAN 0 TYPE hash", "*2~$1~0~*0~"),
    ]);
    pair.world.shutting_down = true;
    pair.check(&[("SHUTDOWN ABORT", "+OK~")]);
}

#[test]
fn bases_are_begun_scheduled_and_refused() {
    let mut pair = Pair::new();
    let none = "-ERR there is no journal to save to: appendonly is no, jobs are in memory only~";
    let failed = "-ERR no base can be written, as the journal has failed: no disk~";
    let running = "-ERR Background save already in progress~";
    let rewriting = "Background append only file rewriting";
    for (journal, answers) in [
        (Journal::Off, [none, none, none]),
        (Journal::Failed, [failed, failed, failed]),
        (
            Journal::Idle,
            [
                "+Background saving started~",
                "+Background saving started~",
                &format!("+{rewriting} started~"),
            ],
        ),
        (
            Journal::Busy,
            [
                running,
                "+Background saving scheduled~",
                &format!("-ERR {rewriting} already in progress~"),
            ],
        ),
    ] {
        pair.world.journal = journal;
        pair.check(&[
            ("BGSAVE", answers[0]),
            ("BGSAVE schedule", answers[1]),
            ("BGREWRITEAOF", answers[2]),
        ]);
    }
    pair.check(&[("BGSAVE now", "-ERR syntax error: unknown option 'now'~")]);
    pair.log();
    pair.world.journal = Journal::Off;
    pair.check(&[("SAVE", none)]);
    assert_eq!(pair.log(), ["begin base true", "error ERR", "save Failed"]);
    pair.world.journal = Journal::Busy;
    assert_eq!(pair.step("SAVE"), (Next::Waiting, String::new()));
    assert_eq!(pair.log(), ["begin base true", "save Waiting"]);
    let refused = "-ERR Command not allowed inside a transaction~";
    pair.check(&[("MULTI", "+OK~"), ("SAVE", refused)]);
}

#[test]
fn waitaof_waits_outside_of_a_transaction_only() {
    let mut pair = Pair::new();
    let off = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.~";
    pair.check(&[("WAITAOF 1 0 5", off), ("WAITAOF 0 0 5", "*2~:0~:0~")]);
    pair.world.journal = Journal::Idle;
    pair.check(&[("WAITAOF 1 0 0", "*2~:1~:0~"), ("HELLO 3", &pair_hello())]);
    pair.check(&[("WAITAOF 1 0 0", "*2~:1~:0~")]);
    pair.log();
    pair.world.journal = Journal::Busy;
    assert_eq!(pair.step("WAITAOF 1 2 50"), (Next::Waiting, String::new()));
    assert_eq!(pair.step("waitaof 0 1 0"), (Next::Waiting, String::new()));
    pair.check(&[("MULTI", "+OK~"), ("WAITAOF 1 3 0", "+QUEUED~"), ("EXEC", "*1~*2~:0~:0~")]);
    assert_eq!(
        pair.log(),
        [
            "wait true 2 Ms(50)",
            "waitaof Waiting",
            "wait false 1 Endless",
            "waitaof Waiting",
            "begin ",
            "wait true 3 None",
            "end"
        ]
    );
    pair.world.journal = Journal::Failed;
    let failed = "-MISCONF the journal failed: no disk; nothing is acknowledged until a restart~";
    pair.check(&[("WAITAOF 1 0 0", failed)]);
}

/// The flags are Redis's: what they allow runs, all else is refused before it is parsed or queued.
#[test]
fn while_the_journal_is_read_only_some_commands_run() {
    let loading = "-LOADING delayd is loading the journal into memory~";
    let mut pair = Pair::new();
    pair.world.loading = true;
    let may_not = ["delay.add", "delay.pop", "del", "keys", "ping", "wait", "waitaof", "save"];
    let may = ["echo", "info", "config|get", "client|id", "multi", "exec", "hello", "shutdown"];
    for spec in delayd::command::table::all_with_subcommands() {
        let word = spec.name;
        let runs = spec.flags.contains(&Flag::Loading);
        assert!(runs || !may.contains(&word), "{word}");
        assert!(!runs || !may_not.contains(&word), "{word}");
        if runs || spec.parse.is_none() {
            continue;
        }
        let mut words: Vec<&[u8]> = word.split('|').map(str::as_bytes).collect();
        words.resize(words.len().max(spec.arity().unsigned_abs() as usize), b"x");
        let (next, out) = pair.step_args(&words);
        assert_eq!((next, out.as_str()), (Next::Done, loading), "{word}");
        assert_eq!(pair.log(), ["error LOADING".to_string(), format!("{word} Rejected")]);
    }
    let aborted = "-EXECABORT Transaction discarded because of previous errors.~";
    pair.check(&[
        ("DELAY.LEN", "-ERR wrong number of arguments for 'delay.len' command~"),
        ("ECHO hi", "$2~hi~"),
        ("MULTI", "+OK~"),
        ("DELAY.LEN q", loading),
        ("ECHO hi", "+QUEUED~"),
        ("EXEC", aborted),
        ("MULTI", "+OK~"),
        ("ECHO hi", "+QUEUED~"),
        ("EXEC", "*1~$2~hi~"),
        ("HELLO 3", &pair_hello()),
        ("DELAY.LEN q", loading),
        ("RESET", "+RESET~"),
    ]);
    pair.world.loading = false;
    pair.check(&[("DELAY.LEN q", ":1~"), ("PING", "+PONG~")]);
}

#[test]
fn keys_of_any_type_are_asked_about() {
    let mut pair = Pair::new();
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value~";
    pair.check(&[
        ("TYPE q", "+none~"),
        ("TTL q", ":-2~"),
        ("PERSIST q", ":0~"),
        ("OBJECT ENCODING q", "$-1~"),
        ("OBJECT FREQ q", "$-1~"),
        ("STRLEN q", ":0~"),
        ("GET q", "$-1~"),
    ]);
    pair.world.exists = true;
    pair.check(&[
        ("TYPE q", "+list~"),
        ("PEXPIRETIME q", ":-1~"),
        ("PERSIST q", ":0~"),
        ("OBJECT ENCODING q", "$10~delayqueue~"),
        ("OBJECT IDLETIME q", ":0~"),
        ("OBJECT REFCOUNT q", ":1~"),
        ("HLEN q", wrong),
        ("GET q", wrong),
    ]);
    assert!(pair.say("OBJECT FREQ q").starts_with("-ERR An LFU"));
}

// COMMAND.

fn text3(frame: &Frame3) -> String {
    match frame {
        Frame3::BlobString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        other => panic!("a bulk string, not {other:?}"),
    }
}

fn map3(frame: &Frame3) -> BTreeMap<String, Frame3> {
    let Frame3::Map { data, .. } = frame else { panic!("a map, not {frame:?}") };
    let data: &FrameMap<Frame3, Frame3> = data;
    data.iter().map(|(key, value)| (text3(key), value.clone())).collect()
}

fn statuses(frame: &Frame3) -> Vec<String> {
    let Frame3::Set { data, .. } = frame else { panic!("a set, not {frame:?}") };
    let mut words: Vec<String> = data
        .iter()
        .map(|frame| match frame {
            Frame3::SimpleString { data, .. } => String::from_utf8_lossy(data).into_owned(),
            other => panic!("a status, not {other:?}"),
        })
        .collect();
    words.sort();
    words
}

fn check_docs(docs: &Frame3) -> usize {
    let mut count = 0;
    for (name, doc) in map3(docs) {
        let doc = map3(&doc);
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!text3(&doc[field]).is_empty(), "{name} {field}");
        }
        if let Some(arguments) = doc.get("arguments") {
            check_arguments(&name, arguments);
        }
        count += 1 + doc.get("subcommands").map_or(0, check_docs);
    }
    count
}

fn check_arguments(name: &str, arguments: &Frame3) {
    let Frame3::Array { data, .. } = arguments else { panic!("{name}: {arguments:?}") };
    for argument in data {
        let argument = map3(argument);
        let kind = text3(&argument["type"]);
        assert!(!text3(&argument["name"]).is_empty());
        if let Some(flags) = argument.get("flags") {
            let flags = statuses(flags);
            assert!(flags.iter().all(|flag| flag == "optional" || flag == "multiple"));
        }
        assert_eq!(kind == "key", argument.contains_key("key_spec_index"), "{name}");
        let group = kind == "oneof" || kind == "block";
        assert_eq!(group, argument.contains_key("arguments"), "{name}");
        if let Some(members) = argument.get("arguments") {
            check_arguments(name, members);
        }
    }
}

#[test]
fn command_docs_have_the_types_that_redis_cli_asserts() {
    let mut pair = Pair::new();
    pair.say("HELLO 3");
    let all = delayd::command::table::all_with_subcommands().count();
    assert_eq!(check_docs(&pair.decode3("COMMAND DOCS")), all);
    let one = map3(&pair.decode3("COMMAND DOCS delay.len nothing client|kill"));
    assert_eq!(one.keys().collect::<Vec<_>>(), ["client|kill", "delay.len"]);
    pair.say("RESET");
    // In RESP2 the same flat: a name and its fields in turn.
    let Frame2::Array(flat) = pair.decode2("COMMAND DOCS delay.len") else { panic!() };
    assert_eq!(flat[0], Frame2::BulkString(b"delay.len".to_vec()));
    let Frame2::Array(doc) = &flat[1] else { panic!() };
    assert_eq!(doc[0], Frame2::BulkString(b"summary".to_vec()));
    assert_eq!((flat.len(), doc.len()), (2, 10));
}

#[test]
fn command_info_has_ten_elements() {
    let mut pair = Pair::new();
    pair.check(&[
        (
            "COMMAND INFO delay.pop nothing",
            "*2~*10~$9~delay.pop~:-3~*3~+write~+blocking~+noscript~:1~:-2~:1~*4~+@delay~+@write~+@slow~+@blocking~*0~*1~*6~$5~flags~*3~+RW~+access~+delete~$12~begin_search~*4~$4~type~$5~index~$4~spec~*2~$5~index~:1~$9~find_keys~*4~$4~type~$5~range~$4~spec~*6~$7~lastkey~:-2~$7~keystep~:1~$5~limit~:0~*0~$-1~",
        ),
        (
            "COMMAND INFO memory|usage",
            "*1~*10~$12~memory|usage~:-3~*1~+readonly~:2~:2~:1~*2~+@read~+@slow~*0~*1~*6~$5~flags~*1~+RO~$12~begin_search~*4~$4~type~$5~index~$4~spec~*2~$5~index~:2~$9~find_keys~*4~$4~type~$5~range~$4~spec~*6~$7~lastkey~:0~$7~keystep~:1~$5~limit~:0~*0~",
        ),
        (
            "COMMAND INFO client|kill",
            "*1~*10~$11~client|kill~:-3~*4~+admin~+noscript~+loading~+stale~:0~:0~:0~*4~+@connection~+@slow~+@admin~+@dangerous~*0~*0~*0~",
        ),
    ]);
    let hello = pair_hello();
    pair.check(&[
        ("HELLO 3", &hello),
        (
            "COMMAND INFO delay.reserve",
            "*1~*10~$13~delay.reserve~:-4~~4~+write~+blocking~+noscript~+movablekeys~:0~:0~:0~~4~+@delay~+@write~+@slow~+@blocking~~0~~1~%3~$5~flags~~3~+RW~+access~+delete~$12~begin_search~%2~$4~type~$5~index~$4~spec~%1~$5~index~:2~$9~find_keys~%2~$4~type~$6~keynum~$4~spec~%3~$9~keynumidx~:0~$8~firstkey~:1~$7~keystep~:1~~0~",
        ),
    ]);
    // In RESP2, as the key specifications are a set of maps in RESP3, which this decoder refuses.
    pair.say("RESET");
    let Frame2::Array(all) = pair.decode2("COMMAND") else { panic!() };
    let count = format!(":{}~", all.len());
    assert!(all.iter().all(|info| matches!(info, Frame2::Array(info) if info.len() == 10)));
    pair.check(&[("COMMAND COUNT", &count)]);
}

#[test]
fn commands_are_listed_and_their_keys_found() {
    let mut pair = Pair::new();
    pair.check(&[
        (
            "COMMAND LIST FILTERBY PATTERN delay.res[ce]*",
            "*2~$13~delay.reserve~$16~delay.reschedule~",
        ),
        (
            "COMMAND LIST FILTERBY ACLCAT TRANSACTION",
            "*5~$7~discard~$4~exec~$5~multi~$7~unwatch~$5~watch~",
        ),
        ("COMMAND LIST FILTERBY ACLCAT nothing", "*0~"),
        ("COMMAND LIST FILTERBY MODULE x", "*0~"),
        ("COMMAND GETKEYS DELAY.RESERVE 0 2 a b", "*2~$1~a~$1~b~"),
        ("COMMAND GETKEYS DELAY.RESERVE 0 3 a b", "-ERR Invalid arguments specified for command~"),
        ("COMMAND GETKEYS PING", "-ERR The command has no key arguments~"),
        ("COMMAND GETKEYS nothing", "-ERR Invalid command specified~"),
        ("COMMAND GETKEYS DEL", "-ERR Invalid number of arguments specified for command~"),
        ("COMMAND DOCS nothing", "*0~"),
    ]);
    let help = pair.say("SLOWLOG HELP");
    assert!(
        help.starts_with("*9~+SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:~")
    );
    assert!(help.contains("~+GET [count]~+    Shows the newest entries.~"), "{help}");
}

proptest! {
    /// Whatever words come, each command is answered once and nothing panics.
    #[test]
    fn any_words_are_answered(
        at in any::<prop::sample::Index>(),
        words in prop::collection::vec(
            prop_oneof![
                "[-@0-9smhdw:.~,]{0,24}".prop_map(String::into_bytes),
                "(ID|NX|COUNT|TYPE|AUTH|ON|MATCH|IN|FILTERBY|LIB-NAME|exp:1s:)".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..700),
            ],
            0..8,
        ),
    ) {
        let specs: Vec<&CommandSpec> = delayd::command::table::all_with_subcommands().collect();
        let mut args: Vec<&[u8]> =
            specs[at.index(specs.len())].name.split('|').map(str::as_bytes).collect();
        args.extend(words.iter().map(Vec::as_slice));
        let mut pair = Pair::new();
        pair.session.execute(&args, &mut pair.world);
        let out = pair.world.out.split();
        // SUBSCRIBE and its kin confirm each name.
        let confirms = args[0].ends_with(b"subscribe");
        // A name that is not UTF-8 may stand in an error; this decoder wants none there.
        if !confirms && out.is_ascii() && !pair.world.muted && !out.is_empty() && !out.starts_with(b"%") {
            let decoded = redis_protocol::resp3::decode::complete::decode(&out);
            if let Ok(Some((_, len))) = decoded {
                prop_assert_eq!(len, out.len());
            }
        }
        let mut pair = Pair::new();
        pair.say("MULTI");
        pair.session.execute(&args, &mut pair.world);
        pair.step("EXEC");
    }
}
