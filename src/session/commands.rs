//! COMMAND and HELP: what a command asks about the table of commands.

use crate::command::show::describe;
use crate::command::spec::action::{Commands, ListFilter};
use crate::command::spec::{CATEGORIES, CommandSpec};
use crate::error::Shown;
use crate::glob;
use crate::limits::COMMAND_NAMES_MAX;
use crate::resp::Encoder;
use crate::session::world::World;
use crate::session::{CommandStep, Session};

impl Session {
    pub(super) fn commands(&mut self, what: Commands<'_>, world: &mut dyn World) -> CommandStep {
        match what {
            Commands::GetKeys(words) => return self.get_keys(words, false, world),
            Commands::GetKeysAndFlags(words) => return self.get_keys(words, true, world),
            _ => {}
        }
        if let Commands::Info(names) | Commands::Docs(names) = what
            && names.len() > COMMAND_NAMES_MAX
        {
            let text =
                format!("ERR {} names; at most {COMMAND_NAMES_MAX} are allowed", names.len());
            return self.fail(&text, world);
        }
        if let Commands::Usage(word) = what {
            return self.usage(word, world);
        }
        let face = self.face;
        let mut out = world.encoder(self.id);
        match what {
            Commands::Usage(_) | Commands::GetKeys(_) | Commands::GetKeysAndFlags(_) => {}
            Commands::Count => out.integer(face.all().len() as i64),
            Commands::All | Commands::Info([]) => {
                let all = face.all();
                out.array(all.len());
                all.into_iter().for_each(|spec| describe::write_info(spec, &mut out));
            }
            Commands::Info(names) => {
                out.array(names.len());
                for name in names {
                    match face.find(name) {
                        Some(spec) => describe::write_info(spec, &mut out),
                        None => out.null(),
                    }
                }
            }
            Commands::Docs(names) => {
                let specs: Vec<&CommandSpec> = match names {
                    [] => face.all(),
                    names => names.iter().filter_map(|name| face.find(name)).collect(),
                };
                out.map(specs.len());
                specs.iter().for_each(|spec| describe::write_docs(spec, &mut out));
            }
            Commands::List(filter) => {
                let fits = |spec: &&CommandSpec| match filter {
                    ListFilter::All => true,
                    ListFilter::Module => false,
                    ListFilter::Pattern(pattern) => {
                        glob::matches_any_case(pattern, spec.name.as_bytes())
                    }
                    ListFilter::Category(name) => CATEGORIES
                        .iter()
                        .filter(|category| name.eq_ignore_ascii_case(category.as_bytes()))
                        .any(|category| spec.all_categories().contains(category)),
                };
                let all = face.all().into_iter();
                let all = all.flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
                let specs: Vec<&CommandSpec> = all.filter(fits).collect();
                out.bulks(specs.iter().map(|spec| spec.name));
            }
            Commands::Help(container) => {
                let container = face.find(container.as_bytes()).expect("it stands in the table");
                write_lines(&describe::lines(container), &mut out);
            }
        }
        CommandStep::Done
    }

    fn usage(&mut self, word: Option<&[u8]>, world: &mut dyn World) -> CommandStep {
        let lines = match word {
            None => Some(describe::usage_of_all()),
            Some(word) => describe::usage_of(word),
        };
        let Some(lines) = lines else {
            let word = Shown::new(word.unwrap_or_default());
            let text = format!("ERR {word} is not a DELAY command; DELAY.HELP lists them");
            return self.fail(&text, world);
        };
        write_lines(&lines, &mut world.encoder(self.id));
        CommandStep::Done
    }

    fn get_keys(&mut self, words: &[&[u8]], flags: bool, world: &mut dyn World) -> CommandStep {
        let name = words.first().copied().unwrap_or_default();
        if self.face.find(name).is_none() {
            return self.fail("ERR Invalid command specified", world);
        }
        let (keys, spec) = match self.face.resolve(words) {
            Ok(spec) => (spec.find_keys(words), spec),
            Err(_) => {
                let text = "ERR Invalid number of arguments specified for command";
                return self.fail(text, world);
            }
        };
        match keys {
            None => self.fail("ERR The command has no key arguments", world),
            Some(keys) if keys.is_empty() => {
                self.fail("ERR Invalid arguments specified for command", world)
            }
            Some(keys) => {
                let mut out = world.encoder(self.id);
                out.array(keys.len());
                for (nth, key) in words[keys].iter().enumerate() {
                    if flags {
                        out.array(2);
                    }
                    out.bulk(key);
                    if flags {
                        let access = spec.access_of(nth).words();
                        out.set(access.len());
                        access.iter().for_each(|word| out.simple(word));
                    }
                }
                CommandStep::Done
            }
        }
    }
}

fn write_lines(lines: &[String], out: &mut Encoder<'_>) {
    out.array(lines.len());
    lines.iter().for_each(|line| out.simple(line));
}
