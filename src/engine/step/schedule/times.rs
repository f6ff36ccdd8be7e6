//! When a schedule comes: its rule read, with bounds and shift.

use crate::calendar::{self, Pattern, Zone, Zones};
use crate::engine::model::schedule::{Coming, Definition, Obstacle, Rule};
use crate::time::Millis;

/// See the module. Instants of patterns are whole seconds.
#[derive(Debug)]
pub struct Times {
    rule: Read,
    from: Millis,
    until: Millis,
    shift_ms: u64,
}

#[derive(Debug)]
enum Read {
    Every { ms: u64, anchor: Millis },
    Cron { pattern: Box<Pattern>, zone: Zone },
}

fn seconds(at: Millis) -> i64 {
    i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX)
}

fn millis(second: i64) -> Millis {
    Millis(u64::try_from(second).unwrap_or(0).saturating_mul(1_000))
}

impl Times {
    /// From the stored form; with these tables the rule may be invalid. Cost: reading the pattern, up to 20 µs, 0.5 µs
    /// for usual ones.
    pub fn of(
        definition: &Definition,
        name: &[u8],
        anchor: Millis,
        zones: &Zones,
    ) -> Result<Times, Obstacle> {
        let rule = match &definition.rule {
            Rule::Every { ms } => Read::Every { ms: *ms, anchor },
            Rule::Cron { pattern, zone } => {
                let pattern = Pattern::parse(pattern.as_bytes()).map_err(|_| Obstacle::Pattern)?;
                let zone = zones.get(zone).map_err(|_| Obstacle::Zone)?;
                Read::Cron { pattern: Box::new(pattern), zone }
            }
        };
        let (from, until) = (definition.terms().from, definition.terms().until);
        Ok(Times { rule, from, until, shift_ms: definition.shift_ms(name) })
    }

    /// From a parsed pattern, without bounds.
    pub fn of_pattern(pattern: Box<Pattern>, zone: Zone, from: Millis) -> Times {
        let rule = Read::Cron { pattern, zone };
        Times { rule, from, until: Millis(u64::MAX), shift_ms: 0 }
    }

    /// From a grid, without bounds.
    pub fn of_grid(ms: u64, anchor: Millis) -> Times {
        let rule = Read::Every { ms, anchor };
        Times { rule, from: Millis(0), until: Millis(u64::MAX), shift_ms: 0 }
    }

    /// The first nominal instant after this one. Cost: a search, 0.2 µs, and one more where a shift is to stay below
    /// the next instant.
    pub fn next(&self, after: Millis) -> Option<Coming> {
        let nominal = self.nominal(after).filter(|nominal| *nominal <= self.until)?;
        Some(Coming { nominal, due: self.due(nominal) })
    }

    /// The first after `after` that is due after `now`. Cost: as of [`Times::next`]; with a shift also of
    /// [`Times::newest_due`].
    pub fn next_due(&self, after: Millis, now: Millis) -> Option<Coming> {
        if self.shift_ms == 0 {
            return self.next(after.max(now));
        }
        let after = match self.newest_due(now) {
            Some(newest) => after.max(newest),
            None => after,
        };
        self.next(after)
    }

    /// The instant after which the next occurrence of a schedule that resumes at `at` comes: with no tables can an
    /// earlier instant become due then.
    pub fn behind(&self, after: Millis, at: Millis) -> Millis {
        let next = self.next_due(after, at);
        let before = next.map_or(at, |next| at.min(Millis(next.nominal.0 - 1)));
        after.max(before)
    }

    /// Whether there is any instant from now on, whatever its bounds.
    pub fn ever_comes(&self, now: Millis) -> bool {
        match &self.rule {
            Read::Every { .. } => true,
            Read::Cron { pattern, zone } => calendar::next(pattern, zone, seconds(now)).is_some(),
        }
    }

    /// The newest nominal instant that is due by `now`. Cost: 35 searches for a daily pattern, 5 µs.
    pub fn newest_due(&self, now: Millis) -> Option<Millis> {
        let newest = match &self.rule {
            Read::Every { .. } => self.latest(Millis(now.0.checked_sub(self.shift_ms)?))?,
            Read::Cron { .. } => {
                // One that would be due later than the next comes right before that one.
                let last = self.latest(now.plus(1))?;
                let is_due = self.due(last) <= now;
                if is_due { last } else { self.latest(Millis(last.0.checked_sub(1)?))? }
            }
        };
        if newest <= self.until {
            return Some(newest).filter(|newest| *newest >= self.from);
        }
        self.latest(self.until)
    }

    /// From `next` on, the instants due by `end`: the newest nominal instant, or one after which there is none, and
    /// their number. Cost: counting; with a shift also [`Times::newest_due`].
    pub fn due_within(&self, next: Coming, end: Millis) -> (Millis, u64) {
        let newest =
            if self.shift_ms == 0 { Some(end.min(self.until)) } else { self.newest_due(end) };
        let newest = newest.unwrap_or_default().max(next.nominal);
        (newest, self.count(Millis(next.nominal.0 - 1), newest).max(1))
    }

    /// How many nominal instants there are after `after`, up to `upto`.
    pub fn count(&self, after: Millis, upto: Millis) -> u64 {
        match &self.rule {
            Read::Every { ms, anchor } => {
                let upto_count = |at: Millis| at.0.checked_sub(anchor.0).map_or(0, |x| x / ms + 1);
                upto_count(upto).saturating_sub(upto_count(after))
            }
            Read::Cron { pattern, zone } => {
                let after = seconds(after.max(Millis(self.from.0.saturating_sub(1))));
                calendar::count(pattern, zone, after, seconds(upto))
            }
        }
    }

    /// The first of the newest `count` nominal instants up to `newest`, which is one, of those after `after`, where
    /// there are that many. Cost: 40 countings.
    pub fn first_of_newest(&self, after: Millis, newest: Millis, count: u64) -> Millis {
        if let Read::Every { ms, .. } = self.rule {
            return Millis(newest.0 - (count - 1) * ms);
        }
        if count == 1 {
            return newest;
        }
        // The greatest instant with the same number of later ones; instants are whole seconds.
        let (mut low, mut high) = (seconds(after), seconds(newest));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.count(millis(middle), newest) >= count {
                true => low = middle,
                false => high = middle,
            }
        }
        self.nominal(millis(low)).unwrap_or(newest)
    }

    /// The newest nominal instant before this one.
    pub fn before(&self, at: Millis) -> Option<Millis> {
        self.latest(Millis(at.0.checked_sub(1)?))
    }

    /// Whether this is a nominal instant, whatever its bounds.
    pub fn is_nominal(&self, at: Millis) -> bool {
        at.0 > 0 && self.nominal(Millis(at.0 - 1)) == Some(at)
    }

    /// By how much the clocks are ahead of UTC then, s.
    pub fn offset_s(&self, at: Millis) -> i32 {
        match &self.rule {
            Read::Every { .. } => 0,
            Read::Cron { zone, .. } => zone.offset(seconds(at)).unwrap_or(0) as i32,
        }
    }

    /// Whether each local time comes once, whatever is done to the clocks.
    pub fn is_local(&self) -> bool {
        match &self.rule {
            Read::Every { .. } => false,
            Read::Cron { pattern, .. } => !pattern.is_elapsed(),
        }
    }

    /// The local time then.
    pub fn show(&self, at: Millis) -> Option<String> {
        match &self.rule {
            Read::Cron { zone, .. } => zone.show(seconds(at)),
            Read::Every { .. } if at.0.is_multiple_of(1_000) => Zone::utc().show(seconds(at)),
            Read::Every { .. } => {
                // The zone shows whole seconds.
                let shown = Zone::utc().show(seconds(at))?;
                let (second, offset) = shown.split_at(shown.len().min(19));
                Some(format!("{second}.{:03}{offset}", at.0 % 1_000))
            }
        }
    }

    fn nominal(&self, after: Millis) -> Option<Millis> {
        match &self.rule {
            Read::Every { ms, anchor } => match after.0.checked_sub(anchor.0) {
                None => Some(*anchor),
                Some(since) => (since / ms + 1).checked_mul(*ms)?.checked_add(anchor.0).map(Millis),
            },
            Read::Cron { pattern, zone } => {
                let after = after.max(Millis(self.from.0.saturating_sub(1)));
                calendar::next(pattern, zone, seconds(after)).map(millis)
            }
        }
    }

    /// The newest nominal instant that is not after this one.
    fn latest(&self, at: Millis) -> Option<Millis> {
        match &self.rule {
            Read::Every { ms, anchor } => {
                let since = at.0.checked_sub(anchor.0)?;
                Some(Millis(anchor.0 + since / ms * ms))
            }
            Read::Cron { pattern, zone } => {
                let latest = calendar::latest(pattern, zone, seconds(at)).map(millis);
                latest.filter(|latest| *latest >= self.from)
            }
        }
    }

    fn due(&self, nominal: Millis) -> Millis {
        let due = nominal.plus(self.shift_ms);
        match &self.rule {
            Read::Cron { .. } if self.shift_ms > 0 => {
                let following = self.nominal(nominal).map_or(u64::MAX, |following| following.0);
                due.min(Millis(following - 1))
            }
            _ => due,
        }
    }
}
