//! The leader's lease: until when no other node can have been elected, so that it may answer reads by itself.
//!
//! With each heartbeat a leader asks Raft to confirm its leadership, and passes the time of the question along. The
//! answer means that a majority heard it after that moment. A node that has heard a leader gives no vote for an
//! election timeout E, so the lease lasts 0.75 E from the moment of the question, never from the answer, which does not
//! tell when the others heard it.
//!
//! With E = 300 ms: asked at 1,000 ms, confirmed at 1,001 ms, the lease runs until 1,225 ms. A majority refuses its
//! votes until 1,290 ms at the least (Raft counts E in 30 ticks, and one of them may end at once). So clocks may
//! run at speeds of 1 to 1.28.
//!
//! Two things would break that, and have a rule each. A node that has just started forgot which leader it heard: it
//! votes only after E ([`crate::cluster::raft::node`]). And a leader that hands over has its successor elected at once:
//! it ends the lease before, and the lease does not come back in that epoch. The message that told the successor to
//! campaign may be on its way for longer than any possible wait.

use crate::limits::LEASE_PERCENT;
use crate::time::Micros;

/// A leader's lease. All instants are of one clock of this node, which goes on while the machine sleeps.
#[derive(Clone, Debug)]
pub struct Lease {
    lasts_us: u64,
    /// When this node began to lead; nothing while it does not.
    since: Option<Micros>,
    /// A majority heard something that was sent then, in this epoch.
    heard: Option<Micros>,
    /// Handed over, or about to be.
    ended: bool,
}

impl Lease {
    /// For a node that does not lead; `election_us` is E.
    pub fn new(election_us: u64) -> Lease {
        let lasts_us = election_us * LEASE_PERCENT / 100;
        Lease { lasts_us, since: None, heard: None, ended: false }
    }

    /// An epoch begins in which this node leads.
    pub fn begin(&mut self, now: Micros) {
        *self = Lease { since: Some(now), heard: None, ended: false, ..*self };
    }

    /// This node leads no longer.
    pub fn lose(&mut self) {
        *self = Lease { since: None, heard: None, ..*self };
    }

    /// Before leadership is handed over: no read is answered by the lease until another epoch begins.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// A majority has confirmed a question that was sent at `sent`. One of an earlier epoch says nothing.
    pub fn confirm(&mut self, sent: Micros) {
        if self.since.is_some_and(|since| sent >= since) {
            self.heard = self.heard.max(Some(sent));
        }
    }

    pub fn runs(&self, now: Micros) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// When it runs out; nothing without a lease.
    pub fn until(&self) -> Option<Micros> {
        let heard = self.heard.filter(|_| !self.ended)?;
        Some(Micros(heard.0.saturating_add(self.lasts_us)))
    }

    /// The newest question that a majority has confirmed in this epoch.
    pub fn heard(&self) -> Option<Micros> {
        self.heard
    }

    /// Whether this node still led after `began`: a turn may answer with data read then, lease or not.
    pub fn is_confirmed_since(&self, began: Micros) -> bool {
        self.heard.is_some_and(|heard| heard >= began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: u64 = 300_000;

    #[test]
    fn it_counts_from_the_question_and_ends_before_the_next_election() {
        let mut lease = Lease::new(E);
        lease.confirm(Micros(500));
        assert_eq!(lease.until(), None);
        lease.begin(Micros(1_000_000));
        assert!(!lease.runs(Micros(1_000_000)) && !lease.is_confirmed_since(Micros(0)));
        lease.confirm(Micros(999_999));
        assert_eq!(lease.until(), None, "asked in an earlier epoch");
        lease.confirm(Micros(1_050_000));
        lease.confirm(Micros(1_000_000));
        assert_eq!(lease.until(), Some(Micros(1_275_000)), "answers may come in any order");
        assert!(lease.runs(Micros(1_274_999)) && !lease.runs(Micros(1_275_000)));
        assert!(lease.is_confirmed_since(Micros(1_050_000)));
        assert!(!lease.is_confirmed_since(Micros(1_050_001)));
        lease.lose();
        assert!(!lease.runs(Micros(1_050_001)) && !lease.is_confirmed_since(Micros(0)));
    }

    #[test]
    fn one_that_was_ended_does_not_come_back_in_its_epoch() {
        let mut lease = Lease::new(E);
        lease.begin(Micros(0));
        lease.confirm(Micros(10));
        lease.end();
        lease.confirm(Micros(1_000_000));
        assert!(!lease.runs(Micros(1_000_001)));
        assert!(lease.is_confirmed_since(Micros(1_000_000)), "reads wait for a confirmation");
        lease.begin(Micros(2_000_000));
        lease.confirm(Micros(2_000_000));
        assert!(lease.runs(Micros(2_000_001)));
    }
}
