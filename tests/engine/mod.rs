//! Named scenarios of the engine, at a virtual clock.

mod across;
mod bench;
mod closed_groups;
mod follow;
mod forecast;
mod group_jobs;
mod group_rates;
mod groups;
mod herds;
mod instant;
mod limits;
mod lists;
mod meta;
mod policies;
mod purge;
mod redrive;
mod regressions;
mod room;
mod schedules;
mod schedules_life;
mod standstill;
mod tidy;
mod totals;
mod transactions;
mod walks;
mod watching;
