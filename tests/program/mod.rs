//! The real program as a child process: its disk fails or is full, it is stopped, killed, watched, given secrets.

mod call;
mod console_api;
mod console_found;
mod console_guard;
mod console_login;
mod console_rights;
mod console_search;
mod disk_failure;
mod disk_full;
mod doors;
mod first_look;
mod groups;
mod handed_over;
mod latest;
mod metrics;
mod partition_cases;
mod partitions;
mod recurring;
mod secrets;
mod slots;
mod small;
mod spread;
mod standstill;
mod starters;
mod walks;
mod zones;
