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
use crate::console::words::value::Value;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
pub use plan::{Plan, plan};

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
    let message = match replies.iter().find_map(Value::error) {
        Some(error) => ActionResult::refused(&error),
        None => (plan.told)(&asked.params, &replies),
    };
    note(asked, verb, &message);
    Some(message)
}

/// One line for every change, without bodies and passwords.
fn note(asked: &SessionRequest, verb: &str, message: &ActionResult) {
    let word = |name| asked.params.bytes(name).unwrap_or_default().escape_ascii().to_string();
    tracing::info!(
        user = %asked.session.user.escape_ascii(),
        address = %asked.session.ends.peer,
        db = asked.params.db(),
        queue = word("queue"),
        id = word("id"),
        of = ["schedule", "option", "client"].map(word).concat(),
        selected = asked.params.encoded("selected").len(),
        done = message.fine,
        "console: {verb}"
    );
}
