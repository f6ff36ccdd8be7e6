//! Numbers, sizes, spans and moments in words for people.

use crate::console::view::chrome::PageFrame;
use maud::{Markup, html};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// From here on the smaller unit says nothing.
const TEN_MINUTES: u64 = 10 * MINUTE;
const TEN_DAYS: u64 = 10 * DAY;

/// In groups of three digits: `1,204`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count and its noun: `1 job was`, `1,204 jobs were`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// A number that lines up with others; zero is faint, so that the rest is seen.
pub fn number(number: u64) -> Markup {
    html! { span class=(if number == 0 { "n zero" } else { "n" }) { (grouped(number)) } }
}

/// A size: `512 B`, `1.2 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be written as 1024 belongs to the next unit.
    while size >= 1023.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let unit = UNITS[unit];
    if size < 9.95 { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
}

/// A span in its two greatest units: `4 s`, `12 min`, `1 h 5 min`, `3 d`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..MINUTE if ms < 10 * SECOND && ms % SECOND >= 100 => {
            format!("{}.{} s", ms / SECOND, ms % SECOND / 100)
        }
        SECOND..MINUTE => format!("{} s", ms / SECOND),
        MINUTE..TEN_MINUTES => two(ms, (MINUTE, "min"), (SECOND, "s")),
        TEN_MINUTES..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY => two(ms, (HOUR, "h"), (MINUTE, "min")),
        DAY..TEN_DAYS => two(ms, (DAY, "d"), (HOUR, "h")),
        _ => format!("{} d", grouped(ms / DAY)),
    }
}

/// As [`clock`]; with the script the viewer's time, cut out of `2027-01-31 10:14:03` as a span of `span_ms` needs it.
pub fn clock_time(at_ms: u64, span_ms: u64) -> Markup {
    let cut = match span_ms {
        DAY.. => "0,10",
        HOUR.. => "5,16",
        MINUTE.. => "11,16",
        _ => "11",
    };
    let text = clock(at_ms, span_ms);
    match written(at_ms) {
        None => html! { (text) },
        Some((machine, _)) => html! { time datetime=(machine) data-local=(cut) { (text) } },
    }
}

/// A moment in UTC for the bar of a chart, as exact as a span of `span_ms` needs it: `10:14:03 UTC`, `10:14 UTC`, `31 Jan UTC`.
pub fn clock(at_ms: u64, span_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    let Some(at) = at else { return String::new() };
    let form = match span_ms {
        DAY.. => "%-d %b UTC",
        HOUR.. => "%-d %b %H:%M UTC",
        MINUTE.. => "%H:%M UTC",
        _ => "%H:%M:%S UTC",
    };
    at.strftime(form).to_string()
}

/// Values measured in microseconds: `85 µs`, `0.6 ms`, `12 ms`, `4 s`.
pub fn micros(us: u64) -> String {
    match us {
        0..100 => format!("{us} µs"),
        100..9_950 => format!("{:.1} ms", us as f64 / 1e3),
        _ => duration((us + 500) / 1_000),
    }
}

/// As [`micros`], of what may not have been measured: that is no zero.
pub fn measured(us: u64) -> String {
    if us == 0 { "–".to_owned() } else { micros(us) }
}

/// How much of a whole, in per cent: `3 %`, `< 1 %`.
pub fn share(part: u64, whole: u64) -> String {
    match part.saturating_mul(100).checked_div(whole) {
        None => "–".to_owned(),
        Some(0) if part > 0 => "< 1 %".to_owned(),
        Some(share) => format!("{share} %"),
    }
}

/// From now to a moment: `in 12 min`, `4 s ago`, `now`.
pub fn span(frame: &PageFrame, at_ms: u64) -> String {
    match (at_ms.checked_sub(frame.now_ms), frame.now_ms.saturating_sub(at_ms)) {
        (Some(ahead), _) if ahead >= SECOND => format!("in {}", duration(ahead / SECOND * SECOND)),
        (None, past) if past >= SECOND => format!("{} ago", duration(past / SECOND * SECOND)),
        _ => "now".to_owned(),
    }
}

/// A moment: UTC without the script, the viewer's time with it; and its distance from now.
pub fn moment(frame: &PageFrame, at_ms: u64) -> Markup {
    match written(at_ms) {
        None => html! { span class="faint" { "never" } },
        Some((machine, people)) => html! {
            time datetime=(machine) title=(people) data-local { (people) }
            " " span class="ago" { (span(frame, at_ms)) }
        },
    }
}

/// As [`moment`], for tables: how far off, and the moment in the title.
pub fn ago(frame: &PageFrame, at_ms: u64) -> Markup {
    match written(at_ms) {
        None => html! { span class="faint" { "never" } },
        Some((machine, people)) => {
            html! { time datetime=(machine) title=(people) { (span(frame, at_ms)) } }
        }
    }
}

/// For machines and for people; none where it is after the year 9999.
fn written(at_ms: u64) -> Option<(String, String)> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?;
    let machine = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let people = at.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string();
    Some((machine, people))
}

fn two(ms: u64, great: (u64, &str), small: (u64, &str)) -> String {
    let rest = ms % great.0 / small.0;
    let whole = format!("{} {}", ms / great.0, great.1);
    if rest == 0 { whole } else { format!("{whole} {rest} {}", small.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_have_units() {
        for (number, text) in [(0, "0"), (999, "999"), (1_204, "1,204"), (1_000_000, "1,000,000")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        for (size, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (12 << 20, "12 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(
            [share(1, 3), share(1, 1_000), share(0, 5), share(1, 0)],
            ["33 %", "< 1 %", "0 %", "–"]
        );
    }

    #[test]
    fn spans_have_their_two_greatest_units() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_550, "1.5 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (90_000, "1 min 30 s"),
            (720_500, "12 min"),
            (3_900_000, "1 h 5 min"),
            (86_400_000, "1 d"),
            (90_000_000, "1 d 1 h"),
            (86_400_000 * 1_204, "1,204 d"),
        ] {
            assert_eq!(duration(ms), text);
        }
        let all = [
            (85, "85 µs"),
            (600, "0.6 ms"),
            (9_949, "9.9 ms"),
            (12_400, "12 ms"),
            (4_000_000, "4 s"),
        ];
        for (us, text) in all {
            assert_eq!([micros(us), measured(us)], [text, text]);
        }
        assert_eq!(measured(0), "–", "nothing was measured");
    }

    #[test]
    fn moments_say_when_and_how_far_off() {
        let frame = PageFrame { now_ms: 1_700_000_000_000, ..PageFrame::default() };
        let shown = moment(&frame, 1_700_000_720_120).into_string();
        let time = r#"<time datetime="2023-11-14T22:25:20.120Z" title="2023-11-14 22:25:20.120 UTC" data-local>2023-11-14 22:25:20.120 UTC</time>"#;
        assert_eq!(shown, format!(r#"{time} <span class="ago">in 12 min</span>"#));
        for (at, text) in
            [(frame.now_ms, "now"), (frame.now_ms - 999, "now"), (frame.now_ms - 4_200, "4 s ago")]
        {
            assert_eq!(span(&frame, at), text);
        }
        assert!(ago(&frame, 0).into_string().contains("19,675 d ago"));
        assert!(moment(&frame, u64::MAX).into_string().contains("never"));
    }
}
