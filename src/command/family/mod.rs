//! The commands, a file for each family: their rows, and the parser next to each.

pub(super) mod acl;
pub(super) mod across;
pub(super) mod backup;
pub(super) mod bulk;
pub(super) mod client;
pub(super) mod cluster;
pub(super) mod commands;
pub(super) mod connection;
pub(super) mod consume;
pub(super) mod hash_slots;
pub(super) mod help;
pub(super) mod job;
pub(super) mod journal;
pub(super) mod keyspace;
pub(super) mod list;
pub(super) mod observe;
pub(super) mod policy;
pub(super) mod produce;
pub(super) mod pubsub;
pub(super) mod queue;
pub(super) mod replication;
pub(super) mod schedule;
pub(super) mod scripting;
pub(super) mod sentinel;
pub(super) mod server;
pub(super) mod transaction;
