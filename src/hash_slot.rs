//! Hash slots of Redis Cluster: which of 16,384 a queue belongs to follows from its name alone.
//!
//! The function is Redis's, as clients compute it too: CRC16 (XMODEM: polynomial 0x1021, from 0, bits not reversed) of
//! the name, or of its *tag*. See <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

/// How many there are.
pub const HASH_SLOTS: u16 = 16_384;

/// The hash slot of a queue, below [`HASH_SLOTS`]. Cost: a look into a table for each byte of its name.
pub fn hash_slot(name: &[u8]) -> u16 {
    let sum = tag(name)
        .iter()
        .fold(0u16, |sum, byte| sum << 8 ^ CRC16[usize::from((sum >> 8) as u8 ^ byte)]);
    sum % HASH_SLOTS
}

/// The partition of a slot, of `count`, a power of two: each has as many slots, in order. Of 16 partitions the one
/// numbered 1 has those from 1,024 to 2,047.
pub fn partition_of(slot: u16, count: u16) -> u16 {
    slot / (HASH_SLOTS / count)
}

/// The first and the last slot of a partition of `count`.
pub fn slots_of(partition: u16, count: u16) -> (u16, u16) {
    let each = HASH_SLOTS / count;
    (partition * each, partition * each + each - 1)
}

/// The part that is hashed: the text between the first `{` and the next `}`, or the whole name if there is none. So
/// `{mail}:high` and `{mail}:low` are in one slot, and `{}mail` is hashed as it is.
fn tag(name: &[u8]) -> &[u8] {
    let at = |bytes: &[u8], byte| memchr::memchr(byte, bytes);
    let Some(open) = at(name, b'{') else { return name };
    match at(&name[open + 1..], b'}') {
        Some(len) if len > 0 => &name[open + 1..][..len],
        _ => name,
    }
}

static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_slots_of_names_are_those_of_redis() {
        // From the specification of Redis Cluster, and from a Redis server's CLUSTER KEYSLOT.
        assert_eq!(hash_slot(b"123456789"), 0x31c3);
        assert_eq!(hash_slot(b"foo"), 12_182);
        assert_eq!(hash_slot(b""), 0);
        for same in ["{user1000}.following", "{user1000}.followers", "user1000", "x{user1000}{y}"] {
            assert_eq!(hash_slot(same.as_bytes()), 3_443, "{same}");
        }
    }

    #[test]
    fn the_slots_of_all_partitions_are_all_slots() {
        for count in [1, 2, 4, 8, 16, 32, 64] {
            let mut next = 0;
            for partition in 0..count {
                let (first, last) = slots_of(partition, count);
                assert_eq!(first, next);
                assert!((first..=last).all(|slot| partition_of(slot, count) == partition));
                next = last + 1;
            }
            assert_eq!(next, HASH_SLOTS);
        }
    }

    /// redis-protocol computes them on its own; braces are frequent, so that tags of all forms occur.
    #[test]
    fn they_are_those_of_another_implementation() {
        let mut chance = SmallRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let len = chance.random_range(0..24);
            let byte = |chance: &mut SmallRng| match chance.random_range(0..4) {
                0 => b'{',
                1 => b'}',
                _ => chance.random(),
            };
            let name: Vec<u8> = (0..len).map(|_| byte(&mut chance)).collect();
            let theirs = redis_protocol::redis_keyslot(&name);
            assert_eq!(hash_slot(&name), theirs, "{}", name.escape_ascii());
        }
    }
}
