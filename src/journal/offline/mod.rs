//! Work on a journal that no server has open: shown to people, checked, repaired, restored, given to a new cluster.

pub mod check;
pub mod dump;
pub mod lower_clock;
pub mod new_cluster;
pub mod repair;
pub mod restore;

use crate::engine::Settings;
use crate::limits::HISTORY_QUEUES_MAX;

/// For an engine whose state goes on somewhere else, with what DELAY.HISTORY has.
fn keeping_minutes() -> Settings {
    Settings { history_queues_max: HISTORY_QUEUES_MAX, ..Settings::default() }
}
