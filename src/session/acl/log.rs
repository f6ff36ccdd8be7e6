//! ACL LOG: recent denials, and their users.

use crate::limits::{ACL_LOG_GROUP_ENTRIES, ACL_LOG_GROUP_MS, ACL_LOG_TEXT_BYTES_MAX};
use crate::words::words;
use std::collections::VecDeque;

words! {
    /// Why something was denied.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Reason {
        Command = "command",
        Key = "key",
        Channel = "channel",
        /// Name or password.
        Auth = "auth",
    }
}

words! {
    /// Where it was denied.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Context {
        /// By itself.
        TopLevel = "toplevel",
        /// In a transaction.
        Multi = "multi",
    }
}

/// One thing that was denied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeniedEntry {
    /// Its number, never used twice.
    pub id: u64,
    /// How often it was denied.
    pub count: u64,
    pub reason: Reason,
    pub context: Context,
    /// The command, key or channel, cut.
    pub object: Vec<u8>,
    /// The user, or the name that was tried, cut.
    pub user: Vec<u8>,
    /// The client's line of CLIENT LIST, of the last time.
    pub client: String,
    pub created_ms: u64,
    pub updated_ms: u64,
}

impl DeniedEntry {
    /// A new kind of denial; `client` is its line of CLIENT LIST.
    pub fn new(
        (reason, object): (Reason, &[u8]),
        context: Context,
        user: &[u8],
        client: String,
        now_ms: u64,
    ) -> DeniedEntry {
        DeniedEntry {
            id: 0,
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            user: user.to_vec(),
            client,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }

    /// Its approximate memory.
    fn bytes(&self) -> usize {
        let texts = self.object.capacity() + self.user.capacity() + self.client.capacity();
        size_of::<DeniedEntry>() + texts
    }
}

/// The newest entries, newest first.
#[derive(Debug, Default)]
pub struct DenialLog {
    entries: VecDeque<DeniedEntry>,
    bytes: usize,
    next_id: u64,
}

impl DenialLog {
    /// Notes that something was denied now; what is the same as one of the newest is counted there.
    /// The oldest beyond `len_max` entries and `bytes_max` leave.
    pub fn add(&mut self, mut entry: DeniedEntry, len_max: usize, bytes_max: usize) {
        for text in [&mut entry.object, &mut entry.user] {
            text.truncate(ACL_LOG_TEXT_BYTES_MAX);
            text.shrink_to_fit();
        }
        let same = |old: &DeniedEntry| {
            let what = (old.reason, old.context) == (entry.reason, entry.context);
            let whose = (&old.object, &old.user) == (&entry.object, &entry.user);
            what && whose && entry.updated_ms.saturating_sub(old.updated_ms) <= ACL_LOG_GROUP_MS
        };
        let old = self.entries.iter().take(ACL_LOG_GROUP_ENTRIES).position(same);
        match old.and_then(|at| self.entries.remove(at)) {
            Some(old) => {
                self.bytes -= old.bytes();
                (entry.id, entry.count) = (old.id, old.count + 1);
                entry.created_ms = old.created_ms;
            }
            None => {
                entry.id = self.next_id;
                self.next_id += 1;
            }
        }
        self.bytes += entry.bytes();
        self.entries.push_front(entry);
        while self.entries.len() > len_max || self.bytes > bytes_max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// The newest `count` entries, newest first.
    pub fn newest(&self, count: usize) -> impl ExactSizeIterator<Item = &DeniedEntry> {
        self.entries.iter().take(count)
    }

    /// Forgets all; numbers go on.
    pub fn clear(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
    }
}

/// How often something was denied, for INFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Denials {
    pub auth: u64,
    pub commands: u64,
    pub keys: u64,
    pub channels: u64,
}

impl Denials {
    pub fn count(&mut self, reason: Reason) {
        *match reason {
            Reason::Command => &mut self.commands,
            Reason::Key => &mut self.keys,
            Reason::Channel => &mut self.channels,
            Reason::Auth => &mut self.auth,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_beyond_so_many_entries_and_bytes() {
        let mut log = DenialLog::default();
        let denied = |number: u64, log: &mut DenialLog, len_max, bytes_max| {
            let (object, line) = (format!("{number:04}").repeat(250), "x".repeat(400));
            let what = (Reason::Key, object.as_bytes());
            log.add(
                DeniedEntry::new(what, Context::TopLevel, b"u", line, number),
                len_max,
                bytes_max,
            );
        };
        (0..100).for_each(|number| denied(number, &mut log, 10, usize::MAX));
        assert_eq!(
            log.newest(99).map(|entry| entry.id).collect::<Vec<_>>()[..],
            [99, 98, 97, 96, 95, 94, 93, 92, 91, 90]
        );
        (0..1_000).for_each(|number| denied(number, &mut log, 1_000, 20_000));
        let kept: usize = log.newest(1_000).map(DeniedEntry::bytes).sum();
        assert!(log.bytes == kept && kept <= 20_000 && kept > 18_000, "{kept}, {}", log.bytes);
        // The same again is one entry, counted once.
        (0..9).for_each(|_| denied(5, &mut log, 1_000, usize::MAX));
        assert_eq!(log.newest(1).next().unwrap().count, 9);
        assert_eq!(log.bytes, log.newest(1_000).map(DeniedEntry::bytes).sum::<usize>());
        log.clear();
        assert_eq!(log.bytes, 0);
    }
}
