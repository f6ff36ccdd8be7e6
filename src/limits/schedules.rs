//! Limits of schedules.

/// Longest cron pattern, bytes. The longest that says something new, each field a list of all its values,
/// has 500; none that people write has 100.
pub const CRON_BYTES_MAX: usize = 256;

/// How many years of days a search for the next instant looks at before it says never. Each date falls on
/// each day of the week within 40 years, also over a year such as 2100 that is no leap year.
pub const SEARCH_YEARS: i16 = 46;
