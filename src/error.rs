//! Typed errors that become error replies.
