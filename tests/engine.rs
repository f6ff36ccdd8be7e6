//! Named scenarios of the engine, at a virtual clock.

#[path = "engine/across.rs"]
mod across;
#[path = "engine/bench.rs"]
mod bench;
#[path = "engine/follow.rs"]
mod follow;
#[path = "engine/forecast.rs"]
mod forecast;
#[path = "engine/herds.rs"]
mod herds;
#[path = "engine/limits.rs"]
mod limits;
#[path = "engine/lists.rs"]
mod lists;
#[path = "engine/policies.rs"]
mod policies;
#[path = "engine/purge.rs"]
mod purge;
#[path = "engine/redrive.rs"]
mod redrive;
#[path = "engine/regressions.rs"]
mod regressions;
#[path = "engine/room.rs"]
mod room;
#[path = "engine/schedules.rs"]
mod schedules;
#[path = "engine/schedules_life.rs"]
mod schedules_life;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "engine/standstill.rs"]
mod standstill;
#[path = "engine/tidy.rs"]
mod tidy;
#[path = "engine/transactions.rs"]
mod transactions;
#[path = "engine/watching.rs"]
mod watching;
