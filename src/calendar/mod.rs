//! When recurring jobs come: cron patterns, time zones, and the instants of both: the next one, the last one
//! before, how many there are between two. Values and arithmetic: no clock, no file; tables of zones are
//! handed in.

mod civil;
pub mod count;
pub mod next;
pub mod pattern;
pub mod version;
pub mod zone;

pub use crate::calendar::next::latest;
pub use count::count;
pub use next::{Instants, next};
pub use pattern::{Pattern, PatternError};
pub use version::is_newer;
pub use zone::{Zone, ZoneError, Zones};
