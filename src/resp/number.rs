//! Decimal numbers as the protocol writes them.

/// The longest `i64` in decimal: `-9223372036854775808`.
const I64_BYTES_MAX: usize = 20;

/// Reads a whole header number the way Redis does: an optional `-`, then digits, where `+4`, `04`,
/// `-0`, blanks and the empty string are no numbers.
pub(super) fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        b"0" if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= I64_BYTES_MAX => {}
        _ => return None,
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The decimal digits of one number, made on the stack with room for what surrounds them in a
/// header line, so that a line is copied into the buffer in one piece.
///
/// `redis-protocol` sizes a number by the floating-point logarithm, which takes
/// 999,999,999,999,999,999 for 19 digits and leaves a NUL byte after its 18.
pub(super) struct Decimal {
    /// The kind of the line, 20 digits or 19 and a sign, flush right, and the line end.
    bytes: [u8; LINE_BYTES],
    start: usize,
}

const LINE_BYTES: usize = 1 + I64_BYTES_MAX + 2;
const DIGITS_END: usize = LINE_BYTES - 2;

/// 00 to 99: two digits for one division.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

impl Decimal {
    #[inline]
    pub(super) fn new(value: i64) -> Self {
        let mut decimal = Self::magnitude(value.unsigned_abs());
        if value < 0 {
            // At most 19 digits come before the sign: 9,223,372,036,854,775,808.
            decimal.start -= 1;
            decimal.bytes[decimal.start] = b'-';
        }
        decimal
    }

    #[inline]
    pub(super) fn magnitude(mut rest: u64) -> Self {
        let mut bytes = [0; LINE_BYTES];
        bytes[DIGITS_END] = b'\r';
        bytes[DIGITS_END + 1] = b'\n';
        // 20 digits hold any u64, 18,446,744,073,709,551,615 at most, and leave `bytes[0]` free.
        let mut start = DIGITS_END;
        while rest >= 10 {
            start -= 2;
            bytes[start..start + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        // Nothing is left of an even number of digits, which are all written, except of 0.
        if rest > 0 || start == DIGITS_END {
            start -= 1;
            bytes[start] = b'0' + rest as u8;
        }
        Self { bytes, start }
    }

    /// The digits alone.
    #[inline]
    pub(super) fn digits(&self) -> &[u8] {
        &self.bytes[self.start..DIGITS_END]
    }

    /// `kind`, the digits and a line end.
    #[inline]
    pub(super) fn line(&mut self, kind: u8) -> &[u8] {
        self.bytes[self.start - 1] = kind;
        &self.bytes[self.start - 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_numbers_are_those_of_redis() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("1048576", 1_048_576),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "", "-", "+4", "04", "00", "-0", "-04", " 4", "4 ", "4a", "--4", "0x4",
            "9223372036854775808", "-9223372036854775809", "111111111111111111111111",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn decimals_agree_with_std() {
        let mut edge = 1i64;
        let mut values = vec![0, i64::MAX, i64::MIN];
        while let Some(next) = edge.checked_mul(10) {
            values.extend([edge - 1, edge, edge + 1, -edge, 1 - edge, -edge - 1]);
            edge = next;
        }
        for value in values {
            assert_eq!(Decimal::new(value).digits(), value.to_string().as_bytes());
        }
        assert_eq!(Decimal::magnitude(u64::MAX).line(b'$'), b"$18446744073709551615\r\n");
    }
}
