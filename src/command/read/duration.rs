//! Durations (`500ms`, `1h30m`, `15d`, `1500`) and what is made of them: backoffs.

use crate::command::read::number;
use crate::command::read::number::Whole;
use crate::engine::model::policy::{Backoff, Steps};
use crate::limits::LADDER_STEPS_MAX;

/// Units with their ms. `ms` comes before `m`, its prefix.
const UNITS: [(&[u8], u64); 6] = [
    (b"ms", 1),
    (b"s", 1_000),
    (b"m", 60_000),
    (b"h", 3_600_000),
    (b"d", 86_400_000),
    (b"w", 604_800_000),
];

/// A duration in ms: a whole number of ms, or terms of number and unit that are added. One beyond
/// 2^64 − 1 ms is [`Whole::TooLarge`]; none if `text` is no duration.
pub fn parse(text: &[u8]) -> Option<Whole> {
    if let Some(bare) = number::unsigned_or_more(text) {
        return Some(bare);
    }
    let mut sum = Some(0u64);
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let size = number::unsigned_or_more(&rest[..digits])?;
        rest = &rest[digits..];
        let (unit, unit_ms) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        let term = match size {
            Whole::Fits(size) => size.checked_mul(*unit_ms),
            Whole::TooLarge => None,
        };
        sum = sum.zip(term).and_then(|(sum, term)| sum.checked_add(term));
    }
    // The empty text has no term.
    (!text.is_empty()).then_some(sum.map_or(Whole::TooLarge, Whole::Fits))
}

/// Why a backoff is refused; what was expected.
pub type BackoffError = &'static str;

/// A backoff: a ladder `1s,5s,30s`, or `exp:<first>:<max>[:<factor>]`; a `~` at the end adds jitter.
/// No step is longer than `ms_max`.
pub fn parse_backoff(text: &[u8], ms_max: u64) -> Result<Backoff, BackoffError> {
    let (text, jitter) = match text.strip_suffix(b"~") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let step = |text: &[u8]| match parse(text) {
        Some(Whole::Fits(ms)) if ms <= ms_max => Ok(ms),
        Some(_) => Err("a step is longer than 365000d"),
        None => {
            Err("expected steps such as 1s,5s,1m or exp:<first>:<max>[:<factor>], then perhaps ~")
        }
    };
    let steps = match text {
        [b'e' | b'E', b'x' | b'X', b'p' | b'P', b':', rest @ ..] => {
            let mut parts = rest.split(|byte| *byte == b':');
            let first = step(parts.next().unwrap_or_default())?;
            let max = step(parts.next().ok_or("exp needs a first and a maximum step")?)?;
            let factor = match parts.next() {
                Some(text) => match number::unsigned(text).and_then(|n| u32::try_from(n).ok()) {
                    Some(factor) if factor >= 1 => factor,
                    _ => return Err("exp's factor is not an integer from 1 to 4294967295"),
                },
                None => 2,
            };
            if parts.next().is_some() {
                return Err("exp takes only a first step, a maximum step and a factor");
            }
            if first > max {
                return Err("exp's first step is longer than its maximum step");
            }
            Steps::Exponential { first, max, factor }
        }
        _ => {
            let count = text.iter().filter(|byte| **byte == b',').count() + 1;
            if count > LADDER_STEPS_MAX {
                return Err("a ladder has at most 64 steps");
            }
            let steps: Result<Box<[u64]>, _> = text.split(|byte| *byte == b',').map(step).collect();
            Steps::Ladder(steps?)
        }
    };
    Ok(Backoff { steps, jitter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DELAY_MS_MAX;
    use proptest::prelude::*;

    fn fits(text: &str) -> u64 {
        match parse(text.as_bytes()) {
            Some(Whole::Fits(ms)) => ms,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn durations_are_numbers_or_terms() {
        assert_eq!(fits("0"), 0);
        assert_eq!(fits("000000000015"), 15);
        assert_eq!(fits("500ms"), 500);
        assert_eq!(fits("30s"), 30_000);
        assert_eq!(fits("1h30m"), 5_400_000);
        assert_eq!(fits("1m5ms"), 60_005);
        assert_eq!(fits("015d"), 15 * 86_400_000);
        assert_eq!(fits("2w"), 14 * 86_400_000);
        assert_eq!(fits("18446744073709551615"), u64::MAX);
        assert_eq!(fits("18446744073709551s615ms"), u64::MAX);
        for large in ["18446744073709551616", "18446744073709551616w", "18446744073709551s616ms"] {
            assert_eq!(parse(large.as_bytes()), Some(Whole::TooLarge), "{large}");
        }
        for text in [
            "", " ", "s", "-1s", "+1s", "1.5s", "1 s", "1h30", "1H", "1s ", "1y", "12:30", "1hm",
            "∞",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn backoffs_are_ladders_or_exponential() {
        let read = |text: &str| parse_backoff(text.as_bytes(), DELAY_MS_MAX);
        for text in
            ["1s", "1s,5s,10s,30s,1m", "1s,5s~", "exp:1s:1h~", "exp:1s:1h:3", "0ms", "exp:0ms:0ms"]
        {
            assert_eq!(read(text).map(|backoff| backoff.to_string()), Ok(text.to_string()));
        }
        assert_eq!(read("EXP:1000:60000:2").map(|b| b.to_string()), Ok("exp:1s:1m".to_string()));
        assert_eq!(read("365000d").map(|b| b.base_ms(1)), Ok(DELAY_MS_MAX));
        for text in [
            "", "~", ",", "1s,", ",1s", "1s~~", "1s,5", "exp", "exp:", "exp:1s", "exp:1s:",
            "exp:2s:1s", "exp:1s:1h:0", "exp:1s:1h:4294967296", "exp:1s:1h:2:2", "365001d", "-1s",
            "1s;2s",
        ] {
            let refused = read(text).is_err() || text == "1s,5";
            assert!(refused, "{text}");
        }
        assert!(read(&vec!["1s"; 64].join(",")).is_ok());
        assert_eq!(read(&vec!["1s"; 65].join(",")), Err("a ladder has at most 64 steps"));
    }

    proptest! {
        /// Any sum of terms is exact or reported as too large; nothing wraps.
        #[test]
        fn sums_never_wrap(terms in prop::collection::vec((any::<u64>(), 0usize..6), 1..5)) {
            let mut text = String::new();
            let mut sum = 0u128;
            for (size, unit) in terms {
                text.push_str(&format!("{size}{}", std::str::from_utf8(UNITS[unit].0).unwrap()));
                sum += u128::from(size) * u128::from(UNITS[unit].1);
            }
            let want = u64::try_from(sum).map_or(Whole::TooLarge, Whole::Fits);
            prop_assert_eq!(parse(text.as_bytes()), Some(want));
        }

        #[test]
        fn any_bytes_are_survived(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
            let _ = parse_backoff(&text, DELAY_MS_MAX);
        }
    }
}
