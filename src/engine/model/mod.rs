//! Inputs and outputs of the engine, and its records: values that know no engine.

pub mod across;
pub mod bulk;
pub mod errors;
pub mod event;
pub mod fact;
pub mod group;
pub mod holder;
pub mod last_errors;
pub mod lateness;
pub mod leading;
pub mod meta;
pub mod minutes;
pub mod policy;
pub mod queue_settings;
pub mod reply;
pub mod request;
pub mod schedule;
pub mod settings;
pub mod stats;
pub mod terms;
pub mod token;
pub mod turn;
pub mod walk;
