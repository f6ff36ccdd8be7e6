//! Commands typed as a line, without array framing: `DELAY.ADD mail 5s "hello \"you\""`.

use super::args::Span;
use super::error::ProtocolError;

/// Splits the line `buf[..end]` (no line end) into arguments as Redis does.
///
/// Arguments are separated by spaces. In `"..."`, `\n \r \t \b \a`, `\xHH` and a backslash before
/// any other byte are resolved; in `'...'` only `\'` is. A quote may open in the middle of an
/// argument (`a"b c"` is `ab c`) but must be followed by a space or the end where it closes. Unlike
/// in Redis, whose strings end there, a NUL byte is an ordinary byte.
///
/// The unquoted bytes are written over the line itself. Resolving never grows: every output byte
/// takes at least one input byte and each opening quote takes one more, so the write position never
/// passes the read position.
pub(super) fn split(
    buf: &mut [u8],
    end: u32,
    argument_bytes_max: u32,
    spans: &mut Vec<Span>,
) -> Result<(), ProtocolError> {
    let mut line = LineCursor { bytes: &mut buf[..end as usize], read: 0, write: 0 };
    loop {
        while line.peek(0).is_some_and(is_space) {
            line.read += 1;
        }
        if line.peek(0).is_none() {
            return Ok(());
        }
        let start = line.write;
        line.argument()?;
        let len = (line.write - start) as u32;
        // The bytes are here already, but the limit is one of the command, not of its spelling.
        spans.push(if len > argument_bytes_max {
            Span::discarded(len)
        } else {
            Span::kept(start as u32, len)
        });
    }
}

struct LineCursor<'a> {
    bytes: &'a mut [u8],
    read: usize,
    write: usize,
}

impl LineCursor<'_> {
    /// Reads one argument from its first byte to the separator after it.
    fn argument(&mut self) -> Result<(), ProtocolError> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => break,
                b'"' => return self.double_quoted(),
                b'\'' => return self.single_quoted(),
                _ => self.copy(byte, 1),
            }
        }
        Ok(())
    }

    fn double_quoted(&mut self) -> Result<(), ProtocolError> {
        self.read += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(ProtocolError::UnbalancedQuotes),
                (Some(b'"'), after) => return self.close(after),
                (Some(b'\\'), Some(b'x')) if self.hex().is_some() => {
                    let byte = self.hex().unwrap_or_default();
                    self.copy(byte, 4);
                }
                (Some(b'\\'), Some(escaped)) => {
                    let byte = match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 0x08,
                        b'a' => 0x07,
                        other => other,
                    };
                    self.copy(byte, 2);
                }
                (Some(byte), _) => self.copy(byte, 1),
            }
        }
    }

    fn single_quoted(&mut self) -> Result<(), ProtocolError> {
        self.read += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(ProtocolError::UnbalancedQuotes),
                (Some(b'\''), after) => return self.close(after),
                (Some(b'\\'), Some(b'\'')) => self.copy(b'\'', 2),
                (Some(byte), _) => self.copy(byte, 1),
            }
        }
    }

    fn close(&mut self, after: Option<u8>) -> Result<(), ProtocolError> {
        self.read += 1;
        match after {
            Some(byte) if !is_space(byte) => Err(ProtocolError::UnbalancedQuotes),
            _ => Ok(()),
        }
    }

    /// The value of `\xHH` at the read position, if both digits are hexadecimal.
    fn hex(&self) -> Option<u8> {
        let digit = |at| char::from(self.peek(at)?).to_digit(16);
        Some((digit(2)? * 16 + digit(3)?) as u8)
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.read + ahead).copied()
    }

    /// Writes one byte of the argument for `taken` bytes of the line.
    fn copy(&mut self, byte: u8, taken: usize) {
        debug_assert!(self.write <= self.read);
        self.bytes[self.write] = byte;
        self.write += 1;
        self.read += taken;
    }
}

/// C's `isspace`, which, unlike Rust's, counts the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[u8], expected: Option<&[&[u8]]>) {
        let mut buf = line.to_vec();
        let mut spans = Vec::new();
        let end = buf.len() as u32;
        let result = split(&mut buf, end, u32::MAX, &mut spans);
        let args: Vec<&[u8]> = spans.iter().map(|span| &buf[span.range().unwrap()]).collect();
        match expected {
            Some(expected) => {
                assert_eq!(result, Ok(()), "{}", line.escape_ascii());
                assert_eq!(args, expected, "{}", line.escape_ascii());
            }
            None => assert_eq!(result, Err(ProtocolError::UnbalancedQuotes)),
        }
    }

    // Every line and its outcome was compared with redis-server 7.0.15, the NUL byte excepted.
    #[test]
    fn lines_split_as_in_redis() {
        check(b"", Some(&[]));
        check(b" \t ", Some(&[]));
        check(b"PING", Some(&[b"PING"]));
        check(b"  a  b\tc ", Some(&[b"a", b"b", b"c"]));
        check(b"PING\rX", Some(&[b"PING", b"X"]));
        check(b"\x0bPING", Some(&[b"PING"]));
        check(b"a\x0bb c\x0cd", Some(&[b"a\x0bb", b"c\x0cd"]));
        check(b"a\xa0b", Some(&[b"a\xa0b"]));
        check(b"a\0b c", Some(&[b"a\0b", b"c"]));
        check(br#""""#, Some(&[b""]));
        check(br#""" '' x"#, Some(&[b"", b"", b"x"]));
        check(br#""PI\x4eG""#, Some(&[b"PING"]));
        check(br#"a"b c" d"#, Some(&[b"ab c", b"d"]));
        check(br#"'x"y' "x'y""#, Some(&[b"x\"y", b"x'y"]));
        check(br#""\n\r\t\b\a\q\x4\"\\""#, Some(&[b"\n\r\t\x08\x07qx4\"\\"]));
        check(br"'a\'b\n'", Some(&[br"a'b\n"]));
        check(br"a\x41", Some(&[br"a\x41"]));
        check(b"\"a\"\x0b", Some(&[b"a"]));
        check(br#"PING "a"#, None);
        check(br#"PING "a"b"#, None);
        check(br"PING 'a'b", None);
        check(br"PING 'a", None);
        check(br#"ECHO "a\"#, None);
        check(br"ECHO 'a\", None);
    }
}
