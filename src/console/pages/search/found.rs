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

/// The target of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meant {
    /// Nothing yet.
    Nothing,
    Id(Vec<u8>),
    /// `queue:text`; an id if there is no such queue.
    Prefix {
        /// Before the first colon.
        queue: Vec<u8>,
        /// The part after the queue.
        text: Vec<u8>,
    },
    /// The filter's fields.
    Filter {
        queue: Vec<u8>,
    },
}

impl Meant {
    /// From an address.
    pub fn of(params: &Params) -> Meant {
        if let Some(queue) = params.bytes("queue") {
            return Meant::Filter { queue: queue.to_vec() };
        }
        let Some(q) = params.bytes("q").map(<[u8]>::trim_ascii).filter(|q| !q.is_empty()) else {
            return Meant::Nothing;
        };
        match q.iter().position(|byte| *byte == b':') {
            Some(at) if at > 0 && at + 1 < q.len() => {
                Meant::Prefix { queue: q[..at].to_vec(), text: q[at + 1..].to_vec() }
            }
            _ => Meant::Id(q.to_vec()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hit {
    pub queue: Vec<u8>,
    pub id: Vec<u8>,
    pub state: String,
    pub due: u64,
    /// The result of [`Hit::learn`]: the last error, and the beginning of the body.
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    /// For `queue:text`, the field of the filter that it came to.
    pub of: Option<&'static str>,
}

/// The filter of ids that begin with a text.
pub fn beginning(params: &Params, queue: &[u8], text: &[u8]) -> Params {
    let mut glob = Vec::new();
    for &byte in text {
        if b"*?[]\\".contains(&byte) {
            glob.push(b'\\');
        }
        glob.push(byte);
    }
    glob.push(b'*');
    filtered(params, queue, "match", &glob)
}

/// The filter of jobs that have a text in id, body or error.
pub fn containing(params: &Params, queue: &[u8], text: &[u8]) -> Params {
    filtered(params, queue, "contains", text)
}

/// How many jobs a scan of a queue walks by, whatever its filter.
pub fn jobs_of(stats: &Value) -> u64 {
    STATES.iter().map(|state| stats.field(state).number().unwrap_or(0)).sum()
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
