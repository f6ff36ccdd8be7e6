//! What needs a look in a cluster: the alerts about nodes in `docs/metrics.md`.

use super::trouble::Trouble;
use crate::console::view::chrome::ServerState;
use crate::console::view::node::{OwnNode, peers};
use crate::console::view::parts::{self, Tone};
use crate::console::words::escape;

/// Without a leader for this long, ms: an election takes less.
const LEADERLESS_MS: u64 = 1_000;
/// Entries of the log that a node may lack, as in the alert.
const BEHIND_MAX: u64 = 10_000;
/// What a follower shows may be this old, ms, before it is said.
const OLD_MS: u64 = 3_000;

/// The troubles of this node and of those that it knows.
pub(super) fn of_cluster(state: &ServerState, found: &mut Vec<Trouble>) {
    let Some(node) = OwnNode::of(state) else { return };
    majority(state, found);
    members(state, found);
    of_this_node(&node, state, found);
    others(state, found);
}

fn say(found: &mut Vec<Trouble>, tone: Tone, text: String) {
    found.push(Trouble::at(tone, "/server#cluster", "Nodes", text));
}

/// As [`say`], of what has been so for this long.
fn say_for(found: &mut Vec<Trouble>, tone: Tone, for_ms: Option<u64>, text: String) {
    found.push(Trouble { for_ms, ..Trouble::at(tone, "/server#cluster", "Nodes", text) });
}

fn count(names: &str) -> u64 {
    names.split(',').filter(|name| !name.is_empty()).count() as u64
}

/// `n2, n3`.
fn listed(names: &str) -> String {
    escape::shortened(&names.replace(',', ", "), 100)
}

/// Whether changes can be made at all, and how many nodes may still be lost.
fn majority(state: &ServerState, found: &mut Vec<Trouble>) {
    let (voters, here) =
        (count(state.text("raft_voters")), state.number_of("raft_voters_connected"));
    let (needed, away) = (voters / 2 + 1, state.text("raft_away"));
    // One that stands still is connected, and does nothing.
    let here = here.min(voters.saturating_sub(count(away)));
    let leaderless_ms = state.number_of("raft_leaderless_ms");
    if voters > 0 && here < needed {
        let text = format!(
            "No majority: {here} of {voters} nodes with a vote can be reached from here, {needed} are needed, so \
             nothing is changed or handed out. Start the missing nodes: {}.",
            listed(away)
        );
        return say_for(found, Tone::Bad, state.number("raft_leaderless_ms"), text);
    }
    if leaderless_ms > LEADERLESS_MS {
        let for_ms = parts::duration(leaderless_ms);
        let text = format!(
            "There has been no leader for {for_ms}: nothing is changed or handed out. The log says which nodes are \
             missing, and what to do."
        );
        say_for(found, Tone::Bad, Some(leaderless_ms), text);
    }
    if count(away) > 0 {
        let more = match here.saturating_sub(needed) {
            0 => "no further node may be lost".to_owned(),
            more => format!("{} more may be lost", parts::counted(more, "node", "nodes")),
        };
        let (names, verb) = (listed(away), if count(away) == 1 { "is" } else { "are" });
        say(
            found,
            Tone::Warn,
            format!("{names} {verb} away, {more}: start what is missing, or replace it."),
        );
    }
}

/// Whether the members agree on who they are, on the time, and on the data.
fn members(state: &ServerState, found: &mut Vec<Trouble>) {
    let text = |field| escape::shortened(&escape::text(state.text(field).as_bytes()), 200);
    if !state.text("raft_forming").is_empty() {
        say(found, Tone::Bad, format!("The cluster is not complete: {}.", text("raft_forming")));
    }
    if !state.text("raft_conflict").is_empty() {
        say(found, Tone::Warn, format!("A node cannot be added: {}.", text("raft_conflict")));
    }
    if state.text("raft_verified") == "differ" {
        let text = "Nodes differ: DELAY.CLUSTER VERIFY found other data than the leader's. Remove the node that \
                    differs from all others, and add it again with an empty folder.";
        say(found, Tone::Bad, text.to_owned());
    }
    let wrong = state.text("raft_clocks_wrong");
    if !wrong.is_empty() {
        let text = format!(
            "The wall clock of {} differs from the majority's: check the time service there.",
            listed(wrong)
        );
        say(found, Tone::Warn, text);
    }
}

fn of_this_node(node: &OwnNode<'_>, state: &ServerState, found: &mut Vec<Trouble>) {
    let health = state.text("raft_health");
    if !health.is_empty() && health != "well" {
        let text = format!(
            "This node, {}, is sick ({health}): another one should lead. The log says what to do.",
            node.name
        );
        say_for(found, Tone::Bad, state.number("raft_sick_ms"), text);
    }
    if let Some(stuck_ms) = state.number("raft_stuck_ms") {
        let text = format!(
            "This node, {}, leads, but has committed nothing for {}: nothing is acknowledged or handed out until a \
             majority of nodes accepts it. The log says which nodes are behind.",
            node.name,
            parts::duration(stuck_ms)
        );
        say_for(found, Tone::Bad, Some(stuck_ms), text);
    }
    let lacks = state
        .number_of("raft_committed_index")
        .saturating_sub(state.number_of("raft_applied_index"));
    let age_ms = state.number_of("raft_read_age_ms");
    if lacks > BEHIND_MAX {
        let entries = parts::grouped(lacks);
        say(
            found,
            Tone::Warn,
            format!("This node, {}, has {entries} entries still to apply.", node.name),
        );
    } else if age_ms > OLD_MS && state.number("raft_leaderless_ms").is_none() {
        let age = parts::duration(age_ms);
        let text = format!(
            "This node, {}, is behind: what it shows may be {age} old. Check its disk and its network.",
            node.name
        );
        say(found, Tone::Warn, text);
    }
}

/// The other nodes. The leader knows at once how they are, a follower within some seconds.
fn others(state: &ServerState, found: &mut Vec<Trouble>) {
    for peer in peers(state).iter().filter(|peer| peer.state != "unreachable") {
        let name = peer.name;
        if !matches!(peer.health, "" | "well" | "unknown") {
            let text = format!("{name} is sick ({}): its log says what to do.", peer.health);
            say(found, Tone::Warn, text);
        }
        if peer.state == "base" {
            let text = format!("{name} lacks more than the log has: it is being sent a base.");
            say(found, Tone::Warn, text);
        } else if peer.behind > BEHIND_MAX {
            let entries = parts::grouped(peer.behind);
            let text =
                format!("{name} is {entries} entries behind: check its disk and its network.");
            say(found, Tone::Warn, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::node::tests::state;

    const LEADER: [(&str, &str); 6] = [
        ("raft_name", "n1"),
        ("raft_leads", "1"),
        ("raft_voters", "n1,n2,n3"),
        ("raft_voters_connected", "3"),
        ("raft_health", "well"),
        ("raft_leaderless_ms", "-1"),
    ];

    type Fields = [(&'static str, &'static str)];

    fn texts(fields: &Fields) -> Vec<(Tone, String)> {
        let mut found = Vec::new();
        of_cluster(&state(&[&LEADER[..], fields].concat()), &mut found);
        found.into_iter().map(|trouble| (trouble.tone, trouble.text)).collect()
    }

    #[test]
    fn each_alert_about_nodes_has_its_rule() {
        assert_eq!(texts(&[]), []);
        let behind = "name=n2,state=online,health=well,behind=10001";
        let sick = "name=n2,state=online,health=disk-slow,behind=0";
        let based = "name=n2,state=base,health=well,behind=99999";
        let gone = "name=n2,state=unreachable,health=disk-hangs,behind=99999";
        let away = [("raft_away", "n3"), ("raft_voters_connected", "2")];
        let few = [("raft_away", "n2,n3"), ("raft_voters_connected", "1")];
        let cases: [(&Fields, Tone, &str); 13] = [
            (&few, Tone::Bad, "1 of 3 nodes with a vote can be reached from here, 2 are needed"),
            (&few, Tone::Bad, "Start the missing nodes: n2, n3."),
            (&away, Tone::Warn, "n3 is away, no further node may be lost"),
            (&[("raft_leaderless_ms", "4400")], Tone::Bad, "no leader for 4.4 s"),
            (&[("raft_health", "disk-hangs")], Tone::Bad, "n1, is sick (disk-hangs)"),
            (&[("raft_stuck_ms", "4400")], Tone::Bad, "has committed nothing for 4.4 s"),
            (&[("raft_verified", "differ")], Tone::Bad, "Nodes differ"),
            (&[("raft_clocks_wrong", "n1,n2")], Tone::Warn, "clock of n1, n2 differs"),
            (&[("raft_read_age_ms", "5000")], Tone::Warn, "may be 5 s old"),
            (&[("raft_committed_index", "20000")], Tone::Warn, "20,000 entries still to apply"),
            (&[("raft_peer0", behind)], Tone::Warn, "n2 is 10,001 entries behind"),
            (&[("raft_peer0", sick)], Tone::Warn, "n2 is sick (disk-slow)"),
            (&[("raft_peer0", based)], Tone::Warn, "being sent a base"),
        ];
        for (fields, tone, part) in cases {
            let found = texts(fields);
            let is_it = found.len() == 1 && found[0].0 == tone && found[0].1.contains(part);
            assert!(is_it, "{part}: {found:?}");
        }
        assert_eq!(texts(&[("raft_peer0", gone)]), [], "it is among those that are away");
        assert_eq!(texts(&[("raft_leaderless_ms", "900")]), [], "an election");
        assert!(texts(&[("raft_forming", "n3 is <missing>")])[0].1.contains("not complete"));
    }

    #[test]
    fn a_standalone_server_has_no_troubles_of_a_cluster() {
        let mut found = Vec::new();
        of_cluster(&state(&[("raft_leaderless_ms", "9000")]), &mut found);
        assert_eq!(found, []);
    }
}
