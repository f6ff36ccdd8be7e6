//! What clients cannot make the server do: grow without bound, or keep others waiting.

mod support;

use support::Running;

/// KEYS is one command and fifty are fifty: the others have their turn in between. Before, one
/// client ran up to 1,024 commands in a turn, whatever they cost: two seconds of KEYS.
#[test]
fn a_pipeline_of_slow_commands_is_spread_over_turns() {
    let server = Running::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.add_to_queues("queue", 30_000);
    let before = other.info_number("turns");
    client.send("KEYS none\r\n".repeat(50));
    client.expect(&"*0\r\n".repeat(50));
    let turns = other.info_number("turns") - before;
    assert!(turns >= 25, "{turns}");
}

#[test]
fn a_command_has_at_most_so_many_arguments() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let ids = |count: usize| "$1\r\ni\r\n".repeat(count);
    client.send(format!("*65536\r\n$9\r\nDELAY.DEL\r\n$1\r\nq\r\n{}", ids(65_534)));
    client.expect(":0\r\n");
    client.send(format!("*65537\r\n$9\r\nDELAY.DEL\r\n$1\r\nq\r\n{}", ids(65_535)));
    client.expect("-ERR 'delay.del' came with 65537 arguments; the most are 65536\r\n");
    assert_eq!(client.line_of("MULTI"), "+OK");
    client.send(format!("*65537\r\n$4\r\nPING\r\n{}", ids(65_536)));
    client.expect("-ERR 'ping' came with 65537 arguments; the most are 65536\r\n");
    assert!(client.line_of("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn documentation_is_not_asked_for_without_end() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    for subcommand in ["DOCS", "INFO"] {
        client.send(format!("COMMAND {subcommand}{}\r\n", " x".repeat(1_001)));
        client.expect("-ERR 1001 names; the most are 1000\r\n");
    }
}
