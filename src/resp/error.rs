//! What a client can get wrong below the level of commands.

use std::fmt;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command went on for 64 KiB without a line end.
    InlineTooLong,
    /// An inline command with an open quote, or text right after a closing one.
    UnbalancedQuotes,
    /// `*` and 64 KiB without a line end.
    CountTooLong,
    /// `*` followed by no number, or by more than [`ELEMENTS_MAX`](super::ELEMENTS_MAX).
    InvalidCount,
    /// More than ten elements before authentication.
    UnauthenticatedCount,
    /// An element header of 64 KiB without a line end.
    LengthTooLong,
    /// An element other than a bulk string.
    ExpectedBulk {
        /// The byte in place of the `$`. Shown as itself if printable, as a space if CR or LF (as
        /// Redis does), else as `\xNN`, where Redis sends the raw byte and with it broken UTF-8.
        got: u8,
    },
    /// `$` followed by no number, a negative one, or one above `bulk_bytes_max`.
    InvalidLength,
    /// A bulk string above 16 KiB before authentication.
    UnauthenticatedLength,
    /// The request as a whole exceeds `command_bytes_max`. The text is ours: Redis closes without a
    /// word when its query buffer is full.
    CommandTooLong {
        /// The limit in bytes.
        bytes_max: u32,
    },
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        match *self {
            Self::InlineTooLong => f.write_str("too big inline request"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            Self::CountTooLong => f.write_str("too big mbulk count string"),
            Self::InvalidCount => f.write_str("invalid multibulk length"),
            Self::UnauthenticatedCount => f.write_str("unauthenticated multibulk length"),
            Self::LengthTooLong => f.write_str("too big bulk count string"),
            Self::ExpectedBulk { got: b'\r' | b'\n' } => f.write_str("expected '$', got ' '"),
            Self::ExpectedBulk { got } if got == b' ' || got.is_ascii_graphic() => {
                write!(f, "expected '$', got '{}'", char::from(got))
            }
            Self::ExpectedBulk { got } => write!(f, "expected '$', got '\\x{got:02x}'"),
            Self::InvalidLength => f.write_str("invalid bulk length"),
            Self::UnauthenticatedLength => f.write_str("unauthenticated bulk length"),
            Self::CommandTooLong { bytes_max } => {
                write!(f, "request exceeds the limit of {bytes_max} bytes")
            }
        }
    }
}

impl std::error::Error for ProtocolError {}
