//! Reads the arguments of schedules. Everything that needs no state is decided here; zones, `max-delay`, `max-lease`
//! and whether a rule ever occurs are checked by the engine.

use crate::calendar::Pattern;
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::engine::model::request::Request;
use crate::engine::model::schedule::{AskedRule, Overlap, ScheduleTerms, Scheduling, SetSchedule};
use crate::error::Error;
use crate::limits::{
    CATCHUP_MAX, EVERY_MS_MIN, GRACE_MS_MIN, INSTANTS_MAX, SCHEDULE_BODY_BYTES_MAX,
    SCHEDULES_LISTED_DEFAULT, SPREAD_MS_MAX,
};
use crate::time::{Millis, Written};

/// `EVERY duration | CRON pattern [TZ zone]`, which may stand anywhere among other options.
#[derive(Default)]
struct RuleWords<'a> {
    every_ms: Option<u64>,
    pattern: Option<Box<Pattern>>,
    zone: Option<&'a [u8]>,
}

impl<'a> RuleWords<'a> {
    /// The next option that does not belong to the rule; those of the rule are read on the way.
    fn next_other(&mut self, args: &mut Args<'a>) -> Result<Option<&'static str>, Error> {
        loop {
            self.check_zone(args.peek())?;
            match args.option()? {
                Some("EVERY") => self.every_ms = Some(args.duration("EVERY", EVERY_MS_MIN)?),
                Some("CRON") => self.pattern = Some(args.cron()?),
                Some("TZ") => self.zone = Some(args.word("zone")?),
                other => return Ok(other),
            }
        }
    }

    /// Said before the tree says only that both exclude each other.
    fn check_zone(&self, option: Option<&[u8]>) -> Result<(), Error> {
        let comes = |word: &[u8]| option.is_some_and(|option| option.eq_ignore_ascii_case(word));
        let both = (self.every_ms.is_some() && comes(b"TZ") && self.pattern.is_none())
            || (self.zone.is_some() && comes(b"EVERY") && self.pattern.is_none());
        match both {
            true => Err(Error::text("ERR TZ goes with CRON; EVERY counts elapsed time")),
            false => Ok(()),
        }
    }

    fn rule(self) -> Result<AskedRule<'a>, Error> {
        match (self.every_ms, self.pattern) {
            (Some(ms), _) => Ok(AskedRule::Every { ms }),
            (None, Some(pattern)) => {
                Ok(AskedRule::Cron { pattern, zone: self.zone.unwrap_or(b"UTC") })
            }
            (None, None) => Err(Error::text(
                "ERR syntax error: a rule is missing, EVERY duration or CRON pattern [TZ zone]",
            )),
        }
    }
}

pub(super) fn set<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, name, body) = (args.queue()?, args.schedule()?, body(args)?);
    let (mut words, mut terms, mut from_ms) =
        (RuleWords::default(), ScheduleTerms::default(), None);
    while let Some(option) = words.next_other(args)? {
        match option {
            "FROM" => from_ms = Some(args.instant()?),
            option => read_term(option, args, &mut terms)?,
        }
    }
    let rule = words.rule()?;
    check_end(from_ms, terms.until)?;
    check_spread(&rule, terms.spread_ms)?;
    terms.from = from_ms.map_or(Millis(0), |ms| begin(&rule, ms));
    let set = SetSchedule { queue, name, body, rule, terms };
    Ok(engine(Scheduling::Set(Box::new(set))))
}

fn body<'a>(args: &mut Args<'a>) -> Result<&'a [u8], Error> {
    let body = args.word("body")?;
    let bytes = body.len();
    if bytes <= SCHEDULE_BODY_BYTES_MAX {
        return Ok(body);
    }
    Err(Error::text(format!(
        "ERR the body of a schedule has {bytes} bytes; at most {SCHEDULE_BODY_BYTES_MAX} are allowed"
    )))
}

/// An option that is neither of the rule nor FROM.
fn read_term(option: &str, args: &mut Args<'_>, terms: &mut ScheduleTerms) -> Result<(), Error> {
    let of_u32 = u64::from(u32::MAX);
    match option {
        "UNTIL" => terms.until = Millis(args.instant()?),
        "RUNS" => terms.runs = args.integer("RUNS", 1, of_u32)? as u32,
        "SPREAD" => terms.spread_ms = args.duration_to("SPREAD", 0, SPREAD_MS_MAX)?,
        "OVERLAP" => terms.overlap = overlap_of(args.choice()?),
        "CATCHUP" => terms.catchup = args.integer("CATCHUP", 1, CATCHUP_MAX.into())? as u32,
        "GRACE" => terms.grace_ms = args.duration("GRACE", GRACE_MS_MIN)?,
        "PRIORITY" => terms.options.priority = Some(args.priority()?),
        "ATTEMPTS" => terms.options.attempts = Some(args.integer("attempts", 0, of_u32)? as u32),
        "BACKOFF" => terms.options.backoff = Some(args.backoff()?),
        "LEASE" => terms.options.lease_ms = Some(args.duration("lease", 1)?),
        "GROUP" => terms.group = Some(args.group()?).into(),
        "META" => terms.meta = args.meta()?,
        "TTL" => terms.options.ttl_ms = Some(args.duration("ttl", 0)?),
        _ => return Err(args.unknown_option()),
    }
    Ok(())
}

fn overlap_of(word: &str) -> Overlap {
    let known = Overlap::ALL.into_iter().find(|overlap| word.eq_ignore_ascii_case(overlap.word()));
    known.unwrap_or_default()
}

fn check_end(from_ms: Option<u64>, until: Millis) -> Result<(), Error> {
    match from_ms {
        Some(from) if until < Millis(from) => {
            let until = until.0;
            Err(Error::text(format!("ERR UNTIL is @{until}, which is before FROM, @{from}")))
        }
        _ => Ok(()),
    }
}

fn check_spread(rule: &AskedRule<'_>, spread_ms: u64) -> Result<(), Error> {
    match *rule {
        AskedRule::Every { ms } if spread_ms >= ms => {
            let (spread, every) = (Written(spread_ms), Written(ms));
            Err(Error::text(format!("ERR SPREAD is {spread}; it must be less than EVERY, {every}")))
        }
        _ => Ok(()),
    }
}

/// FROM in its stored form, where 0 means none. `FROM @0` gives EVERY a grid of full hours or days, which the second
/// instant of that grid gives as well.
fn begin(rule: &AskedRule<'_>, from_ms: u64) -> Millis {
    match *rule {
        AskedRule::Every { ms } if from_ms == 0 => Millis(ms),
        _ => Millis(from_ms),
    }
}

pub(super) fn get<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(engine(Scheduling::Get { queue: args.queue()?, name: args.schedule()? }))
}

pub(super) fn delete<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(engine(Scheduling::Delete { queue: args.queue()?, names: args.schedules()? }))
}

pub(super) fn list<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut after, mut pattern, mut count) = (None, None, SCHEDULES_LISTED_DEFAULT);
    while let Some(option) = args.option()? {
        match option {
            // A client that continues after the last name of a page has no name for the first page.
            "AFTER" if args.peek() == Some(b"") => after = Some(args.word("name")?),
            "AFTER" => after = Some(args.schedule()?),
            "MATCH" => pattern = Some(args.pattern("pattern")?),
            "COUNT" => count = args.count("count")?,
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(engine(Scheduling::List { queue, after, pattern, count }))
}

pub(super) fn pause<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, name, mut for_ms) = (args.queue()?, args.schedule()?, None);
    while args.option()?.is_some() {
        for_ms = Some(args.duration("FOR", 1)?);
    }
    Ok(engine(Scheduling::Pause { queue, name, for_ms }))
}

pub(super) fn resume<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(engine(Scheduling::Resume { queue: args.queue()?, name: args.schedule()? }))
}

pub(super) fn run<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, name, force) = (args.queue()?, args.schedule()?, args.flag()?);
    Ok(engine(Scheduling::Run { queue, name, force }))
}

pub(super) fn next<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, name, mut count) = (args.queue()?, args.schedule()?, 1);
    while args.option()?.is_some() {
        count = instants(args)?;
    }
    Ok(engine(Scheduling::Next { queue, name, count }))
}

pub(super) fn explain<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut words, mut from, mut count) = (RuleWords::default(), None, 1);
    while let Some(option) = words.next_other(args)? {
        match option {
            "FROM" => from = Some(Millis(args.instant()?)),
            _ => count = instants(args)?,
        }
    }
    Ok(engine(Scheduling::Explain { rule: words.rule()?, from, count }))
}

fn instants(args: &mut Args<'_>) -> Result<u32, Error> {
    args.integer("count", 1, INSTANTS_MAX.into()).map(|count| count as u32)
}

pub(super) fn zones<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut pattern = None;
    while args.option()?.is_some() {
        pattern = Some(args.pattern("pattern")?);
    }
    Ok(engine(Scheduling::Zones { pattern }))
}

fn engine(of: Scheduling<'_>) -> Action<'_> {
    Action::Engine(Request::Schedule(of))
}
