//! Replies that cost the server much, kept for as long as they are good and shared by all viewers with the same rights.

use crate::console::pages::forecast;
use crate::console::words::value::{Command, Value};
use crate::lock::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Replies kept at a time.
const KEPT_MAX: usize = 256;
/// Their bytes. Those that are larger than an eighth of it are not kept: a page of queues has 0.1 MB.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// A reply that took this long to make is cached for twenty times as long, so that viewers cost at most a twentieth of
/// the server's time, however many there are.
const GOOD_TIMES: u32 = 20;

/// The key of a reply: a user, a database, a command.
type CacheKey = (Vec<u8>, u8, Command);

#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<CacheKey, CachedReply>>);

#[derive(Clone, Debug)]
struct CachedReply {
    value: Value,
    made: Instant,
    good: Duration,
    bytes: usize,
}

/// How long a reply to a command is cached at least; none: not at all.
pub fn good_for(command: &Command) -> Option<Duration> {
    match command.first().map(|name| &name[..]) {
        Some(b"DELAY.FORECAST") => Some(Duration::from_secs(5)),
        // A little less than a tick: each tick shows new numbers, and ten viewers make one walk over all queues.
        Some(b"DELAY.QUEUES" | b"DELAY.BUSY") => Some(Duration::from_millis(900)),
        _ => None,
    }
}

impl Kept {
    /// The reply, if it is good still.
    pub fn find(&self, user: &[u8], db: u8, command: &Command) -> Option<Value> {
        good_for(command)?;
        let key = (user.to_vec(), db, command.clone());
        let kept = lock(&self.0);
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
        // An error may be over at once, however long it took.
        let good = good_for(&command).filter(|_| value.error().is_none());
        let Some(least) = good else { return value };
        let value = match &command[0][..] {
            b"DELAY.FORECAST" => forecast::kept(value, now_ms, took.as_millis() as u64),
            _ => value,
        };
        let (good, bytes) = (least.max(took * GOOD_TIMES), value.memory_bytes());
        let mut kept = lock(&self.0);
        kept.retain(|_, reply| reply.made.elapsed() < reply.good);
        let held: usize = kept.values().map(|reply| reply.bytes).sum();
        let fits = bytes <= KEPT_BYTES_MAX / 8 && held + bytes <= KEPT_BYTES_MAX;
        if fits && kept.len() < KEPT_MAX {
            let reply = CachedReply { value: value.clone(), made: Instant::now(), good, bytes };
            kept.insert((user.to_vec(), db, command), reply);
        }
        value
    }

    /// Drops a user's cached replies: something was changed.
    pub fn forget(&self, user: &[u8]) {
        lock(&self.0).retain(|(whose, ..), _| whose != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::command;

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
        assert_eq!(lock(&kept.0).len(), KEPT_MAX);
    }

    /// They stayed until 256 others had come, whatever they held: a page of queues with long names is a MB.
    #[test]
    fn what_is_kept_has_a_bound_and_goes_once_it_is_no_longer_good() {
        let kept = Kept::default();
        let page = |bytes: usize| Value::Text(vec![b'x'; bytes].into());
        let keep = |queue: usize, bytes: usize| {
            let asked = command!["DELAY.QUEUES", queue.to_string()];
            kept.keep(b"a", 0, asked, page(bytes), 0, Duration::ZERO);
        };
        (0..KEPT_MAX).for_each(|queue| keep(queue, 100_000));
        let held = |kept: &Kept| lock(&kept.0).values().map(|reply| reply.bytes).sum::<usize>();
        assert!(held(&kept) <= KEPT_BYTES_MAX && held(&kept) > KEPT_BYTES_MAX / 2);
        lock(&kept.0).values_mut().for_each(|reply| reply.good = Duration::ZERO);
        keep(999, KEPT_BYTES_MAX / 2);
        assert!(lock(&kept.0).is_empty(), "one that is too large, and none that is old");
    }
}
