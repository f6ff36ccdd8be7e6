//! The `delayd` server program.

use delayd::config::args::{self, Asked};
use delayd::config::options::Name;
use delayd::config::{Config, reference};
use delayd::server::logs;
use delayd::server::{Allocator, Server};
use std::io::{self, Write};
use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
mod jemalloc;

fn main() -> ExitCode {
    let args: Vec<String> = match std::env::args_os().skip(1).map(|a| a.into_string()).collect() {
        Ok(args) => args,
        Err(arg) => return fail(&format!("{arg:?} is not UTF-8")),
    };
    if let Some(exit) = delayd::tools::run(&args) {
        return exit;
    }
    let current_dir = match std::env::current_dir() {
        Ok(dir) => dir,
        Err(error) => return fail(&format!("no current directory: {error}")),
    };
    match args::read(&args, &current_dir) {
        Ok(Asked::Run(config)) => run(*config),
        Ok(Asked::Help) => print(&reference::help()),
        Ok(Asked::Version) => print(&format!("delayd {}\n", delayd::VERSION)),
        Err(text) => fail(&text),
    }
}

fn run(config: Config) -> ExitCode {
    let json = config.text(Name::LogFormat) == "json";
    let log_level = logs::start(config.text(Name::LogLevel), json);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("delayd stops: a bug of its own: {panic}");
    }));
    let allocator = allocator();
    let server = match Server::bind(config) {
        Ok(server) => server.with_log(log_level).with_signals().with_supervisor(),
        Err(error) => return fail(&error.to_string()),
    };
    match server.with_greeting(greet).with_allocator(allocator).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

#[cfg(feature = "jemalloc")]
fn allocator() -> Option<Allocator> {
    Some(jemalloc::start())
}

#[cfg(not(feature = "jemalloc"))]
fn allocator() -> Option<Allocator> {
    None
}

fn greet(server: &Server) {
    let memory = match server.memory_bytes_max() {
        0 => "no memory limit".to_owned(),
        bytes => format!("{} MiB for jobs", bytes >> 20),
    };
    tracing::info!(
        "delayd {} listens on {}, pid {}, {memory}; try: {} DELAY.ADD hello 5s world",
        delayd::VERSION,
        server.places().join(" and "),
        std::process::id(),
        server.redis_cli(),
    );
    if !server.sentinel_places().is_empty() {
        tracing::info!("answers as a Redis Sentinel on {}", server.sentinel_places().join(" and "));
    }
    for address in server.http_addresses() {
        tracing::info!("metrics on http://{address}/metrics, health on /healthz and /readyz");
    }
    for url in server.console_urls() {
        tracing::info!("console on {url}");
    }
}

fn print(text: &str) -> ExitCode {
    // A reader that has seen enough, such as `head`, is no error.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(text: &str) -> ExitCode {
    eprintln!("delayd: {text}");
    ExitCode::FAILURE
}
