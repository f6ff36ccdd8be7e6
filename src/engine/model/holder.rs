//! Leases and the clients that hold them: what `DELAY.BUSY` asks, and the rows of its answer.

use crate::engine::model::across::Readable;
use crate::ids::Db;
use crate::limits::HOLDER_TEXT_BYTES_MAX;
use crate::time::Millis;

/// A client in words, as it was when it last asked for jobs or acknowledged one. Texts are cut to
/// [`HOLDER_TEXT_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Holder {
    /// Its machine, without a port: all connections of a pool are the same holder in words.
    pub address: Box<[u8]>,
    /// The name given by CLIENT SETNAME; empty for none.
    pub name: Box<[u8]>,
    /// Name and version of its library, given by CLIENT SETINFO; empty for none.
    pub library: Box<[u8]>,
}

impl Holder {
    /// A client at `address`, with the texts that it chose.
    pub fn new(address: &[u8], name: &[u8], [library, version]: [&[u8]; 2]) -> Holder {
        let cut = |text: &[u8]| text[..text.len().min(HOLDER_TEXT_BYTES_MAX)].into();
        let parts = [library, version].into_iter().filter(|part| !part.is_empty());
        let library = parts.collect::<Vec<_>>().join(&b' ');
        Holder { address: cut(address), name: cut(name), library: cut(&library) }
    }

    /// `name@address`, or the address of a client without a name.
    pub fn short(&self) -> Vec<u8> {
        match &*self.name {
            [] => self.address.to_vec(),
            name => [name, &self.address].join(&b'@'),
        }
    }
}

/// `DELAY.BUSY`.
#[derive(Clone, Copy, Debug)]
pub struct ListLeases<'a> {
    pub db: Db,
    /// Only leases of this queue.
    pub queue: Option<&'a [u8]>,
    /// The queues that are shown.
    pub readable: Readable<'a>,
    /// Most rows, 1 to 1,000.
    pub count: u32,
    /// Only leases after this one, which need not run any more: its end, its queue, its job.
    pub after: Option<(Millis, &'a [u8], &'a [u8])>,
}

/// A lease, as it was when the walk came by. Rows are in the order of their fields.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeaseRow {
    pub lease_end: Millis,
    pub queue: Box<[u8]>,
    pub id: Box<[u8]>,
    /// When this delivery began; none if that was before a restart.
    pub since: Option<Millis>,
    /// Deliveries that count, this one included.
    pub attempt: u32,
    /// The number of the client that has it, its low 32 bits; 0 if it is not known.
    pub client: u32,
}

/// A lease as `DELAY.BUSY` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseView<'a> {
    pub row: &'a LeaseRow,
    /// The client in words, if they are known.
    pub holder: Option<&'a Holder>,
}

/// The last time that a client did something with a queue's jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastUse {
    pub at: Millis,
    /// The client, as [`Holder::short`] writes it; none if it is not known any more.
    pub by: Option<Box<[u8]>>,
}
