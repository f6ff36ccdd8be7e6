//! The slow log: the latest commands that took longer than `slowlog-log-slower-than`.

use crate::command::CommandSpec;
use crate::command::spec::argument::{REDACTED, is_secret};
use crate::limits::{SLOW_LOG_ARGUMENT_BYTES_MAX, SLOW_LOG_ARGUMENTS_MAX};
use std::collections::VecDeque;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowEntry {
    /// Its number, never used twice.
    pub id: u64,
    pub at_s: u64,
    pub took_us: u64,
    /// The command, as [`cut`] leaves it.
    pub args: Vec<Vec<u8>>,
    pub addr: String,
    pub name: Vec<u8>,
}

impl SlowEntry {
    /// A command that took this long, without the client's name and number.
    pub fn new(
        at_s: u64,
        spec: &CommandSpec,
        args: &[&[u8]],
        addr: String,
        took_ns: u64,
    ) -> SlowEntry {
        let (args, took_us) = (cut(spec, args), took_ns / 1_000);
        SlowEntry { id: 0, at_s, took_us, args, addr, name: Vec::new() }
    }

    /// Its approximate memory.
    fn bytes(&self) -> usize {
        let args = self.args.iter().map(|arg| size_of::<Vec<u8>>() + arg.capacity()).sum::<usize>();
        size_of::<SlowEntry>() + args + self.addr.capacity() + self.name.capacity()
    }
}

/// The newest entries, newest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<SlowEntry>,
    bytes: usize,
    next_id: u64,
}

impl SlowLog {
    /// Adds an entry; its `id` is given here. The oldest beyond `len_max` entries and `bytes_max` leave.
    pub fn add(&mut self, mut entry: SlowEntry, len_max: usize, bytes_max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.bytes += entry.bytes();
        self.entries.push_front(entry);
        while self.entries.len() > len_max || self.bytes > bytes_max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// The newest `count` entries, newest first.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = &SlowEntry> {
        self.entries.iter().take(count)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all; numbers go on.
    pub fn clear(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
    }
}

/// The stored form of a command; secrets are hidden.
fn cut(spec: &CommandSpec, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept =
        if args.len() > SLOW_LOG_ARGUMENTS_MAX { SLOW_LOG_ARGUMENTS_MAX - 1 } else { args.len() };
    let shown = |at: usize| match is_secret(spec, args, at) {
        true => REDACTED.to_vec(),
        false => cut_arg(args[at]),
    };
    let mut cut: Vec<Vec<u8>> = (0..kept).map(shown).collect();
    if kept < args.len() {
        cut.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    cut
}

fn cut_arg(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= SLOW_LOG_ARGUMENT_BYTES_MAX {
        return arg.to_vec();
    }
    let mut cut = arg[..SLOW_LOG_ARGUMENT_BYTES_MAX].to_vec();
    cut.extend_from_slice(
        format!("... ({} more bytes)", arg.len() - SLOW_LOG_ARGUMENT_BYTES_MAX).as_bytes(),
    );
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    /// The part of `args` that is kept; the first of them may be an alias of the command.
    fn shown(name: &str, args: &[&[u8]]) -> Vec<String> {
        let spec = table::find(name.as_bytes()).unwrap();
        cut(spec, args).iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect()
    }

    #[test]
    fn long_commands_are_cut() {
        let many = vec![&b"x"[..]; 40];
        let cut = shown("del", &many);
        assert_eq!((cut.len(), cut[31].as_str()), (32, "... (9 more arguments)"));
        let long = vec![b'y'; 200];
        assert!(shown("delay.add", &[b"ADD", &long])[1].ends_with("yy... (72 more bytes)"));
    }

    #[test]
    fn secrets_are_hidden() {
        let hidden = "(redacted)";
        assert_eq!(shown("auth", &[b"login", b"me", b"pw"]), ["login", hidden, hidden]);
        assert_eq!(
            shown("hello", &[b"HELLO", b"3", b"AUTH", b"me", b"pw", b"SETNAME", b"n"]),
            ["HELLO", "3", "AUTH", hidden, hidden, "SETNAME", "n"]
        );
        assert_eq!(
            shown("config|set", &[b"CONFIG", b"SET", b"port", b"1", b"RequirePass", b"pw"]),
            ["CONFIG", "SET", "port", "1", "RequirePass", hidden]
        );
        assert_eq!(
            shown("acl|setuser", &[b"ACL", b"SETUSER", b"me", b"on", b">pw"]),
            ["ACL", "SETUSER", hidden, hidden, hidden]
        );
    }

    #[test]
    fn the_oldest_leave_and_numbers_go_on() {
        let mut log = SlowLog::default();
        let entry = |at_s| SlowEntry {
            id: 0,
            at_s,
            took_us: 1,
            args: Vec::new(),
            addr: String::new(),
            name: Vec::new(),
        };
        (0..5).for_each(|at_s| log.add(entry(at_s), 2, usize::MAX));
        assert_eq!(log.newest(9).map(|e| (e.id, e.at_s)).collect::<Vec<_>>(), [(4, 4), (3, 3)]);
        log.clear();
        log.add(entry(9), 2, usize::MAX);
        assert_eq!(log.newest(1).next().unwrap().id, 5);
        log.add(entry(9), 0, usize::MAX);
        assert!(log.is_empty() && log.bytes == 0);
        // The size of ten of them.
        (0..1_000).for_each(|at_s| log.add(entry(at_s), 100, 10 * size_of::<SlowEntry>()));
        assert_eq!((log.len(), log.newest(1).next().unwrap().at_s), (10, 999));
    }
}
