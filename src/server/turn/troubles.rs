//! Persistent troubles of a node: their log lines, and which connections are closed, so that their clients look for a
//! node that can answer.

use crate::cluster::raft::output::RaftRole;
use crate::cluster::timing::health::Why;
use crate::command::table::Face;
use crate::journal::offline::dump::written;
use crate::limits::{LEADERLESS_LOG_US, TICK_US, UNANSWERED_TICKS};
use crate::observe::cluster::{ClusterView, NodeState, NodeView};
use crate::observe::health::{self, seconds};
use crate::server::observe::lasting::{Lasting, Say};
use crate::server::outbox::gate::TurnNo;
use crate::server::turn::Turns;
use crate::time::Micros;
use std::collections::VecDeque;

/// The state of troubles. Instants are of the monotonic clock, µs.
#[derive(Debug, Default)]
pub struct Troubles {
    /// Since when no leader is known here.
    leaderless_us: Option<u64>,
    leaderless: Lasting,
    sick: Lasting,
    stuck: Lasting,
    /// When clients that wait were closed last, while nothing is committed.
    let_go_us: Option<u64>,
    /// The turns of the last times, the newest last.
    let_go_turns: VecDeque<TurnNo>,
}

impl Troubles {
    /// From here on a leader is known, or none.
    pub fn stand(&mut self, is_leaderless: bool, now_us: u64) {
        self.leaderless_us = self.leaderless_us.or(Some(now_us)).filter(|_| is_leaderless);
    }

    /// For how long none has been known, µs.
    pub fn leaderless_us(&self, now_us: u64) -> Option<u64> {
        self.leaderless_us.map(|since_us| now_us.saturating_sub(since_us))
    }

    /// Whether this node leads and nothing is committed.
    pub fn is_stuck(&self) -> bool {
        self.let_go_us.is_some()
    }

    /// Whether to close waiting clients, as nothing has been committed since `stuck_us` at the latest: at once, and
    /// each second those that have come since.
    fn lets_go(&mut self, now_us: u64, stuck_us: Option<u64>) -> bool {
        if stuck_us.is_none_or(|stuck_us| now_us < stuck_us) {
            self.let_go_us = None;
            self.let_go_turns.clear();
            return false;
        }
        let is_due = self.let_go_us.is_none_or(|last_us| now_us >= last_us + TICK_US);
        if is_due {
            self.let_go_us = Some(now_us);
        }
        is_due
    }

    /// The newest turn whose replies are not waited for any more, where `turn` is the newest of all; 0 for none. To be called
    /// each time that clients are let go. These times count, not the clock: a process that was stopped has left no time for
    /// replies.
    fn give_up(&mut self, turn: TurnNo) -> TurnNo {
        self.let_go_turns.push_back(turn);
        match self.let_go_turns.len() > UNANSWERED_TICKS {
            true => self.let_go_turns.pop_front().unwrap_or(0),
            false => 0,
        }
    }
}

impl Turns {
    /// Each second.
    pub(super) fn look_at_troubles(&mut self) {
        self.show_troubles();
        self.log_leaderless();
        self.log_sick();
        self.log_stuck();
        let now_us = self.core.clock.mono_us;
        let election_us = self.core.view.as_ref().map_or(u64::MAX / 2, |view| view.election_us);
        // Only clients that were refused: those that only read may stay, and whoever looks at this node's console.
        if self.troubles.leaderless_us(now_us).is_some_and(|us| us >= 2 * election_us) {
            self.close_those(|_, (_, client)| {
                let seeks = client.session.seeks_leader() && !client.socket.is_pair();
                seeks && client.session.face() == Face::Data
            });
        }
    }

    /// Closes clients that wait, for jobs, for the journal or for messages, once a leader has committed nothing for too
    /// long: another node may lead, and if not they come back. They get no reply: it would wait behind facts that are
    /// not committed. Clients whose commands have run keep their connections for some seconds more, as most of them would
    /// run those again: the reply of an ADD may still come. The console asks for nothing twice.
    pub(super) fn let_go(&mut self) {
        let now_us = self.core.clock.mono_us;
        let uncommitted = self.core.durability.uncommitted();
        if !self.troubles.lets_go(now_us, uncommitted.map(|oldest| oldest.late_us)) {
            return;
        }
        let newest = self.core.outputs.gate.turn;
        let given_up = self.troubles.give_up(newest);
        // Without another voter there is no other node to look for.
        let voters = self.core.view.iter().flat_map(|view| &view.nodes).filter(|at| at.is_voter);
        let given_up = if voters.count() > 1 { given_up } else { 0 };
        self.close_those(|core, (slot, client)| {
            let waits = core.outputs.of(slot).waiting || client.session.is_subscribed();
            let up_to = if client.socket.is_pair() { newest } else { given_up };
            let first = core.outputs.first_gated(slot).unwrap_or(TurnNo::MAX);
            (waits || first <= up_to) && client.session.face() == Face::Data
        });
    }

    /// When [`Turns::let_go`] closes them first; monotonic, µs.
    pub(super) fn let_go_us(&self) -> u64 {
        let uncommitted = self.core.durability.uncommitted();
        let oldest = uncommitted.filter(|_| self.troubles.let_go_us.is_none());
        oldest.map_or(u64::MAX, |oldest| oldest.late_us)
    }

    /// For how long this node has led and committed nothing, µs, if that is too long.
    pub(super) fn stuck_us(&self) -> Option<u64> {
        let since_us = self.core.durability.uncommitted()?.since_us;
        let now_us = self.core.clock.mono_us;
        self.troubles.is_stuck().then(|| now_us.saturating_sub(since_us))
    }

    /// Raft reports nothing while nothing changes: INFO would stand at what a node that lost its majority knew then, and
    /// below what its log says.
    pub(super) fn show_troubles(&mut self) {
        let leaderless_us = self.troubles.leaderless_us(self.core.clock.mono_us);
        let stuck_us = self.stuck_us();
        let Some(view) = &mut self.core.view else { return };
        let is_news = view.stuck_us.is_some() || stuck_us.is_some();
        (view.leaderless_us, view.stuck_us) = (leaderless_us, stuck_us);
        if is_news {
            self.core.tell_place();
        }
    }

    fn log_leaderless(&mut self) {
        let Some(view) = &self.core.view else { return };
        let now_us = self.core.clock.mono_us;
        // An election takes no longer.
        let least_us = LEADERLESS_LOG_US.max(4 * view.election_us);
        let for_us = self.troubles.leaderless_us(now_us);
        let for_us = for_us.filter(|us| *us >= least_us && !view.has_left());
        let said = self.troubles.leaderless.look(now_us, for_us.map(|us| now_us - us));
        match said {
            Some(Say::There(us)) => {
                let dir = self.core.options.config.folder();
                let dir = std::path::absolute(&dir).unwrap_or(dir);
                let since = self.since(us);
                tracing::warn!("{}", leaderless(view, &since, us, &dir.to_string_lossy()));
            }
            Some(Say::Over(us)) => {
                let (host, port) = view.master();
                tracing::info!("{host}:{port} leads, {} after the last leader", seconds(us));
            }
            None => {}
        }
    }

    fn log_sick(&mut self) {
        let Some(view) = &self.core.view else { return };
        let now_us = self.core.clock.mono_us;
        let (sick, leads) = (view.health.sick, view.leads);
        let since_us = sick.map(|sick| now_us.saturating_sub(sick.for_us));
        match self.troubles.sick.look(now_us, since_us) {
            Some(Say::There(us)) => {
                let since = self.since(us);
                // It is there.
                let why = sick.map_or(Why::DiskHangs, |sick| sick.why);
                let what = health::told(why, &view.health);
                let then = match leads {
                    true => "another node is asked to lead",
                    false => "it does not lead as long as another node can",
                };
                let remedy = health::remedy(why);
                tracing::warn!(
                    why = why.word(),
                    "this node is sick, for {}, since {since}: {what}; {then}. What to do: {remedy}",
                    seconds(us)
                );
            }
            Some(Say::Over(us)) => {
                tracing::info!("this node is healthy again, after {}", seconds(us))
            }
            None => {}
        }
    }

    fn log_stuck(&mut self) {
        let Some(view) = &self.core.view else { return };
        let now_us = self.core.clock.mono_us;
        let for_us = self.stuck_us().filter(|us| *us >= LEADERLESS_LOG_US);
        match self.troubles.stuck.look(now_us, for_us.map(|us| now_us - us)) {
            Some(Say::There(us)) => tracing::warn!("{}", stuck(view, &self.since(us), us)),
            Some(Say::Over(us)) if view.leads => {
                tracing::info!("this node commits again, after {}", seconds(us));
            }
            Some(Say::Over(us)) => {
                tracing::info!(
                    "this node no longer leads: it had committed nothing for {}",
                    seconds(us)
                );
            }
            None => {}
        }
    }

    /// The wall-clock time that long ago.
    fn since(&self, us: u64) -> String {
        let at = written(Micros(self.core.clock.timer.reading().wall_us.saturating_sub(us)));
        // To the second.
        at.split_once('.').map_or(at.clone(), |(seconds, _)| format!("{seconds}Z"))
    }
}

/// The log line when no leader is known: since when, which nodes are missing, and what to do.
fn leaderless(view: &ClusterView, since: &str, for_us: u64, dir: &str) -> String {
    let what = match view.role == RaftRole::Leader {
        true => "this node was elected, but a majority of the voters does not answer",
        false => "there is no leader",
    };
    let lasted = seconds(for_us);
    let begins = format!(
        "{what}, for {lasted}, since {since}: nothing is changed, and no job is handed out."
    );
    let voters = || view.nodes.iter().filter(|node| node.is_voter);
    let (here, away): (Vec<&NodeView>, Vec<&NodeView>) =
        voters().partition(|node| node.is_connected);
    let list = |nodes: &[&NodeView], one: fn(&NodeView) -> String| {
        nodes.iter().map(|node| one(node)).collect::<Vec<_>>().join(", ")
    };
    let count = here.len() + away.len();
    if 2 * here.len() > count {
        let here = list(&here, |node| node.name.to_string());
        return format!(
            "{begins} {here} are connected, a majority of the {count} voters, but none of them was elected: see \
             their logs and DELAY.CLUSTER"
        );
    }
    let away = list(&away, |node| format!("{} at {}", node.name, node.peer));
    let own = view.nodes.iter().find(|node| node.id == view.node);
    let peer = own.map_or("HOST:PORT".to_owned(), |node| node.peer.to_string());
    let name = &view.name;
    format!(
        "{begins} {} of {count} voters are online, {} are needed; missing: {away}. Start them, or repair the network \
         between them. Only if a majority of disks is lost for good, stop this node and begin a new cluster with its \
         data: \
         delayd cluster recover {dir} --cluster-node {name} --cluster-nodes {name}={peer} --i-accept-losses (it asks \
         before it changes anything; with --yes it does not)",
        here.len(),
        count / 2 + 1,
    )
}

/// The log line of a leader that commits nothing: which nodes have not accepted what it sent, and what is wrong with them.
fn stuck(view: &ClusterView, since: &str, for_us: u64) -> String {
    let word = |node: &NodeView| match view.state_of(node) {
        NodeState::Online => node.health_word().unwrap_or("not known").to_owned(),
        state => state.word().to_owned(),
    };
    let voters = || view.nodes.iter().filter(|node| node.is_voter);
    // Nothing is known of one that was away when this node was elected.
    let lacks = |node: &&NodeView| node.matched.is_none_or(|index| index < view.last);
    let others = voters().filter(|node| node.id != view.node).filter(lacks);
    let own = view.health.sick.map(|sick| format!("this node itself ({})", sick.why.word()));
    let behind = others.map(|node| format!("{} ({})", node.name, word(node))).chain(own);
    let behind = behind.collect::<Vec<_>>().join(", ");
    format!(
        "this node leads, but it has committed nothing for {}, since {since}: nothing is acknowledged, and no job is \
         handed out, until a majority of the {} voters accepts what it sends. Behind: {}. What to do: start the nodes \
         that are down, and see the logs and disks of the others",
        seconds(for_us),
        voters().count(),
        if behind.is_empty() { "none that is known" } else { &behind },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::members::directory::Node;
    use crate::cluster::members::names::{Address, Name};
    use crate::cluster::timing::health::{Health, Sick};

    const S: u64 = 1_000_000;

    /// For n1 of three nodes, with these connected.
    fn view(connected: [bool; 3]) -> ClusterView {
        let address = |port| Address::new("10.0.0.1", port).expect("an address");
        let entry = |id: u16| Node {
            name: Name::new(&format!("n{id}")).expect("a name"),
            peer: address(19_247 + id),
            client: address(9_247 + id),
            tls: None,
            sentinel: None,
        };
        let node = |id: u16| {
            let is_connected = connected[usize::from(id) - 1];
            NodeView { is_connected, ..NodeView::met(id.into(), entry(id)) }
        };
        let nodes = vec![node(1), node(2), node(3)];
        ClusterView { node: 1, nodes, ..ClusterView::begun(&entry(1), 300_000) }
    }

    #[test]
    fn where_a_majority_is_missing_the_command_is_named_and_elsewhere_it_is_not() {
        let text = |connected| leaderless(&view(connected), "noon", 12_340_000, "/var/lib/delayd");
        let alone = text([true, false, false]);
        for part in [
            "there is no leader, for 12.3 s, since noon: ",
            "1 of 3 voters are online, 2 are needed; missing: n2 at 10.0.0.1:19249, n3 at 10.0.0.1:19250.",
            "delayd cluster recover /var/lib/delayd --cluster-node n1 --cluster-nodes n1=10.0.0.1:19248 --i-accept-losses",
            "--yes",
        ] {
            assert!(alone.contains(part), "{part}: {alone}");
        }
        // It would only lose something.
        let two = text([true, true, false]);
        assert!(two.contains("n1, n2 are connected, a majority of the 3 voters"), "{two}");
        assert!(!two.contains("recover"), "{two}");
        let elected = ClusterView { role: RaftRole::Leader, ..view([true, false, false]) };
        let elected = leaderless(&elected, "noon", S, "d");
        assert!(elected.starts_with("this node was elected, but a majority"), "{elected}");
    }

    #[test]
    fn a_leader_that_commits_nothing_names_the_nodes_that_are_behind_and_what_is_wrong_there() {
        let mut view = ClusterView { leads: true, last: 9, ..view([true; 3]) };
        view.nodes[1].matched = Some(9);
        let sick = Some(Sick { why: Why::DiskHangs, for_us: S });
        (view.nodes[2].matched, view.nodes[2].is_heard) = (Some(7), Some(true));
        view.nodes[2].health = Some(Health { sick, ..Health::default() });
        let text = stuck(&view, "noon", 12_340_000);
        assert!(text.contains("nothing for 12.3 s, since noon"), "{text}");
        assert!(text.contains("a majority of the 3 voters"), "{text}");
        assert!(text.contains("Behind: n3 (disk-hangs). What to do"), "{text}");
        view.nodes[2].is_heard = Some(false);
        (view.nodes[1].matched, view.health.sick) = (None, sick);
        let text = stuck(&view, "noon", S);
        let behind = "Behind: n2 (unknown), n3 (unreachable), this node itself (disk-hangs). ";
        assert!(text.contains(behind), "{text}");
    }

    #[test]
    fn it_is_leaderless_since_that_was_seen_first() {
        let mut troubles = Troubles::default();
        let mut seen = Vec::new();
        for (now_us, is_leaderless) in [(5, true), (7, true), (9, false), (11, true), (12, true)] {
            troubles.stand(is_leaderless, now_us);
            seen.push(troubles.leaderless_us(now_us));
        }
        assert_eq!(seen, [Some(0), Some(2), None, Some(0), Some(1)]);
    }

    #[test]
    fn what_waits_is_let_go_once_it_is_stuck_and_each_second_from_then_on() {
        let mut troubles = Troubles::default();
        let mut went = Vec::new();
        for now in 0..60 {
            let (now_us, stuck) = (now * S / 10, now < 35);
            if troubles.lets_go(now_us, stuck.then_some(S)) {
                went.push(now);
            }
            assert_eq!(troubles.is_stuck(), (10..35).contains(&now), "{now}");
        }
        assert_eq!(went, [10, 20, 30]);
        let given_up: Vec<TurnNo> = (11..18).map(|turn| troubles.give_up(turn)).collect();
        assert_eq!(given_up, [0, 0, 0, 0, 11, 12, 13]);
        assert!(troubles.lets_go(7 * S, Some(7 * S)), "the next time at once");
    }
}
