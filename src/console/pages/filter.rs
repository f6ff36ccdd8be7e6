//! A selection of a queue's jobs: the filter in an address, and its scan.

use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, command};

/// How many jobs one scan looks at.
const COUNT: &str = "1000";

/// The end of the year 9999, ms since 1970: no job is due later.
const UNTIL_MAX: &str = "253402300799999";

/// Fields of a filter, as they are named in addresses. `untold` is for jobs without an error: a field of a form that is
/// left empty is no filter.
pub const FIELDS: [&str; 9] =
    ["state", "group", "match", "contains", "error", "untold", "reason", "from", "until"];

pub fn scan(params: &Params, queue: &[u8], cursor: &[u8]) -> Command {
    let mut scan = command!["DELAY.SCAN", queue, cursor];
    scan.extend(params.options(&[("state", "STATE"), ("group", "GROUP"), ("match", "MATCH")]));
    let (from, until) = (params.bytes("from"), params.bytes("until"));
    if from.is_some() || until.is_some() {
        // Unreadable values are passed to the server unchanged, which refuses them: a filter that is left out finds all
        // jobs.
        let at = |said: Option<&[u8]>, open: &str| [b"@", said.unwrap_or(open.as_bytes())].concat();
        scan.extend(command!["DUE", at(from, "0"), at(until, UNTIL_MAX)]);
    }
    scan.extend(params.options(&[("contains", "CONTAINS"), ("error", "ERROR")]));
    if params.bytes("untold").is_some() {
        scan.extend(command!["ERROR", ""]);
    }
    scan.extend(params.options(&[("reason", "REASON")]));
    scan.extend(command!["COUNT", COUNT]);
    scan
}

/// The same in words, each with what it says.
pub fn words(params: &Params) -> Vec<(&'static str, String)> {
    let said = |name: &str| params.bytes(name).map(escape::text);
    let mut words = Vec::new();
    let named = [
        ("state", "state"),
        ("group", "group"),
        ("match", "id"),
        ("contains", "text in id, body or error"),
        ("error", "error"),
        ("reason", "because of"),
    ];
    words.extend(named.into_iter().filter_map(|(name, word)| Some((word, said(name)?))));
    words.extend(said("untold").map(|_| ("error", "none".to_owned())));
    if params.bytes("from").or(params.bytes("until")).is_some() {
        let of = |name: &str| said(name).unwrap_or_else(|| "any time".to_owned());
        words.push(("due (unix ms)", format!("{} to {}", of("from"), of("until"))));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_filter_is_left_out() {
        let asked = |form: &str| {
            let scan = scan(&Params::read(form.as_bytes()), b"q", b"0");
            scan.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked(""), "DELAY.SCAN q 0 COUNT 1000");
        assert_eq!(
            asked("state=dead&match=a*&contains=x+y"),
            "DELAY.SCAN q 0 STATE dead MATCH a* CONTAINS x y COUNT 1000"
        );
        assert_eq!(asked("group=%ff"), "DELAY.SCAN q 0 GROUP \\xff COUNT 1000");
        assert_eq!(asked("error=a&reason=lost"), "DELAY.SCAN q 0 ERROR a REASON lost COUNT 1000");
        assert_eq!(asked("error=&untold=1"), "DELAY.SCAN q 0 ERROR  COUNT 1000");
        assert_eq!(asked("from=5&until=6"), "DELAY.SCAN q 0 DUE @5 @6 COUNT 1000");
        assert_eq!(asked("from=5"), "DELAY.SCAN q 0 DUE @5 @253402300799999 COUNT 1000");
        assert_eq!(asked("until=zzz"), "DELAY.SCAN q 0 DUE @0 @zzz COUNT 1000");
    }
}
