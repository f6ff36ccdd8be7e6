//! Interned policies: a job refers to its policy by 4 bytes.

use std::collections::BTreeMap;

use ahash::RandomState;

use crate::engine::model::policy::{Policy, Steps};
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::index::SlabIndex;
use crate::engine::store::jobs::slots::Slots;
use crate::engine::store::jobs::{History, Job};
use crate::engine::store::memory::allocated_bytes;
use crate::ids::PolicyNo;

/// Bytes of a policy's slot and its share of the index, as far as these are full.
const SLOT_BYTES: usize = size_of::<Option<Slot>>() + 12;

/// Bytes counted for a bound policy: its slot, its share of index and list of unused ones, and its ladder.
pub fn policy_bytes(policy: &Policy) -> u64 {
    let ladder = match &policy.backoff.steps {
        Steps::Ladder(steps) => allocated_bytes(size_of_val(&**steps)),
        Steps::Exponential { .. } => 0,
    };
    (SLOT_BYTES + 32 + ladder) as u64
}

/// Policies by number and by value, with a count of the jobs that use each.
#[derive(Debug)]
pub struct Policies {
    slots: Slots<Slot>,
    /// Numbers by the hash of the policy, which is stored only in its slot.
    numbers: SlabIndex,
    hasher: RandomState,
    /// In the order in which they fell out of use; some may be in use again.
    unused: BTreeMap<u64, PolicyNo>,
    /// Counts what fell out of use.
    retirements: u64,
}

#[derive(Debug)]
struct Slot {
    policy: Policy,
    hash: u32,
    users: u64,
    /// Its key among the unused; 0 if it is not listed there.
    unused: u64,
    /// The number of the base file that its image has been written to, or is not to be in.
    imaged: u32,
}

impl Policies {
    /// None bound. The hasher's order is never looked at.
    pub fn new(hasher: RandomState) -> Policies {
        let (slots, numbers) = (Slots::default(), SlabIndex::default());
        Policies { slots, numbers, hasher, unused: BTreeMap::new(), retirements: 0 }
    }

    /// The policy's number, if it has one. `likely` is tried first: most jobs are added like the
    /// one before, and comparing is cheaper than hashing.
    pub fn number(&self, policy: &Policy, likely: PolicyNo) -> Option<PolicyNo> {
        if self.slots.get(likely.0).is_some_and(|slot| slot.policy == *policy) {
            return Some(likely);
        }
        let is = |number| self.slots.get(number).is_some_and(|slot| slot.policy == *policy);
        self.numbers.find(wide(self.hash(policy)), is).map(PolicyNo)
    }

    /// Bytes held beyond the counted ones of each policy: capacity left by forgotten ones.
    pub fn spare_bytes(&self) -> usize {
        let bytes = self.slots.bytes() + self.numbers.bytes();
        bytes.saturating_sub(self.slots.len() * SLOT_BYTES)
    }

    /// The number that the next new policy is to have: the lowest that is free.
    pub fn next_number(&self) -> PolicyNo {
        PolicyNo(self.slots.lowest_free())
    }

    /// The policy of a bound number.
    pub fn get(&self, number: PolicyNo) -> &Policy {
        self.find(number).expect("a job's policy is bound")
    }

    /// The policy of a number, if it is bound.
    pub fn find(&self, number: PolicyNo) -> Option<&Policy> {
        self.slots.get(number.0).map(|slot| &slot.policy)
    }

    /// The lowest bound number from `from` on.
    pub fn next_from(&self, from: PolicyNo) -> Option<PolicyNo> {
        self.slots.next_from(from.0).map(PolicyNo)
    }

    pub fn users(&self, number: PolicyNo) -> u64 {
        self.slots.get(number.0).map_or(0, |slot| slot.users)
    }

    /// Binds a number. `imaged` is the base file that it is too young for.
    pub fn bind(&mut self, number: PolicyNo, policy: Policy, imaged: u32) {
        let hash = self.hash(&policy);
        self.slots.put(number.0, Slot { policy, hash, users: 0, unused: 0, imaged });
        let slots = &self.slots;
        self.numbers.insert(wide(hash), number.0, |number| hash_in(slots, number));
        self.list_unused(number);
    }

    /// Frees a number that no job uses.
    pub fn forget(&mut self, number: PolicyNo) -> Policy {
        let slots = &self.slots;
        let hash = hash_in(slots, number.0);
        let removed = self.numbers.remove(hash, number.0, |number| hash_in(slots, number));
        assert!(removed, "a bound policy is found by its value");
        let slot = self.slots.take(number.0).expect("a bound policy is forgotten once");
        assert_eq!(slot.users, 0, "a policy with jobs is not forgotten");
        self.unused.remove(&slot.unused);
        slot.policy
    }

    /// One job more uses it.
    pub fn take(&mut self, number: PolicyNo) {
        self.slot_mut(number).users += 1;
    }

    /// One job fewer uses it.
    pub fn release(&mut self, number: PolicyNo) {
        let slot = self.slot_mut(number);
        slot.users -= 1;
        if slot.users == 0 {
            self.list_unused(number);
        }
    }

    /// A job that had these is gone, and with it what followed it.
    pub fn release_of(&mut self, job: &Job, history: Option<&History>) {
        self.release(job.policy());
        let successor = history.and_then(|history| history.successor.as_deref());
        successor.into_iter().for_each(|successor| self.release(successor.policy));
    }

    /// A policy to be forgotten: when more than `kept` fell out of use, the oldest of them, if it is still unused.
    /// O(1): a turn that binds one policy asks twice and so keeps up.
    pub fn forgettable(&mut self, kept: usize) -> Option<PolicyNo> {
        if self.unused.len() <= kept {
            return None;
        }
        let (_, oldest) = self.unused.pop_first()?;
        let slot = self.slot_mut(oldest);
        slot.unused = 0;
        (slot.users == 0).then_some(oldest)
    }

    /// Notes that its image is written to base file `base`; false if it was before, or is not to be.
    pub fn note_imaged(&mut self, number: PolicyNo, base: u32) -> bool {
        std::mem::replace(&mut self.slot_mut(number).imaged, base) != base
    }

    /// Takes those off the list of the unused that jobs use by now: after loading, when all were
    /// bound before their jobs came.
    pub fn relist_unused(&mut self) {
        let Policies { slots, unused, .. } = self;
        unused.retain(|_, number| {
            let slot = slots.get_mut(number.0).expect("what is listed is bound");
            if slot.users > 0 {
                slot.unused = 0;
            }
            slot.users == 0
        });
    }

    fn hash(&self, policy: &Policy) -> u32 {
        self.hasher.hash_one(policy) as u32
    }

    fn slot_mut(&mut self, number: PolicyNo) -> &mut Slot {
        self.slots.get_mut(number.0).expect("a job's policy is bound")
    }

    fn list_unused(&mut self, number: PolicyNo) {
        let slot = self.slots.get_mut(number.0).expect("what fell out of use is bound");
        if slot.unused == 0 {
            self.retirements += 1;
            slot.unused = self.retirements;
            self.unused.insert(self.retirements, number);
        }
    }
}

fn hash_in(slots: &Slots<Slot>, number: u32) -> u64 {
    wide(slots.get(number).expect("a policy in the index is bound").hash)
}
