//! What two nodes exchange before and besides Raft: frames, the handshake, signatures, and whether both hold the same
//! data.

pub mod frame;
pub mod hello;
pub mod seal;
pub mod verify;
