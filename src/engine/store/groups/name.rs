//! The name of a group, in its record unless it is long: 16 bytes and an allocation less for each of a million.

use std::ops::Deref;

use crate::engine::store::memory::allocated_bytes;

/// Longer names stand apart.
const SHORT_BYTES_MAX: usize = 22;

/// 1 to 512 bytes; none is the name of a group that is not there.
#[derive(Debug)]
pub(super) enum GroupName {
    Short(u8, [u8; SHORT_BYTES_MAX]),
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<GroupName>() == 24);

impl Default for GroupName {
    fn default() -> GroupName {
        GroupName::Short(0, [0; SHORT_BYTES_MAX])
    }
}

impl From<&[u8]> for GroupName {
    fn from(name: &[u8]) -> GroupName {
        if name.len() > SHORT_BYTES_MAX {
            return GroupName::Long(name.into());
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name);
        GroupName::Short(name.len() as u8, bytes)
    }
}

impl Deref for GroupName {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            GroupName::Short(length, bytes) => &bytes[..usize::from(*length)],
            GroupName::Long(bytes) => bytes,
        }
    }
}

/// Bytes that a name of this length takes outside of its record.
pub(super) fn outside_bytes(length: usize) -> usize {
    if length > SHORT_BYTES_MAX { allocated_bytes(length) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_is_kept_and_counted_where_it_stands() {
        for length in 0..=512 {
            let name: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let kept = GroupName::from(&name[..]);
            assert_eq!(*kept, *name);
            assert_eq!(matches!(kept, GroupName::Long(_)), outside_bytes(length) > 0);
        }
    }
}
