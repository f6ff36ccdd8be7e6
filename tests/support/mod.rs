//! What the test programs share.

#![allow(dead_code, reason = "each program uses some of it")]
#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

pub mod browser;
pub mod cluster_view;
pub mod disk;
pub mod exposition;
pub mod faults;
pub mod http;
pub mod in_process;
pub mod lossy;
pub mod patience;
pub mod program;
pub mod seeds;
pub mod seen;
pub mod source;
