//! What a client can get wrong below the level of commands.

/// A request that cannot be framed. There is no way to tell where the next one starts, so the text
/// is sent as an error reply and the connection is closed after it.
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

/// A byte as it stands in an error text.
fn shown(got: u8) -> String {
    match got {
        b'\r' | b'\n' => " ".to_owned(),
        got if got == b' ' || got.is_ascii_graphic() => char::from(got).to_string(),
        got => format!("\\x{got:02x}"),
    }
}
