//! Commands: one table of what they are called, what they take and how they are parsed.

pub mod action;
pub mod render;
pub mod spec;

pub use spec::CommandSpec;
