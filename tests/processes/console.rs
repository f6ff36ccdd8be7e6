//! The console of a node shows what happens to its cluster, and stays open meanwhile: who looks at it is not a client
//! that has to find the leader.

use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::support::browser::{Page, exchange, request};
use crate::support::http::{connect, free_port};
use crate::support::patience::{seconds, within};

/// A browser that has logged in to the console of a node.
struct Viewer {
    port: u16,
    cookie: String,
}

impl Viewer {
    fn open(trio: &Trio, node: usize, port: u16) -> Viewer {
        let link = wait_until("the console's link", || {
            std::fs::read_to_string(trio.path(node).join("console-link")).ok()
        });
        let path = link.trim_end().split_once("/login").expect("a path").1.to_owned();
        let viewer = Viewer { port, cookie: String::new() };
        let page = viewer.get(&format!("/login{path}"));
        let cookie = page.header("set-cookie").split(';').next().expect("a cookie").to_owned();
        Viewer { port, cookie }
    }

    fn get(&self, path: &str) -> Page {
        let host = format!("127.0.0.1:{}", self.port);
        let headers = [("Host", host.as_str()), ("Cookie", self.cookie.as_str())];
        exchange(connect(self.port), &request("GET", path, &headers, b""))
    }

    /// The page, once it has this: within three seconds, in the session that was opened first.
    fn shows(&self, path: &str, part: &str) -> String {
        let mut last = String::new();
        let found = within(seconds(3), || {
            let page = self.get(path);
            assert_eq!(page.status, 200, "the session lasts: {} {page:?}", page.header("location"));
            last = page.text();
            last.contains(part).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("{part}: not within 3 s: {last}"))
    }
}

#[test]
fn lost_nodes_and_a_lost_majority_are_shown_within_three_seconds_and_the_session_lasts() {
    let mut trio = Trio::prepare("console", &[]);
    let ports: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
    for (node, port) in ports.iter().enumerate() {
        trio.begin_with(node, &["--console-port", &port.to_string()]);
    }
    trio.wait_for_voters();
    let leader = trio.leader();
    let [one, other] = [(leader + 1) % NODES, (leader + 2) % NODES];
    let viewers: Vec<Viewer> =
        (0..NODES).map(|node| Viewer::open(&trio, node, ports[node])).collect();

    let role = |node: usize, role: &str| format!("{} {role} · delayd</title>", name(node));
    viewers[leader].shows("/queues", &role(leader, "leader"));
    let follower = viewers[one].shows("/queues", &role(one, "follower"));
    assert!(follower.contains(&format!("{} ({})", name(leader), trio.addresses[leader])));

    trio.kill(other);
    let away = format!("{} is away, no further node may be lost", name(other));
    viewers[leader].shows("/", &away);
    viewers[one].shows("/", &away);

    trio.kill(one);
    // It is never confirmed, so that replies of pages wait behind it when the node stops leading.
    let mut wire = trio.wire(leader);
    wire.push_line("DELAY.ADD q 1h x");
    wire.flush().unwrap();
    viewers[leader].shows("/", "No majority: 1 of 3 nodes with a vote can be reached");
    viewers[leader].shows("/queues", "knows no leader");
    viewers[leader].shows("/wall", "No majority");

    trio.begin(one);
    trio.leader();
    let page = viewers[leader].get("/");
    assert_eq!(page.status, 200, "the session lasts: {}", page.header("location"));
}

#[test]
fn a_leader_that_commits_nothing_says_so_on_its_console() {
    let mut trio = Trio::prepare("console", &[]);
    if trio.disks.iter().any(Option::is_none) {
        return;
    }
    let ports: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
    for (node, port) in ports.iter().enumerate() {
        trio.begin_with(node, &["--console-port", &port.to_string()]);
    }
    trio.wait_for_voters();
    let leader = trio.leader();
    let followers = [(leader + 1) % NODES, (leader + 2) % NODES];
    let viewer = Viewer::open(&trio, leader, ports[leader]);
    followers.iter().for_each(|node| trio.disks[*node].as_ref().unwrap().set("stuck"));
    let mut wire = trio.wire(leader);
    wire.push_line("DELAY.ADD q 1h x");
    wire.flush().unwrap();
    viewer.shows("/", "leads, but has committed nothing for");
    let busy = viewer.get("/queues");
    assert!(busy.status == 200 && busy.text().contains("commits nothing"), "{}", busy.text());
    followers.iter().for_each(|node| trio.disks[*node].as_ref().unwrap().clear("stuck"));
    viewer.shows("/queues", "Select q");
}
