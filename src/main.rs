//! The `delayd` server program.

use delayd::config::args::{self, Asked};
use delayd::config::options::Name;
use delayd::config::{Config, reference};
use delayd::server::Server;
use delayd::server::logs;
use std::io::{self, Write};
use std::process::ExitCode;
use tikv_jemalloc_ctl::{Access, AsName};

/// Gives memory back to the system that is not in use, page by page and within seconds; see what was tried in
/// `ARCHITECTURE.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
    // A thread of the allocator's: without it memory goes back only as more is asked for.
    let purging = tikv_jemalloc_ctl::background_thread::write(true);
    let json = config.text(Name::LogFormat) == "json";
    let log_level = logs::start(config.text(Name::LogLevel), json);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("delayd stops: a bug of its own: {panic}");
    }));
    if let Err(error) = purging {
        tracing::warn!("memory is given back to the system late: {error}");
    }
    let server = match Server::bind(config) {
        Ok(server) => server.with_log(log_level).with_signals().with_supervisor(),
        Err(error) => return fail(&error.to_string()),
    };
    match server.with_greeting(greet).with_give_back(give_back).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// Gives all pages back to the system that the allocator keeps to use them again. To set how long an arena keeps them
/// to nothing makes it give back at once; there is no safe way to ask for that alone.
fn give_back() {
    let arenas: u32 = match c"arenas.narenas".to_bytes_with_nul().name().read() {
        Ok(arenas) => arenas,
        Err(_) => return,
    };
    let Ok(mut decay_ms) = c"arena.0.dirty_decay_ms".to_bytes_with_nul().name().mib::<[usize; 3]>()
    else {
        return;
    };
    for arena in 0..arenas {
        decay_ms[1] = arena as usize;
        // An arena that no thread has used has none.
        let kept_ms: Result<isize, _> = decay_ms.read();
        if let Ok(kept_ms) = kept_ms {
            // What cannot be given back stays resident, and is seen there.
            let _ = decay_ms.write(0_isize);
            let _ = decay_ms.write(kept_ms);
        }
    }
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
