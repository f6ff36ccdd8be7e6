//! Replies that cost the server much, kept for as long as they are good and shared by all viewers with the same rights.

use super::pages::forecast;
use super::value::{Command, Value};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Replies kept at a time.
const KEPT_MAX: usize = 256;
/// A reply that took so long to be made is good for twenty times as long, so that looking costs at most a twentieth
/// of the server's time, however many look.
const GOOD_TIMES: u32 = 20;

/// Whose reply to what: a user, a database, a command.
type Key = (Vec<u8>, u8, Command);

/// See the module.
#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<Key, Reply>>);

#[derive(Clone, Debug)]
struct Reply {
    value: Value,
    made: Instant,
    good: Duration,
}

/// For how long a reply to a command is good at least; none: it is asked anew each time.
pub fn good_for(command: &Command) -> Option<Duration> {
    match command.first().map(|name| &name[..]) {
        Some(b"DELAY.FORECAST") => Some(Duration::from_secs(5)),
        // A little less than a tick: each tick shows new numbers, and ten viewers make one walk over all queues.
        Some(b"DELAY.QUEUES") => Some(Duration::from_millis(900)),
        _ => None,
    }
}

impl Kept {
    /// The reply, if it is good still.
    pub fn find(&self, user: &[u8], db: u8, command: &Command) -> Option<Value> {
        good_for(command)?;
        let key = (user.to_vec(), db, command.clone());
        let kept = self.lock();
        let reply = kept.get(&key)?;
        (reply.made.elapsed() < reply.good).then(|| reply.value.clone())
    }

    /// Keeps a reply that took `took` if it is one of those; what is shown of it.
    pub fn keep(
        &self,
        user: &[u8],
        db: u8,
        command: Command,
        value: Value,
        now_ms: u64,
        took: Duration,
    ) -> Value {
        let Some(least) = good_for(&command) else { return value };
        let value = match &command[0][..] {
            b"DELAY.FORECAST" => forecast::kept(value, now_ms, took.as_millis() as u64),
            _ => value,
        };
        let good = least.max(took * GOOD_TIMES);
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, reply| reply.made.elapsed() < reply.good);
        }
        if kept.len() < KEPT_MAX {
            kept.insert(
                (user.to_vec(), db, command),
                Reply { value: value.clone(), made: Instant::now(), good },
            );
        }
        value
    }

    /// Forgets all that was told to a user: something was changed.
    pub fn forget(&self, user: &[u8]) {
        self.lock().retain(|(whose, ..), _| whose != user);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Reply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::command;
    use super::*;

    #[test]
    fn what_is_dear_is_kept_for_who_asked() {
        let (kept, asked) = (Kept::default(), command!["DELAY.FORECAST", "q", "1m", "60"]);
        assert!(kept.find(b"a", 0, &asked).is_none());
        let shown =
            kept.keep(b"a", 0, asked.clone(), Value::Array(vec![]), 7, Duration::from_millis(1));
        assert_eq!(forecast::read(&shown).as_of_ms, 7);
        assert_eq!(kept.find(b"a", 0, &asked), Some(shown));
        assert!(kept.find(b"b", 0, &asked).is_none() && kept.find(b"a", 1, &asked).is_none());
        kept.forget(b"a");
        assert!(kept.find(b"a", 0, &asked).is_none());
        let other = command!["DELAY.STATS", "q"];
        assert_eq!(kept.keep(b"a", 0, other.clone(), Value::Null, 7, Duration::ZERO), Value::Null);
        assert!(kept.find(b"a", 0, &other).is_none());
    }

    #[test]
    fn never_more_are_kept_than_fit() {
        let kept = Kept::default();
        for queue in 0..2 * KEPT_MAX {
            let asked = command!["DELAY.FORECAST", queue.to_string(), "1m", "60"];
            kept.keep(b"a", 0, asked, Value::Null, 0, Duration::ZERO);
        }
        assert_eq!(kept.lock().len(), KEPT_MAX);
    }
}
