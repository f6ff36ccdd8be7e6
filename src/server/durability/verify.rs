//! Whether all nodes hold the same: a node's share, around the base that it counts. See [`crate::cluster::peer::verify`].

use crate::cluster::peer::verify::{Missed, Verification, VerifyNote, VerifyTally};
use crate::engine::Engine;
use crate::ids::Index;
use crate::server::cluster::mailbox::Ask;
use crate::server::durability::commit::replicated::Replicated;
use crate::server::durability::compaction::Compaction;
use crate::server::durability::running::RunningJournal;

/// A node's part in it.
#[derive(Debug, Default)]
pub struct Verify {
    /// DELAY.CLUSTER VERIFY was said, and the base for it has not begun.
    wanted: bool,
    /// This node's last question to the others, as long as it leads.
    asked: Option<Verification>,
    /// The question of another leading node that is not answered yet.
    order: Option<Order>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    leader: u64,
    index: u64,
    /// The base for it is being made.
    has_begun: bool,
}

impl Verify {
    /// The last question, and the known answers.
    pub fn asked(&self) -> Option<&Verification> {
        self.asked.as_ref()
    }

    /// DELAY.CLUSTER VERIFY.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// This node no longer leads: the result of its question is not needed.
    pub fn depose(&mut self) {
        (self.wanted, self.asked) = (false, None);
    }

    /// A node that does not answer will not report.
    pub fn part(&mut self, gone: impl IntoIterator<Item = u64>) {
        let Some(asked) = &mut self.asked else { return };
        gone.into_iter().for_each(|node| asked.part(node));
    }

    /// Questions and answers of other nodes.
    pub fn hear(&mut self, node: &Replicated) {
        for (peer, note) in node.mailbox.take_verify() {
            match note {
                VerifyNote::Asked { index } if node.is_loading() || node.decides() => {
                    tell(node, peer, VerifyNote::Missed { index, why: Missed::Busy });
                }
                VerifyNote::Asked { index } if node.position().index.0 > index => {
                    tell(node, peer, VerifyNote::Missed { index, why: Missed::Passed });
                }
                VerifyNote::Asked { index } => {
                    self.order = Some(Order { leader: peer, index, has_begun: false });
                }
                answer => {
                    if let Some(asked) = &mut self.asked {
                        asked.hear(peer, answer);
                    }
                }
            }
        }
    }

    /// Whether this node is as far as it was asked about, so that nothing more is applied before a base has begun.
    pub fn holds(&self, node: &Replicated) -> bool {
        let is_there = |order: &Order| !order.has_begun && order.index == node.position().index.0;
        self.order.as_ref().is_some_and(is_there)
    }
}

impl RunningJournal {
    /// Questions and answers of other nodes.
    pub fn hear_of_verifying(&mut self) {
        let Some(node) = self.journal.replicated() else { return };
        let own = node.own.id;
        let is_running = |verify: &Verify| verify.asked().is_some_and(|a| a.tally(own).running > 0);
        let before = is_running(&self.verify);
        self.verify.hear(node);
        if before && let Some(asked) = &self.verify.asked {
            log(asked, own);
        }
    }

    /// Whether nothing more may be applied in this turn: this node has reached the index of the question.
    pub fn holds_to_verify(&mut self) -> bool {
        let RunningJournal { journal, verify, .. } = self;
        journal.replicated().is_some_and(|node| verify.holds(node))
    }

    /// Whether a base is to begin, to be counted.
    pub(super) fn wants_to_verify(&mut self) -> bool {
        self.verify.wanted || self.holds_to_verify()
    }

    /// A base up to `index` has begun: if it is counted, the others are asked for the same.
    pub(super) fn begin_to_verify(&mut self, index: u64) {
        let Some(node) = self.journal.replicated() else { return };
        if let Some(order) = self.verify.order.as_mut().filter(|order| order.index == index) {
            order.has_begun = true;
        }
        if !std::mem::take(&mut self.verify.wanted) {
            return;
        }
        let members = node.mailbox.status().map(|status| status.members.all()).unwrap_or_default();
        let others: Vec<u64> = members.into_iter().filter(|other| *other != node.own.id).collect();
        for other in &others {
            tell(node, *other, VerifyNote::Asked { index });
        }
        tracing::info!(index, "comparing the data of all nodes");
        self.verify.asked = Some(Verification::new(index, others));
    }

    /// A follower that could not begin a base where it was asked says so, and goes on.
    pub(super) fn refuse_to_verify(&mut self) {
        let RunningJournal { journal, verify, .. } = self;
        let Some(node) = journal.replicated() else { return };
        if verify.holds(node)
            && let Some(Order { leader, index, .. }) = verify.order.take()
        {
            tell(node, leader, VerifyNote::Missed { index, why: Missed::Busy });
        }
    }

    /// Takes up what was counted.
    pub(super) fn go_on_verifying(&mut self, engine: &Engine) {
        let RunningJournal { journal, verify, compaction, .. } = self;
        let Some(node) = journal.replicated() else { return };
        if let Some(Order { leader, index, has_begun: true }) = verify.order
            && let Some(counted) = counted(compaction, engine, index)
        {
            let note = match counted {
                Ok(sum) => VerifyNote::Sum { index, sum },
                Err(why) => VerifyNote::Missed { index, why },
            };
            tell(node, leader, note);
            verify.order = None;
        }
        let asked = verify.asked.as_mut().filter(|asked| !asked.is_counted());
        if let Some(asked) = asked
            && let Some(counted) = counted(compaction, engine, asked.index)
        {
            asked.count(counted);
            log(asked, node.own.id);
        }
    }
}

/// The sum over the base up to `index`; none as long as it is being made. One that was given up counts nothing.
fn counted(compaction: &Compaction, engine: &Engine, index: u64) -> Option<Result<u64, Missed>> {
    match (compaction.is_running_to(Index(index)), compaction.is_imaged()) {
        (true, true) => Some(engine.base_sum().ok_or(Missed::Failed)),
        (true, false) => None,
        (false, _) => Some(Err(Missed::Failed)),
    }
}

/// Says how it has ended, once it has.
fn log(asked: &Verification, own: u64) {
    let (index, VerifyTally { same, differ, missed, running }) = (asked.index, asked.tally(own));
    match (running, differ) {
        (1.., _) => {}
        (0, 1..) => tracing::error!(
            index,
            same,
            differ,
            missed,
            "some nodes differ from this one: see DELAY.CLUSTER"
        ),
        (0, 0) => tracing::info!(index, same, missed, "all nodes have the same data"),
    }
}

fn tell(node: &Replicated, to: u64, note: VerifyNote) {
    node.mailbox.ask(Ask::Verify(to, note));
}
