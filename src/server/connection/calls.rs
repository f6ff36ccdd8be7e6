//! Commands of waiting clients, until they are over. Only then are they counted and logged, once, with the time they
//! ran and not the time they waited; and when users change they are checked again.

use crate::engine::model::reply::Reply;
use crate::error::Error;
use crate::ids::ClientId;
use crate::session::kept::KeptCommand;

/// A command of a waiting client.
#[derive(Debug)]
pub struct Call {
    pub command: KeptCommand,
    /// How long it ran before it waited, ns.
    pub took_ns: u64,
}

impl Call {
    pub fn bytes(&self) -> usize {
        size_of::<u64>() + self.command.bytes()
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
        let call = Call { command: KeptCommand::new(spec, &args), took_ns: 7 };
        assert_eq!(call.command.args().collect::<Vec<_>>(), args);
        assert_eq!(call.bytes(), size_of::<Call>() + 7 + 16);
    }
}
