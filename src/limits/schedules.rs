//! Limits of schedules.

use super::{DAY_MS, NAME_BYTES_MAX};

/// Longest cron pattern, bytes. The longest that says something new, each field a list of all its values,
/// has 500; none that people write has 100.
pub const CRON_BYTES_MAX: usize = 256;

/// How many years of days a search for the next instant looks at before it says never. Each date falls on
/// each day of the week within 40 years, also over a year such as 2100 that is no leap year.
pub const SEARCH_YEARS: i16 = 46;

/// Longest name of a schedule, bytes: the id of an occurrence is the name, `@`, and up to 15 digits of unix ms.
pub const SCHEDULE_NAME_BYTES_MAX: usize = 480;
const _: () = assert!(SCHEDULE_NAME_BYTES_MAX + 1 + 15 <= NAME_BYTES_MAX);

/// Largest body of a schedule, bytes: it is copied for each occurrence.
pub const SCHEDULE_BODY_BYTES_MAX: usize = 1 << 20;

/// Least duration of EVERY, ms: what is to come more often is a producer.
pub const EVERY_MS_MIN: u64 = 100;

/// The last instant that FROM and UNTIL may name, unix ms: the last ms of the year 9999, where calendars end.
pub const SCHEDULE_INSTANT_MS_MAX: u64 = 253_402_300_799_999;

/// Longest SPREAD, ms.
pub const SPREAD_MS_MAX: u64 = DAY_MS;

/// Least GRACE, ms: what is at work on time is at most so late by itself.
pub const GRACE_MS_MIN: u64 = 1_000;

/// Largest CATCHUP.
pub const CATCHUP_MAX: u32 = 10_000;

/// Largest COUNT of NEXT and EXPLAIN: a search takes 0.2 µs, one over many years 20 µs.
pub const INSTANTS_MAX: u32 = 1_000;

/// Occurrences of a schedule that are known by their ids, to report which are open.
pub const OPEN_MAX: usize = 16;

/// Names that one LIST looks at.
pub const SCHEDULES_LISTED_MAX: usize = 10_000;

/// Rows of LIST when no COUNT is given.
pub const SCHEDULES_LISTED_DEFAULT: u32 = 100;

/// Steps of passing time as which settling what is made up for counts: some 40 countings of instants over months,
/// a µs to 10 µs each.
pub const LATE_STEPS: u32 = 128;

/// Steps of passing time as which an occurrence counts: 1.5 to 3 µs, where a job that falls due takes half a µs.
pub const OCCURRENCE_STEPS: u32 = 4;

/// Bytes of a body whose copy counts as one step of passing time.
pub const BODY_BYTES_PER_STEP: usize = 16 << 10;

/// After this long a held occurrence is retried, ms.
pub const HELD_RETRY_MS: u64 = 1_000;

/// Schedules that one look at a queue counts as held.
pub const HELD_COUNTED_MAX: usize = 1_000;

/// Schedules looked through in one turn for new tables of zones: about 1 ms.
pub const ZONES_LOOKED_PER_TURN: u32 = 1_024;

/// Missed occurrences that are noted for the log in a second; counted are all.
pub const MISSED_NOTED_MAX: usize = 16;

/// Entries of a folder of zone tables, including subfolders: the IANA database has 600 zones and some folders and
/// lists. A folder with more, such as a home, is the wrong one.
pub const ZONE_FILES_MAX: usize = 2_000;

/// Folders within each other below such a folder; `America/Argentina/Ushuaia` is in the second.
pub const ZONE_FOLDERS_DEEP_MAX: usize = 4;

/// Longest name of a zone, bytes; the longest of the database has 32.
pub const ZONE_NAME_BYTES_MAX: usize = 64;

/// Largest table of a zone, bytes; those with all instants written out have 4 KiB.
pub const ZONE_FILE_BYTES_MAX: u64 = 1 << 20;

/// All tables together, bytes, which are kept in memory; those of the database have up to 2 MiB.
pub const ZONE_TABLES_BYTES_MAX: u64 = 16 << 20;
const _: () = assert!(ZONE_FILE_BYTES_MAX <= ZONE_TABLES_BYTES_MAX);

/// How often newer tables are looked for, µs. They are published some times a year, often days before they apply, and
/// seldom less than a day.
pub const ZONES_LOOK_US: u64 = 3_600_000_000;
