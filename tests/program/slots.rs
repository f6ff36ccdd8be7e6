//! A standalone server with `cluster-enabled yes`: where it says that it is, and what it does not serve.

use crate::support::program::{Folder, Program, Wire};

const CLUSTERED: [&str; 2] = ["--cluster-enabled", "yes"];

/// Jobs that no client of a Redis Cluster could take are not kept in silence.
#[test]
fn a_journal_with_other_databases_is_not_served() {
    let folder = Folder::new("slots");
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    for line in ["SELECT 3", "DELAY.ADD a 1h x", "DELAY.ADD b 1h x", "SELECT 0", "DELAY.ADD c 1h x"]
    {
        assert!(!wire.ask(line).is_error("ERR"), "{line}");
    }
    program.stop();
    let (status, log) = Program::start(&folder.0, &CLUSTERED).ended();
    assert!(!status.success());
    assert!(
        log.contains("queues in others: 2 in database 3; start with cluster-enabled no"),
        "{log}"
    );
    // Nothing is lost.
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    wire.ask("SELECT 3");
    assert!(["a", "b"].iter().all(|q| wire.ask(&format!("DELAY.LEN {q}")).number() == 1));
    wire.ask("FLUSHDB");
    program.stop();
    let program = Program::start(&folder.0, &CLUSTERED);
    assert_eq!(program.connect().ask("DELAY.LEN c").number(), 1);
}

#[test]
fn a_client_finds_it_where_it_came_in_or_where_it_is_announced() {
    let named_at = |host: [u8; 4], options: &[&str]| {
        let folder = Folder::new("slots");
        let program = Program::start(&folder.0, &[&CLUSTERED, options].concat());
        let port = program.address.port();
        let mut wire = Wire::connect((host, port).into()).unwrap();
        let slots = wire.ask("CLUSTER SLOTS");
        let node = slots.array().unwrap()[0].array().unwrap()[2].array().unwrap();
        let shown = format!("{}:{}", node[0].text(), node[1].number());
        shown.replace(&format!(":{port}"), ":own")
    };
    let named = |options: &[&str]| named_at([127, 0, 0, 1], options);
    assert_eq!(named(&[]), "127.0.0.1:own");
    // Where it listens everywhere, a client's own way in is one that it can go.
    let everywhere = ["--bind", "0.0.0.0", "--protected-mode", "no"];
    assert_eq!(named_at([127, 0, 0, 2], &everywhere), "127.0.0.2:own");
    let announced = ["--cluster-announce-ip", "queue.example.com"];
    assert_eq!(named(&announced), "queue.example.com:own");
    let port = ["--cluster-announce-port", "7000"];
    assert_eq!(named(&[&announced[..], &port].concat()), "queue.example.com:7000");
}
