//! The real program as a child process, on a folder of its own, and clients that read whole replies.
//! Nothing here outlives the test: not the process, not the folder.

use crate::support::patience::{limit, until};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A number from the environment.
fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// `DELAYD_SEED`, or any.
pub fn seed() -> u64 {
    let drawn = || RandomState::new().build_hasher().finish();
    let seed = number_of("DELAYD_SEED").unwrap_or_else(drawn);
    println!("DELAYD_SEED={seed}");
    seed
}

/// A folder that is removed at the end.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{count}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// The journal's.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // DELAYD_KEEP leaves it to be looked at.
        if std::env::var_os("DELAYD_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// The program, running.
#[derive(Debug)]
pub struct Program {
    pub address: SocketAddr,
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    /// A test that fails prints the log of the last one.
    shown: bool,
}

impl Program {
    /// Starts it on `folder`; `wrap` is put before the command, such as a shim's variable.
    pub fn start(folder: &Path, options: &[&str]) -> Program {
        Program::start_as(Program::command(folder, options))
    }

    /// The command that [`start`](Program::start) runs.
    pub fn command(folder: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        command.args(["--port", "0", "--bind", "127.0.0.1", "--dir", folder.to_str().unwrap()]);
        command.args(options);
        command
    }

    pub fn start_as(command: Command) -> Program {
        match Program::try_start(command) {
            Ok(program) => program,
            Err(log) => panic!("delayd did not start:\n{log}"),
        }
    }

    /// Starts it; what it wrote if it ended before it was ready.
    pub fn try_start(mut command: Command) -> Result<Program, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::<Mutex<String>>::default();
        let written = Arc::clone(&log);
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (sender, address) = channel();
        // Ends with the program, which alone has the other end.
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
                written.lock().unwrap().push_str(&line);
                if let Some((_, rest)) = line.split_once(" listens on ") {
                    let end = rest.find([',', ' ']).unwrap();
                    let _ = sender.send(rest[..end].parse().unwrap());
                }
                line.clear();
            }
        });
        let address = address.recv_timeout(limit());
        let any = ([0, 0, 0, 0], 0).into();
        let reader = Some(reader);
        let mut program =
            Program { address: address.unwrap_or(any), child, log, reader, shown: true };
        if address.is_err() {
            let _ = program.child.kill();
            program.wait();
            return Err(program.log());
        }
        Ok(program)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// A client, once the journal is loaded: what comes earlier is answered LOADING. [`Wire::connect`] does not wait.
    pub fn connect(&self) -> Wire {
        let (mut client, start) = (Wire::connect(self.address).unwrap(), Instant::now());
        while client.info("persistence").contains("\r\nloading:1\r\n") {
            assert!(start.elapsed() < limit(), "it never was loaded");
        }
        client
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.wait();
        self.log()
    }

    /// Waits for it to end by itself.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < limit(), "it does not end:\n{}", self.log());
            std::thread::yield_now();
        }
        (self.wait(), self.log())
    }

    /// SIGTERM, and it ends in good order.
    pub fn stop(self) -> String {
        self.terminate();
        let (status, log) = self.ended();
        assert!(status.success(), "{status}, signal {:?}:\n{log}", status.signal());
        log
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops it; when this returns it does nothing more. The signal alone says nothing of that: on a busy machine the
    /// thread that is to take it waits for a core, and the others run on until then.
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
        until("all threads have stopped", || self.has_stopped().then_some(()));
    }

    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn has_stopped(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        // The state follows the name, which is in parentheses.
        let mut states = stats.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next());
        states.all(|state| "TtZX".contains(state))
    }

    fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.shown = false;
        status
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() && self.shown {
            eprintln!("--- delayd's log:\n{}---", self.log());
        }
    }
}

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Simple(String),
    Error(String),
    Number(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    // Of RESP3; its sets and messages are arrays here.
    Map(Vec<(Reply, Reply)>),
    Double(String),
    Bool(bool),
}

impl Reply {
    pub fn text(&self) -> &str {
        match self {
            Reply::Simple(text) | Reply::Error(text) => text,
            Reply::Bulk(bytes) => std::str::from_utf8(bytes).unwrap(),
            other => panic!("no text: {other:?}"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Bulk(bytes) => bytes,
            other => panic!("no bulk string: {other:?}"),
        }
    }

    pub fn number(&self) -> i64 {
        match self {
            Reply::Number(number) => *number,
            Reply::Bulk(_) => self.text().parse().unwrap(),
            other => panic!("no number: {other:?}"),
        }
    }

    /// None for nil.
    pub fn array(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(all) => Some(all),
            Reply::Nil => None,
            other => panic!("no array: {other:?}"),
        }
    }

    /// The value of a field, in a reply of names and values by turns.
    pub fn value(&self, name: &str) -> &Reply {
        let pairs = self.array().expect("fields").chunks(2);
        let pair = pairs.into_iter().find(|pair| pair[0].bytes() == name.as_bytes());
        &pair.unwrap_or_else(|| panic!("no {name} in {self:?}"))[1]
    }

    /// Id, group and token of each job that RESERVE handed over with META.
    pub fn jobs_in_groups(&self) -> Vec<[String; 3]> {
        let of = |job: &Reply| {
            let job = job.array().expect("a job");
            [&job[1], &job[7], &job[3]].map(|word| word.text().to_owned())
        };
        self.array().unwrap_or_default().iter().map(of).collect()
    }

    pub fn is_failed(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    pub fn is_error(&self, class: &str) -> bool {
        matches!(self, Reply::Error(text) if text.split(' ').next() == Some(class))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(limit()))?;
        stream.set_write_timeout(Some(limit()))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream: BufReader::new(stream), out: Vec::new() })
    }

    /// As [`connect`](Wire::connect), to a server that may stand still: nothing is waited for longer than that.
    pub fn connect_for(address: SocketAddr, patience: Duration) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        let mut wire = Wire { stream: BufReader::new(stream), out: Vec::new() };
        wire.set_patience(patience)?;
        Ok(wire)
    }

    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))
    }

    /// Adds a command to what [`flush`](Wire::flush) sends.
    pub fn push(&mut self, args: &[&[u8]]) {
        write!(self.out, "*{}\r\n", args.len()).unwrap();
        for arg in args {
            write!(self.out, "${}\r\n", arg.len()).unwrap();
            self.out.extend_from_slice(arg);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// As [`push`](Wire::push); the arguments are the words of the text.
    pub fn push_line(&mut self, line: &str) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.push(&args);
    }

    pub fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.get_mut().write_all(&self.out);
        self.out.clear();
        sent
    }

    pub fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let rest = &line[1..line.len() - 2];
        let count = || rest.parse::<i64>().unwrap();
        Ok(match line.as_bytes()[0] {
            b'+' => Reply::Simple(rest.to_owned()),
            b'-' => Reply::Error(rest.to_owned()),
            b':' => Reply::Number(count()),
            b'$' | b'*' if count() < 0 => Reply::Nil,
            b'$' => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            b'*' | b'~' | b'>' => {
                Reply::Array((0..count()).map(|_| self.read()).collect::<io::Result<_>>()?)
            }
            b'%' => {
                let field = |_| Ok((self.read()?, self.read()?));
                Reply::Map((0..count()).map(field).collect::<io::Result<_>>()?)
            }
            b'=' => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                // `txt:` is before the text.
                Reply::Bulk(bytes.split_off(4))
            }
            b',' => Reply::Double(rest.to_owned()),
            b'#' => Reply::Bool(rest == "t"),
            b'_' => Reply::Nil,
            _ => panic!("no reply: {line:?}"),
        })
    }

    /// Where each partition of a process is served, by the first node of CLUSTER SLOTS, in their order.
    pub fn partitions(&mut self) -> Vec<SocketAddr> {
        self.try_partitions().unwrap()
    }

    pub fn try_partitions(&mut self) -> io::Result<Vec<SocketAddr>> {
        let slots = self.try_ask("CLUSTER SLOTS")?;
        Ok(slots.array().unwrap().iter().map(master_of).collect())
    }

    /// A command whose arguments are the words of the text, and its reply.
    pub fn ask(&mut self, line: &str) -> Reply {
        self.push_line(line);
        self.flush().unwrap();
        self.read().unwrap()
    }

    /// As [`ask`](Wire::ask), of a server that may be gone.
    pub fn try_ask(&mut self, line: &str) -> io::Result<Reply> {
        self.push_line(line);
        self.flush()?;
        self.read()
    }

    pub fn call(&mut self, args: &[&[u8]]) -> Reply {
        self.push(args);
        self.flush().unwrap();
        self.read().unwrap()
    }

    /// Whether a reply has come.
    pub fn has_reply(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).unwrap();
        let filled = self.stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.stream.get_ref().set_nonblocking(false).unwrap();
        filled
    }

    pub fn info(&mut self, section: &str) -> String {
        format!("\r\n{}", self.ask(&format!("INFO {section}")).text())
    }

    /// A field of INFO.
    pub fn field(&mut self, field: &str) -> String {
        let info = self.info("everything");
        let key = format!("\r\n{field}:");
        let at = info.find(&key).unwrap_or_else(|| panic!("no {field} in {info}"));
        info[at + key.len()..].split("\r\n").next().unwrap().to_owned()
    }

    pub fn number(&mut self, field: &str) -> u64 {
        self.field(field).parse().unwrap()
    }

    /// None if the server goes away, or does not show it.
    pub fn try_number(&mut self, field: &str) -> Option<u64> {
        self.try_field(field)?.parse().ok()
    }

    /// As [`try_number`](Wire::try_number), as text.
    pub fn try_field(&mut self, field: &str) -> Option<String> {
        let reply = self.try_ask("INFO everything").ok()?;
        let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
        reply.text().lines().find_map(value)
    }

    /// Waits until INFO shows so.
    pub fn wait_for(&mut self, field: &str, is: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let value = self.field(field);
            if is(&value) {
                return;
            }
            if start.elapsed() > limit() {
                panic!("{field} stays {value}: {}", self.info("persistence"));
            }
        }
    }
}

/// The first node of a range of CLUSTER SLOTS.
fn master_of(shard: &Reply) -> SocketAddr {
    let node = shard.array().unwrap()[2].array().unwrap();
    format!("{}:{}", node[0].text(), node[1].number()).parse().unwrap()
}
