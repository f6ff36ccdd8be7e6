//! Commands of waiting clients, until they are over. Only then are they counted and logged, once, with the time they
//! ran and not the time they waited; and when users change they are checked again.

use crate::command::CommandSpec;
use crate::engine::model::reply::Reply;
use crate::error::Error;
use crate::ids::ClientId;
use smallvec::SmallVec;

/// A command of a waiting client.
#[derive(Debug)]
pub struct Call {
    spec: &'static CommandSpec,
    /// Its words one after another, and where each ends.
    words: Box<[u8]>,
    ends: Box<[u32]>,
    /// How long it ran before it waited, ns.
    took_ns: u64,
}

impl Call {
    /// Keeps a command; `args` begin with its name.
    pub fn new(spec: &'static CommandSpec, args: &[&[u8]], took_ns: u64) -> Call {
        let mut end = 0;
        // A request is limited far below 2^32 bytes.
        let ends = args.iter().map(|arg| {
            end += arg.len() as u32;
            end
        });
        Call { spec, ends: ends.collect(), words: args.concat().into_boxed_slice(), took_ns }
    }

    /// Its row of the table.
    pub fn spec(&self) -> &'static CommandSpec {
        self.spec
    }

    /// Its words.
    pub fn args(&self) -> SmallVec<[&[u8]; 8]> {
        let starts = std::iter::once(&0).chain(self.ends.iter());
        let spans = starts.zip(self.ends.iter());
        spans.map(|(start, end)| &self.words[*start as usize..*end as usize]).collect()
    }

    /// How long it ran before it waited, ns.
    pub fn took_ns(&self) -> u64 {
        self.took_ns
    }

    pub fn bytes(&self) -> usize {
        size_of::<Call>() + self.words.len() + self.ends.len() * size_of::<u32>()
    }
}

/// A command that waited and is over.
#[derive(Debug)]
pub struct Over {
    pub client: ClientId,
    /// Where that client is, or was.
    pub slot: u32,
    pub call: Box<Call>,
    pub end: Ending,
    /// How long its reply took to be written, ns.
    pub reply_ns: u64,
}

/// How a command ended, as INFO counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ending {
    /// It did what it was to do.
    #[default]
    Done,
    /// It was answered with an error.
    Failed,
    /// It was refused before it did anything, for what the server lacks or the user may not.
    Rejected,
}

impl Ending {
    /// The effect of the engine's reply on a command. Redis checks memory and disk before it runs one.
    pub fn of(reply: &Reply<'_>) -> Ending {
        match reply {
            Reply::Error(
                Error::OutOfMemory { .. } | Error::OutOfMemoryForLeases { .. } | Error::Misconf(_),
            ) => Ending::Rejected,
            Reply::Error(_) => Ending::Failed,
            _ => Ending::Done,
        }
    }
}

/// The client, for the slow log: address and name.
pub type Caller = (String, Vec<u8>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    #[test]
    fn a_call_keeps_all_its_words() {
        let args: [&[u8]; 4] = [b"BLPOP", b"", b"q", b"0"];
        let spec = table::resolve(&args).unwrap();
        let call = Call::new(spec, &args, 7);
        assert_eq!(call.args().as_slice(), args);
        assert_eq!(call.bytes(), size_of::<Call>() + 7 + 16);
    }
}
