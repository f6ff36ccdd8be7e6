//! The parts of commands, replies and forms; and writing untrusted bytes into a page.

pub mod escape;
pub mod params;
pub mod reply;
pub mod value;
