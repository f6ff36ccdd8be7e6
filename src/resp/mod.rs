//! Request framing and reply encoding; no I/O.
