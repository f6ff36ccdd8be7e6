//! A search's target and its results, as values.

use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::Value;
use bytes::Bytes;

/// States of jobs, by their words.
pub const STATES: [&str; 4] = ["ready", "delayed", "leased", "dead"];

/// Bytes of a body that a row keeps.
const BODY_BYTES: usize = 512;

/// Whether an action on all that is found concerns a job in this state. The others stay as they are, so that each
/// repetition gets further.
pub fn is_for(what: &str, state: &str) -> bool {
    match what {
        "redrive" => state == "dead",
        "run" => state == "delayed",
        _ => state != "leased",
    }
}

/// Colons at which a text is tried to be cut into a queue and the rest.
const CUTS_MAX: usize = 16;

/// The target of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meant {
    /// Nothing yet.
    Nothing,
    /// An id or a part of one, a queue's name or a part of it, or `queue:text`.
    Text(Vec<u8>),
    /// The filter's fields.
    Filter { queue: Vec<u8> },
}

impl Meant {
    /// From an address.
    pub fn of(params: &Params) -> Meant {
        if let Some(queue) = params.bytes("queue") {
            return Meant::Filter { queue: queue.to_vec() };
        }
        match params.bytes("q").map(<[u8]>::trim_ascii).filter(|q| !q.is_empty()) {
            Some(q) => Meant::Text(q.to_vec()),
            None => Meant::Nothing,
        }
    }
}

/// The queues that `queue:text` may name, the longest name first, each with the text that is left: names have colons,
/// too.
pub fn cuts(text: &[u8]) -> Vec<(&[u8], &[u8])> {
    let colons = (1..text.len().saturating_sub(1)).filter(|at| text[*at] == b':');
    let mut cuts: Vec<_> = colons.map(|at| (&text[..at], &text[at + 1..])).collect();
    cuts.reverse();
    cuts.truncate(CUTS_MAX);
    cuts
}

/// A pattern of all that a text stands for, as it is.
pub fn literal(text: &[u8]) -> Vec<u8> {
    let escaped = |byte: &u8| b"*?[]\\".contains(byte).then_some(b'\\').into_iter().chain([*byte]);
    text.iter().flat_map(escaped).collect()
}

/// As [`literal`], in any case.
pub fn any_case(text: &[u8]) -> Vec<u8> {
    let folded = |byte: &u8| match byte.is_ascii_alphabetic() {
        true => vec![b'[', byte.to_ascii_lowercase(), byte.to_ascii_uppercase(), b']'],
        false => literal(&[*byte]),
    };
    text.iter().flat_map(folded).collect()
}

/// A pattern of all that has a match of another one in it.
pub fn within(pattern: &[u8]) -> Vec<u8> {
    [b"*", pattern, b"*"].concat()
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hit {
    pub queue: Vec<u8>,
    pub id: Vec<u8>,
    pub state: String,
    pub due: u64,
    /// The result of [`Hit::learn`]: the last error, and the with_id of the body.
    pub error: Vec<u8>,
    pub body: Option<Bytes>,
}

impl Hit {
    /// From a row of DELAY.FIND, which does not repeat the id.
    pub fn of_find(found: &Value) -> Option<Hit> {
        let state = found.field("state").text()?.to_owned();
        let queue = found.field("queue").bytes()?.to_vec();
        Some(Hit { queue, state, due: found.field("due").number()?, ..Hit::default() })
    }

    /// From a row of DELAY.SCAN.
    pub fn of_scan(queue: &[u8], job: &Value) -> Option<Hit> {
        let [id, state, due] = job.items() else { return None };
        let (id, state) = (id.bytes()?.to_vec(), state.text()?.to_owned());
        Some(Hit { queue: queue.to_vec(), id, state, due: due.number()?, ..Hit::default() })
    }

    /// Takes in what DELAY.GET shows of it; nothing of a job that is gone by now.
    pub fn learn(&mut self, job: &Value) {
        let bytes = |name| job.field(name).bytes();
        self.error = bytes("error").unwrap_or_default().to_vec();
        // A copy: the whole may have 16 MiB.
        self.body =
            bytes("body").map(|body| Bytes::copy_from_slice(&body[..body.len().min(BODY_BYTES)]));
    }

    /// Whether an action on all that is found concerns it.
    pub fn is_for(&self, what: &str) -> bool {
        is_for(what, &self.state)
    }
}

/// The results to show.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// In the order in which they were found.
    pub hits: Vec<Hit>,
    /// Jobs that were looked at since the search began.
    pub looked_at: u64,
    /// Jobs that there are to look at.
    pub all: u64,
    /// Where it goes on; none at the end.
    pub cursor: Option<Vec<u8>>,
    /// Why it was refused.
    pub error: Option<String>,
    /// For `queue:text`: the filter that it came to.
    pub of: Option<Params>,
    /// Where it goes on in all queues; none at the end.
    pub queue: Option<Vec<u8>>,
    /// Queues that were looked through since the search in all of them began.
    pub queues_looked: u64,
    /// Queues whose names have the text.
    pub named: Vec<Vec<u8>>,
    /// The ids have a part of the text; none has all of it as its id.
    pub is_part: bool,
}

/// The filter of ids that have a text.
pub fn with_id(params: &Params, queue: &[u8], text: &[u8]) -> Params {
    filtered(params, queue, "match", &within(&literal(text)))
}

/// The filter of jobs that have a text in id, body or error.
pub fn containing(params: &Params, queue: &[u8], text: &[u8]) -> Params {
    filtered(params, queue, "contains", text)
}

/// How many jobs a scan of a queue walks by, whatever its filter.
pub fn jobs_of(stats: &Value) -> u64 {
    STATES.iter().map(|state| stats.number_of(state)).sum()
}

fn filtered(params: &Params, queue: &[u8], name: &str, value: &[u8]) -> Params {
    let query = format!(
        "db={}&queue={}&{name}={}",
        params.db(),
        escape::query(queue),
        escape::query(value)
    );
    let mut filtered = Params::read(query.as_bytes());
    filtered.now_ms = params.now_ms;
    filtered
}
