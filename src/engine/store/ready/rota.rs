//! How groups share the front of a queue.
//!
//! The ready jobs of one group and one priority stand in a *lane*. The lanes of a priority stand in its *rota*: first
//! those of the lowest *tier*, which grows with the leases that the group has running, then in the order in which they
//! came. The first one gives a *stint* of jobs and goes to the end:
//!
//! ```text
//! priority 5   tier 0   b [b4 b5]   c [c9]   -   [x1 x2]      jobs without a group count as one
//!              tier 1   a [a7 a8 a9 ...]                      a has 8 to 15 leases running, and weight 1
//! ```
//!
//! A *closed* group (paused, at its limit or at its rate) stands in a tier behind all others, from which nothing is
//! taken. Nothing is ever looked at but the first lane: O(1), whatever the number of groups. The order of lanes is not
//! durable: facts tell which job was taken, not why. A queue has all this only while a ready job has a group.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::engine::model::request::Side;
use crate::engine::store::ready::lane::{Lane, Standing};
use crate::pool::Pool;
use crate::time::Millis;
use crate::wheel::list::{Chunks, List, Place};

/// The group without a name: of jobs that have none.
pub const NO_GROUP: u32 = 0;

/// The tier of closed groups.
pub const CLOSED: u32 = u32::MAX;

/// Bytes of a lane with its places among heads and in its rota.
pub const LANE_BYTES: usize = size_of::<Lane>() + 4 + 5;

/// Instead of the number of a lane.
pub const NO_LANE: u32 = u32::MAX;

const HEADS_A_BLOCK: usize = 64;

/// A job's group, the tier in which it stands, and that of the jobs without one.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tiers {
    pub group: u32,
    pub own: Standing,
    pub rest: u32,
}

/// The lanes of all priorities and their rotas.
#[derive(Default, Debug)]
pub struct Lanes {
    lanes: Pool<Lane, 16>,
    /// The first lane of each group, by its number; each knows the next one. A hash table would grow in bursts when a million
    /// groups fall due, and a turn with it: 1.7 ms.
    heads: Vec<Option<Box<[u32; HEADS_A_BLOCK]>>>,
    /// For each priority, by tier.
    rotas: [BTreeMap<u32, List>; 10],
    /// A bit for each priority with a lane, and with one that is open.
    occupied: u16,
    open: u16,
    /// Lanes of groups with a name.
    named: u32,
    /// How many of their jobs were due in which second, unix time.
    due: BTreeMap<u64, u32>,
}

impl Lanes {
    fn find(&self, group: u32, priority: u8) -> Option<u32> {
        self.lanes_of(group).find(|number| self.lanes.get(*number).priority == priority)
    }

    /// At most ten.
    fn lanes_of(&self, group: u32) -> impl Iterator<Item = u32> {
        let (block, at) = (group as usize / HEADS_A_BLOCK, group as usize % HEADS_A_BLOCK);
        let heads = self.heads.get(block).and_then(|heads| heads.as_deref());
        let first = heads.map_or(NO_LANE, |heads| heads[at]);
        let there = |number: u32| (number != NO_LANE).then_some(number);
        std::iter::successors(there(first), move |number| there(self.lanes.get(*number).next))
    }

    fn head_mut(&mut self, group: u32) -> &mut u32 {
        let (block, at) = (group as usize / HEADS_A_BLOCK, group as usize % HEADS_A_BLOCK);
        if self.heads.len() <= block {
            self.heads.resize(block + 1, None);
        }
        &mut self.heads[block].get_or_insert_with(|| Box::new([NO_LANE; HEADS_A_BLOCK]))[at]
    }

    pub fn lane(&self, group: u32, priority: u8) -> Option<&Lane> {
        self.find(group, priority).map(|number| self.lanes.get(number))
    }

    pub fn lane_mut(&mut self, group: u32, priority: u8) -> Option<&mut Lane> {
        let number = self.find(group, priority)?;
        Some(self.lanes.get_mut(number))
    }

    /// Whether no group with a name has a lane.
    pub fn is_empty(&self) -> bool {
        self.named == 0
    }

    /// A group's lane; one that was not there comes to the end of its tier, with a whole stint.
    pub fn open(
        &mut self,
        chunks: &mut Chunks,
        group: u32,
        priority: u8,
        standing: Standing,
    ) -> &mut Lane {
        let number = self.find(group, priority).unwrap_or_else(|| {
            let number = self.lanes.alloc();
            let next = std::mem::replace(self.head_mut(group), number);
            let lane = self.lanes.get_mut(number);
            (lane.group, lane.priority, lane.standing, lane.next) =
                (group, priority, standing, next);
            lane.tier = lane.own_tier();
            self.named += u32::from(group != NO_GROUP);
            self.enter(chunks, number);
            number
        });
        self.lanes.get_mut(number)
    }

    /// The lane of a group has no job any more.
    pub fn close(&mut self, chunks: &mut Chunks, group: u32, priority: u8) {
        let Some(number) = self.find(group, priority) else { return };
        self.leave(chunks, number);
        let before = self.lanes_of(group).find(|other| self.lanes.get(*other).next == number);
        let next = std::mem::take(self.lanes.get_mut(number)).next;
        self.lanes.free(number);
        self.named -= u32::from(group != NO_GROUP);
        match before {
            Some(before) => self.lanes.get_mut(before).next = next,
            None => *self.head_mut(group) = next,
        }
    }

    fn enter(&mut self, chunks: &mut Chunks, number: u32) {
        let Lanes { lanes, rotas, occupied, open, .. } = self;
        let lane = lanes.get_mut(number);
        lane.given = 0;
        *occupied |= 1 << lane.priority;
        *open |= u16::from(lane.tier != CLOSED) << lane.priority;
        let list = rotas[usize::from(lane.priority)].entry(lane.tier).or_default();
        list.push_back(chunks, 0, number, |key, place| lanes.get_mut(key).spot = place.number());
    }

    fn leave(&mut self, chunks: &mut Chunks, number: u32) {
        let Lanes { lanes, rotas, occupied, open, .. } = self;
        let &Lane { priority, tier, spot, .. } = lanes.get(number);
        let rota = &mut rotas[usize::from(priority)];
        let list = rota.get_mut(&tier).expect("a lane stands in its tier");
        let place = Place::from_number(spot).expect("a lane has a place in its rota");
        list.remove(chunks, place, number, |key, place| lanes.get_mut(key).spot = place.number());
        if list.is_empty() {
            rota.remove(&tier);
            *occupied &= !(u16::from(rota.is_empty()) << priority);
            let first = rota.keys().next();
            *open &= !(u16::from(first.is_none_or(|tier| *tier == CLOSED)) << priority);
        }
    }

    /// The lane whose turn it is, and its priority: of the first one from an end of the queue.
    pub fn first(&self, end: Side, chunks: &Chunks) -> Option<(&Lane, u8)> {
        self.first_of(self.open, end, chunks)
    }

    /// The same; if all groups are closed, one of them.
    pub fn any(&self, chunks: &Chunks) -> Option<(&Lane, u8)> {
        self.first_of(self.occupied, Side::Left, chunks)
    }

    fn first_of(&self, priorities: u16, end: Side, chunks: &Chunks) -> Option<(&Lane, u8)> {
        let priority = match end {
            Side::Left => priorities.trailing_zeros(),
            Side::Right => priorities.checked_ilog2()?,
        };
        let (_, list) = self.rotas.get(priority as usize)?.first_key_value()?;
        let (number, _) = list.front(chunks)?;
        Some((self.lanes.get(number), priority as u8))
    }

    /// A job of this group was taken; its stint is this long. If the lane is still there it goes to the end after it.
    pub fn note_served(&mut self, chunks: &mut Chunks, group: u32, priority: u8, stint: u32) {
        let Some(number) = self.find(group, priority) else { return };
        let lane = self.lanes.get_mut(number);
        lane.given += 1;
        if lane.given >= stint {
            self.pass(chunks, number);
        }
    }

    /// Sends a lane to the end of its tier.
    fn pass(&mut self, chunks: &mut Chunks, number: u32) {
        let Lanes { lanes, rotas, .. } = self;
        let lane = lanes.get_mut(number);
        lane.given = 0;
        let list = rotas[usize::from(lane.priority)].get_mut(&lane.tier);
        let list = list.expect("a lane stands in its tier");
        let place = Place::from_number(lane.spot).expect("a lane has a place in its rota");
        let ends = [list.front(chunks), list.back(chunks)].map(|end| end.map(|(key, _)| key));
        if ends == [Some(number); 2] {
            return;
        }
        list.remove(chunks, place, number, |key, place| lanes.get_mut(key).spot = place.number());
        list.push_back(chunks, 0, number, |key, place| lanes.get_mut(key).spot = place.number());
    }

    /// Stints of this group are this long from now on: its lanes that have given as much go to the end.
    pub fn end_stints(&mut self, chunks: &mut Chunks, group: u32, stint: u32) {
        for number in self.lanes_of(group).collect::<SmallVec<[u32; 10]>>() {
            if self.lanes.get(number).given >= stint {
                self.pass(chunks, number);
            }
        }
    }

    /// Lets lanes come in the order in which they are first named here, with whole stints; each is named.
    pub fn line_up(&mut self, chunks: &mut Chunks, order: impl Iterator<Item = (u32, u8)> + Clone) {
        // No lane has given any job yet: the mark of those that stand behind the others already.
        let found = "a ready job stands in a lane";
        for (group, priority) in order.clone() {
            let number = self.find(group, priority).expect(found);
            if self.lanes.get(number).given == 0 {
                self.leave(chunks, number);
                self.enter(chunks, number);
                self.lanes.get_mut(number).given = u32::MAX;
            }
        }
        for (group, priority) in order {
            let number = self.find(group, priority).expect(found);
            self.lanes.get_mut(number).given = 0;
        }
    }

    /// Where a group stands now: lanes that come to another tier come to its end, with whole stints.
    pub fn set_standing(&mut self, chunks: &mut Chunks, group: u32, standing: Standing) {
        for number in self.lanes_of(group).collect::<SmallVec<[u32; 10]>>() {
            let lane = self.lanes.get_mut(number);
            lane.standing = standing;
            let tier = lane.own_tier();
            if lane.tier != tier {
                self.leave(chunks, number);
                self.lanes.get_mut(number).tier = tier;
                self.enter(chunks, number);
            }
        }
    }

    /// Lets go of the rotas; the jobs without a group need none when they are alone.
    pub fn end(mut self, chunks: &mut Chunks) {
        for priority in 0..self.rotas.len() as u8 {
            self.close(chunks, NO_GROUP, priority);
        }
    }

    /// A job that was due then has come to a lane or left it.
    pub fn count_due(&mut self, due: Millis, by: i64) {
        let second = due.0 / 1_000;
        let count = self.due.entry(second).or_default();
        *count = count.checked_add_signed(by as i32).expect("counts are never negative");
        if *count == 0 {
            self.due.remove(&second);
        }
    }

    /// The second in which the job was due that was due first.
    pub fn first_due(&self) -> Option<Millis> {
        self.due.first_key_value().map(|(second, _)| Millis(second * 1_000))
    }

    /// The lanes of a priority in their order, open or closed ones: by tier, and then as in the rota.
    pub fn tiers<'l>(
        &'l self,
        priority: usize,
        closed: bool,
        chunks: &'l Chunks,
    ) -> impl Iterator<Item = impl Iterator<Item = &'l Lane> + 'l> + 'l {
        let tiers = if closed { CLOSED..=CLOSED } else { 0..=CLOSED - 1 };
        let lists = self.rotas[priority].range(tiers);
        lists.map(|(_, list)| list.iter(chunks).map(|key| self.lanes.get(key)))
    }

    /// A bit for each priority with a lane.
    pub fn occupied(&self) -> u16 {
        self.occupied
    }
}
