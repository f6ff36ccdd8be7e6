//! Cron patterns and the search for their instants.

mod between;
mod croner_oracle;
mod instants;
mod patterns;
mod walk;
mod zones;
