//! How many instants of a pattern lie between two, without a look at each.
//!
//! Local seconds are counted by whole days of months and parts of days. An elapsed pattern counts each span
//! between changes of the clocks as they show it, so that a fold counts twice and a gap not at all. Each
//! other pattern counts a range of local times once, whatever the clocks do meanwhile, and of each gap
//! in it all that matches is one instant. `0-59 1-2 * * *` in Berlin from 28 March 2026, 12:00, to the 29th,
//! 12:00: of local times 120 match. The clocks step from 02:00 to 03:00, so the 60 of the second hour
//! are one instant at 03:00, and 61 are left.

use super::civil;
use super::next::{FIRST, LAST, first_unseen};
use super::pattern::Pattern;
use super::zone::Zone;

/// How many instants lie after `after` and not after `upto`, both in unix seconds: as many as
/// [`Instants`](super::Instants) finds there one by one.
///
/// 0.1 µs for each month and each change of the clocks in between, however many instants there are: 15 µs for
/// ten years.
///
/// ```
/// use delayd::calendar::{Pattern, Zones, count};
/// let berlin = Zones::bundled().get("Europe/Berlin").unwrap();
/// // From 28 March 2026, 12:00, on. In the night the clocks go from 02:00 to 03:00.
/// let noon = 1_774_695_600;
/// let hourly = Pattern::parse(b"0 * * * *").unwrap();
/// assert_eq!(count(&hourly, &berlin, noon, noon + 86_400), 24);
/// let nightly = Pattern::parse(b"0-59 1-2 * * *").unwrap();
/// assert_eq!(count(&nightly, &berlin, noon, noon + 86_400), 61);
/// ```
pub fn count(pattern: &Pattern, zone: &Zone, after: i64, upto: i64) -> u64 {
    let (after, upto) = (after.max(FIRST), upto.min(LAST));
    if after >= upto {
        return 0;
    }
    let counted = match pattern.is_elapsed() {
        true => count_elapsed(pattern, zone, after, upto),
        false => count_local(pattern, zone, after, upto),
    };
    // None only of what lies outside of the calendar.
    counted.unwrap_or(0)
}

fn count_elapsed(pattern: &Pattern, zone: &Zone, after: i64, upto: i64) -> Option<u64> {
    let (mut from, end) = (after + 1, upto + 1);
    let mut offset = zone.offset(from)?;
    let mut instants = 0;
    for (change, then) in zone.changes(from).take_while(|(change, _)| *change < end) {
        instants += civil::count(pattern, from + offset, change + offset);
        (from, offset) = (change, then);
    }
    instants += civil::count(pattern, from + offset, end + offset);
    Some(instants)
}

fn count_local(pattern: &Pattern, zone: &Zone, after: i64, upto: i64) -> Option<u64> {
    let mut instants = civil::count(pattern, first_unseen(zone, after)?, first_unseen(zone, upto)?);
    let mut offset = zone.offset(after)?;
    for (change, then) in zone.changes(after).take_while(|(change, _)| *change <= upto) {
        if then > offset {
            // The local time at the end of the gap: it is the same instant.
            let same = civil::count(pattern, change + offset, change + then + 1);
            instants -= same.saturating_sub(1);
        }
        offset = then;
    }
    Some(instants)
}
