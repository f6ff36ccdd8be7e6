//! Actions: what a form asks for as commands, and what came of it in plain words.
//!
//! Every change is a POST to `/do/VERB`. A [`Plan`], made from the form alone, gives its commands; the server decides,
//! and its refusal is shown unchanged.

mod bulk;
mod plan;

use super::login;
use crate::console::site::SessionRequest;
use crate::console::view::chrome::ActionResult;
use crate::console::view::response::problem;
use crate::console::words::value::{Value, command};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
pub use plan::{Plan, plan};

/// Bytes of the ids in a line of the log.
const IDS_BYTES_MAX: usize = 4 << 10;

/// Does what a form of the session asks for, and shows the page it came from.
pub async fn answer(asked: SessionRequest) -> Response {
    let Some(verb) = asked.path.strip_prefix("/do/") else {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to do here.");
    };
    let message = match asked.site.options.readonly {
        true => ActionResult::refused(
            "The console is read-only (console-readonly), so nothing was changed.",
        ),
        false => match act(&asked, verb).await {
            Some(message) => message,
            None => return asked.over(),
        },
    };
    asked.site.kept.forget(&asked.session.user);
    asked.session.say(message);
    Redirect::to(login::way_back(&asked.params)).into_response()
}

/// The result; none if the session is over.
async fn act(asked: &SessionRequest, verb: &str) -> Option<ActionResult> {
    if verb == "bulk" {
        return bulk::act(asked).await;
    }
    let plan = match plan(verb, &asked.params) {
        Ok(plan) => plan,
        Err(text) => return Some(ActionResult::refused(&text)),
    };
    let replies = asked.session.ask(asked.params.db(), plan.commands).await.ok()?;
    let mut message = match replies.iter().find_map(Value::error) {
        Some(error) => ActionResult::refused(&error),
        None => (plan.told)(&asked.params, &replies),
    };
    let ids: Vec<Bytes> = asked.params.encoded("selected").into_iter().map(Bytes::from).collect();
    note(asked, verb, &message, "", &ids);
    if verb == "run" && message.fine {
        message = ran(asked).await?;
    }
    Some(message)
}

/// What has become of a job that was made due: with a worker waiting it is gone from here at once.
async fn ran(asked: &SessionRequest) -> Option<ActionResult> {
    let field = |name| asked.params.bytes(name).unwrap_or_default();
    let get = command!["DELAY.GET", field("queue"), field("id")];
    let reply = asked.session.ask(asked.params.db(), vec![get]).await.ok()?.pop()?;
    Some(ActionResult::done(after_run(&reply)))
}

fn after_run(job: &Value) -> &'static str {
    match (job, job.field("state").text()) {
        (Value::Null, _) => {
            "The job was due at once: a worker has taken it, and it is gone from the queue."
        }
        (_, Some("leased")) => "The job was due at once: a worker has it.",
        _ => "The job is due now.",
    }
}

/// The ids of a list for the log, as many as a line holds.
fn listed(ids: &[Bytes]) -> String {
    let mut text = String::new();
    for (at, id) in ids.iter().enumerate() {
        let id = id.escape_ascii().to_string();
        if text.len() + id.len() > IDS_BYTES_MAX {
            text.push_str(&format!(" and {} more", ids.len() - at));
            break;
        }
        text.push_str(if at > 0 { " " } else { "" });
        text.push_str(&id);
    }
    text
}

/// One line for every change, without bodies and passwords: with the `filter` that found its jobs, and their `ids`.
fn note(asked: &SessionRequest, verb: &str, message: &ActionResult, filter: &str, ids: &[Bytes]) {
    let word = |name| asked.params.bytes(name).unwrap_or_default().escape_ascii().to_string();
    tracing::info!(
        user = %asked.session.user.escape_ascii(),
        address = %asked.session.ends.peer,
        db = asked.params.db(),
        queue = word("queue"),
        id = word("id"),
        of = ["schedule", "option", "client"].map(word).concat(),
        selected = ids.len(),
        ids = listed(ids),
        filter,
        done = message.fine,
        "console: {verb}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::tests::{map, text};

    #[test]
    fn a_job_that_is_taken_at_once_is_said_to_be() {
        assert!(after_run(&Value::Null).contains("has taken it"));
        assert!(after_run(&map(&[("state", text("leased"))])).contains("a worker has it"));
        assert_eq!(after_run(&map(&[("state", text("ready"))])), "The job is due now.");
    }

    #[test]
    fn the_log_has_the_ids_of_a_change_or_how_many_it_leaves_out() {
        let ids = |count: usize| vec![Bytes::from_static(b"a\n\xff"); count];
        assert_eq!(listed(&ids(2)), "a\\n\\xff a\\n\\xff");
        let many = listed(&ids(1_000));
        assert!(many.len() < IDS_BYTES_MAX + 64 && many.ends_with(" more"), "{}", many.len());
    }
}
