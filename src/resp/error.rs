//! Errors of a client below the level of commands, and the cost limits of one request.

pub use crate::limits::{
    ELEMENTS_MAX, LINE_BYTES_MAX, UNAUTHENTICATED_BULK_BYTES_MAX, UNAUTHENTICATED_ELEMENTS_MAX,
};

/// A request that cannot be framed. The beginning of the next one is unknown, so the text is sent
/// as an error reply and the connection is closed after it.
///
/// `Display` gives the whole reply text without the leading `-`. It matches Redis word for word
/// unless the variant says otherwise.
///
/// ```
/// use delayd::resp::ProtocolError;
/// assert_eq!(
///     ProtocolError::ExpectedBulk { got: b':' }.to_string(),
///     "ERR Protocol error: expected '$', got ':'"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// An inline command went on for 64 KiB without a line end.
    #[error("ERR Protocol error: too big inline request")]
    InlineTooLong,
    /// An inline command with an open quote, or text right after a closing one.
    #[error("ERR Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// `*` and 64 KiB without a line end.
    #[error("ERR Protocol error: too big mbulk count string")]
    CountTooLong,
    /// `*` followed by no number, or by more than [`ELEMENTS_MAX`](super::ELEMENTS_MAX).
    #[error("ERR Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More than ten elements before authentication.
    #[error("ERR Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// An element header of 64 KiB without a line end.
    #[error("ERR Protocol error: too big bulk count string")]
    LengthTooLong,
    /// An element other than a bulk string.
    #[error("ERR Protocol error: expected '$', got '{}'", shown(*got))]
    ExpectedBulk {
        /// The byte in place of the `$`. Shown as itself if printable, as a space if CR or LF (as
        /// Redis does), else as `\xNN`, where Redis sends the raw byte and with it broken UTF-8.
        got: u8,
    },
    /// `$` followed by no number, a negative one, or one above `bulk_bytes_max`.
    #[error("ERR Protocol error: invalid bulk length")]
    InvalidLength,
    /// A bulk string above 16 KiB before authentication.
    #[error("ERR Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
    /// The request as a whole exceeds `command_bytes_max`. The text is ours: Redis closes without a
    /// word when its query buffer is full.
    #[error("ERR Protocol error: request exceeds the limit of {bytes_max} bytes")]
    CommandTooLong {
        /// The limit in bytes.
        bytes_max: u32,
    },
}

/// A byte in the form of an error text.
fn shown(got: u8) -> String {
    match got {
        b'\r' | b'\n' => " ".to_owned(),
        got if got == b' ' || got.is_ascii_graphic() => char::from(got).to_string(),
        got => format!("\\x{got:02x}"),
    }
}

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
