//! The hierarchical timing wheel.
