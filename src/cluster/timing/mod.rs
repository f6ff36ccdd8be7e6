//! A node's measurements: the time, until when it may answer alone, how old its reads are, how healthy its disk is.

pub mod clocks;
pub mod freshness;
pub mod health;
pub mod lease;
