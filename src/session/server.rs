//! What a command asks of the server as a whole.

use crate::command::spec::action::{Fixed, Server, WaitAof};
use crate::engine::model::request::Request;
use crate::error::Misconf;
use crate::glob;
use crate::session::world::{
    BaseBegun, BaseRefused, CallTimes, ConfigError, Patience, SlowEntry, WaitDurable, World,
};
use crate::session::{Place, Session, Step};
use std::collections::HashSet;

const NO_APPEND_ONLY: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

impl Session {
    pub(super) fn server(&mut self, what: Server<'_>, place: Place, world: &mut dyn World) -> Step {
        match what {
            Server::ConfigGet(patterns) => self.config_get(patterns, world),
            Server::ConfigSet(words) => self.config_set(words, world),
            Server::ConfigRewrite => match world.config_rewrite() {
                Ok(()) => self.ok(world),
                Err(why) => self.fail(&format!("ERR {why}"), world),
            },
            Server::ConfigResetStat => {
                world.reset_stats();
                self.ok(world)
            }
            Server::Info(sections) => {
                let text = world.info(sections);
                world.encoder(self.id).verbatim_txt(&text);
                Step::Done
            }
            Server::SlowlogGet(count) => {
                let entries = world.slowlog(count);
                self.write_slowlog(&entries, world);
                Step::Done
            }
            Server::SlowlogLen => {
                let len = world.slowlog_len();
                self.integer(len as u64, world)
            }
            Server::SlowlogReset => {
                world.slowlog_reset();
                self.ok(world)
            }
            Server::LastSave => {
                let at_s = world.last_save_s();
                self.integer(at_s, world)
            }
            Server::BgSave { schedule } => match world.begin_base(schedule) {
                Ok(begun) => self.begun("Background saving", begun, world),
                Err(why) => self.no_base("Background save", why, world),
            },
            Server::BgRewriteAof => match world.begin_base(false) {
                Ok(begun) => self.begun("Background append only file rewriting", begun, world),
                Err(why) => self.no_base("Background append only file rewriting", why, world),
            },
            Server::Save => match world.wait_base(self.id) {
                Ok(()) => Step::Waiting,
                Err(why) => self.no_base("Background save", why, world),
            },
            Server::WaitAof(wait) => self.wait_aof(wait, place, world),
            Server::Shutdown(how) => match world.shutdown(how) {
                // No reply: the connection ends with the server.
                Ok(()) => Step::Done,
                Err(why) => self.fail(&format!("ERR {why}"), world),
            },
            Server::ShutdownAbort => {
                if world.shutdown_abort() {
                    return self.ok(world);
                }
                self.fail("ERR No shutdown in progress.", world)
            }
            Server::RandomQueue(db) => {
                let draw = world.random();
                self.ask_engine(&Request::RandomQueue { db, draw }, place, world)
            }
            Server::LatencyHistogram(names) => {
                self.write_histograms(&world.histograms(names), world);
                Step::Done
            }
            Server::MemoryStats => {
                let stats = world.memory_stats();
                let mut out = world.encoder(self.id);
                out.map(stats.len());
                for (name, value) in stats {
                    out.bulk(name.as_bytes());
                    out.integer(i64::try_from(value).unwrap_or(i64::MAX));
                }
                Step::Done
            }
            Server::Fixed(Fixed::Ok) => self.ok(world),
            shown => {
                self.write_fixed(shown, world);
                Step::Done
            }
        }
    }

    pub(super) fn integer(&mut self, value: u64, world: &mut dyn World) -> Step {
        world.encoder(self.id).integer(i64::try_from(value).unwrap_or(i64::MAX));
        Step::Done
    }

    fn begun(&mut self, what: &str, begun: BaseBegun, world: &mut dyn World) -> Step {
        let how = match begun {
            BaseBegun::Started => "started",
            BaseBegun::Scheduled => "scheduled",
        };
        world.encoder(self.id).simple(&format!("{what} {how}"));
        Step::Done
    }

    fn no_base(&mut self, what: &str, why: BaseRefused, world: &mut dyn World) -> Step {
        let text = match why {
            BaseRefused::NoJournal => {
                "ERR there is no journal to save to: appendonly is no, jobs are \
                                       in memory only"
                    .to_owned()
            }
            BaseRefused::Running => format!("ERR {what} already in progress"),
            BaseRefused::Failed(cause) => {
                format!("ERR no base can be written, as the journal has failed: {cause}")
            }
        };
        self.fail(&text, world)
    }

    fn wait_aof(&mut self, wait: WaitAof, place: Place, world: &mut dyn World) -> Step {
        let WaitAof { local, replicas, timeout_ms } = wait;
        let patience = match (place, timeout_ms) {
            (Place::InExec, _) => Patience::None,
            (Place::Alone, 0) => Patience::Endless,
            (Place::Alone, ms) => Patience::Ms(ms),
        };
        let (local, replicas) = match world.wait_durable(self.id, local, replicas, patience) {
            WaitDurable::Now { local, replicas } => (local, replicas),
            WaitDurable::Waiting => return Step::Waiting,
            WaitDurable::NoJournal => return self.fail(NO_APPEND_ONLY, world),
            WaitDurable::Failed(cause) => {
                let failed = Misconf::Failed { cause: cause.into() };
                return self.fail(&failed.to_string(), world);
            }
        };
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut out = world.encoder(self.id);
        out.array(2);
        out.integer(integer(local));
        out.integer(integer(replicas));
        Step::Done
    }

    fn write_fixed(&mut self, what: Server<'_>, world: &mut dyn World) {
        let (now, offset) = (world.now(), world.journal_offset());
        let mut out = world.encoder(self.id);
        match what {
            Server::Fixed(Fixed::Text(text)) => out.verbatim_txt(text),
            Server::Fixed(Fixed::Zeros(count)) => {
                out.array(count);
                (0..count).for_each(|_| out.integer(0));
            }
            Server::Fixed(Fixed::Zero) => out.integer(0),
            Server::ScanNothing => {
                out.array(2);
                out.bulk(b"0");
                out.array(0);
            }
            Server::Time => {
                out.array(2);
                out.bulk_unsigned(now.0 / 1_000_000);
                out.bulk_unsigned(now.0 % 1_000_000);
            }
            Server::Role => {
                out.array(3);
                out.bulk(b"master");
                out.integer(i64::try_from(offset).unwrap_or(i64::MAX));
                out.array(0);
            }
            // Of what is listed there is nothing.
            _ => out.array(0),
        }
    }

    fn write_slowlog(&mut self, entries: &[SlowEntry], world: &mut dyn World) {
        let mut out = world.encoder(self.id);
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        out.array(entries.len());
        for entry in entries {
            out.array(6);
            out.integer(integer(entry.id));
            out.integer(integer(entry.at_s));
            out.integer(integer(entry.took_us));
            out.array(entry.args.len());
            entry.args.iter().for_each(|arg| out.bulk(arg));
            out.bulk(entry.addr.as_bytes());
            out.bulk(&entry.name);
        }
    }

    fn write_histograms(&mut self, all: &[CallTimes], world: &mut dyn World) {
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut out = world.encoder(self.id);
        out.map(all.len());
        for CallTimes { name, calls, up_to_us } in all {
            out.bulk(name.as_bytes());
            out.map(2);
            out.bulk(b"calls");
            out.integer(integer(*calls));
            out.bulk(b"histogram_usec");
            out.map(up_to_us.len());
            for (us, count) in up_to_us {
                out.integer(integer(*us));
                out.integer(integer(*count));
            }
        }
    }

    fn config_get(&mut self, patterns: &[&[u8]], world: &mut dyn World) -> Step {
        let mut settings = world.config();
        settings.retain(|(name, _)| {
            patterns.iter().any(|pattern| glob::matches_any_case(pattern, name.as_bytes()))
        });
        let mut out = world.encoder(self.id);
        out.map(settings.len());
        for (name, value) in settings {
            out.bulk(name.as_bytes());
            out.bulk(value.as_bytes());
        }
        Step::Done
    }

    fn config_set(&mut self, words: &[&[u8]], world: &mut dyn World) -> Step {
        let names: Vec<String> = words
            .chunks_exact(2)
            .map(|pair| String::from_utf8_lossy(pair[0]).to_ascii_lowercase())
            .collect();
        let mut seen = HashSet::new();
        let twice = names.iter().find(|name| !seen.insert(name.as_str()));
        let set = match twice {
            Some(name) => {
                let reason = "duplicate parameter".to_string();
                Err(ConfigError::Refused { name: name.clone(), reason })
            }
            None => {
                let values = words.chunks_exact(2).map(|pair| pair[1]);
                let settings: Vec<(&str, &[u8])> =
                    names.iter().map(String::as_str).zip(values).collect();
                world.config_set(&settings)
            }
        };
        let text = match set {
            Ok(()) => {
                // It may have been requirepass.
                self.take_up_own(world);
                return self.ok(world);
            }
            Err(ConfigError::Unknown { name }) => {
                format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Err(ConfigError::Refused { name, reason }) => {
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
            }
        };
        self.fail(&text, world)
    }
}
