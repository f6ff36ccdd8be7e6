//! All connections, in slots that are used again.

use crate::ids::ClientId;
use crate::server::connection::calls::Caller;
use crate::server::connection::client::Client;

/// The connected clients by slot.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Vec<Option<Box<Client>>>,
    free: Vec<u32>,
    count: usize,
}

impl Clients {
    /// A free slot, taken.
    pub fn reserve(&mut self) -> u32 {
        self.count += 1;
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1).try_into().expect("there are fewer descriptors than slots")
        })
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: u32) {
        debug_assert!(self.slots[slot as usize].is_none());
        self.count -= 1;
        self.free.push(slot);
    }

    /// Takes the client out of its slot, so that the others stay accessible while it runs.
    pub fn take(&mut self, slot: u32) -> Option<Box<Client>> {
        self.slots[slot as usize].take()
    }

    pub fn put(&mut self, slot: u32, client: Box<Client>) {
        debug_assert!(self.slots[slot as usize].is_none());
        self.slots[slot as usize] = Some(client);
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Client> {
        self.slots[slot as usize].as_deref_mut()
    }

    /// All with their slots.
    pub fn iter<'a>(&'a self) -> impl Iterator<Item = (u32, &'a Client)> {
        let filled = |(slot, client): (usize, &'a Option<Box<Client>>)| {
            Some((slot as u32, client.as_deref()?))
        };
        self.slots.iter().enumerate().filter_map(filled)
    }

    /// All with their slots, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Client)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(slot, client)| Some((slot as u32, client.as_deref_mut()?)))
    }

    /// The client of the command, if it still exists.
    pub fn caller(&self, client: ClientId, slot: u32) -> Option<Caller> {
        let found = self.slots[slot as usize].as_deref().filter(|found| found.id == client)?;
        Some((found.socket.peer.to_string(), found.session.name().to_vec()))
    }

    pub fn count(&self) -> usize {
        self.count
    }
}
