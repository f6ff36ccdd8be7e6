//! Three delayd as processes of their own, and what lies between them: they are killed, stopped and cut off from each
//! other while clients work, and what the clients were told is held against what the nodes have.

#[path = "processes/bases.rs"]
mod bases;
#[path = "processes/calls.rs"]
mod calls;
#[path = "support/disk.rs"]
mod disk;
#[path = "processes/faults.rs"]
mod faults;
#[path = "processes/history.rs"]
mod history;
#[path = "support/http.rs"]
mod http;
#[path = "processes/linear.rs"]
mod linear;
#[path = "processes/load.rs"]
mod load;
#[path = "processes/members.rs"]
mod members;
#[path = "processes/nodes.rs"]
mod nodes;
#[path = "processes/order.rs"]
mod order;
#[path = "support/program.rs"]
mod program;
#[path = "processes/reads.rs"]
mod reads;
#[path = "processes/refused.rs"]
mod refused;
#[path = "processes/relay.rs"]
mod relay;
#[path = "processes/sealed.rs"]
mod sealed;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "support/seen.rs"]
mod seen;
#[path = "processes/sentinel.rs"]
mod sentinel;
#[path = "processes/steady.rs"]
mod steady;
#[path = "processes/totals.rs"]
mod totals;
#[path = "processes/trio.rs"]
mod trio;
#[path = "processes/upgrade.rs"]
mod upgrade;
#[path = "processes/verify.rs"]
mod verify;
#[path = "processes/waits.rs"]
mod waits;
