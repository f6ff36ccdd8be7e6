//! Where a process has several partitions, all nodes lead some: of the members that can, in the order of their names, the
//! first leads partition 0, the second partition 1, and so on in turn. Otherwise the node that was up first would lead
//! all, and the others' cores would have half as much to do.
//!
//! A leader that is not the one meant hands over, as FAILOVER does, once that one has been well for a while: never while
//! members come or go, lack a base or are behind, and one partition after the other.

use crate::config::options::Name;
use crate::limits::{BALANCE_AGAIN_US, BALANCE_BEHIND_MAX, BALANCE_PAUSE_E, BALANCE_STEADY_E};
use crate::observe::cluster::{ClusterView, NodeView};
use crate::server::turn::Turns;

/// What a partition remembers of it; monotonic, µs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Balance {
    /// The node that should lead instead of this one, and since when it could.
    wanted: Option<(u64, u64)>,
    /// Not before then, since it was tried in vain.
    from_us: u64,
}

impl Turns {
    /// Once a second: hands over if another node should lead this partition.
    pub(super) fn balance(&mut self) {
        let (core, now_us) = (&self.core, self.core.clock.mono_us);
        let (Some(siblings), Some(view)) = (&core.siblings, &core.view) else { return };
        if !view.leads {
            self.balance = Balance::default();
            return;
        }
        let is_busy = core.common.hand_over.is_some() || core.common.pauses.is_running();
        let is_wanted = core.options.config.flag(Name::ClusterLeaderBalance) && !is_busy;
        let should_lead = match is_wanted {
            true => should_lead(view, siblings.own().into()),
            false => None,
        };
        let Some(since_us) = self.balance.since_us(should_lead, now_us) else { return };
        let election_us = view.election_us;
        let from_us = self.balance.from_us.max(since_us + BALANCE_STEADY_E * election_us);
        if let Some(node) = should_lead
            && now_us >= from_us
            && siblings.may_hand_over(now_us, BALANCE_PAUSE_E * election_us)
        {
            self.balance.from_us = now_us + BALANCE_AGAIN_US;
            self.ask_to_lead(node, "it is its turn to lead this partition");
        }
    }
}

impl Balance {
    /// Since when this node should lead; none if no other one should.
    fn since_us(&mut self, should_lead: Option<u64>, now_us: u64) -> Option<u64> {
        self.wanted = should_lead.map(|node| match self.wanted {
            Some((same, since_us)) if same == node => (node, since_us),
            _ => (node, now_us),
        });
        self.wanted.map(|(_, since_us)| since_us)
    }
}

/// The node that should lead this partition instead of this one; none if that is as it should be, or
/// a member is not well.
fn should_lead(view: &ClusterView, partition: usize) -> Option<u64> {
    let changes = !view.invited.is_empty() || view.transferring || view.forming.is_some();
    if changes {
        return None;
    }
    let members = view.nodes.iter().filter(|node| !node.has_left);
    let is_well = |node: &NodeView| {
        let is_near = node.matched.is_some_and(|at| at + BALANCE_BEHIND_MAX >= view.last);
        let is_sick = node.health.as_ref().is_some_and(|health| health.sick.is_some());
        node.id == view.node
            || node.is_voter
                && !node.needs_base
                && !is_sick
                && is_near
                && node.is_heard == Some(true)
    };
    if !members.clone().all(is_well) {
        return None;
    }
    let able: Vec<&NodeView> = members.filter(|node| node.priority > 0).collect();
    // They are in the order of their names.
    let meant = able.get(partition % able.len().max(1))?;
    (meant.id != view.node).then_some(meant.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::members::directory::Node;
    use crate::cluster::members::names::{Address, Name};

    fn node(id: u64) -> NodeView {
        let address = || Address::new("h", 1).unwrap();
        let name = Name::new(&format!("n{id}")).unwrap();
        let entry = Node { name, client: address(), tls: None, peer: address(), sentinel: None };
        NodeView { matched: Some(10), is_heard: Some(true), ..NodeView::met(id, entry) }
    }

    fn view() -> ClusterView {
        let nodes = vec![node(1), node(2), node(3)];
        ClusterView { node: 2, nodes, last: 10, ..ClusterView::default() }
    }

    #[test]
    fn the_nodes_lead_in_turn() {
        let meant = |partition| should_lead(&view(), partition);
        assert_eq!([0, 1, 2, 3, 4].map(meant), [Some(1), None, Some(3), Some(1), None]);
        let mut unable = view();
        unable.nodes[0].priority = 0;
        assert_eq!([0, 1, 2].map(|n| should_lead(&unable, n)), [None, Some(3), None]);
    }

    /// Whatever is wrong with a member, leaders stay where they are.
    #[test]
    fn nothing_moves_while_a_member_is_not_well() {
        let wrong: [fn(&mut ClusterView); 7] = [
            |view| view.transferring = true,
            |view| view.forming = Some("n3 is missing".to_owned()),
            |view| view.nodes[2].is_voter = false,
            |view| view.nodes[2].needs_base = true,
            |view| view.nodes[2].is_heard = Some(false),
            |view| view.nodes[0].matched = None,
            |view| view.last = 11 + BALANCE_BEHIND_MAX,
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            let mut view = view();
            change(&mut view);
            assert_eq!(should_lead(&view, 0), None, "{at}");
        }
    }

    #[test]
    fn a_node_that_was_gone_for_a_moment_begins_anew() {
        let mut balance = Balance::default();
        assert_eq!(balance.since_us(Some(1), 100), Some(100));
        assert_eq!(balance.since_us(Some(1), 200), Some(100));
        assert_eq!(balance.since_us(None, 300), None);
        assert_eq!(balance.since_us(Some(1), 400), Some(400));
        assert_eq!(balance.since_us(Some(3), 500), Some(500));
    }
}
