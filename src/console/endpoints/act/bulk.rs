//! One action for all jobs that a filter finds, some thousand at a time.

use super::note;
use crate::console::pages::filter;
use crate::console::pages::search::is_for;
use crate::console::site::SessionRequest;
use crate::console::view::chrome::ActionResult;
use crate::console::view::parts::{counted, grouped};
use crate::console::words::value::{Command, Value, command};
use crate::limits::{CONSOLE_PIPELINE_MAX, CONSOLE_SELECTED_MAX};
use bytes::Bytes;

/// Cancels, runs or redrives up to 1,000 jobs of the form's filter; none if the session is over. A command for each
/// job, so that each is decided as it is then: what a worker has taken meanwhile is left alone.
pub async fn act(asked: &SessionRequest) -> Option<ActionResult> {
    let what = asked.params.text("what").unwrap_or_default();
    if !["cancel", "run", "redrive"].contains(&what) {
        return Some(ActionResult::refused("There is no such action."));
    }
    let Some(queue) = asked.params.bytes("queue") else {
        return Some(ActionResult::refused("The field queue is empty."));
    };
    let db = asked.params.db();
    let (mut ids, mut cursor) = (Vec::new(), Bytes::from_static(b"0"));
    loop {
        let scan = filter::scan(&asked.params, queue, &cursor);
        let replies = asked.session.ask(db, vec![scan]).await.ok()?;
        let reply = replies.into_iter().next()?;
        if let Some(error) = reply.error() {
            return Some(ActionResult::refused(&error));
        }
        let [next, found] = reply.items() else {
            return Some(ActionResult::refused("The server's reply has an unexpected form."));
        };
        ids.extend(found.items().iter().filter_map(|job| {
            let [id, state, _] = job.items() else { return None };
            is_for(what, state.text()?).then_some(Bytes::copy_from_slice(id.bytes()?))
        }));
        cursor = Bytes::copy_from_slice(next.bytes()?);
        if &cursor[..] == b"0" || ids.len() >= CONSOLE_SELECTED_MAX {
            break;
        }
    }
    let more = ids.len() > CONSOLE_SELECTED_MAX || &cursor[..] != b"0";
    ids.truncate(CONSOLE_SELECTED_MAX);
    let message = run(asked, what, queue, &ids, more).await?;
    note(asked, &format!("{what} of {} found", ids.len()), &message, &told(asked), &ids);
    Some(message)
}

/// The filter in words, for the log.
fn told(asked: &SessionRequest) -> String {
    let words = filter::words(&asked.params).into_iter();
    words.map(|(word, said)| format!("{word}: {said}")).collect::<Vec<_>>().join("; ")
}

async fn run(
    asked: &SessionRequest,
    what: &str,
    queue: &[u8],
    ids: &[Bytes],
    more: bool,
) -> Option<ActionResult> {
    let mut done = 0;
    for some in ids.chunks(CONSOLE_PIPELINE_MAX - 1) {
        let commands = some.iter().map(|id| command(what, queue, id)).collect();
        let replies = asked.session.ask(asked.params.db(), commands).await.ok()?;
        if let Some(error) = replies.iter().find_map(Value::error) {
            return Some(ActionResult::refused(&format!(
                "{} done, then: {error}",
                counted(done, "was", "were")
            )));
        }
        done += replies.iter().filter(|reply| is_done(reply)).count() as u64;
    }
    let word = match what {
        "cancel" => "cancelled",
        "run" => "made due now",
        _ => "redriven",
    };
    let left = ids.len() as u64 - done;
    let mut text = format!("{} {word}.", counted(done, "job was", "jobs were"));
    if left > 0 {
        text.push_str(&format!(" {} had changed meanwhile and was left alone.", grouped(left)));
    }
    if more {
        text.push_str(" There are more: repeat it.");
    }
    Some(ActionResult { fine: done > 0 || left == 0, text })
}

fn command(what: &str, queue: &[u8], id: &Bytes) -> Command {
    match what {
        "cancel" => command!["DELAY.CANCEL", queue, id],
        "run" => command!["DELAY.RESCHEDULE", queue, id, "0"],
        _ => command!["DELAY.REDRIVE", queue, "IDS", "1", id],
    }
}

/// 1, or the state in which a job was that is gone.
fn is_done(reply: &Value) -> bool {
    match reply {
        Value::Int(count) => *count > 0,
        Value::Text(state) => &state[..] != b"leased",
        _ => false,
    }
}
