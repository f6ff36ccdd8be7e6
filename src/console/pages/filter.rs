//! Which jobs of a queue are meant: the filter that stands in an address, and the scan it is.

use crate::console::params::Params;
use crate::console::value::{Command, command};

/// How many jobs one scan looks at.
const COUNT: &str = "1000";

/// The scan of a filter's fields `state`, `match`, `contains`, `from` and `until`, from `cursor` on.
pub fn scan(params: &Params, queue: &[u8], cursor: &[u8]) -> Command {
    let mut scan = command!["DELAY.SCAN", queue, cursor];
    if let Some(state) = params.bytes("state") {
        scan.extend(command!["STATE", state]);
    }
    if let Some(glob) = params.bytes("match") {
        scan.extend(command!["MATCH", glob]);
    }
    if let (Some(from), Some(until)) = (params.number("from"), params.number("until")) {
        scan.extend(command!["DUE", format!("@{from}"), format!("@{until}")]);
    }
    if let Some(text) = params.bytes("contains") {
        scan.extend(command!["CONTAINS", text]);
    }
    scan.extend(command!["COUNT", COUNT]);
    scan
}
