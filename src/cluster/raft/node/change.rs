//! Changes of members, in Raft's form.

use crate::cluster::members::{Members, NodeStep};
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};

/// Raft's form of a change. The bytes of it that the library reads are those that it wrote itself: the log and the
/// peers get the members.
pub(super) fn conf_change(before: &Members, next: &Members) -> ConfChangeV2 {
    let mut change = ConfChangeV2::default();
    if before.is_joint() {
        assert_eq!(*next, before.left(), "a joint state is left before anything else");
        return change;
    }
    let single = |kind, id| {
        let mut single = ConfChangeSingle { node_id: id, ..ConfChangeSingle::default() };
        single.set_change_type(kind);
        single
    };
    for (step, id) in before.changes_to(next) {
        let kind = match step {
            NodeStep::Voter => ConfChangeType::AddNode,
            NodeStep::Learner => ConfChangeType::AddLearnerNode,
            NodeStep::Gone => ConfChangeType::RemoveNode,
        };
        change.mut_changes().push(single(kind, id));
    }
    if change.changes.is_empty() {
        // Names or addresses alone: nothing for Raft, which takes no change without a node in it.
        change.mut_changes().push(single(ConfChangeType::AddNode, next.voters[0]));
        return change;
    }
    if next.is_joint() {
        change.set_transition(ConfChangeTransition::Implicit);
    }
    change
}

/// Whether two are the same, in whatever order.
pub(super) fn are_equal(one: &ConfState, other: &ConfState) -> bool {
    let sorted = |list: &[u64]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let lists = |state: &ConfState| {
        let lists = [
            state.get_voters(),
            state.get_voters_outgoing(),
            state.get_learners(),
            state.get_learners_next(),
        ];
        (lists.map(sorted), state.auto_leave)
    };
    lists(one) == lists(other)
}
