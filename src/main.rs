//! The `delayd` server program.

use delayd::config::args::{self, Invocation};
use delayd::config::options::Name;
use delayd::config::{Config, reference};
use delayd::server::logs;
use delayd::server::process::Partitions;
use delayd::server::{Allocator, Server};
use delayd::tools::Serving;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;

#[cfg(feature = "jemalloc")]
mod jemalloc;

fn main() -> ExitCode {
    let args: Vec<String> = match std::env::args_os().skip(1).map(|a| a.into_string()).collect() {
        Ok(args) => args,
        Err(arg) => return fail(&format!("{arg:?} is not UTF-8")),
    };
    if let Some(exit) = delayd::tools::run(&args, start) {
        return exit;
    }
    match args::read_here(&args) {
        Ok(Invocation::Run(config)) => run(*config),
        Ok(Invocation::Help) => print(&reference::help()),
        Ok(Invocation::Version) => print(&format!("delayd {}\n", delayd::VERSION)),
        Err(text) => fail(&text),
    }
}

fn run(config: Config) -> ExitCode {
    let json = config.text(Name::LogFormat) == "json";
    let log_level = logs::start(config.text(Name::LogLevel), json);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("delayd stops because of a bug: {panic}");
        // All of it: without one of its threads it would answer some clients only.
        std::process::abort();
    }));
    let allocator = allocator();
    let partitions = match Partitions::bind(config) {
        Ok(partitions) => partitions,
        Err(error) => return fail(&error.to_string()),
    };
    let greeting = if json { greet_in_json } else { greet };
    match partitions.with(&log_level, greeting, allocator.as_ref()).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// Starts a server beside what `delayd demo` does, without a log.
fn start(config: Config) -> io::Result<Serving> {
    let server = Server::bind(config)?;
    let address = server.addresses().first().copied();
    let address = address.ok_or_else(|| io::Error::other("it listens on no address"))?;
    let stopper = server.stopper();
    let running = thread::Builder::new().name("server".to_owned()).spawn(move || server.run())?;
    let stop = move || {
        stopper.stop();
        running
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the server ended by a bug of its own")))
    };
    Ok(Serving { address, stop: Box::new(stop) })
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
    tracing::info!("{}", greeting(server));
    greet_further(server);
}

/// As [`greet`], for programs: what they want to know is in fields of its own.
fn greet_in_json(server: &Server) {
    let port = server.addresses().first().map_or(0, SocketAddr::port);
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let (addresses, pid) = (addresses.join(" "), std::process::id());
    tracing::info!(port, addresses, pid, "{}", greeting(server));
    greet_further(server);
}

fn greeting(server: &Server) -> String {
    let memory = match server.memory_bytes_max() {
        0 => "no memory limit".to_owned(),
        bytes => format!("{} MiB for jobs", bytes >> 20),
    };
    let partitions = match server.partitions() {
        1 => String::new(),
        count => format!(", the first of {count} partitions"),
    };
    format!(
        "delayd {} listens on {}{partitions}, pid {}, {memory}; try: {} DELAY.ADD hello 5s world",
        delayd::VERSION,
        server.places().join(" and "),
        std::process::id(),
        server.call(),
    )
}

fn greet_further(server: &Server) {
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
