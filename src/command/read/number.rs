//! Numbers as users write them. None of these readers can overflow, whatever the digits.

/// A whole number in decimal digits, leading zeros allowed; none for anything else and beyond
/// 2^64 − 1.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match unsigned_or_more(text)? {
        Whole::Fits(value) => Some(value),
        Whole::TooLarge => None,
    }
}

/// A whole number that may be beyond the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// Up to 2^64 − 1.
    Fits(u64),
    /// Digits, but of a larger number.
    TooLarge,
}

/// So many digits always fit: 10^19 is less than 2^64.
const DIGITS_THAT_FIT: usize = 19;

/// A whole number in decimal digits, however large; none if `text` is anything else.
pub fn unsigned_or_more(text: &[u8]) -> Option<Whole> {
    // Every delay and every instant is read here.
    if (1..=DIGITS_THAT_FIT).contains(&text.len()) {
        let mut value = 0;
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(Whole::Fits(value));
    }
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text
        .iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(value.map_or(Whole::TooLarge, Whole::Fits))
}

/// A whole number with an optional sign `-`, leading zeros allowed, within 64 bits.
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// Why a timeout is refused; the texts are Redis's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TimeoutError {
    #[error("ERR timeout is not a float or out of range")]
    NotANumber,
    /// Below zero.
    #[error("ERR timeout is negative")]
    Negative,
    /// Above 2^63 − 1 ms.
    #[error("ERR timeout is out of range")]
    TooLarge,
}

/// A timeout in seconds, as BLPOP reads it: `1`, `0.25`, `.5`, `1e-3`, `0x1p-1`; in ms, rounded up,
/// so that no positive timeout becomes 0, which means for ever.
///
/// Decimal digits are shifted, never multiplied: `0.07` is 70 ms, where a floating-point product
/// would make it 70.00000000000001 and round up to 71.
pub fn timeout_ms(text: &[u8]) -> Result<u64, TimeoutError> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let lower = rest.to_ascii_lowercase();
    let ms = match lower.strip_prefix(b"0x") {
        _ if lower == b"inf" || lower == b"infinity" => Some(u64::MAX),
        Some(hex) => scaled_ms(hex, 16),
        None => scaled_ms(&lower, 10),
    };
    match ms.ok_or(TimeoutError::NotANumber)? {
        0 => Ok(0),
        _ if negative => Err(TimeoutError::Negative),
        ms if ms > i64::MAX as u64 => Err(TimeoutError::TooLarge),
        ms => Ok(ms),
    }
}

/// `digits[.digits][e±digits]` seconds in ms, rounded up, at most `u64::MAX`; in base 16 the
/// exponent follows `p` and is one of 2.
fn scaled_ms(text: &[u8], base: u32) -> Option<u64> {
    let mark = if base == 16 { b'p' } else { b'e' };
    let (number, exponent) = match text.iter().position(|byte| *byte == mark) {
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, part) = match number.iter().position(|byte| *byte == b'.') {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &b""[..]),
    };
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut digits = Vec::with_capacity(number.len());
    for byte in whole.iter().chain(part) {
        digits.push(char::from(*byte).to_digit(base)?);
    }
    Some(match base {
        // × 1000 moves the point by three digits.
        10 => decimal_ms(&digits, whole.len() as i64 + exponent + 3),
        _ => binary_ms(&digits, exponent - 4 * part.len() as i64),
    })
}

/// The digits after an exponent's mark; beyond ±100,000 it makes no difference any more.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let size = match unsigned_or_more(digits)? {
        Whole::Fits(value) => value.min(1 << 40) as i64,
        Whole::TooLarge => 1 << 40,
    };
    Some(if negative { -size } else { size })
}

/// `digits` with the point after the first `point` of them, rounded up.
fn decimal_ms(digits: &[u32], point: i64) -> u64 {
    let mut value = 0u64;
    for at in 0..point.min(digits.len() as i64) {
        let digit = u64::from(digits[at as usize]);
        match value.checked_mul(10).and_then(|value| value.checked_add(digit)) {
            Some(grown) => value = grown,
            None => return u64::MAX,
        }
    }
    for _ in digits.len() as i64..point {
        if value == 0 {
            break;
        }
        match value.checked_mul(10) {
            Some(grown) => value = grown,
            None => return u64::MAX,
        }
    }
    let behind = digits.get(point.max(0) as usize..).unwrap_or_default();
    value.saturating_add(u64::from(behind.iter().any(|digit| *digit != 0)))
}

/// Hex `digits` × 2^`shift` seconds in ms, rounded up.
fn binary_ms(digits: &[u32], mut shift: i64) -> u64 {
    // The leading 64 bits decide; what is cut off below can only round up.
    let (mut mantissa, mut sticky) = (0u64, false);
    for digit in digits {
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | u64::from(*digit);
        } else {
            shift += 4;
            sticky |= *digit != 0;
        }
    }
    let ms = u128::from(mantissa) * 1000;
    if ms == 0 {
        return u64::from(sticky);
    }
    let (whole, rest) = match shift {
        0.. if shift >= i64::from(ms.leading_zeros()) => return u64::MAX,
        0.. => (ms << shift, false),
        -127..0 => (ms >> -shift, ms & ((1 << -shift) - 1) != 0),
        _ => (0, true),
    };
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(u64::from(rest || sticky))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_leading_zeros_and_limits() {
        assert_eq!(unsigned(b"000000000042"), Some(42));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"0018446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        for text in ["1/", ":1", "999999999999999999:", "/9999999999999999999"] {
            assert_eq!(unsigned(text.as_bytes()), None, "{text}");
        }
        for text in ["", "-1", "+1", " 1", "1 ", "1.0", "0x1", "18446744073709551616"] {
            assert_eq!(unsigned(text.as_bytes()), None, "{text}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        for text in ["9223372036854775808", "-9223372036854775809", "-", "--1"] {
            assert_eq!(signed(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn timeouts_are_read_as_blpop_reads_them() {
        for (text, ms) in [
            ("0", 0),
            ("-0", 0),
            ("0.0", 0),
            ("0e99", 0),
            ("0x0", 0),
            ("1", 1000),
            ("01", 1000),
            ("+0.01", 10),
            ("0.07", 70),
            ("0.0001", 1),
            ("1e-400", 1),
            ("1e-1", 100),
            ("1.0005", 1001),
            (".1", 100),
            ("1.", 1000),
            ("1E3", 1_000_000),
            ("0x1p-1", 500),
            ("0X.1", 63),
            ("0x0.1", 63),
            ("0x10", 16_000),
            ("0x1p-4000", 1),
            ("0x1.0000000000000000000001", 1001),
            ("9223372036854775.807", i64::MAX as u64),
            ("00000000000000000000000000000000001", 1000),
        ] {
            assert_eq!(timeout_ms(text.as_bytes()), Ok(ms), "{text}");
        }
        for text in
            ["", " 1", "1 ", "abc", "nan", "-nan", "1e", "e1", ".", "0x", "0xg", "1p1", "--1"]
        {
            assert_eq!(timeout_ms(text.as_bytes()), Err(TimeoutError::NotANumber), "{text}");
        }
        for text in ["-1", "-0.0000001", "-inf", "-1e999"] {
            assert_eq!(timeout_ms(text.as_bytes()), Err(TimeoutError::Negative), "{text}");
        }
        for text in [
            "inf",
            "Infinity",
            "1e400",
            "1e99999999999999999999999",
            "9223372036854775.808",
            "18446744073709551615",
            "0x1p100",
            "0x1p99999999999999999999",
            "0xffffffffffffffffffffffffffffffffffff",
        ] {
            assert_eq!(timeout_ms(text.as_bytes()), Err(TimeoutError::TooLarge), "{text}");
        }
    }
}
