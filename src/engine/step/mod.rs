//! What several decisions share.

pub(super) mod retry;
pub(super) mod slice;
