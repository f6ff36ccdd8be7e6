//! The limits that a user can meet and that no option changes, as text for the written reference. Their
//! values come from `limits/`.

use crate::limits;
use crate::time::Written;
use std::fmt;

#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Its name in `limits/mod.rs`.
    pub name: &'static str,
    value: FixedValue,
    what: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum FixedValue {
    Count(u64),
    Bytes(u64),
    Ms(u64),
}

macro_rules! table {
    ($($name:ident $unit:ident $what:literal,)*) => {
        &[$(Limit {
            name: stringify!($name),
            value: FixedValue::$unit(limits::$name as u64),
            what: $what,
        }),*]
    };
}

pub static LIMITS: &[Limit] = table![
    NAME_BYTES_MAX Bytes "The name of a queue or a group and a job's id, at least 1 byte.",
    GROUP_WEIGHT_MAX Count "A `group-weight`, at least 1.",
    GROUP_RATE_SPAN_MS_MAX Ms "The span of a `group-rate`, at least 1s.",
    GROUPS_SET_MAX Count "Groups of a queue that have a setting of their own.",
    META_PAIRS_MAX Count "Pairs of names and values in META, at least 1.",
    META_NAME_BYTES_MAX Bytes "A name in META, at least 1 byte.",
    META_BYTES_MAX Bytes "All names and values of one META.",
    ARGUMENTS_MAX Count "Arguments of one command, its name included. A longer one is read and refused.",
    COUNT_MAX Count "Every COUNT, number of queues or ids, and the spans of DELAY.FORECAST; not the COUNT of \
        DELAY.QUEUES, DELAY.GROUPS, DELAY.FIND and DELAY.BUSY.",
    ROWS_MAX Count "COUNT of DELAY.QUEUES, DELAY.GROUPS, DELAY.FIND and DELAY.BUSY.",
    SEARCH_BYTES_MAX Bytes "The text of DELAY.SCAN's CONTAINS, at least 1 byte, and of its ERROR.",
    REPLY_BYTES_MAX Bytes "Ids and bodies in one reply of RESERVE, PEEK, LPOP, LMPOP and similar, and group and META of jobs that are shown \
        with them or taken at most once: the job that \
        crosses it is the last. LRANGE and KEYS are refused beyond four times that.",
    INSTANT_MS_MIN Count "The smallest value of `@` except 0, unix ms: in 1973. Smaller values can only be seconds.",
    DELAY_MS_MAX Ms "The largest `max-delay`.",
    ERROR_TEXT_BYTES_MAX Bytes "The text of `NACK … ERROR` that is kept; the rest is cut off.",
    LAST_ERRORS_MAX Count "How many of these texts a job keeps, with the newest.",
    EARLIER_ERROR_BYTES_MAX Bytes "Each of them but the newest.",
    HISTORY_QUEUES_MAX Count "Queues whose minutes DELAY.HISTORY has; fewer if they took more than a 32nd part of maxmemory.",
    DAY_MINUTES Count "Minutes that it goes back.",
    ERROR_KINDS_MAX Count "Errors that DELAY.ERRORS lists for a queue; beyond it the rarest is counted among the others.",
    ERROR_KIND_BYTES_MAX Bytes "The text of one of them; the rest is cut off.",
    ERROR_SAMPLE_BYTES_MAX Bytes "The id of the job that DELAY.ERRORS shows as a sample; longer ones are not shown.",
    LADDER_STEPS_MAX Count "Steps of a backoff ladder.",
    PRIORITY_MAX Count "The last priority; 0 is the first.",
    RATE_MAX Count "A queue's `rate`, deliveries per second, and those of a `group-rate` in its span.",
    IDLE_QUEUES_MAX Count "Queues without a job and a UNIQUE window whose totals are kept; beyond it the longest unused \
        are dropped before `stats-retention`.",
    TRANSACTION_COMMANDS_MAX Count "Commands in one MULTI.",
    TRANSACTION_BYTES_MAX Bytes "Their bytes.",
    TRANSACTION_ARGUMENTS_MAX Count "Their arguments.",
    TRANSACTION_COST_MAX Count "Entries that the commands of one EXEC may scan or take by their counts, plus one for \
        each command.",
    TRANSACTION_REPLY_BYTES_MAX Bytes "Replies in one EXEC, not counting the largest of them.",
    WATCHED_MAX Count "Queues that one connection watches.",
    CLIENT_NAME_BYTES_MAX Bytes "The name of CLIENT SETNAME, and a value of CLIENT SETINFO.",
    CHANNEL_BYTES_MAX Bytes "The name of a channel, or a pattern.",
    SUBSCRIPTIONS_PER_CLIENT_MAX Count "Channels and patterns that one connection is subscribed to.",
    CHANNELS_MAX Count "Channels that all connections together are subscribed to.",
    CHANNELS_COST_MAX Count "Bytes that one PUBSUB CHANNELS compares with its pattern.",
    PATTERNS_MAX Count "Patterns that all connections together are subscribed to.",
    PATTERNS_COST_MAX Count "Cost of these patterns together: twice the bytes of each, plus 1,024 for each byte of its longest piece between two stars (`*order*` has 5 there, `news.*` and `*.created` none).",
    PATTERN_BYTES_MAX Bytes "A pattern of KEYS, SCAN, DELAY.SCAN, DELAY.QUEUES, PUBSUB CHANNELS and COMMAND LIST.",
    CONFIG_PATTERNS_MAX Count "Patterns of one CONFIG GET.",
    OPTION_PATTERN_BYTES_MAX Bytes "Each of them.",
    COMMAND_NAMES_MAX Count "Names in one COMMAND INFO or COMMAND DOCS.",
    LINE_BYTES_MAX Bytes "An inline command and a header; a longer one closes the connection.",
    ELEMENTS_MAX Count "Elements that a request may announce; a larger number closes the connection.",
    UNAUTHENTICATED_ELEMENTS_MAX Count "The same before AUTH, if a password is required.",
    UNAUTHENTICATED_BULK_BYTES_MAX Bytes "An argument before AUTH.",
    WRONG_PASSWORDS_MAX Count "Wrong passwords on one connection; then it is closed.",
    PASSWORD_BYTES_MAX Bytes "A password.",
    ACL_USERS_MAX Count "Users.",
    ACL_USER_BYTES_MAX Bytes "The rules of one user, as ACL LIST shows them.",
    ACL_FILE_BYTES_MAX Bytes "The file that `aclfile` names.",
    INCLUDE_DEPTH_MAX Count "Depth of configuration files that include one another.",
    TLS_HANDSHAKE_MS_MAX Ms "A TLS handshake.",
    CLOSING_MS_MAX Ms "How long sending the last replies of a closing connection may take.",
    SHUTDOWN_MS_MAX Ms "How long an orderly stop waits for replies to be sent.",
];

impl fmt::Display for FixedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FixedValue::Ms(ms) => write!(f, "{}", Written(ms)),
            FixedValue::Count(count) => f.write_str(&grouped(count)),
            FixedValue::Bytes(bytes) => {
                let units = [(1 << 20, "MiB"), (1 << 10, "KiB")];
                match units.into_iter().find(|(unit, _)| bytes > *unit && bytes % unit == 0) {
                    Some((unit, word)) => write!(f, "{} {word}", bytes / unit),
                    None => write!(f, "{} bytes", grouped(bytes)),
                }
            }
        }
    }
}

/// Digits in groups of three: 65,536.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The limits as a table in Markdown.
pub fn markdown() -> String {
    let row = |limit: &Limit| format!("| {} | {} |\n", limit.value, limit.what);
    let rows: String = LIMITS.iter().map(row).collect();
    format!("| limit | what it limits |\n|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        let shown = |value: FixedValue| value.to_string();
        assert_eq!(shown(FixedValue::Count(65_536)), "65,536");
        assert_eq!(shown(FixedValue::Count(512)), "512");
        assert_eq!(shown(FixedValue::Bytes(1_024)), "1,024 bytes");
        assert_eq!(shown(FixedValue::Bytes(64 << 10)), "64 KiB");
        assert_eq!(shown(FixedValue::Bytes(4 << 20)), "4 MiB");
        assert_eq!(shown(FixedValue::Ms(365_000 * limits::DAY_MS)), "365000d");
    }
}
