//! When recurring jobs come: cron patterns, time zones, and the search for the next instant. Values and
//! arithmetic: no clock, no file; tables of zones are handed in.

pub mod next;
pub mod pattern;
pub mod zone;

pub use next::{Instants, next};
pub use pattern::{Pattern, PatternError};
pub use zone::{Zone, ZoneError, Zones};
