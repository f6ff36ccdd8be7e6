//! The real program as a child process: its disk fails or is full, it is stopped, killed, watched, given secrets.

#[path = "support/browser.rs"]
mod browser;
#[path = "program/console_api.rs"]
mod console_api;
#[path = "program/console_guard.rs"]
mod console_guard;
#[path = "program/console_login.rs"]
mod console_login;
#[path = "program/console_rights.rs"]
mod console_rights;
#[path = "support/disk.rs"]
mod disk;
#[path = "program/disk_failure.rs"]
mod disk_failure;
#[path = "program/disk_full.rs"]
mod disk_full;
#[path = "support/exposition.rs"]
mod exposition;
#[path = "support/http.rs"]
mod http;
#[path = "program/metrics.rs"]
mod metrics;
#[path = "support/program.rs"]
mod program;
#[path = "program/recurring.rs"]
mod recurring;
#[path = "program/secrets.rs"]
mod secrets;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "program/standstill.rs"]
mod standstill;
#[path = "program/zones.rs"]
mod zones;
