//! The texts of a job's last NACKs, newest first, in one allocation:
//!
//! ```text
//! of each: u64 when it was given, ms | u32 attempt | u16 bytes | text
//! ```
//!
//! A job that failed with 1 KiB of text, and with as much twice before, takes 1,322 bytes here: of the earlier ones only the
//! beginning is kept.

use crate::engine::model::errors::end_of_character;
use crate::limits::{EARLIER_ERROR_BYTES_MAX, LAST_ERRORS_MAX};
use crate::time::Millis;
use bytes::{Buf, BufMut};
use std::hash::{Hash, Hasher};

/// At least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastErrors(Box<[u8]>);

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastError<'a> {
    /// As the client gave it, or its beginning.
    pub text: &'a [u8],
    /// When it was given, and in which attempt; nothing if an earlier version has counted it.
    pub given: Option<(Millis, u32)>,
}

/// Bytes of one in addition to its text.
const HEAD_BYTES: usize = 14;
/// By how many bytes a new text makes them longer at most, in addition to its own.
pub const ERROR_GROWTH_BYTES: u64 = 2 * HEAD_BYTES as u64;

impl LastErrors {
    /// Adds one; the oldest gives way.
    pub fn with(before: Option<&LastErrors>, newest: LastError<'_>) -> LastErrors {
        let earlier = before.into_iter().flat_map(LastErrors::all).take(LAST_ERRORS_MAX - 1);
        let mut all = Vec::with_capacity(LastErrors::bytes_with(before, newest.text));
        put(&mut all, newest);
        for LastError { text, given } in earlier {
            put(&mut all, LastError { text: shortened(text), given });
        }
        LastErrors(all.into())
    }

    /// How many bytes they have with this text as one more.
    pub fn bytes_with(before: Option<&LastErrors>, text: &[u8]) -> usize {
        let earlier = before.into_iter().flat_map(LastErrors::all).take(LAST_ERRORS_MAX - 1);
        let kept = earlier.map(|error| HEAD_BYTES + shortened(error.text).len());
        HEAD_BYTES + text.len() + kept.sum::<usize>()
    }

    /// Puts them together from the parts of an image: `earlier` is as [`earlier`](LastErrors::earlier) returns it.
    /// None if it is not.
    pub fn restored(newest: LastError<'_>, earlier: &[u8]) -> Option<LastErrors> {
        let mut all = Vec::with_capacity(HEAD_BYTES + newest.text.len() + earlier.len());
        put(&mut all, newest);
        all.extend_from_slice(earlier);
        let (mut rest, mut count) = (earlier, 1);
        while !rest.is_empty() {
            let error = take(&mut rest)?;
            count += 1;
            if error.text.len() > EARLIER_ERROR_BYTES_MAX || count > LAST_ERRORS_MAX {
                return None;
            }
        }
        Some(LastErrors(all.into()))
    }

    /// Newest first.
    pub fn all(&self) -> impl Iterator<Item = LastError<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || take(&mut rest))
    }

    /// The text that is whole.
    pub fn newest(&self) -> LastError<'_> {
        take(&mut &self.0[..]).expect("there is one")
    }

    /// All but the newest, as they are kept.
    pub fn earlier(&self) -> &[u8] {
        &self.0[HEAD_BYTES + self.newest().text.len()..]
    }

    /// All their bytes, with what is kept about each.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Nodes that know only the newest text have the same digest.
impl Hash for LastErrors {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.newest().text.hash(state);
    }
}

/// The beginning that is kept, whole characters if it is UTF-8.
fn shortened(text: &[u8]) -> &[u8] {
    if text.len() <= EARLIER_ERROR_BYTES_MAX {
        return text;
    }
    let end = end_of_character(text, EARLIER_ERROR_BYTES_MAX);
    &text[..end.unwrap_or(EARLIER_ERROR_BYTES_MAX)]
}

fn put(all: &mut Vec<u8>, LastError { text, given }: LastError<'_>) {
    let (at, attempt) = given.unwrap_or_default();
    all.put_u64_le(at.0);
    all.put_u32_le(attempt);
    all.put_u16_le(text.len() as u16);
    all.put_slice(text);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<LastError<'a>> {
    let (at, attempt) = (Millis(rest.try_get_u64_le().ok()?), rest.try_get_u32_le().ok()?);
    let bytes = usize::from(rest.try_get_u16_le().ok()?);
    let (text, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(LastError { text, given: (at.0 > 0).then_some((at, attempt)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ERROR_TEXT_BYTES_MAX;

    fn error(text: &[u8], at: u64) -> LastError<'_> {
        LastError { text, given: (at > 0).then_some((Millis(at), at as u32)) }
    }

    #[test]
    fn three_are_kept_and_the_beginnings_of_the_earlier_ones() {
        let long = [b'x'; ERROR_TEXT_BYTES_MAX];
        let cut = &long[..EARLIER_ERROR_BYTES_MAX];
        let mut errors = LastErrors::with(None, error(b"unknown when", 0));
        for at in 1..=9 {
            let text = if at % 2 == 0 { &b"short"[..] } else { &long };
            let bytes = LastErrors::bytes_with(Some(&errors), text);
            let next = LastErrors::with(Some(&errors), error(text, at));
            assert_eq!(next.bytes(), bytes);
            assert!(bytes as u64 <= errors.bytes() as u64 + text.len() as u64 + ERROR_GROWTH_BYTES);
            errors = next;
        }
        let all: Vec<_> = errors.all().collect();
        assert_eq!(all, [error(&long, 9), error(b"short", 8), error(cut, 7)]);
        assert_eq!((errors.newest(), errors.bytes()), (all[0], 3 * 14 + 1_024 + 5 + 128));
    }

    #[test]
    fn an_earlier_text_is_cut_between_characters() {
        for (before, kept) in [(124, 128), (125, 125), (126, 126), (127, 127), (128, 128)] {
            let text = format!("{}🙂 and more", "e".repeat(before));
            let one = LastErrors::with(None, error(text.as_bytes(), 1));
            let two = LastErrors::with(Some(&one), error(b"two", 2));
            let cut = two.all().nth(1).unwrap().text;
            assert_eq!((cut.len(), std::str::from_utf8(cut).is_ok()), (kept, true));
        }
        // No text at all.
        let one = LastErrors::with(None, error(&[0x80; 200], 1));
        let two = LastErrors::with(Some(&one), error(b"two", 2));
        assert_eq!(two.all().nth(1).unwrap().text.len(), 128);
    }

    #[test]
    fn they_are_restored_from_their_parts_and_from_nothing_else() {
        let mut errors = LastErrors::with(None, error(b"", 0));
        for (at, text) in [(1, &b"one"[..]), (2, b""), (3, b"three")] {
            let restored = LastErrors::restored(errors.newest(), errors.earlier());
            assert_eq!(restored, Some(errors.clone()));
            errors = LastErrors::with(Some(&errors), error(text, at));
        }
        let (newest, earlier) = (errors.newest(), errors.earlier());
        for cut in 1..earlier.len() {
            let restored = LastErrors::restored(newest, &earlier[..cut]);
            assert_eq!(restored.is_some(), cut == 14, "the first of them is empty: {cut}");
        }
        assert_eq!(LastErrors::restored(newest, &[earlier, earlier].concat()), None, "five");
        let long = LastErrors::with(None, error(&[b'x'; EARLIER_ERROR_BYTES_MAX + 1], 4));
        assert_eq!(LastErrors::restored(newest, &long.0), None, "longer than kept");
    }
}
