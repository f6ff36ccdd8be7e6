//! The actions, each as the commands it is and the words for what came of it.

use crate::console::view::chrome::ActionResult;
use crate::console::view::parts::{counted, grouped};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::params::{SETTINGS, rule};
use crate::console::words::value::{Command, Value, command};
use crate::limits::CONSOLE_SELECTED_MAX;
use bytes::Bytes;

/// The words for what came of an action, from its form and the replies.
type Told = Box<dyn Fn(&Params, &[Value]) -> ActionResult + Send>;

/// The request of a form.
pub struct Plan {
    /// In order; sent at once.
    pub commands: Vec<Command>,
    /// The message if none of them was refused.
    pub told: Told,
}

type Made = Result<Plan, String>;

const NOT_WAITING: &str = "The job is no longer delayed or ready, so nothing was changed.";

/// The plan of an action.
///
/// # Errors
/// There is no such action, or a field is missing or wrong: in words for a person.
pub fn plan(verb: &str, params: &Params) -> Made {
    let of = |word: &str| -> Result<Command, String> {
        Ok(command!["DELAY.SCHEDULE", word, queue(params)?, name(params)?])
    };
    match verb {
        "add" => add(params),
        "run" => either(
            command!["DELAY.RESCHEDULE", queue(params)?, id(params)?, "0"],
            NOT_WAITING,
            "The job is due now.",
        ),
        "move" => either(
            command!["DELAY.RESCHEDULE", queue(params)?, id(params)?, field(params, "when")?],
            NOT_WAITING,
            "The job has its new time.",
        ),
        "cancel" => cancel(params),
        "bury" => bury(params),
        "redrive" => redrive(params),
        "redrive-error" => redrive_error(params),
        "remove" => remove(params),
        "purge" => purge(params),
        "pause" => pause(params),
        "resume" => resume(params),
        "group" => set_group(params),
        "settings" => settings(params),
        "reset" => said(
            command!["DELAY.CONFIG", "RESET", queue(params)?],
            "The queue has the default settings again.",
        ),
        // Never over another queue: that would destroy its jobs.
        "rename" => either(
            command!["RENAMENX", queue(params)?, field(params, "to")?],
            "A queue of that name already exists, so nothing was changed.",
            "The queue has its new name.",
        ),
        "delete" => delete(params),
        "schedule" => schedule(params),
        "schedule-run" => one(of("RUN")?, ran_told),
        "schedule-pause" => said(of("PAUSE")?, "The schedule is paused."),
        "schedule-resume" => said(of("RESUME")?, "The schedule is resumed."),
        "schedule-remove" => {
            said(of("DEL")?, "The schedule is removed; the jobs it has made stay.")
        }
        "kill" => either(
            command!["CLIENT", "KILL", "ID", field(params, "client")?],
            "The client no longer exists.",
            "The client is disconnected.",
        ),
        "config" => {
            let value = params.bytes("value").unwrap_or_default();
            said(
                command!["CONFIG", "SET", field(params, "option")?, value],
                "The option is set until a restart; CONFIG REWRITE keeps it.",
            )
        }
        _ => Err("There is no such action.".to_owned()),
    }
}

fn one(
    command: Command,
    told: impl Fn(&Params, &[Value]) -> ActionResult + Send + 'static,
) -> Made {
    Ok(Plan { commands: vec![command], told: Box::new(told) })
}

/// One of which there is only one thing to say.
fn said(command: Command, done: &'static str) -> Made {
    one(command, move |_, _| ActionResult::done(done))
}

/// One whose reply counts: 0 means that nothing was done.
fn either(command: Command, none: &'static str, done: &'static str) -> Made {
    one(command, move |_, replies| match number(replies) {
        0 => ActionResult::refused(none),
        _ => ActionResult::done(done),
    })
}

fn field<'a>(params: &'a Params, name: &str) -> Result<&'a [u8], String> {
    params.bytes(name).ok_or_else(|| format!("The field {name} is empty."))
}

fn queue(params: &Params) -> Result<&[u8], String> {
    field(params, "queue")
}

fn id(params: &Params) -> Result<&[u8], String> {
    field(params, "id")
}

fn name(params: &Params) -> Result<&[u8], String> {
    field(params, "schedule")
}

/// IN, OUT or ALL.
fn side(params: &Params) -> &'static str {
    match params.text("side") {
        Some("in") => "IN",
        Some("out") => "OUT",
        _ => "ALL",
    }
}

fn number(replies: &[Value]) -> u64 {
    replies.first().and_then(Value::number).unwrap_or(0)
}

fn add(params: &Params) -> Made {
    let body = params.bytes("body").unwrap_or_default();
    let mut asked = command!["DELAY.ADD", queue(params)?, field(params, "when")?, body];
    let more = [("id", "ID"), ("priority", "PRIORITY"), ("attempts", "ATTEMPTS"), ("ttl", "TTL")];
    asked.extend(params.options(&more));
    one(asked, |_, replies| {
        let id = replies.first().and_then(Value::bytes).unwrap_or_default();
        ActionResult::done(format!("Added as {}.", escape::text(id)))
    })
}

fn cancel(params: &Params) -> Made {
    let mut asked = command!["DELAY.CANCEL", queue(params)?, id(params)?];
    if params.has("force") {
        asked.extend(command!["FORCE"]);
    }
    one(asked, |params, replies| match replies.first().and_then(Value::text) {
        Some("leased") if params.has("force") => ActionResult::done(
            "Cancelled. Its worker continues, but its acknowledgement is ignored.",
        ),
        Some("leased") => ActionResult::refused("A worker has it now, so it was left alone."),
        Some(state) => ActionResult::done(format!("Cancelled; it was {state}.")),
        None => ActionResult::refused("The job no longer exists."),
    })
}

fn bury(params: &Params) -> Made {
    let token = field(params, "lease")?;
    let mut asked = command!["DELAY.NACK", queue(params)?, id(params)?, token];
    asked.extend(command!["BURY", "ERROR", "buried from the console"]);
    either(
        asked,
        "Its lease has ended, so nothing was changed.",
        "Buried: it is dead until it is redriven.",
    )
}

/// All that are dead of an error.
fn redrive_error(params: &Params) -> Made {
    let error = field(params, "error")?;
    let mut asked = command!["DELAY.BULK", queue(params)?, "REDRIVE", "ERROR", error];
    asked.extend(params.options(&[("over", "OVER")]));
    one(asked, |params, replies| match number(replies) {
        0 => ActionResult::refused("No job is dead of it any longer, so nothing was changed."),
        moved => {
            let over = params.text("over").map_or(String::new(), |span| format!(" over {span}"));
            let moved = counted(moved, "job was", "jobs were");
            ActionResult::done(format!("{moved} redriven{over}."))
        }
    })
}

fn redrive(params: &Params) -> Made {
    let mut asked = command!["DELAY.REDRIVE", queue(params)?];
    let ids = params.encoded("selected");
    if ids.len() > CONSOLE_SELECTED_MAX {
        return Err(format!(
            "{} jobs are selected; at most {CONSOLE_SELECTED_MAX} can be redriven at once.",
            ids.len()
        ));
    }
    if params.has("chosen") && ids.is_empty() {
        return Err("No job is selected.".to_owned());
    }
    if let Some(id) = params.bytes("id") {
        asked.extend(command!["IDS", "1", id]);
    } else if !ids.is_empty() {
        asked.extend(command!["IDS", ids.len().to_string()]);
        asked.extend(ids.into_iter().map(Bytes::from));
    } else {
        asked.extend(params.options(&[("count", "COUNT")]));
    }
    asked.extend(params.options(&[("when", "IN")]));
    if params.has("keep") {
        asked.extend(command!["KEEP-ATTEMPTS"]);
    }
    one(asked, |params, replies| {
        let (moved, wanted) = (number(replies), params.encoded("selected").len() as u64);
        let others = wanted.saturating_sub(moved);
        match (moved, others) {
            (0, _) => {
                ActionResult::refused("None of them is dead any longer, so nothing was changed.")
            }
            (moved, 0) => {
                ActionResult::done(format!("{} redriven.", counted(moved, "job was", "jobs were")))
            }
            (moved, others) => ActionResult::done(format!(
                "{} redriven; {} no longer dead.",
                counted(moved, "job was", "jobs were"),
                counted(others, "was", "were"),
            )),
        }
    })
}

/// Selected jobs, whatever their state; leased ones stay.
fn remove(params: &Params) -> Made {
    let ids = params.encoded("selected");
    if ids.is_empty() || ids.len() > CONSOLE_SELECTED_MAX {
        return Err(format!(
            "Select 1 to {CONSOLE_SELECTED_MAX} jobs; {} are selected.",
            ids.len()
        ));
    }
    let mut asked = command!["DELAY.DEL", queue(params)?];
    asked.extend(ids.into_iter().map(Bytes::from));
    one(asked, |params, replies| {
        let (removed, wanted) = (number(replies), params.encoded("selected").len() as u64);
        let text = format!("{} removed.", counted(removed, "job was", "jobs were"));
        match wanted.saturating_sub(removed) {
            0 => ActionResult::done(text),
            left => {
                ActionResult::done(format!("{text} {left} no longer exist, or a worker has them."))
            }
        }
    })
}

fn purge(params: &Params) -> Made {
    let states: Vec<&str> = ["delayed", "ready", "leased", "dead"]
        .into_iter()
        .filter(|state| params.has(state))
        .collect();
    if states.is_empty() {
        return Err("Choose the states of the jobs to remove.".to_owned());
    }
    typed(params)?;
    let mut asked = command!["DELAY.PURGE", queue(params)?];
    asked.extend(states.iter().map(|state| Bytes::copy_from_slice(state.as_bytes())));
    one(asked, |params, replies| {
        let removed = number(replies);
        let text = format!("{} removed.", counted(removed, "job was", "jobs were"));
        match params.number("seen").filter(|seen| *seen != removed) {
            Some(seen) => ActionResult::done(format!(
                "{text} There were {} when the page was loaded.",
                grouped(seen)
            )),
            None => ActionResult::done(text),
        }
    })
}

/// An action that destroys a queue's jobs needs its name, typed as it is shown; a form about dead jobs alone does not
/// ask for it.
fn typed(params: &Params) -> Result<(), String> {
    let only_dead =
        params.has("dead") && !["delayed", "ready", "leased"].iter().any(|state| params.has(state));
    if only_dead && !params.has("typed") {
        return Ok(());
    }
    let name = queue(params)?;
    match params.bytes("typed") {
        Some(typed) if typed == name || typed == escape::text(name).as_bytes() => Ok(()),
        _ => Err("The name you typed is not the queue's, so nothing was changed.".to_owned()),
    }
}

fn resume(params: &Params) -> Made {
    let mut asked = command!["DELAY.RESUME", queue(params)?, side(params)];
    if let Some(group) = params.bytes("group") {
        asked = command!["DELAY.RESUME", queue(params)?, "GROUP", group];
    }
    said(asked, "It is resumed.")
}

fn set_group(params: &Params) -> Made {
    let group = field(params, "name")?;
    let mut asked = command!["DELAY.CONFIG", "SET", queue(params)?, "GROUP", group];
    let names = ["group-max-leased", "group-rate", "group-weight"];
    asked.extend(params.options(&names.map(|name| (name, name))));
    if asked.len() == 5 {
        return Err("Nothing was entered for the group.".to_owned());
    }
    one(asked, |params, _| {
        let group = escape::text(params.bytes("name").unwrap_or_default());
        ActionResult::done(format!("It is set for the group {group}."))
    })
}

fn pause(params: &Params) -> Made {
    if let Some(group) = params.bytes("group") {
        let mut asked = command!["DELAY.PAUSE", queue(params)?, "GROUP", group];
        asked.extend(params.options(&[("for", "FOR")]));
        return said(asked, "The group is paused: its jobs wait.");
    }
    let names = params.encoded("selected");
    let names = if names.is_empty() { vec![queue(params)?.to_vec()] } else { names };
    if names.len() > crate::limits::CONSOLE_PIPELINE_MAX - 2 {
        return Err("Too many queues are selected.".to_owned());
    }
    let commands = names.iter().map(|name| {
        let mut asked = command!["DELAY.PAUSE", name, side(params)];
        asked.extend(params.options(&[("for", "FOR")]));
        if params.has("resume") { command!["DELAY.RESUME", name, side(params)] } else { asked }
    });
    Ok(Plan { commands: commands.collect(), told: Box::new(paused_told) })
}

fn paused_told(params: &Params, replies: &[Value]) -> ActionResult {
    let count = counted(replies.len() as u64, "queue is", "queues are");
    if params.has("resume") {
        return ActionResult::done(format!("{count} resumed."));
    }
    let what = match side(params) {
        "IN" => "accepts no jobs",
        "OUT" => "hands out no jobs",
        _ => "accepts and hands out no jobs",
    };
    let until =
        params.text("for").map_or("until it is resumed".to_owned(), |span| format!("for {span}"));
    ActionResult::done(format!("{count} paused: each {what}, {until}."))
}

fn settings(params: &Params) -> Made {
    let mut asked = command!["DELAY.CONFIG", "SET", queue(params)?];
    for name in SETTINGS {
        // Only changed fields: the form sends the previous value of each field.
        let (now, before) = (params.bytes(name), params.bytes(&format!("was-{name}")));
        if let Some(value) = now.filter(|_| now != before) {
            asked.extend(command![name, value]);
        }
    }
    if asked.len() == 3 {
        return Err("Nothing was changed in the form.".to_owned());
    }
    said(asked, "The settings are saved.")
}

fn delete(params: &Params) -> Made {
    if params.bytes("typed").is_none() {
        return Err("The name you typed is not the queue's, so nothing was changed.".to_owned());
    }
    typed(params)?;
    either(
        command!["DEL", queue(params)?],
        "The queue no longer exists.",
        "The queue is deleted with its jobs, settings and schedules.",
    )
}

fn schedule(params: &Params) -> Made {
    // A browser sends line breaks as CR LF. Bytes that no form can carry come encoded.
    let typed = || {
        let body = params.bytes("body").unwrap_or_default();
        let is_break = |at: usize| body[at] == b'\r' && body.get(at + 1) == Some(&b'\n');
        (0..body.len()).filter(|at| !is_break(*at)).map(|at| body[at]).collect::<Vec<u8>>()
    };
    let body = params.encoded("kept-body").into_iter().next().unwrap_or_else(typed);
    let mut asked = command!["DELAY.SCHEDULE", "SET", queue(params)?, name(params)?, body];
    asked.extend(rule(params)?);
    let more = [
        ("overlap", "OVERLAP"),
        ("spread", "SPREAD"),
        ("catchup", "CATCHUP"),
        ("runs", "RUNS"),
        ("until", "UNTIL"),
        ("from", "FROM"),
        ("grace", "GRACE"),
        ("priority", "PRIORITY"),
        ("attempts", "ATTEMPTS"),
        ("backoff", "BACKOFF"),
        ("lease", "LEASE"),
        ("ttl", "TTL"),
    ];
    asked.extend(params.options(&more));
    said(asked, "The schedule is set.")
}

fn ran_told(_: &Params, replies: &[Value]) -> ActionResult {
    match replies.first() {
        Some(Value::Null) | None => ActionResult::refused("The schedule no longer exists."),
        Some(Value::Text(id)) => {
            ActionResult::done(format!("It made the job {}.", escape::text(id)))
        }
        Some(_) => ActionResult::done("It made its job."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(verb: &str, form: &str) -> Result<Vec<Vec<String>>, String> {
        let plan = plan(verb, &Params::read(form.as_bytes()))?;
        let words =
            |command: Command| command.iter().map(|word| word.escape_ascii().to_string()).collect();
        Ok(plan.commands.into_iter().map(words).collect())
    }

    fn told(verb: &str, form: &str, replies: &[Value]) -> ActionResult {
        let params = Params::read(form.as_bytes());
        (plan(verb, &params).unwrap_or_else(|error| panic!("{error}")).told)(&params, replies)
    }

    #[test]
    fn forms_become_commands() {
        for (verb, form, words) in [
            ("run", "queue=q&id=%ff", "DELAY.RESCHEDULE q \\xff 0"),
            ("cancel", "queue=q&id=7&force=1", "DELAY.CANCEL q 7 FORCE"),
            (
                "redrive",
                "queue=q&selected=a&selected=%25ff&when=5m",
                "DELAY.REDRIVE q IDS 2 a \\xff IN 5m",
            ),
            (
                "redrive-error",
                "queue=q&error=a+%23&over=10m",
                "DELAY.BULK q REDRIVE ERROR a # OVER 10m",
            ),
            ("redrive", "queue=q&count=5&keep=1", "DELAY.REDRIVE q COUNT 5 KEEP-ATTEMPTS"),
            ("purge", "queue=q&dead=1", "DELAY.PURGE q dead"),
            ("pause", "queue=q&side=out&for=5m", "DELAY.PAUSE q OUT FOR 5m"),
            ("pause", "queue=q&group=a%ff&for=10m", "DELAY.PAUSE q GROUP a\\xff FOR 10m"),
            ("resume", "queue=q&group=a", "DELAY.RESUME q GROUP a"),
            (
                "group",
                "queue=q&name=acme&group-max-leased=5&group-rate=&group-weight=2",
                "DELAY.CONFIG SET q GROUP acme group-max-leased 5 group-weight 2",
            ),
            (
                "settings",
                "queue=q&rate=5&was-rate=0&lease=60s&was-lease=60s",
                "DELAY.CONFIG SET q rate 5",
            ),
            (
                "schedule",
                "queue=q&schedule=s&body=b&cron=0+8+*+*+*&zone=UTC",
                "DELAY.SCHEDULE SET q s b CRON 0 8 * * * TZ UTC",
            ),
            (
                "schedule",
                "queue=q&schedule=s&body=a%0D%0Ab%0D&every=5m&grace=1m&ttl=1h",
                "DELAY.SCHEDULE SET q s a\\nb\\r EVERY 5m GRACE 1m TTL 1h",
            ),
            (
                "schedule",
                "queue=q&schedule=s&body=x&kept-body=%25ff%250D%250A&every=5m",
                "DELAY.SCHEDULE SET q s \\xff\\r\\n EVERY 5m",
            ),
            ("add", "queue=q&when=5s&body=&id=x", "DELAY.ADD q 5s  ID x"),
        ] {
            assert_eq!(
                commands(verb, form).map(|all| all[0].join(" ")),
                Ok(words.to_owned()),
                "{verb} {form}"
            );
        }
    }

    #[test]
    fn a_queue_is_never_renamed_over_another() {
        assert_eq!(commands("rename", "queue=q&to=r").unwrap()[0].join(" "), "RENAMENX q r");
        assert!(!told("rename", "queue=q&to=r", &[Value::Int(0)]).fine);
    }

    #[test]
    fn what_destroys_a_queue_needs_its_name() {
        for (verb, form) in [
            ("purge", "queue=q&ready=1"),
            ("purge", "queue=q&ready=1&typed=other"),
            ("purge", "queue=q&dead=1&typed=other"),
            ("purge", "queue=q"),
            ("delete", "queue=q"),
            ("delete", "queue=q&dead=1"),
            ("redrive", "queue=q&chosen=1"),
            ("settings", "queue=q&rate=5&was-rate=5"),
            ("group", "queue=q&name=acme&group-rate="),
            ("group", "queue=q&group-rate=5"),
            ("schedule", "queue=q&schedule=s&every=5s&cron=*"),
            ("nothing", ""),
        ] {
            assert!(commands(verb, form).is_err(), "{verb} {form}");
        }
        assert!(commands("purge", "queue=q&ready=1&typed=q").is_ok());
        assert!(commands("delete", "queue=q&typed=q").is_ok());
    }

    #[test]
    fn what_happened_is_told_with_what_was_seen() {
        let text = told("purge", "queue=q&dead=1&seen=1204", &[Value::Int(1198)]).text;
        assert_eq!(text, "1,198 jobs were removed. There were 1,204 when the page was loaded.");
        let text = told("redrive", "queue=q&selected=a&selected=b", &[Value::Int(1)]).text;
        assert_eq!(text, "1 job was redriven; 1 was no longer dead.");
        assert!(!told("run", "queue=q&id=a", &[Value::Int(0)]).fine);
        assert!(!told("cancel", "queue=q&id=a", &[Value::Text("leased".into())]).fine);
    }
}
