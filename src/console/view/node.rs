//! The node of a cluster whose console this is, from INFO: its name, its role, and who leads.

use super::chrome::{PageFrame, ServerState};

/// What a node is to its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRole {
    /// It makes changes.
    Leader,
    /// Another node does.
    Follower,
    /// No node does, as far as it knows.
    Leaderless,
}

/// A node of a cluster, as it sees itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnNode<'a> {
    pub name: &'a str,
    pub role: NodeRole,
    /// The leader's name; empty if none is known.
    pub leader: &'a str,
    /// Where clients reach the leader; empty if that is not known.
    pub address: String,
}

/// Another node, as this one sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerNode<'a> {
    pub name: &'a str,
    /// `online`, `base`, `unreachable`, `unknown`.
    pub state: &'a str,
    /// `well`, `unknown`, or what is wrong.
    pub health: &'a str,
    /// Entries of the log that it lacks.
    pub behind: u64,
}

/// Forms for this node alone: it takes them whatever its role.
pub const OF_THE_NODE: [&str; 2] = ["/do/kill", "/do/config"];

impl<'a> OwnNode<'a> {
    /// None on a standalone server.
    pub fn of(state: &'a ServerState) -> Option<OwnNode<'a>> {
        let (name, leader) = (state.text("raft_name"), state.text("raft_leader"));
        let is_led = state.number("raft_leaderless_ms").is_none();
        let role = match leader {
            _ if name.is_empty() => return None,
            _ if state.text("raft_leads") == "1" => NodeRole::Leader,
            other if is_led && !other.is_empty() && other != name => NodeRole::Follower,
            _ => NodeRole::Leaderless,
        };
        let (host, port) = (state.text("master_host"), state.text("master_port"));
        let is_known = role == NodeRole::Follower && !matches!(host, "" | "?");
        let address = if is_known { format!("{host}:{port}") } else { String::new() };
        Some(OwnNode { name, role, leader, address })
    }

    /// Its role in words.
    pub fn role_word(&self) -> &'static str {
        match self.role {
            NodeRole::Leader => "leader",
            NodeRole::Follower => "follower",
            NodeRole::Leaderless => "no leader",
        }
    }

    /// The leader's name and address.
    pub fn leader_words(&self) -> String {
        match self.address.as_str() {
            "" => self.leader.to_owned(),
            address => format!("{} ({address})", self.leader),
        }
    }
}

/// The other nodes. One that does not lead knows them by their own reports, at most some seconds old.
pub fn peers(state: &ServerState) -> Vec<PeerNode<'_>> {
    let lines = (0..).map_while(|n| state.info.get(&format!("raft_peer{n}")));
    lines.map(|line| peer(line)).collect()
}

fn peer(line: &str) -> PeerNode<'_> {
    let field = |name: &str| {
        let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    };
    let behind = field("behind").parse().unwrap_or(0);
    PeerNode { name: field("name"), state: field("state"), health: field("health"), behind }
}

/// Why this node would refuse what a form asks for, in words for a person; none if it would not.
pub fn refusal(frame: &PageFrame, path: &str) -> Option<String> {
    let node = OwnNode::of(frame.state.as_ref()?)?;
    if OF_THE_NODE.contains(&path) {
        return None;
    }
    match node.role {
        NodeRole::Leader => None,
        NodeRole::Follower => {
            Some(format!("This node is a follower: use the leader, {}.", node.leader_words()))
        }
        NodeRole::Leaderless => Some("No node leads now: nothing can be changed.".to_owned()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The state of a server with these fields of INFO.
    pub fn state(fields: &[(&str, &str)]) -> ServerState {
        let info = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        ServerState { info: info.collect() }
    }

    /// The state of n2, a follower of n1.
    pub const FOLLOWER: [(&str, &str); 6] = [
        ("raft_name", "n2"),
        ("raft_leads", "0"),
        ("raft_leader", "n1"),
        ("raft_leaderless_ms", "-1"),
        ("master_host", "10.0.0.1"),
        ("master_port", "7711"),
    ];

    #[test]
    fn a_node_knows_its_role_and_who_leads() {
        let words = |fields: &[(&str, &str)]| {
            let state = state(fields);
            OwnNode::of(&state).map(|node| format!("{} {}", node.role_word(), node.leader_words()))
        };
        assert_eq!(words(&[]), None);
        assert_eq!(words(&FOLLOWER).unwrap(), "follower n1 (10.0.0.1:7711)");
        let with = |field, value| [&FOLLOWER[..], &[(field, value)]].concat();
        assert_eq!(words(&with("raft_leads", "1")).unwrap(), "leader n1");
        assert_eq!(words(&with("master_host", "?")).unwrap(), "follower n1");
        // It still names the last one.
        assert_eq!(words(&with("raft_leaderless_ms", "400")).unwrap(), "no leader n1");
        assert_eq!(words(&with("raft_leader", "")).unwrap(), "no leader ");
    }

    #[test]
    fn a_follower_takes_what_concerns_itself_alone() {
        let frame = PageFrame { state: Some(state(&FOLLOWER)), ..PageFrame::default() };
        assert!(refusal(&frame, "/do/add").unwrap().contains("n1 (10.0.0.1:7711)"));
        assert_eq!(refusal(&frame, "/do/kill"), None);
        assert_eq!(refusal(&PageFrame::default(), "/do/add"), None);
    }

    #[test]
    fn a_node_knows_the_others() {
        let line = "name=n2,address=h:1,state=online,health=disk-slow,index=7,behind=12";
        let state = state(&[("raft_peer0", line), ("raft_peer1", "name=n3,state=unreachable")]);
        let all = peers(&state);
        assert_eq!((all[0].health, all[0].behind, all.len()), ("disk-slow", 12, 2));
        assert_eq!((all[1].name, all[1].state, all[1].behind), ("n3", "unreachable", 0));
    }
}
