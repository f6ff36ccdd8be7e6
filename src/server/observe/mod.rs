//! What others see of the server while it runs: the log, probes and metrics, the service manager, the
//! program that started it, and what the machine gives the process: its memory, its tables of time zones.

pub(super) mod console;
pub(super) mod console_link;
pub(super) mod counts;
pub(super) mod http;
pub(super) mod lasting;
pub mod logs;
pub mod machine;
pub(super) mod oldest_ready;
pub(super) mod resident;
pub(super) mod starter;
pub(super) mod status;
pub(super) mod supervisor;
pub(super) mod zones;
