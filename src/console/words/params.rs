//! The parameters of a request: the query of its address, or a form. Names and ids may be any bytes.

use crate::console::words::value::{Command, command};
use percent_encoding::percent_decode;

/// Prefix of the name of a field whose value is encoded twice: a browser sends the values of fields as UTF-8 with its
/// own line breaks, which names need not be.
pub const ENCODED: &str = "enc.";

/// Fields in their order; one may be there several times.
#[derive(Clone, Debug, Default)]
pub struct Params {
    fields: Vec<(String, Vec<u8>)>,
    /// When the request came, ms since 1970.
    pub now_ms: u64,
    /// The script asks for parts of a page that is shown already.
    pub parts: bool,
}

impl Params {
    /// From a query or a form as browsers send it: `a=1&b=x+y%21`.
    pub fn read(text: &[u8]) -> Params {
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        Params { fields: pairs.map(pair).collect(), ..Params::default() }
    }

    /// These, followed by the fields of `other`.
    pub fn and(mut self, other: Params) -> Params {
        self.fields.extend(other.fields);
        self
    }

    /// The bytes of a field; none if it is not there or empty.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// The text of a field, if it is UTF-8; none if it is not there or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// The fields that are there, each as the word of its option and the value, in the order of `options`.
    pub fn options(&self, options: &[(&str, &str)]) -> Command {
        let said = options.iter().filter_map(|(field, word)| Some((word, self.bytes(field)?)));
        said.flat_map(|(word, value)| command![word, value]).collect()
    }

    /// Whether a field is there, whatever it says.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// The values of a field that may be there several times, each percent-encoded once more: a browser sends the
    /// values of boxes and hidden fields as UTF-8, which ids need not be.
    pub fn encoded(&self, name: &str) -> Vec<Vec<u8>> {
        let found = self.fields.iter().filter(|(field, _)| field == name);
        found.map(|(_, value)| percent_decode(value).collect()).collect()
    }

    /// Whether the field `db` is there and says something else than a database.
    pub fn names_no_db(&self) -> bool {
        self.has("db") && self.number("db").is_none_or(|db| db >= 16)
    }

    /// The database that is looked at: the field `db`, 0 without one or with a wrong one.
    pub fn db(&self) -> u8 {
        self.number("db").filter(|db| *db < 16).map_or(0, |db| db as u8)
    }
}

fn pair(pair: &[u8]) -> (String, Vec<u8>) {
    let mut halves = pair.splitn(2, |byte| *byte == b'=');
    let mut decoded = || {
        let half = halves.next().unwrap_or_default();
        let spaced: Vec<u8> =
            half.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decode(&spaced).collect::<Vec<u8>>()
    };
    let name = String::from_utf8_lossy(&decoded()).into_owned();
    let value = decoded();
    match name.strip_prefix(ENCODED) {
        Some(name) => (name.to_owned(), percent_decode(&value).collect()),
        None => (name, value),
    }
}

// Constants shared by forms and the actions that read them.

/// The settings of a queue, by their names in CONFIG SET.
pub const SETTINGS: [&str; 16] = [
    "attempts", "backoff", "lease", "priority", "ttl", "max-jobs", "max-leased", "rate",
    "dead-retention", "dead-max", "due-enters", "group-weight", "group-max-leased", "group-retry",
    "group-rate", "group-max-jobs",
];

/// EVERY or CRON with a zone, of a form's fields.
///
/// # Errors
/// There is neither, or both.
pub fn rule(params: &Params) -> Result<Command, String> {
    match (params.bytes("every"), params.bytes("cron")) {
        (Some(every), None) => Ok(command!["EVERY", every]),
        (None, Some(cron)) => {
            let mut rule = command!["CRON", cron];
            rule.extend(params.options(&[("zone", "TZ")]));
            Ok(rule)
        }
        _ => Err("Enter either an interval or a cron pattern.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_sent() {
        let params = Params::read(b"db=3&queue=a%2fb+c&id=%ff%00&ids=%25ff&ids=x&empty=&odd");
        assert_eq!((params.db(), params.bytes("queue")), (3, Some(&b"a/b c"[..])));
        assert_eq!(params.bytes("id"), Some(&b"\xff\0"[..]));
        assert_eq!(
            (params.text("id"), params.bytes("empty"), params.has("empty")),
            (None, None, true)
        );
        assert_eq!(params.encoded("ids"), [b"\xff".to_vec(), b"x".to_vec()]);
        assert_eq!(Params::read(b"enc.queue=a%250A%25ff").bytes("queue"), Some(&b"a\n\xff"[..]));
        assert!(params.has("odd") && !params.has("other"));
    }

    #[test]
    fn a_database_that_there_is_not_is_the_first() {
        for text in ["db=16", "db=-1", "db=x", ""] {
            let params = Params::read(text.as_bytes());
            assert_eq!((params.db(), params.names_no_db()), (0, !text.is_empty()), "{text}");
        }
    }
}
