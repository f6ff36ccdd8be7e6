//! The `delayd` server program.

fn main() {}
