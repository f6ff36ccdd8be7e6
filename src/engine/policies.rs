//! Interned policies: a job refers to its policy by 4 bytes.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;

use crate::engine::policy::Policy;
use crate::ids::PolicyNo;

/// Policies that no job uses are kept up to this number, so that a queue that is empty after every
/// job does not bind its policy again for every job.
const UNUSED_MAX: usize = 1_024;

/// Bytes counted for a bound policy.
pub const POLICY_BYTES: u64 = 2 * size_of::<Policy>() as u64 + 48;

/// Policies by number and by value, with a count of the jobs that use each.
#[derive(Debug)]
pub struct Policies {
    slots: Vec<Slot>,
    free: Vec<PolicyNo>,
    numbers: HashMap<Policy, PolicyNo, RandomState>,
    /// In the order in which they fell out of use; some may be in use again.
    unused: VecDeque<PolicyNo>,
}

#[derive(Debug)]
struct Slot {
    policy: Option<Policy>,
    users: u64,
    listed_unused: bool,
}

impl Policies {
    /// None bound. The hasher's order is never looked at.
    pub fn new(hasher: RandomState) -> Policies {
        let numbers = HashMap::with_hasher(hasher);
        Policies { slots: Vec::new(), free: Vec::new(), numbers, unused: VecDeque::new() }
    }

    /// The policy's number, if it has one. `likely` is tried first: most jobs are added like the
    /// one before, and comparing is cheaper than hashing.
    pub fn number(&self, policy: &Policy, likely: PolicyNo) -> Option<PolicyNo> {
        let slot = self.slots.get(likely.0 as usize);
        if slot.is_some_and(|slot| slot.policy.as_ref() == Some(policy)) {
            return Some(likely);
        }
        self.numbers.get(policy).copied()
    }

    /// The number that the next new policy is to have.
    pub fn next_number(&self) -> PolicyNo {
        self.free.last().copied().unwrap_or(PolicyNo(self.slots.len() as u32))
    }

    /// The policy behind a number that is bound.
    pub fn get(&self, number: PolicyNo) -> &Policy {
        self.slots[number.0 as usize].policy.as_ref().expect("a job's policy is bound")
    }

    /// How many jobs use it.
    pub fn users(&self, number: PolicyNo) -> u64 {
        self.slots[number.0 as usize].users
    }

    /// Binds a number.
    pub fn bind(&mut self, number: PolicyNo, policy: Policy) {
        if self.free.last() == Some(&number) {
            self.free.pop();
        } else {
            assert_eq!(number.0 as usize, self.slots.len(), "policy numbers are dense");
            self.slots.push(Slot { policy: None, users: 0, listed_unused: false });
        }
        self.numbers.insert(policy.clone(), number);
        self.slots[number.0 as usize].policy = Some(policy);
        self.list_unused(number);
    }

    /// Frees a number that no job uses.
    pub fn forget(&mut self, number: PolicyNo) {
        let slot = &mut self.slots[number.0 as usize];
        assert_eq!(slot.users, 0, "a policy with jobs is not forgotten");
        let policy = slot.policy.take().expect("a bound policy is forgotten once");
        self.numbers.remove(&policy);
        self.free.push(number);
    }

    /// One job more uses it.
    pub fn take(&mut self, number: PolicyNo) {
        self.slots[number.0 as usize].users += 1;
    }

    /// One job fewer uses it.
    pub fn release(&mut self, number: PolicyNo) {
        let slot = &mut self.slots[number.0 as usize];
        slot.users -= 1;
        if slot.users == 0 {
            self.list_unused(number);
        }
    }

    /// A policy to be forgotten: when more than [`UNUSED_MAX`] fell out of use, the oldest of them,
    /// if it is still unused. O(1): a turn that binds one policy asks twice and so keeps up.
    pub fn forgettable(&mut self) -> Option<PolicyNo> {
        if self.unused.len() <= UNUSED_MAX {
            return None;
        }
        let oldest = self.unused.pop_front()?;
        let slot = &mut self.slots[oldest.0 as usize];
        slot.listed_unused = false;
        (slot.users == 0 && slot.policy.is_some()).then_some(oldest)
    }

    fn list_unused(&mut self, number: PolicyNo) {
        let slot = &mut self.slots[number.0 as usize];
        if !std::mem::replace(&mut slot.listed_unused, true) {
            self.unused.push_back(number);
        }
    }
}
