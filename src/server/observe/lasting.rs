//! A persistent trouble: the log gets a line when it begins, every ten seconds, and when it is
//! over.

use crate::limits::LASTING_LOG_US;

/// The log lines so far about one trouble.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lasting(Option<LastTold>);

#[derive(Clone, Copy, Debug)]
struct LastTold {
    since_us: u64,
    next_us: u64,
}

/// The log line that is due now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    /// It exists, and has for this long, µs.
    There(u64),
    /// It is over, and lasted this long, µs.
    Over(u64),
}

impl Lasting {
    /// Looks at it, at `now_us`: it has been there since `since_us`, or is not.
    pub fn look(&mut self, now_us: u64, since_us: Option<u64>) -> Option<Say> {
        match (since_us, &mut self.0) {
            (Some(_), Some(told)) if now_us < told.next_us => None,
            (Some(since_us), _) => {
                self.0 = Some(LastTold { since_us, next_us: now_us + LASTING_LOG_US });
                Some(Say::There(now_us.saturating_sub(since_us)))
            }
            (None, _) => {
                let told = self.0.take()?;
                Some(Say::Over(now_us.saturating_sub(told.since_us)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    #[test]
    fn it_is_told_when_it_begins_every_ten_seconds_and_when_it_is_over() {
        let mut lasting = Lasting::default();
        let mut said = Vec::new();
        for now in 0..40 {
            let since = (5..30).contains(&now).then_some(3 * S);
            said.extend(lasting.look(now * S, since).map(|say| (now, say)));
        }
        let there = |now| (now, Say::There((now - 3) * S));
        assert_eq!(said, [there(5), there(15), there(25), (30, Say::Over(27 * S))]);
    }

    #[test]
    fn the_next_one_begins_anew() {
        let mut lasting = Lasting::default();
        assert_eq!(lasting.look(S, None), None);
        assert_eq!(lasting.look(2 * S, Some(S)), Some(Say::There(S)));
        assert_eq!(lasting.look(3 * S, None), Some(Say::Over(2 * S)));
        assert_eq!(lasting.look(4 * S, Some(4 * S)), Some(Say::There(0)));
    }
}
