//! Work on a journal that no server has open: shown to people, checked, repaired, restored, given to a new cluster.

pub mod check;
pub mod dump;
pub mod lower_clock;
pub mod new_cluster;
pub mod repair;
pub mod restore;
