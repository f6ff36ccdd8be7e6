//! What one request may cost before it is refused.

pub use crate::limits::{
    ELEMENTS_MAX, LINE_BYTES_MAX, UNAUTHENTICATED_BULK_BYTES_MAX, UNAUTHENTICATED_ELEMENTS_MAX,
};

// Ten elements of the largest size with their headers fit the whole-command limit of such a client.
const _: () = assert!(
    UNAUTHENTICATED_ELEMENTS_MAX * (UNAUTHENTICATED_BULK_BYTES_MAX + 32)
        < FrameLimits::UNAUTHENTICATED.command_bytes_max
);

/// The limits that apply to one connection now; they may change between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Whether the client has authenticated, or need not. If not, the two `UNAUTHENTICATED_*_MAX`
    /// bounds apply as well.
    pub authenticated: bool,
    /// Redis's `proto-max-bulk-len`: a longer announced bulk string ends the connection.
    pub bulk_bytes_max: u32,
    /// An argument longer than this, yet within `bulk_bytes_max`, is thrown away as it arrives and
    /// reported as [`Arg::Oversized`](super::Arg::Oversized).
    pub argument_bytes_max: u32,
    /// Where that limit comes from, for the error.
    pub argument_limit: &'static str,
    /// Most bytes one request may hold in the read buffer: headers, line ends and all arguments
    /// that are kept. Beyond it the connection ends.
    pub command_bytes_max: u32,
}

impl FrameLimits {
    /// An authenticated client under the default configuration: bulk strings up to 512 MiB are
    /// read, arguments up to 16 MiB kept, and 64 MiB held for one request.
    pub const DEFAULT: Self = Self {
        authenticated: true,
        bulk_bytes_max: 512 * 1024 * 1024,
        argument_bytes_max: 16 * 1024 * 1024,
        argument_limit: "max-body-size",
        command_bytes_max: 64 * 1024 * 1024,
    };

    /// A client that has yet to authenticate; Redis also stops at 1 MiB of unread requests there.
    pub const UNAUTHENTICATED: Self =
        Self { authenticated: false, command_bytes_max: 1024 * 1024, ..Self::DEFAULT };

    /// The same for a client that has yet to authenticate.
    pub fn before_auth(self) -> Self {
        let narrow = Self::UNAUTHENTICATED.command_bytes_max;
        let command_bytes_max = self.command_bytes_max.min(narrow);
        Self { authenticated: false, command_bytes_max, ..self }
    }
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
