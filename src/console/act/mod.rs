//! Actions: what a form asks for as commands, and what came of it in plain words.
//!
//! Every change is a POST to `/do/VERB`. Which commands that is says a [`Plan`], made of the form alone; the server
//! decides, and its refusal is told as it stands.

mod bulk;
mod plan;

use super::frame::Message;
use super::login;
use super::site::{Asked, problem};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
pub use plan::{Plan, SETTINGS, plan, rule};

/// Does what a form of the session asks for, and shows the page it came from.
pub async fn answer(asked: Asked) -> Response {
    match asked.path.as_str() {
        "/logout" => return login::log_out(&asked.site, &asked.session),
        "/theme" => return login::set_theme(&asked.site, asked.session.ends, &asked.params),
        _ => {}
    }
    let Some(verb) = asked.path.strip_prefix("/do/") else {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to do here.");
    };
    let message = match asked.site.options.readonly {
        true => {
            Message::refused("The console is read-only (console-readonly), so nothing was changed.")
        }
        false => match act(&asked, verb).await {
            Some(message) => message,
            None => return asked.over(),
        },
    };
    asked.site.kept.forget(&asked.session.user);
    asked.session.say(message);
    Redirect::to(login::way_back(&asked.params)).into_response()
}

/// What came of it; none if the session is over.
async fn act(asked: &Asked, verb: &str) -> Option<Message> {
    if verb == "bulk" {
        return bulk::act(asked).await;
    }
    let plan = match plan(verb, &asked.params) {
        Ok(plan) => plan,
        Err(text) => return Some(Message::refused(&text)),
    };
    let replies = asked.session.ask(asked.params.db(), plan.commands).await.ok()?;
    let message = match replies.iter().find_map(super::value::Value::error) {
        Some(error) => Message::refused(&error),
        None => (plan.told)(&asked.params, &replies),
    };
    note(asked, verb, &message);
    Some(message)
}

/// One line for every change, without bodies and passwords.
fn note(asked: &Asked, verb: &str, message: &Message) {
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

impl Message {
    /// It was done.
    pub fn done(text: impl Into<String>) -> Message {
        Message { fine: true, text: text.into() }
    }

    /// It was not done.
    pub fn refused(text: &str) -> Message {
        Message { fine: false, text: text.to_owned() }
    }
}
