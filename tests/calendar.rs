//! Cron patterns and the search for their instants.

#[path = "calendar/between.rs"]
mod between;
#[path = "calendar/croner.rs"]
mod croner_oracle;
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
