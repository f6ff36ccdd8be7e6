//! What clients ask for, decided: a file for each family of requests.

pub(super) mod add;
pub(super) mod change;
pub(super) mod configure;
pub(super) mod forecast;
pub(super) mod inspect;
pub(super) mod keys;
pub(super) mod lease;
pub(super) mod list;
pub(super) mod lower;
pub mod purge;
pub(super) mod redrive;
pub mod watch;
pub mod whole;
