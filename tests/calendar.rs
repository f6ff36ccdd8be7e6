//! Cron patterns and the search for their instants.

#[path = "calendar/instants.rs"]
mod instants;
#[path = "calendar/patterns.rs"]
mod patterns;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "calendar/walk.rs"]
mod walk;
#[path = "calendar/zones.rs"]
mod zones;
