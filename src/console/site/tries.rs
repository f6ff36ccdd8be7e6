//! Passwords that are tried: how many of a user may be wrong, from one address, before the next ones are slowed.
//!
//! A try is counted before the password is checked, so many parallel tries gain nothing. Beyond the limit one at a time
//! is checked, and takes long if it is wrong: so a right password gets in, and an attacker gets a dozen guesses a
//! minute. A password that was right before from the same address is not counted at all: guessing by others behind the
//! same proxy does not lock its user out.

use crate::limits::{CONSOLE_SESSION_TIME, CONSOLE_TRIED_MAX, CONSOLE_WRONG_MAX};
use crate::lock::lock;
use sha2::{Digest, Sha256};
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WRONG_COUNTS: Duration = Duration::from_secs(60);

/// Address and user. The user is hashed: an attacker can choose names of any length.
type TriesKey = (IpAddr, u64);

#[derive(Debug, Default)]
pub struct Tries {
    tried: Mutex<HashMap<TriesKey, Tried>>,
    hasher: RandomState,
    salt: [u64; 2],
}

#[derive(Debug, Default)]
struct Tried {
    /// When, of those that were wrong or are being looked at; the newest, as many as the limit.
    wrong: VecDeque<Instant>,
    /// Being looked at, or slowed.
    running: usize,
    /// The last right password, salted, and its time.
    right: Option<([u8; 32], Instant)>,
}

/// One that is being looked at. It counts as wrong unless it is said to be right.
#[derive(Debug)]
pub struct Try<'a> {
    tries: &'a Tries,
    key: TriesKey,
    digest: [u8; 32],
    known: bool,
    began: Instant,
}

impl Tries {
    /// None yet.
    pub fn new() -> Tries {
        let hasher = RandomState::new();
        let salt = [hasher.hash_one(0), hasher.hash_one(1)];
        Tries { tried: Mutex::default(), hasher, salt }
    }

    /// One more, if it may be looked at now.
    pub fn begin(
        &self,
        address: IpAddr,
        user: &[u8],
        password: &[u8],
        now: Instant,
    ) -> Option<Try<'_>> {
        let mut key = (network(address), self.hasher.hash_one(user));
        let mut all = lock(&self.tried);
        if all.len() >= CONSOLE_TRIED_MAX && !all.contains_key(&key) {
            all.retain(|_, tried| tried.is_counting(now));
        }
        if all.len() >= CONSOLE_TRIED_MAX && !all.contains_key(&key) {
            // More than can be remembered are slowed as one.
            key = (Ipv6Addr::UNSPECIFIED.into(), 0);
        }
        let tried = all.entry(key).or_default();
        tried.is_counting(now);
        let digest = self.digest(password);
        let is = |right: &([u8; 32], Instant)| subtle::ConstantTimeEq::ct_eq(&right.0[..], &digest);
        let known = tried.right.as_ref().is_some_and(|right| is(right).into());
        if !known {
            if tried.wrong.len() >= CONSOLE_WRONG_MAX {
                if tried.running > 0 {
                    return None;
                }
                tried.wrong.pop_front();
            }
            tried.wrong.push_back(now);
        }
        tried.running += usize::from(!known);
        Some(Try { tries: self, key, digest, known, began: now })
    }

    fn digest(&self, password: &[u8]) -> [u8; 32] {
        let salt = self.salt.map(u64::to_le_bytes);
        Sha256::new().chain_update(salt.concat()).chain_update(password).finalize().into()
    }
}

impl Tried {
    /// Forgets what is too old; whether something is left that counts.
    fn is_counting(&mut self, now: Instant) -> bool {
        self.wrong.retain(|time| now.duration_since(*time) < WRONG_COUNTS);
        self.right.take_if(|(_, time)| now.duration_since(*time) > CONSOLE_SESSION_TIME);
        self.running > 0 || !self.wrong.is_empty()
    }
}

impl Try<'_> {
    pub fn was_right(self) {
        let right = Some((self.digest, self.began));
        self.with(|tried| tried.right = right);
        self.forgive();
    }

    /// It was wrong; whether more were than may be.
    pub fn was_wrong(&self) -> bool {
        let (known, began) = (self.known, self.began);
        self.with(|tried| {
            if known {
                // It was changed meanwhile.
                tried.right = None;
                tried.wrong.push_back(began);
                tried.wrong.truncate(CONSOLE_WRONG_MAX);
            }
            tried.wrong.len() >= CONSOLE_WRONG_MAX
        })
    }

    /// Nothing was found out about it.
    pub fn forgive(self) {
        let (known, began) = (self.known, self.began);
        self.with(|tried| {
            if let Some(at) = tried.wrong.iter().position(|time| *time == began)
                && !known
            {
                tried.wrong.remove(at);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Tried) -> T) -> T {
        change(lock(&self.tries.tried).entry(self.key).or_default())
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        let known = self.known;
        self.with(|tried| tried.running -= usize::from(!known));
    }
}

/// A visitor with one address of IPv6 has its whole network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "192.0.2.1";

    fn begin<'a>(tries: &'a Tries, address: &str, user: &str, now: Instant) -> Option<Try<'a>> {
        tries.begin(address.parse().unwrap(), user.as_bytes(), b"guess", now)
    }

    /// Ten wrong ones, one after the other.
    fn fill(tries: &Tries, now: Instant) {
        for count in 1..=10 {
            let tried = begin(tries, ONE, "ann", now).expect("one of ten");
            assert_eq!(tried.was_wrong(), count == 10);
        }
    }

    #[test]
    fn many_at_once_are_no_more_than_one_after_the_other() {
        let (tries, now) = (Tries::new(), Instant::now());
        let tried: Vec<_> = (0..60).filter_map(|_| begin(&tries, ONE, "ann", now)).collect();
        assert_eq!(tried.len(), 10);
        assert!(begin(&tries, ONE, "bob", now).is_some(), "another user");
        assert!(begin(&tries, "192.0.2.2", "ann", now).is_some(), "another address");
        drop(tried);
        let later = now + Duration::from_secs(61);
        assert_eq!((0..60).filter_map(|_| begin(&tries, ONE, "ann", later)).count(), 60);
    }

    #[test]
    fn beyond_the_limit_one_at_a_time_is_looked_at_and_a_right_one_gets_in() {
        let (tries, now) = (Tries::new(), Instant::now());
        fill(&tries, now);
        let slowed = begin(&tries, ONE, "ann", now).expect("one is looked at");
        assert!(begin(&tries, ONE, "ann", now).is_none());
        assert!(slowed.was_wrong());
        drop(slowed);
        begin(&tries, ONE, "ann", now).expect("the right one").was_right();
        // A password that was right before is not counted, however many others are wrong.
        let _slowed = tries.begin(ONE.parse().unwrap(), b"ann", b"other", now).expect("one");
        for _ in 0..100 {
            assert!(begin(&tries, ONE, "ann", now).is_some(), "known");
            assert!(tries.begin(ONE.parse().unwrap(), b"ann", b"other", now).is_none());
        }
        // It was changed.
        assert!(begin(&tries, ONE, "ann", now).expect("known").was_wrong());
        assert!(begin(&tries, ONE, "ann", now).is_none());
    }

    #[test]
    fn what_the_server_did_not_look_at_is_not_counted() {
        let (tries, now) = (Tries::new(), Instant::now());
        (0..100).for_each(|_| begin(&tries, ONE, "ann", now).expect("forgiven").forgive());
        fill(&tries, now);
        assert!(lock(&tries.tried).values().all(|tried| tried.wrong.len() == 10));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (tries, now) = (Tries::new(), Instant::now());
        for user in 0..2 * CONSOLE_TRIED_MAX {
            drop(begin(&tries, ONE, &user.to_string(), now));
        }
        assert_eq!(lock(&tries.tried).len(), CONSOLE_TRIED_MAX + 1);
        // A host that has a network of 2^64 addresses is one.
        let tries = Tries::new();
        let address = |at: usize| format!("2001:db8::{at:x}");
        let tried: Vec<_> =
            (1..60).filter_map(|at| begin(&tries, &address(at), "ann", now)).collect();
        assert_eq!(tried.len(), 10);
    }
}
