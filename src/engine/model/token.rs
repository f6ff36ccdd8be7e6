//! Numbers for tokens and server-made ids.
//!
//! One counter serves both. It begins at the greater of the recovered value and the wall clock's ms
//! at start × 2^20, so that neither repeats even if the newest facts were lost: 1,048,576 numbers
//! fit into each ms between two starts, a billion a second. (2^22 would leave the 63 bits of a token
//! in 2039, 2^20 does in 2248.)

/// The length of a server-made id, bytes.
pub const ID_BYTES: usize = 13;

/// 32 digits in ASCII order without i, l, o and u, which are misread.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The start of the counter for a wall clock of `wall_ms`. One beyond 2248 is wrong, and must not wrap around to used
/// numbers: it counts as 50 days before the end of the 63 bits.
pub fn floor_at(wall_ms: u64) -> u64 {
    wall_ms.min((1 << 43) - (1 << 32)) << 20
}

/// The id made from `number`: 13 digits of 5 bits, so that ids sort as their numbers do.
pub fn written(number: u64) -> [u8; ID_BYTES] {
    let mut id = [b'0'; ID_BYTES];
    for (digit, at) in id.iter_mut().zip((0..ID_BYTES as u32).rev()) {
        *digit = DIGITS[(number >> (5 * at)) as usize & 31];
    }
    id
}

/// The number from which `id` would have been made, if any; clients may choose such ids too.
pub fn read(id: &[u8]) -> Option<u64> {
    let id: &[u8; ID_BYTES] = id.try_into().ok()?;
    let mut number = 0u64;
    let mut seen = 0;
    for byte in id {
        let value = VALUES[usize::from(*byte)];
        seen |= value;
        number = (number << 5) | u64::from(value & 31);
    }
    // The first digit of 13 has 4 bits only: 64 = 4 + 12 × 5.
    (seen & NO_DIGIT == 0 && VALUES[usize::from(id[0])] < 16).then_some(number)
}

/// Marks bytes that are no digit.
const NO_DIGIT: u8 = 0x80;

/// The value of each digit.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_their_numbers() {
        let numbers = [0, 1, 31, 32, 1 << 20, floor_at(1_800_000_000_000), u64::MAX >> 1, u64::MAX];
        let ids = numbers.map(written);
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(&written(33), b"0000000000011");
        for (number, id) in numbers.into_iter().zip(ids) {
            assert_eq!(read(&id), Some(number));
        }
        for other in [&b"order:0000007"[..], b"000000000000", b"0000000000000O", b"g000000000000"] {
            assert_eq!(read(other), None);
        }
    }

    #[test]
    fn a_floor_stays_below_63_bits_until_the_year_2248() {
        assert!(floor_at((1 << 43) - 1) < 1 << 63);
        assert!(floor_at(u64::MAX) < 1 << 63 && floor_at(u64::MAX) > floor_at(8_000_000_000_000));
    }
}
