//! Taking jobs, and saying what became of them.

use crate::command::family::produce::{PRIORITY, QUEUE, WHEN};
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, KeyPositions, row};
use crate::engine::model::request::{Nack, Request, Reserve, Wait};
use crate::error::Error;
use crate::limits::ERROR_TEXT_BYTES_MAX;

pub(super) const ID: Argument = Argument::new("id", ArgumentKind::Id);

const QUEUES: Argument =
    Argument::new("queue", ArgumentKind::Key).multiple().about("Tried in this order.");

const TOKEN: Argument = Argument::new("token", ArgumentKind::Token)
    .about("The fencing token of the delivery: decimal digits, at most 63 bits.");

const TIMEOUT: Argument = Argument::new("timeout", ArgumentKind::Timeout).about(
    "Seconds to wait for the first job, decimals allowed, rounded up to the ms; 0 waits forever, `NOWAIT` returns at \
     once.",
);

const COUNT: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer)
    .shown("n")
    .about(
        "Maximum number of jobs, 1 to 10000; RESERVE takes what is ready and does not wait for more. \
         Default 1. The job whose body crosses 4 MiB in all, its group and META included where they are shown or \
         NOACK is given, is the last of its reply.",
    );

const LEASE: Argument = Argument::option("LEASE", "lease", ArgumentKind::Duration)
    .shown("duration")
    .about("1ms to `max-lease` (24h). Default: the job's, else the queue's, else `default-lease` (60s).");

const NOACK: Argument = Argument::word("noack", "NOACK")
    .optional()
    .about("At most once: the jobs are gone; token empty, lease end 0.");

const BOUND: Argument = Argument::word("bound", "BOUND")
    .optional()
    .about("The leases end when this connection closes.");

const META: Argument = Argument::word("meta", "META")
    .optional()
    .about("Each job has two more elements: its group, nil without one, and an array of the names and values \
            of its META in turn, empty without META.");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("delay.pop", "Takes the next ready job, at most once, or waits for one", CommandSpec::BASE)
        .complexity("O(N) where N is the number of queues")
        .arguments(&[QUEUES, TIMEOUT])
        .flags(&[Flag::Write, Flag::Blocking, Flag::NoScript])
        .keys(KeyPositions::Range { first: 1, last: -2 })
        .access(Access::Take)
        .reply("Array: queue, id, body. Nil after the timeout.")
        .notes("The job is gone once it was handed over. **A client that gives up waiting but keeps its connection \
                loses the next job; with DELAY.RESERVE it does not.** Inside MULTI it never waits.")
        .example(&[
            ("DELAY.ADD mail 0ms hello ID m1", "\"m1\""),
            ("DELAY.POP mail 5", "1) \"mail\"\n2) \"m1\"\n3) \"hello\""),
            ("DELAY.POP mail NOWAIT", "(nil)"),
        ])
        .parse(parse_pop),
    row(
        "delay.reserve",
        "Leases ready jobs, at least once, or waits for the first",
        CommandSpec::BASE,
    )
    .complexity("O(N+M) where N is the number of queues and M the number of jobs")
    .arguments(&[
        TIMEOUT,
        Argument::new("numqueues", ArgumentKind::Integer).about("1 to 10000."),
        QUEUES,
        COUNT,
        LEASE,
        NOACK,
        BOUND,
        META,
    ])
    .flags(&[Flag::Write, Flag::Blocking, Flag::NoScript])
    .keys(KeyPositions::Counted { at: 2 })
    .access(Access::Take)
    .reply("Array of jobs, each an array: queue, id, body, token, attempt, due (unix ms), lease end (unix ms). \
            Nil after the timeout. Later versions may append elements to a job.")
    .notes("The lease counts from the moment the jobs are handed over. A job whose lease runs out is \
            ready again at its old place. A paused queue and one at its `max-leased` count as empty. \
            Inside MULTI it never waits.")
    .example(&[
        ("DELAY.ADD pay 0ms \"notify 7\" ID p7", "\"p7\""),
        (
            "DELAY.RESERVE 5 1 pay LEASE 30s",
            "1) 1) \"pay\"\n   2) \"p7\"\n   3) \"notify 7\"\n   4) \"7549747200000000001\"\n   5) (integer) 1\n   6) (integer) 1800000000000\n   7) (integer) 1800000030000",
        ),
    ])
    .parse(parse_reserve),
    row("delay.lease", "Leases ready jobs of one queue, at least once, or waits for the first", CommandSpec::OF_QUEUE)
    .complexity("O(M) where M is the number of jobs")
    .arguments(&[QUEUE, TIMEOUT, COUNT, LEASE, NOACK, BOUND, META])
    .flags(&[Flag::Write, Flag::Blocking, Flag::NoScript])
    .access(Access::Take)
    .reply("As DELAY.RESERVE.")
    .notes("DELAY.RESERVE of one queue, with the queue first: there clients of a Redis Cluster look for it, so \
            that they need not ask which node to go to.")
    .example(&[("DELAY.LEASE pay NOWAIT COUNT 10", "(nil)")])
    .parse(parse_lease),
    row("delay.ack", "Acknowledges that leased jobs are done", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of jobs")
        .arguments(&[QUEUE, Argument::block("job", &[ID, TOKEN]).multiple()])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Delete)
        .reply("Integer: how many were acknowledged.")
        .notes("A token that is not the newest of its job is ignored. After the lease has run out, the token stays \
                valid for this command until the job's next delivery. Any connection may acknowledge.")
        .example(&[("DELAY.ACK pay p7 7549747200000000001", "(integer) 1")])
        .parse(parse_ack),
    row(
        "delay.nack",
        "Reports that a leased job failed: it is retried later, or is dead",
        CommandSpec::OF_QUEUE,
    )
    .arguments(&[
        QUEUE,
        ID,
        TOKEN,
        Argument { token: Some("IN"), optional: true, ..WHEN },
        Argument::word("bury", "BURY").optional().about("The job is dead now. Excludes IN and UNCOUNTED."),
        Argument::word("uncounted", "UNCOUNTED").optional().about(
            "Gives the attempt back and, without IN, makes the job ready at once at its old place.",
        ),
        PRIORITY.about("A new priority."),
        Argument::option("ERROR", "error", ArgumentKind::Bytes)
            .shown("text")
            .about("The reason, kept with the job: the first 1024 bytes, cut between characters of UTF-8. On a \
                    full disk, and at `maxmemory`, it is not kept."),
    ])
    .flags(&[Flag::Write, Flag::Fast])
    .access(Access::Update)
    .reply("Integer: 1, or 0 if the token is not that of a running lease.")
    .notes("Without `IN` the job's backoff decides when it is retried. After the last attempt the job is dead \
            whatever `IN` says, unless it is `UNCOUNTED`.")
    .example(&[("DELAY.NACK pay p7 7549747200000000001 IN 10s ERROR \"503 from bank\"", "(integer) 1")])
    .parse(parse_nack),
    row("delay.extend", "Moves the end of a running lease", CommandSpec::OF_QUEUE)
        .arguments(&[
            QUEUE,
            ID,
            TOKEN,
            Argument::new("duration", ArgumentKind::Duration)
                .about("From now: 1ms to `max-lease` (24h)."),
        ])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Update)
        .reply("Integer: the new end of the lease, unix ms. Nil if the token is not that of a running lease.")
        .example(&[("DELAY.EXTEND pay p7 7549747200000000001 1m", "(integer) 1800000060000")])
        .parse(parse_extend),
];

fn parse_pop<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queues = args.queues_but(1)?;
    let wait = args.timeout()?;
    Ok(Action::Engine(Request::Pop { db: args.db(), queues, wait }))
}

fn parse_reserve<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let wait = args.timeout()?;
    let queues = args.counted_queues()?;
    parse_leases(args, queues, wait)
}

fn parse_lease<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queues = args.queues_but(args.left().saturating_sub(1))?;
    let wait = args.timeout()?;
    parse_leases(args, queues, wait)
}

/// The options of a command that leases, and the whole of it.
fn parse_leases<'a>(
    args: &mut Args<'a>,
    queues: &'a [&'a [u8]],
    wait: Wait,
) -> Result<Action<'a>, Error> {
    let mut reserve = Reserve {
        db: args.db(),
        queues,
        wait,
        count: 1,
        lease_ms: None,
        no_ack: false,
        bound: false,
        meta: false,
    };
    while let Some(option) = args.option()? {
        match option {
            "COUNT" => reserve.count = args.count("count")?,
            "LEASE" => reserve.lease_ms = Some(args.duration("lease", 1)?),
            "NOACK" => reserve.no_ack = true,
            "BOUND" => reserve.bound = true,
            "META" => reserve.meta = true,
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Engine(Request::Reserve(reserve)))
}

fn parse_ack<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    if !args.left().is_multiple_of(2) {
        return Err(Error::text("ERR syntax error: every id needs its token"));
    }
    let mut jobs = Vec::with_capacity(args.left() / 2);
    while args.left() > 0 {
        jobs.push((args.id()?, args.token()?));
    }
    Ok(Action::Engine(Request::Ack { queue, jobs }))
}

fn parse_nack<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut nack = Nack {
        queue: args.queue()?,
        id: args.id()?,
        token: args.token()?,
        when: None,
        bury: false,
        uncounted: false,
        priority: None,
        error: None,
    };
    while let Some(option) = args.option()? {
        match option {
            "IN" => nack.when = Some(args.when()?),
            "BURY" => nack.bury = true,
            "UNCOUNTED" => nack.uncounted = true,
            "PRIORITY" => nack.priority = Some(args.priority()?),
            "ERROR" => {
                // A worker that gives up must not fail for a long stack trace.
                nack.error = Some(cut(args.word("error")?, ERROR_TEXT_BYTES_MAX));
            }
            _ => return Err(args.unknown_option()),
        }
    }
    if nack.bury && (nack.when.is_some() || nack.uncounted) {
        return Err(Error::text("ERR syntax error: BURY excludes IN and UNCOUNTED"));
    }
    Ok(Action::Engine(Request::Nack(nack)))
}

fn parse_extend<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, id, token) = (args.queue()?, args.id()?, args.token()?);
    let lease_ms = args.duration("duration", 1)?;
    Ok(Action::Engine(Request::Extend { queue, id, token, lease_ms }))
}

/// The first `bytes_max` bytes of `text`, or up to three fewer if they would end inside a character of UTF-8. Invalid
/// UTF-8 is cut at the byte.
fn cut(text: &[u8], bytes_max: usize) -> &[u8] {
    let Some(kept) = text.get(..bytes_max) else { return text };
    let whole = |text: &[u8]| std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), str::len);
    // A character that begins before the cut ends at most three bytes after it.
    let reach = whole(&text[..text.len().min(bytes_max + 3)]);
    if reach > bytes_max { &kept[..whole(kept)] } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        // 400 of three bytes: 341 of them have 1,023.
        let euros = "€".repeat(400);
        assert_eq!(cut(euros.as_bytes(), 1024), "€".repeat(341).as_bytes());
        assert_eq!(cut(euros.as_bytes(), 1023).len(), 1023);
        assert_eq!(cut("ab𝄞".as_bytes(), 5), b"ab");
        assert_eq!(cut("ab𝄞".as_bytes(), 6), "ab𝄞".as_bytes());
        assert_eq!(cut("ab𝄞c".as_bytes(), 3), b"ab");
        assert_eq!(cut(b"abc", 3), b"abc");
        assert_eq!(cut(b"abc", 2), b"ab");
        // No UTF-8 before the cut, at it, or a character that its text ends in.
        assert_eq!(cut(b"\xff\xe2\x82\xac", 3), b"\xff\xe2\x82");
        assert_eq!(cut(b"a\xe2\x82x", 3), b"a\xe2\x82");
        assert_eq!(cut(b"a\xe2\x82", 2), b"a\xe2");
        // Bytes after the cut do not count.
        assert_eq!(cut(b"a\xe2\x82\xac\xff", 3), b"a");
    }
}
