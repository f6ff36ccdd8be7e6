//! The last instant of a pattern before another.

use super::civil::YEAR;
use super::next::{FIRST, LAST, next};
use super::pattern::Pattern;
use super::zone::Zone;
use crate::limits::SEARCH_YEARS;

/// The last instant at `at` or before, both in unix seconds; None if there is none within
/// [`SEARCH_YEARS`] years before.
///
/// By [`next`] alone, which is monotone: windows before `at` that double until one has an instant, and then
/// halves of what is left of it. That is one search for a pattern that never matches, 2 for one of every
/// second, 35 for a daily one, and at most 65: 5 µs typically, 0.2 ms for one of each 28 years.
///
/// ```
/// use delayd::calendar::{Pattern, Zones, latest};
/// let berlin = Zones::bundled().get("Europe/Berlin").unwrap();
/// let pattern = Pattern::parse(b"30 2 * * *").unwrap();
/// // Of 29 March 2026, 12:00. In the night the clocks went from 02:00 to 03:00.
/// let at = latest(&pattern, &berlin, 1_774_778_400).unwrap();
/// assert_eq!(berlin.show(at).unwrap(), "2026-03-29T03:00:00+02:00");
/// assert_eq!(latest(&pattern, &berlin, at), Some(at));
/// ```
pub fn latest(pattern: &Pattern, zone: &Zone, at: i64) -> Option<i64> {
    let at = at.min(LAST);
    let found_after = |from: i64| next(pattern, zone, from).filter(|found| *found <= at);
    let earliest = at.saturating_sub(i64::from(SEARCH_YEARS) * YEAR).max(FIRST);
    let mut found = found_after(earliest)?;
    // `found` is an instant, and none lies behind `clear` and up to `at`.
    let mut clear = at;
    let mut window = 1;
    while at - window > found {
        match found_after(at - window) {
            Some(later) => {
                found = later;
                break;
            }
            None => clear = at - window,
        }
        window *= 2;
    }
    while found < clear {
        let middle = found + (clear - found) / 2;
        match found_after(middle) {
            Some(later) => found = later,
            None => clear = middle,
        }
    }
    Some(found)
}
