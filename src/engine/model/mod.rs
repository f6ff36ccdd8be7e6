//! What goes into the engine, what comes out, and what is recorded: values that know no engine.

pub mod across;
pub mod budget;
pub mod event;
pub mod fact;
pub mod lateness;
pub mod leading;
pub mod policy;
pub mod queue_settings;
pub mod reply;
pub mod request;
pub mod schedule;
pub mod settings;
pub mod stats;
pub mod token;
pub mod turn;
pub mod walk;
