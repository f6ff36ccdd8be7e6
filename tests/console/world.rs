//! Servers in virtual time with something to look at, and those who look.

use crate::support::cluster_view::view_of;
use bytes::{Bytes, BytesMut};
use delayd::cluster::raft::member::Role;
use delayd::config::Config;
use delayd::console::pages::forecast;
use delayd::console::site::client::encode;
use delayd::console::view::chrome::{ActionResult, May, PageFrame, ServerState};
use delayd::console::words::escape;
use delayd::console::words::reply::{self, ReplyScan};
use delayd::console::words::value::{Command, Value};
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::time::{Micros, Millis};

/// 2030-01-01T00:00:00Z.
const START_MS: u64 = 1_893_456_000_000;

/// Markup, quotes, what turns text around, what is no UTF-8 and line breaks: 512 bytes in all.
pub fn hostile_name() -> Vec<u8> {
    let mut name = b"<script>alert('1')</script>\" onclick=\"x&amp;\xe2\x80\xae\xff\n".to_vec();
    name.resize(512, b'x');
    name
}

/// The same for a schedule, whose name is shorter.
pub fn hostile_schedule() -> Vec<u8> {
    hostile_name()[..480].to_vec()
}

/// The same, shorter, for what is to be read in an error.
pub const HOSTILE_WORD: &[u8] = b"\"><img/src=x/onerror=alert(1)>\xe2\x80\xae";

/// Markup and more over several lines.
pub const HOSTILE_TEXT: &[u8] =
    b"</code></pre><script>alert(1)</script>\n\t\"'&lt;\xe2\x80\xaegpj\xff\xfe\0\x1b[31m ${x} {{y}}";

/// A command of words, or of any bytes.
macro_rules! words {
    ($($word:expr),+ $(,)?) => {
        vec![$(bytes::Bytes::copy_from_slice(AsRef::<[u8]>::as_ref(&$word))),+]
    };
}

pub(crate) use words;

/// A server, who works with it, and who looks at it.
pub struct World {
    server: InMemory,
    worker: FarEnd,
    /// Clients that are only there.
    others: Vec<FarEnd>,
}

/// Somebody with a session.
pub struct Viewer {
    wire: FarEnd,
    frame: PageFrame,
}

impl World {
    /// Nobody has done anything.
    pub fn empty() -> World {
        let mut config = Config::default();
        config.set("appendonly", &["no".to_owned()]).expect("it takes no");
        let mut server = InMemory::new(config, Millis(START_MS));
        let worker = server.connect_resp3();
        World { server, worker, others: Vec::new() }
    }

    /// A job in each state, a queue that nobody serves, one that is paused, two schedules.
    pub fn usual() -> World {
        let mut world = World::empty();
        world.say("CLIENT SETNAME worker-1");
        world.say("CONFIG SET slowlog-log-slower-than 0");
        world.say("DELAY.CONFIG SET emails lease 30s attempts 2");
        world.run(words![
            "DELAY.ADD",
            "emails",
            "5m",
            r#"{"to":"ada@example.org","n":1204}"#,
            "ID",
            "welcome-1",
            "GROUP",
            "<i>acme</i>",
            "META",
            "2",
            "tenant",
            "<acme>",
            "trace",
            ""
        ]);
        world.say("DELAY.ADD emails 40m plain ID welcome-2 PRIORITY 3");
        world.say("DELAY.ADD emails 0s <ul><li>1</li></ul> ID letter-1");
        world.say("DELAY.RESERVE NOWAIT 1 emails");
        world.say("DELAY.ADD payments 0s 17.20 ID card-1");
        let lease = world.reserve("payments");
        world.run(words![
            "DELAY.NACK", "payments", "card-1", lease, "BURY", "ERROR", "no such customer"
        ]);
        world.say("CONFIG SET slowlog-log-slower-than 10000");
        world.say("DELAY.ADD emails 0s letter ID letter-2");
        world.say("DELAY.ADD imports 0s row ID row-1");
        world.say("DELAY.ADD calm 1h later ID later-1");
        world.say("DELAY.PAUSE calm OUT");
        world.run(words!["DELAY.SCHEDULE", "SET", "poll", "bank", "{}", "EVERY", "5m"]);
        world.run(words![
            "DELAY.SCHEDULE", "SET", "reports", "daily", "build", "CRON", "0 8 * * 1-5", "TZ",
            "Europe/Berlin"
        ]);
        world.say("DELAY.SCHEDULE PAUSE reports daily");
        let waiting = world.server.connect_resp3();
        waiting.send(b"CLIENT SETNAME waiter\r\nDELAY.RESERVE 0 1 waited\r\n");
        world.others.push(waiting);
        world.server.run();
        world.server.go_to(Micros((START_MS + 12_000) * 1_000));
        world
    }

    /// More than a page holds of everything.
    pub fn much() -> World {
        let mut world = World::empty();
        let mut all = Vec::new();
        for n in 0..120 {
            let queue = format!("queue-{n:03}");
            all.push(words!["DELAY.ADD", queue, format!("{}s", 30 + 25 * n), "body", "ID", "one"]);
            if n < 60 {
                let name = format!("every-{n}");
                all.push(words!["DELAY.SCHEDULE", "SET", queue, name, "", "EVERY", "1m"]);
            }
        }
        for n in 0..2_500 {
            all.push(words!["DELAY.ADD", "many", "0s", "body", "ID", format!("job-{n:04}")]);
        }
        for n in 0..1_300 {
            all.push(words![
                "DELAY.ADD",
                "many",
                format!("{n}s"),
                "body",
                "ID",
                format!("later-{n:04}")
            ]);
        }
        for n in 0..60 {
            all.push(words!["DELAY.ADD", "died", "0s", "body", "ID", format!("dead-{n:02}")]);
        }
        world.run_all(&all);
        for n in 0..60 {
            let lease = world.reserve("died");
            let error = format!("status {}", 500 + n % 3);
            world.run(words![
                "DELAY.NACK",
                "died",
                format!("dead-{n:02}"),
                lease,
                "BURY",
                "ERROR",
                error
            ]);
        }
        for _ in 0..60 {
            world.reserve("many");
        }
        let large = vec![b'x'; 300 << 10];
        world.run(words!["DELAY.ADD", "large", "1d", large, "ID", "large-1"]);
        for _ in 0..110 {
            let other = world.server.connect_resp3();
            world.others.push(other);
        }
        world.server.go_to(Micros((START_MS + 20_000) * 1_000));
        world
    }

    /// All that comes from outside is meant to break the page.
    pub fn hostile() -> World {
        let mut world = World::empty();
        let name = hostile_name();
        world.run(words!["CLIENT", "SETNAME", "<script>alert(1)</script>"]);
        world.run(words!["ACL", "SETUSER", HOSTILE_WORD, "on", "nopass", "~*", "&*", "+@all"]);
        world.run(words!["DELAY.ADD", name, "5m", HOSTILE_TEXT, "ID", name]);
        world.run(words!["DELAY.ADD", name, "0s", HOSTILE_TEXT, "ID", HOSTILE_WORD]);
        world.run(words!["DELAY.ADD", HOSTILE_WORD, "0s", b"\xff\xfe<b>", "ID", HOSTILE_WORD]);
        let lease = world.reserve(HOSTILE_WORD);
        world.run(words![
            "DELAY.NACK", HOSTILE_WORD, HOSTILE_WORD, lease, "BURY", "ERROR", HOSTILE_TEXT
        ]);
        world.run(words!["DELAY.ADD", HOSTILE_WORD, "0s", HOSTILE_TEXT, "ID", "<b>"]);
        world.reserve(HOSTILE_WORD);
        world.run(words![
            "DELAY.SCHEDULE",
            "SET",
            name,
            hostile_schedule(),
            HOSTILE_TEXT,
            "EVERY",
            "5m"
        ]);
        world.run(words!["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        world.run(words!["DELAY.STATS", name]);
        world.run(words!["CONFIG", "SET", "slowlog-log-slower-than", "10000"]);
        world.run_all(&[words!["AUTH", HOSTILE_WORD, "x"], words!["AUTH", HOSTILE_TEXT, "x"]]);
        world.server.go_to(Micros((START_MS + 12_000) * 1_000));
        world
    }

    /// From here on another node leads; only those who come now see it.
    pub fn follow(&mut self) {
        let view = view_of("follower").expect("there is one");
        self.server.join(Role::Follower { leader: Some(2) }, true, view);
        self.server.run();
    }

    fn say(&mut self, command: &str) {
        self.run(command.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect());
    }

    /// Leases the next job; the lease's token.
    fn reserve(&mut self, queue: impl AsRef<[u8]>) -> String {
        let replies = self.run_all(&[words!["DELAY.RESERVE", "NOWAIT", "1", queue]]);
        let token = find_number(&replies[0]);
        token.unwrap_or_else(|| panic!("{replies:?}")).to_string()
    }

    fn run(&mut self, command: Command) {
        let reply = self.run_all(std::slice::from_ref(&command)).pop().expect("one");
        assert!(reply.error().is_none(), "{command:?}: {reply:?}");
    }

    fn run_all(&mut self, commands: &[Command]) -> Vec<Value> {
        ask(&mut self.server, &self.worker, commands)
    }

    fn now_ms(&self) -> u64 {
        self.server.now().0 / 1_000
    }

    /// Whoever may do everything.
    pub fn admin(&mut self) -> Viewer {
        let wire = self.server.connect_resp3();
        let replies = ask(&mut self.server, &wire, &May::ask(b"default"));
        let frame =
            PageFrame { may: May::read(&replies), user: b"default".to_vec(), ..self.frame() };
        Viewer { wire, frame }
    }

    /// Somebody whom every command is refused; nothing is to be changed by anybody.
    pub fn stranger(&mut self) -> Viewer {
        self.say("ACL SETUSER stranger on nopass ~nothing* -@all +hello +auth +acl|dryrun");
        let wire = self.server.connect_resp3();
        ask(&mut self.server, &wire, &[words!["AUTH", "stranger", "x"]]);
        let frame = PageFrame { readonly: true, user: b"stranger".to_vec(), ..self.frame() };
        Viewer { wire, frame }
    }

    /// As [`World::admin`], of a name to be shown with care, with a message that was made of such.
    pub fn attacker(&mut self) -> Viewer {
        let admin = self.admin();
        let text = String::from_utf8_lossy(HOSTILE_WORD).into_owned();
        let frame = PageFrame {
            user: HOSTILE_WORD.to_vec(),
            message: Some(ActionResult { fine: false, text: escape::text(HOSTILE_WORD) }),
            here: format!("/queue?name={text}"),
            redis_cli: "redis-cli -p 9248 --user '<i>'".to_owned(),
            ..admin.frame
        };
        Viewer { frame, ..admin }
    }

    fn frame(&self) -> PageFrame {
        PageFrame {
            now_ms: self.now_ms(),
            here: "/here?db=0".to_owned(),
            token: "TOKEN".to_owned(),
            redis_cli: "redis-cli -p 9248".to_owned(),
            ..PageFrame::default()
        }
    }

    /// Replies as the console keeps and shows them.
    pub fn ask(&mut self, viewer: &Viewer, commands: &[Command]) -> Vec<Value> {
        let now_ms = self.now_ms();
        let replies = ask(&mut self.server, &viewer.wire, commands);
        let kept = |(command, reply): (&Command, Value)| match &command[0][..] {
            b"DELAY.FORECAST" => forecast::kept(reply, now_ms, 1),
            _ => reply,
        };
        commands.iter().zip(replies).map(kept).collect()
    }

    /// What stands around a page for somebody.
    pub fn around(&mut self, viewer: &Viewer) -> PageFrame {
        let info = self.ask(viewer, &[words!["INFO", "everything"]]);
        let mut state = ServerState::read(&info[0]);
        if let Some(state) = &mut state {
            // What differs by machine and version.
            for (field, value) in [
                ("used_memory", "70000000"),
                ("used_memory_peak", "80000000"),
                ("used_memory_rss", "100000000"),
                ("total_system_memory", "8000000000"),
                ("delayd_version", "1.2.3"),
                ("tzdata_version", "2029z"),
            ] {
                let said = state.info.insert(field.to_owned(), value.to_owned());
                assert!(said.is_some(), "INFO has no {field}");
            }
        }
        PageFrame { state, ..viewer.frame.clone() }
    }
}

impl Viewer {
    /// The same, who may do nothing.
    pub fn without_rights(self) -> Viewer {
        Viewer { frame: PageFrame { may: May::default(), ..self.frame }, ..self }
    }

    /// The same, where nobody may do anything.
    pub fn readonly(self) -> Viewer {
        Viewer { frame: PageFrame { readonly: true, ..self.frame }, ..self }
    }
}

fn ask(server: &mut InMemory, wire: &FarEnd, commands: &[Command]) -> Vec<Value> {
    wire.send(&encode(commands));
    server.run();
    let mut input = BytesMut::from(&wire.receive()[..]);
    let mut replies = Vec::new();
    let mut scan = ReplyScan::default();
    while let Some(reply) = scan.next(&mut input).expect("RESP3") {
        if !reply::is_unasked(&reply) {
            replies.push(reply::value(reply).expect("RESP3"));
        }
    }
    assert_eq!((replies.len(), input.len()), (commands.len(), 0), "{commands:?}");
    replies
}

/// The token in a reply of RESERVE: its largest number.
fn find_number(reply: &Value) -> Option<u64> {
    match reply {
        Value::Array(items) => items.iter().filter_map(find_number).max(),
        Value::Map(fields) => fields.iter().filter_map(|(_, value)| find_number(value)).max(),
        other => other.number(),
    }
}
